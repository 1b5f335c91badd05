"""Writer processes that stand ready: each has its connection and its rows, and writes for a while when told to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from benchmarks.figures import Rate, spent_ms
from benchmarks.stand import Stand, named, set_up

Write = Callable[[], Any]


@contextmanager
def writers(
    stand: Stand, database: str, count: int, make: str, environment: dict[str, str] | None = None
) -> Iterator[list[Connection]]:
    """Run writers; `make` names a function (`module:function`) that returns the operations of each writer, by name."""
    context = get_context("spawn")
    pipes, children = [], []
    for number in range(count):
        ours, theirs = context.Pipe()
        child = context.Process(target=_write, args=(stand, database, number, make, theirs, environment or {}))
        child.start()
        # Ours to close: a writer that dies must be heard of.
        theirs.close()
        pipes.append(ours)
        children.append(child)
    try:
        for pipe in pipes:
            pipe.recv()
        yield pipes
    finally:
        for pipe in pipes:
            pipe.send(None)
        for child in children:
            child.join()


def rate(pipes: list[Connection], what: str, seconds: float) -> float:
    """Writes per second of all writers together; those that need to get something ready do so before."""
    ask(pipes, what, 0)
    before = spent_ms()
    per_s: float = sum(ask(pipes, what, seconds))
    return Rate.of(per_s, spent_ms=spent_ms() - before, operations=per_s * seconds)


def ask(pipes: list[Connection], what: str, seconds: float) -> list[Any]:
    """Return each writer's answer."""
    for pipe in pipes:
        pipe.send((what, seconds))
    return [pipe.recv() for pipe in pipes]


def _write(stand: Stand, database: str, number: int, make: str, pipe: Connection, environment: dict[str, str]) -> None:
    set_up(stand, database, environment)
    ways: dict[str, Write] = named(make)(number)
    pipe.send("ready")
    while (told := pipe.recv()) is not None:
        pipe.send(_for_a_while(ways[told[0]], told[1]))


def _for_a_while(write: Write, seconds: float) -> Any:
    if not seconds:
        return getattr(write, "ready", int)()
    count, began = 0, time.perf_counter()
    while (now := time.perf_counter()) - began < seconds:
        write()
        count += 1
    return count / (now - began)
