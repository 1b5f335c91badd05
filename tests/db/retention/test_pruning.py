"""Months of events that are taken away: the tree stays, the rest is said (L36)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from io import StringIO
from uuid import UUID, uuid4

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import ProgrammingError, connections

from console.local import servers
from counterfoil_tlog import checkpoint, notes, tiles
from counterfoil_tlog.merkle import verify_consistency, verify_inclusion
from ledger.actions.queries import actions
from ledger.catalogue.operations import registration
from ledger.catalogue.rules import contract as contracts
from ledger.db import tenancy
from ledger.log.queries import log
from ledger.people.rules.confirmation import Answer
from ledger.record import operations as ledger
from ledger.record.operations import Actor
from ledger.record.queries import events
from ledger.retention import queries
from ledger.retention.operations import retention
from ledger.retention.rules.retention import HoldScope, RetentionPolicy
from ledger.verify_bundle import Verdict
from tests.conftest import Run
from tests.db.record.records import CONTRACT, Record
from tests.db.retention.test_erasure import executing_in
from tests.support import exported
from tests.support.builders import propose
from tests.support.erasing import decided, erase
from tests.support.seals import seal_up

LONG_AGO = datetime(2019, 3, 10, tzinfo=UTC)
MONTH = "y2019m03"


@pytest.fixture
def old(committed_db, owner_connection) -> Record:
    """A record of long ago, in partitions of its own."""
    for part in ("ledger_event", "ledger_entry"):
        owner_connection.execute(
            f"CREATE TABLE {part}_{MONTH} PARTITION OF {part} FOR VALUES FROM (ledger_uuid_from('2019-03-01 00:00Z'))"
            " TO (ledger_uuid_from('2019-04-01 00:00Z'))"
        )
        owner_connection.execute(f"SELECT ledger_isolate('{part}_{MONTH}'), ledger_make_append_only('{part}_{MONTH}')")
    tenant = registration.set_up_tenant(
        tenant_id=ledger.new_id(LONG_AGO), slug="orchid", name="Orchid", host="console.test", at=LONG_AGO
    ).id
    with tenancy(tenant):
        document = contracts.validate(CONTRACT, compile_predicate=lambda text: None)
        registered = registration.register_contract(
            tenant_id=tenant, contract=document, actor=ledger.SYSTEM, at=LONG_AGO
        )
        head = propose(tenant, at=LONG_AGO)
        sealed = ledger.store_evidence(
            tenant_id=tenant,
            subject_id=head.id,
            purpose="payload",
            data=b"4711",
            media_type="text/plain",
            source="agent",
            at=LONG_AGO,
        )
        head = ledger.append(
            head, ledger.NewEvent(kind="evidence_added", evidence=(sealed,)), actor=ledger.SYSTEM, at=LONG_AGO
        )
    return Record(tenant=tenant, action=head, contract=registered.id, policy=tenant, payload=sealed.pointer)


@contextmanager
def as_owner(run: Run) -> Iterator[None]:
    """Django's own connection, signed in as the owner of the tables."""
    kept = {name: connections["default"].settings_dict[name] for name in ("USER", "PASSWORD")}
    connections["default"].close()
    connections["default"].settings_dict |= {"USER": servers.OWNER, "PASSWORD": run.postgres.passwords.owner}
    try:
        yield
    finally:
        connections["default"].close()
        connections["default"].settings_dict |= kept


def prune(run: Run) -> str:
    said = StringIO()
    with as_owner(run):
        call_command("prune", month=MONTH, stdout=said)
    return said.getvalue()


def fail(head: ledger.SubjectHead) -> ledger.SubjectHead:
    return ledger.append(head, ledger.NewEvent(kind="rejected", to="FAILED"), actor=ledger.SYSTEM, at=LONG_AGO)


def agree(tenant: UUID, **days: int) -> UUID:
    """A retention policy of two people."""
    policy = RetentionPolicy(**({"payload_days": 100, "envelope_days": 200} | days))
    with tenancy(tenant):
        row = retention.propose_policy(tenant_id=tenant, policy=policy, by=Actor("person", uuid4()), at=LONG_AGO)
        retention.answer_policy(
            tenant_id=tenant,
            retention_id=row.id,
            answer=Answer.CONFIRM,
            by=Actor("person", uuid4()),
            is_proven=True,
            at=LONG_AGO,
        )
    return row.id


