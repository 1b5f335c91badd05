"""A log vouched for from outside: by real witnesses and a real authority, or visibly not (L21)."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings

from console.edge.settings_files import UnusableFile, is_plain_http_address, load_authorities, load_witness_policy
from counterfoil_tlog import checkpoint, notes, tiles, witness_policy
from counterfoil_tlog import proof as proof_rules
from counterfoil_tlog.proof import LogProof
from ledger import tasks
from ledger.db import execute, tenancy
from ledger.log.operations import anchoring, sequencer
from ledger.log.queries import anchors
from ledger.log.queries import log as log_queries
from ledger.log.rules import timestamps
from ledger.log.signer_state import read_keys
from ledger.record import operations as ledger
from ledger.record.rules import envelope
from tests.support import seals
from tests.support.callers import found
from tests.support.outside.authorities import Authority, desk
from tests.support.outside.witnesses import ROOT, RunningWitness, SomeLog, witness

NAMES = ("one", "two", "three")
MINUTE = timedelta(minutes=1)


class Clock:
    """A clock that the test moves. It begins now, since an authority compares it with its own."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC)

    def __call__(self) -> datetime:
        return self.now

    def forward(self, by: timedelta) -> None:
        self.now += by


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def signer_state_file(tmp_path):
    return tmp_path / "signer.sqlite"


@pytest.fixture
def grown(tmp_path, signer_state_file, clock, db):
    """A tenant, and a way to let its log grow to a signed checkpoint that is kept."""
    tenant_id = found("orchid")

    def grow(events: int = 1, *, signer_state=signer_state_file) -> int:
        clock.forward(timedelta(seconds=2))
        head = ledger.SubjectHead(tenant_id=tenant_id, id=uuid4(), kind="case")
        with tenancy(tenant_id):
            for number in range(events):
                step = ledger.NewEvent(kind="case_opened" if number == 0 else "commented", to="OPEN")
                head = ledger.append(head, step, actor=ledger.SYSTEM, at=clock())
        return integrate(tenant_id, clock, signer_state)

    grow.tenant = tenant_id
    return grow


def integrate(tenant_id, clock, signer_state) -> int:
    """What waits gets its place; the size that was signed."""
    clock.forward(timedelta(seconds=2))
    with seals.as_sequencer(), seals.signer(signer_state) as signer:
        positions = log_queries.pending_events().get(tenant_id, [])
        sequencer.drain_queue(tenant_id=tenant_id, positions=positions, signer=signer, at=clock())
    with tenancy(tenant_id):
        return anchors.newest_checkpoint(tenant_id, 1).size


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


def log_key():
    return read_keys(settings.COUNTERFOIL_LOG_KEY).current


def vkey(tenant_id) -> str:
    with tenancy(tenant_id):
        origin = ledger.tenant_origin(tenant_id)
    return notes.vkey(origin, log_key().public_key())


@contextmanager
def running(folder, tenant_id, *names: str, quorum: str) -> Iterator[tuple[dict[str, RunningWitness], Any]]:
    """Witnesses of the tenant's log, and the policy that names all three, whether they run or not."""
    with ExitStack() as stack:
        up = {
            name: stack.enter_context(witness(folder / name, [vkey(tenant_id)], name=f"{name}.example"))
            for name in names
        }
        yield up, policy(folder, tenant_id, up, quorum)


def policy(folder, tenant_id, up: dict[str, RunningWitness], quorum: str):
    lines = []
    for name in NAMES:
        key = up[name].key if name in up else SomeLog(origin=f"{name}.example")
        text = notes.write_vkey(key) if name in up else absent(name)
        url = up[name].url if name in up else f"http://127.0.0.1:{free_port()}"
        lines.append(f"witness {name} {text} {url}\n")
    file = folder / "policy"
    file.write_text(f"log {vkey(tenant_id)}\n" + "".join(lines) + quorum)
    return load_witness_policy(file)


def absent(name: str) -> str:
    return notes.vkey(f"{name}.example", SomeLog().key.public_key(), notes.COSIGNATURE)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


TWO_OF_THREE = "group enough 2 one two three\nquorum enough\n"


def standing(tenant_id):
    with tenancy(tenant_id):
        return anchors.tenant_anchoring(tenant_id)[0]


