"""The pages with a million actions.

Every list and every page about one thing beside 100 ms; the Actions page beside itself with ten thousand and beside
Django's admin; and the number of statements of each page at both sizes.

A tenant spends one day that leaves something of each kind behind (`tests.support.api_tour`), and the history of so
many actions is put beside it (`benchmarks.history`). Two databases, two web processes, one signed-in person with one
connection. The admin lists the same table of the same database, in the same web process: as it comes, and at its best,
which counts no further than a thousand and offers no filters.
"""

from __future__ import annotations

import logging
import re
import statistics
import time
from functools import partial
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from psycopg import sql

from benchmarks import history
from benchmarks.figures import Figure, interleaved, sized
from benchmarks.keepalive import Wire
from benchmarks.stand import Stand, apart
from console.local import servers

FEW, MANY = sized(10_000, tiny=100), sized(1_000_000, tiny=1_000)
DAY, SMALL, LARGE = "pages_day", "pages_small", "pages_large"
REQUESTS = sized(15, tiny=1)
AIM_MS = 100
TENANT, EVERYBODY = "orchid", "p-everything@orchid"
PAGE = f"/t/{TENANT}/actions"
VIEWS = {
    "first page": "",
    "by outcome": "?outcome=NEEDS_REVIEW",
    "by agent and discrepancy": "?agent=agent-0&discrepancy=VALUE_MISMATCH",
    "half way down": "?before={middle}",
    "search, some match": "?q=EX-AB",
    "search, none matches": "?q=EX-NOSUCH",
}

# Every list, each of which one person with all roles may open. Metrics over a month and more are measured by `metrics`.
LISTS = """
    actions actions?sort=oldest actions?sort=agent actions?sort=target approvals approvals?tab=decided cases
    cases?tab=settled incidents freezes agents executors contracts policies/ releases metrics/ systems calls
    calls/hallucinations recordings audit audit?sort=oldest audit/sightings audit/exports audit/holds ledger people
    notices standing-approvals emergencies approvals/quality search?q=order event-export runbooks me
"""
# A file of a hundred events, or of all rows of a list, is no page.
DOWNLOADS = ("export-bundle", "list-export")

Pages = dict[str, str]


def measure(stand: Stand, rounds: int) -> list[Figure]:
    pages = _spend_day(stand)
    busy = UUID(pages["action"].rpartition("/")[2])
    small, large = _fill_database(stand, SMALL, FEW, busy), _fill_database(stand, LARGE, MANY, busy)
    with stand.web(SMALL) as few, stand.web(LARGE) as many:
        less, more = _signed_in(stand, SMALL, few), _signed_in(stand, LARGE, many)
        figures = [_grown(name, query, rounds, more, large, less, small) for name, query in VIEWS.items()]
        figures += [_within(name, path, rounds, more) for name, path in pages.items()]
        return [*figures, *_statements(stand, pages), *_admin(more, rounds)]


def measure_searches(stand: Stand, rounds: int) -> list[Figure]:
    """The first page and the searches alone, beside a history that nothing was counted of."""
    busy = UUID(_spend_day(stand)["action"].rpartition("/")[2])
    small, large = (
        _fill_database(stand, name, count, busy, whole=False) for name, count in ((SMALL, FEW), (LARGE, MANY))
    )
    with stand.web(SMALL) as few, stand.web(LARGE) as many:
        less, more = _signed_in(stand, SMALL, few), _signed_in(stand, LARGE, many)
        views = {name: query for name, query in VIEWS.items() if name == "first page" or "?q=" in query}
        return [_grown(name, query, rounds, more, large, less, small) for name, query in views.items()]


def _within(name: str, path: str, rounds: int, wire: Wire) -> Figure:
    """Compare the 95th percentile of a page's time with its target."""
    times = tuple(p95_time(wire, path) for _ in range(rounds))
    aims = (float(AIM_MS),) * rounds
    return Figure(name=f"p95 of {name}: 10⁶ actions to {AIM_MS} ms", unit="ms", ours=times, peer=aims, aim=1, most=True)


def _statements(stand: Stand, pages: Pages) -> list[Figure]:
    """How many statements each page sends at both sizes."""
    few, many = (apart(stand, database, "benchmarks.pages:count_statements", pages) for database in (SMALL, LARGE))
    return [
        Figure(
            name=f"Statements of {name}: 10⁶ to 10⁴ rows",
            unit="statements",
            ours=(float(many[name]),),
            peer=(float(few[name]),),
            aim=1,
            most=True,
        )
        for name in pages
    ]


def count_statements(stand: Stand, pages: Pages) -> dict[str, int]:
    """Count the statements of each page on its connection, once its process has filled its caches."""
    from django.conf import settings
    from django.db import connection
    from django.test import Client

    settings.COUNTERFOIL_FRAME_KEPT_S = 0
    client, counts = Client(SERVER_NAME="localhost"), {}
    client.cookies["sessionid"] = sign_in(stand, EVERYBODY)
    for name, path in pages.items():
        client.get(path)
        trace = stand.folder / "sent"
        connection.ensure_connection()
        line: Any = connection.connection
        with trace.open("w") as file:
            line.pgconn.trace(file.fileno())
            answer = client.get(path)
            line.pgconn.untrace()
        assert answer.status_code == 200, path
        # One message a statement, by the extended protocol or, through the ORM, by the simple one.
        counts[name] = len(re.findall(r"\tF\t\d+\t(?:Execute|Query)\t", trace.read_text()))
    return counts


