"""Statements name their tenant, so that a database can be split by tenant; row-level security adds it a second time.

The plans of all statements are read, those inside of functions too. Each part of a plan that reads a table with a
tenant is bound to one by what the statement says, not only by the table's policy.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from io import StringIO
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connections
from django.db.backends.signals import connection_created
from psycopg import sql

from console import tasks
from console.celery import app
from tests.conftest import Run
from tests.db.execution.test_statements import Trip
from tests.db.record.test_isolation import with_tenant
from tests.support.api_tenant import workshop
from tests.support.erasing import erase
from tests.support.probes import after, filled, names_in, pages_of_tenants, spend_day

# Statements that find the tenant of something, by table and pattern; what follows from them names it.
ACROSS_TENANTS = {
    ("console_membership", r"WHERE m\.user_id = \$1"): "the directory: in which tenants a person is a member",
    ("approvals_due", r'^SELECT .* FROM "approvals_due" WHERE .*"due_at" ASC LIMIT'): "which deadlines are due",
    ("ledger_order", r'^SELECT .* FROM "ledger_order" WHERE .*"due_at" ASC'): "which recovery orders are due",
    **{
        (
            table,
            r"^SELECT 'alarm', ",
        ): "alarms, erasures, silent outsiders, unsigned events and the last anchor of them all"
        for table in ("ledger_alarm", "ledger_erasure", "ledger_anchoring", "ledger_anchor", "ledger_tip")
    },
    ("ledger_order", r"^SELECT COUNT"): "how many recovery orders wait in this installation",
    ("console_membership", r"WHERE s.session_key = \$1"): "the directory: the roles that say when a session ends",
    ("approvals_due", r"^SELECT count\(\*\), max\(due_at\)"): "how many executions run in this installation",
    ("approvals_due", r"^SELECT COUNT"): "how many deadlines are overdue in this installation",
    ("ledger_pending", r"^WITH RECURSIVE queued"): "which tenants have events without a leaf",
    ("reviews_lane", r"^SELECT l.tenant_id, l.system_id FROM reviews_lane l"): "which lanes have readings that are due",
    ("reviews_lane", r"^UPDATE reviews_lane SET held_until"): "which unavailable system is to be probed",
    ("reviews_lane", r'WHERE "reviews_lane"."held_until" IS NOT NULL'): "which systems are unavailable",
    ("reviews_schedule", r"^SELECT EXISTS \(SELECT FROM reviews_schedule WHERE due_at"): "whether any reading is due",
    ("reviews_schedule", r"^SELECT COUNT"): "how many readings are overdue in this installation",
    ("console_answeredwrite", r"^DELETE .* at <"): "what has become too old",
    ("console_spentproof", r"^DELETE .* at <"): "what has become too old",
}
SHOWN = ("Index Cond", "Recheck Cond", "Filter")
# A policy compares with the session's tenant; any other comparison is the statement's own.
BOUND = re.compile(r"\btenant_id = (?!\(NULLIF\(current_setting\()")


class Plans:
    """The plans of the statements that the application's connections run."""

    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []

    def listen(self, connection: Any, **_: Any) -> None:
        connection.connection.add_notice_handler(self._note)

    def _note(self, notice: Any) -> None:
        before, _, plan = (notice.message_primary or "").partition("plan:\n")
        # A survey is about all tenants, and returns their ids alone (`tests/db/record/test_isolation.py`).
        if before.startswith("duration:") and "_survey(" not in (notice.context or ""):
            self.found.append(json.loads(plan))

    def sent(self) -> tuple[list[str], int]:
        """Count nothing: that is what another listener of `Trip` does."""
        return [], 0


