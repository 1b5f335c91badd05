"""The witness, as the process that others run (L20)."""

from __future__ import annotations

import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from counterfoil_tlog import notes, submission
from counterfoil_tlog.cosignature import verify_cosignatures
from counterfoil_tlog.merkle import leaf_hash, root_of
from counterfoil_tlog.submission import SIZE_TYPE, add_cosignatures
from tests.support.outside.witnesses import NAME, ROOT, RunningWitness, SomeLog, environment, run, witness

LOGS = [SomeLog(origin=f"console.example.org/log/{number}") for number in range(20)]
unused = iter(LOGS)


@pytest.fixture
def log():
    """A log that the shared witness knows and has not seen yet."""
    return next(unused)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "witness"


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return tmp_path_factory.mktemp("shared") / "witness"


@pytest.fixture(scope="module")
def seen(shared):
    with witness(shared, [log.vkey for log in LOGS]) as running:
        yield running


def size_of(answer: httpx.Response) -> int:
    assert answer.status_code == 409
    assert answer.headers["content-type"] == SIZE_TYPE
    assert answer.content.endswith(b"\n")
    return int(answer.content)


# Every answer


def test_a_head_that_continues_the_last_one_is_cosigned(seen, log):
    """L20: 200, with lines that the rules accept as cosignatures of this witness at this time."""
    before = int(time.time())
    for old, new in [(0, 5), (5, 9), (9, 9), (9, 250)]:
        answer = seen.post(log.body(old, new))
        assert answer.status_code == 200
        note = add_cosignatures(answer.content, notes.parse(log.signed(new)), [seen.key])
        (cosigned,) = verify_cosignatures(note, [seen.key])
        assert cosigned.by.name == NAME
        assert before <= cosigned.seconds <= time.time() + 1


def test_a_log_that_starts_empty_is_cosigned(seen, log):
    assert seen.post(log.body(0, 0)).status_code == 200
    assert seen.post(log.body(0, 1)).status_code == 200


def test_an_unknown_log_is_not_found(seen):
    """L20: 404."""
    assert seen.post(SomeLog(origin="other.example.org/log").body(0, 5)).status_code == 404


def test_a_head_that_the_log_did_not_sign_is_forbidden(seen, log):
    """L20: 403."""
    assert seen.post(SomeLog(origin=log.origin).body(0, 5)).status_code == 403


def test_a_wrong_old_size_is_a_conflict_with_the_right_size(seen, log):
    """L20: 409 with the size as text/x.tlog.size."""
    assert size_of(seen.post(log.body(3, 5))) == 0
    assert seen.post(log.body(0, 7)).status_code == 200
    for old, new in [(0, 9), (5, 9), (8, 9), (0, 3), (3, 7)]:
        assert size_of(seen.post(log.body(old, new))) == 7


def test_an_invalid_proof_is_unprocessable(seen, log):
    """L20: 422, and nothing is remembered of it."""
    assert seen.post(log.body(0, 7)).status_code == 200
    other = SomeLog(origin=log.origin, key=log.key, leaves=[leaf_hash(b"rewritten"), *log.leaves[1:20]])
    for body in (
        other.body(7, 12),
        submission.write(submission.Submission(7, (), log.signed(12))),
        log.body(7, 12).replace(b"old 7\n", b"old 7\n" + b"A" * 43 + b"=\n"),
    ):
        assert seen.post(body).status_code == 422
    assert size_of(seen.post(log.body(0, 12))) == 7
    assert seen.post(log.body(7, 12)).status_code == 200


def test_a_malformed_request_is_bad(seen, log):
    """L20: 400; also when the old size is larger than the new one."""
    good = log.body(0, 7)
    for body in (b"", b"old\n", good[:-1], good.replace(b"old 0", b"old 00"), good.replace(b"old 0", b"old 8")):
        assert seen.post(body).status_code == 400
    assert seen.post(good).status_code == 200


def test_a_fork_is_refused_and_both_heads_are_kept(folder, log):
    """L18: two heads of one size are proof that the log lied, and the witness can show them."""
    with witness(folder, [log.vkey]) as running:
        assert running.post(log.body(0, 7)).status_code == 200
        forked = SomeLog(origin=log.origin, key=log.key, leaves=[leaf_hash(b"rewritten"), *log.leaves[1:20]])
        answer = running.post(submission.write(submission.Submission(7, (), forked.signed(7))))
        assert answer.status_code == 409
        assert answer.headers["content-type"] != SIZE_TYPE
        assert running.post(log.body(7, 9)).status_code == 200
    shown = run(folder, "--heads").stdout
    assert log.signed(9).decode() in shown
    assert forked.signed(7).decode() in shown


