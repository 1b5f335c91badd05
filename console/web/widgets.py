"""Plain renderers for form fields.

Django renders two templates for each input and one for each of its attributes' list; a page of filters has a dozen. The
text is the same.
"""

from __future__ import annotations

from html import escape
from typing import Any, Final

from django.forms.renderers import DjangoTemplates
from django.utils.safestring import SafeData

_KINDS: Final = (
    *("input", "text", "number", "email", "url", "password", "hidden"),
    *("date", "datetime", "time", "checkbox"),
)
_INPUTS: Final = frozenset(f"django/forms/widgets/{kind}.html" for kind in _KINDS)


class InputsWithoutTemplates(DjangoTemplates):
    """Django's renderer, but for the inputs of one line and one box."""

    def render(self, template_name: str, context: dict[str, Any], request: Any = None) -> str:
        if template_name not in _INPUTS:
            return super().render(template_name, context, request)
        widget = context["widget"]
        value = "" if widget["value"] is None else f' value="{_escape(widget["value"])}"'
        attributes = "".join(
            f" {_escape(name)}" if given is True else f' {_escape(name)}="{_escape(given)}"'
            for name, given in widget["attrs"].items()
            if given is not False
        )
        return f'<input type="{widget["type"]}" name="{_escape(widget["name"])}"{value}{attributes}>'


def _escape(value: object) -> str:
    return value if isinstance(value, SafeData) else escape(str(value))  # type: ignore[return-value]
