"""Mutants: a module with one comparison turned round, and whether anybody notices.

The running functions get other code and get their own back, so that everything that was imported stays what it is.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import itertools
import signal
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

Check = Callable[[], object]
OTHERS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
LIMITS = ("MAX_", "IN_MEMORY", "FREE_RATIO", "LONGEST", "LARGEST", "MOST", "> most")
WITHIN_S = 20


class Endless(Exception):
    """The mutant goes on for ever."""


@dataclass(frozen=True)
class Mutant:
    """One comparison of one function, and what stands in its place."""

    module: ModuleType
    function: str
    text: str
    turned: str
    code: CodeType

    def __str__(self) -> str:
        return f"{self.module.__name__}.{self.function}: {self.text}  ->  {self.turned}"


def mutants(module: ModuleType, *, only: tuple[str, ...] = ()) -> Iterator[Mutant]:
    """Every mutant of a module's functions, or of these."""
    source = ast.parse(inspect.getsource(module))
    future = next(node for node in source.body if isinstance(node, ast.ImportFrom) and node.module == "__future__")
    for function, node, top in _functions(source):
        if only and function not in only:
            continue
        for comparison, operator, other in _turns(node):
            before, now = ast.unparse(comparison), comparison.ops[operator]
            comparison.ops[operator] = other()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compiled = compile(ast.Module([future, top], []), str(module.__file__), "exec")
            turned, comparison.ops[operator] = ast.unparse(comparison), now
            yield Mutant(module, function, before, turned, _code_of(compiled, function))


def survives(mutant: Mutant, checks: list[Check]) -> bool:
    """Whether every check passes with the mutant in place."""
    function = _running(mutant.module, mutant.function)
    kept = function.__code__
    function.__code__ = mutant.code
    try:
        return not any(notices(check) for check in checks)
    finally:
        function.__code__ = kept


def checks_of(*modules: ModuleType, but: tuple[str, ...] = (), **fixtures: Any) -> list[Check]:
    """The tests of these modules that need nothing but their parameters and these fixtures."""
    found: list[Check] = []
    for module in modules:
        for name, test in vars(module).items():
            if name.startswith("test_") and name not in but and isinstance(test, FunctionType):
                found += _calls(test, fixtures)
    return found


def _calls(test: FunctionType, fixtures: Mapping[str, Any]) -> Iterator[Check]:
    marks = [mark for mark in getattr(test, "pytestmark", []) if mark.name in ("parametrize", "long")]
    if any(mark.name == "long" for mark in marks):
        return
    sets: list[list[dict[str, Any]]] = []
    for mark in marks:
        names = [name.strip() for name in mark.args[0].split(",")] if isinstance(mark.args[0], str) else mark.args[0]
        rows = [row if len(names) > 1 else (row,) for row in mark.args[1]]
        sets.append([dict(zip(names, row, strict=True)) for row in rows])
    needed = set() if hasattr(test, "hypothesis") else set(inspect.signature(test).parameters)
    for chosen in itertools.product(*sets):
        values = {name: value for each in chosen for name, value in each.items()}
        if needed <= values.keys() | fixtures.keys():
            given = values | {name: fixtures[name] for name in needed - values.keys()}
            yield lambda given=given: test(**given)


def notices(check: Check) -> bool:
    """Whether a check fails."""

    def ring(number: int, frame: Any) -> None:
        raise Endless

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(WITHIN_S)
    try:
        with contextlib.redirect_stdout(None), contextlib.redirect_stderr(None):
            check()
    except (Exception, pytest.fail.Exception):  # noqa: BLE001 - however it is noticed
        return True
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return False


def _functions(source: ast.Module) -> Iterator[tuple[str, ast.FunctionDef, ast.stmt]]:
    """(qualified name, function, statement of the module in which it stands)."""
    for top in source.body:
        if isinstance(top, ast.FunctionDef):
            yield top.name, top, top
        elif isinstance(top, ast.ClassDef):
            for node in top.body:
                if isinstance(node, ast.FunctionDef):
                    yield f"{top.name}.{node.name}", node, top


def _turns(function: ast.FunctionDef) -> Iterator[tuple[ast.Compare, int, type[ast.cmpop]]]:
    for comparison in [each for each in ast.walk(function) if isinstance(each, ast.Compare)]:
        # Where exactly a limit lies is no promise; that there is one is.
        is_limit = any(word in ast.unparse(comparison) for word in LIMITS)
        for operator, now in enumerate(comparison.ops):
            others = OTHERS[type(now)]
            for other in others[-1:] if is_limit else others:
                yield comparison, operator, other


def _code_of(compiled: CodeType, function: str) -> CodeType:
    code = compiled
    for name in function.split("."):
        (code,) = [each for each in code.co_consts if isinstance(each, CodeType) and each.co_name == name]
    return code


def _running(module: ModuleType, function: str) -> FunctionType:
    found: Any = module
    for name in function.split("."):
        found = inspect.getattr_static(found, name)
    found = found.fget if isinstance(found, property) else found
    found = inspect.unwrap(getattr(found, "__func__", found))
    assert isinstance(found, FunctionType), function
    return found
