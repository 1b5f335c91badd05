"""Actions in bulk, straight into the present view: pages read nothing else, and a million through the door takes hours.

A year of actions: most are done, a few of each kind are not, and one in a hundred has a discrepancy. Times, tools,
agents, targets and states repeat with different periods, so that every combination that a page offers has rows.
"""

from __future__ import annotations

from uuid import UUID

from psycopg import sql

from benchmarks.stand import Stand

_ROWS = """
INSERT INTO ledger_action (
    tenant_id, id, state, seq, tool, tool_version, contract_digest, side_effect_class, reversibility, mutating, agent,
    agent_actor, session_id, run_id, call_id, target, operation_kind, operation_key, payload_hash, trace_id,
    discrepancy, recovery_row, recovery_decision, attempt_count, contradicted, settled, proposed_at, changed_at,
    relation, unwinds, reversed)
SELECT %(tenant)s, (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7' || substr(hash, 1, 3)
        || '8' || substr(hash, 4, 15))::uuid,
    CASE WHEN i %% 100 = 0 THEN 'REVIEW_REQUIRED' WHEN i %% 37 = 0 THEN 'FAILED' WHEN i %% 250 = 1 THEN 'PENDING'
        ELSE 'RECONCILED_SUCCESS' END,
    5, (ARRAY['issue_refund', 'refund_small_amount', 'cancel_order', 'delete_document', 'set_status'])[i %% 5 + 1],
    '1.0.0', hash || hash, (ARRAY['HIGH_RISK_EXTERNAL', 'CRITICAL_MUTATION', 'LOW_RISK_MUTATION'])[i %% 3 + 1],
    'IRREVERSIBLE', true, 'agent-' || i %% 20, %(tenant)s, md5('session' || i / 10)::uuid, 'run-' || i / 10,
    'call-' || i, 'order/EX-' || upper(substr(hash, 1, 8)), 'refund', hash || hash, hash || hash, hash,
    CASE WHEN i %% 100 > 0 THEN ''
        ELSE (ARRAY['NO_OP_FAILURE', 'VALUE_MISMATCH', 'UNKNOWN_STATE'])[i / 100 %% 3 + 1] END,
    '', '', 1, false, true, at, at, '', false, false
FROM (SELECT i, md5(i::text) AS hash, now() - interval '1 year' * (1 - i::float8 / %(count)s) AS at
      FROM generate_series(1, %(count)s) AS i) AS made
"""


def fill(stand: Stand, database: str, tenant: UUID, count: int) -> None:
    """Put `count` actions there; indexes and what follows them are made afterwards, which is quicker and ends alike."""
    with stand.superuser(database) as connection:
        indexes = connection.execute(
            "SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index"
            " WHERE indrelid IN ('ledger_action'::regclass, 'ledger_actionsearch'::regclass) AND NOT indisunique"
        ).fetchall()
        for name, _ in indexes:
            connection.execute(sql.SQL("DROP INDEX {}").format(sql.Identifier(name)))
        connection.execute("ALTER TABLE ledger_action DISABLE TRIGGER search_follows")
        connection.execute(_ROWS.encode(), {"tenant": tenant, "count": count})
        connection.execute("ALTER TABLE ledger_action ENABLE ALWAYS TRIGGER search_follows")
        connection.execute("INSERT INTO ledger_actionsearch SELECT tenant_id, id, target FROM ledger_action")
        for _, made in indexes:
            connection.execute(made.encode())
        connection.execute("VACUUM ANALYZE ledger_action, ledger_actionsearch")
