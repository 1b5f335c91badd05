"""Drill: move a tenant to a second installation during its work, while each step is killed and run again.

    python -m deploy.drills.move [--for 15] [--kills 2] [--per-s 2]

The first installation has two tenants at work. One is moved as docs/moving-a-tenant.md says; each command is killed
`--kills` times before it may end, and so are the first installation's sequencer and its workers. What was accepted must
be on record there exactly once, nothing is carried out twice, and proofs of before hold under a head that is signed
afterwards. The other tenant may not notice anything.
"""

from __future__ import annotations

import argparse
import copy
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import psycopg

from console.local import servers
from console.local.installation import ROOT
from console.local.processes import Program, spawn, wait_until
from counterfoil_tlog import checkpoint, notes
from counterfoil_tlog.merkle import ProofFails, verify_consistency, verify_inclusion
from deploy.drills.drill import STUCK_AFTER_S, Drill, Options
from deploy.drills.installation import EXECUTORS, DrillFailed, Installation, Shape, kill
from deploy.drills.traffic import Pace, Traffic

FIRST_KILL_S, LATER_BY_S = 0.7, 0.45
"""A command is killed so long after its start, each time a little later: Python alone takes the first part of it."""
DOWN_S = 1.0


def _move(place: Installation, traffic: Traffic, options: Options, number: int) -> str:
    folder = place.folder / "second"
    servers.private_folder(folder, servers.service_user())
    second = Installation(folder, Shape(tenant="second", settings={"COUNTERFOIL_PUBLIC_URL": place.url}))
    place.others.append(second)
    second.begin()
    second.stop_executors()
    neighbour = Neighbour(place)
    neighbour.begin()
    time.sleep(options.for_s)
    seen = _steps(place, second, traffic, options, folder)
    time.sleep(options.for_s)
    seen += f"; the other tenant: {neighbour.finish(traffic)}"
    traffic.finish(still_s=STUCK_AFTER_S)
    _check_record(second, traffic)
    for cell in (place, second):
        for words in (("verify_ledger",), ("verify_ledger", "--log")):
            cell.manage(*words)
    return seen


def _steps(place: Installation, second: Installation, traffic: Traffic, options: Options, folder: Path) -> str:
    offer, taken, statement = folder / "offer.json", folder / "taken", folder / "statement.json"
    proof = Proof(place)
    source, destination = Commands(place, options.kills), Commands(second, options.kills)
    destination.run("move_tenant", "offer", "--cell", "second", "--out", str(offer))
    _give_keys(place, second)
    began = time.monotonic()
    for name in ("sequencer", "worker"):
        kill(place.children[name])
    source.run(
        *("move_tenant", "freeze", "drill", "--to", str(offer), "--cell", "first", "--reason", "A drill."),
        until_killed=lambda: [place.restart(name) for name in ("sequencer", "worker")],
    )
    frozen_at = time.monotonic()
    source.run("move_tenant", "export", "drill", "--out", str(taken))
    manifest = json.loads((taken / "manifest.json").read_bytes())
    destination.run("move_tenant", "import", str(taken))
    missing = destination.refused("move_tenant", "verify", str(taken))
    if "documents" not in missing:
        traffic.amiss.append(f"verify did not name the missing credential: {missing}")
    shutil.copytree(place.folder / "secrets" / "systems" / "drill", second.folder / "secrets" / "systems" / "drill")
    destination.run("move_tenant", "verify", str(taken))
    assert place.proxy is not None
    place.proxy.send_all_to(second.webs["web"])
    source.run("log", "hand-over", "drill", "--statement", str(statement), role="sealing")
    destination.run("log", "take-over", "drill", "--statement", str(statement), role="sealing")
    open_at = time.monotonic()
    _check_address(place, traffic)
    proof.check(second, traffic)
    rows = sum(part["rows"] for part in manifest["tables"].values())
    return (
        f"held for {open_at - began:.1f} s, of which {frozen_at - began:.1f} s until it was frozen;"
        f" {source.killed + destination.killed} commands killed, {rows} rows, {manifest['keys']['rows']} keys"
    )


def _give_keys(place: Installation, second: Installation) -> None:
    for name in ("kek", "registry_key"):
        ours, theirs = (cell.folder / "secrets" / name for cell in (second, place))
        ours.write_text(f"{ours.read_text().strip()}\n{theirs.read_text().strip()}\n")


def _check_address(place: Installation, traffic: Traffic) -> None:
    """Whoever still asks the first installation is told that the tenant has moved."""
    key = place.known["keys"]["oper"]
    address = f"http://127.0.0.1:{place.webs['web']}/api/v1/actions"
    answer = httpx.get(address, headers={"Authorization": f"Bearer {key}"}, timeout=20)
    if answer.status_code != 421:
        traffic.amiss.append(f"the first installation answers {answer.status_code}: {answer.text[:200]}")


def _check_record(second: Installation, traffic: Traffic) -> None:
    """Check that each accepted call is on record at the second installation, and none more often than accepted."""
    address = second.record.primary.url(servers.SUPERUSER, "counterfoil")
    with psycopg.connect(address) as connection:
        rows = connection.execute(
            "SELECT a.id::text, a.target FROM ledger_action a JOIN ledger_tenant t ON t.id = a.tenant_id"
            " WHERE t.slug = 'drill'"
        ).fetchall()
    recorded = {action_id for action_id, _ in rows}
    wishes = list(traffic.wishes.values())
    lost = [each.path for each in wishes for action in each.actions if action not in recorded]
    targets = [target for _, target in rows]
    for path in lost:
        traffic.amiss.append(f"{path} was accepted and is not on record")
    for wish in wishes:
        if sum(wish.path in target for target in targets) > len(wish.actions):
            traffic.amiss.append(f"{wish.path} is on record more often than it was accepted")


