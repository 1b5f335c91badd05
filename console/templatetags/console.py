"""The small marks that every page repeats: icons, outcome badges, times and short hashes."""

from __future__ import annotations

import html
import re
import unicodedata
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from django import template
from django.forms import BaseForm
from django.http import QueryDict
from django.template import Context
from django.template.loader import render_to_string
from django.templatetags.static import static
from django.urls import reverse
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from approvals.requests.rules import rendering
from console.edge.http import shown_zone
from console.web import labels
from ledger.catalogue.rules.targets import target_text
from ledger.record.rules.outcomes import Outcome, outcome_of
from reviews.reporting.rules.sentences import FAMILIES

if TYPE_CHECKING:
    from ledger.log.queries.log import LogPosition
    from ledger.models import Action

register = template.Library()

_MARK = re.compile("\u27e6U\\+([0-9A-F]{4,6})\u27e7")


@register.simple_tag
@lru_cache(maxsize=64)
def icon(name: str) -> SafeString:
    return mark_safe(f'<svg class="icon" aria-hidden="true"><use href="{sprite()}#{escape(name)}"/></svg>')


@register.simple_tag(takes_context=True)
def guide_link(context: dict[str, Any]) -> SafeString:
    """The link to the guide about the part of the console that a page belongs to; to all guides where there is none."""
    name, slug = labels.GUIDES.get(context.get("here", ""), ""), context["frame"]["tenant"].slug
    if not name:
        return format_html('<a href="{}">Guides</a>', reverse("guides", args=[slug]))
    return format_html('<a href="{}">Guide to this page</a>', reverse("guide", args=[slug, name]))


@register.simple_tag
def outcome_word(found: Outcome, state: str) -> SafeString:
    """The badge of an outcome that is not an action's."""
    return _badge(found, state, "")


@register.simple_tag
def outcome_badge(action: Action, size: str = "") -> SafeString:
    """The badge of an action's outcome: shape, colour and word."""
    return _badge(outcome_of(action), str(action.state), size)


@register.simple_tag(takes_context=True)
def moment(context: dict[str, Any], at: datetime | None) -> SafeString:
    """A time as its distance from the page's own time, the absolute value in the tooltip."""
    return stamp(at, as_of=context["as_of"])


@register.simple_tag(takes_context=True)
def lasting(context: dict[str, Any], since: datetime) -> SafeString:
    """The time for which something has lasted: `8 s`, for sentences with "for"."""
    return _time_element(since, "data-ago data-for", span(max(context["as_of"] - since, timedelta(0))))


@register.simple_tag(takes_context=True)
def clock(context: dict[str, Any], at: datetime) -> SafeString:
    """Return a time of day, for sequences where seconds matter; with the day only if it differs."""
    form = "%H:%M:%S" if at.astimezone(UTC).date() == context["as_of"].astimezone(UTC).date() else "%d %b %H:%M:%S"
    return mark_safe(f'<time datetime="{_iso(at)}" title="{_absolute(at)}">{at.astimezone(UTC).strftime(form)}</time>')


@register.simple_tag(takes_context=True)
def countdown(context: dict[str, Any], until: datetime | None, since: datetime | None = None) -> SafeString:
    """Return the time left until a deadline, with a ring if the whole span is known."""
    if until is None:
        return mark_safe('<span class="muted">No deadline</span>')
    left = until - context["as_of"]
    over = left <= timedelta(0)
    near = not over and left < timedelta(minutes=10)
    state = " data-over" if over else " data-near" if near else ""
    ring = _ring(left / (until - since)) if since and until > since else ""
    begun = f' data-since="{_iso(since)}"' if since else ""
    time = f'<time datetime="{_iso(until)}" data-until{begun} title="{_absolute(until)}">'
    word = "Expired" if over else f"{span(left)} left"
    return mark_safe(f'<span class="countdown"{state}>{ring}{time}{word}</time></span>')


