"""The tables of docs/transcripts.md: how each format is recognised, and which of its fields say what."""

from __future__ import annotations

from dataclasses import dataclass

from counterfoil_transcripts.reading.formats.paths import snake_case
from counterfoil_transcripts.reading.formats.places import Call, DeclaredFormat, Mark, Outcome, Part, Place, Sign


@dataclass(frozen=True, slots=True)
class FormatRow:
    """The row of a format in the tables of docs/transcripts.md: how it is recognised, and which fields say what."""

    name: str
    about: str
    marks: str
    call: str
    outcome: str
    failure: str
    once: str = ""

    @property
    def recognition(self) -> str:
        """The row in Markdown of who writes the format, its marks, and what of it is counted once."""
        return f"| `{self.name}` | {self.about} | {self.marks} | {self.once or '-'} |"

    @property
    def fields(self) -> str:
        """The row in Markdown of calls, outcomes and failures."""
        return f"| `{self.name}` | {self.call} | {self.outcome} | {self.failure} |"


def declared_row(one: DeclaredFormat) -> FormatRow:
    """The row of a declared format, from the data that its reader goes by."""
    parts = [(place, part) for place in one.places for part in place.parts]
    calls = [_place_line(place, part) + _call_line(part.call) for place, part in parts if part.call is not None]
    outcomes = [(_place_line(place, part), part.outcome) for place, part in parts if part.outcome is not None]
    signs = dict.fromkeys(line for _, outcome in outcomes if (line := _states(outcome)))
    return FormatRow(
        one.name,
        one.about,
        "; ".join(map(_mark_line, one.marks)),
        "; ".join(calls) or "none",
        "; ".join(line + _outcome_line(outcome) for line, outcome in outcomes) or "none",
        "; ".join(signs) or "not stated",
        one.once,
    )


def _sign_line(sign: Sign) -> str:
    values = " or ".join(f"`{str(one).lower() if isinstance(one, bool) else one}`" for one in sign.values)
    return f"`{sign.at}`{' other than' if sign.other else ''}{' ' if values else ''}{values}"


def _mark_line(mark: Mark) -> str:
    has = ", ".join([*map(_sign_line, mark.signs), *(f"`{one}`" for one in mark.has)])
    without = f" without {', '.join(f'`{one}`' for one in mark.lacks)}" if mark.lacks else ""
    return f"`{mark.at}[]` with {has}{without}" if mark.at else f"{has}{without}"


def _place_line(place: Place, part: Part) -> str:
    kinds = " or ".join(f"`{kind}`" for kind in _spelled_once(part.kinds) if kind)
    where = f"`{place.at}[]`" if place.at else ""
    by = f"`{place.by}`" if kinds and not place.at else ""
    return " ".join(one for one in (where, by, kinds) if one) + (": " if where or kinds else "")


def _paths(paths: tuple[str, ...]) -> str:
    """Paths for people; a name of the format's own is that name."""
    return " or ".join(f"`{one.removeprefix('=')}`" for one in _spelled_once(paths))


def _spelled_once(names: tuple[str, ...]) -> list[str]:
    """Names without those that are another one in the spelling of Python."""
    spelled = {snake_case(name) for name in names if snake_case(name) != name}
    return [name for name in names if name not in spelled]


def _call_line(call: Call) -> str:
    return f"{_paths(call.name)}, {_paths(call.arguments)}, id {_paths(call.id) if call.id else 'none'}"


def _outcome_line(outcome: Outcome) -> str:
    tied = (
        f"call {_paths(outcome.id)}" if outcome.id else f"tool {_paths(outcome.tool)}" if outcome.tool else "by place"
    )
    return f"{_paths(outcome.content)}, {tied}"


def _states(outcome: Outcome) -> str:
    parts = (("failed", outcome.failed), ("succeeded", outcome.succeeded), ("not final", outcome.open))
    found = [f"exit code: {_paths(outcome.exit_code)}"] if outcome.exit_code else []
    for word, signs in parts:
        paths = _spelled_once(tuple(sign.at for sign in signs))
        if signs:
            found.append(f"{word}: {' or '.join(_sign_line(sign) for sign in signs if sign.at in paths)}")
    return ", ".join(found)
