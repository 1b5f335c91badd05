"""A database that is put back to before a redemption: neither the grant nor the votes are used a second time (B16)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import IntegrityError, OperationalError, connections, transaction
from psycopg import sql

from approvals.models import StartOverride
from console.edge.transaction import CHECKPOINT
from console.local.servers import APP, OWNER, SEQUENCER, SUPERUSER
from ledger.db import execute, tenancy
from ledger.log import epochs, newest_heads
from ledger.log.operations import sequencer
from ledger.log.queries import log as queries
from ledger.log.rules.epoch import EpochUnknown, check_epoch
from ledger.log.signer_state import LeadLost, read_keys
from ledger.management.commands.sequencer import Sequencer
from ledger.record import operations as ledger
from reviews.readback.operations import readings, schedules
from tests.conftest import _use
from tests.support.api_tenant import Workshop, document, workshop
from tests.support.callers import found
from tests.support.seals import as_sequencer, new_signer_state, seal_up, signer, signer_state_file


@pytest.fixture
def shop(committed_db: Any, settings: Any, secrets_dir: Path, tmp_path: Path) -> Iterator[Workshop]:
    settings.COUNTERFOIL_RATE_PER_S = 0
    (tmp_path / "documents" / "policies").mkdir(parents=True)
    (secrets_dir / "systems" / "orchid").mkdir(parents=True)
    (secrets_dir / "systems" / "orchid" / "documents.json").write_text("{}")
    with new_signer_state():
        settings.COUNTERFOIL_SIGNER_STATE = signer_state_file()
        yield workshop("orchid").set_up(tmp_path / "documents")


@pytest.fixture
def backup(shop: Workshop, committed_db: Any, run: Any) -> Iterator[Callable[[], Callable[[], None]]]:
    """Make a copy of the database as it is; what is returned puts it in the place of the present one."""
    name = f"{committed_db.name}_older"

    def copied() -> Callable[[], None]:
        connections.close_all()
        with psycopg.connect(run.postgres.url(SUPERUSER, "postgres"), autocommit=True) as superuser:
            made = sql.SQL("CREATE DATABASE {} TEMPLATE {} OWNER {}")
            parts = (sql.Identifier(each) for each in (name, committed_db.name, OWNER))
            superuser.execute(made.format(*parts))
            for role in (APP, SEQUENCER):
                allowed = sql.SQL("GRANT CONNECT ON DATABASE {} TO {}")
                superuser.execute(allowed.format(sql.Identifier(name), sql.Identifier(role)))
        return lambda: _use(name)

    yield copied
    _use(committed_db.name)
    with psycopg.connect(run.postgres.url(SUPERUSER, "postgres"), autocommit=True) as superuser:
        superuser.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def test_a_grant_used_after_the_backup_cannot_be_used_again(shop: Workshop, backup: Any, settings: Any):
    """B16: in the copy the grant is unspent and the approval granted; the signer state outside knows better."""
    order = shop.claimed()
    restore = backup()
    assert shop.start(order).status_code == 201
    seal_up()
    restore()
    assert shop.state(order["action_id"]) == "VALIDATED"
    with as_sequencer():
        call_command("log", "restored", "--reason", "The disk failed.", verbosity=0)
    assert execute("SELECT number FROM ledger_epoch") == [(2,)]
    answer = shop.start(order)
    assert (answer.status_code, answer.json()["code"]) == (403, "GRANT_INVALID")
    assert "restored" in answer.json()["detail"]
    shop.run_out()
    assert shop.claim() == []
    [(tenant_id, action_id)] = schedules.requested_readings()
    assert readings.read_baseline(tenant_id=tenant_id, action_id=action_id, clock=lambda: datetime.now(UTC))
    assert shop.claim() == []
    asked = shop.approval_of(order["action_id"])
    assert asked["state"] == "REQUESTED"
    assert shop.vote(asked).status_code == 201
    [again] = shop.claim()
    assert shop.start(again).status_code == 201


def claimed(shop: Workshop) -> dict[str, Any]:
    shop.approved()
    seal_up()
    [order] = shop.claim()
    return order


def claim_refused(shop: Workshop, **headers: str) -> tuple[int, str]:
    answer = shop.executor.post("/executions/claim", {"executor_id": "runner"}, **headers)
    return answer.status_code, answer.json().get("code", "")


def forget() -> None:
    """This process knows nothing any more of what it has read."""
    newest_heads._memory.cache_clear()


def compare_logs() -> None:
    """Have the sequencer find the database, and compare its logs with the signer state."""
    with as_sequencer(), signer() as signing:
        Sequencer(signing).visit_all()


def accept_database() -> None:
    """The epoch is signed for the database although it has gone back: the signer state was lost too."""
    with as_sequencer(), signer() as signing:
        sequencer.sign_epoch(signing)


BEHIND, UNKNOWN, STOPPED = (409, "RECORD_BEHIND"), (503, "EPOCH_UNKNOWN"), (409, "LOG_STOPPED")


@contextmanager
def connected_as_sequencer(run: Any) -> Iterator[None]:
    """Every connection that is opened meanwhile is the sequencer's, and each of its transactions is real."""
    default = connections.settings["default"]
    kept = {name: default[name] for name in ("USER", "PASSWORD")}
    connections.close_all()
    default |= {"USER": SEQUENCER, "PASSWORD": run.postgres.passwords.sequencer}
    try:
        yield
    finally:
        connections.close_all()
        default |= kept


