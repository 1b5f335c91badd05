"""The corrected text: the message with what the record holds in the place of what it does not bear out (R-CG-15, C-60).

1. The sentence that holds a violated claim gives way to what is on record; a structured claim that the message does not
   say is answered at its end. What was told once is not told again.
2. What only follows from it goes with it ("So you can close the ticket"). All other sentences stay as they are.
3. The result is judged again. Where something in it still claims too much, more of the message gives way: its
   paragraphs, and in the end all of it. What remains then are the guard's own words, which claim nothing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter

from reviews.rules.guard.binding.bound import Bound
from reviews.rules.guard.correcting.frames import framed
from reviews.rules.guard.reading.claims import Claim
from reviews.rules.guard.records import Ground
from reviews.rules.guard.text.consequences import is_consequence
from reviews.rules.guard.text.folding import fold
from reviews.rules.guard.text.segments import sentences

Violated = Sequence[tuple[Claim, Bound]]
Judge = Callable[[str], Violated]
ROUNDS = 4


def corrected(message: str, violated: Violated, ground: Ground, judge: Judge) -> str:
    """The message as it may go out (rules 1 to 3); `judge` finds what is violated in a text."""
    text, faults = message, violated
    for _ in range(ROUNDS):
        text = _replaced(text, faults, ground)
        faults = judge(text)
        if not faults:
            return text
    text = _replaced(text, faults, ground, whole_lines=True)
    if not judge(text):
        return text
    return " ".join(_unique(part for _, bound in violated for part in framed(bound, ground)))


def _replaced(message: str, violated: Violated, ground: Ground, *, whole_lines: bool = False) -> str:
    spans = _lines(message) if whole_lines else _sentences(message)
    places: dict[tuple[int, int], list[str]] = {}
    for claim, bound in sorted(violated, key=lambda each: each[0].start):
        place = _place(claim, spans, len(message))
        places.setdefault(place, []).extend(framed(bound, ground))
    told = {start: end for start, end in places if start < end}
    return _written(
        message, {(start, _followed(message, spans, told, end)): parts for (start, end), parts in places.items()}
    )


def _followed(message: str, spans: list[tuple[int, int]], told: Mapping[int, int], end: int) -> int:
    """Where the sentences end that only follow from one that gives way, in its own line."""
    if end not in told.values():
        return end
    for start, stop in spans[bisect_left(spans, end, key=itemgetter(0)) :]:
        if start in told or "\n" in message[end:start] or not is_consequence(message[start:stop].lower()):
            break
        end = stop
    return end


def _place(claim: Claim, spans: list[tuple[int, int]], length: int) -> tuple[int, int]:
    """The sentences that a claim touches, from the first to the last."""
    first = bisect_right(spans, claim.start, key=itemgetter(1))
    last = bisect_left(spans, claim.end, key=itemgetter(0))
    if first >= last:
        return (claim.start, claim.end) if claim.start < claim.end else (length, length)
    return spans[first][0], spans[last - 1][1]


def _written(message: str, places: dict[tuple[int, int], list[str]]) -> str:
    written: list[str] = []
    said: set[str] = set()
    at = 0
    for (start, end), parts in sorted(places.items()):
        if start < at:
            start = at
        fresh = [part for part in _unique(parts) if part not in said]
        said |= set(fresh)
        before = message[at:start]
        gap = " " if (before or written) and fresh and not (before or written[-1])[-1:].isspace() else ""
        written += [before, gap + " ".join(fresh) if fresh else ""]
        at = max(at, end)
    written.append(message[at:])
    return "".join(written).strip() if not message.strip() else "".join(written).rstrip()


def _sentences(message: str) -> list[tuple[int, int]]:
    folded = fold(message)
    return [folded.span(each.start, each.end) for each in sentences(folded)]


def _lines(message: str) -> list[tuple[int, int]]:
    return list(_line_spans(message))


def _line_spans(message: str) -> Iterator[tuple[int, int]]:
    at = 0
    for line in message.splitlines(keepends=True):
        yield at, at + len(line.rstrip("\n"))
        at += len(line)


def _unique(parts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(parts))