def evidence(tenant_id, kind):
    with tenancy(tenant_id):
        return execute(
            "SELECT log, size, name, evidence FROM ledger_anchor WHERE tenant_id = $1 AND kind = $2"
            " ORDER BY size, name",
            *(tenant_id, kind),
        )


def pegs(tenant_id) -> list[envelope.Envelope]:
    """The log's own notes that it was anchored."""
    with tenancy(tenant_id):
        rows = execute(
            "SELECT envelope FROM ledger_event WHERE tenant_id = $1 AND kind = 'checkpoint_anchored' ORDER BY seq",
            tenant_id,
        )
    return [envelope.parse(bytes(data)) for (data,) in rows]


# Witnesses


def test_a_checkpoint_that_a_quorum_cosigned_is_anchored(tmp_path, settings, grown, clock):
    tenant_id = grown.tenant
    size = grown(7)
    assert not standing(tenant_id).is_asked
    with running(tmp_path, tenant_id, "one", "two", quorum=TWO_OF_THREE) as (_, asked):
        settings.COUNTERFOIL_WITNESSES = asked
        before = standing(tenant_id)
        assert (before.anchored_size, before.anchored_at, before.by, before.tail) == (None, None, (), before.size)
        assert anchoring.anchor_log(tenant_id=tenant_id, clock=clock) == 2
        after = standing(tenant_id)
    assert (after.anchored_size, after.by) == (size, ("one", "two"))
    assert after.age(clock() + MINUTE) == MINUTE
    third = after.witnesses[2]
    assert (third.name, third.size, third.fault) == ("three", None, "No answer: ConnectError.")


def test_the_stored_evidence_satisfies_an_auditor(tmp_path, settings, grown, clock):
    """The checkpoint with the stored lines satisfies the auditor's policy, for an entry that is in the log."""
    tenant_id = grown.tenant
    size = grown(40)
    with running(tmp_path, tenant_id, "one", "three", quorum=TWO_OF_THREE) as (_, asked):
        settings.COUNTERFOIL_WITNESSES = asked
        anchoring.anchor_log(tenant_id=tenant_id, clock=clock)
    with tenancy(tenant_id):
        point = anchors.newest_checkpoint(tenant_id, 1)
        stored = log_queries.tiles(tenant_id, 1, tiles.tiles_for_inclusion(17, size))
    lines = b"".join(bytes(each) for *_, each in evidence(tenant_id, "witness"))
    proof = LogProof(17, tuple(tiles.prove_inclusion(17, size, stored)), point.note + lines)
    leaf = stored[tiles.TileAddress(0, 0)][17 * 32 : 18 * 32]
    auditor = witness_policy.read((tmp_path / "policy").read_bytes())
    found = proof_rules.check_proof(proof_rules.parse(proof_rules.write(proof)), leaf=leaf, policy=auditor)
    assert found.satisfied
    assert found.head.size == size
    assert not proof_rules.check_proof(proof._replace(checkpoint=point.note), leaf=leaf, policy=auditor).satisfied


def test_without_a_quorum_the_checkpoint_is_not_anchored(tmp_path, settings, grown, clock):
    """L21: one of two needed witnesses: nothing turns green, the fault says who and since when, and it heals."""
    tenant_id = grown.tenant
    first = grown(3)
    with running(tmp_path, tenant_id, "one", "two", quorum=TWO_OF_THREE) as (_, asked):
        settings.COUNTERFOIL_WITNESSES = asked
        anchoring.anchor_log(tenant_id=tenant_id, clock=clock)
    assert standing(tenant_id).anchored_size == first
    anchored_at = standing(tenant_id).anchored_at
    down_since = None
    with running(tmp_path, tenant_id, "one", quorum=TWO_OF_THREE) as (_, asked):
        settings.COUNTERFOIL_WITNESSES = asked
        for turn in range(3):
            size = grown(5)
            clock.forward(MINUTE)
            assert anchoring.anchor_log(tenant_id=tenant_id, clock=clock) == 1
            now = standing(tenant_id)
            assert (now.anchored_size, now.anchored_at) == (first, anchored_at), "still the one of before"
            assert now.tail == now.size - first > 0
            assert now.witnesses[0].size == size
            silent = now.witnesses[1]
            assert silent.fault == "No answer: ConnectError."
            down_since = silent.failing_since if turn == 0 else down_since
            assert silent.failing_since == down_since
    with running(tmp_path, tenant_id, "one", "two", quorum=TWO_OF_THREE) as (_, asked):
        settings.COUNTERFOIL_WITNESSES = asked
        clock.forward(MINUTE)
        assert anchoring.anchor_log(tenant_id=tenant_id, clock=clock) == 1, "the other one cosigned this head already"
    healed = standing(tenant_id)
    assert healed.anchored_size == size
    assert healed.witnesses[1].fault is None


