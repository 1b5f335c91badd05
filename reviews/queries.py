"""Reads of everything after the execution attempt. Every one runs inside `tenancy`, except the list of due readings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

import orjson
from django.db.models import Count, Min, Q, QuerySet, Subquery, Sum, UUIDField, Value
from django.db.models.expressions import RawSQL
from django.db.models.functions import Coalesce

from ledger.actions.queries import actions, freezes
from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.rules import policies
from ledger.catalogue.rules.lent_lookups import with_lookup_of
from ledger.db import columns, execute, fetch_one, load_models, page_in_order, select
from ledger.record.queries import evidence
from ledger.record.queries.work import HELD_TENANTS
from ledger.record.rules.encryption import CannotOpen
from ledger.record.rules.ids import lower_bound
from ledger.record.rules.outcomes import Outcome, outcome_of
from reviews.cases.rules.batches import Progress
from reviews.cases.rules.runbooks import runbooks_with_tag
from reviews.models import (
    Batch,
    BatchItem,
    Case,
    ChangeLogPosition,
    Comment,
    GuardVerdict,
    Incident,
    IncidentLink,
    Observation,
    ReadingCount,
    ReadingTotal,
    Report,
    Schedule,
    SystemHealth,
    UngatedEffect,
    VerificationRun,
    Webhook,
    WebhookDelivery,
)
from reviews.readback.rules.limits import ReadingUsage, usage_at
from reviews.readback.rules.schedule import NO_DEBT, StopReason, VerificationDebt, release_stop
from reviews.reconciliation.rules.shown import (
    DECISIVE,
    NOT_READ,
    LastReading,
    Shown,
    describe_difference,
    exact_difference,
    shown_by,
)
from reviews.reconciliation.rules.verdict import VerificationResult
from reviews.reporting.rules.success_patterns import FindingSource

if TYPE_CHECKING:
    from ledger.catalogue.rules.contract import Contract
    from ledger.models import Action, Freeze


def observations_of(tenant_id: UUID, action_id: UUID) -> list[Observation]:
    return select(Observation, "tenant_id = $1 AND action_id = $2 ORDER BY id", tenant_id, action_id)


_ANSWERS = (
    f"SELECT {columns(Observation, 'o')} FROM reviews_observation o"
    " WHERE o.tenant_id = $1 AND o.action_id = ANY($2) AND o.source <> 'webhook' ORDER BY o.id"
)


def observations_call(tenant_id: UUID, action_ids: list[UUID]) -> tuple[Any, ...]:
    """The call for `pipeline` whose rows `read_observations` reads."""
    return _ANSWERS, tenant_id, action_ids


def read_observations(rows: Iterable[tuple[Any, ...]]) -> list[Observation]:
    """The answers of tools and the runtime about these actions, oldest first, without webhooks."""
    return [load_models(row, Observation)[0][0] for row in rows]


def last_observation(tenant_id: UUID, action_id: UUID) -> Observation | None:
    """The newest answer of the tool or the runtime."""
    found = Observation.objects.filter(tenant_id=tenant_id, action_id=action_id).exclude(source="webhook")
    return found.order_by("-id").first()


def observation_document(observation: Observation) -> dict[str, Any]:
    """The normalised answer that an observation points to."""
    data = evidence.open_evidence(observation.tenant_id, observation.pointer)
    return orjson.loads(data) if data is not None else {}


def runs_of(tenant_id: UUID, action_id: UUID) -> list[VerificationRun]:
    return select(VerificationRun, "tenant_id = $1 AND action_id = $2 ORDER BY number", tenant_id, action_id)


def doubtful_runs_call(tenant_id: UUID, action_ids: list[UUID]) -> tuple[Any, ...]:
    """Return the call for `pipeline` that counts the runs of each action whose answer supported nothing and settled
    nothing.
    """
    statement = (
        "SELECT action_id, count(*) FROM reviews_run WHERE tenant_id = $1 AND action_id = ANY($2)"
        " AND result = 'PENDING' AND discrepancy = 'UNVERIFIABLE_STATE' GROUP BY action_id"
    )
    return statement, tenant_id, action_ids


def last_run_number(tenant_id: UUID, action_id: UUID) -> int:
    """The number of an action's newest run; 0 before the first."""
    statement = "SELECT coalesce(max(number), 0) FROM reviews_run WHERE tenant_id = $1 AND action_id = $2"
    [(number,)] = execute(statement, tenant_id, action_id)
    return int(number)


def last_run_numbers(tenant_id: UUID, action_ids: list[UUID]) -> dict[UUID, int]:
    """Return the number of each action's newest run; actions without runs are left out."""
    rows = execute(
        "SELECT action_id, max(number) FROM reviews_run WHERE tenant_id = $1 AND action_id = ANY($2) GROUP BY 1",
        *(tenant_id, action_ids),
    )
    return dict(map(tuple, rows))


