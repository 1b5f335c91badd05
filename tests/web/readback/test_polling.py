"""Polling through the task: batches are read and concluded, a system that is away is left alone and nothing is lost."""

from __future__ import annotations

import shutil
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.core.management import call_command
from django.db import IntegrityError, OperationalError, transaction

from ledger import processes
from ledger.catalogue import queries as catalogue_queries
from ledger.db import execute, tenancy
from ledger.management.commands import verify_ledger
from ledger.record.queries import events as events_queries
from ledger.verification.rules.stored_record import RecordBroken
from reviews import queries, tasks
from reviews.models import Lane, Schedule, SystemHealth
from reviews.readback.operations import polling
from reviews.verification.operations import verification
from tests.conftest import Run
from tests.support import settling
from tests.support.api_tenant import Clock, Workshop, contract, document, result
from tests.support.erasing import forget_key


@pytest.fixture
def clock(clock: Clock) -> Clock:
    clock.stop()
    return clock


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[UUID]:
    """The actions that were really read, in order."""
    made: list[UUID] = []
    real = polling.read_sources

    def counted(plan: Any, *, at: Any, clock: Any) -> Any:
        made.append(plan.action_id)
        return real(plan, at=at, clock=clock)

    monkeypatch.setattr(polling, "read_sources", counted)
    return made


def limits(shop: Workshop, **changes: int) -> Any:
    """The documents' system with these limits, as an operator registers it."""
    settings = {"root": str(shop.root), "limits": changes}
    body = {"name": "documents", "pattern": "filesystems", "settings": settings}
    return shop.operator_key.post("/systems", body)


def written(shop: Workshop, count: int = 1, *, folder: str = "notes") -> list[str]:
    """Actions whose tool says that a document was written; none is there yet."""
    made = []
    for number in range(count):
        path = f"{folder}/{number}.md"
        result_ = shop.call("write_document", document(path, "Quiet."))
        [order] = shop.claim()
        started = shop.start(order).json()
        shop.observe(started, result=result(tool="write_document"))
        made.append(str(result_["action_id"]))
    return made


def health(shop: Workshop) -> SystemHealth:
    with tenancy(shop.tenant):
        return SystemHealth.objects.get(tenant_id=shop.tenant)


def system_events(shop: Workshop) -> list[str]:
    with tenancy(shop.tenant):
        system = catalogue_queries.system(shop.tenant, "documents")
        assert system is not None
        return [event.kind for event, _, _ in events_queries.history(shop.tenant, system.id)]


def assert_intact(shop: Workshop) -> None:
    """The record may be committed, and its check finds nothing."""
    execute("SET CONSTRAINTS ALL IMMEDIATE")
    with tenancy(shop.tenant):
        origin = events_queries.tenant_by_id(shop.tenant).origin
    verify_ledger.verify(shop.tenant, origin)


def kinds(shop: Workshop, action_id: str) -> list[str]:
    return [event["event"] for event in shop.history(action_id)]


@pytest.mark.req("R-VD-11")
def test_a_batch_is_read_and_each_action_gets_its_own_verdict(
    shop: Workshop, clock: Clock, tmp_path: Path, reads: list[UUID]
):
    there, missing = written(shop, 2)
    (tmp_path / "documents" / "notes").mkdir()
    (tmp_path / "documents" / "notes" / "0.md").write_text("Quiet.")
    clock.forward(seconds=1.5)
    assert tasks.verify_due() == 2
    assert set(reads) == {UUID(there), UUID(missing)}
    assert shop.state(there) == "RECONCILED_SUCCESS"
    assert shop.state(missing) == "PENDING"
    assert health(shop).reads == 2
    assert health(shop).last_success_at == clock.now()