def test_cosignatures_of_different_heads_form_no_quorum(tmp_path, settings, grown, clock):
    """L21: a quorum stands under one checkpoint, not under the sum of several."""
    tenant_id = grown.tenant
    for name in ("one", "two"):
        grown(3)
        clock.forward(MINUTE)
        with running(tmp_path, tenant_id, name, quorum=TWO_OF_THREE) as (_, asked):
            settings.COUNTERFOIL_WITNESSES = asked
            assert anchoring.anchor_log(tenant_id=tenant_id, clock=clock) == 1
    assert {name for _, _, name, _ in evidence(tenant_id, "witness")} == {"one", "two"}
    assert standing(tenant_id).anchored_size is None


def test_a_witness_removed_from_the_policy_no_longer_counts(tmp_path, settings, grown, clock):
    tenant_id = grown.tenant
    grown(3)
    with running(tmp_path, tenant_id, "one", quorum="quorum one\n") as (_, asked):
        settings.COUNTERFOIL_WITNESSES = asked
        anchoring.anchor_log(tenant_id=tenant_id, clock=clock)
        assert standing(tenant_id).anchored_size is not None
        (tmp_path / "policy").write_text(f"witness other {absent('other')} http://127.0.0.1:1\nquorum other\n")
        settings.COUNTERFOIL_WITNESSES = load_witness_policy(tmp_path / "policy")
    assert standing(tenant_id).anchored_size is None


def test_the_digests_of_the_evidence_are_recorded_in_the_log(tmp_path, settings, grown, clock):
    """Two-way pegging: the next leaves stand behind the evidence, and their envelopes name it."""
    tenant_id = grown.tenant
    size = grown(4)
    with running(tmp_path, tenant_id, "one", "two", quorum=TWO_OF_THREE) as (_, asked):
        settings.COUNTERFOIL_WITNESSES = asked
        anchoring.anchor_log(tenant_id=tenant_id, clock=clock)
    (event,) = pegs(tenant_id)
    assert event.subject_kind == "log"
    with tenancy(tenant_id):
        text = notes.parse(anchors.newest_checkpoint(tenant_id, 1).note).text
    assert event.digests == {
        "checkpoint": hashlib.sha256(text.encode()).hexdigest(),
        **{
            f"witness {name}": hashlib.sha256(bytes(each)).hexdigest()
            for _, _, name, each in evidence(tenant_id, "witness")
        },
    }
    assert checkpoint.parse(text).size == size


def test_a_log_whose_only_news_is_its_own_anchoring_is_not_anchored_again(
    tmp_path, settings, grown, clock, signer_state_file
):
    """Its own notes that it was anchored are no news; or it would be anchored for ever."""
    tenant_id = grown.tenant
    grown(4)
    integrate(tenant_id, clock, signer_state_file)  # the opening of the log itself
    with running(tmp_path, tenant_id, "one", quorum="quorum one\n") as (_, asked):
        settings.COUNTERFOIL_WITNESSES = asked
        for _ in range(3):
            anchoring.anchor_log(tenant_id=tenant_id, clock=clock)
            integrate(tenant_id, clock, signer_state_file)
            clock.forward(5 * MINUTE)
        assert len(pegs(tenant_id)) == 1
        grown(1)
        assert anchoring.anchor_log(tenant_id=tenant_id, clock=clock) == 1
    assert len(pegs(tenant_id)) == 2


def test_witnesses_are_asked_at_intervals(tmp_path, settings, grown, clock):
    tenant_id = grown.tenant
    settings.COUNTERFOIL_ANCHOR_EVERY_S = 60
    grown(4)
    with running(tmp_path, tenant_id, "one", quorum="quorum one\n") as (_, asked):
        settings.COUNTERFOIL_WITNESSES = asked
        assert anchoring.anchor_log(tenant_id=tenant_id, clock=clock) == 1
        grown(4)
        assert anchoring.anchor_log(tenant_id=tenant_id, clock=clock) == 0
        clock.forward(MINUTE)
        assert anchoring.anchor_log(tenant_id=tenant_id, clock=clock) == 1


