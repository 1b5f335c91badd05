"""The console at an address, for programs that call it over HTTP while a test holds its transaction."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from django.db import connections

from tests.client.consoles import Answer, Seen, StandIn, stand_in
from tests.support.callers import new_client


@contextmanager
def served_console() -> Iterator[StandIn]:
    """Every request is answered by the console itself, one after another, on the test's own connection."""
    own, turn = connections["default"], Lock()

    def answer(seen: Seen) -> Answer:
        headers = {name: value for name, value in seen.headers.items() if name not in ("host", "content-length")}
        with turn:
            connections["default"] = own
            given = new_client().generic(
                seen.method, seen.path, "" if seen.body is None else json.dumps(seen.body), headers=headers
            )
        body = given.json() if given.content else {}
        return Answer(given.status_code, body, {"Content-Type": given.headers.get("Content-Type", "application/json")})

    own.inc_thread_sharing()
    try:
        with stand_in() as server:
            server.plan("", answer)
            yield server
    finally:
        own.dec_thread_sharing()