def last_run(tenant_id: UUID, action_id: UUID) -> VerificationRun | None:
    newest = "tenant_id = $1 AND action_id = $2 ORDER BY number DESC LIMIT 1"
    return fetch_one(VerificationRun, newest, tenant_id, action_id)


def last_runs(tenant_id: UUID, action_ids: list[UUID]) -> dict[UUID, VerificationRun]:
    """The newest run of each of these actions that has one."""
    found = VerificationRun.objects.filter(tenant_id=tenant_id, action_id__in=action_ids).order_by(
        "action_id", "-number"
    )
    return {run.action_id: run for run in found.distinct("action_id")}


_DECIDED: Final = ", ".join(f"'{each}'" for each in sorted(DECISIVE))
_BEST_FIRST: Final = (
    f"(result IN ({_DECIDED})) DESC, (consistency IN ('PRIMARY', 'STRONG')) DESC, (source <> '') DESC, number DESC"
)


def last_reading(action: Action, entry: Mapping[str, Any]) -> LastReading:
    """The newest decisive reading of an action's last attempt."""
    started = (entry.get("timestamps") or {}).get("executed_at")
    if started is None:
        return NOT_READ
    best = f"tenant_id = $1 AND action_id = $2 AND at >= $3 ORDER BY {_BEST_FIRST} LIMIT 1"
    run = fetch_one(VerificationRun, best, action.tenant_id, action.id, datetime.fromisoformat(started))
    return _read_by(run, action.contract_digest) if run is not None else NOT_READ


def accepted_differences(tenant_id: UUID, found: Collection[Action]) -> dict[UUID, str]:
    """Return the differences that a person accepted, for those of these actions that have any."""
    accepted = {each.id: each for each in found if outcome_of(each) is Outcome.ACCEPTED_AS_IT_IS}
    if not accepted:
        return {}
    runs = VerificationRun.objects.filter(tenant_id=tenant_id, action_id__in=accepted, result__in=DECISIVE)
    newest = runs.order_by("action_id", "-number").distinct("action_id")
    shown = {run.action_id: _read_by(run, accepted[run.action_id].contract_digest).difference for run in newest}
    return {action_id: difference for action_id, difference in shown.items() if difference}


def _read_by(run: VerificationRun, contract_digest: str) -> LastReading:
    shown = shown_by(source=run.source, consistency=run.consistency, result=run.result, discrepancy=run.discrepancy)
    reading = LastReading(shown=shown, run=str(run.pointer))
    if shown is not Shown.DIFFERENT:
        return reading
    try:
        contract = catalogue_queries.registered_contract(run.tenant_id, contract_digest)
        found = run_findings(run)
        return replace(
            reading, difference=describe_difference(found, contract), exact=exact_difference(found, contract)
        )
    except CannotOpen:
        return reading


def last_partial_run(tenant_id: UUID, action_id: UUID) -> VerificationRun | None:
    """The newest reading that found an action done in part."""
    newest = "tenant_id = $1 AND action_id = $2 AND result = $3 ORDER BY number DESC LIMIT 1"
    return fetch_one(VerificationRun, newest, tenant_id, action_id, str(VerificationResult.PARTIAL))


def run_findings(run: VerificationRun) -> dict[str, Any]:
    """A run's readings and findings: layers, readings, predicates, verdict and decision."""
    data = evidence.open_evidence(run.tenant_id, run.pointer)
    return orjson.loads(data) if data is not None else {}


def change_watch(tenant_id: UUID, system_id: UUID) -> ChangeLogPosition | None:
    """The position up to which a system's change log has been compared."""
    return ChangeLogPosition.objects.filter(tenant_id=tenant_id, system_id=system_id).first()


def known_ungated_places(tenant_id: UUID, system_id: UUID, places: list[str]) -> set[str]:
    """Return those of these positions of a change log that were reported already."""
    known = UngatedEffect.objects.filter(tenant_id=tenant_id, system_id=system_id, place__in=places)
    return set(known.values_list("place", flat=True))


def ungated_effect_of(tenant_id: UUID, case_id: UUID) -> UngatedEffect | None:
    """The ungated effect that a case is about."""
    return UngatedEffect.objects.filter(tenant_id=tenant_id, case_id=case_id).first()


def action_id_of(case: Case) -> UUID:
    """The action of a case that is about one."""
    assert case.action_id is not None, "an ungated effect has no action"
    return case.action_id


class ReadBy(NamedTuple):
    """The contract that an action is read by, and the later version whose lookup it has been lent, if any."""

    contract: Contract
    lookup: Contract | None


_LENT_LOOKUPS = """
SELECT DISTINCT ON (e.subject_id) e.subject_id, n.detail FROM ledger_event e
JOIN ledger_entry n ON n.tenant_id = e.tenant_id AND n.subject_id = e.subject_id AND n.seq = e.seq
WHERE e.tenant_id = $1 AND e.subject_id = ANY($2) AND e.kind = 'verification_reopened'
ORDER BY e.subject_id, e.seq DESC
"""


