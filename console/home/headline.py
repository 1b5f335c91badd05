"""The sentences at the top of Home: is there something for me to do, and is anything wrong?

1. First what waits for the reader: the items of the list on the page, by kind. A list that may be cut off is told as
   "at least".
2. Then what waits for others: requests, cases and incidents of which more are open than the reader was told.
3. Then what is wrong on record: outcomes that are not known, open alerts, systems of record whose readings fail,
   requests without an approver, flagged agents, undelivered messages.
4. Only where there is no case, no incident and none of these does it say that nothing is wrong, and it names what it
   looked at.
5. Money is told of the cases that the reader may settle, and only where none of them was left out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

QUIET: Final = "Nothing is wrong on record: no open case or incident, no unknown outcome, no alert."
_NOUNS: Final = {"approval": "approval", "confirmation": "confirmation", "case": "case", "incident": "incident"}


@dataclass(frozen=True, kw_only=True)
class HomeFacts:
    """Counts of open work and of faults in a tenant; `failing` are the systems whose readings fail."""

    requests: int = 0
    cases: int = 0
    incidents: int = 0
    unknown: int = 0
    alerts: int = 0
    failing: Collection[str] = ()
    stranded: int = 0
    flagged: int = 0
    undelivered: int = 0


def describe_waiting(mine: Mapping[str, int], *, is_cut_off: bool) -> str:
    """Describe what waits for the reader, by kind of item."""
    if is_cut_off:
        return f"At least {sum(mine.values()):,} items wait for you."
    counted = [_count(mine[kind], noun) for kind, noun in _NOUNS.items() if mine.get(kind)]
    return f"{_and(counted)} {_verb(sum(mine.values()), 'wait')} for you." if counted else "Nothing waits for you."


def describe_home(standing: HomeFacts, *, mine: Mapping[str, int], is_cut_off: bool, stake: str) -> str:
    """Describe what waits for the reader and for others, and what is wrong; `stake` is the money in their cases."""
    counted = {"approval": standing.requests, "case": standing.cases, "incident": standing.incidents}
    untold = {kind: number for kind, number in counted.items() if number > mine.get(kind, 0)}
    requests, needed = untold.get("approval", 0), _in_need(untold.get("case", 0), untold.get("incident", 0))
    waiting = f"{_count(requests, 'request')} {_verb(requests, 'wait')} for approval" if requests else ""
    beyond = ((waiting, mine.get("approval")), (needed, any(mine.get(kind) for kind in untold.keys() - {"approval"})))
    sentences = (
        describe_waiting(mine, is_cut_off=is_cut_off),
        f"In your cases and those without an owner: {stake}." if stake else "",
        *(f"In all, {said}." if of_mine else f"{said}." for said, of_mine in beyond if said),
        _faults(standing) or ("" if standing.cases or standing.incidents else QUIET),
    )
    return " ".join(filter(None, sentences))


def describe_standing(standing: HomeFacts) -> str:
    """Describe the present problems to nobody in particular."""
    waiting = _in_need(standing.cases, standing.incidents)
    return " ".join(filter(None, (f"{waiting}." if waiting else "", _faults(standing)))) or QUIET


def _in_need(cases: int, incidents: int) -> str:
    counted = [_count(cases, "case")] * bool(cases) + [_count(incidents, "incident")] * bool(incidents)
    return f"{_and(counted)} {_verb(cases + incidents, 'need')} a person" if counted else ""


def _faults(standing: HomeFacts) -> str:
    unknown, alerts, stranded = standing.unknown, standing.alerts, standing.stranded
    flagged, undelivered = standing.flagged, standing.undelivered
    sentences = (
        f"{_count(unknown, 'outcome')} {'is' if unknown == 1 else 'are'} not known." if unknown else "",
        f"{_count(alerts, 'alert')} {'is' if alerts == 1 else 'are'} open." if alerts else "",
        f"Readings of {', '.join(standing.failing)} fail." if standing.failing else "",
        f"{_count(stranded, 'request')} {'has' if stranded == 1 else 'have'} no eligible approver." if stranded else "",
        f"{_count(flagged, 'agent')} {'is' if flagged == 1 else 'are'} flagged." if flagged else "",
        f"{_count(undelivered, 'message')} could not be delivered." if undelivered else "",
    )
    return " ".join(filter(None, sentences))


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _verb(number: int, verb: str) -> str:
    return f"{verb}s" if number == 1 else verb


def _and(parts: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))
