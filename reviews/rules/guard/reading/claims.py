"""A claim: what a message says of an action, before it is known which action that is."""

from __future__ import annotations

from dataclasses import dataclass

from reviews.rules.guard.codes import Kind
from reviews.rules.guard.reading.tenses import Tense
from reviews.rules.guard.text.values import Value


@dataclass(frozen=True)
class Claim:
    """One claim: where it stands, what it says, and the words that tell which action it is about.

    `verbs` are lemmas of what was done, `nouns` what it was done to, `cited` ids that stand right behind it, `listed`
    ids that an "and" behind it names too, `hints` values that a pronoun of it may stand for. `whole` is a claim about
    all that was asked for, `state` a condition that is told as current. A `weak` one counts only if it
    can be tied to an action; a `loose` one is weak and stands in a message that discloses something open. `result` says
    that it tells a state that something came to. A structured claim names its tool, and perhaps its action and target.
    `meaning` are the verbs that bring about the condition that is told ("live": publish, launch).
    `follows`: it may go on from what was told before it ("it is there now").
    `tense` is how a result is told whose doer is not named; a `perfect` one has come about, and names no past time.
    `ours`: it was done "by us".
    `beside` is its sentence and the one behind it.
    `agency`: the speaker says that it did it, or the words stand alone as a report ("Refund issued.").
    """

    start: int
    end: int
    quote: str
    kind: Kind
    rule: str
    verbs: frozenset[str] = frozenset()
    nouns: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    meaning: frozenset[str] = frozenset()
    values: tuple[Value, ...] = ()
    cited: tuple[Value, ...] = ()
    hints: tuple[Value, ...] = ()
    listed: tuple[Value, ...] = ()
    whole: bool = False
    weak: bool = False
    loose: bool = False
    result: bool = False
    agency: bool = False
    beside: str = ""
    follows: bool = False
    tense: Tense | None = None
    perfect: bool = False
    ours: bool = False
    state: bool = False
    tool: str | None = None
    action_id: str | None = None
    target: str | None = None