@pytest.mark.parametrize("path", ["/", "/add-checkpoint/", "/add-checkpoint?x=1", "/add-entry"])
def test_the_witness_serves_no_other_paths(seen, log, path):
    assert seen.post(log.body(0, 7), path).status_code == 404
    assert httpx.get(seen.url + path, trust_env=False).status_code == 501


def test_the_size_of_a_request_is_limited(seen, log):
    """Too long, of unknown length, or never finished: refused, and the next one is answered."""
    assert seen.post(b"x" * (2**17 + 1)).status_code == 413
    chunked = httpx.post(seen.url + submission.PATH, content=iter([log.body(0, 7)]), trust_env=False)
    assert chunked.status_code == 411
    host, port = seen.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=5) as silent:
        silent.sendall(b"POST /add-checkpoint HTTP/1.1\r\nHost: w\r\nContent-Length: 100\r\n\r\nold 0\n")
        assert seen.post(log.body(0, 7)).status_code == 200


def test_one_connection_serves_many_requests(seen, log):
    with httpx.Client(trust_env=False) as client:
        for old in range(20):
            answer = client.post(seen.url + submission.PATH, content=log.body(old, old + 1))
            assert answer.status_code == 200
            assert answer.headers["connection"] == "keep-alive"


# At once, and after a crash


def chain(running: RunningWitness, log: SomeLog, until: float, taken: list[tuple[int, int]], step: int) -> None:
    """Ask again and again for some growth, from wherever the witness stands."""
    old = 0
    while time.monotonic() < until and old + step <= len(log.leaves):
        try:
            answer = running.post(log.body(old, old + step))
        except httpx.HTTPError:
            return
        if answer.status_code == 200:
            taken.append((old, old + step))
            old += step
        else:
            old = size_of(answer)


def test_concurrent_submissions_never_move_the_log_back(seen, log):
    """L20: of all that ask for the same growth one wins, and the heads make one chain."""
    taken: list[tuple[int, int]] = []
    until = time.monotonic() + 20
    with ThreadPoolExecutor(6) as pool:
        for step in (3, 4, 5, 3, 4, 5):
            pool.submit(chain, seen, log, until, taken, step)
    assert len(taken) > 40
    ordered = sorted(taken)
    assert [old for old, _ in ordered] == [0, *(new for _, new in ordered[:-1])]


def test_a_killed_witness_still_knows_everything_it_cosigned(folder, log):
    """L20: kill -9 while it works, three times; what was answered is never forgotten."""
    known = 0
    vkey = None
    for _ in range(3):
        taken: list[tuple[int, int]] = []
        with witness(folder, [log.vkey]) as running:
            vkey = vkey or running.key
            assert running.key == vkey, "the key outlives the process"
            stored = size_of(running.post(log.body(249, 250))) if known else 0
            assert stored >= known
            asking = [
                threading.Thread(target=chain, args=(running, log, time.monotonic() + 10, taken, step))
                for step in (1, 2)
            ]
            for each in asking:
                each.start()
            while len(taken) < 15:
                time.sleep(0.01)
            running.process.send_signal(signal.SIGKILL)
            for each in asking:
                each.join()
        assert min(old for old, _ in taken) >= stored
        known = max(new for _, new in taken)
    with witness(folder, [log.vkey]) as running:
        assert size_of(running.post(log.body(249, 250))) >= known


def test_a_head_whose_answer_was_lost_is_cosigned_again(seen, log):
    """Stored, but the answer never arrived: the size says so, and the same head is cosigned again."""
    assert seen.post(log.body(0, 7)).status_code == 200
    assert size_of(seen.post(log.body(0, 7))) == 7
    assert seen.post(log.body(7, 7)).status_code == 200


