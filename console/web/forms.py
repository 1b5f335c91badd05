"""Parse and bound input of people. Nothing here decides or writes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import available_timezones

from django import forms
from django.core.validators import MaxValueValidator, MinValueValidator
from django.http import QueryDict
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from approvals.voting.rules import binding
from console.web import labels
from ledger.actions.queries.actions import NOT_KNOWN
from ledger.record.rules.event_kinds import EVENT_KINDS
from reviews.cases.rules.runbooks import RUNBOOKS
from reviews.incidents.rules import incidents

LONGEST_TEXT = 4000
ZONES = ("UTC", *sorted(each for each in available_timezones() if "/" in each and not each.startswith("Etc/")))


class DayField(forms.DateField):
    """A day that ids and times can be made of: from 1970 on, with another day after it."""

    def __init__(self, **options: Any) -> None:
        said = "Enter a day between 1970 and 9998."
        bounds = [MinValueValidator(date(1970, 1, 1), said), MaxValueValidator(date(9998, 12, 31), said)]
        # A browser leaves a day in any other format out of the field.
        widget = forms.DateInput(format="%Y-%m-%d", attrs={"type": "date"})
        super().__init__(widget=widget, validators=bounds, **options)


class MomentField(forms.Field):
    """A minute in UTC, or a day that means its first minute, or its last if `is_end`."""

    def __init__(self, *, is_end: bool = False, **options: Any) -> None:
        self.is_end = is_end
        super().__init__(widget=forms.DateTimeInput(attrs={"type": "datetime-local"}), required=False, **options)

    def prepare_value(self, value: object) -> Any:
        """The value for a browser's input: a day becomes a minute of that day."""
        return (
            f"{value}T{'23:59' if self.is_end else '00:00'}" if isinstance(value, str) and len(value) == 10 else value
        )

    def clean(self, value: object) -> datetime | None:
        """Return the time; an end includes its whole minute."""
        if not value:
            return None
        try:
            found = datetime.fromisoformat(self.prepare_value(value))
        except (TypeError, ValueError):
            found = None
        if found is None or not 1970 <= found.year <= 9998:
            raise forms.ValidationError("Enter a day or a minute between 1970 and 9998.")
        found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
        return found + timedelta(minutes=1) if self.is_end else found


class YesField(forms.TypedChoiceField):
    """One of two buttons; true for the first, None for neither where it may be."""

    def __init__(self, *, yes: str, no: str, required: bool = True) -> None:
        super().__init__(
            choices=[(yes, yes), (no, no)], coerce=lambda value: value == yes, empty_value=None, required=required
        )


class WordsField(forms.CharField):
    """Words separated by spaces or commas."""

    def clean(self, value: Any) -> Any:
        return super().clean(value).replace(",", " ").split()


class PlainSelect(forms.Select):
    """A select written in Python: Django's renders a template per option, which cost half of the Actions page."""

    def render(self, name: str, value: object, attrs: dict[str, Any] | None = None, renderer: Any = None) -> SafeString:
        options = ((code, " selected" if str(code) == str(value or "") else "", word) for code, word in self.choices)
        listed = format_html_join("", '<option value="{}"{}>{}</option>', options)
        return format_html('<select name="{}" id="{}">{}</select>', name, (attrs or {}).get("id", ""), listed)


class VoteForm(forms.Form):
    """One person's answer. The digests identify what was on the screen when it was given."""

    verdict = forms.ChoiceField(choices=[(each.value, each.value) for each in binding.VoteChoice])
    payload_hash = forms.RegexField(r"^[0-9a-f]{64}$")
    rendering_digest = forms.RegexField(r"^[0-9a-f]{64}$")
    reason = forms.CharField(
        required=False,
        max_length=LONGEST_TEXT,
        widget=forms.Textarea(attrs={"rows": 3, "aria-describedby": "reason-help"}),
    )
    covers = forms.RegexField(r"^[0-9a-f]{64}$", required=False)
    without_reading = forms.BooleanField(required=False)
    credential_id = forms.CharField(required=False, max_length=2000)
    challenge_id = forms.UUIDField(required=False)
    assertion = forms.JSONField(required=False)
    otp = forms.CharField(required=False, max_length=16)
    password = forms.CharField(
        required=False,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password", "aria-describedby": "password-help"}),
    )

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        against = cleaned.get("verdict") in binding.DENYING
        if not against and not any(cleaned.get(name) for name in ("assertion", "otp", "password")) and self.is_signed:
            self.add_error("password", "Enter your password to approve.")
        if cleaned.get("verdict") != binding.VoteChoice.APPROVE and not cleaned.get("reason"):
            self.add_error("reason", "Enter a reason to reject or request changes.")
        if {"payload_hash", "rendering_digest", "covers"} & self.errors.keys():
            raise forms.ValidationError("The page was incomplete. Reload it before you decide.")
        return cleaned

    # Whether the form comes with its proof; the one that asks for a passkey has none yet.
    is_signed = True

    def said(self) -> binding.VoteChoice:
        """The verdict in the rules' vocabulary."""
        return binding.VoteChoice(self.cleaned_data["verdict"])

    def seen(self) -> binding.DisplayedDigests:
        """The digests that the voter's page displayed."""
        held = self.cleaned_data
        return binding.DisplayedDigests(
            payload_hash=held["payload_hash"],
            rendering_digest=held["rendering_digest"],
            covers=held["covers"],
            without_reading=held["without_reading"],
        )


