"""The scope of figures: everything, or one tool, agent, side-effect class or version of the verification policy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields


@dataclass(frozen=True)
class MetricFilter:
    """An empty value narrows nothing. Calls are judged by no verification policy, so no version has any."""

    tool: str = ""
    agent: str = ""
    side_effect_class: str = ""
    version: str = ""

    def columns(self) -> dict[str, str]:
        """The columns that it names, with their values."""
        return dict(self._set_fields())

    def _set_fields(self) -> Iterator[tuple[str, str]]:
        for each in fields(self):
            value = getattr(self, each.name)
            if value:
                yield each.name, value


EVERYTHING = MetricFilter()