def test_an_action_whose_key_is_gone_becomes_a_case_and_holds_up_no_other(
    shop: Workshop, clock: Clock, tmp_path: Path, reads: list[UUID], run: Run
):
    there, lost = written(shop, 2)
    (tmp_path / "documents" / "notes").mkdir()
    for number in (0, 1):
        (tmp_path / "documents" / "notes" / f"{number}.md").write_text("Quiet.")
    forget_key(shop.tenant, run, lost)
    clock.forward(seconds=1.5)
    assert tasks.verify_due() == 1
    assert (shop.state(there), shop.state(lost)) == ("RECONCILED_SUCCESS", "REVIEW_REQUIRED")
    assert reads == [UUID(there)]
    assert kinds(shop, lost)[-3:] == ["outcome_unknown", "held", "case_opened"]
    assert not Schedule.objects.filter(action_id=lost)
    case = shop.case_of(lost)
    assert case is not None
    assert case["reason"] == "UNREADABLE"
    shown = shop.operator.get(f"/actions/{lost}").json()
    assert shown["user_status"]["text"] == "Not settled. It waits for a person to review it."
    assert {each["sha256"] for each in shown["evidence"]} == {None}
    pages = shop.operator.client
    said = pages.get(f"/t/orchid/cases/{case['case_id']}").content.decode()
    assert "Its evidence cannot be opened. The key of the payload or of the tool&#x27;s answers is gone, or" in said
    assert 'data-part="next"' not in said, "no reading is suggested that could be compared with nothing"
    assert "The system of record has not answered yet." in said
    said = pages.get(f"/t/orchid/actions/{lost}").content.decode()
    assert "UNREADABLE" not in said
    assert (
        "The payload cannot be opened: it was erased or altered, or its key is gone. Its hash stays in the record."
        in said
    )
    assert settling.settle(shop.operator, case["case_id"], "ATTEST_PRESENT").status_code == 200
    assert shop.state(lost) == "RECONCILED_SUCCESS"
    with pytest.raises(RecordBroken, match=rf"action {lost}, event 1: the evidence .* \(payload\) cannot be opened"):
        assert_intact(shop)


def test_an_order_whose_payload_key_is_gone_holds_up_no_other(shop: Workshop, clock: Clock, run: Run):
    lost = str(shop.call("write_document", document("notes/0.md", "Quiet."))["action_id"])
    other = str(shop.call("write_document", document("notes/1.md", "Quiet."))["action_id"])
    forget_key(shop.tenant, run, lost)
    assert [each["action_id"] for each in shop.claim()] == [other]
    assert shop.state(lost) == "FAILED"
    newest = shop.history(lost)[-1]
    assert newest["event"] == "cancelled"
    assert newest["detail"]["reason"].startswith(
        "The stored payload cannot be opened: its key is gone, or its bytes were altered."
    )
    assert shop.report(lost)["text"] == "Not executed. Nothing has been attempted."
    # It may be proposed again.
    again = shop.call("write_document", document("notes/0.md", "Quiet."))
    assert [each["action_id"] for each in shop.claim()] == [again["action_id"]]
    with pytest.raises(RecordBroken, match=rf"action {lost}, event 1: the evidence .* \(payload\) cannot be opened"):
        assert_intact(shop)


def test_a_second_reading_without_news_writes_no_event(shop: Workshop, clock: Clock, reads: list[UUID]):
    patient = contract("write_document") | {"version": "1.1.0"}
    patient["verification"] |= {"settle_s": 600}
    shop.operator_key.release_contract(patient)
    [action_id] = written(shop)
    clock.forward(seconds=1)
    tasks.verify_due()
    before = kinds(shop, action_id)
    row = Schedule.objects.get(action_id=action_id)
    clock.stopped = row.due_at - clock.ahead
    assert tasks.verify_due() == 1
    assert kinds(shop, action_id) == before
    again = Schedule.objects.get(action_id=action_id)
    assert (again.readings, again.claim) == (row.readings + 1, None)
    assert again.due_at > row.due_at


def test_a_poll_without_the_lease_does_not_wait_and_reads_no_slow_system(
    shop: Workshop, clock: Clock, reads: list[UUID]
):
    [action_id] = written(shop)
    Lane.objects.update(pace_ms=5_000)
    clock.forward(seconds=2)
    other = uuid4()
    assert processes.take_lease(processes.READINGS, other, seconds=60)
    assert tasks.verify_due() == 0
    assert reads == []
    processes.give_up_lease(processes.READINGS, other)
    assert tasks.verify_due() == 1
    assert reads == [UUID(action_id)]


@pytest.mark.usefixtures("db")
def test_the_lease_of_a_dead_worker_expires_and_is_released_only_by_its_holder():
    dead, next_one = uuid4(), uuid4()
    assert processes.take_lease("test", dead, seconds=60)
    assert not processes.take_lease("test", next_one, seconds=5)
    # Its holder's last renewal, whose time is over at once.
    assert processes.take_lease("test", dead, seconds=0)
    assert processes.take_lease("test", next_one, seconds=5)
    assert not processes.take_lease("test", dead, seconds=5)
    processes.give_up_lease("test", dead)
    assert not processes.take_lease("test", dead, seconds=5)
    assert processes.take_lease("test", next_one, seconds=5)