class Commands:
    """Commands of one installation's operator, each of which is killed some times before it may end."""

    def __init__(self, place: Installation, kills: int) -> None:
        self.killed = 0
        self._place, self._kills = place, kills

    def run(self, *words: str, role: str = "owners", until_killed: Any = lambda: None) -> None:
        for number in range(self._kills):
            process = self._start(words, role)
            try:
                process.wait(timeout=FIRST_KILL_S + number * LATER_BY_S)
            except subprocess.TimeoutExpired:
                process.kill()
                self.killed += 1
            process.communicate()
        until_killed()
        process = self._start(words, role)
        _, errors = process.communicate()
        if process.returncode != 0:
            raise DrillFailed(f"{' '.join(words[:2])} failed: {errors.strip()[-500:]}")

    def refused(self, *words: str) -> str:
        """Run a command that must be refused, and return its error."""
        process = self._start(words, "owners")
        _, errors = process.communicate()
        return errors if process.returncode else ""

    def _start(self, words: tuple[str, ...], role: str) -> subprocess.Popen[str]:
        place = self._place
        more: dict[str, str] = getattr(place, role)
        return subprocess.Popen(
            [sys.executable, str(ROOT / "manage.py"), *words],
            env=place.environment() | more,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


class Proof:
    """An auditor's proof from before the move: a signed head, and the inclusion of its first entry."""

    def __init__(self, place: Installation) -> None:
        self._key = place.known["keys"]["audit"]
        self._head = self._read_head(place.url)
        said = self._get(place.url, "proof/inclusion", index=0, size=self._head.size).json()
        self._leaf, self._path = bytes.fromhex(said["leaf_hash"]), [bytes.fromhex(each) for each in said["hashes"]]

    def check(self, second: Installation, traffic: Traffic) -> None:
        """The kept proof holds under the kept head, and a head that the second installation has signed continues it."""
        address = f"http://127.0.0.1:{second.webs['web']}"
        if not wait_until(lambda: self._read_head(address).size > self._head.size, within_s=30, every_s=0.2):
            traffic.amiss.append("the second installation signed no later head within 30 s")
            return
        head = self._read_head(address)
        said = self._get(address, "proof/consistency", **{"from": self._head.size, "to": head.size}).json()
        try:
            verify_inclusion(leaf=self._leaf, index=0, size=self._head.size, proof=self._path, root=self._head.root)
            verify_consistency(
                old_size=self._head.size,
                new_size=head.size,
                old_root=self._head.root,
                new_root=head.root,
                proof=[bytes.fromhex(each) for each in said["hashes"]],
            )
        except ProofFails as broken:
            traffic.amiss.append(f"a proof of before the move does not hold: {broken}")

    def _read_head(self, url: str) -> checkpoint.CheckpointBody:
        return checkpoint.parse(notes.parse(self._get(url, "checkpoint").content).text)

    def _get(self, url: str, path: str, **values: Any) -> httpx.Response:
        answer = httpx.get(
            f"{url}/api/v1/ledger/{path}", params=values, headers={"Authorization": f"Bearer {self._key}"}, timeout=20
        )
        answer.raise_for_status()
        return answer


class Neighbour:
    """Another tenant at work at the first installation, with an executor of its own."""

    def __init__(self, place: Installation) -> None:
        mine = copy.copy(place)
        mine.known = json.loads(place.manage("bootstrap", "--tenant", "neighbour", "--messages", "pass", "--json"))
        mine.url = f"http://127.0.0.1:{place.webs['web']}"
        self._issuer = place.url
        self._folder = place.folder / "neighbour"
        mine.documents, mine.effects = self._folder / "documents", self._folder / "effects"
        for each in (self._folder, mine.documents, self._folder / "state"):
            each.mkdir(mode=0o700)
        shutil.copytree(
            place.folder / "secrets" / "systems" / "drill", place.folder / "secrets" / "systems" / "neighbour"
        )
        mine.register()
        self._place = mine
        self._traffic = Traffic(mine, Pace(per_s=1.0))
        self._began = 0.0

    def begin(self) -> None:
        name = EXECUTORS[0]
        program = Program(
            name="executor-neighbour",
            argv=[sys.executable, "-m", "deploy.drills.executor", name, str(self._folder)],
            log=self._place.log / "neighbour.log",
            environment=self._place.environment()
            | {
                "PYTHONPATH": f"{ROOT}:{ROOT / 'client'}",
                # Past the load balancer, which leads to the second installation once the other tenant is there.
                "DRILL_URL": self._place.url,
                "DRILL_ISSUER": self._issuer,
                "DRILL_KEY": self._place.known["keys"]["exec"],
            },
        )
        self._place.children[program.name] = spawn(program)
        self._began = time.time()
        self._traffic.begin()

    def finish(self, whole: Traffic) -> str:
        """Let its work end, and tell what it noticed."""
        self._traffic.finish(still_s=STUCK_AFTER_S)
        count = self._traffic.count()
        denials = self._traffic.denials_since(self._began)
        whole.amiss += [f"the other tenant: {each}" for each in (*count.wrong, *count.lost, *map(str, denials))]
        longest_s = max((took_s for _, took_s in self._traffic.answers), default=0.0)
        return f"{count.wishes} wishes, {len(denials)} refused, longest answer {longest_s:.2f} s"


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--for", type=float, default=15.0, dest="for_s", help="seconds of work before and after the move"
    )
    parser.add_argument("--kills", type=int, default=2, help="how often each command is killed")


DRILL = Drill(
    name="move",
    about="Move a tenant to a second installation while it works.",
    rounds=1,
    one_round=_move,
    shape=lambda _: Shape(fronted=True),
    add_options=_add_options,
)

if __name__ == "__main__":
    DRILL.main()
