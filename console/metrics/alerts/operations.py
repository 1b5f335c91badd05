"""Alert rules and alerts: created, changed and ended by people, raised and cleared by figures.

Each turn is one transaction: the row, its event, and the end of the wait. If we crash before it commits, the next look
finds what this one did. The database keeps two looks at once from raising the same alert twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from console.metrics import queries
from console.metrics.rules import alerts
from console.metrics.rules.alerts import AlertTerms, AlertTurn
from console.metrics.rules.catalogue import BY_ID
from console.metrics.rules.filters import EVERYTHING
from console.metrics.rules.periods import period_between
from console.models import Alert, AlertRule
from ledger.catalogue import queries as catalogue
from ledger.record import operations as ledger
from ledger.record.rules.refusals import NotFound, Refused

COMPARED_OVER: Final = timedelta(days=30)
HOUR: Final = timedelta(hours=1)


class TooManyAlertRules(Refused):
    """There are already fifty alert rules; end one first."""

    code = "TOO_MANY_ALERT_RULES"


def make_rule(*, tenant_id: UUID, terms: AlertTerms, by: ledger.Actor, at: datetime) -> AlertRule:
    """Watch a share from now on."""
    alerts.check_terms(terms)
    if len(queries.alert_rules(tenant_id)) >= alerts.MOST_RULES:
        raise TooManyAlertRules
    about = terms.about
    watched: dict[str, Any] = {
        "metric": terms.metric,
        "tool": about.tool,
        "agent": about.agent,
        "side_effect_class": about.side_effect_class,
        "window_h": terms.window_h,
        **_thresholds(terms),
    }
    row = AlertRule.objects.create(tenant_id=tenant_id, id=ledger.new_id(at), made_at=at, **watched)
    made = ledger.NewEvent(kind="alert_rule_made", to="ACTIVE", detail=watched)
    ledger.append(ledger.SubjectHead(tenant_id=tenant_id, id=row.id, kind="alert_rule"), made, actor=by, at=at)
    return row


def change_rule(
    *,
    tenant_id: UUID,
    rule_id: UUID,
    raise_at: int,
    clear_at: int,
    least_cases: int,
    hold: timedelta,
    by: ledger.Actor,
    at: datetime,
) -> AlertRule:
    """Change the thresholds of a rule; an open alert stays and is judged by the new ones. A waiting time
    starts again.
    """
    head, row = _lock_rule(tenant_id, rule_id)
    row.raise_at, row.clear_at, row.least_cases = raise_at, clear_at, least_cases
    row.hold_min, row.past_since = int(hold.total_seconds()) // 60, None
    terms = queries.terms_of(row)
    alerts.check_terms(terms)
    said = _thresholds(terms)
    AlertRule.objects.filter(tenant_id=tenant_id, id=rule_id).update(past_since=None, **said)
    ledger.append(head, ledger.NewEvent(kind="alert_rule_changed", detail=said), actor=by, at=at)
    return row


def end_rule(*, tenant_id: UUID, rule_id: UUID, reason: str, by: ledger.Actor, at: datetime) -> AlertRule:
    """End a rule; its open alert ends with it, with that reason."""
    head, row = _lock_rule(tenant_id, rule_id)
    row.ended_at = at
    AlertRule.objects.filter(tenant_id=tenant_id, id=rule_id).update(ended_at=at, past_since=None)
    ledger.append(
        head, ledger.NewEvent(kind="alert_rule_ended", to="ENDED", detail={"reason": reason}), actor=by, at=at
    )
    alert = queries.open_alerts(tenant_id).get((rule_id, ""))
    if alert is not None:
        _clear(alert, alerts.describe_end(queries.terms_of(row)), by=by, at=at)
    return row


def judge_rules(*, tenant_id: UUID, at: datetime) -> int:
    """Judge each rule by its present figure; return the number of alerts that changed. Inside `tenancy`."""
    rules = queries.alert_rules(tenant_id)
    counted_to = queries.counted_to(tenant_id) if rules else None
    if counted_to is None:
        return 0
    turned = 0
    for each in rules:
        # Whoever changes or judges it at the same time goes first; the next look sees what came of it.
        rule = AlertRule.objects.select_for_update(skip_locked=True).filter(tenant_id=tenant_id, id=each.id).first()
        if rule is not None and rule.ended_at is None:
            turned += _judge(rule, counted_to, at=at)
    return turned


def _judge(rule: AlertRule, counted_to: datetime, *, at: datetime) -> bool:
    terms = queries.terms_of(rule)
    alert = queries.open_alerts(rule.tenant_id).get((rule.id, ""))
    period = period_between(counted_to - (terms.window_h - 1) * HOUR, counted_to, step=HOUR)
    found = queries.count_by(rule.tenant_id, since=period.since, until=period.until, span=1, about=terms.about)
    counts, metric = found.get((), {}), BY_ID[terms.metric]
    part, whole = counts.get(metric.part, 0), counts.get(metric.whole, 0)
    step = alerts.judge_figure(
        terms, is_open=alert is not None, past_since=rule.past_since, part=part, whole=whole, at=counted_to
    )
    if step.past_since != rule.past_since:
        AlertRule.objects.filter(tenant_id=rule.tenant_id, id=rule.id).update(past_since=step.past_since)
    if step.turn is None:
        return False
    said = alerts.describe_turn(terms, step.turn, part=part, whole=whole)
    if step.turn is AlertTurn.RAISE:
        _raise(rule.tenant_id, "alert_raised", said, rule_id=rule.id, at=at)
    elif alert is not None:
        _clear(alert, said, by=ledger.SYSTEM, at=at)
    return True


def compare_versions_in_force(*, tenant_id: UUID, at: datetime) -> int:
    """Compare the version in force of the verification policy and of each contract with the previous one, over the last
    30 days; return the number of alerts that changed. Inside `tenancy`.
    """
    since, is_alone = at - COMPARED_OVER, queries.lock_comparison(tenant_id)
    if not is_alone:
        return 0
    found = {"verification": _policy_versions(tenant_id, since, at), **_contract_versions(tenant_id, since)}
    known = {about: alert for (rule_id, about), alert in queries.open_alerts(tenant_id).items() if rule_id is None}
    return sum(_compare(tenant_id, about, found.get(about), known.get(about), at=at) for about in {*found, *known})


Compared = tuple[tuple[str, Mapping[str, int]], tuple[str, Mapping[str, int]]]
"""Two versions with their counts, the older first."""


def _policy_versions(tenant_id: UUID, since: datetime, at: datetime) -> Compared | None:
    period = period_between(since, at, step=timedelta(days=1))
    rows = queries.count_by(
        tenant_id, "version", since=period.since, until=period.until, span=period.span, about=EVERYTHING
    )
    released = dict.fromkeys(catalogue.policy_versions_by_digest(tenant_id, "verification").values())
    in_force = catalogue.active_policies(tenant_id).get("verification")
    return _newest_two(
        [(each, rows[(each,)]) for each in released if (each,) in rows], in_force.version if in_force else None
    )


def _contract_versions(tenant_id: UUID, since: datetime) -> dict[str, Compared | None]:
    """Return the versions of those contracts that have a new one, because their counts are read from single actions."""
    versions = catalogue.contract_versions(tenant_id)
    new = {each.name for each in versions if each.registered_at >= since}
    several = {each.name for each in versions if each.name in new and each.registered_at < since}
    several |= {each for each in new if sum(row.name == each for row in versions) > 1}
    if not several:
        return {}
    rows = queries.count_by_contract(tenant_id, sorted(several), since=since)
    in_force = catalogue.newest_contracts(tenant_id, several)
    found: dict[str, Compared | None] = {}
    for name in several:
        own = [
            (each.version, rows[each.digest]) for each in versions[::-1] if each.name == name and each.digest in rows
        ]
        found[f"contract {name}"] = _newest_two(own, in_force[name].version if name in in_force else None)
    return found


def _newest_two(judged: Sequence[tuple[str, Mapping[str, int]]], in_force: str | None) -> Compared | None:
    """The version in force and the previous one that judged something; None if there is no such pair."""
    known = [each for each in judged if each[1].get("executed")]
    place = next((number for number, (version, _) in enumerate(known) if version == in_force), 0)
    return (known[place - 1], known[place]) if place else None


def _compare(tenant_id: UUID, about: str, found: Compared | None, alert: Alert | None, *, at: datetime) -> bool:
    turned = False
    if alert is not None:
        said = (
            f"{_scope_name(about)} {alert.version} is compared with {alert.previous} no more:"
            " another version is in force, or one of them has no case in the last 30 days."
        )
        if found is not None and (found[0][0], found[1][0]) == (alert.previous, alert.version):
            if not alerts.is_close_again(found[0][1], found[1][1]):
                return False
            said = f"{_scope_name(about)} {alert.version} and {alert.previous} are not apart beyond chance any more."
        _clear(alert, said, by=ledger.SYSTEM, at=at)
        turned = True
    if found is not None:
        (previous, old), (version, new) = found
        said = alerts.describe_regression(_scope_name(about), (previous, version), old, new)
        if said:
            _raise(tenant_id, "regression_found", said, about=about, version=version, previous=previous, at=at)
            turned = True
    return turned


def _scope_name(about: str) -> str:
    return "Verification policy" if about == "verification" else f"C{about[1:]}"


def _raise(
    tenant_id: UUID,
    kind: str,
    said: str,
    *,
    at: datetime,
    rule_id: UUID | None = None,
    about: str = "",
    version: str = "",
    previous: str = "",
) -> None:
    words = {"about": about, "version": version, "previous": previous, "said": said}
    row = Alert.objects.create(tenant_id=tenant_id, id=ledger.new_id(at), rule_id=rule_id, raised_at=at, **words)
    detail = {"rule_id": str(rule_id) if rule_id else None, **words}
    head = ledger.SubjectHead(tenant_id=tenant_id, id=row.id, kind="alert")
    ledger.append(head, ledger.NewEvent(kind=kind, to="RAISED", detail=detail), actor=ledger.SYSTEM, at=at)


def _clear(alert: Alert, said: str, *, by: ledger.Actor, at: datetime) -> None:
    head = ledger.lock_subject(tenant_id=alert.tenant_id, subject_id=alert.id, kind="alert")
    Alert.objects.filter(tenant_id=alert.tenant_id, id=alert.id).update(cleared_at=at, cleared_said=said)
    ledger.append(head, ledger.NewEvent(kind="alert_cleared", to="CLEARED", detail={"said": said}), actor=by, at=at)


def _lock_rule(tenant_id: UUID, rule_id: UUID) -> tuple[ledger.SubjectHead, AlertRule]:
    row = AlertRule.objects.select_for_update().filter(tenant_id=tenant_id, id=rule_id, ended_at=None).first()
    if row is None:
        raise NotFound(detail="Alert rule not found, or it has ended.")
    return ledger.lock_subject(tenant_id=tenant_id, subject_id=rule_id, kind="alert_rule"), row


def _thresholds(terms: AlertTerms) -> dict[str, int]:
    return {
        "raise_at": terms.raise_at,
        "clear_at": terms.clear_at,
        "least_cases": terms.least_cases,
        "hold_min": int(terms.hold.total_seconds()) // 60,
    }
