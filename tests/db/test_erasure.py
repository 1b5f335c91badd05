"""Erasing: two people, one role that can do it, and a record that still holds afterwards."""

from __future__ import annotations

from io import StringIO
from uuid import UUID

import pytest
from django.core.management import call_command

from ledger import keystore
from ledger.models import Action, Entry, Erased, Evidence, SubjectKey
from ledger.operations import record as ledger
from ledger.operations.record import Happening
from ledger.queries import erasure as queries
from ledger.queries import record
from ledger.tenancy import tenancy
from tests.builders import AT
from tests.db.records import Record, fill
from tests.erasing import decided, erase

SECRET = "alice@example.org"


@pytest.fixture
def kept(committed_db) -> Record:
    return fill("orchid", actions=2)


def ended(kept: Record) -> ledger.Head:
    """The record's action at rest: FAILED by the shortest way."""
    with tenancy(kept.tenant):
        head = ledger.lock(tenant_id=kept.tenant, subject_id=kept.action.id, kind="action")
        happening = Happening(
            kind="observed",
            to="FAILED",
            grounds=frozenset({ledger.Ground.NOTHING_SENT}),
            detail={"reason": f"Refused for {SECRET}."},
            changes={"execution": {"status": "FAILED"}},
        )
        return ledger.append(head, happening, actor=ledger.SYSTEM, at=AT)


def verified(tenant: UUID) -> str:
    said = StringIO()
    call_command("verify_ledger", stdout=said)
    return said.getvalue()


@pytest.mark.req("R-LE-21")
def test_what_two_people_decided_is_destroyed_and_the_record_still_holds(kept, run):
    """L32: ciphertext, salt, key, entry and detail are gone; the envelopes are what they were."""
    head = ended(kept)
    with tenancy(kept.tenant):
        key_id = record.key_id(kept.tenant, head.id)
        before = [bytes(event.envelope) for event, _, _ in record.history(kept.tenant, head.id)]
    request = decided(kept.tenant, head.id)
    assert erase(run) == "1 erased.\n"
    with tenancy(kept.tenant):
        rows = list(Entry.objects.filter(tenant_id=kept.tenant, subject_id=head.id))
        assert {(row.entry, row.entry_salt, row.detail, row.detail_salt) for row in rows} == {(None,) * 4}
        evidence = Evidence.objects.get(tenant_id=kept.tenant, id=kept.payload)
        assert (evidence.salt, evidence.sealed, evidence.source) == (None, None, "")
        assert not SubjectKey.objects.filter(tenant_id=kept.tenant, subject_id=head.id).exists()
        view = Action.objects.get(tenant_id=kept.tenant, id=head.id)
        assert (view.target, view.payload_hash, view.operation_key) == ("", "", "")
        after = [bytes(event.envelope) for event, _, _ in record.history(kept.tenant, head.id)]
        row = queries.erasure(kept.tenant, request)
        told = record.history(kept.tenant, request)
        assert Erased.objects.get(tenant_id=kept.tenant, subject_id=head.id).key_id is None
    assert after == before
    assert keystore.read([key_id]) == {}
    assert (row.state, row.erased) == ("DONE", 1)
    assert [event.kind for event, _, _ in told] == [
        "erasure_requested",
        "erasure_confirmed",
        "erased",
        "erasure_done",
    ]
    assert "1 subjects erased on request. The record holds." in verified(kept.tenant)
    assert told[2][2]["subjects"] == [
        {"id": str(head.id), "kind": "action", "events": head.seq, "evidence": [str(kept.payload)]}
    ]
