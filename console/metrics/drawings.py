"""The charts of the metrics page as inline SVG: no script, no style attribute; each has a text equivalent.

Lines are stretched to the width of their place, so a point is a dash of no length with a round end, which stays round.
Every point is a link; the same links stand in the table behind the drawing, where the keyboard finds them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

WIDTH: Final = 600
HEIGHT: Final = 120
_MARGIN: Final = 6
DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


@dataclass(frozen=True)
class DrawnPoint:
    """One point of a series: its value (None is a gap), its label, and its link ("" for none)."""

    value: float | None
    words: str
    href: str


@dataclass(frozen=True)
class DrawnBand:
    """One part of a flow: its size, its label, the state family for its colour, and its link."""

    count: int
    words: str
    family: str
    href: str


def draw_series(
    points: Sequence[DrawnPoint], earlier: Sequence[float | None], *, words: str, limit: float | None = None
) -> SafeString:
    """Draw a line over time with gaps, the period before in the background, and a dashed bound if there is one."""
    known = [each.value for each in points if each.value is not None]
    known += [each for each in earlier if each is not None]
    # A bound of all there is stands at the top, a small one where its line can be crossed.
    top = max([*known, min((limit or 0) * 1.5, 1.0)]) or 1.0
    return format_html(
        '<svg class="series" viewBox="0 0 {} {}" preserveAspectRatio="none" role="group" aria-label="{}">'
        "{}{}{}{}</svg>",
        WIDTH,
        HEIGHT,
        words,
        _lines(earlier, top, "earlier"),
        _lines([each.value for each in points], top, "now"),
        _draw_limit(limit, top),
        _marks(points, top),
    )


def _x(place: int, count: int) -> float:
    return _MARGIN + place * (WIDTH - 2 * _MARGIN) / max(count - 1, 1)


def _y(value: float, top: float) -> float:
    return HEIGHT - _MARGIN - min(value / top, 1.0) * (HEIGHT - 2 * _MARGIN)


def _lines(values: Sequence[float | None], top: float, name: str) -> SafeString:
    pieces: list[list[str]] = [[]]
    for place, value in enumerate(values):
        if value is None:
            pieces.append([])
        else:
            pieces[-1].append(f"{_x(place, len(values)):.1f},{_y(value, top):.1f}")
    drawn = ((name, " ".join(piece)) for piece in pieces if len(piece) > 1)
    return format_html_join("", '<polyline class="{}" points="{}"/>', drawn)


def _draw_limit(limit: float | None, top: float) -> SafeString | str:
    if limit is None:
        return ""
    at = f"{_y(limit, top):.1f}"
    return format_html('<line class="limit" x1="0" x2="{}" y1="{}" y2="{}"/>', WIDTH, at, at)


def _marks(points: Sequence[DrawnPoint], top: float) -> SafeString:
    """A dot for each point, within a column that is wide enough to be hit."""
    wide = (WIDTH - 2 * _MARGIN) / max(len(points) - 1, 1)
    marks = []
    for place, each in enumerate(points):
        if each.value is None or not each.href:
            continue
        x, words = _x(place, len(points)), escape(each.words)
        marks.append(
            f'<a href="{escape(each.href)}" tabindex="-1" aria-label="{words}"><title>{words}</title>'
            f'<rect x="{x - wide / 2:.1f}" y="0" width="{wide:.1f}" height="{HEIGHT}"/>'
            f'<path d="M{x:.1f} {_y(each.value, top):.1f}h0"/></a>'
        )
    return mark_safe("".join(marks))


def draw_bars(parts: Sequence[tuple[str, int]], *, words: str) -> SafeString:
    """Draw the number of delays in each interval as bars from the left: (label, count)."""
    most = max((count for _, count in parts), default=0) or 1
    high = 22
    rows = (
        (
            place * high + 4,
            WIDTH * count / most if count else 0,
            high - 8,
        )
        for place, (_, count) in enumerate(parts)
    )
    bars = format_html_join(
        "", '<rect x="0" y="{}" width="{}" height="{}" rx="2"/>', ((y, f"{wide:.1f}", tall) for y, wide, tall in rows)
    )
    return format_html(
        '<svg class="bars" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>',
        WIDTH,
        high * len(parts),
        words,
        bars,
    )


def draw_flow(total: int, bands: Sequence[DrawnBand], *, words: str) -> SafeString:
    """Draw the division of a whole: a band for each part, from its branching to its end."""
    if not total:
        return SafeString("")
    high, gap, least = 150, 5, 2.0
    shown = [each for each in bands if each.count]
    # Room for the narrowest band too, however small its part is.
    room = high - (gap + least) * len(shown)
    drawn, left, right = [], gap * (len(shown) - 1) / 2, 0.0
    for each in shown:
        tall = least + room * each.count / total
        drawn.append((each.href, each.words, each.words, each.family, _band(left, right, tall)))
        left, right = left + tall, right + tall + gap
    links = format_html_join(
        "",
        '<a href="{}" tabindex="-1" aria-label="{}"><title>{}</title><path data-family="{}" d="{}"/></a>',
        drawn,
    )
    return format_html(
        '<svg class="flow" viewBox="0 0 {} {}" preserveAspectRatio="none" role="group" aria-label="{}">{}</svg>',
        WIDTH,
        high,
        words,
        links,
    )


def _band(left: float, right: float, tall: float) -> str:
    middle = WIDTH / 2
    return (
        f"M0 {left:.1f}C{middle} {left:.1f} {middle} {right:.1f} {WIDTH} {right:.1f}V{right + tall:.1f}"
        f"C{middle} {right + tall:.1f} {middle} {left + tall:.1f} 0 {left + tall:.1f}Z"
    )


def draw_strip(total: int, bands: Sequence[DrawnBand], *, words: str) -> SafeString:
    """Draw the division of a whole as one strip, each part as wide as its share."""
    if not total:
        return SafeString("")
    shown = [each for each in bands if each.count]
    least, gap, high = 6.0, 2.0, 12
    room = WIDTH - (least + gap) * len(shown) + gap
    drawn, left = [], 0.0
    for each in shown:
        wide = least + room * each.count / total
        drawn.append((each.href, each.words, each.words, each.family, f"{left:.1f}", f"{wide:.1f}", high))
        left += wide + gap
    links = format_html_join(
        "",
        '<a href="{}" tabindex="-1" aria-label="{}"><title>{}</title>'
        '<rect data-family="{}" x="{}" y="0" width="{}" height="{}"/></a>',
        drawn,
    )
    return format_html(
        '<svg class="shares" viewBox="0 0 {} {}" preserveAspectRatio="none" role="group" aria-label="{}">{}</svg>',
        WIDTH,
        high,
        words,
        links,
    )


def draw_week(hours: Mapping[tuple[int, int], tuple[int, int]], *, words: str) -> SafeString:
    """Executed actions by weekday and hour, the more the darker; a corner marks where many were not verified."""
    most = max((count for count, _ in hours.values()), default=0) or 1
    cells = []
    for day in range(1, 8):
        for clock in range(24):
            count, unsettled = hours.get((day, clock), (0, 0))
            level = -(-4 * count // most)
            said = f"{DAYS[day - 1]} {clock:02}:00 UTC: {count} executed, {unsettled} not verified"
            alarm = "yes" if count >= 3 and unsettled * 2 > count else "no"
            cells.append(
                f'<rect x="{clock * 25 + 1}" y="{(day - 1) * 20 + 1}" width="23" height="18" rx="3"'
                f' data-level="{level}" data-much="{alarm}"><title>{said}</title></rect>'
            )
    return format_html(
        '<svg class="week" viewBox="0 0 600 140" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>',
        words,
        mark_safe("".join(cells)),
    )
