"""Incidents: one per cause, whoever notices it and how often; each link an event; closed with its freezes decided."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command
from django.db import connections

from ledger.actions.queries import freezes as freezes_queries
from ledger.db import tenancy
from ledger.record import operations as ledger
from ledger.record.queries import events as events_queries
from reviews import queries
from reviews.incidents import operations as incidents_operations
from reviews.incidents.rules.incidents import FreezeDecision, FreezeUndecided, IncidentKind, Severity
from tests.db.record.records import Record, fill

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def orchid(committed_db) -> Iterator[Record]:
    yield fill("orchid")
    call_command("verify_ledger", verbosity=0)


def outage(orchid: Record, *actions: UUID, about: str = "system:shop") -> Any:
    with tenancy(orchid.tenant):
        return incidents_operations.open_for_cause(
            tenant_id=orchid.tenant,
            title="The shop cannot be read",
            kind=IncidentKind.OPERATIONS,
            severity=Severity.HIGH,
            about=about,
            actions=actions,
            at=AT,
        )


def events(tenant: UUID, subject: UUID) -> list[str]:
    with tenancy(tenant):
        return [event.kind for event, _, _ in events_queries.history(tenant, subject)]


@pytest.mark.req("R-RB-06", "R-RP-43")
def test_one_cause_has_one_open_incident(orchid: Record):
    first, again = outage(orchid), outage(orchid, orchid.action.id)
    assert first.id == again.id
    assert events(orchid.tenant, first.id) == ["incident_opened", "action_linked"]
    assert events(orchid.tenant, orchid.action.id)[-1] == "incident_linked"
    assert outage(orchid, about="system:bank").id != first.id


@pytest.mark.req("R-RB-06")
def test_workers_that_notice_one_cause_together_open_one_incident(orchid: Record):
    gate = threading.Barrier(4)

    def notice() -> UUID:
        try:
            gate.wait(10)
            return outage(orchid).id
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        found = {running.result(20) for running in [pool.submit(notice) for _ in range(4)]}
    assert len(found) == 1


@pytest.mark.req("R-RB-10")
def test_an_incident_that_holds_a_freeze_is_not_closed_without_a_decision_about_the_freeze(orchid: Record):
    row = outage(orchid)
    by, tenant = ledger.SYSTEM, orchid.tenant

    def close(**freezes: Any) -> None:
        with tenancy(tenant):
            incidents_operations.close(
                tenant_id=tenant, incident_id=row.id, note="It is back.", by=by, at=AT, **freezes
            )

    with tenancy(tenant):
        kept, lifted = [
            incidents_operations.freeze_scope(
                tenant_id=tenant, incident_id=row.id, scope="tool", value=tool, reason="Unsafe.", by=by, at=AT
            )
            for tool in ("one", "two")
        ]
    for missing in ({}, {"freezes": {kept: FreezeDecision.KEEP}}):
        with pytest.raises(FreezeUndecided):
            close(**missing)
    close(freezes={kept: FreezeDecision.KEEP, lifted: FreezeDecision.LIFT})
    with tenancy(tenant):
        assert [each.id for each in freezes_queries.freezes_in_force(tenant)] == [kept]
        assert queries.incident(tenant, row.id).state == "CLOSED"
    assert outage(orchid).id != row.id
    with tenancy(tenant), pytest.raises(incidents_operations.CauseAlreadyOpen):
        incidents_operations.reopen(tenant_id=tenant, incident_id=row.id, reason="Again.", by=by, at=AT)