def test_an_answer_that_was_lost_is_requested_again(tmp_path, settings, grown, clock):
    """The witness knows more than is remembered of it here: it says its size, and is asked from there."""
    tenant_id = grown.tenant
    grown(4)
    with running(tmp_path, tenant_id, "one", quorum="quorum one\n") as (up, asked):
        settings.COUNTERFOIL_WITNESSES = asked
        with tenancy(tenant_id):
            point = anchors.newest_checkpoint(tenant_id, 1)
        lost = anchoring.submission.write(anchoring.Submission(0, (), point.note))
        assert up["one"].post(lost).status_code == 200
        assert anchoring.anchor_log(tenant_id=tenant_id, clock=clock) == 1
        grown(3)
        with tenancy(tenant_id):
            log = log_queries.current_log(tenant_id)
            newer = anchors.newest_checkpoint(tenant_id, 1)
        again = anchoring._consistency_proof(tenant_id, log, point.size, newer.size)
        body = anchoring.submission.write(anchoring.Submission(point.size, again, newer.note))
        assert up["one"].post(body).status_code == 200
        clock.forward(MINUTE)
        assert anchoring.anchor_log(tenant_id=tenant_id, clock=clock) == 1
    assert standing(tenant_id).anchored_size == newer.size


def test_a_witness_that_has_seen_a_longer_log_raises_an_alarm(tmp_path, settings, grown, clock):
    """L18: a record that was set back is told so by its witness, even when the signer state was lost with it."""
    tenant_id = grown.tenant
    other = SomeLog(origin=checkpoint_origin(tenant_id), key=log_key())
    size = grown(4)
    with running(tmp_path, tenant_id, "one", quorum="quorum one\n") as (up, asked):
        settings.COUNTERFOIL_WITNESSES = asked
        assert up["one"].post(other.body(0, 100)).status_code == 200
        assert anchoring.anchor_log(tenant_id=tenant_id, clock=clock) == 0
    now = standing(tenant_id)
    assert now.anchored_size is None
    assert now.witnesses[0].fault == f"It has cosigned 100 entries of this log, of which only {size} are signed here."
    with tenancy(tenant_id):
        (alarm,) = log_queries.alarms(tenant_id)
    assert (alarm.kind, alarm.detail) == ("WITNESS_DISPUTES", f"one: {now.witnesses[0].fault}")


def test_a_witness_of_another_history_raises_an_alarm(tmp_path, settings, grown, clock):
    """L18: the same log, forked: smaller there, and not continued here; or of the same size."""
    tenant_id = grown.tenant
    other = SomeLog(origin=checkpoint_origin(tenant_id), key=log_key())
    size = grown(9)
    for theirs in (size - 3, size):
        folder = tmp_path / str(theirs)
        folder.mkdir()
        with running(folder, tenant_id, "one", quorum="quorum one\n") as (up, asked):
            settings.COUNTERFOIL_WITNESSES = asked
            assert up["one"].post(other.body(0, theirs)).status_code == 200
            assert anchoring.anchor_log(tenant_id=tenant_id, clock=clock) == 0
            clock.forward(MINUTE)
        assert "does not continue" in standing(tenant_id).witnesses[0].fault
    with tenancy(tenant_id):
        assert [each.kind for each in log_queries.alarms(tenant_id)] == ["WITNESS_DISPUTES"]


def checkpoint_origin(tenant_id) -> str:
    with tenancy(tenant_id):
        return ledger.tenant_origin(tenant_id)


# Whoever answers at the address of a witness