def seal_meanwhile(tenant_id: Any) -> None:
    """A sequencer that runs beside this thread seals what waits."""

    def seal() -> None:
        positions = queries.pending_events()[tenant_id]
        with signer() as signing:
            sequencer.drain_queue(tenant_id=tenant_id, positions=positions, signer=signing, at=datetime.now(UTC))
        connections.close_all()

    with ThreadPoolExecutor(1) as threads:
        threads.submit(seal).result()


def test_a_process_that_knows_only_the_closed_log_answers_once_with_retry_after(shop: Workshop):
    """It is answered 503 with the time to come back, and never refused; the next is let in."""
    seal_up()
    session = shop.session()
    call = {"call_id": "c1", "tool": "write_document", "arguments": document("notes/today.md", "Quiet.")}
    call["pin_hash"] = session["pin"]["hash"]
    with as_sequencer():
        execute("UPDATE ledger_tenant SET origin = origin || '/2' WHERE id = $1", shop.tenant)
    answers = [shop.agent.post(f"/sessions/{session['session_id']}/calls", {"calls": [call]}) for _ in range(2)]
    assert [each.status_code for each in answers] == [503, 200]
    assert answers[0].json()["detail"] == "The record was just declared restored; nothing was done. Try again."
    assert answers[0].headers["Retry-After"] == "2"
    assert answers[1].json()["results"][0]["accepted"]


def test_an_unsigned_end_of_the_old_log_does_not_block_the_restore(shop: Workshop, backup: Any):
    """The votes stand in the part that a restore closes, an hour old and unsigned: they are asked for again."""
    shop.propose("write_document")
    seal_up()
    action_id = shop.approved()
    with as_sequencer(), signer() as signing:
        positions, long_ago = queries.pending_events()[shop.tenant], datetime.now(UTC) - timedelta(hours=1)
        sequencer.integrate_events(tenant_id=shop.tenant, positions=positions, state=signing.state, at=long_ago)
    restore = backup()
    shop.propose("write_document")
    seal_up()
    restore()
    with as_sequencer():
        call_command("log", "restored", "--reason", "The disk failed.", verbosity=0)
    with tenancy(shop.tenant):
        current, closed = queries.logs(shop.tenant)
    assert closed.signed_size < closed.size
    assert current.signed_size == current.size
    claim_of_delete(shop)
    [(tenant_id, read)] = schedules.requested_readings()
    assert (tenant_id, str(read)) == (shop.tenant, action_id)
    assert readings.read_baseline(tenant_id=tenant_id, action_id=read, clock=lambda: datetime.now(UTC))
    assert claim_of_delete(shop) == []
    assert shop.vote(shop.approval_of(action_id)).status_code == 201
    assert [order["action_id"] for order in claim_of_delete(shop)] == [action_id]


def claim_of_delete(shop: Workshop) -> list[dict[str, Any]]:
    return shop.claim(tools=["delete_document"])


@pytest.mark.unsealed
def test_a_sequencer_that_signs_the_new_log_first_is_not_a_fault(
    shop: Workshop, backup: Any, run: Any, monkeypatch: pytest.MonkeyPatch
):
    shop.propose("write_document")
    seal_up()
    shop.propose("write_document")
    restore = backup()
    seal_up()
    restore()
    sign = sequencer._sign_checkpoint

    def overtaken(*head_and_keys: Any) -> bytes:
        monkeypatch.setattr(sequencer, "_sign_checkpoint", sign)
        seal_meanwhile(shop.tenant)
        return sign(*head_and_keys)

    monkeypatch.setattr(sequencer, "_sign_checkpoint", overtaken)
    with connected_as_sequencer(run):
        call_command("log", "restored", "--reason", "The disk failed.", verbosity=0)
    assert sequencer._sign_checkpoint is sign
    assert shop.operator.get("/ledger/standing").json()["starts"] is True


