"""The scope of figures: everything, or one tool, agent, side-effect class or version of the verification policy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields


@dataclass(frozen=True)
class MetricFilter:
    """The filter; an empty value does not restrict. Calls are not judged by a verification policy, so none has a
    version.
    """

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