@register.simple_tag
def short_hash(digest: str | None, label: str = "hash") -> SafeString:
    """The first and last characters of a digest, with a button that copies the whole."""
    if not digest:
        return mark_safe('<span class="muted">none</span>')
    return format_html(
        '<span class="hash"><code title="{}">{}</code>'
        '<button class="icon-button js-only" type="button" data-copy="{}" aria-label="Copy the {}">{}</button></span>',
        digest,
        short(digest),
        digest,
        label,
        icon("copy"),
    )


@register.simple_tag
def copied(value: str, label: str) -> SafeString:
    """A value that is shown once, whole, with a button that copies it."""
    return format_html(
        '<span class="line"><code class="wrap">{}</code>'
        '<button class="button small js-only" type="button" data-copy="{}" aria-label="Copy {}">{}Copy</button></span>',
        value,
        value,
        label,
        icon("copy"),
    )


@register.filter
def marked(shown: str) -> SafeString:
    """Return text as `rendering` shows it, with each misleading character marked and named."""
    return mark_safe(_MARK.sub(_glyph, html.escape(shown)))


@register.filter
def plainly(text: object) -> SafeString:
    """Any text from outside with misleading characters marked; line breaks and indentation are kept."""
    lines = str(text).split("\n")
    if all(line.isascii() and line.isprintable() for line in lines):
        return escape(text)
    return marked("\n".join(_visible_line(line) for line in lines))


register.filter(target_text)


@register.filter
def without_codes(text: object) -> SafeString:
    """Return a recorded sentence with its codes in words; otherwise as `plainly`."""
    return plainly(labels.replace_codes(str(text)))


@register.filter
def side_effect_class(code: str) -> str:
    return labels.side_effect_class_label(code)


@register.filter
def key_kind(code: str) -> str:
    return labels.KEY_KINDS.get(code, code)


@register.filter
def reversibility(code: str) -> str:
    return labels.reversibility_label(code)


@register.filter
def is_weighty(code: str) -> bool:
    return code in labels.WEIGHTY


@register.filter
def as_sentence(code: str) -> str:
    return labels.sentence_case(code)


@register.filter
def discrepancy(code: str) -> str:
    return labels.discrepancy_label(code)


@register.filter
def warning(code: str) -> str:
    return labels.WARNINGS.get(code, labels.sentence_case(code))


@register.simple_tag
def outcome(holds: str) -> SafeString:
    shape, word = labels.HOLDS.get(holds, labels.HOLDS["UNDECIDABLE"])
    return format_html('<span class="outcome" data-outcome="{}">{}{}</span>', holds.lower(), icon(shape), word)


@register.simple_tag
def part_outcome(outcome: str) -> SafeString:
    """The icon of one part of a partially applied action; the words are beside it."""
    return icon(labels.PARTS.get(outcome, "question"))


@register.simple_tag
def made(code: str) -> SafeString:
    look, shape, word = labels.MADE.get(code, labels.MADE["UNCHECKED"])
    return format_html('<span class="outcome" data-outcome="{}">{}{}</span>', look, icon(shape), word)


@register.simple_tag
def class_chips(side_effect: str, reversible: str) -> SafeString:
    pairs = (
        (labels.side_effect_class_label(side_effect), side_effect),
        (labels.reversibility_label(reversible), reversible),
    )
    marked = ((" weighty" if code in labels.WEIGHTY else "", word) for word, code in pairs)
    return format_html_join(" ", '<span class="chip{}">{}</span>', marked)


@register.simple_tag(takes_context=True)
def policy_link(context: dict[str, Any], kind: str, version: str) -> SafeString:
    """The name of a version of a policy as a link to its page; a version that is not named has none."""
    if not version:
        return mark_safe("")
    href = reverse("policy", args=[context["frame"]["tenant"].slug, kind, version])
    return format_html('<a href="{}">{}</a>', href, plainly(version))


