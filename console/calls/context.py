"""Call statistics for the pages: periods, rates, charts, and a link from every number to its calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.urls import reverse

from approvals.agents.rules import acceptance
from approvals.agents.rules.acceptance import HEALTHY_PHANTOMS, UNDISCLOSED_NAMES, CallTally
from approvals.gate import queries as gate_queries
from console.web import charts, labels
from ledger.actions.queries import actions
from ledger.record.queries import events
from reviews import queries as after
from reviews.reporting.rules.success_patterns import WORDS, FindingSource, count_patterns

if TYPE_CHECKING:
    from approvals.models import Agent

PERIODS: Final = {
    "day": ("24 hours", timedelta(days=1), timedelta(hours=1)),
    "week": ("7 days", timedelta(days=7), timedelta(hours=6)),
    "month": ("30 days", timedelta(days=30), timedelta(days=1)),
}
SLICES: Final = {"agent": "agent_id", "tool": "tool", "tier": "model_tier", "disclosed": "disclosed"}
_ZERO = datetime(2000, 1, 1, tzinfo=UTC)
MOST_LINES = 50
_OUTCOMES: Final[dict[str, dict[str, Any]]] = {
    "accepted": {"accepted": True},
    "refused": {"accepted": False},
    "phantom": {"category": "phantom"},
    "argument": {"category": "argument_hallucination"},
    "undisclosed": {"code__in": UNDISCLOSED_NAMES, "accepted": False},
}


@dataclass(frozen=True)
class Period:
    """The period of figures, and the resolution of their charts."""

    name: str
    word: str
    since: datetime
    until: datetime
    step: timedelta

    @property
    def before(self) -> Period:
        """The period of the same length that ended when this one began."""
        return Period(self.name, self.word, self.since - (self.until - self.since), self.since, self.step)

    def starts(self) -> list[datetime]:
        """The starts of its intervals, as the database bins them."""
        first = _ZERO + (self.since - _ZERO) // self.step * self.step
        return [first + self.step * number for number in range((self.until - first) // self.step + 1)]


def period_ending_at(name: str, *, at: datetime) -> Period:
    """The period of that name that ends now; a week if there is no such name."""
    known = name if name in PERIODS else "week"
    word, length, step = PERIODS[known]
    return Period(known, word, at - length, at, step)


def chosen_period(given: Mapping[str, str], *, at: datetime) -> Period:
    """Return the period from `from` to `to` if an address has both, otherwise the period that it names, otherwise a
    week.
    """
    since, until = (_parse_time(given.get(name, "")) for name in ("from", "to"))
    if since is None or until is None or since >= until:
        return period_ending_at(given.get("period", ""), at=at)
    return Period("", "stretch of time", since, until, until - since)


def _parse_time(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None and found >= _ZERO else None


def period_tabs(path: str, given: Mapping[str, str], chosen: Period) -> list[dict[str, Any]]:
    """The periods as links that keep the rest of the address."""
    kept = {name: value for name, value in given.items() if name not in ("period", "before", "from", "to")}
    return [
        {"href": f"{path}?{urlencode(kept | {'period': name})}", "word": word, "current": name == chosen.name}
        for name, (word, _, _) in PERIODS.items()
    ]


def calls_href(slug: str, over: Period, **about: Any) -> str:
    """Return the address of the list of the calls that a number counts."""
    wanted = {name: value for name, value in about.items() if value is not None}
    return f"{reverse('calls', args=[slug])}?{urlencode({'period': over.name} | wanted)}"


def rate_figures(tally: CallTally, href: Callable[..., str]) -> list[dict[str, Any]]:
    """Return the measuring classes of a tally as figures, each with a link to its calls."""
    return [
        _rate("Calls", str(tally.made), tally.made, href()),
        _rate(
            "Acceptance rate", charts.format_percent(tally.acceptance_rate), tally.accepted, href(outcome="accepted")
        ),
        _rate("Unknown-tool rate", charts.format_percent(tally.phantom_share), tally.phantom, href(outcome="phantom")),
        _rate("Wrong arguments", charts.format_percent(tally.argument_share), tally.argument, href(outcome="argument")),
        _rate("Undisclosed tools", str(tally.undisclosed), tally.undisclosed, href(outcome="undisclosed")),
        _rate("Tool failed", charts.format_percent(tally.failed_share), tally.failed, href(outcome="failed")),
    ]


def _rate(word: str, figure: str, count: int, href: str) -> dict[str, Any]:
    return {"word": word, "figure": figure, "count": count, "href": href}


def rate_charts(made: Mapping[tuple[Any, ...], CallTally], over: Period) -> dict[str, Any]:
    """The two charts of a tally by time: acceptance from 0 to 100 %, and phantoms with their line."""
    by_start = {key[-1]: tally for key, tally in made.items()}
    tallies = [by_start.get(start, CallTally()) for start in over.starts()]
    return {
        "acceptance": charts.sparkline(
            [each.acceptance_rate for each in tallies], label=f"Acceptance rate over {over.word}", top=1.0
        ),
        "phantoms": charts.sparkline(
            [each.phantom_share for each in tallies],
            label=f"Unknown-tool rate over {over.word}, the dashed line is 2 %",
            line=HEALTHY_PHANTOMS,
        ),
    }


def flag_rows(agent: Agent) -> list[dict[str, Any]]:
    """Return the flags of an agent in words, with their numbers."""
    return [
        {
            "flag": flag,
            "word": labels.FLAGS.get(flag, labels.sentence_case(flag)),
            "said": _flag_text(flag, facts),
            "since": datetime.fromisoformat(facts["since"]),
        }
        for flag, facts in sorted(agent.flags.items())
    ]


def _flag_text(flag: str, facts: Mapping[str, Any]) -> str:
    if flag == acceptance.Flag.PROBING:
        return (
            f"{facts['names']} different tools were tried and refused in one session; {facts['limit']} raise the flag."
        )
    if flag == acceptance.Flag.LOW_ACCEPTANCE:
        return f"{facts['accepted']} of {facts['calls']} calls were accepted; the floor is {facts['floor']} %."
    return f"{facts['phantom']} of {facts['calls']} calls named a tool that does not exist; below 2 % is healthy."


def tallies_by(by: str, made: dict[Any, CallTally]) -> dict[Any, CallTally]:
    """The calls by agent, tool, model tier or band of disclosed tools, from those by the column of that."""
    found: dict[Any, CallTally] = {}
    for key, tally in made.items():
        place = acceptance.disclosure_band(key) if by == "disclosed" else key
        found[place] = found.get(place, CallTally()) + tally
    return found


def outcome_filter(outcome: str, *, tenant_id: UUID, over: Period) -> dict[str, Any]:
    """The columns that an outcome represents."""
    if outcome == "failed":
        broken = actions.failed_executions(tenant_id, since=over.since, until=over.until)
        return {"accepted": True, "action_id__in": broken}
    return dict(_OUTCOMES.get(outcome, {}))


# Whether agents are still sending calls to the gate.


QUIET_AFTER: Final = timedelta(minutes=15)


@dataclass(frozen=True)
class GateIntake:
    """The time of the last call, and whether an empty list can be trusted."""

    last_call_at: datetime | None
    healthy: bool
    reason: str = ""


def gate_intake(tenant_id: UUID, *, at: datetime) -> GateIntake:
    """The intake of a tenant: healthy, quiet for long, or never used."""
    last = gate_queries.last_call(tenant_id)
    if last is None:
        return GateIntake(None, False, "no calls yet")
    if last.code == "GATE_FAULT":
        return GateIntake(last.at, False, "the gate could not judge the last call")
    if at - last.at > QUIET_AFTER:
        return GateIntake(last.at, False, "no call for a long time")
    return GateIntake(last.at, True)


def patterns_in_period(tenant_id: UUID, *, since: datetime, until: datetime) -> dict[str, int]:
    """Count each pattern of hallucinated success in a period, over gate, guard and verification (R-HS-15)."""
    refused = Counter[str]()
    for (code, _), times in gate_queries.count_refusals(tenant_id, since=since, until=until).items():
        refused[code] += times
    entered = events.count_state_entries(tenant_id, WORDS[FindingSource.STATE], since=since, until=until)
    found = after.count_success_patterns(tenant_id, since=since, until=until)
    return count_patterns([(FindingSource.REFUSAL, refused), (FindingSource.STATE, entered), *found.items()])