@contextmanager
def impostor(status: int, content: bytes, **headers: str) -> Iterator[str]:
    """Something that answers everything alike."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize(
    ("status", "content", "headers", "fault"),
    [
        (200, b"", {}, "not a signed note"),
        (200, b"hello\n", {}, "not a signed note"),
        (200, "— one.example AAAAAAAA\n".encode(), {}, "trusted"),
        (200, bytes(2**16 + 1), {}, "longer than"),
        (302, b"", {"Location": "http://127.0.0.1:9/"}, "redirect"),
        (404, b"", {}, "answered 404"),
        (500, b"", {}, "answered 500"),
        (409, b"1\n", {"Content_Type": "text/x.tlog.size"}, "another size each time"),
        (409, b"01\n", {"Content_Type": "text/x.tlog.size"}, "a size that is none"),
        (409, b"\xff", {"Content_Type": "text/x.tlog.size"}, "a size that is none"),
    ],
)
def test_a_forged_answer_of_a_witness_is_rejected(tmp_path, settings, grown, clock, status, content, headers, fault):
    """L21: no false green."""
    tenant_id = grown.tenant
    grown(6)
    with impostor(status, content, **headers) as url:
        (tmp_path / "policy").write_text(f"witness one {absent('one')} {url}\nquorum one\n")
        settings.COUNTERFOIL_WITNESSES = load_witness_policy(tmp_path / "policy")
        assert anchoring.anchor_log(tenant_id=tenant_id, clock=clock) == 0
    now = standing(tenant_id)
    assert now.anchored_size is None
    assert fault in now.witnesses[0].fault
    assert evidence(tenant_id, "witness") == []
    assert pegs(tenant_id) == []


def test_a_cosignature_of_another_head_is_rejected(tmp_path, settings, grown, clock):
    """L21: a real witness's line for an older head of the same log."""
    tenant_id = grown.tenant
    grown(3)
    with running(tmp_path, tenant_id, "one", quorum="quorum one\n") as (up, asked):
        settings.COUNTERFOIL_WITNESSES = asked
        anchoring.anchor_log(tenant_id=tenant_id, clock=clock)
        old = bytes(evidence(tenant_id, "witness")[0][3])
        grown(3)
        clock.forward(MINUTE)
        with impostor(200, old) as url:
            text = (tmp_path / "policy").read_text().replace(up["one"].url, url)
            (tmp_path / "policy").write_text(text)
            settings.COUNTERFOIL_WITNESSES = load_witness_policy(tmp_path / "policy")
            assert anchoring.anchor_log(tenant_id=tenant_id, clock=clock) == 0
    assert "is not good" in standing(tenant_id).witnesses[0].fault


# Time stamps


def test_an_authority_stamps_the_checkpoint(settings, grown, clock, authority):
    """L22: a real exchange, kept whole, and its digest in the log."""
    tenant_id = grown.tenant
    size = grown(5)
    with desk(authority) as open_desk:
        settings.COUNTERFOIL_TSA_URL = open_desk.url
        settings.COUNTERFOIL_TSA_ROOTS = load_authorities(authority.folder / "roots.pem")
        assert anchoring.anchor_log(tenant_id=tenant_id, clock=clock) == 1
        grown(5)
        clock.forward(MINUTE)
        assert anchoring.anchor_log(tenant_id=tenant_id, clock=clock) == 0, "not yet due"
    now = standing(tenant_id)
    assert (now.authority.size, now.authority.fault) == (size, None)
    ((_, _, _, response),) = evidence(tenant_id, "tsa")
    with tenancy(tenant_id):
        notes_of = execute("SELECT note FROM ledger_checkpoint WHERE tenant_id = $1 AND size = $2", tenant_id, size)
    text = notes.parse(bytes(notes_of[0][0])).text.encode()
    at = datetime.now(UTC)
    roots = [authority.root.certificate]
    timestamps.verify_response(bytes(response), text, nonce=None, roots=roots, earliest=at - MINUTE, latest=at + MINUTE)
    (event,) = pegs(tenant_id)
    assert event.digests["tsa tsa"] == hashlib.sha256(response).hexdigest()


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"content": b"no stamp"}, "not a time stamp"),
        ({"content": bytes(2**16 + 1)}, "longer than"),
        ({"status": 503}, "answered 503"),
        ({"status": 307, "headers": {"Location": "http://127.0.0.1:9/"}}, "redirect"),
    ],
    ids=["nonsense", "endless", "away", "redirect"],
)
def test_an_authority_that_does_not_stamp_is_reported_as_failing(settings, grown, clock, authority, changes, fault):
    """L21 for time stamps."""
    tenant_id = grown.tenant
    grown(5)
    with desk(authority) as open_desk:
        for name, value in changes.items():
            setattr(open_desk, name, value)
        settings.COUNTERFOIL_TSA_URL = open_desk.url
        settings.COUNTERFOIL_TSA_ROOTS = load_authorities(authority.folder / "roots.pem")
        assert anchoring.anchor_log(tenant_id=tenant_id, clock=clock) == 0
        assert open_desk.asked == 1
    now = standing(tenant_id)
    assert now.authority.size is None
    assert fault in now.authority.fault
    assert now.authority.failing_since == clock()


