"""The console at an address, for programs that call it over HTTP while a test holds its transaction."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock

from django.db import connections

from tests.client.consoles import Answer, Seen, StandIn, stand_in
from tests.support.callers import answered, new_client


@contextmanager
def served_console(*, nap: Callable[[float], object]) -> Iterator[StandIn]:
    """Every request is answered by the console itself, one after another, on the test's own connection.

    `nap` passes the time while a request waits.
    """
    own, turn = connections["default"], Lock()

    def answer(seen: Seen) -> Answer:
        headers = {name: value for name, value in seen.headers.items() if name not in ("host", "content-length")}
        with turn:
            connections["default"] = own
            client, body = new_client(), "" if seen.body is None else json.dumps(seen.body)
            given = answered(client, lambda: client.generic(seen.method, seen.path, body, headers=headers), nap=nap)
        told = given.json() if given.content else {}
        return Answer(given.status_code, told, {"Content-Type": given.headers.get("Content-Type", "application/json")})

    own.inc_thread_sharing()
    try:
        with stand_in() as server:
            server.plan("", answer)
            yield server
    finally:
        own.dec_thread_sharing()
