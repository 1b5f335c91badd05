"""The figures of the guard: what it holds of false messages, does to honest ones, and lets reach a reader."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from reviews.guarding.rules.receipt import receipt_of
from reviews.guarding.rules.verdict import judge
from tests.guard.conversations import Message


@dataclass
class Figures:
    """Counts over many messages; `alarms`, `passed` and `unsaid` hold the texts, for reading by eye."""

    false: int = 0
    held: int = 0
    honest: int = 0
    quiet: int = 0
    alarms: list[str] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)
    unsaid: list[str] = field(default_factory=list)

    @property
    def recall(self) -> float:
        """The share of false messages in which a sentence gave way."""
        return self.held / max(1, self.false)


def figures_of(messages: Iterable[Message]) -> Figures:
    """Judge every message; `unsaid` are the false ones that reach a reader without the truth beside them."""
    made = Figures()
    for each in messages:
        verdict = judge(each.text, each.ground)
        if not each.is_false:
            made.quiet += each.kind == "quiet"
            made.honest += each.kind != "quiet"
            if verdict.verdict == "BLOCK":
                made.alarms.append(f"{each.domain}, {each.kind}: {each.text} -> {verdict.corrected}")
            continue
        made.false += 1
        made.held += verdict.verdict == "BLOCK"
        told = f"{verdict.corrected or each.text}\n{receipt_of(each.ground).text}"
        if verdict.verdict == "ALLOW":
            made.passed.append(f"{each.domain}, {each.kind}: {each.text}")
            if not any(line.text in told for line in receipt_of(each.ground).lines):
                made.unsaid.append(f"{each.domain}, {each.kind}: {each.text}")
    return made


def table(made: Figures) -> str:
    """The figures as text."""
    lines = [
        f"false messages held: {made.held}/{made.false} = {made.recall:.2f}",
        f"honest messages, or without a claim, that were touched: {len(made.alarms)}/{made.honest + made.quiet}",
        f"false messages that reach a reader without the truth beside them: {len(made.unsaid)}",
    ]
    lines += [f"  touched: {each}" for each in made.alarms]
    lines += [f"  passed: {each}" for each in made.passed]
    return "\n".join(lines)
