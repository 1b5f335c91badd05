"""Small charts as inline SVG: no script, no style attribute, and a text equivalent for each."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

WIDTH, HEIGHT = 120, 30
Points = Sequence[float | None]


def format_percent(value: float | None, *, digits: int = 1) -> str:
    """A share in percent; a word if there is none."""
    if value is None:
        return "none"
    text = f"{value * 100:.{digits}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} %"


def sparkline(points: Points, *, label: str, line: float | None = None, top: float | None = None) -> SafeString:
    """Draw shares over time as a line with gaps where there was no call; `line` is a limit that is drawn dashed."""
    known = [each for each in points if each is not None]
    highest = top if top is not None else max([*known, (line or 0) * 2, 0.001])
    parts = [_piece(piece, len(points), highest) for piece in _pieces(points)]
    limit = _limit(line, highest) if line is not None else ""
    said = (
        f"{label}: {format_percent(known[-1])} at the end, at most {format_percent(max(known))}"
        if known
        else f"{label}: no calls"
    )
    return format_html(
        '<svg class="spark" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">{}{}</svg>',
        WIDTH,
        HEIGHT,
        said,
        limit,
        format_html_join("", "{}", ((part,) for part in parts)),
    )


def _pieces(points: Points) -> list[list[tuple[int, float]]]:
    """The segments between gaps, as (place, value)."""
    pieces: list[list[tuple[int, float]]] = [[]]
    for place, value in enumerate(points):
        if value is None:
            pieces.append([])
        else:
            pieces[-1].append((place, value))
    return [piece for piece in pieces if piece]


def _piece(piece: list[tuple[int, float]], count: int, highest: float) -> SafeString:
    # A single point is drawn as a short dash, for a line needs two.
    drawn = piece if len(piece) > 1 else [(piece[0][0] - 0.3, piece[0][1]), (piece[0][0] + 0.3, piece[0][1])]
    step = WIDTH / max(count - 1, 1)
    places = " ".join(f"{max(0.0, min(WIDTH, x * step)):.1f},{_height(y, highest):.1f}" for x, y in drawn)
    return format_html('<polyline points="{}"/>', places)


def _limit(line: float, highest: float) -> SafeString:
    at = f"{_height(line, highest):.1f}"
    return format_html('<line class="limit" x1="0" x2="{}" y1="{}" y2="{}"/>', WIDTH, at, at)


def _height(value: float, highest: float) -> float:
    return HEIGHT - 1 - min(value / highest, 1.0) * (HEIGHT - 2)