@pytest.mark.unsealed
def test_a_log_that_grows_while_a_restore_is_declared_is_accepted(
    shop: Workshop, run: Any, monkeypatch: pytest.MonkeyPatch
):
    seal_up()
    shop.propose("write_document")
    read = sequencer._current_head

    def read_and_overtaken(tenant_id: Any) -> Any:
        monkeypatch.setattr(sequencer, "_current_head", read)
        head = read(tenant_id)
        seal_meanwhile(shop.tenant)
        return head

    monkeypatch.setattr(sequencer, "_current_head", read_and_overtaken)
    told = StringIO()
    with connected_as_sequencer(run):
        call_command("log", "restored", "--reason", "A standby was promoted.", stdout=told)
    assert "Every log matches what was signed" in told.getvalue()


@pytest.mark.parametrize("tool", ["write_document", "delete_document"])
@pytest.mark.unsealed
def test_nothing_starts_on_a_record_older_than_the_signed_log(shop: Workshop, backup: Any, settings: Any, tool: str):
    """Of any class: neither before the sequencer has compared the copy with what it signed, nor afterwards."""
    order = claimed(shop)
    assert shop.approved() if tool == "delete_document" else shop.propose(tool)
    seal_up()
    restore = backup()
    shop.propose("write_document")
    seal_up()
    restore()
    forget()
    for answer in (UNKNOWN, STOPPED):
        assert claim_refused(shop) == answer
        started = shop.start(order)
        assert (started.status_code, started.json()["code"]) == answer
        standing = shop.operator.get("/ledger/standing").json()
        assert (standing["starts"], standing["code"]) == (False, answer[1])
        compare_logs()
    assert "log restored" in started.json()["hint"]
    listed = shop.executor.get("/executions/ready?tools=write_document,delete_document").json()["items"]
    assert all("record" in each["waiting_for"] for each in listed)
    with as_sequencer():
        call_command("log", "restored", "--reason", "The disk failed.", verbosity=0)
    assert shop.operator.get("/ledger/standing").json()["starts"] is True


@pytest.mark.unsealed
def test_a_process_remembers_the_newest_head_that_it_has_read(shop: Workshop, backup: Any):
    """The web process itself has read a later head."""
    shop.approved()
    seal_up()
    restore = backup()
    shop.propose("write_document")
    seal_up()
    forget()
    assert shop.operator.get("/ledger/standing").json()["starts"] is True
    restore()
    accept_database()
    assert claim_refused(shop) == BEHIND
    forget()
    assert len(shop.claim()) == 1


@pytest.mark.unsealed
def test_a_process_remembers_the_newest_epoch_that_it_has_read(shop: Workshop, backup: Any):
    shop.approved()
    seal_up()
    restore = backup()
    with as_sequencer():
        call_command("log", "restored", "--reason", "To be safe.", verbosity=0)
    assert shop.operator.get("/ledger/standing").json()["starts"] is True
    restore()
    with new_signer_state():
        accept_database()
    assert claim_refused(shop) == BEHIND


@pytest.mark.unsealed
def test_an_executor_that_has_seen_a_newer_checkpoint_is_refused(shop: Workshop, backup: Any):
    """Without a memory of its own, what the executor sends is enough."""
    order = claimed(shop)
    shop.propose("write_document")
    restore = backup()
    shop.propose("write_document")
    seal_up()
    forget()
    seen = {CHECKPOINT: shop.operator.get("/ledger/standing")[CHECKPOINT]}
    restore()
    accept_database()
    forget()
    assert claim_refused(shop, **seen) == BEHIND
    body = {"grant": order["grant"], "executor_id": "runner", "wrapper_version": "1", "timeout_s": 20}
    proof = shop.proof(order["action_id"], order["grant"])
    answer = shop.executor.post(f"/actions/{order['action_id']}/executions", body, DPoP=proof, **seen)
    assert (answer.status_code, answer.json()["code"]) == BEHIND
    assert shop.start(order).status_code == 201
    unreadable = claim_refused(shop, **{CHECKPOINT: "bm90ZQ=="})
    assert unreadable == (400, "BAD_NOTE")


@pytest.mark.unsealed
def test_nothing_starts_while_the_log_is_stopped(shop: Workshop, backup: Any, settings: Any):
    """The sequencer finds that the copy does not continue what it signed, and says so in the copy itself."""
    shop.approved()
    seal_up()
    restore = backup()
    shop.propose("write_document")
    seal_up()
    restore()
    forget()
    compare_logs()
    assert claim_refused(shop) == STOPPED
    with as_sequencer():
        call_command("log", "restored", "--reason", "The disk failed.", verbosity=0)
    assert claim_refused(shop)[0] == 200


@pytest.mark.unsealed
def test_a_copy_from_before_the_last_restore_has_an_older_epoch(shop: Workshop, backup: Any, settings: Any):
    """Nothing was signed in between, so that only the epoch tells the two apart."""
    shop.approved()
    seal_up()
    restore = backup()
    with as_sequencer():
        call_command("log", "restored", "--reason", "To be safe.", verbosity=0)
    assert claim_refused(shop)[0] == 200
    restore()
    forget()
    assert claim_refused(shop) == UNKNOWN
    compare_logs()
    assert claim_refused(shop) == BEHIND
    assert "epoch 1" in shop.operator.get("/ledger/standing").json()["detail"]