def reading_contracts(tenant_id: UUID, asked: Iterable[Action]) -> dict[UUID, ReadBy]:
    """By action the contract that it is read by: its own, with the lookup that an operator has connected since."""
    own = {each.id: catalogue_queries.registered_contract(tenant_id, each.contract_digest) for each in asked}
    blind = [action_id for action_id, contract in own.items() if contract.mutating and not contract.verifiable]
    rows = execute(_LENT_LOOKUPS, tenant_id, blind) if blind else ()
    named = {action_id: orjson.loads(detail or b"{}").get("lookup") for action_id, detail in rows}
    lent = {
        action_id: catalogue_queries.registered_contract(tenant_id, lookup["digest"])
        for action_id, lookup in named.items()
        if lookup
    }
    return {
        action_id: ReadBy(with_lookup_of(lent[action_id], contract), lent[action_id])
        if action_id in lent
        else ReadBy(contract, None)
        for action_id, contract in own.items()
    }


def case(tenant_id: UUID, case_id: UUID) -> Case | None:
    return fetch_one(Case, "tenant_id = $1 AND id = $2", tenant_id, case_id)


def cases_by_id(tenant_id: UUID, ids: list[UUID]) -> dict[UUID, Case]:
    return {each.id: each for each in Case.objects.filter(tenant_id=tenant_id, id__in=ids)}


def case_of(tenant_id: UUID, action_id: UUID) -> Case | None:
    """The open case of an action, or its newest one."""
    found = Case.objects.filter(tenant_id=tenant_id, action_id=action_id)
    return found.exclude(state="RESOLVED").first() or found.order_by("-id").first()


def cases_of(tenant_id: UUID, action_id: UUID) -> list[Case]:
    """Every case of an action, oldest first."""
    return list(Case.objects.filter(tenant_id=tenant_id, action_id=action_id).order_by("id"))


def cases(tenant_id: UUID, *, resolved: bool = False, after: UUID | None = None, limit: int = 200) -> list[Case]:
    """Return open cases, the most severe first and then the oldest, or settled ones, newest first; after the row
    `before`.
    """
    return cases_on_tab(tenant_id, "settled" if resolved else "all", sort="", at=None, after=after, limit=limit)


def cases_about(tenant_id: UUID, target: str, *, limit: int) -> list[Case]:
    """Return the cases about one target, the newest first; the case of an ungated effect has no action."""
    return list(Case.objects.filter(tenant_id=tenant_id, target=target).order_by("-id")[:limit])


def is_case_target(tenant_id: UUID, target: str) -> bool:
    """Return whether any case is about this target; an ungated effect has a target and no action."""
    return Case.objects.filter(tenant_id=tenant_id, target=target).exists()


def open_cases_under(found: Sequence[Freeze], *, limit: int) -> dict[UUID, list[Case]]:
    """Return, by freeze, the open cases about its scope and those of its incidents, the most severe first."""
    under: dict[UUID, list[Case]] = {each.id: [] for each in found}
    cases = [_open_cases_under(each)[:limit] for each in found]
    for case in cases[0].union(*cases[1:], all=True) if cases else ():
        under[case.freeze_id].append(case)  # type: ignore[attr-defined]
    return {
        freeze_id: sorted(rows, key=lambda case: (-case.severity, case.opened_at, case.id))
        for freeze_id, rows in under.items()
    }


def _open_cases_under(freeze: Freeze) -> QuerySet[Case]:
    tenant_id, value = freeze.tenant_id, freeze.value
    own = IncidentLink.objects.filter(tenant_id=tenant_id, subject_id=freeze.id).values("incident_id")
    linked = IncidentLink.objects.filter(tenant_id=tenant_id, incident_id__in=own, kind="case").values("subject_id")
    covered = {
        "target": Q(target=value),
        "tool": Q(tool=value),
        "agent": Q(action_id__in=actions.actions_of_agent(tenant_id, value)),
    }.get(freeze.scope, Q())
    concerned = covered | Q(id__in=linked) if covered else Q()
    found = Case.objects.filter(concerned, tenant_id=tenant_id).exclude(state="RESOLVED")
    return found.annotate(freeze_id=Value(freeze.id, output_field=UUIDField())).order_by(*SORTS[""])


SORTS: dict[str, tuple[str, ...]] = {
    "": ("-severity", "opened_at", "id"),
    "oldest": ("opened_at", "id"),
    "newest": ("-opened_at", "-id"),
    "owner": ("owner", "-severity", "opened_at", "id"),
    "reason": ("reason", "opened_at", "id"),
    "discrepancy": ("discrepancy", "opened_at", "id"),
}
_SETTLED_LAST = ("-resolved_at", "-id")


