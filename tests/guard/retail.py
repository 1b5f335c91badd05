"""Real conversations of a shop, read from beside the project where somebody has them; none of it is in the tree."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from console.transcripts import contracts, intake
from console.transcripts.acts import TrustRequirement
from console.transcripts.audit import ConversationAudit, audit_conversation
from console.transcripts.offers import OfferCache
from console.transcripts.records import Transcript

FOLDER = Path(os.environ.get("COUNTERFOIL_RECORDINGS", Path(__file__).parents[3] / "shared" / "recordings")) / "retail"


@dataclass
class Measured:
    """What the guard did to real messages: how many there were, and each that was stopped, for reading by eye."""

    messages: int = 0
    calls: int = 0
    seconds: float = 0.0
    stopped: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)


def is_there() -> bool:
    """Whether the recordings are beside the project."""
    return (FOLDER / "conversations.json").exists()


def measured(sayings: Path | None = None) -> Measured:
    """The guard over every message of the recordings, with drafted contracts and nothing configured."""
    made = Measured()
    begun = time.perf_counter()
    for found in _audited(sayings):
        made.messages += found.spoken
        made.calls += len(found.acts)
        for act in found.acts:
            made.differences += [
                f"{found.conversation.id} call {act.number} {one.name}: {one.asked!r} / {one.shown!r}"
                for one in act.differences
            ]
        for claim in found.claims:
            if claim.false:
                said = f"{claim.code} {claim.rule}: {claim.sentence}\n      -> {claim.detail}"
                made.stopped.append(f"{found.conversation.id} turn {claim.turn} {said}")
    made.seconds = time.perf_counter() - begun
    return made


def _audited(sayings: Path | None) -> Iterator[ConversationAudit]:
    catalogue = contracts.load_catalogue([sayings or FOLDER / "tools.json"])
    offers = OfferCache(catalogue)
    for found in intake.read_conversations(FOLDER / "conversations.json"):
        if isinstance(found, Transcript):
            yield audit_conversation(found, offers.of(found), trust=TrustRequirement.ANSWERS)


def report(made: Measured) -> str:
    """The figures as text."""
    lines = [f"{made.messages} messages, {made.calls} calls, {made.seconds:.1f} s", f"stopped: {len(made.stopped)}"]
    lines += [f"  {each}" for each in made.stopped]
    lines.append(f"differences: {len(made.differences)}")
    lines += [f"  {each}" for each in made.differences]
    return "\n".join(lines)