@pytest.mark.unsealed
def test_a_person_lets_some_tools_start_for_a_limited_time(shop: Workshop, backup: Any, settings: Any):
    """The override is scoped and bounded, on record, and named by the order and by the grant's event."""
    first, second = shop.approved(), shop.propose("write_document")
    seal_up()
    restore = backup()
    shop.propose("write_document")
    seal_up()
    restore()
    compare_logs()
    assert claim_refused(shop) == STOPPED
    wish = {"tools": ["write_document"], "minutes": 30, "reason": "The shop is closed otherwise."}
    assert shop.reviewer.post("/ledger/overrides", wish).status_code == 403
    assert shop.operator.post("/ledger/overrides", wish | {"minutes": 241}).status_code == 422
    assert shop.operator.post("/ledger/overrides", wish | {"tools": ["no_such_tool"]}).status_code == 422
    made = shop.operator.post("/ledger/overrides", wish)
    assert made.status_code == 201, made.content
    [order] = shop.claim()
    assert (order["action_id"], order["override_id"]) == (second, made.json()["id"])
    assert shop.start(order).status_code == 201
    minted = [each["detail"] for each in shop.history(second) if each["event"] == "grant_minted"]
    assert minted[-1]["override_id"] == made.json()["id"]
    assert shop.state(first) == "VALIDATED"
    path = f"/ledger/overrides/{made.json()['id']}/end"
    assert shop.operator.post(path, {"reason": "Enough."}).status_code == 200
    assert shop.operator.post(path, {"reason": "Again."}).status_code == 404
    assert claim_refused(shop) == STOPPED


@pytest.mark.unsealed
def test_the_database_refuses_an_override_without_end(shop: Workshop):
    seal_up()
    with tenancy(shop.tenant), pytest.raises(IntegrityError):
        StartOverride.objects.create(
            tenant_id=shop.tenant,
            id=uuid4(),
            log_id=uuid4(),
            tools=["write_document"],
            reason="Always.",
            placed_by=uuid4(),
            placed_at=datetime.now(UTC),
            ends_at=datetime.now(UTC) + timedelta(days=1),
        )


@pytest.mark.unsealed
def test_a_server_that_was_started_again_is_compared_before_anything_starts(shop: Workshop, monkeypatch: Any):
    """Its data may be older, and it may be another server: as long as nobody has looked, nothing is known of it."""
    shop.approved()
    seal_up()
    place = epochs._PLACE.replace("pg_postmaster_start_time()", "(pg_postmaster_start_time() + '1 s')")
    monkeypatch.setattr(epochs, "EPOCH_COLUMNS", f"e.number, e.signatures, {place}")
    with pytest.raises(EpochUnknown):
        check_epoch(epochs.read_epoch(execute), read_keys(settings.COUNTERFOIL_LOG_KEY).public)
    compare_logs()
    assert check_epoch(epochs.read_epoch(execute), read_keys(settings.COUNTERFOIL_LOG_KEY).public) == 1


@pytest.mark.unsealed
def test_a_signer_state_that_was_lost_goes_on_from_the_epoch_of_the_database(shop: Workshop):
    with as_sequencer():
        call_command("log", "restored", "--reason", "To be safe.", verbosity=0)
    with new_signer_state():
        compare_logs()
        with signer() as signing:
            assert signing.state.epoch == 2
    assert execute("SELECT number FROM ledger_epoch") == [(2,)]


@pytest.mark.unsealed
def test_an_epoch_is_not_signed_by_a_sequencer_that_no_longer_leads(shop: Workshop):
    with as_sequencer(), signer() as old, signer():
        before = epochs.read_epoch(execute)
        with pytest.raises(LeadLost):
            sequencer.sign_epoch(old)
        assert epochs.read_epoch(execute) == before


@pytest.mark.usefixtures("db")
def test_a_running_process_learns_of_the_new_log_at_its_first_write():
    """It keeps the origin of each tenant's log for half a minute; one write is refused for that, and not the next."""
    tenant = found("orchid")

    def happen() -> None:
        head = ledger.SubjectHead(tenant_id=tenant, id=uuid4(), kind="case")
        with tenancy(tenant):
            ledger.append(head, ledger.NewEvent(kind="commented", to="OPEN"), actor=ledger.SYSTEM, at=datetime.now(UTC))

    happen()
    with as_sequencer():
        execute("UPDATE ledger_tenant SET origin = origin || '/2' WHERE id = $1", tenant)
    with pytest.raises(OperationalError, match="of another log"), transaction.atomic():
        happen()
    happen()