def cases_on_tab(
    tenant_id: UUID,
    name: str,
    *,
    sort: str,
    at: datetime | None,
    after: UUID | None = None,
    limit: int = 200,
    **wanted: Any,
) -> list[Case]:
    """Return a page of one tab of the queue: all, open, snoozed or settled; starting after the row `after`.

    Wanted: owner (None is nobody), side_effect_class, discrepancy, reason, severity, opened_before.
    """
    order = _SETTLED_LAST if name == "settled" else SORTS[sort]
    found = (
        _cases_on_shelf(tenant_id, name, at).filter(_as_wanted(wanted)).annotate(owner=Coalesce("claimed_by", _NOBODY))
    )
    if after is not None:
        last = (
            _cases_on_shelf(tenant_id, name, at)
            .annotate(owner=Coalesce("claimed_by", _NOBODY))
            .filter(id=after)
            .first()
        )
        if last is None:
            return []
        found = found.filter(_after_row(last, order))
    return list(found.order_by(*order)[:limit])


_NOBODY = Value(UUID(int=0), UUIDField())
_COLUMNS = {
    "owner": "claimed_by",
    "side_effect_class": "side_effect_class",
    "discrepancy": "discrepancy",
    "reason": "reason__startswith",
    "severity": "severity",
    "opened_before": "opened_at__lt",
}


def _as_wanted(wanted: dict[str, Any]) -> Q:
    found = Q()
    for name, value in wanted.items():
        found &= Q(claimed_by__isnull=True) if name == "owner" and value is None else Q(**{_COLUMNS[name]: value})
    return found


def _cases_on_shelf(tenant_id: UUID, name: str, at: datetime | None) -> QuerySet[Case]:
    found = Case.objects.filter(tenant_id=tenant_id)
    if name == "settled":
        return found.filter(state="RESOLVED")
    found = found.exclude(state="RESOLVED")
    if name == "all":
        return found
    asleep = Q(snoozed_until__isnull=False, snoozed_until__gt=at)
    return found.filter(asleep) if name == "snoozed" else found.exclude(asleep)


def _after_row(last: Any, order: tuple[str, ...]) -> Q:
    """Return the condition for rows after `last` in this order: equal in the first keys, later in the next."""
    found, equal = Q(), Q()
    for key in order:
        name = key.removeprefix("-")
        beyond = "lt" if key.startswith("-") else "gt"
        found |= equal & Q(**{f"{name}__{beyond}": getattr(last, name)})
        equal &= Q(**{name: getattr(last, name)})
    return found


def open_case_reasons(tenant_id: UUID) -> list[str]:
    """The reasons of open cases, each once."""
    found = Case.objects.filter(tenant_id=tenant_id).exclude(state="RESOLVED")
    return sorted(set(found.values_list("reason", flat=True)[:1000]))


def comments_of(tenant_id: UUID, subject_id: UUID) -> list[Comment]:
    """The thread of a case or an incident."""
    return select(Comment, "tenant_id = $1 AND subject_id = $2 ORDER BY id", tenant_id, subject_id)


def incident(tenant_id: UUID, incident_id: UUID) -> Incident | None:
    return Incident.objects.filter(tenant_id=tenant_id, id=incident_id).first()


def incidents_by_id(tenant_id: UUID, ids: Collection[UUID]) -> list[Incident]:
    return list(Incident.objects.filter(tenant_id=tenant_id, id__in=ids))


def incidents_of(tenant_id: UUID, subject_id: UUID) -> list[Incident]:
    """The incidents that an action, a case or a freeze belongs to, oldest first."""
    linked = IncidentLink.objects.filter(tenant_id=tenant_id, subject_id=subject_id).values("incident_id")
    found = Incident.objects.filter(Q(action_id=subject_id) | Q(id__in=linked), tenant_id=tenant_id)
    return list(found.order_by("id"))


def incidents_by_freeze(tenant_id: UUID, freeze_ids: Collection[UUID]) -> dict[UUID, list[Incident]]:
    """The incidents that each of these freezes belongs to, oldest first."""
    links = IncidentLink.objects.filter(tenant_id=tenant_id, subject_id__in=list(freeze_ids), kind="freeze")
    pairs = list(links.values_list("subject_id", "incident_id"))
    rows = Incident.objects.filter(tenant_id=tenant_id, id__in=[incident_id for _, incident_id in pairs])
    found: dict[UUID, list[Incident]] = {each: [] for each in freeze_ids}
    by_id = {row.id: row for row in rows}
    for freeze_id, incident_id in sorted(pairs):
        found[freeze_id].append(by_id[incident_id])
    return found


def actions_with_incidents(tenant_id: UUID, action_ids: list[UUID]) -> set[UUID]:
    """Return those of these actions that have an incident."""
    own = Incident.objects.filter(tenant_id=tenant_id, action_id__in=action_ids).values_list("action_id", flat=True)
    linked = IncidentLink.objects.filter(tenant_id=tenant_id, subject_id__in=action_ids, kind="action")
    return {each for each in own if each is not None} | set(linked.values_list("subject_id", flat=True))


