"""`make requirements`: every requirement, the tests that are marked with it, and how many no test shows.

    @pytest.mark.req("R-SM-07", "R-SM-08")

pytest itself collects the marks, so one on a module, a class or a parameter counts like any other. The list of ids
is docs/requirements.txt. A mark with an id that is not on it is a mistake and fails the command.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "docs" / "requirements.txt"


@dataclass(eq=False)
class Marks:
    """A pytest plugin that counts, for each id, the tests of each folder; those of the long suite apart."""

    bounded: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    long: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Count a test under every id that it is marked with."""
        folder = item.path.relative_to(ROOT / "tests").parent
        tests = self.long if item.get_closest_marker("long") else self.bounded
        for name in {name for mark in item.iter_markers("req") for name in mark.args}:
            tests[name]["." if folder == Path() else folder.parts[0]] += 1


def _collect() -> Marks:
    marks, out = Marks(), io.StringIO()
    with contextlib.redirect_stdout(out):
        # An empty mark expression: the long tests are collected too.
        ended = pytest.main(["--collect-only", "-q", "-m", "", str(ROOT / "tests")], plugins=[marks])
    if ended is not pytest.ExitCode.OK:
        sys.exit(out.getvalue()[-5000:] or "The tests could not be collected.")
    return marks


def _how(marks: Marks, name: str) -> str:
    """How an id is shown: the folders of its tests and how many there are; `make test-long` alone is said."""
    parts = [f"{folder} {count}" for folder, count in sorted(marks.bounded[name].items())]
    more = [f"{folder} {count}" for folder, count in sorted(marks.long[name].items())]
    if not parts and more:
        return f"only in make test-long: {', '.join(more)}"
    return ", ".join(parts) + (f" (make test-long: {', '.join(more)})" if more else "") or "no test shows it"


def main() -> int:
    known = LIST.read_text().split()
    marks = _collect()
    found = {*marks.bounded, *marks.long}
    sys.stdout.writelines(f"{name}  {_how(marks, name)}\n" for name in known)
    unknown = sorted(found - set(known))
    sys.stdout.writelines(f"{name}  is not a requirement: {_how(marks, name)}\n" for name in unknown)
    shown = sum(1 for name in known if marks.bounded[name])
    late = sum(1 for name in known if marks.long[name] and not marks.bounded[name])
    sys.stdout.write(
        f"{shown} of {len(known)} requirements are shown by make test, {late} more by make test-long alone,"
        f" {len(known) - shown - late} by no test.\n"
    )
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
