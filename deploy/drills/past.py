"""Past actions in all kinds of states, made by the benchmarks of the version whose Python runs this.

    python -P past.py ADDRESS COUNT WRITTEN WAITING

They belong to the tenant of two actions that the product has made there: WRITTEN, whose document is in place, and
WAITING, for which people are asked. Besides settled ones there are actions that were proposed, approved and started,
ones without an answer, ones to be read now or within half an hour, unknown ones, cases, and requests to people. What
is to be read is what WRITTEN wrote, so that the readings find it. The address is that of a superuser.
"""

from __future__ import annotations

import sys
from uuid import UUID

import psycopg

from benchmarks import history

VERIFIED = history.STORIES[0].steps
"""Proposed, validated, approved, started, answered, in verification, verified."""
UNDER_WAY = tuple(history.Story(10, VERIFIED[:steps]) for steps in (2, 3, 4, 5, 6))
MADE = "a.tenant_id = %(tenant)s AND a.id <> %(written)s AND a.id <> %(waiting)s"
OWN_ID = "(substr(a.id::text, 1, 18) || '-a' || substr(a.id::text, 21))::uuid"
COPY = """
INSERT INTO {table} SELECT made.* FROM {table} AS one, ledger_action AS a,
    LATERAL jsonb_populate_record(NULL::{table}, to_jsonb(one) || jsonb_build_object({said})) AS made
WHERE one.tenant_id = %(tenant)s AND {chosen} AND {made} AND {of}
"""
STATEMENTS = (
    # As whoever appends wants it: the head of each subject.
    f"""
    INSERT INTO ledger_subject (tenant_id, id, kind, state, seq, head, created_at, updated_at)
    SELECT a.tenant_id, a.id, 'action', a.state, a.seq, e.entry_hash, a.proposed_at, a.changed_at FROM ledger_action a
        JOIN ledger_event e ON e.tenant_id = a.tenant_id AND e.subject_id = a.id AND e.seq = a.seq
    WHERE {MADE}
    """,
    # What the last event says of the action, which the next one amends.
    f"""
    INSERT INTO ledger_entry (tenant_id, subject_id, seq, entry_salt, entry)
    SELECT a.tenant_id, a.id, a.seq, one.entry_salt, one.entry FROM ledger_action a, ledger_entry one
    WHERE {MADE} AND one.tenant_id = %(tenant)s AND one.subject_id = %(written)s
        AND one.seq = (SELECT seq FROM ledger_action WHERE tenant_id = %(tenant)s AND id = %(written)s)
    """,
    # The tools of the history have contracts in name only.
    f"""
    UPDATE ledger_action a SET tool = b.tool, tool_version = b.tool_version, contract_digest = b.contract_digest,
        side_effect_class = b.side_effect_class, agent = b.agent, payload_pointer = b.payload_pointer,
        payload_hash = b.payload_hash, mutating = true
    FROM ledger_action b WHERE b.tenant_id = a.tenant_id AND b.id = %(written)s AND {MADE}
    """,
    f"""
    UPDATE ledger_action a SET tool = b.tool, contract_digest = b.contract_digest,
        side_effect_class = b.side_effect_class, payload_pointer = b.payload_pointer, payload_hash = b.payload_hash
    FROM ledger_action b WHERE b.tenant_id = a.tenant_id AND b.id = %(waiting)s AND {MADE}
        AND a.state = 'VALIDATED' AND a.seq = 2
    """,
    "DELETE FROM ledger_contractversion WHERE tenant_id = %(tenant)s AND version = '0.1.0'",
    COPY.format(
        table="approvals_session",
        said="'id', a.session_id, 'agent_id', a.agent, 'run_id', a.run_id",
        chosen="one.id = (SELECT session_id FROM ledger_action WHERE tenant_id = %(tenant)s AND id = %(written)s)",
        made=MADE,
        of="right(a.call_id, 1) = '0'",
    )
    + " ON CONFLICT DO NOTHING",
    COPY.format(
        table="approvals_approval",
        said=f"""'id', {OWN_ID}, 'action_id', a.id, 'requested_at', a.proposed_at, 'state', CASE
            WHEN a.attempt_count > 0 THEN 'CONSUMED' WHEN a.seq = 2 THEN 'REQUESTED' ELSE 'APPROVED' END,
            'decided_at', CASE WHEN a.seq > 2 THEN a.proposed_at + interval '4 minutes' END,
            'decide_by', clock_timestamp() + interval '1 day'""",
        chosen="one.action_id = %(waiting)s",
        made=MADE,
        of="(a.attempt_count > 0 OR a.state = 'VALIDATED')",
    ),
    # A start whose executor has gone silent: its lease ends within the next minutes.
    f"""
    WITH begun AS (
        INSERT INTO approvals_attempt (tenant_id, action_id, number, jti, executor_id, wrapper_version, started_at,
            timeout_s, lease_expires_at, ends_at)
        SELECT a.tenant_id, a.id, 1, gen_random_uuid(), 'gone', '1', clock_timestamp(), 1800,
            clock_timestamp() + random() * interval '30 minutes', clock_timestamp() + interval '31 minutes'
        FROM ledger_action a WHERE {MADE} AND a.state = 'EXECUTING' RETURNING *)
    INSERT INTO approvals_due (tenant_id, subject_id, what, due_at)
    SELECT tenant_id, action_id, 'lease', lease_expires_at FROM begun
    """,
    f"""
    INSERT INTO reviews_case (tenant_id, id, action_id, state, reason, discrepancy, side_effect_class, severity, tool,
        target, proposed_resolution, proposed_reason, proposed_evidence, snooze_reason, resolution, opened_at)
    SELECT a.tenant_id, {OWN_ID}, a.id, 'OPEN', 'HELD', a.discrepancy, a.side_effect_class, 3, a.tool, a.target,
        '', '', '[]', '', '', a.changed_at
    FROM ledger_action a WHERE {MADE} AND a.state = 'REVIEW_REQUIRED' AND right(a.call_id, 1) <> '0'
    """,
    """
    INSERT INTO reviews_lane (tenant_id, system_id, concurrency, reads_per_minute)
    SELECT s.tenant_id, s.id, 4, 6000 FROM ledger_system s WHERE s.tenant_id = %(tenant)s AND s.name = 'documents'
    ON CONFLICT DO NOTHING
    """,
    f"""
    INSERT INTO reviews_schedule (tenant_id, action_id, system_id, due_at, priority, readings, opened_at)
    SELECT a.tenant_id, a.id, s.id, clock_timestamp() + (random() * 30 - 2) * interval '1 minute', 1, 0,
        clock_timestamp() + interval '30 minutes'
    FROM ledger_action a JOIN ledger_system s ON s.tenant_id = a.tenant_id AND s.name = 'documents'
    WHERE {MADE} AND NOT a.settled
        AND a.state IN ('ACCEPTED', 'PENDING', 'COMMITTED', 'UNKNOWN', 'RECONCILIATION_FAILED')
    """,
)
COUNTED = """
SELECT a.state || CASE WHEN p.state IS NOT NULL AND a.state = 'VALIDATED' THEN ' ' || p.state ELSE '' END, count(*)
FROM ledger_action a LEFT JOIN approvals_approval p ON p.tenant_id = a.tenant_id AND p.action_id = a.id
WHERE a.tenant_id = %(tenant)s GROUP BY 1 UNION ALL
SELECT 'readings scheduled', count(*) FROM reviews_schedule WHERE tenant_id = %(tenant)s UNION ALL
SELECT 'open cases', count(*) FROM reviews_case WHERE tenant_id = %(tenant)s ORDER BY 2 DESC
"""


def main(address: str, count: int, written: UUID, waiting: UUID) -> None:
    history.STORIES = (*history.STORIES, *UNDER_WAY)  # type: ignore[misc]
    history.WEIGHT = sum(each.weight for each in history.STORIES)  # type: ignore[misc]
    with psycopg.connect(address, autocommit=True) as connection:
        [(tenant,)] = connection.execute("SELECT tenant_id FROM ledger_action WHERE id = %s", [written]).fetchall()
        values = {"tenant": tenant, "written": written, "waiting": waiting}
        history.fill(connection, tenant, count, late=False)
        with history.without_triggers(connection), connection.transaction():
            connection.execute("SET LOCAL session_replication_role = replica")
            for statement in STATEMENTS:
                connection.execute(statement.encode(), values)
        connection.execute("ANALYZE")
        for state, many in connection.execute(COUNTED, values).fetchall():
            print(f"{state}: {many}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), UUID(sys.argv[3]), UUID(sys.argv[4]))