@register.simple_tag(takes_context=True)
def target_link(context: dict[str, Any], target: str) -> SafeString:
    """The name of a target as a link to its page; without a link if it was erased."""
    if not target:
        return mark_safe('<span class="muted">erased</span>')
    href = target_page(context["frame"]["tenant"].slug, target)
    return format_html('<a class="over" href="{}">{}</a>', href, plainly(target_text(target)))


@register.simple_tag(takes_context=True)
def filters_in_force(context: dict[str, Any], form: BaseForm) -> list[dict[str, str]]:
    """Return the filters that are set in the address: name, value in words, and the address without each."""
    found: list[dict[str, str]] = []
    if not form.is_valid():  # No filter of the address is applied then.
        return found
    for field in form.visible_fields():
        value = form.data.get(field.html_name, "")
        if not value:
            continue
        words = dict(getattr(field.field, "choices", ())).get(value, value)
        others = urlencode([(name, each) for name, each in _set_fields(form) if name != field.html_name])
        href = f"{context['page_path']}{'?' if others else ''}{others}"
        found.append({"label": str(field.label), "words": str(words), "href": href})
    return found


@register.simple_tag(takes_context=True)
def time_presets(context: dict[str, Any], form: BaseForm) -> list[dict[str, str]]:
    """Common periods, for forms with `since` and `until`: labels with their addresses."""
    if not {"since", "until"} <= set(form.fields):
        return []
    today = context["as_of"].astimezone(UTC).date()
    spans = (("Today", 0, 0), ("Yesterday", 1, 1), ("Last 7 days", 6, 0), ("Last 30 days", 29, 0))
    others = [(name, each) for name, each in _set_fields(form) if name not in ("since", "until")]
    return [
        {
            "words": words,
            "href": f"{context['page_path']}?{urlencode([*others, ('since', first), ('until', last)])}",
        }
        for words, first, last in ((words, today - timedelta(a), today - timedelta(b)) for words, a, b in spans)
    ]


def _set_fields(form: BaseForm) -> list[tuple[str, str]]:
    """The values in the address except the position in the list."""
    assert isinstance(form.data, QueryDict)
    return [(name, each) for name, values in form.data.lists() for each in values if each and name != "after"]


def target_page(slug: str, target: str) -> str:
    """The address of a target's page. Its name may contain any character, so it is in the query."""
    return f"{reverse('target', args=[slug])}?{urlencode({'name': target})}"


@register.simple_tag(takes_context=True)
def code_link(context: dict[str, Any], code: str, words: str = "", anchor: str = "") -> SafeString:
    """A code, or its words, as a link to its meaning in the glossary."""
    href = f"{reverse('glossary', args=[context['frame']['tenant'].slug])}#{anchor or code.lower()}"
    return format_html('<a class="over" href="{}">{}</a>', href, words or code)


@register.simple_tag
def standing(place: LogPosition | None) -> str:
    """The log position of an event, in a few words."""
    if not place:
        return "not yet sealed"
    number = f"{place.log}:{place.index}" if place.log > 1 else str(place.index)
    return f"no. {number}" if place.sealed else f"no. {number}, not signed yet"


@register.simple_tag(takes_context=True)
def kept_part(context: Context, template: str) -> SafeString:
    """A part of the frame that depends only on its entries: rendered once for all pages on which these are equal."""
    return (
        _part(template, context["frame"]["places"], context.get("here", "")) if context.get("frame") else mark_safe("")
    )


@lru_cache(maxsize=512)
def _part(template: str, places: tuple[Any, ...], here: str) -> SafeString:
    return render_to_string(template, {"places": places, "here": here})


def stamp(at: datetime | None, *, as_of: datetime) -> SafeString:
    if at is None:
        return mark_safe('<span class="muted">never</span>')
    return _time_element(at, "data-ago", ago(as_of - at))


def _time_element(at: datetime, attributes: str, words: str) -> SafeString:
    beside = _in_zone(at).strftime("%d %b %H:%M")
    return mark_safe(
        f'<time datetime="{_iso(at)}" title="{_absolute(at)}" {attributes} data-at="{beside}">{words}</time>'
    )


