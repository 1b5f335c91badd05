"""Mutation testing of pure rules, not part of `make test`: `python -m tests.rules.mutate FILE …`.

Each mutant changes one place of one module: a comparison, `and`, `or`, `not`, a condition, a whole number, a flag or a
text; docstrings and decorators stay. The tests that need no server then run on it, in a process of its own, up to the
first failure. A mutant for which no test fails survived: its line is printed with what was changed.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import os
import random
import signal
import sys
import time
import types
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# What is quick and precise comes first.
TESTS = (
    *(
        f"tests/rules/reporting/test_{name}.py"
        for name in (
            *("report", "sentences", "every_outcome", "word", "at_stake", "session_reports", "success_patterns"),
            *("folding", "evidence_summary"),
        )
    ),
    *("tests/rules/record/test_outcomes.py", "tests/rules/reporting/test_facts.py"),
    "tests/rules/record/test_what_is_said.py",
)
HISTORIES = (150, 800, 1500, 3000)
"""How many histories the property tests look through: made once, before the mutants."""
LONGEST_S = 900
# What is imported before the mutants can no longer be rewritten.
_QUIET = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
_OTHER = {
    **{
        ast.Eq: ast.NotEq,
        ast.NotEq: ast.Eq,
        ast.Is: ast.IsNot,
        ast.IsNot: ast.Is,
        ast.In: ast.NotIn,
        ast.NotIn: ast.In,
    },
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.And: ast.Or, ast.Or: ast.And},
}


@dataclass(frozen=True)
class Mutant:
    """A changed module: the line, what was changed in words, and its source."""

    line: int
    change: str
    source: str


def mutants_of(source: str) -> Iterator[Mutant]:
    """Every mutant of a module, in the order of its lines."""
    tree = ast.parse(source)
    for place, node in enumerate(ast.walk(tree)):
        for change in _changes(node, _lines_to_keep(tree)):
            other = copy.deepcopy(tree)
            target = list(ast.walk(other))[place]
            before = ast.unparse(target)
            change(target)
            yield Mutant(getattr(node, "lineno", 0), f"{before}  ->  {ast.unparse(target)}", ast.unparse(other))


def _lines_to_keep(tree: ast.Module) -> set[int]:
    """The lines of docstrings, of texts that stand alone, as after a constant, and of decorators."""
    alone = {
        node.lineno for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    decorated = (node.decorator_list for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    return alone | {each.lineno for decorators in decorated for each in decorators}


def _changes(node: ast.AST, kept: set[int]) -> Iterator:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _OTHER:
        yield lambda other: other.ops.__setitem__(0, _OTHER[type(other.ops[0])]())
    elif isinstance(node, ast.BoolOp):
        yield lambda other: setattr(other, "op", _OTHER[type(other.op)]())
    elif isinstance(node, (ast.If, ast.IfExp)) and not isinstance(node.test, (ast.Compare, ast.BoolOp)):
        yield lambda other: setattr(other, "test", ast.UnaryOp(op=ast.Not(), operand=other.test))
    elif isinstance(node, ast.Constant) and node.lineno not in kept:
        if isinstance(node.value, bool):
            yield lambda other: setattr(other, "value", not other.value)
        elif isinstance(node.value, int):
            yield lambda other: setattr(other, "value", other.value + 1)
        elif isinstance(node.value, str):
            yield lambda other: setattr(other, "value", other.value + "~" if other.value else "~")


def is_killed(path: Path, mutant: Mutant, tests: tuple[str, ...]) -> bool:
    """Return whether a test fails for a mutant, or it runs without end; the tests run in a process of their own."""
    child = os.fork()
    if child == 0:
        _run(path, mutant, tests)
    began = time.monotonic()
    while time.monotonic() - began < LONGEST_S:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status) != 0
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def _run(path: Path, mutant: Mutant, tests: tuple[str, ...]) -> None:
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    code = 1
    try:
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        module = types.ModuleType(name)
        module.__file__, module.__package__ = str(path), name.rpartition(".")[0]
        sys.modules[name] = module
        exec(compile(mutant.source, str(path), "exec"), module.__dict__)
        setattr(importlib.import_module(module.__package__), name.rpartition(".")[2], module)
        asked = ("-x", "-q", "-p", "no:cacheprovider", "-c", "tests/rules/pytest.ini", *_QUIET)
        # One after another, so that what an earlier one kills never waits for the collection of the rest.
        code = next((code for each in tests if (code := int(pytest.main([*asked, each])))), 0)
    finally:
        os._exit(code)


def main() -> None:
    """Print each survivor and the share that was killed."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("modules", nargs="+", type=Path)
    asked.add_argument("--tests", nargs="+", default=TESTS)
    asked.add_argument("--most", type=int, default=0, help="so many mutants of each module, drawn by --seed; 0 for all")
    asked.add_argument("--seed", type=int, default=1)
    given = asked.parse_args()
    histories = importlib.import_module("tests.support.pure.histories")
    for count in HISTORIES:
        histories.random_walks(count)
    for module in given.modules:
        path = ROOT / module
        if is_killed(path, Mutant(0, "", path.read_text()), tuple(given.tests)):
            sys.exit(f"The tests fail for {module} as it is.")
        every = list(mutants_of(path.read_text()))
        drawn = random.Random(given.seed).sample(every, min(given.most or len(every), len(every)))
        counts = Counter[bool]()
        tests = tuple(sorted(given.tests, key=lambda each: path.stem not in each))
        for mutant in sorted(drawn, key=lambda each: each.line):
            killed = is_killed(path, mutant, tests)
            counts[killed] += 1
            if not killed:
                _tell(f"{module}:{mutant.line}: {mutant.change}")
        _tell(f"{module}: {counts[True]} of {len(drawn)} killed, of {len(every)} mutants")


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