def test_an_old_stamp_is_not_accepted_as_a_new_one(settings, grown, clock, authority):
    """The answer to an earlier question has another nonce and another imprint."""
    tenant_id = grown.tenant
    grown(5)
    settings.COUNTERFOIL_TSA_ROOTS = load_authorities(authority.folder / "roots.pem")
    with desk(authority) as open_desk:
        settings.COUNTERFOIL_TSA_URL = open_desk.url
        anchoring.anchor_log(tenant_id=tenant_id, clock=clock)
        open_desk.content = bytes(evidence(tenant_id, "tsa")[0][3])
        grown(5)
        clock.forward(10 * MINUTE)
        assert anchoring.anchor_log(tenant_id=tenant_id, clock=clock) == 0
    assert "nonce" in standing(tenant_id).authority.fault


# Settings


def test_no_witness_is_contacted_unless_one_is_configured(settings, grown, clock):
    grown(5)
    assert settings.COUNTERFOIL_WITNESSES is None
    assert settings.COUNTERFOIL_TSA_URL is None
    assert anchoring.anchor_log(tenant_id=grown.tenant, clock=clock) == 0
    now = standing(grown.tenant)
    assert (now.is_asked, now.anchored_size, now.authority) == (False, None, None)


def test_the_tick_anchors_every_tenant_although_one_fails(tmp_path, settings, grown, signer_state_file):
    """One that cannot be anchored does not keep the others from it."""
    assert tasks.anchor() == 0
    tenant_id = grown.tenant
    grown(3)
    found("willow")
    with running(tmp_path, tenant_id, "one", quorum="quorum one\n") as (_, asked):
        settings.COUNTERFOIL_WITNESSES = asked
        assert tasks.anchor() == 1
    assert standing(tenant_id).by == ("one",)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("COUNTERFOIL_WITNESSES", "/nowhere/witnesses"),
        ("COUNTERFOIL_TSA_ROOTS", "/nowhere/roots.pem"),
        ("COUNTERFOIL_TSA_URL", "https://tsa.example.org"),
        ("COUNTERFOIL_ANCHOR_EVERY_S", "often"),
    ],
)
def test_a_wrong_setting_stops_the_process_with_one_sentence(name, value):
    argv = [sys.executable, "-c", "import tests.offline"]
    environment = {"PATH": os.environ["PATH"], name: value}
    ran = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert ran.stderr.startswith("counterfoil: ")
    assert name in ran.stderr


@pytest.mark.parametrize(
    "text",
    [
        "quorum none\n",
        "witness one VKEY http://127.0.0.1:1\nquorum none\n",
        "witness one VKEY\nquorum one\n",
        "witness one VKEY ftp://127.0.0.1\nquorum one\n",
        "witness one VKEY http://user:word@127.0.0.1\nquorum one\n",
        "witness one VKEY http://\nquorum one\n",
        "nonsense\n",
        None,
    ],
)
def test_an_unusable_witness_policy_is_refused_at_the_start(tmp_path, text):
    file = tmp_path / "policy"
    if text is not None:
        file.write_text(text.replace("VKEY", absent("one")))
    with pytest.raises(UnusableFile, match="policy"):
        load_witness_policy(file)


@pytest.mark.parametrize("content", [b"", b"nonsense", None])
def test_invalid_root_certificates_are_refused_at_the_start(tmp_path, content):
    file = tmp_path / "roots.pem"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UnusableFile, match=r"roots\.pem"):
        load_authorities(file)


def test_only_plain_http_addresses_are_accepted():
    assert is_plain_http_address("https://tsa.example.org/stamp")
    assert is_plain_http_address("http://127.0.0.1:8470")
    for wrong in (
        "",
        "tsa.example.org",
        "file:///etc/passwd",
        "https://",
        "http://a:b@c",
        "http://a:99999",
        "http://a?b",
    ):
        assert not is_plain_http_address(wrong)
