"""Checks that a user adds: an installed package offers one under the entry point group `counterfoil.checks`.

1. The name of the entry point is the pattern. A pattern of ours is never looked up here, so it cannot be replaced.
2. Nothing is imported before a contract asks for that pattern.
3. A plug-in is somebody else's code: whatever it raises, and whatever it answers that is no reading, becomes a
   sentence that names it. A fault while it reads is no answer of the system, never "absent".
4. Its failure indicators are those of the patterns here: each points to a discrepancy class that recovery knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from ledger.record.rules.refusals import Refused
from reviews.checks.interface import Check, CheckFailed, Reading, SystemAccess
from reviews.readback.rules.shapes import Schema
from reviews.reconciliation.rules.discrepancies import INDICATORS

GROUP = "counterfoil.checks"
_METHODS = ("typed_fields", "validate", "read")


class BrokenCheck(Refused):
    """The plug-in that should read this pattern back does not work."""

    code = "BROKEN_CHECK"
    status = 422


def plugin_patterns() -> list[str]:
    """Return the patterns that installed packages offer, including broken ones."""
    return sorted({point.name for point in entry_points(group=GROUP)})


@cache
def load_plugin(pattern: str) -> Check | None:
    """Return the check that a package offers for a pattern; None if there is none; raise `BrokenCheck` if it cannot be
    used.
    """
    points = list(entry_points(group=GROUP, name=pattern))
    if not points:
        return None
    if len({point.value for point in points}) > 1:
        raise BrokenCheck(f"Several packages offer a check for `{pattern}`; keep one of them.")
    return PluginCheck(pattern, points[0].value, _load_check(pattern, points[0]))


def _load_check(pattern: str, point: EntryPoint) -> Check:
    found = _call_plugin(pattern, point.value, "cannot be loaded", point.load)
    if isinstance(found, type):
        found = _call_plugin(pattern, point.value, "cannot be made", found)
    missing = [name for name in _METHODS if not callable(getattr(found, name, None))]
    if missing:
        raise BrokenCheck(f"The check for `{pattern}` ({point.value}) has no {', '.join(missing)}.")
    if getattr(found, "pattern", None) != pattern:
        raise BrokenCheck(f"The check for `{pattern}` ({point.value}) says that it is for another pattern.")
    check: Check = found
    return check


def _call_plugin(pattern: str, place: str, trouble: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Refused:
        raise
    except Exception as problem:
        said = f"{type(problem).__name__}: {problem}"[:300]
        raise BrokenCheck(f"The check for `{pattern}` ({place}) {trouble}. {said}") from problem


class PluginCheck:
    """A plug-in's check, restricted to the answers that a check may give."""

    def __init__(self, pattern: str, place: str, check: Check) -> None:
        self.pattern, self.place, self.check = pattern, place, check
        self.settings: Mapping[str, Schema] | None = getattr(check, "settings", None)
        self.required_settings: tuple[str, ...] = getattr(check, "required_settings", ())

    def typed_fields(self, lookup: Mapping[str, Any]) -> dict[str, Any]:
        """The fields that the plug-in names."""
        found = self._call("could not name its fields", lambda: self.check.typed_fields(lookup))
        if not isinstance(found, dict):
            raise BrokenCheck(f"The check for `{self.pattern}` ({self.place}) names its fields by no schema.")
        return found

    def validate(self, verification: Mapping[str, Any]) -> list[str]:
        """The plug-in's sentences."""
        found = self._call("could not judge the lookup", lambda: self.check.validate(verification))
        return [str(sentence) for sentence in found]

    def read(
        self,
        *,
        system: SystemAccess,
        verification: Mapping[str, Any],
        bindings: Mapping[str, Mapping[str, Any]],
        at: datetime,
        timeout_s: float,
    ) -> Reading:
        """Return the plug-in's reading, or raise `CheckFailed`, so that a plug-in's fault does not close the action."""
        try:
            reading = self.check.read(
                system=system, verification=verification, bindings=bindings, at=at, timeout_s=timeout_s
            )
        except CheckFailed as failed:
            self._refuse_unknown_indicators(failed.indicators)
            raise
        except Exception as problem:
            said = f"{type(problem).__name__}: {problem}"[:300]
            raise CheckFailed(f"The check {self.place} failed. {said}", retryable=True) from problem
        if not isinstance(reading, Reading):
            raise CheckFailed(f"The check {self.place} answered with no reading.", retryable=True)
        self._refuse_unknown_indicators(reading.indicators)
        return reading

    def _call(self, trouble: str, call: Callable[[], Any]) -> Any:
        return _call_plugin(self.pattern, self.place, trouble, call)

    def _refuse_unknown_indicators(self, indicators: tuple[str, ...]) -> None:
        unknown = sorted(set(indicators) - set(INDICATORS))
        if unknown:
            sentence = f"The check {self.place} names indicators that nobody knows: {', '.join(unknown)}."
            raise CheckFailed(sentence, retryable=True)