def incidents(
    tenant_id: UUID,
    *,
    state: str = "OPEN",
    tag: str = "",
    order: str = "",
    after: UUID | None = None,
    limit: int = 200,
) -> list[Incident]:
    """Return open incidents, the most severe first and then the oldest, or closed ones, newest first, or in the order
    of a column; after the row `after`, and of one part of the taxonomy (R-CG-20).
    """
    found = Incident.objects.filter(tenant_id=tenant_id, state=state)
    if tag:
        books, causes = runbooks_with_tag(tag)
        named = Q(*(Q(runbook="", about__startswith=f"{cause}:") for cause in causes), _connector=Q.OR)
        found = found.filter(Q(runbook__in=books) | named if causes else Q(runbook__in=books))
    if order:
        return page_in_order(found, order, behind=after, limit=limit)
    last = incident(tenant_id, after) if after is not None else None
    if state == "OPEN":
        if last is not None:
            found = found.filter(Q(severity__lt=last.severity) | Q(severity=last.severity, id__gt=last.id))
        return list(found.order_by("-severity", "id")[:limit])
    if last is not None:
        found = found.filter(id__lt=last.id)
    return list(found.order_by("-id")[:limit])


def links_of(tenant_id: UUID, incident_id: UUID) -> list[IncidentLink]:
    return list(IncidentLink.objects.filter(tenant_id=tenant_id, incident_id=incident_id).order_by("id"))


def links_by_incident(tenant_id: UUID, incident_ids: Collection[UUID]) -> dict[UUID, list[IncidentLink]]:
    """The links of each incident, oldest first."""
    found: dict[UUID, list[IncidentLink]] = {each: [] for each in incident_ids}
    for link in IncidentLink.objects.filter(tenant_id=tenant_id, incident_id__in=list(incident_ids)).order_by("id"):
        found[link.incident_id].append(link)
    return found


def freezes_held(row: Incident) -> list[Any]:
    """The freezes in force that belong to an incident."""
    linked = {link.subject_id for link in links_of(row.tenant_id, row.id) if link.kind == "freeze"}
    return [each for each in freezes.freezes_in_force(row.tenant_id) if each.id in linked]


def open_incidents(tenant_id: UUID) -> list[Incident]:
    return list(Incident.objects.filter(tenant_id=tenant_id, state="OPEN").order_by("-id"))


def reports_of(tenant_id: UUID, action_id: UUID) -> list[Report]:
    return list(Report.objects.filter(tenant_id=tenant_id, action_id=action_id).order_by("id"))


def reports_between(tenant_id: UUID, *, after: datetime, until: datetime, limit: int | None = None) -> list[Report]:
    """Return the reports after a time and up to another, oldest first; found by the ids, which contain the time."""
    ids = {"id__gte": lower_bound(after), "id__lt": lower_bound(until + timedelta(milliseconds=1))}
    found = Report.objects.filter(tenant_id=tenant_id, at__gt=after, at__lte=until, **ids)
    return list(found.order_by("id")[:limit])


_CONCLUDED = f"""
SELECT {actions.action_columns("a")}, {columns(Schedule, "s")},
    (SELECT coalesce(max(r.number), 0) FROM reviews_run r WHERE r.tenant_id = $1 AND r.action_id = $2),
    (SELECT k.key_id FROM ledger_subjectkey k WHERE k.tenant_id = $1 AND k.subject_id = $2)
FROM ledger_action a LEFT JOIN reviews_schedule s ON s.tenant_id = $1 AND s.action_id = $2
WHERE a.tenant_id = $1 AND a.id = $2
"""


class RunFacts(NamedTuple):
    """The rows needed to conclude a run; `last_number` is 0 before an action's first run."""

    action: Action
    schedule: Schedule | None
    last_number: int
    key_id: UUID | None


def run_facts_call(tenant_id: UUID, action_id: UUID) -> tuple[Any, ...]:
    """The call for `pipeline` whose row `read_run_facts` reads."""
    return _CONCLUDED, tenant_id, action_id


def read_run_facts(row: tuple[Any, ...]) -> RunFacts:
    """Read the facts needed to conclude a run."""
    action, rest = actions.read_action(row)
    (schedule,), (number, key_id) = load_models(rest, Schedule)
    return RunFacts(action, schedule, number, key_id)


def schedule_of(tenant_id: UUID, action_id: UUID) -> Schedule | None:
    return fetch_one(Schedule, "tenant_id = $1 AND action_id = $2", tenant_id, action_id)


def schedules_of(tenant_id: UUID, action_ids: list[UUID]) -> dict[UUID, Schedule]:
    """The reading schedule of each of these actions."""
    found = select(Schedule, "tenant_id = $1 AND action_id = ANY($2)", tenant_id, action_ids)
    return {each.action_id: each for each in found}


def schedules(tenant_id: UUID) -> list[Schedule]:
    return list(Schedule.objects.filter(tenant_id=tenant_id).order_by("due_at")[:1000])


@dataclass(frozen=True, slots=True)
class OverdueReadings:
    """The readings of all tenants that are due and unclaimed, those that are late, and since when the first is due."""

    due: int
    late: int
    first_due_at: datetime | None


MOST_OVERDUE = 10_000
"""More overdue readings are not counted."""


