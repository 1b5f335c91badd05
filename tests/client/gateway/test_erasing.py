"""A push that went through the gateway, erased by two people at the console and by the eraser's own process."""

from __future__ import annotations

from urllib.parse import urlsplit
from uuid import uuid4

import psycopg

from console.local import servers
from console.local.processes import wait_until
from tests.client.gateway.conftest import LONG_S, read_outcome
from tests.conftest import KEYS
from tests.journeys.ground import sign_in
from tests.support.outside.forking import forks

CANARY = "zebra-finch-4711"
WHY = {"legal_basis": "Art. 17(1)(a) GDPR", "reason": "The person asked for it."}


def rows_with_the_canary(run, house):
    """The tables of the console's database that have the canary anywhere, as text or as bytes."""
    name = urlsplit(house.stack.environment["DATABASE_URL"]).path.strip("/")
    with psycopg.connect(run.postgres.url(servers.SUPERUSER, name)) as connection:
        listed = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')"
        )
        sought = [f"%{each}%" for each in (CANARY, CANARY.encode().hex())]
        tables = [table for (table,) in listed.fetchall()]
        counts = {
            table: connection.execute(f"SELECT count(*) FROM {table} t WHERE t::text LIKE ANY(%s)", [sought]).fetchone()
            for table in tables
        }
    return sorted(table for table, count in counts.items() if count and count[0])


def erase(run, house, *actions):
    """One person asks, another confirms, and the eraser runs once as its own role."""
    first, second = (each for each in house.known["people"] if each["role"] == "compliance")
    one, other = (sign_in(house.caller().http, each["username"], each["password"]) for each in (first, second))
    fresh = {"Idempotency-Key": uuid4().hex}
    asked = one.post("/erasures", {"actions": list(actions), **WHY}, **fresh)
    assert asked.status_code == 201, asked.text
    path = f"/erasures/{asked.json()['erasure_id']}/confirm"
    confirmed = other.post(path, {"password": second["password"]}, **{"Idempotency-Key": uuid4().hex})
    assert confirmed.status_code == 200, confirmed.text
    name = urlsplit(house.stack.environment["DATABASE_URL"]).path.strip("/")
    addresses = {
        "DATABASE_URL": run.postgres.url(servers.ERASER, name),
        "KEYS_DATABASE_URL": run.postgres.url(servers.ERASER, KEYS),
    }
    ran = forks().run(["manage.py", "eraser", "--once"], house.stack.environment | addresses)
    assert ran.returncode == 0, ran.stderr
    for each in (one, other):
        each.http.close()


def test_an_erased_push_is_on_no_disk_of_the_gateway_and_in_no_table_of_the_console(gateway, clone, host, house, run):
    gateway.start(sweep_s=0.5, hold_s=LONG_S)
    clone.commit(f"a secret of {CANARY}")
    assert clone.push("origin", f"HEAD:refs/heads/{CANARY}").returncode == 0
    clone.commit(f"without {CANARY}", "--amend")
    forced = clone.begin_push("--force", "origin", f"HEAD:refs/heads/{CANARY}")
    assert wait_until(lambda: house.reviewer.items("/approvals", state="REQUESTED"), within_s=LONG_S)
    house.approve()
    told = forced.communicate(timeout=LONG_S)[0]
    assert forced.returncode == 0, told
    pushed = sorted(gateway.held, key=lambda each: each.at)
    assert [each.tool for each in pushed] == ["git.push", "git.force_push"]
    for each in pushed:
        read_outcome(house, each)
        assert CANARY in each.arguments["brings"]
        assert (gateway.state / "held" / each.id / "answer").exists()
    # The branch's name stands in clear in targets; commits and their subjects are sealed from the beginning.
    assert "ledger_action" in rows_with_the_canary(run, house)
    erase(run, house, *(each.action_id for each in pushed))
    assert wait_until(lambda: gateway.held == [], within_s=LONG_S), gateway.log
    assert list((gateway.state / "held").iterdir()) == []
    for each in pushed:
        for part in ("", "/report"):
            gone = house.operator.http.get(f"/api/v1/actions/{each.action_id}{part}")
            assert (gone.status_code, gone.json()["code"]) == (410, "ERASED")
    assert rows_with_the_canary(run, house) == []
