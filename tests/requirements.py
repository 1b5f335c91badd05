"""`make requirements`: the requirement ids that no test is marked with.

    @pytest.mark.req("R-SM-07", "R-SM-08")

The list of ids is docs/requirements.txt. A mark with an id that is not on it is a mistake and fails the command.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "docs" / "requirements.txt"


def marked(source: str) -> Iterator[str]:
    """Every id in a `mark.req(...)`, on a test, a class, a module or a parameter."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("mark.req"):
            yield from (part.value for part in node.args if isinstance(part, ast.Constant))  # type: ignore[misc]


def shown() -> dict[str, set[str]]:
    """Id to the files that show it."""
    found: dict[str, set[str]] = {}
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        for name in marked(file.read_text()):
            found.setdefault(name, set()).add(str(file.relative_to(ROOT)))
    return found


def main() -> int:
    known = LIST.read_text().split()
    found = shown()
    unknown = sorted(set(found) - set(known))
    missing = [name for name in known if name not in found]
    sys.stdout.writelines(f"{name}\n" for name in missing)
    sys.stdout.writelines(f"{name}: not a requirement, in {', '.join(sorted(found[name]))}\n" for name in unknown)
    sys.stdout.write(f"{len(known) - len(missing)} of {len(known)} requirements are shown by a test.\n")
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
