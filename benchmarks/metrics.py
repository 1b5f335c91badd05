"""The metrics page over a million actions of sixty days, against the same page over ten thousand.

What actions add is written straight into its table, and the roll-ups are summed from it as the worker would have left
them: by hour and by day, for five tools, each of one class, four agents and two versions of the verification policy.
Each measure is the median time of a few requests of one signed-in person with one connection.
"""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import UUID

from psycopg import sql

from benchmarks.apart import apart
from benchmarks.keepalive import Wire
from benchmarks.pages import median_time
from benchmarks.ratios import Figure, interleaved
from benchmarks.sizes import sized
from benchmarks.stand import Stand
from console.metrics.rules.facts import OF_ACTIONS

FEW, MANY = sized(10_000, tiny=100), sized(1_000_000, tiny=300)
SMALL, LARGE = "metrics_small", "metrics_large"
PAGE = "/t/bench/metrics/"
VIEWS = {
    "7 days": "?period=week",
    "30 days": "?period=month",
    "13 weeks": "?period=quarter",
    "30 days of one tool": "?period=month&tool=issue_refund",
}
_KEY = "tool, agent, side_effect_class, version"
_ACTIONS = """
INSERT INTO console_metricaction ({names}, tenant_id, action_id, seq, hour, tool, agent, side_effect_class, version,
    verification_ms, reconcile_ms)
SELECT {values}, %(tenant)s,
    (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7' || substr(hash, 1, 3) || '8'
        || substr(hash, 4, 15))::uuid,
    7, date_trunc('hour', at, 'UTC'),
    (ARRAY['issue_refund', 'refund_small_amount', 'cancel_order', 'delete_document', 'set_status'])[i %% 5 + 1],
    'agent-' || i %% 4, (ARRAY['HIGH_RISK_EXTERNAL', 'CRITICAL_MUTATION', 'LOW_RISK_MUTATION'])[i %% 5 / 2 + 1],
    CASE WHEN i > %(count)s / 2 THEN '2' ELSE '1' END, 400 + i %% 9000, 600 + i %% 90000
FROM (SELECT i, md5(i::text) AS hash, now() - interval '60 days' * (1 - i::float8 / %(count)s) AS at
      FROM generate_series(1, %(count)s) AS i) AS made
"""
_OFTEN = {"actions": 1, "executed": 1, "read_back": 1, "readings": 1, "complete_records": 1, "pending": 1}
_ONE_IN = {"unknown": 50, "mismatched": 40, "verification_failed": 45, "reviewed": 60, "partial": 200, "unsettled": 100}
_ROLL_UPS = """
INSERT INTO console_metricrollup (tenant_id, span, start, {key}, {names}, {calls})
SELECT tenant_id, {span}, date_trunc('{unit}', hour, 'UTC'), {key}, {sums}, {zeros} FROM console_metricaction
GROUP BY tenant_id, 3, {key}
"""
_DELAYS = """
INSERT INTO console_metricdelay (tenant_id, span, start, kind, {key}, rounded_ms, count, total_ms)
SELECT tenant_id, {span}, date_trunc('{unit}', hour, 'UTC'), '{kind}', {key},
    round({kind}_ms / 10 ^ greatest(length({kind}_ms::text) - 2, 0)) * 10 ^ greatest(length({kind}_ms::text) - 2, 0),
    count(*), sum({kind}_ms)
FROM console_metricaction WHERE {kind}_ms IS NOT NULL GROUP BY tenant_id, 3, {key}, 9
"""
_CALLS = (
    "calls",
    "calls_accepted",
    "calls_undisclosed",
    "calls_valid",
    "calls_failed",
    "calls_arguments",
    "calls_phantom",
)


def measure(stand: Stand, rounds: int) -> list[Figure]:
    for database, count in ((SMALL, FEW), (LARGE, MANY)):
        stand.database(database)
        _fill(stand, database, UUID(stand.founded(database)["tenant"]["id"]), count)
    with stand.web(SMALL) as few, stand.web(LARGE) as many:
        less, more = (_signed_in(stand, *each) for each in ((SMALL, few), (LARGE, many)))
        return [_grown(name, query, rounds, more, less) for name, query in VIEWS.items()]


def _signed_in(stand: Stand, database: str, port: int) -> Wire:
    session = apart(stand, database, "benchmarks.pages:sign_in")
    return Wire(port, Cookie=f"sessionid={session}")


def _grown(name: str, query: str, rounds: int, more: Wire, less: Wire) -> Figure:
    ours, peer = interleaved(rounds, partial(median_time, more, PAGE + query), partial(median_time, less, PAGE + query))
    return Figure(name=f"Metrics page, {name}: 10⁶ to 10⁴ actions", unit="ms", ours=ours, peer=peer, aim=3.0, most=True)


def _fill(stand: Stand, database: str, tenant: UUID, count: int) -> None:
    with stand.superuser(database) as connection:
        for statement in statements():
            connection.execute(sql.SQL(statement), {"tenant": tenant, "count": count})
        connection.execute("VACUUM ANALYZE console_metricaction, console_metricrollup, console_metricdelay")


def statements() -> list[str]:
    """What fills the tables, in order; each takes `tenant` and `count`."""
    names = ", ".join(OF_ACTIONS)
    around: dict[str, Any] = {"key": _KEY, "names": names, "calls": ", ".join(_CALLS)}
    around |= {"sums": ", ".join(f"sum({each})" for each in OF_ACTIONS), "zeros": ", ".join("0" for _ in _CALLS)}
    made = [_ACTIONS.format(names=names, values=", ".join(map(_value, OF_ACTIONS)))]
    for span, unit in ((1, "hour"), (24, "day")):
        made.append(_ROLL_UPS.format(span=span, unit=unit, **around).replace("%", "%%"))
        made += [_DELAYS.format(span=span, unit=unit, kind=kind, key=_KEY) for kind in ("verification", "reconcile")]
    return made


def _value(name: str) -> str:
    if name == "verified_success":
        return "(i %% 100 > 0)::int"
    if name in _ONE_IN:
        # In the newer half as often again, so that there is something to tell.
        return f"(i %% (CASE WHEN i > %(count)s / 2 THEN {_ONE_IN[name] // 2} ELSE {_ONE_IN[name]} END) = 0)::int"
    return str(_OFTEN.get(name, 0))
