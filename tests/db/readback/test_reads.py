"""What is read of a record that grows meanwhile."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
from django.db import connections

from ledger.actions.queries import actions
from ledger.catalogue.operations import registration
from ledger.db import tenancy
from ledger.record import operations
from ledger.record.operations import NewEvent, SubjectHead
from ledger.record.queries import events as queries
from ledger.record.rules.lifecycle import Ground
from reviews.models import Report
from reviews.reporting.operations import reports, session_reports
from tests.support.builders import AT, propose

FAILED = NewEvent(kind="failed", to="FAILED", grounds=frozenset({Ground.NOTHING_SENT}))


@pytest.fixture
def head(committed_db) -> SubjectHead:
    """A proposed action, committed."""
    tenant = registration.create_tenant(tenant_id=uuid4(), slug="orchid", name="Orchid", host="console.test", at=AT)
    with tenancy(tenant.id):
        return propose(tenant.id)


def fail(head: SubjectHead) -> None:
    """One more event, committed by somebody else."""

    def append() -> None:
        try:
            with tenancy(head.tenant_id):
                operations.append(head, FAILED, actor=operations.SYSTEM, at=AT)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as other:
        other.submit(append).result()


def test_a_history_has_each_event_with_its_entry(head):
    fail(head)
    with tenancy(head.tenant_id):
        history = queries.history(head.tenant_id, head.id)
    assert [(event.seq, event.kind, entry is not None) for event, entry, _ in history] == [
        (1, "proposed", True),
        (2, "failed", True),
    ]


@pytest.mark.req("R-RI-14", "R-RI-15")
def test_a_stored_report_names_the_event_that_it_was_made_from(head):
    with tenancy(head.tenant_id):
        action = actions.action(head.tenant_id, head.id)
        entry = queries.entry(head.tenant_id, head.id, action.seq)
        fail(head)
        told = [(action, reports.report_on(action, entry))]
        session_reports.remember_reports(tenant_id=head.tenant_id, told=told, to=uuid4(), at=AT)
        kept = Report.objects.get(action_id=head.id)
        assert kept.event_id == queries.history(head.tenant_id, head.id)[0][0].id
