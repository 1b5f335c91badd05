"""The thread of an approval: comments of people, their questions, and the agent's answers.

1. A line is a comment or a question of a person, or the agent's answer to one question. Lines are added, never changed.
2. `@name` mentions a member: by the name of the account, the part before its `@`, or the full name without spaces. A
   name that fits two people mentions neither.
3. A question is open until it is answered, or until the approval is decided. The agent answers each once.
4. An answer is the agent's own words: short, shown as plain text, and no evidence of anything. It never lets an action
   run.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Protocol, TypeVar
from uuid import UUID

from ledger.record.rules.refusals import Refused

LONGEST = 4000
LONGEST_ANSWER = 2000
MOST_OPEN = 5
MOST_MENTIONS = 20
_MENTION = re.compile(r"(?<![\w@.])@([\w.+-]+(?:@[\w-]+(?:\.[\w-]+)*)?)")


class NothingSaid(Refused):
    """Enter a text."""

    code = "TEXT_REQUIRED"
    status = 422


class TooLong(Refused):
    """This comment is too long."""

    code = "TEXT_TOO_LONG"
    status = 422


class AlreadyAnswered(Refused):
    """This question has already been answered."""

    code = "ALREADY_ANSWERED"


class TooManyQuestions(Refused):
    """The agent has not answered the open questions; wait, or decide without the answers."""

    code = "TOO_MANY_QUESTIONS"


class ThreadLine(Protocol):
    """A line of a thread, as it is stored."""

    id: UUID
    kind: str
    answers: UUID | None


L = TypeVar("L", bound=ThreadLine)


def check_text(text: str, *, longest: int = LONGEST) -> str:
    """The text as it will be stored, or a refusal."""
    plain = text.strip()
    if not plain:
        raise NothingSaid
    if len(plain) > longest:
        raise TooLong(f"This has {len(plain)} characters, and {longest} are allowed.")
    return plain


def mention_handles(members: Iterable[tuple[UUID, str, str]]) -> dict[str, UUID]:
    """By which names each member (their id, account and full name) can be mentioned (rule 2)."""
    known: dict[str, set[UUID]] = defaultdict(set)
    for actor, account, name in members:
        for form in (account, account.partition("@")[0], "".join(name.split())):
            if form:
                known[form.casefold()].add(actor)
    return {form: next(iter(actors)) for form, actors in known.items() if len(actors) == 1}


def find_mentions(text: str, known: Mapping[str, UUID]) -> list[UUID]:
    """Whom a text mentions, each once and in the order of the text."""
    found = (known.get(name.rstrip(".-+").casefold()) for name in _MENTION.findall(text))
    return list(dict.fromkeys(actor for actor in found if actor is not None))[:MOST_MENTIONS]


def open_questions(lines: Iterable[L]) -> list[L]:
    """The questions that the agent has not answered, oldest first (rule 3)."""
    told = list(lines)
    answered = {line.answers for line in told if line.kind == "answer"}
    return [line for line in told if line.kind == "question" and line.id not in answered]