def overdue_readings(*, at: datetime, late_after: timedelta) -> OverdueReadings:
    """Count the readings that are due and unclaimed, the longest due first, up to `MOST_OVERDUE`."""
    unclaimed = Schedule.objects.filter(Q(claimed_until__isnull=True) | Q(claimed_until__lte=at), due_at__lte=at)
    here = unclaimed.exclude(tenant_id__in=RawSQL(HELD_TENANTS, ()))
    found = here.order_by("due_at")[:MOST_OVERDUE].aggregate(
        due=Count("due_at"), late=Count("due_at", filter=Q(due_at__lte=at - late_after)), first_due_at=Min("due_at")
    )
    return OverdueReadings(**found)


def count_waiting_cases(tenant_id: UUID, *, at: datetime, most: int = 1000) -> tuple[int, datetime | None]:
    """Count the cases that are open and not snoozed, up to `most`, and the time since which the oldest is open."""
    awake = _cases_on_shelf(tenant_id, "open", at)[:most].aggregate(Count("id"), Min("opened_at"))
    return awake["id__count"], awake["opened_at__min"]


def recent_runs(tenant_id: UUID, *, limit: int = 200) -> list[VerificationRun]:
    """The newest verification runs of all actions."""
    return list(VerificationRun.objects.filter(tenant_id=tenant_id).order_by("-id")[:limit])


def verification_debts(tenant_id: UUID, system_ids: list[UUID], *, at: datetime) -> dict[UUID, VerificationDebt]:
    """Return the verification debt of each of these systems: the actions whose outcome is still to be read there."""
    rows = execute(_DEBTS, tenant_id, system_ids, at)
    return {
        system: VerificationDebt(waiting=waiting, due=due, oldest_at=oldest) for system, waiting, due, oldest in rows
    }


_DEBTS = """
SELECT asked.system_id, waiting, due, oldest_at FROM unnest($2::uuid[]) AS asked (system_id) CROSS JOIN LATERAL (
    SELECT count(*), count(*) FILTER (WHERE due_at <= $3), min(opened_at) FROM (
        SELECT due_at, opened_at FROM reviews_schedule s
        WHERE s.tenant_id = $1 AND s.system_id = asked.system_id AND recheck IS NULL AND NOT s.is_claim LIMIT 10000
    ) AS open_rows
) AS debt (waiting, due, oldest_at)
"""


def health_by_system(tenant_id: UUID) -> dict[UUID, SystemHealth]:
    """Return the health of each system that was ever queried, by its id."""
    return {each.system_id: each for each in select(SystemHealth, "tenant_id = $1", tenant_id)}


def incident_with_cause(tenant_id: UUID, about: str) -> Incident | None:
    """The open incident about a lasting cause, if there is one."""
    return Incident.objects.filter(tenant_id=tenant_id, about=about, state="OPEN").first()


# Batches


def batch(tenant_id: UUID, batch_id: UUID) -> Batch | None:
    return Batch.objects.filter(tenant_id=tenant_id, id=batch_id).first()


def batches(tenant_id: UUID, *, limit: int = 50) -> list[Batch]:
    """The newest batches."""
    return list(Batch.objects.filter(tenant_id=tenant_id).order_by("-id")[:limit])


def running_batches(tenant_id: UUID) -> list[UUID]:
    """Batches that a worker can go on with, oldest first."""
    return list(Batch.objects.filter(tenant_id=tenant_id, state="RUNNING").order_by("id").values_list("id", flat=True))


def batch_items(tenant_id: UUID, batch_id: UUID) -> list[BatchItem]:
    """Return the cases of a batch with their results; their number is bounded."""
    return list(BatchItem.objects.filter(tenant_id=tenant_id, batch_id=batch_id).order_by("number"))


def batch_progress(tenant_id: UUID, batch_ids: list[UUID]) -> dict[UUID, Progress]:
    """The progress of these batches."""
    found = BatchItem.objects.filter(tenant_id=tenant_id, batch_id__in=batch_ids)
    counts: dict[UUID, dict[str, int]] = {each: {} for each in batch_ids}
    for batch_id, state, count in found.values_list("batch_id", "state").annotate(Count("number")):
        counts[batch_id][state] = count
    return {
        each: Progress(sum(by.values()), by.get("DONE", 0), by.get("REFUSED", 0), by.get("LEFT", 0))
        for each, by in counts.items()
    }


def live_hook(tenant_id: UUID, hook_id: UUID) -> Webhook | None:
    """A webhook address in use."""
    return Webhook.objects.filter(tenant_id=tenant_id, id=hook_id, revoked_at__isnull=True).first()


def hooks_of(tenant_id: UUID, system_id: UUID) -> list[Webhook]:
    """The webhook addresses of a system, the revoked ones too, oldest first."""
    return list(Webhook.objects.filter(tenant_id=tenant_id, system_id=system_id).order_by("created_at", "id"))


def last_deliveries(tenant_id: UUID, hook_ids: list[UUID]) -> dict[UUID, datetime]:
    """The time of the last webhook at each of these addresses, as far back as deliveries are kept."""
    found = WebhookDelivery.objects.filter(tenant_id=tenant_id, hook_id__in=hook_ids).order_by("hook_id", "-at")
    return dict(found.distinct("hook_id").values_list("hook_id", "at"))