@pytest.mark.req("R-LE-02")
def test_the_database_refuses_a_run_without_an_event(shop: Workshop, clock: Clock):
    [action_id] = written(shop)
    clock.forward(seconds=1)
    tasks.verify_due()
    with tenancy(shop.tenant):
        [run] = queries.runs_of(shop.tenant, UUID(action_id))
        run.id, run.number = uuid4(), 2
        copied = {
            field.attname: getattr(run, field.attname) for field in run._meta.concrete_fields if field.attname != "pk"
        }
        execute("SET CONSTRAINTS ALL IMMEDIATE")
        with pytest.raises(IntegrityError, match="no event of its action lists the run"), transaction.atomic():
            type(run).objects.create(**copied)
        execute("SET CONSTRAINTS ALL DEFERRED")
    assert_intact(shop)


def there(tmp_path: Path, *names: str) -> None:
    """The effect of these writes."""
    for name in names:
        place = tmp_path / "documents" / f"{name}.md"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("Quiet.")


def test_the_verdicts_of_a_batch_are_committed_together_and_leave_other_actions_unchanged(
    shop: Workshop, clock: Clock, tmp_path: Path
):
    [alone] = written(shop, folder="alone")
    there(tmp_path, "alone/0")
    clock.forward(seconds=1.5)
    assert tasks.verify_due() == 1
    made = written(shop, 3)
    there(tmp_path, "notes/0", "notes/1")
    clock.forward(seconds=1.5)
    assert tasks.verify_due() == 3
    verified = made[:2]
    assert [shop.state(each) for each in made] == ["RECONCILED_SUCCESS", "RECONCILED_SUCCESS", "PENDING"]
    assert [kinds(shop, each) for each in verified] == [kinds(shop, alone)] * 2
    with tenancy(shop.tenant):
        written_by = "SELECT count(DISTINCT xmin::text) FROM ledger_subject WHERE id = ANY($1)"
        assert execute(written_by, [UUID(each) for each in verified]) == [(1,)]
        runs = [queries.last_run(shop.tenant, UUID(each)) for each in (alone, *verified)]
        assert {(run.number, run.result) for run in runs if run is not None} == {(1, "SUCCESS")}
    assert not Schedule.objects.filter(action_id__in=[UUID(each) for each in verified]).exists()
    call_command("verify_ledger", stdout=StringIO())