class UnsignedVoteForm(VoteForm):
    """A vote before its passkey has signed it."""

    is_signed = False


class SettlementProofForm(forms.Form):
    """The proof of the person who settles. `covers` identifies what was on the screen."""

    covers = forms.RegexField(r"^[0-9a-f]{64}$", required=False)
    credential_id = forms.CharField(required=False, max_length=2000)
    challenge_id = forms.UUIDField(required=False)
    assertion = forms.JSONField(required=False)
    otp = forms.CharField(required=False, max_length=16)
    password = forms.CharField(required=False, strip=False)


class ResolutionForm(SettlementProofForm):
    """A person's resolution of a case. The rules decide which resolutions are offered."""

    resolution = forms.ChoiceField(error_messages={"required": "Choose a resolution."})
    reason = forms.CharField(
        max_length=LONGEST_TEXT,
        widget=forms.Textarea(attrs={"rows": 3, "aria-describedby": "reason-help"}),
        error_messages={"required": "Enter a reason."},
    )
    evidence = forms.CharField(
        max_length=LONGEST_TEXT,
        widget=forms.Textarea(attrs={"rows": 2, "aria-describedby": "evidence-help"}),
        error_messages={"required": "Enter your evidence."},
    )

    def __init__(self, *args: Any, allowed: Iterable[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["resolution"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [(code, code) for code in allowed]

    def pieces(self) -> list[str]:
        """The evidence, one piece a line."""
        return [line.strip() for line in self.cleaned_data["evidence"].splitlines() if line.strip()]


class ConfirmationForm(SettlementProofForm):
    """The second person's decision about the proposal of the first."""

    answer = forms.ChoiceField(choices=[("confirm", "confirm"), ("decline", "decline")])

    def accepted(self) -> bool:
        return bool(self.cleaned_data["answer"] == "confirm")


class LiftFreezeForm(forms.Form):
    """The reason for lifting a freeze."""

    reason = forms.CharField(max_length=1000, error_messages={"required": "Enter a reason for lifting it."})


_SCOPES = (
    ("", "Choose…"),
    ("target", "Target"),
    ("tool", "Tool"),
    ("agent", "Agent"),
    ("system", "System"),
    ("tenant", "Everything in this tenant"),
)


class FreezeForm(forms.Form):
    """The target and the reason of a freeze: `what` is a scope and an existing value in one; else a scope and a typed
    name.

    `offered` are the choices of `what` by their kind, for the page that shows the form.
    """

    what = forms.CharField(required=False, max_length=530)
    scope = forms.ChoiceField(required=False, choices=_SCOPES, widget=PlainSelect)
    value = forms.CharField(required=False, max_length=512)
    reason = forms.CharField(max_length=1000, error_messages={"required": "Enter a reason."})
    unknown_ok = forms.BooleanField(required=False, label="Freeze anyway")

    def __init__(
        self, *args: Any, offered: Mapping[str, Iterable[tuple[str, str]]] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.offered = offered or {}

    @property
    def is_typed(self) -> bool:
        """Return True if a name was typed, so that the page shows it again."""
        return self.is_bound and bool(self.data.get("value") or self.data.get("scope"))

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        if cleaned.get("what") and cleaned.get("value"):
            self.add_error("value", "Choose from the list or type a name, not both.")
        elif cleaned.get("what"):
            cleaned["scope"], _, cleaned["value"] = cleaned["what"].partition(":")
        if cleaned.get("scope") not in dict(_SCOPES[1:]):
            self.add_error("what", "Choose what to freeze.")
        return cleaned


class PreferencesForm(forms.Form):
    """A person's display preferences. Omitted ones stay as they are."""

    theme = forms.ChoiceField(required=False, choices=[("auto", "auto"), ("light", "light"), ("dark", "dark")])
    keys = forms.ChoiceField(required=False, choices=[("on", "on"), ("off", "off")])
    zone = forms.ChoiceField(
        required=False, choices=[(each, each) for each in ZONES], widget=PlainSelect, label="Time zone"
    )

    guide = forms.ChoiceField(required=False, choices=[("on", "on"), ("off", "off")])

    def chosen(self) -> dict[str, Any]:
        keys, guide = self.cleaned_data["keys"], self.cleaned_data["guide"]
        return {
            "theme": self.cleaned_data["theme"] or None,
            "single_keys": keys == "on" if keys else None,
            "zone": self.cleaned_data["zone"] or None,
            "hides_guide": guide == "off" if guide else None,
        }


def _chooser(named: Iterable[tuple[str, str]], nothing: str, label: str | None = None) -> forms.ChoiceField:
    return forms.ChoiceField(required=False, widget=PlainSelect, label=label, choices=[("", nothing), *named])


_DISCREPANCIES = [(code, label) for code, (label, _) in labels.DISCREPANCIES.items()]


class ActionFilter(forms.Form):
    """The filter of the Actions page. Every field is optional and part of the address."""

    q = forms.CharField(
        required=False,
        max_length=200,
        label="Search",
        widget=forms.TextInput(attrs={"type": "search", "placeholder": "Target or id"}),
    )
    outcome = _chooser(
        [(NOT_KNOWN, "Not known, also in review"), *((str(code), word) for code, word in labels.OUTCOMES.items())],
        "Any outcome",
    )
    tool = forms.CharField(required=False, max_length=200)
    agent = forms.CharField(required=False, max_length=200)
    side_effect_class = _chooser(labels.SIDE_EFFECT_CLASSES.items(), "Any class", "Class")
    discrepancy = _chooser(_DISCREPANCIES, "Any")
    since = DayField(required=False, label="From")
    until = DayField(required=False, label="To")

    def wanted(self) -> dict[str, Any]:
        """The filters that are set; a day means the whole day, in UTC."""
        chosen = {name: value for name, value in self.cleaned_data.items() if value}
        return chosen | date_range(chosen)


class AuditFilter(forms.Form):
    """The filter of the Audit page. Every field is optional and part of the address.

    The events that are offered are those of the chosen kind of object.
    """

    action = forms.CharField(
        required=False,
        max_length=500,
        label="Object",
        widget=forms.TextInput(
            attrs={
                "type": "search",
                "placeholder": "Id, target, amount, code, name",
                "list": "objects",
                "autocomplete": "off",
            }
        ),
    )
    about = _chooser(labels.SUBJECTS.items(), "Anything", "Kind of object")
    kind = _chooser((), "Any", "Event")
    who = _chooser((), "Anyone")
    agent = forms.CharField(required=False, max_length=200)
    target = forms.CharField(required=False, max_length=200)
    since = MomentField(label="From (UTC)")
    until = MomentField(label="To (UTC)", is_end=True)

    def __init__(self, *args: Any, people: Iterable[tuple[str, str]], kinds: Iterable[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _offer(self, "who", people)
        about, chosen = self.data.get("about"), self.data.get("kind")
        offered = [code for code in kinds if not about or about in EVENT_KINDS[code].subjects or code == chosen]
        _offer(self, "kind", [(code, labels.event_label(code)) for code in offered])

    def subject(self) -> UUID | None:
        """The id in the typed text, if there is one."""
        found = _AN_ID.findall(self.cleaned_data["action"].lower())
        return UUID(found[-1]) if found else None

    def span(self) -> dict[str, datetime]:
        """Return from and until, as times."""
        return {name: self.cleaned_data[name] for name in ("since", "until") if self.cleaned_data.get(name)}


class SightingFilter(forms.Form):
    """The filter of the access log on the Audit page: by viewer and object."""

    thing = forms.CharField(
        required=False,
        max_length=500,
        label="Object",
        widget=forms.TextInput(
            attrs={
                "type": "search",
                "placeholder": "Target, id, or address of its page",
                "list": "objects",
                "autocomplete": "off",
            }
        ),
    )
    who = _chooser((), "Anyone")
    kind = _chooser(labels.SEEN.items(), "Any page", "Kind of page")
    since = MomentField(label="From (UTC)")
    until = MomentField(label="To (UTC)", is_end=True)

    def __init__(self, *args: Any, people: Iterable[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _offer(self, "who", people)

    def subject(self) -> UUID | None:
        """The id in the typed text, if there is one."""
        found = _AN_ID.findall(self.cleaned_data["thing"].lower())
        return UUID(found[-1]) if found else None

    def span(self) -> dict[str, datetime]:
        """Return from and until, as times."""
        return {name: self.cleaned_data[name] for name in ("since", "until") if self.cleaned_data.get(name)}


def date_range(chosen: Mapping[str, Any]) -> dict[str, datetime]:
    """Return the days `since` and `until` as times; a day means the whole day, in UTC."""
    span = {}
    if chosen.get("since"):
        span["since"] = datetime.combine(chosen["since"], time.min, UTC)
    if chosen.get("until"):
        span["until"] = datetime.combine(chosen["until"], time.min, UTC) + timedelta(days=1)
    return span


_AGES = (
    ("1", "Older than an hour"),
    ("4", "Older than 4 hours"),
    ("24", "Older than a day"),
    ("72", "Older than 3 days"),
)
_SORTS = (("oldest", "Oldest first"), ("newest", "Newest first"), ("owner", "By owner"), ("reason", "By reason"))


class CaseFilter(forms.Form):
    """The filter and order of the case queue. Every field is optional and part of the address."""

    discrepancy = _chooser(_DISCREPANCIES, "Any discrepancy")
    side_effect_class = _chooser(labels.SIDE_EFFECT_CLASSES.items(), "Any class", "Class and severity")
    reason = _chooser((), "Any reason")
    owner = _chooser((), "Any owner")
    age = _chooser(_AGES, "Any age")
    sort = _chooser((*_SORTS, ("discrepancy", "By discrepancy")), "Most severe first", "Order")

    def __init__(self, *args: Any, owners: Iterable[tuple[str, str]], reasons: Iterable[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _offer(self, "owner", [("nobody", "Unassigned"), *owners])
        _offer(self, "reason", [(code, labels.case_reason_label(code)) for code in reasons])

    def wanted(self, *, as_of: datetime) -> dict[str, Any]:
        """The filters that are set, as the queue understands them."""
        chosen = {name: value for name, value in self.cleaned_data.items() if value and name != "sort"}
        if "owner" in chosen:
            chosen["owner"] = None if chosen["owner"] == "nobody" else chosen["owner"]
        if "age" in chosen:
            chosen["opened_before"] = as_of - timedelta(hours=int(chosen.pop("age")))
        return chosen


def _offer(form: forms.Form, name: str, named: Iterable[tuple[str, str]]) -> None:
    field = form.fields[name]
    assert isinstance(field, forms.ChoiceField)
    field.choices = [*field.choices, *named]  # type: ignore[misc]


SNOOZES = (
    ("1", "An hour"),
    ("4", "4 hours"),
    ("12", "12 hours"),
    ("24", "A day"),
    ("72", "3 days"),
    ("168", "A week"),
)


class ReasonForm(forms.Form):
    """A reason, which stays in the record."""

    reason = forms.CharField(
        max_length=4000, error_messages={"required": "Enter a reason. It is kept in the audit log."}
    )


_KINDS = (
    ("operations", "Operations: something is broken"),
    ("security", "Security: unauthorized access"),
)


class NewIncidentForm(forms.Form):
    """An incident that a person opens."""

    title = forms.CharField(max_length=300, label="Title", error_messages={"required": "Enter a title."})
    kind = forms.ChoiceField(choices=_KINDS, widget=PlainSelect)
    severity = forms.TypedChoiceField(
        choices=sorted(labels.SEVERITIES.items(), reverse=True), coerce=int, initial=2, widget=PlainSelect
    )
    runbook = _chooser([(book.key, book.title) for book in RUNBOOKS.values()], "No runbook")
    reason = forms.CharField(
        max_length=LONGEST_TEXT,
        label="Reason",
        widget=forms.Textarea(attrs={"rows": 3}),
        error_messages={"required": "Enter a reason."},
    )
    case = forms.UUIDField(required=False, widget=forms.HiddenInput)
    action = forms.UUIDField(required=False, widget=forms.HiddenInput)


class CloseIncidentForm(forms.Form):
    """The note that closes an incident, and the decision about each freeze that it holds."""

    note = forms.CharField(
        max_length=LONGEST_TEXT,
        widget=forms.Textarea(attrs={"rows": 3}),
        error_messages={"required": "Enter how it ended and what prevents a recurrence."},
    )

    def freezes(self) -> dict[UUID, incidents.FreezeDecision]:
        """The decision about each freeze, from fields named `freeze-<id>`; invalid ones are ignored."""
        decided = {}
        for name, value in self.data.items():
            if name.startswith("freeze-") and value in set(incidents.FreezeDecision):
                decided[UUID(name.removeprefix("freeze-"))] = incidents.FreezeDecision(value)
        return decided


class LinkSubjectForm(forms.Form):
    """A case or an action that belongs to an incident, by its id or its page's address."""

    what = forms.CharField(max_length=500)

    def subject(self) -> UUID | None:
        found = _AN_ID.findall(self.cleaned_data["what"])
        return UUID(found[-1]) if found else None


_AN_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class RunbookStepForm(forms.Form):
    """A step of a runbook, done or open again."""

    runbook = forms.CharField(max_length=48)
    step = forms.CharField(max_length=48)
    done = forms.ChoiceField(choices=[("yes", "yes"), ("no", "no")])
    evidence = forms.CharField(required=False, max_length=1000)


class BatchForm(forms.Form):
    """The act of a batch and its cases."""

    kind = forms.ChoiceField(choices=list(labels.BATCHES.items()), widget=PlainSelect)
    scope = forms.ChoiceField(required=False, choices=[("picked", "picked"), ("all", "all")])
    filter = forms.CharField(required=False, max_length=2000)
    to = forms.ChoiceField(required=False, widget=PlainSelect)
    hours = forms.ChoiceField(required=False, choices=SNOOZES, widget=PlainSelect)
    reason = forms.CharField(required=False, max_length=1000)

    def __init__(self, *args: Any, owners: Iterable[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _offer(self, "to", owners)

    def cases(self) -> list[UUID]:
        """The ticked cases; invalid ids are ignored."""
        assert isinstance(self.data, QueryDict)
        return [UUID(each) for each in self.data.getlist("case") if _AN_ID.fullmatch(each)]

    def wanted(self, *, as_of: datetime) -> dict[str, Any]:
        """The batch's parameters; the rules use those that its kind needs."""
        chosen = self.cleaned_data
        until = as_of + timedelta(hours=int(chosen["hours"] or 4))
        said = chosen["reason"]
        return {"to": chosen["to"], "until": until.isoformat(), "reason": said, "text": said}

    def missing(self) -> str:
        """The fault, as a sentence."""
        return "Choose what to apply and its details." if self.errors else ""


class ExportForm(forms.Form):
    """The contents of a bundle. Every field is optional; an empty one means everything."""

    action = forms.CharField(required=False, max_length=500, label="Action, by id or address")
    agent = forms.CharField(required=False, max_length=128)
    tool = forms.CharField(required=False, max_length=128)
    target = forms.CharField(required=False, max_length=512)
    since = DayField(required=False, label="From")
    until = DayField(required=False, label="To")
    checkpoint = forms.IntegerField(
        required=False, min_value=1, label="Size of the auditor's checkpoint", widget=forms.TextInput
    )
    format = forms.ChoiceField(
        choices=[("jsonl", "JSON lines"), ("csv", "CSV too"), ("parquet", "Parquet too")], widget=PlainSelect
    )
    payloads = forms.BooleanField(required=False, initial=True, label="With payloads and evidence")

    def clean_action(self) -> str:
        typed = self.cleaned_data["action"]
        found = _AN_ID.findall(typed.lower())
        if typed and not found:
            raise forms.ValidationError("This names no action.")
        return found[-1] if found else ""

    def wanted(self) -> dict[str, Any]:
        """The request, as the rules of exports read it."""
        chosen, span = self.cleaned_data, date_range(self.cleaned_data)
        return {
            "from": span["since"].isoformat() if "since" in span else None,
            "to": span["until"].isoformat() if "until" in span else None,
            "filters": {name: chosen[name] for name in ("action", "agent", "tool", "target") if chosen[name]},
            "format": chosen["format"],
            "payloads": chosen["payloads"],
            "since": chosen["checkpoint"],
        }
