"""The tool surface as a gateway met it: which of a server's tools it holds back from its agent, and why.

1. A gateway reports what differs from the session's contract (`changed`) and what no contract of the session covers
   (`unregistered`). It is the gateway's word about a server, and lets nothing through that the gate would refuse.
2. What a server calls its tools is the server's own text, and is made harmless before it is kept.
3. The same tool twice counts once, the graver finding first. A report that says what the one before it said is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from approvals.gate.rules.malformed import safe_name

MOST = 200
"""How many withheld tools one report names."""
_MOST_WHY = 200


class WithheldReason(StrEnum):
    """Why a tool is held back."""

    CHANGED = "changed"
    UNREGISTERED = "unregistered"


@dataclass(frozen=True, order=True)
class WithheldTool:
    """One tool that is held back; `why` says what differs."""

    fate: WithheldReason
    tool: str
    why: str = ""

    def document(self) -> dict[str, Any]:
        """As it is kept and answered."""
        return {"tool": self.tool, "fate": self.fate.value, "why": self.why}


def normalise_report(found: Iterable[WithheldTool]) -> tuple[WithheldTool, ...]:
    """A report in the form in which it is kept (rules 2, 3)."""
    plain = sorted(WithheldTool(one.fate, safe_name(one.tool), _plain(one.why)) for one in found)
    kept: dict[str, WithheldTool] = {}
    for one in plain:
        kept.setdefault(one.tool, one)
    return tuple(kept.values())[:MOST]


def read_report(kept: Iterable[Mapping[str, Any]]) -> tuple[WithheldTool, ...]:
    """A report as it was kept."""
    return tuple(WithheldTool(WithheldReason(one["fate"]), str(one["tool"]), str(one["why"])) for one in kept)


def _plain(why: str) -> str:
    return "".join(one if one.isprintable() else "?" for one in why)[:_MOST_WHY]