@pytest.fixture
def plans(committed_db: Any, superuser_connection: psycopg.Connection) -> Iterator[Plans]:
    for setting in (
        *("session_preload_libraries = auto_explain", "auto_explain.log_level = notice"),
        *("auto_explain.log_min_duration = 0", "auto_explain.log_nested_statements = on"),
        "auto_explain.log_format = json",
        # Tables are joined row by row, so that the part of each shows what it is joined by.
        *("enable_hashjoin = off", "enable_mergejoin = off", "enable_seqscan = off", "enable_bitmapscan = off"),
        # Of two equal comparisons, a plan for values of any kind may show the policy's.
        "plan_cache_mode = force_custom_plan",
    ):
        name, _, value = setting.partition(" = ")
        superuser_connection.execute(
            sql.SQL("ALTER DATABASE {} SET {} = {}").format(
                sql.Identifier(committed_db.name), sql.SQL(name), sql.Literal(value)
            )
        )
    kept = "SELECT oid::regprocedure::text FROM pg_proc WHERE 'plan_cache_mode=force_generic_plan' = ANY(proconfig)"
    for (function,) in superuser_connection.execute(kept).fetchall():
        superuser_connection.execute(sql.SQL("ALTER FUNCTION {} RESET plan_cache_mode").format(sql.SQL(function)))
    connections.close_all()
    plans = Plans()
    connection_created.connect(plans.listen)
    try:
        yield plans
    finally:
        connection_created.disconnect(plans.listen)
        connections.close_all()


def reads(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The parts of a plan that read a table."""
    if "Relation Name" in node and node["Node Type"] != "ModifyTable":
        yield node
    for part in node.get("Plans", ()):
        yield from reads(part)


def unbound(plans: Plans, superuser: psycopg.Connection) -> set[tuple[str, str]]:
    """Each table with a tenant that a statement reads for more than one, with the statement."""
    parents = dict(
        superuser.execute("SELECT inhrelid::regclass::text, inhparent::regclass::text FROM pg_inherits").fetchall()
    )
    known, found = with_tenant(superuser), set[tuple[str, str]]()
    for plan in plans.found:
        for part in reads(plan["Plan"]):
            table = parents.get(part["Relation Name"], part["Relation Name"])
            if table in known and not any(BOUND.search(part.get(each, "")) for each in SHOWN):
                found.add((table, re.sub(r"\s+", " ", plan["Query Text"]).strip()))
    return found


def unexplained(plans: Plans, superuser: psycopg.Connection) -> set[tuple[str, str]]:
    """The statements that read for more than one tenant and are not in `ACROSS_TENANTS`."""
    return {
        (table, text)
        for table, text in unbound(plans, superuser)
        if not any(table == name and re.search(pattern, text) for name, pattern in ACROSS_TENANTS)
    }


@pytest.mark.unsealed
def test_every_statement_of_an_action_of_the_pages_and_of_the_tasks_is_bound_to_one_tenant(
    plans: Plans,
    broker: Any,
    superuser_connection: psycopg.Connection,
    secrets_dir: Path,
    tmp_path: Path,
    settings: Any,
):
    settings.COUNTERFOIL_RATE_PER_S = 0
    credential = secrets_dir / "systems" / "orchid" / "documents.json"
    credential.parent.mkdir(parents=True)
    credential.write_text("{}")
    (tmp_path / "documents").mkdir()
    shop = workshop("orchid").set_up(tmp_path / "documents")
    Trip(shop, plans).whole(1)  # type: ignore[arg-type]
    for route, _ in pages_of_tenants():
        if not names_in(route):
            for person in (shop.reviewer, shop.operator):
                person.client.get("/" + route.replace("<slug:slug>", shop.slug))
    app.loader.import_default_modules()
    periodic = {each["task"] for each in app.conf.beat_schedule.values()} - {tasks.tick.name}
    for name in sorted(periodic | {each.task.name for each in tasks.QUICK}):
        app.tasks[name].run()
    assert len(plans.found) > 1000
    assert unexplained(plans, superuser_connection) == set()


@pytest.mark.long
@pytest.mark.unsealed
def test_every_statement_of_a_day_of_the_whole_api_of_every_page_and_of_the_checks_is_bound_to_one_tenant(
    plans: Plans, broker: Any, superuser_connection: psycopg.Connection, secrets_dir: Path, tmp_path: Path, run: Run
):
    day = spend_day(tmp_path / "day", secrets_dir)
    with after(day):
        for route, _ in pages_of_tenants():
            for person in ("everything", "reviewer"):
                day.own[person].client.get(filled(route, day.parts)).close()
        erase(run)
    for words in (["verify_ledger"], ["verify_ledger", "--log"], ["rebuild_metrics", "--tenant", day.shop.slug]):
        # The probes ended a membership without an event, which the first one finds.
        with suppress(CommandError):
            call_command(*words, stdout=StringIO())
    assert len(plans.found) > 10_000
    assert unexplained(plans, superuser_connection) == set()
