"""The sentence at the top of Home: is anything wrong?

1. It counts what is on record: cases and incidents that need a person, outcomes that are not known, open alerts, and
   systems of record whose readings fail.
2. Only where there is none of these does it say that nothing is wrong, and it names what it looked at.
3. Money is told of the cases that the reader may settle, and only where none of them was left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

QUIET: Final = "Nothing is wrong on record: no open case or incident, no unknown outcome, no alert."


def describe_standing(
    *, cases: int, incidents: int, unknown: int, alerts: int, failing: Sequence[str], stake: str
) -> str:
    """Describe the present problems; `failing` are systems whose readings fail, `stake` is the money in the reader's
    cases.
    """
    waiting = " and ".join(filter(None, (_count(cases, "case"), _count(incidents, "incident"))))
    sentences = (
        f"{waiting} {'needs' if cases + incidents == 1 else 'need'} a person." if waiting else "",
        f"In your cases and those without an owner: {stake}." if stake else "",
        f"{_count(unknown, 'outcome')} {'is' if unknown == 1 else 'are'} not known." if unknown else "",
        f"{_count(alerts, 'alert')} {'is' if alerts == 1 else 'are'} open." if alerts else "",
        f"Readings of {', '.join(failing)} fail." if failing else "",
    )
    return " ".join(filter(None, sentences)) or QUIET


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}" if number else ""