# A day of one tenant


def _spend_day(stand: Stand) -> Pages:
    """The pages to measure: the lists, and one of each kind about one thing of that day."""
    stand.database(DAY)
    with stand.superuser(DAY) as connection:
        # What the day's sequencer does in the application's own transaction, as in the tests; later nobody can.
        role, app = sql.Identifier(servers.SEQUENCER), sql.Identifier(servers.APP)
        connection.execute(sql.SQL("GRANT {} TO {} WITH INHERIT FALSE, SET TRUE").format(role, app))
        details: Pages = apart(stand, DAY, "benchmarks.pages:spend_day")
        connection.execute(sql.SQL("REVOKE {} FROM {}").format(role, app))
        connection.execute("UPDATE console_user SET is_staff = true, is_superuser = true")
    return {"home": f"/t/{TENANT}/", **{each: f"/t/{TENANT}/{each}" for each in LISTS.split()}, **details}


def spend_day(stand: Stand) -> Pages:
    """Run the day; return the addresses that show one of its objects, by their names."""
    from django.test.utils import setup_test_environment

    from tests.support import probes

    # Addresses that take forms alone are tried as well.
    logging.disable(logging.ERROR)
    setup_test_environment()
    day = probes.spend_day(stand.folder / "day", stand.secrets)
    action, parts = _things(day.shop.tenant, UUID(day.parts["case_id"]))
    client = day.own["everything"].client
    pages = {
        "target": f"/t/{TENANT}/target?{urlencode({'name': action.target})}",
        "approval that waits": f"/t/{TENANT}/approvals/{parts['waiting_id']}",
    }
    pages |= {
        name: probes.filled(route, day.parts | parts)
        for route, name in probes.pages_of_tenants()
        if probes.names_in(route) and name not in DOWNLOADS
    }
    return {name: path for name, path in pages.items() if _is_page(path, client.get(path))}


def _things(tenant: UUID, case_id: UUID) -> tuple[Any, dict[str, str]]:
    """The action of a case, and what belongs to it or is told by no call."""
    from approvals.models import Approval
    from console.models import ApiKey, Recording
    from ledger.actions.queries import actions
    from ledger.db import tenancy
    from reviews import queries

    with tenancy(tenant):
        case = queries.case(tenant, case_id)
        assert case is not None
        action = actions.action(tenant, case.action_id)
        assert action is not None
        return action, {
            "action_id": str(action.id),
            "subject_id": str(action.id),
            "session_id": str(action.session_id),
            "run_id": action.run_id,
            "approval_id": str(action.approval_id),
            "waiting_id": str(Approval.objects.filter(tenant_id=tenant, state="REQUESTED")[0].id),
            "machine_key_id": str(ApiKey.objects.filter(tenant_id=tenant)[0].id),
            "recording_id": str(Recording.objects.filter(tenant_id=tenant)[0].id),
        }


def _is_page(path: str, answer: Any) -> bool:
    """Return True if an address shows a page; the others are of forms, or of what nothing of the day is left of."""
    if answer.status_code == 404:
        print(f"left out, since it shows nothing: {path}", flush=True)
    elif answer.status_code not in (200, 302, 405):
        raise SystemExit(f"benchmarks: {path} was answered {answer.status_code}")
    answer.close()
    return bool(answer.status_code == 200)


def _fill_database(stand: Stand, database: str, count: int, busy: UUID, *, whole: bool = True) -> UUID:
    """An id in the middle of the actions that are put beside those of the day, many of them on what `busy` is on;
    unless it is `whole`, without late truth, sessions, votes, cases and metrics.
    """
    stand.database(database, template=DAY)
    with stand.superuser(database) as connection:
        [(tenant,)] = connection.execute("SELECT tenant_id FROM ledger_action WHERE id = %s", [busy]).fetchall()
        for late in (False, True) if whole else (False,):
            history.fill(connection, tenant, count, late=late)
        if whole:
            history.surround(connection, tenant, busy=busy)
        connection.execute("VACUUM ANALYZE")
        if whole:
            apart(stand, database, "benchmarks.metrics:rebuild", tenant)
        middle = connection.execute(
            "SELECT id FROM ledger_action ORDER BY id OFFSET %s LIMIT 1", [count // 2]
        ).fetchone()
    assert middle is not None
    return middle[0]  # type: ignore[no-any-return]


def _signed_in(stand: Stand, database: str, port: int) -> Wire:
    session = apart(stand, database, "benchmarks.pages:sign_in", EVERYBODY)
    return Wire(port, Cookie=f"sessionid={session}", **{"Accept-Encoding": "gzip"})


def sign_in(stand: Stand, username: str = "") -> str:
    """A session of this person, or of the first of the tenant."""
    from django.test import Client

    from console.models import User

    people = User.objects.filter(username=username) if username else User.objects.order_by("username")
    client = Client()
    client.force_login(people[0], backend="console.accounts.sign_in.sessions.PasswordBackend")
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


def p95_time(wire: Wire, path: str, requests: int = 4 * REQUESTS) -> float:
    times = []
    for _ in range(requests):
        began = time.perf_counter()
        wire.get(path)
        times.append(time.perf_counter() - began)
    return sorted(times)[int(0.95 * (requests - 1))] * 1000


def median_time(wire: Wire, path: str, requests: int = REQUESTS) -> float:
    times = []
    for _ in range(requests):
        began = time.perf_counter()
        wire.get(path)
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1000
