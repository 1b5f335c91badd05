"""Drill: kill the sequencer that leads, again and again, on one of two hosts; no head of a log is signed twice.

    python -m deploy.drills.signer [--rounds 100] [--pause] [--per-s 2]

The two sequencers have nothing in common but the record, the log key and the database of the signer state. Each round
ends the leader with SIGKILL (with --pause: stops it until the other has taken over, and lets it go on) and takes the
time until the other has signed a head with new entries. A counterfoil-witness gets every head that is seen: it cosigns
only what continues the one before. A takeover of more than five seconds, and a head that the witness refuses, are
amiss.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from statistics import median, quantiles

import httpx
import psycopg

from console.local import servers
from console.local.processes import Child, wait_until
from counterfoil_tlog import notes, submission, tiles
from counterfoil_tlog.submission import Submission
from counterfoil_tlog.tiles import TileAddress
from deploy.drills.drill import Drill, Options
from deploy.drills.installation import DrillFailed, Installation, Shape, kill
from deploy.drills.traffic import Figure, Traffic
from ledger.log.signer_state import read_keys

SIGNERS = ("sequencer", "sequencer2")
WITHIN_S = 5.0
PATIENCE_S = 60.0


class Judge:
    """A witness, and who submits each new head of the tenant's log to it."""

    def __init__(self, place: Installation, traffic: Traffic) -> None:
        self._place, self._traffic = place, traffic
        self._record = psycopg.connect(place.record.primary.url(servers.SUPERUSER, "counterfoil"), autocommit=True)
        [self._origin] = self._record.execute("SELECT origin FROM ledger_log").fetchone() or [""]
        key = read_keys(place.folder / "secrets" / "log_key.pem").current.public_key()
        logs = place.folder / "witnessed.logs"
        logs.write_text(notes.vkey(self._origin, key) + "\n")
        words = [sys.executable, "-m", "counterfoil_witness", "--folder", str(place.folder / "witness")]
        words += ["--name", "witness.example.org/drill", "--logs", str(logs), "--port", "0"]
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._process.stdout.readline()
        self._url = f"http://{self._process.stdout.readline().split()[2].rstrip(',')}"
        self.size = 0
        self.heads = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        with httpx.Client(trust_env=False, timeout=20) as client:
            while not self._ended.wait(0.01):
                self._submit(client)

    def _submit(self, client: httpx.Client) -> None:
        found = self._record.execute("SELECT signed_size, note FROM ledger_tip").fetchone()
        if found is None or found[1] is None or found[0] <= self.size:
            return
        size, note = found[0], bytes(found[1])
        proof = tiles.prove_consistency(self.size, size, self._tiles()) if self.size else []
        body = submission.write(Submission(self.size, tuple(proof), note))
        answer = client.post(self._url + submission.PATH, content=body)
        if answer.status_code != 200:
            self._traffic.amiss.append(f"the witness refused {size} after {self.size}: {answer.text}")
        self.size, self.heads = size, self.heads + 1

    def _tiles(self) -> dict[TileAddress, bytes]:
        rows = self._record.execute("SELECT level, index, hashes FROM ledger_tile").fetchall()
        return {TileAddress(level, index): bytes(hashes) for level, index, hashes in rows}

    def end(self) -> None:
        self._ended.set()
        self._thread.join()
        self._record.close()
        self._process.terminate()
        self._process.wait()


class Takeovers:
    """The rounds of one run of the drill."""

    def __init__(self) -> None:
        self._judge: Judge | None = None
        self._times: list[float] = []

    def one_round(self, place: Installation, traffic: Traffic, options: Options, number: int) -> str:
        # Each round at another moment of the lease.
        time.sleep(1 + number % 10 / 10)
        if not wait_until(lambda: _standing_by(place), within_s=PATIENCE_S):
            raise DrillFailed(f"The second sequencer does not stand by; see {place.log}.")
        self._judge = judge = self._judge or Judge(place, traffic)
        name, leader = _leader(place)
        size, began = judge.size, time.monotonic()
        if options.pause:
            os.kill(leader.process.pid, signal.SIGSTOP)
        else:
            kill(leader)
        wait_until(
            lambda: judge.size > size and _holder(place) != leader.process.pid, within_s=PATIENCE_S, every_s=0.01
        )
        took = time.monotonic() - began
        self._times.append(took)
        asked = "from the fault until the other host has signed new entries"
        traffic.measure(Figure(asked=asked, value=took, most=WITHIN_S))
        if options.pause:
            os.kill(leader.process.pid, signal.SIGCONT)
        else:
            place.restart(name)
        return f"{'paused' if options.pause else 'killed'} {name}, taken over after {took:.2f} s"

    def close(self) -> str:
        assert self._judge is not None
        self._judge.end()
        rank = quantiles(self._times, n=20, method="inclusive") if len(self._times) > 1 else self._times * 19
        return (
            f"takeovers: median {median(self._times):.2f} s, p95 {rank[-1]:.2f} s, longest {max(self._times):.2f} s;"
            f" heads that the witness judged: {self._judge.heads}; load {os.getloadavg()[0]:.1f}"
        )


def _holder(place: Installation) -> int:
    """The process that leads, by the signer state."""
    holder: str = place.ask_state("SELECT holder FROM leader")
    return int(holder.rpartition(":")[2] or 0)


def _leader(place: Installation) -> tuple[str, Child]:
    pid = _holder(place)
    return next((name, place.children[name]) for name in SIGNERS if place.children[name].process.pid == pid)


def _standing_by(place: Installation) -> bool:
    connected = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'counterfoil sequencer'"
    running = {place.children[name].process.pid for name in SIGNERS if place.children[name].running()}
    return len(running) == 2 and place.ask_state(connected) == 2 and _holder(place) in running


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pause", action="store_true", help="pause the leader instead of killing it")


def drill() -> Drill:
    """The drill, for one run."""
    takeovers = Takeovers()
    return Drill(
        name="signer",
        about="Kill the sequencer that leads, on one of two hosts, while work goes on.",
        rounds=100,
        one_round=takeovers.one_round,
        shape=lambda _: Shape(signers=SIGNERS),
        add_options=_add_options,
        close=takeovers.close,
    )


if __name__ == "__main__":
    drill().main()