def ago(passed: timedelta) -> str:
    """'8 s ago', 'in 4 min', 'just now'."""
    if abs(passed) < timedelta(seconds=1):
        return "just now"
    return f"in {span(-passed)}" if passed < timedelta(0) else f"{span(passed)} ago"


def span(length: timedelta) -> str:
    """A length of time with one unit, two while the hours are few: enough to act on."""
    seconds = int(length.total_seconds())
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min"
    if seconds < 36000:
        minutes = f" {seconds % 3600 // 60} min" if seconds % 3600 >= 60 else ""
        return f"{seconds // 3600} h{minutes}"
    if seconds < 172800:
        return f"{seconds // 3600} h"
    return f"{seconds // 86400} d"


def short(digest: str) -> str:
    return digest if len(digest) <= 16 else f"{digest[:8]}…{digest[-4:]}"


@lru_cache(maxsize=128)
def _badge(outcome: Outcome, state: str, size: str) -> SafeString:
    family = FAMILIES[outcome]
    return format_html(
        '<span class="badge {}" data-family="{}" title="{}">{}{}</span>',
        size,
        family,
        state,
        icon(f"state-{family}"),
        labels.OUTCOMES[outcome],
    )


def _visible_line(line: str) -> str:
    core = line.strip(" ")
    before, _, after = line.partition(core) if core else (line, "", "")
    return before + rendering.mark_hidden(core)[0] + after


def _glyph(match: re.Match[str]) -> str:
    name = unicodedata.name(chr(int(match[1], 16)), "unnamed character").capitalize()
    return f'<span class="glyph" title="{escape(name)}">U+{match[1]}</span>'


def _ring(left: float) -> str:
    share = max(0, min(100, round(left * 100)))
    return (
        '<svg class="ring" viewBox="0 0 20 20" aria-hidden="true"><circle class="track" cx="10" cy="10" r="8"/>'
        f'<circle class="left" cx="10" cy="10" r="8" pathLength="100" stroke-dasharray="{share} 100"/></svg>'
    )


def _iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _absolute(at: datetime) -> str:
    utc = at.astimezone(UTC)
    if shown_zone.get() in ("", "UTC"):
        return utc.strftime("%d %b %Y, %H:%M:%S UTC")
    return f"{_in_zone(at).strftime('%d %b %Y, %H:%M:%S %Z')} ({utc.strftime('%d %b, %H:%M:%S UTC')})"


def _in_zone(at: datetime) -> datetime:
    return at.astimezone(ZoneInfo(shown_zone.get() or "UTC"))


@lru_cache(maxsize=1)
def sprite() -> str:
    return str(static("console/sprite.svg"))


@register.inclusion_tag("_error_summary.html", takes_context=True)
def error_summary(context: Context) -> dict[str, Any]:
    """The faults of the posted form, first on the page and with a link to each field."""
    request = context.get("request")
    if request is None or request.method != "POST":
        return {"faults": []}
    held = [each for value in context.flatten().values() for each in _each(value) if isinstance(each, BaseForm)]
    refused = [form for form in dict.fromkeys(held) if form.is_bound and form.errors]
    return {"faults": [fault for form in refused for fault in _faults(form)]}


def _each(value: Any) -> list[Any]:
    """A value of a page's context; pages with many forms keep them together by name."""
    return list(value.values()) if isinstance(value, dict) else [value]


def _faults(form: BaseForm) -> list[dict[str, str]]:
    """Every error of a form, with the label, the name and the id of its field; empty for errors of the whole form."""
    whole = [{"text": str(text)} for text in form.non_field_errors()]
    return whole + [
        {"text": str(text), "label": str(field.label), "name": field.html_name, "id": field.id_for_label or ""}
        for field in form
        for text in field.errors
    ]


@register.filter
def as_points(rise: float | None) -> str:
    """A rise of a share as people read it, with its sign: in percentage points."""
    return "none" if rise is None else f"{rise * 100:+.1f} points"