_SYSTEMS_ASKED = """
SELECT p.version, p.digest, s.id, s.name, h.probe_at IS NOT NULL, h.stopped_at IS NOT NULL
FROM ledger_policyversion p JOIN ledger_system s ON s.tenant_id = $1
LEFT JOIN reviews_health h ON h.tenant_id = $1 AND h.system_id = s.id
WHERE p.tenant_id = $1 AND p.kind = 'verification' AND p.active ORDER BY s.name
"""


def release_stops(tenant_id: UUID, *, at: datetime) -> dict[str, StopReason]:
    """Return the systems to which nothing irreversible is released now, and the reasons; a fact for the release."""
    found: dict[str, StopReason] = {}
    rows = execute(_SYSTEMS_ASKED, tenant_id)
    if not rows:
        return found
    policy = catalogue_queries.PolicyVersionInForce(tenant_id, "verification", *rows[0][:2])
    rules = policies.release_stop_rule(orjson.loads(policy.document))
    counted = rules.waiting is not None or rules.oldest_s is not None
    debts = verification_debts(tenant_id, [row[2] for row in rows], at=at) if counted else {}
    for _, _, system_id, name, is_open, stopped in rows:
        if not (is_open or stopped or counted):
            continue
        stop = release_stop(rules, is_open=is_open, stopped=stopped, debt=debts.get(system_id, NO_DEBT), at=at)
        if stop is not None:
            found[name] = stop
    return found


def reading_budget(tenant_id: UUID) -> policies.ReadingBudget:
    """The reading budget of the verification policy in force."""
    return policies.reading_budget(
        orjson.loads(bytes(catalogue_queries.active_policies(tenant_id)["verification"].document))
    )


def reading_usage(tenant_id: UUID, *, at: datetime) -> ReadingUsage:
    """The tenant's readings in this hour and on this day."""
    row = ReadingTotal.objects.filter(tenant_id=tenant_id).first()
    return usage_at(usage_from_row(row) if row is not None else None, at=at)


def usage_from_row(row: ReadingTotal) -> ReadingUsage | None:
    if row.hour_from is None or row.day_from is None:
        return None
    return ReadingUsage(hour_from=row.hour_from, in_hour=row.in_hour, day_from=row.day_from, in_day=row.in_day)


def usage_by_tool(tenant_id: UUID, *, since: date) -> list[tuple[UUID, str, int]]:
    """(system, tool, readings) since a day, the dearest first."""
    found = ReadingCount.objects.filter(tenant_id=tenant_id, day__gte=since)
    return list(found.values_list("system_id", "tool").annotate(total=Sum("readings")).order_by("-total", "tool")[:200])


def guard_verdicts(
    tenant_id: UUID,
    *,
    session_id: UUID | None = None,
    code: str = "",
    tag: str = "",
    before: UUID | None = None,
    limit: int = 50,
) -> list[GuardVerdict]:
    """The guard's log, newest first, starting below the id `before`; of one session, one code or one tag (R-CG-20)."""
    found = GuardVerdict.objects.filter(tenant_id=tenant_id)
    if session_id is not None:
        found = found.filter(session_id=session_id)
    if code:
        found = found.filter(codes__contains=[code])
    if tag:
        found = found.filter(tags__contains=[tag])
    if before is not None:
        found = found.filter(id__lt=before)
    return list(found.order_by("-id")[:limit])


def guarded_message(verdict: GuardVerdict) -> dict[str, Any]:
    """The message of a verdict, with its claims, violations and corrected text."""
    data = evidence.open_evidence(verdict.tenant_id, verdict.pointer)
    return orjson.loads(data) if data is not None else {}


_SAID = "FROM reviews_observation AS seen WHERE seen.tenant_id = run.tenant_id AND seen.action_id = run.action_id"
_CLAIMED = f"EXISTS (SELECT {_SAID} AND claimed_success)"
_ONLY_FAILED = f"EXISTS (SELECT {_SAID}) AND NOT EXISTS (SELECT {_SAID} AND status <> 'failed')"
_SIGNS = (
    "SELECT 'claim', code, count(*) FROM reviews_guardverdict, jsonb_array_elements_text(codes) AS code"
    " WHERE tenant_id = $1 AND id >= $2 AND id < $3 GROUP BY code"
    " UNION ALL SELECT 'answer', status, count(DISTINCT action_id) FROM reviews_observation"
    " WHERE tenant_id = $1 AND id >= $2 AND id < $3 GROUP BY status"
    " UNION ALL SELECT 'discrepancy', discrepancy, count(DISTINCT action_id) FROM reviews_run"
    " WHERE tenant_id = $1 AND id >= $2 AND id < $3 GROUP BY discrepancy"
    " UNION ALL SELECT 'overclaimed', discrepancy, count(DISTINCT action_id) FROM reviews_run AS run"
    f" WHERE tenant_id = $1 AND id >= $2 AND id < $3 AND {_CLAIMED} GROUP BY discrepancy"
    " UNION ALL SELECT 'consistency', consistency, count(DISTINCT action_id) FROM reviews_run AS run"
    f" WHERE tenant_id = $1 AND id >= $2 AND id < $3 AND result = 'PENDING' AND {_CLAIMED} GROUP BY consistency"
    " UNION ALL SELECT 'underclaimed', result, count(DISTINCT action_id) FROM reviews_run AS run"
    f" WHERE tenant_id = $1 AND id >= $2 AND id < $3 AND {_ONLY_FAILED} GROUP BY result"
)