def test_verdicts_that_cannot_be_committed_together_are_committed_one_by_one(
    shop: Workshop, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    made = written(shop, 2)
    there(tmp_path, "notes/0", "notes/1")
    real, together = verification.conclude_successes, []

    def fails(*args: Any, **named: Any) -> None:
        together.append(real(*args, **named))
        raise OperationalError("deadlock detected")

    monkeypatch.setattr(verification, "conclude_successes", fails)
    clock.forward(seconds=1.5)
    assert tasks.verify_due() == 2
    assert together == [frozenset(map(UUID, made))]
    assert [shop.state(each) for each in made] == ["RECONCILED_SUCCESS", "RECONCILED_SUCCESS"]
    assert [kinds(shop, each).count("reconciled") for each in made] == [1, 1]


def test_nothing_is_read_while_nothing_is_due(shop: Workshop, clock: Clock, reads: list[UUID]):
    written(shop)
    assert tasks.verify_due() == 0
    assert reads == []


def test_an_error_in_one_check_does_not_affect_other_readings(
    shop: Workshop, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    broken, fine = written(shop, 2)
    (tmp_path / "documents" / "notes").mkdir()
    for name in ("0.md", "1.md"):
        (tmp_path / "documents" / "notes" / name).write_text("Quiet.")
    real = polling.read_sources

    def sometimes(plan: Any, *, at: Any, clock: Any) -> Any:
        if str(plan.action_id) == broken:
            raise KeyError("a bug of somebody's check")
        return real(plan, at=at, clock=clock)

    monkeypatch.setattr(polling, "read_sources", sometimes)
    clock.forward(seconds=10)
    assert tasks.verify_due() == 2
    assert (shop.state(broken), shop.state(fine)) == ("PENDING", "RECONCILED_SUCCESS")
    assert "KeyError" in health(shop).last_failure


def test_a_record_that_nobody_can_plan_for_holds_up_no_other_system(
    shop: Workshop, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    broken, fine = written(shop, 2)
    (tmp_path / "documents" / "notes").mkdir()
    (tmp_path / "documents" / "notes" / "1.md").write_text("Quiet.")
    Lane.objects.create(tenant_id=shop.tenant, system_id=shop.tenant, concurrency=4, reads_per_minute=600)
    Schedule.objects.filter(action_id=broken).update(system_id=shop.tenant)
    real = polling.plans_for

    def sometimes(tenant_id: UUID, action_ids: list[UUID]) -> Any:
        if UUID(broken) in action_ids:
            raise KeyError("a bug of ours")
        return real(tenant_id, action_ids)

    monkeypatch.setattr(polling, "plans_for", sometimes)
    clock.forward(seconds=10)
    assert tasks.verify_due() == 1
    assert (shop.state(broken), shop.state(fine)) == ("PENDING", "RECONCILED_SUCCESS")


class TestCircuit:
    @pytest.fixture
    def root(self, shop: Workshop, tmp_path: Path) -> Path:
        """The documents' folder, which tests take away: then nothing below it can be told."""
        root = tmp_path / "documents"
        assert limits(shop, failures=2, cooldown_s=20, longest_cooldown_s=600).status_code == 201
        return root

    def away(self, shop: Workshop, root: Path, clock: Clock, count: int = 3) -> list[str]:
        made = written(shop, count)
        shutil.rmtree(root)
        clock.forward(seconds=10)
        tasks.verify_due()
        return made

    @pytest.mark.req("R-RP-19", "R-VD-16")
    def test_after_its_failures_the_circuit_opens_and_actions_wait(
        self, shop: Workshop, root: Path, clock: Clock, reads: list[UUID]
    ):
        made = self.away(shop, root, clock)
        assert len(reads) == 3
        assert system_events(shop)[-1] == "circuit_opened"
        for action_id in made:
            assert shop.state(action_id) == "PENDING"
            entry = shop.operator_key.get(f"/actions/{action_id}").json()["entry"]
            assert entry["reconciliation"]["recovery_decision"] == "RT-19 HOLD_PENDING_AND_RETRY_VERIFICATION"

    def test_no_readings_are_made_while_the_circuit_is_open(
        self, shop: Workshop, root: Path, clock: Clock, reads: list[UUID]
    ):
        made = self.away(shop, root, clock)
        del reads[:]
        clock.forward(seconds=8)
        assert tasks.verify_due() > 0
        assert reads == []
        probe_at = health(shop).probe_at
        assert probe_at is not None
        rows = Schedule.objects.filter(action_id__in=made)
        assert min(row.due_at for row in rows) >= probe_at
        assert all(row.readings == 1 for row in rows)

    @pytest.mark.req("R-RP-19")
    def test_a_reading_that_is_due_while_the_circuit_is_open_waits_with_its_reason(
        self, shop: Workshop, root: Path, clock: Clock, reads: list[UUID]
    ):
        late = written(shop, folder="late")[0]
        Schedule.objects.filter(action_id=late).update(due_at=clock.now() + timedelta(seconds=15))
        self.away(shop, root, clock)
        clock.forward(seconds=6)
        del reads[:]
        tasks.verify_due()
        assert reads == []
        assert shop.state(late) == "PENDING"
        entry = shop.operator_key.get(f"/actions/{late}").json()["entry"]
        assert entry["reconciliation"]["recovery_decision"].startswith("RT-19")

    @pytest.mark.req("R-VD-17", "R-LE-02")
    def test_every_run_during_an_outage_is_an_event_and_the_record_is_intact(
        self, shop: Workshop, root: Path, clock: Clock, reads: list[UUID]
    ):
        late = written(shop, folder="late")[0]
        Schedule.objects.filter(action_id=late).update(due_at=clock.now() + timedelta(seconds=15))
        self.away(shop, root, clock)
        clock.forward(seconds=6)
        tasks.verify_due()
        assert kinds(shop, late)[-1] == "verification_waiting", "held by the open circuit"
        # Its first reading: the system is still away, so it says nothing that the held run has not said.
        SystemHealth.objects.filter(tenant_id=shop.tenant).update(probe_at=None)
        Lane.objects.filter(tenant_id=shop.tenant).update(held_until=None)
        Schedule.objects.exclude(action_id=late).update(due_at=clock.now() + timedelta(days=1))
        Schedule.objects.filter(action_id=late).update(due_at=clock.now())
        tasks.verify_due()
        assert UUID(late) in reads
        with tenancy(shop.tenant):
            runs = queries.runs_of(shop.tenant, UUID(late))
        assert len(runs) == 2
        told = [event["detail"]["run"] for event in shop.history(late) if "run" in (event["detail"] or {})]
        assert {str(run.pointer) for run in runs} <= set(told)
        assert_intact(shop)

    def test_a_probe_is_one_reading_and_its_failure_lengthens_the_wait(
        self, shop: Workshop, root: Path, clock: Clock, reads: list[UUID]
    ):
        self.away(shop, root, clock)
        first = health(shop)
        del reads[:]
        clock.forward(seconds=25)
        tasks.verify_due()
        assert len(reads) == 1
        second = health(shop)
        assert second.cooldown_s == 2 * first.cooldown_s
        assert second.since == first.since, "it is one outage"
        assert system_events(shop).count("circuit_opened") == 1

    def test_an_answered_probe_closes_the_circuit_and_the_rest_is_read(
        self, shop: Workshop, root: Path, clock: Clock, reads: list[UUID]
    ):
        made = self.away(shop, root, clock)
        (root / "notes").mkdir(parents=True)
        for number in range(3):
            (root / "notes" / f"{number}.md").write_text("Quiet.")
        clock.forward(seconds=70)
        assert tasks.verify_due() >= 3
        assert [shop.state(each) for each in made] == ["RECONCILED_SUCCESS"] * 3
        assert system_events(shop)[-1] == "circuit_closed"
        assert health(shop).failures == 0
        assert Lane.objects.get(tenant_id=shop.tenant).held_until is None

    @pytest.mark.req("R-VD-12")
    def test_the_deadline_ends_the_waiting_although_the_circuit_is_open(
        self, shop: Workshop, root: Path, clock: Clock, reads: list[UUID]
    ):
        assert limits(shop, failures=1, cooldown_s=3600, longest_cooldown_s=3600).status_code == 201
        [action_id] = self.away(shop, root, clock, 1)
        sla_s = contract("write_document")["verification"]["polling"]["sla_s"]
        del reads[:]
        clock.forward(seconds=sla_s + 60)
        tasks.verify_due()
        assert reads == []
        assert "VERIFICATION_TIMEOUT" in shop.path(action_id)

    @pytest.mark.req("R-RB-06")
    def test_an_outage_opens_one_incident_and_not_one_per_action(self, shop: Workshop, root: Path, clock: Clock):
        assert limits(shop, failures=2, cooldown_s=60, incident_actions=3).status_code == 201
        self.away(shop, root, clock)
        tasks.sweep()
        tasks.sweep()
        with tenancy(shop.tenant):
            [incident] = queries.open_incidents(shop.tenant)
        assert incident.kind == "operations"
        assert "3 actions wait" in incident.title

    @pytest.mark.req("R-RB-06")
    def test_a_recovered_system_is_noted_in_its_incident_which_stays_open(
        self, shop: Workshop, root: Path, clock: Clock
    ):
        assert limits(shop, failures=2, cooldown_s=60, incident_after_s=5).status_code == 201
        self.away(shop, root, clock)
        clock.forward(seconds=10)
        tasks.sweep()
        root.mkdir()
        clock.forward(seconds=70)
        tasks.verify_due()
        with tenancy(shop.tenant):
            [incident] = queries.open_incidents(shop.tenant)
            events = [event.kind for event, _, _ in events_queries.history(shop.tenant, incident.id)]
        assert events[-1] == "system_answers_again"

    def test_a_short_outage_opens_no_incident(self, shop: Workshop, root: Path, clock: Clock):
        self.away(shop, root, clock)
        tasks.sweep()
        with tenancy(shop.tenant):
            assert queries.open_incidents(shop.tenant) == []


@pytest.mark.parametrize("wrong", [{"concurrency": 0}, {"reads": 5}, {"failures": "many"}])
def test_invalid_limits_are_refused_when_a_system_is_registered(shop: Workshop, tmp_path: Path, wrong: dict[str, Any]):
    answer = limits(shop, **wrong)
    assert answer.status_code == 422
    assert answer.json()["code"] == "BAD_LIMITS"
    assert answer.json()["errors"][0]["path"] == f"/settings/limits/{next(iter(wrong))}"


def test_new_limits_apply_from_the_next_claim_on(shop: Workshop, tmp_path: Path, clock: Clock):
    written(shop)
    assert limits(shop, concurrency=1, reads_per_minute=60).status_code == 201
    lane = Lane.objects.get(tenant_id=shop.tenant)
    assert (lane.concurrency, lane.reads_per_minute) == (1, 60)


class TestBudget:
    @pytest.fixture
    def waiting(self, shop: Workshop, clock: Clock) -> list[str]:
        """Actions that are read again and again, under a budget of four readings an hour."""
        document_ = {"lease_s": 60, "budget": {"readings_per_hour": 4}}
        answer = shop.operator_key.release("verification", {"version": "2", "document": document_})
        assert answer.status_code == 201, answer.content
        patient = contract("write_document") | {"version": "1.1.0"}
        patient["verification"] |= {"settle_s": 600}
        patient["verification"]["polling"] |= {"sla_s": 3600}
        shop.operator_key.release_contract(patient)
        return written(shop, 3)

    def tenant_events(self, shop: Workshop) -> list[str]:
        with tenancy(shop.tenant):
            return [event.kind for event, _, _ in events_queries.history(shop.tenant, shop.tenant)]

    @pytest.mark.req("R-MT-11", "R-CX-12")
    def test_readings_are_counted_by_system_and_tool(self, shop: Workshop, waiting: list[str], clock: Clock):
        clock.forward(seconds=1)
        tasks.verify_due()
        with tenancy(shop.tenant):
            [(_, tool, count)] = queries.usage_by_tool(shop.tenant, since=clock.now().date())
            assert (tool, count) == ("write_document", 3)
            assert health(shop).reads == 3
            assert queries.reading_usage(shop.tenant, at=clock.now()).in_hour == 3

    @pytest.mark.req("R-VD-14")
    def test_beyond_the_budget_readings_are_delayed_and_that_is_reported_once(
        self, shop: Workshop, waiting: list[str], clock: Clock
    ):
        clock.forward(seconds=1)
        tasks.verify_due()
        assert "reading_budget_spent" not in self.tenant_events(shop)
        for _ in range(3):
            clock.forward(seconds=10)
            tasks.verify_due()
        assert self.tenant_events(shop).count("reading_budget_spent") == 1
        soonest = min(row.due_at for row in Schedule.objects.filter(action_id__in=waiting))
        assert soonest - clock.now() > timedelta(seconds=20), "the longest interval of the contract is four seconds"

    def test_the_page_shows_that_the_budget_is_used_up(self, shop: Workshop, waiting: list[str], clock: Clock):
        for _ in range(2):
            clock.forward(seconds=5)
            tasks.verify_due()
        page = shop.operator.client.get(f"/t/{shop.slug}/systems").content.decode()
        assert "read budget is used up: waiting actions are read less often" in page
        assert "of 4" in page


class TestProbeOfIdleSystems:
    """A circuit that nobody needs any more closes all the same when the system is back."""

    @pytest.fixture
    def away(self, shop: Workshop, clock: Clock, tmp_path: Path) -> Path:
        root = tmp_path / "documents"
        assert limits(shop, failures=1, cooldown_s=20, longest_cooldown_s=600).status_code == 201
        written(shop)
        shutil.rmtree(root)
        clock.forward(seconds=2)
        tasks.verify_due()
        Schedule.objects.all().delete()
        assert health(shop).probe_at is not None
        return root

    def test_no_probe_is_made_before_the_cool_down_is_over(self, away: Path, clock: Clock):
        assert tasks.probe_idle() is False

    def test_a_recovered_system_is_detected_by_a_probe(self, shop: Workshop, away: Path, clock: Clock):
        away.mkdir()
        clock.forward(seconds=30)
        assert tasks.probe_idle() is True
        assert health(shop).probe_at is None
        assert tasks.probe_idle() is False

    def test_a_failed_probe_lengthens_the_wait(self, shop: Workshop, away: Path, clock: Clock):
        clock.forward(seconds=30)
        assert tasks.probe_idle() is True
        assert tasks.probe_idle() is False
        assert health(shop).cooldown_s == 40

    def test_no_separate_probe_is_made_while_a_reading_waits(self, shop: Workshop, away: Path, clock: Clock):
        written(shop, folder="other")
        clock.forward(seconds=30)
        assert tasks.probe_idle() is False
