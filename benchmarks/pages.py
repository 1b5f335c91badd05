"""The Actions page with a million rows, against the same page with ten thousand and against Django's admin.

Two databases, two web processes, one signed-in person with one connection: each measure is the median time of a few
requests. The admin lists the same table of the same database, in the same web process: as it comes, and at its best,
which counts no further than a thousand and offers no filters.
"""

from __future__ import annotations

import statistics
import time
from functools import partial
from uuid import UUID

from benchmarks import million
from benchmarks.apart import apart
from benchmarks.keepalive import Wire
from benchmarks.ratios import Figure, interleaved
from benchmarks.sizes import sized
from benchmarks.stand import Stand

FEW, MANY = sized(10_000, tiny=100), sized(1_000_000, tiny=300)
SMALL, LARGE = "pages_small", "pages_large"
REQUESTS = sized(15, tiny=1)
PAGE = "/t/bench/actions"
VIEWS = {
    "first page": "",
    "by outcome": "?outcome=NEEDS_REVIEW",
    "by agent and discrepancy": "?agent=agent-0&discrepancy=NO_OP_FAILURE",
    "half way down": "?before={middle}",
    "search, some match": "?q=EX-AB",
    "search, none matches": "?q=EX-NOSUCH",
}


def measure(stand: Stand, rounds: int) -> list[Figure]:
    small, large = _filled(stand, SMALL, FEW), _filled(stand, LARGE, MANY)
    with stand.web(SMALL) as few, stand.web(LARGE) as many:
        less, more = _signed_in(stand, SMALL, few), _signed_in(stand, LARGE, many)
        figures = [_grown(name, query, rounds, more, large, less, small) for name, query in VIEWS.items()]
        return [*figures, *_admin(more, rounds)]


def _filled(stand: Stand, database: str, count: int) -> UUID:
    """An id in the middle of the actions that were made."""
    stand.database(database)
    tenant = UUID(stand.founded(database)["tenant"]["id"])
    million.fill(stand, database, tenant, count)
    with stand.superuser(database) as connection:
        connection.execute("UPDATE console_user SET is_staff = true, is_superuser = true")
        middle = connection.execute(
            "SELECT id FROM ledger_action ORDER BY id OFFSET %s LIMIT 1", [count // 2]
        ).fetchone()
    assert middle is not None
    return middle[0]  # type: ignore[no-any-return]


def _signed_in(stand: Stand, database: str, port: int) -> Wire:
    session = apart(stand, database, "benchmarks.pages:sign_in")
    return Wire(port, Cookie=f"sessionid={session}")


def sign_in(stand: Stand) -> str:
    """A session of the first person of the tenant."""
    from django.test import Client

    from console.models import User

    client = Client()
    client.force_login(
        User.objects.order_by("username")[0], backend="console.accounts.sign_in.sessions.PasswordBackend"
    )
    return client.cookies["sessionid"].value


def _grown(name: str, query: str, rounds: int, more: Wire, large: UUID, less: Wire, small: UUID) -> Figure:
    ours, peer = interleaved(
        rounds,
        partial(median_time, more, PAGE + query.format(middle=large)),
        partial(median_time, less, PAGE + query.format(middle=small)),
    )
    return Figure(name=f"Actions page, {name}: 10⁶ to 10⁴ rows", unit="ms", ours=ours, peer=peer, aim=1.3, most=True)


def _admin(wire: Wire, rounds: int) -> list[Figure]:
    """How many times faster: a ratio of speeds."""
    figures = []
    for admin, made, requests, aim in (("action", "as it comes", 3, 60), ("bestaction", "at its best", REQUESTS, 3)):
        for name, query, filtered in (
            ("first page", "", ""),
            ("by outcome", "?outcome=NEEDS_REVIEW", "?state__exact=REVIEW_REQUIRED"),
        ):
            page = partial(_speed, wire, PAGE + query, REQUESTS)
            ours, peer = interleaved(rounds, page, partial(_speed, wire, f"/admin/bare/{admin}/{filtered}", requests))
            name = f"Actions page, {name}: times faster than the admin {made}, 10⁶ rows"
            figures.append(Figure(name=name, unit="pages per s", ours=ours, peer=peer, aim=aim))
    return figures


def _speed(wire: Wire, path: str, requests: int) -> float:
    return 1000 / median_time(wire, path, requests)


def median_time(wire: Wire, path: str, requests: int = REQUESTS) -> float:
    times = []
    for _ in range(requests):
        began = time.perf_counter()
        wire.get(path)
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1000
