"""A record with evidence that no event tells of is mended by an event, and nothing is deleted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from ledger import verify_bundle
from ledger.db import tenancy
from ledger.models import Evidence
from ledger.people.rules.confirmation import Answer
from ledger.record import operations as ledger
from ledger.record.queries import events, evidence
from ledger.retention.operations import erasure
from reviews import queries
from reviews.models import VerificationRun
from tests.support import exported
from tests.support.erasing import erase
from tests.support.scenes import Stage, now, set_up
from tests.support.seals import seal_up

FENCED = ("ledger_evidence", "reviews_run")
MEMBER = "compliance@orchid"
REASON = "Left by an outage in the last release."


@pytest.fixture
def stage(committed_db: Any) -> Stage:
    stage = set_up("orchid")
    stage.person("compliance")
    return stage


@contextmanager
def fence_off(owner: psycopg.Connection) -> Iterator[None]:
    """The database as it was before it asked evidence for an event."""
    for table in FENCED:
        owner.execute(f"ALTER TABLE {table} DISABLE TRIGGER has_event")
    yield
    for table in FENCED:
        owner.execute(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER has_event")


def store_stray_run(stage: Stage, action_id: UUID, owner: psycopg.Connection) -> VerificationRun:
    """A run as an earlier version stored it in an outage: its row and its evidence, and no event."""
    with fence_off(owner), tenancy(stage.tenant):
        last = queries.last_run(stage.tenant, action_id)
        assert last is not None
        data = evidence.open_evidence(stage.tenant, last.pointer)
        assert data is not None
        kept = ledger.store_evidence(
            tenant_id=stage.tenant,
            subject_id=action_id,
            purpose="readback",
            data=data,
            media_type="application/json",
            source=last.source,
            at=last.at,
        )
        columns = {field.attname: getattr(last, field.attname) for field in last._meta.local_concrete_fields}
        fresh = {"id": ledger.new_id(last.at), "number": last.number + 1, "pointer": kept.pointer}
        return VerificationRun.objects.create(**(columns | fresh))


def verify(*options: str) -> str:
    said = StringIO()
    try:
        call_command("verify_ledger", *options, stdout=said)
    except CommandError as error:
        return str(error)
    return said.getvalue().strip()


def adopt(*options: str) -> str:
    said = StringIO()
    call_command("adopt_evidence", "--tenant", "orchid", *options, stdout=said)
    return said.getvalue().strip()


@pytest.mark.req("R-LE-02")
def test_stray_evidence_and_its_run_are_adopted_and_the_record_is_intact_again(stage, owner_connection):
    action_id = stage.done()
    run = store_stray_run(stage, action_id, owner_connection)
    broken = verify()
    assert f"evidence {run.pointer}: no event has committed to it." in broken
    assert f"no event made its row {run.id} in reviews.VerificationRun." in broken
    assert adopt() == "Tenant orchid: 1 pieces of evidence can be adopted. Use --by and --reason."
    assert verify() == broken, "nothing was changed without a reason"
    said = adopt("--by", MEMBER, "--reason", REASON)
    assert said == "Tenant orchid: 1 pieces of evidence adopted, with 1 verification runs."
    assert "1 of them adopted" in verify()
    assert verify().endswith("The record is intact.")
    with tenancy(stage.tenant):
        event, _, detail = events.history(stage.tenant, action_id)[-1]
        assert (event.kind, event.actor_kind, event.from_state) == ("evidence_adopted", "system", event.state)
        assert (detail["reason"], detail["stated_by"]) == (REASON, str(stage.person("compliance").actor_id))
        assert len(queries.runs_of(stage.tenant, action_id)) == run.number
    assert adopt() == "Tenant orchid: no evidence without an event."


def test_an_outsider_verifies_a_bundle_with_adopted_evidence(stage, owner_connection):
    action_id = stage.done()
    store_stray_run(stage, action_id, owner_connection)
    adopt("--by", MEMBER, "--reason", REASON)
    seal_up()
    report = exported.judged(exported.bundle(stage.tenant), exported.policy(stage.tenant))
    assert report.worst is verify_bundle.Verdict.VERIFIED, report.findings


def test_an_adopted_run_is_verified_against_its_event(stage, owner_connection, superuser_connection):
    run = store_stray_run(stage, stage.done(), owner_connection)
    adopt("--by", MEMBER, "--reason", REASON)
    superuser_connection.execute("ALTER TABLE reviews_run DISABLE TRIGGER no_change")
    superuser_connection.execute("UPDATE reviews_run SET result = 'ABSENT' WHERE id = %s", [run.id])
    assert "its row in reviews.VerificationRun has another result than its events say." in verify()


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        ("UPDATE ledger_evidence SET sealed = set_byte(sealed, 20, 7) WHERE id = %(pointer)s", "cannot be opened"),
        ("UPDATE ledger_evidence SET length = 7 WHERE id = %(pointer)s", "is not what its commitment says."),
        ("UPDATE reviews_run SET result = 'ABSENT' WHERE id = %(id)s", "says something else than its evidence."),
        (
            "UPDATE ledger_event SET actor_kind = 'person' WHERE subject_id = %(action)s AND seq = 2",
            "Something else is wrong there: action ",
        ),
        ("UPDATE reviews_run SET pointer = gen_random_uuid() WHERE id = %(id)s", "Something else is wrong there: "),
    ],
)
def test_evidence_that_may_have_been_tampered_with_is_not_adopted(
    stage, owner_connection, superuser_connection, damage, why
):
    action_id = stage.done()
    run = store_stray_run(stage, action_id, owner_connection)
    for table in ("ledger_evidence", "reviews_run", "ledger_event"):
        superuser_connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
    superuser_connection.execute("SET session_replication_role = replica")
    superuser_connection.execute(damage, {"pointer": run.pointer, "id": run.id, "action": action_id})
    broken = verify()
    with pytest.raises(CommandError, match="Left alone: 1 pieces of evidence") as left:
        adopt("--by", MEMBER, "--reason", REASON)
    assert why in str(left.value)
    assert verify() == broken


def test_evidence_of_a_subject_that_was_never_created_is_adopted_by_the_tenant(stage, owner_connection):
    with fence_off(owner_connection), tenancy(stage.tenant):
        kept = ledger.store_evidence(
            tenant_id=stage.tenant,
            subject_id=uuid4(),
            purpose="ungated_effect",
            data=b"{}",
            media_type="application/json",
            source="shop",
            at=now(),
            is_new=True,
        )
    assert f"evidence {kept.pointer}: no event has committed to it." in verify()
    adopt("--by", MEMBER, "--reason", REASON)
    assert "1 of them adopted. The record is intact." in verify()


def test_stray_evidence_that_was_erased_with_its_action_needs_no_adoption(stage, owner_connection, run):
    action_id = stage.done()
    stray = store_stray_run(stage, action_id, owner_connection)
    wish = erasure.ErasureRequest(subjects=(action_id,), legal_basis="Art. 17(1)(a) GDPR", reason="They asked.")
    asked, confirmed = (ledger.Actor("person", uuid4()) for _ in range(2))
    at = datetime.now(UTC) + timedelta(minutes=1)
    with tenancy(stage.tenant):
        request = erasure.request_erasure(tenant_id=stage.tenant, request=wish, by=asked, at=at)
        erasure.answer_erasure(
            tenant_id=stage.tenant, erasure_id=request.id, answer=Answer.CONFIRM, by=confirmed, is_proven=True, at=at
        )
    erase(run)
    with tenancy(stage.tenant):
        assert Evidence.objects.get(tenant_id=stage.tenant, id=stray.pointer).sealed is None
    assert "intact" in verify()


def test_adopt_evidence_names_the_missing_options(stage):
    for options, message in (
        (["--reason", "Why"], "Use --by to name the member who asks for it."),
        (["--by", "nobody"], "There is no member nobody in the tenant orchid."),
    ):
        with pytest.raises(CommandError, match=message) as refused:
            adopt(*options)
        assert refused.value.returncode == 2