def test_a_witness_that_cannot_store_does_not_cosign(seen, shared, log):
    with sqlite3.connect(shared / "witness.sqlite", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        assert seen.post(log.body(0, 7)).status_code == 500
        other.execute("ROLLBACK")
    other.close()
    assert seen.post(log.body(0, 7)).status_code == 200


def test_each_commit_reaches_the_disk(folder):
    """L20: a write-ahead log that is synced at each commit."""
    assert run(folder, "--name", NAME, "--vkey").returncode == 0
    from counterfoil_witness.memory import WitnessState

    connection = WitnessState(folder)._connection()
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    connection.close()


def test_the_stated_time_never_decreases(folder):
    """A clock that was set back does not make a later head look older than an earlier one."""
    run(folder, "--name", NAME, "--vkey")
    from counterfoil_witness.memory import WitnessState

    memory = WitnessState(folder)
    stated = [
        memory.advance(
            "log", b"", judged=lambda last: submission.CosignedHead(last.size + 1, bytes(32)), clock=lambda at=at: at
        )
        for at in (100, 50, 101, 99)
    ]
    assert stated == [100, 100, 101, 101]
    memory._connection().close()


# Its folder


def test_the_key_is_stable_and_readable_only_by_its_owner(folder):
    key = run(folder, "--name", NAME, "--vkey").stdout
    assert stat.S_IMODE((folder / "witness_key.pem").stat().st_mode) == 0o600
    assert stat.S_IMODE((folder / "witness.sqlite").stat().st_mode) == 0o600
    assert run(folder, "--vkey").stdout == key
    (folder / "witness_key.pem").chmod(0o640)
    assert "chmod 600" in run(folder, "--vkey").stderr


@pytest.mark.parametrize("lost", ["removed", "emptied"])
def test_a_witness_that_lost_its_memory_does_not_start(folder, lost):
    run(folder, "--name", NAME, "--vkey")
    for file in folder.glob("witness.sqlite*"):
        file.unlink()
    if lost == "emptied":
        (folder / "witness.sqlite").touch()
    again = run(folder, "--name", NAME, "--vkey")
    assert again.returncode == 2
    assert "no longer knows what it cosigned" in again.stderr


def test_the_name_of_a_witness_cannot_be_changed(folder):
    assert "needs a name" in run(folder, "--vkey").stderr
    assert "must not contain spaces" in run(folder, "--name", "two words", "--vkey").stderr
    first = run(folder, "--name", NAME, "--vkey").stdout
    assert first.startswith(NAME + "+")
    assert "keeps its name" in run(folder, "--name", "other.example.org", "--vkey").stderr
    assert run(folder, "--vkey").stdout == first


@pytest.mark.parametrize("content", ["nonsense\n", "witness", None])
def test_an_invalid_list_of_logs_stops_the_witness_with_one_sentence(folder, tmp_path, content):
    listed = tmp_path / "logs"
    if content == "witness":
        content = run(folder, "--name", NAME, "--vkey").stdout
    if content is not None:
        listed.write_text(content)
    started = run(folder, "--name", NAME, "--logs", str(listed))
    assert started.returncode == 2
    assert started.stderr.startswith("witness: ")
    assert str(listed) in started.stderr


def test_the_list_of_logs_is_read_again_on_request(folder, log):
    """SIGHUP; a list that is wrong then leaves the old one in force."""
    other = SomeLog(origin="other.example.org/log")
    with witness(folder, [log.vkey]) as running:
        assert running.post(other.body(0, 5)).status_code == 404
        listed = folder.with_suffix(".logs")
        listed.write_text(f"{log.vkey}\n{other.vkey}\n")
        running.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 10
        while running.post(other.body(0, 5)).status_code == 404:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        listed.write_text("nonsense\n")
        running.process.send_signal(signal.SIGHUP)
        assert running.post(log.body(0, 5)).status_code == 200


def test_the_witness_needs_only_the_rules_of_logs_and_cryptography():
    """Its process loads nothing else that is installed, or that stands beside it in a checkout."""

    def loaded(statement: str) -> set[str]:
        code = f"import sys; {statement}; print(*{{each.partition('.')[0] for each in sys.modules}})"
        ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment(), capture_output=True, check=True)
        return set(ran.stdout.decode().split())

    own = loaded("import counterfoil_witness.__main__") - loaded("pass") - sys.stdlib_module_names
    assert {name for name in own if not name.startswith("_")} == {
        *("counterfoil_witness", "counterfoil_tlog", "cryptography"),
    }


def test_the_witness_listens_on_the_loopback_address_by_default(seen):
    assert seen.url.startswith("http://127.0.0.1:")


def test_two_logs_are_stored_separately(folder, log):
    other = SomeLog(origin="other.example.org/log")
    with witness(folder, [log.vkey, other.vkey]) as running:
        assert running.post(log.body(0, 7)).status_code == 200
        assert running.post(other.body(0, 3)).status_code == 200
        assert size_of(running.post(log.body(0, 9))) == 7
        assert size_of(running.post(other.body(0, 9))) == 3


def test_the_folder_contains_everything_a_backup_needs(seen, shared, log):
    assert seen.post(log.body(0, 7)).status_code == 200
    assert {file.name for file in shared.iterdir()} >= {"witness.sqlite", "witness_key.pem"}
    with sqlite3.connect(shared / "witness.sqlite") as reader:
        kept = reader.execute("SELECT size, root FROM head WHERE origin = ?", (log.origin,)).fetchall()
    reader.close()
    assert kept == [(7, root_of(log.leaves[:7]))]
