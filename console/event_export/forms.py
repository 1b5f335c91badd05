"""The forms of the page about destinations of events."""

from __future__ import annotations

from django import forms

from console.web.forms import PlainSelect

_STARTS = (("now", "Now"), ("beginning", "Beginning of the record"), ("place", "An entry or a time"))


class StartForm(forms.Form):
    """The starting point of an export."""

    start = forms.ChoiceField(choices=_STARTS, widget=PlainSelect, label="From")
    place = forms.CharField(required=False, max_length=40, label="Entry, or time with its zone")


class StopForm(forms.Form):
    """The reason for stopping an export."""

    reason = forms.CharField(max_length=1000, label="Reason")