def leaf_and_proof(tenant: UUID, index: int, size: int) -> tuple[bytes, list[bytes]]:
    head = log.current_log(tenant)
    stored = log.tiles(
        tenant, head.number, [*tiles.tiles_for_inclusion(index, size), tiles.TileAddress(0, index // 256)]
    )
    place = index % 256 * 32
    return stored[tiles.TileAddress(0, index // 256)][place : place + 32], tiles.prove_inclusion(index, size, stored)


@pytest.mark.req("R-LE-02")
def test_pruning_is_recorded_and_every_proof_remains_valid(old, run):
    """L36: envelopes of one month go; tiles stay, later proofs verify, and so do proofs of what is gone."""
    with tenancy(old.tenant):
        head = fail(ledger.lock_subject(tenant_id=old.tenant, subject_id=old.action.id, kind="action"))
    seal_up()
    with tenancy(old.tenant):
        before = log.current_log(old.tenant)
        places = {place.index for place in log.event_positions(old.tenant, head.id).values()}
    policy = agree(old.tenant)
    decided(old.tenant, head.id)
    erase(run)
    assert prune(run) == f"{MONTH}: {head.seq} events deleted.\n"
    seal_up()
    with tenancy(old.tenant):
        assert events.history(old.tenant, head.id) == []
        assert actions.action(old.tenant, head.id) is None
        assert queries.pruned_leaves(old.tenant, 1, range(before.size)) == dict.fromkeys(places, policy)
        told = events.history(old.tenant, policy)[-1]
        now = log.current_log(old.tenant)
        signed = checkpoint.parse(notes.parse(now.note).text)
        for index in range(signed.size):
            leaf, proof = leaf_and_proof(old.tenant, index, signed.size)
            verify_inclusion(leaf=leaf, index=index, size=signed.size, proof=proof, root=signed.root)
        found = log.tiles(old.tenant, 1, tiles.tiles_for_consistency(before.size, signed.size))
        verify_consistency(
            old_size=before.size,
            new_size=signed.size,
            old_root=before.root,
            new_root=signed.root,
            proof=tiles.prove_consistency(before.size, signed.size, found),
        )
        assert events.event(old.tenant, old.contract, 1).kind == "contract_registered"
    assert told[0].kind == "pruned"
    assert told[2]["whole_from"] == [{"log": 1, "index": max(places) + 1}]
    call_command("verify_ledger", verbosity=0)
    call_command("verify_ledger", log=True, verbosity=0)


def test_a_long_lived_subject_continues_after_its_month_was_pruned(old, run):
    with tenancy(old.tenant):
        head = fail(ledger.lock_subject(tenant_id=old.tenant, subject_id=old.action.id, kind="action"))
    agree(old.tenant)
    decided(old.tenant, head.id)
    erase(run)
    prune(run)
    with tenancy(old.tenant):
        contract = ledger.lock_subject(tenant_id=old.tenant, subject_id=old.contract, kind="contract")
        ledger.append(contract, ledger.NewEvent(kind="contract_confirmed"), actor=ledger.SYSTEM, at=LONG_AGO)
        executing_in(old.tenant)
        assert [event.seq for event, _, _ in events.history(old.tenant, old.contract)] == [1, 2]
    call_command("verify_ledger", verbosity=0)


@pytest.mark.parametrize(
    ("without", "why"),
    [("erasure", "not erased yet"), ("policy", "no retention policy"), ("time", "keeps envelopes"), ("hold", "hold")],
)
def test_a_month_that_may_not_be_pruned_yet_is_kept_and_the_reason_is_given(old, run, without, why):
    with tenancy(old.tenant):
        head = fail(ledger.lock_subject(tenant_id=old.tenant, subject_id=old.action.id, kind="action"))
    if without != "policy":
        agree(old.tenant, **({"envelope_days": 36_000} if without == "time" else {}))
    if without != "erasure":
        decided(old.tenant, head.id)
        erase(run)
    if without == "hold":
        with tenancy(old.tenant):
            retention.place_hold(
                tenant_id=old.tenant,
                scope=HoldScope.ACTION,
                value=str(head.id),
                reason="A dispute.",
                by=Actor("person", uuid4()),
                at=LONG_AGO,
            )
    with pytest.raises(CommandError, match=why):
        prune(run)
    with tenancy(old.tenant):
        assert len(events.history(old.tenant, head.id)) == head.seq


def test_only_the_owner_prunes(old, run):
    with tenancy(old.tenant):
        head = fail(ledger.lock_subject(tenant_id=old.tenant, subject_id=old.action.id, kind="action"))
    agree(old.tenant)
    decided(old.tenant, head.id)
    erase(run)
    with pytest.raises(ProgrammingError, match=r"permission denied|must be owner"):
        call_command("prune", month=MONTH)


def test_faked_pruning_is_reported(old, run, superuser_connection):
    with tenancy(old.tenant):
        head = fail(ledger.lock_subject(tenant_id=old.tenant, subject_id=old.action.id, kind="action"))
    policy = agree(old.tenant)
    decided(old.tenant, head.id)
    erase(run)
    superuser_connection.execute("UPDATE ledger_erased SET pruned_by = %s", [policy])
    with pytest.raises(CommandError, match="1 subjects are listed as pruned under it, and its events say 0"):
        call_command("verify_ledger", verbosity=0)


def test_a_bundle_lists_what_was_pruned_and_its_proofs_remain_valid(old, run, settings, tmp_path):
    """L36: an auditor who has only the bundle sees how much went, under which policy, and that the rest is whole."""
    settings.COUNTERFOIL_EXPORTS = tmp_path / "exports"
    with tenancy(old.tenant):
        head = fail(ledger.lock_subject(tenant_id=old.tenant, subject_id=old.action.id, kind="action"))
    seal_up()
    seal_up()
    kept = exported.newest(old.tenant).note
    agree(old.tenant)
    decided(old.tenant, head.id)
    erase(run)
    prune(run)
    seal_up()
    data = exported.bundle(old.tenant, end=exported.newest(old.tenant).size)
    report = exported.judged(data, exported.policy(old.tenant), kept)
    assert (report.worst, report.facts["counts"]["pruned"]) == (Verdict.ERASED, head.seq)
    assert {each.stage for each in report.findings} == {"erasures"}
