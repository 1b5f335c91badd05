"""The form of a body: a page asks for what the API accepts, with the words of `Ask` at each field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Literal, cast, get_args, get_origin

from annotated_types import Ge, Le, MaxLen
from django import forms
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from console.edge.schemas import Ask, Body
from console.web.forms import PlainSelect
from ledger.record.rules.refusals import ProofNeeded, Refused

EMPTY: Final = ("", None)


class BodyForm(forms.Form):
    """A form that is valid exactly where its body is."""

    body_class: ClassVar[type[Body]]
    members: ClassVar[dict[str, str]]
    """The member of the body for each field of the form."""
    body: Body

    def clean(self) -> dict[str, Any]:
        """Build the body once each field is valid; its faults are shown at the fields of their members."""
        cleaned: dict[str, Any] = super().clean() or {}
        if not self.errors:
            given = {member: cleaned[name] for name, member in self.members.items()}
            try:
                self.body = self.body_class.model_validate(given)
            except ValidationError as error:
                for fault in error.errors():
                    self.add_error(self._field_of(next(iter(fault["loc"]), "")), fault["msg"])
        return cleaned

    def show_refusal(self, refusal: Refused) -> None:
        """Put a refusal beside the fields that it names, or beside the proof that it asks for; else above the form."""
        if isinstance(refusal, ProofNeeded):
            self.add_error(*proof_fault(*proof_in(self.body), missing=refusal.detail))
            return
        for fault in refusal.errors or [{"path": "", "detail": refusal.detail}]:
            self.add_error(self._field_of(fault["path"].removeprefix("/")), fault["detail"])

    def _field_of(self, member: object) -> str | None:
        return next((name for name, each in self.members.items() if each == member), None)


def proof_in(body: Body) -> tuple[str | None, str | None]:
    """The password and the one-time code that were given with a body."""
    return getattr(body, "password", None) or None, getattr(body, "otp", None) or None


def proof_fault(password: str | None, code: str | None, *, missing: str) -> tuple[str, str]:
    """The field beside which a proof is asked for, and the sentence; a wrong one is not called missing."""
    if code:
        return "otp", "This code is wrong or was used before."
    return "password", "This is not your password." if password else missing


def form_class(body: type[Body], asks: Mapping[str, Ask], base: type[BodyForm] = BodyForm) -> type[BodyForm]:
    """The form that asks for a body, with its fields in the order of the members and these words for some of them."""
    asks = {member: asks.get(member) or _ask_of(info) for member, info in body.model_fields.items()}
    members = {ask.name or member: member for member, ask in asks.items()}
    fields = {name: _form_field(body.model_fields[member], asks[member]) for name, member in members.items()}
    made = type(f"{body.__name__}Form", (base,), {"body_class": body, "members": members, **fields})
    return cast(type[BodyForm], made)


def _ask_of(info: FieldInfo) -> Ask:
    """The words of a member: the last ones count, so that a member can be more specific than its kind."""
    return next((each for each in reversed(info.metadata) if isinstance(each, Ask)), Ask())


def _form_field(info: FieldInfo, ask: Ask) -> forms.Field:
    if ask.field is not None:
        return ask.field
    kind, bounds = info.annotation, {type(each): each for each in info.metadata}
    # A default that says something stands in the form from the start, so that an empty field is a mistake. Compared by
    # kind too: 0 and False are equal.
    says_nothing = any(type(info.default) is type(each) and info.default == each for each in EMPTY)
    options: dict[str, Any] = {"label": ask.label, "required": info.is_required() or not says_nothing}
    if not info.is_required():
        options["initial"] = info.default
    if ask.missing:
        options["error_messages"] = {"required": ask.missing}
    if kind is bool:
        return forms.BooleanField(**options | {"required": False})
    if kind is int:
        least, most = bounds.get(Ge), bounds.get(Le)
        return forms.IntegerField(min_value=least and least.ge, max_value=most and most.le, **options)
    if get_origin(kind) is Literal:
        words = ask.choices or {each: each for each in get_args(kind)}
        return forms.ChoiceField(choices=list(words.items()), widget=PlainSelect, **options)
    if kind is str:
        longest = bounds[MaxLen].max_length if MaxLen in bounds else None
        return forms.CharField(max_length=longest, **options)
    raise TypeError(f"A form field does not follow from {info!r}; name one with Ask(field=...).")
