"""Alert rules: how far and for how long a share must deviate before people are notified. Pure.

1. A rule raises at one threshold and clears at another, so that a figure that moves around either does not flap. Where
   the raising threshold is the higher one, the alert is about too much, otherwise about too little.
2. It turns once the figure has been past the threshold for as long as the rule says, at each look in between. A look
   that finds it on this side starts the wait anew.
3. Fewer cases than the rule wants decide nothing: what is open stays open, what is not is not raised, and a wait is
   over. Silence is no evidence that something is well again.
4. Thresholds are whole hundredths of a percent, and compared without rounding.
5. A regression alert is raised where one of the `COMPARED` shares under the version in force and the one before it is
   farther apart than chance explains, in either direction: a version that finds less may have stopped looking. It
   clears where all are within `CLOSE_AGAIN`, which is narrower, or where another version is in force.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from console.metrics.rules.catalogue import BY_ID, METRICS, Metric, MetricKind
from console.metrics.rules.filters import MetricFilter
from console.metrics.rules.observations import describe_change, format_share
from console.metrics.rules.regression import BEYOND_CHANCE, exceeds_chance
from ledger.record.rules.refusals import Refused

SHARES: Final = tuple(each for each in METRICS if each.kind is MetricKind.SHARE)
WINDOWS_H: Final = {1: "hour", 6: "6 hours", 24: "24 hours", 168: "7 days"}
MOST_RULES: Final = 50
ALL: Final = 10_000
CLOSE_AGAIN: Final = 1.64
COMPARED: Final = tuple(BY_ID[each] for each in ("M-02", "M-06", "M-08", "M-10", "M-11"))
"""What a version of a policy or a contract can be to blame for."""
Counts = Mapping[str, int]


class UnfitAlertRule(Refused):
    """An alert rule needs a share to watch, and two different thresholds."""

    code = "ALERT_RULE_UNFIT"
    status = 422


@dataclass(frozen=True)
class AlertTerms:
    """The metric that a rule watches, and its thresholds in hundredths of a percent."""

    metric: str
    about: MetricFilter
    window_h: int
    raise_at: int
    clear_at: int
    least_cases: int
    hold: timedelta

    @property
    def raises_above(self) -> bool:
        return self.raise_at > self.clear_at


class AlertTurn(StrEnum):
    RAISE = "raise"
    CLEAR = "clear"


@dataclass(frozen=True)
class AlertStep:
    """The result of one evaluation: the time since which the figure has been past its threshold, and the turn."""

    past_since: datetime | None = None
    turn: AlertTurn | None = None


def check_terms(terms: AlertTerms) -> None:
    """Refuse a rule that could never turn, or would flap."""
    if terms.metric not in {each.id for each in SHARES}:
        raise UnfitAlertRule(f"{terms.metric} is not a share; alert rules apply to shares.")
    if terms.window_h not in WINDOWS_H:
        raise UnfitAlertRule("A rule covers the last 1, 6, 24 or 168 hours.")
    if terms.raise_at == terms.clear_at:
        raise UnfitAlertRule("The thresholds to raise and to clear must differ, or the alert would flap.")


def judge_figure(
    terms: AlertTerms, *, is_open: bool, past_since: datetime | None, part: int, whole: int, at: datetime
) -> AlertStep:
    """Judge whether the alert turns at this evaluation (rules 1 to 4)."""
    if whole < terms.least_cases:
        return AlertStep()
    threshold = terms.clear_at if is_open else terms.raise_at
    wants_high = terms.raises_above is not is_open
    distance = part * ALL - threshold * whole
    if not (distance >= 0 if wants_high else distance <= 0):
        return AlertStep()
    since = past_since or at
    if at - since < terms.hold:
        return AlertStep(past_since=since)
    return AlertStep(turn=AlertTurn.CLEAR if is_open else AlertTurn.RAISE)


def describe_rule(terms: AlertTerms) -> str:
    """A rule as one sentence."""
    raised, cleared = ("above", "below") if terms.raises_above else ("below", "above")
    held = f", once that has held for {_minutes(terms.hold)}" if terms.hold else ""
    return (
        f"{_figure(terms)} over the last {WINDOWS_H[terms.window_h]}:"
        f" raised at {_format_percent(terms.raise_at)} or {raised},"
        f" cleared at {_format_percent(terms.clear_at)} or {cleared}{held}; looked at from {terms.least_cases}"
        f" case{'' if terms.least_cases == 1 else 's'} on."
    )


def describe_turn(terms: AlertTerms, turn: AlertTurn, *, part: int, whole: int) -> str:
    """The message about a turn: the figure, and the threshold that it has passed."""
    is_raised = turn is AlertTurn.RAISE
    threshold = terms.raise_at if is_raised else terms.clear_at
    side = "above" if terms.raises_above is is_raised else "below"
    said = (
        f"{_figure(terms)}: {format_share(part / whole)} in the last {WINDOWS_H[terms.window_h]} ({part} of {whole}),"
        f" which is {_format_percent(threshold)} or {side}"
    )
    if terms.hold:
        said += f" and has been for {_minutes(terms.hold)}"
    return f"{said}. It clears at {_format_percent(terms.clear_at)}." if is_raised else f"{said}."


def describe_end(terms: AlertTerms) -> str:
    """The message when a rule is ended under an open alert."""
    return f"{_figure(terms)}: the rule was ended. Nothing says that the figure is well again."


def _figure(terms: AlertTerms) -> str:
    narrowed = terms.about.columns().values()
    return f"{BY_ID[terms.metric].words}{' of ' if narrowed else ''}{', '.join(narrowed)}"


def _format_percent(hundredths: int) -> str:
    whole, rest = divmod(hundredths, 100)
    return f"{whole}{f'.{rest:02}'.rstrip('0') if rest else ''} %"


def _minutes(length: timedelta) -> str:
    count = int(length.total_seconds()) // 60
    return f"{count} minute{'' if count == 1 else 's'}"


# Regressions


def describe_regression(about: str, versions: tuple[str, str], old: Counts, new: Counts) -> str:
    """The sentence of a regression between two versions, oldest first; empty if chance explains it (rule 5)."""
    told = [
        _difference_text(each, versions[0], old, new) for each in COMPARED if _is_apart(each, old, new, BEYOND_CHANCE)
    ]
    return f"{about} {versions[1]}: {'; '.join(told)}. Chance does not explain it." if told else ""


def is_close_again(old: Counts, new: Counts) -> bool:
    """Return whether all shares under two versions are close enough to close an alert (rule 5)."""
    return not any(_is_apart(each, old, new, CLOSE_AGAIN) for each in COMPARED)


def _is_apart(metric: Metric, old: Counts, new: Counts, bound: float) -> bool:
    return exceeds_chance(old, new, metric.part, metric.whole, bound=bound)


def _difference_text(metric: Metric, previous: str, old: Counts, new: Counts) -> str:
    before, now = (each.get(metric.part, 0) / each[metric.whole] for each in (old, new))
    return (
        f"{metric.words}: {describe_change(before, now)}, from {format_share(before)} of {old[metric.whole]} under"
        f" {previous} to {format_share(now)} of {new[metric.whole]}"
    )