def count_success_patterns(tenant_id: UUID, *, since: datetime, until: datetime) -> dict[FindingSource, dict[str, int]]:
    """Count the signs from guard, tools and readings in a period, by word; an answer and a reading count once for each
    action.
    """
    found: dict[FindingSource, dict[str, int]] = {}
    for kept, word, times in execute(_SIGNS, tenant_id, lower_bound(since), lower_bound(until)):
        found.setdefault(FindingSource(kept), {})[word] = times
    return found


def discrepancies_by_tool(tenant_id: UUID, *, since: datetime, until: datetime) -> list[tuple[str, str, int]]:
    """(tool, class, distinct actions) of the differences that readings of a period found."""
    found = _runs_between(tenant_id, since, until).exclude(discrepancy="")
    rows = found.annotate(tool=Subquery(actions.tool_of_row(tenant_id))).values_list("tool", "discrepancy")
    return list(rows.annotate(Count("action_id", distinct=True)).order_by("tool", "discrepancy"))


def failures(tenant_id: UUID, *, since: datetime, until: datetime, limit: int | None = None) -> list[tuple[Any, ...]]:
    """(action, result, class, recovery decision, when, whether its tool had reported success) of the newest conclusive
    run of each action whose reading found a difference in the period, newest action first.
    """
    return execute(_FAILURES, tenant_id, lower_bound(since), lower_bound(until), limit)


_FAILURES: Final = (
    "SELECT DISTINCT ON (run.action_id) run.action_id, run.result, run.discrepancy, run.recovery_decision, run.at,"
    f" {_CLAIMED} FROM reviews_run AS run"
    " WHERE run.tenant_id = $1 AND run.id >= $2 AND run.id < $3 AND run.discrepancy <> '' AND run.result <> 'PENDING'"
    " ORDER BY run.action_id DESC, run.number DESC LIMIT $4"
)


def wrong_targets(tenant_id: UUID, *, since: datetime, until: datetime, limit: int) -> list[tuple[UUID, datetime]]:
    """Return (action, when first found in the period) of effects on unauthorised targets, newest action first."""
    grave = _runs_between(tenant_id, since, until).filter(discrepancy="WRONG_TARGET_MODIFIED")
    return list(grave.values_list("action_id").annotate(first=Min("at")).order_by("-action_id")[:limit])


def _runs_between(tenant_id: UUID, since: datetime, until: datetime) -> QuerySet[VerificationRun]:
    return VerificationRun.objects.filter(tenant_id=tenant_id, id__gte=lower_bound(since), id__lt=lower_bound(until))


def ungated_effects(tenant_id: UUID, *, since: datetime, until: datetime, limit: int) -> list[UngatedEffect]:
    """Return the ungated changes of a period, newest first."""
    found = UngatedEffect.objects.filter(tenant_id=tenant_id, id__gte=lower_bound(since), id__lt=lower_bound(until))
    return list(found.order_by("-id")[:limit])


def reading_codes(tenant_id: UUID, action_ids: list[UUID]) -> dict[UUID, list[tuple[str, str, str, datetime]]]:
    """By action its verification runs in order, each as (result, discrepancy, consistency, when)."""
    found: dict[UUID, list[tuple[str, str, str, datetime]]] = {}
    rows = execute(
        "SELECT action_id, result, discrepancy, consistency, at FROM reviews_run"
        " WHERE tenant_id = $1 AND action_id = ANY($2) ORDER BY action_id, number",
        *(tenant_id, action_ids),
    )
    for action_id, result, discrepancy, consistency, at in rows:
        found.setdefault(action_id, []).append((result, discrepancy, consistency, at))
    return found


_COMPLETED: Final = "SELECT action_id, event_id FROM reviews_report WHERE tenant_id = $1 AND completed AND "


def completions_reported(tenant_id: UUID, *, since: datetime) -> list[tuple[UUID, UUID]]:
    """Return (action, event on whose state it is based) of the reports of completion since then."""
    return execute(_COMPLETED + "id >= $2", tenant_id, lower_bound(since))


def completions_reported_on(tenant_id: UUID, event_ids: list[UUID]) -> set[UUID]:
    """Return those of these events on whose state a report of completion was based."""
    return {event_id for _, event_id in execute(_COMPLETED + "event_id = ANY($2)", tenant_id, event_ids)}
