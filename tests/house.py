"""`python -m tests.house`: the size and the shape of the product as one table."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("ledger", "approvals", "reviews", "console", "client/counterfoil")
SHORT = 5
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """One module of the product, read once."""

    path: Path
    lines: int
    tree: ast.Module

    def functions(self) -> Iterator[Function]:
        yield from (node for node in ast.walk(self.tree) if isinstance(node, Function))

    def names(self) -> Iterator[str]:
        """Every name that is used, as a variable, an attribute or an import."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Name):
                yield node.id
            elif isinstance(node, ast.Attribute):
                yield node.attr


def product() -> list[Module]:
    """Every module with something in it, but migrations."""
    files = [
        file
        for package in PACKAGES
        for file in sorted((ROOT / package).rglob("*.py"))
        if "migrations" not in file.parts and file.name != "__init__.py"
    ]
    return [Module(file, text.count("\n"), ast.parse(text)) for file in files for text in [file.read_text()]]


def migration_lines() -> int:
    """Lines of migrations and of the SQL that they load."""
    files = [
        file
        for package in PACKAGES
        for pattern in ("migrations/*.py", "sql/*.sql")
        for file in (ROOT / package).glob(pattern)
    ]
    return sum(file.read_text().count("\n") for file in files)


def length(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def share_with_one_caller(modules: list[Module]) -> float:
    """The share of functions that are named once outside their definition and have at most five lines."""
    used = Counter(name for module in modules for name in module.names())
    functions = [function for module in modules for function in module.functions()]
    return sum(used[each.name] == 1 and length(each) <= SHORT for each in functions) / len(functions)


def any_parameters(modules: list[Module]) -> int:
    """Parameters of public functions whose type is `Any`."""
    return sum(
        isinstance(argument.annotation, ast.Name) and argument.annotation.id == "Any"
        for module in modules
        for function in module.functions()
        if not function.name.startswith("_")
        for argument in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    )


def duplicate_classes(modules: list[Module]) -> int:
    """Public class names that stand more than once in a package; every command of Django is a `Command`."""
    names = Counter(
        (module.path.relative_to(ROOT).parts[0], node.name)
        for module in modules
        for node in module.tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and node.name != "Command"
    )
    return sum(count > 1 for count in names.values())


def table() -> list[tuple[str, str]]:
    """(figure, value), in the order in which they are printed."""
    modules = product()
    folders = Counter(module.path.parent for module in modules)
    fullest, most = folders.most_common(1)[0]
    lengths = [length(function) for module in modules for function in module.functions()]
    return [
        ("fullest folder", f"{most} ({fullest.relative_to(ROOT)})"),
        ("modules", f"{len(modules):,}"),
        ("product lines", f"{sum(module.lines for module in modules):,} + {migration_lines():,} in migrations and SQL"),
        ("functions", f"{len(lengths):,}"),
        ("functions with one caller and at most five lines", f"{share_with_one_caller(modules):.0%}"),
        ("p90 of the length of functions", f"{quantiles(lengths, n=10)[8]:.0f}"),
        ("parameters of public functions that are Any", f"{any_parameters(modules):,}"),
        ("class names twice in a package", f"{duplicate_classes(modules):,}"),
    ]


if __name__ == "__main__":
    for figure, value in table():
        print(f"{figure:<52} {value}")  # noqa: T201
