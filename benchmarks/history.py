"""A history in bulk: events, readings, calls and reports of many actions, and their later truth.

Every action follows one of `STORIES`, each a legal path with what was read, told and learnt on it; together they
bring about every case that a figure counts. Envelopes and hashes are made as the record makes them, each continuing
the one before; what erasing takes (entries, payloads, evidence) is not there. What is marked `late` is put in by a
second call, three days on in the life of each action, and recorded at the moment of the call: so the figures of sixty
past days change.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

import psycopg
from psycopg import sql

TOOLS: Final = ("issue_refund", "refund_small_amount", "cancel_order", "delete_document", "set_status")
CLASSES: Final = ("HIGH_RISK_EXTERNAL", "CRITICAL_MUTATION", "LOW_RISK_MUTATION", "CRITICAL_MUTATION", "READ_ONLY")
AGENTS: Final = 4
SETTLING: Final = ("attested_present", "attested_absent", "compensated", "compensation_attested", "approval_granted")


@dataclass(frozen=True)
class Step:
    """One event `after` this many seconds; `reading` is the result of its run: result, discrepancy, consistency.

    `told` says that completion was reported on it. `lost`, `torn` and `bare` are breaks in the record: the event is not
    there, its hash of the one before is wrong, it commits to no entry.
    """

    kind: str
    to: str
    after: float = 1.0
    reading: tuple[str, str, str] | None = None
    told: bool = False
    late: bool = False
    lost: bool = False
    torn: bool = False
    bare: bool = False


@dataclass(frozen=True)
class Story:
    """A path that `weight` of all actions take; `reads` is True if the tool changes nothing."""

    weight: int
    steps: Sequence[Step]
    reads: bool = False
    contradicted: bool = False
    late_contradicted: bool = False
    late_reversed: bool = False


_GATE = (Step("proposed", "PROPOSED", 0), Step("validated", "VALIDATED", 0.05))
_STARTED = (*_GATE, Step("approval_granted", "VALIDATED", 240), Step("execution_started", "EXECUTING", 2))
_ANSWERED = (*_STARTED, Step("observed", "PENDING", 1.3))
_COMMITTED = (*_ANSWERED, Step("verification_started", "COMMITTED", 0.7))
_SUCCESS = ("SUCCESS", "", "PRIMARY")
_VERIFIED = (*_COMMITTED, Step("reconciled", "RECONCILED_SUCCESS", 3, _SUCCESS, told=True))
_DIFFERENT = (
    *_COMMITTED,
    Step("reconciliation_failed", "RECONCILIATION_FAILED", 3, ("MISMATCH", "VALUE_MISMATCH", "STRONG")),
)
_PARTIAL = (
    *_COMMITTED,
    Step("partially_reconciled", "PARTIALLY_COMMITTED", 4, ("PARTIAL", "PARTIAL_APPLICATION", "PRIMARY")),
    Step("compensation_started", "COMPENSATING", 9),
)
_AGAIN = (
    *_STARTED,
    Step("failed", "FAILED", 5),
    Step("retry_allowed", "VALIDATED", 20),
    Step("execution_started", "EXECUTING", 2),
    Step("observed", "PENDING", 2),
    Step("verification_started", "COMMITTED", 1),
)
_LOST = (*_STARTED, Step("lease_ended", "UNKNOWN", 300, ("UNKNOWN", "UNKNOWN_STATE", "PRIMARY")))
_TIMED_OUT = (
    *_ANSWERED,
    Step("verification_timed_out", "VERIFICATION_TIMEOUT", 900, ("PENDING", "PROPAGATION_DELAY", "PRIMARY")),
    Step("outcome_unknown", "UNKNOWN", 1),
    Step("case_opened", "REVIEW_REQUIRED", 1),
)
_THEN_ABSENT = ("MISMATCH", "TARGET_MISSING", "PRIMARY")


def _whole(*steps: Step, weight: int = 10, **about: Any) -> Story:
    return Story(weight, steps, **about)


STORIES: Final = (
    _whole(*_VERIFIED, weight=600),
    _whole(*_GATE, weight=20),
    _whole(_GATE[0], Step("validation_failed", "FAILED", 0.05)),
    _whole(*_GATE, Step("rejected", "FAILED", 900), weight=25),
    _whole(
        *_GATE,
        Step("execution_started", "EXECUTING", 1),
        Step("observed", "COMMITTED", 1),
        Step("answered", "RECONCILED_SUCCESS", 1),
        weight=60,
        reads=True,
    ),
    # Still under way
    _whole(*_STARTED, weight=5),
    _whole(*_STARTED, Step("accepted", "ACCEPTED", 2), weight=5),
    # Read too early, from a copy
    _whole(
        *_ANSWERED,
        Step("verification_waiting", "PENDING", 2, ("PENDING", "PROPAGATION_DELAY", "REPLICA")),
        Step("verification_started", "COMMITTED", 30),
        Step("reconciled", "RECONCILED_SUCCESS", 1, _SUCCESS, told=True),
        weight=30,
    ),
    # Disproved: open, given up later, settled by a person later, rolled back
    _whole(*_DIFFERENT, Step("case_opened", "REVIEW_REQUIRED", 1), weight=20),
    _whole(*_DIFFERENT, Step("case_opened", "REVIEW_REQUIRED", 1), Step("failed_by_review", "FAILED", 60, late=True)),
    _whole(*_DIFFERENT, Step("case_opened", "REVIEW_REQUIRED", 1), Step("abandoned", "ABANDONED", 60, late=True)),
    _whole(
        *_COMMITTED,
        Step("reconciliation_failed", "RECONCILIATION_FAILED", 2, ("MISMATCH", "STALE_STATE", "PRIMARY")),
        Step("rolled_back", "ROLLED_BACK", 8),
    ),
    # Nothing there, and nobody says otherwise
    _whole(*_ANSWERED, Step("failed", "FAILED", 12, ("ABSENT", "", "PRIMARY")), weight=30),
    # Success that did not stay: for good, withdrawn, taken back, told as done
    _whole(
        *_VERIFIED,
        Step("contradicted", "RECONCILED_SUCCESS", 0, _THEN_ABSENT, late=True),
        weight=15,
        late_contradicted=True,
    ),
    _whole(
        *_VERIFIED,
        Step("contradicted", "RECONCILED_SUCCESS", 3_600, ("MISMATCH", "VALUE_MISMATCH", "PRIMARY")),
        Step("contradiction_withdrawn", "RECONCILED_SUCCESS", 60, late=True),
        contradicted=True,
    ),
    _whole(*_VERIFIED, Step("compensated", "RECONCILED_SUCCESS", 5, late=True), weight=5, late_reversed=True),
    _whole(
        *_VERIFIED,
        Step("contradicted", "RECONCILED_SUCCESS", 0, _THEN_ABSENT, late=True),
        Step("false_success_filed", "RECONCILED_SUCCESS", 90, late=True),
        weight=4,
        late_contradicted=True,
    ),
    _whole(
        *_ANSWERED[:-1],
        replace(_ANSWERED[-1], told=True),
        Step("verification_started", "COMMITTED", 1),
        Step("reconciliation_failed", "RECONCILIATION_FAILED", 3, ("MISMATCH", "NO_OP_SUCCESS", "PRIMARY")),
        Step("failed", "FAILED", 4),
        weight=4,
    ),
    # Compensated: by a reading, by a person's word, not at all
    _whole(*_PARTIAL, Step("compensated", "COMPENSATED", 7), weight=15),
    _whole(*_PARTIAL, Step("compensation_attested", "COMPENSATED", 70), weight=5),
    _whole(
        *_PARTIAL,
        Step("compensation_failed", "COMPENSATION_FAILED", 9),
        Step("case_opened", "REVIEW_REQUIRED", 1),
        Step("attested_absent", "FAILED", 20, late=True),
        weight=5,
    ),
    # Started twice
    _whole(*_AGAIN, Step("reconciled", "RECONCILED_SUCCESS", 2, _SUCCESS), weight=15),
    _whole(
        *_AGAIN,
        Step("reconciliation_failed", "RECONCILIATION_FAILED", 2, ("DUPLICATE", "DUPLICATE_SIDE_EFFECT", "PRIMARY")),
        Step("compensation_started", "COMPENSATING", 2),
        weight=8,
    ),
    # Unknown: settled later by a reading, by a person, or not
    _whole(*_LOST, weight=10),
    _whole(*_LOST, Step("reconciled", "RECONCILED_SUCCESS", 1, ("SUCCESS", "", "STRONG"), late=True)),
    _whole(*_LOST, Step("reconciliation_failed", "RECONCILIATION_FAILED", 1, _THEN_ABSENT, late=True), weight=5),
    _whole(*_TIMED_OUT, weight=5),
    _whole(*_TIMED_OUT, Step("attested_present", "RECONCILED_SUCCESS", 500)),
    _whole(
        *_TIMED_OUT,
        Step("forward_recovery_started", "FORWARD_RECOVERY", 40, late=True),
        Step("forward_recovery_done", "RECONCILED_SUCCESS", 10, _SUCCESS, late=True),
        weight=5,
    ),
    # Records that are not whole
    _whole(*_VERIFIED[:4], replace(_VERIFIED[4], lost=True), *_VERIFIED[5:], weight=2),
    _whole(*_VERIFIED[:-1], replace(_VERIFIED[-1], torn=True), weight=2),
    _whole(*_VERIFIED[:-1], replace(_VERIFIED[-1], bare=True), weight=2),
)
WEIGHT: Final = sum(each.weight for each in STORIES)
AT_A_TIME: Final = 20_000

_BEGUN = """
CREATE TEMPORARY TABLE told_step ON COMMIT DROP AS SELECT * FROM json_to_recordset(%(steps)s) AS
    s(story int, seq int, kind text, start text, state text, at_s float8, late bool, lost bool, torn bool, bare bool,
    told bool, result text, discrepancy text, consistency text, number int);
CREATE TEMPORARY TABLE told_story ON COMMIT DROP AS SELECT * FROM json_to_recordset(%(stories)s) AS
    s(story int, low int, high int, reads bool, contradicted bool, late_contradicted bool, late_reversed bool);
CREATE TEMPORARY TABLE told ON COMMIT DROP AS
SELECT i, (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7' || substr(hash, 1, 3) || '8'
        || substr(hash, 4, 15))::uuid AS id, hash, story, at, reads, contradicted, late_contradicted, late_reversed,
    CASE WHEN reads THEN 5 ELSE i %% 4 + 1 END AS tool, 1 + i %% 7 / 3.0 AS pace,
    (%(policies)s::text[])[(i * cardinality(%(policies)s::text[]) / (%(count)s + 1))::int + 1] AS policy
FROM (SELECT i, md5(i::text) AS hash, ('x' || substr(md5('story' || i), 1, 7))::bit(28)::int %% %(weight)s AS place,
        date_trunc('milliseconds', %(until)s - interval '60 days' * (1 - i::float8 / %(count)s)) AS at
      FROM generate_series(%(first)s, %(last)s) AS i) AS made
JOIN told_story ON place >= low AND place < high;
ANALYZE told;
ANALYZE told_step
"""
_AT = "(told.at + (s.at_s * told.pace + CASE WHEN s.late THEN 259200 ELSE 0 END) * interval '1 second')"
_ID = "md5('event' || told.i || '/' || s.seq)::uuid"
_EVENTS = f"""
INSERT INTO ledger_event (tenant_id, subject_id, seq, prev_seq, id, subject_kind, kind, from_state, state, prev,
    envelope, entry_hash, actor_kind, actor_id, at, recorded_at)
SELECT %(tenant)s, subject, seq, nullif(seq - 1, 0), id, 'action', kind, start, state, prev, envelope,
    sha256('\\x00'::bytea || envelope), 'system', %(tenant)s, at, CASE WHEN late THEN clock_timestamp() ELSE at END
FROM (SELECT told.id AS subject, s.seq, {_ID} AS id, s.kind, s.start, s.state, s.late, {_AT} AS at, before.prev,
        convert_to(format('{{"actor":{{"id":"%%s","kind":"system"}},"at":"%%s","causation":null,"commitments":[%%s],'
            '"digests":{{"verification":"%%s"}},"from":"%%s","id":"%%s","kind":"%%s","origin":"history.test/log",'
            '"prev":%%s,"seq":%%s,"subject":{{"id":"%%s","kind":"action"}},"to":"%%s","v":1}}', %(tenant)s::uuid,
            to_char({_AT} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
            CASE WHEN s.bare THEN '' ELSE format('{{"digest":"%%s","length":700,"pointer":null,"purpose":"entry"}}',
                told.hash || told.hash) END,
            told.policy, s.start, {_ID}, s.kind,
            coalesce('"' || encode(before.prev, 'hex') || '"', 'null'), s.seq, told.id, s.state), 'UTF8') AS envelope
    FROM told JOIN told_step s USING (story)
    LEFT JOIN ledger_event p ON p.tenant_id = %(tenant)s AND p.subject_id = told.id AND p.seq = s.seq - 1
    CROSS JOIN LATERAL (SELECT CASE WHEN s.torn THEN sha256('torn') WHEN s.seq > 1
        THEN coalesce(p.entry_hash, sha256('lost')) END AS prev) AS before
    WHERE s.seq = %(seq)s AND s.late = %(late)s AND NOT s.lost) AS made
"""
_RUNS = f"""
INSERT INTO reviews_run (tenant_id, id, action_id, number, source, consistency, freshness, result, discrepancy,
    recovery_row, recovery_decision, pointer, at)
SELECT %(tenant)s, md5('run' || told.i || '/' || s.seq)::uuid, told.id, s.number, 'shop', s.consistency, '', s.result,
    s.discrepancy, '', '', md5('evidence' || told.i || '/' || s.seq)::uuid, {_AT}
FROM told JOIN told_step s USING (story) WHERE s.result IS NOT NULL AND s.late = %(late)s
"""
_REPORTS = f"""
INSERT INTO reviews_report (tenant_id, id, action_id, event_id, code, text, completed, told_to, at)
SELECT %(tenant)s, md5('report' || told.i)::uuid, told.id, {_ID}, 'COMPLETED', '', true, %(tenant)s, {_AT}
FROM told JOIN told_step s USING (story) WHERE s.told AND s.late = %(late)s
"""
_ACTIONS = """
INSERT INTO ledger_action (
    tenant_id, id, state, seq, tool, tool_version, contract_digest, side_effect_class, reversibility, mutating, agent,
    agent_actor, session_id, run_id, call_id, target, operation_kind, operation_key, payload_hash, trace_id,
    discrepancy, recovery_row, recovery_decision, attempt_count, contradicted, settled, proposed_at, changed_at,
    relation, unwinds, reversed, reached_by)
SELECT %(tenant)s, told.id, last.state, last.seq, (%(tools)s::text[])[tool], '0.1.0', told.hash || told.hash,
    (%(classes)s::text[])[tool], 'IRREVERSIBLE', NOT reads, 'agent-' || i / 5 %% %(agents)s, %(tenant)s,
    md5('session' || i / 10)::uuid, 'run-' || i / 10, 'call-' || i, 'order/EX-' || upper(substr(told.hash, 1, 8)),
    'refund', told.hash || told.hash, told.hash || told.hash, told.hash, last.discrepancy, '', '', last.starts,
    contradicted, last.settled, at, at, '', false, false, last.reached_by
FROM told JOIN ({ends}) AS last USING (story)
"""
_ENDS = """
SELECT story, max(seq) AS seq, (array_agg(state ORDER BY seq DESC))[1] AS state,
    (array_agg(kind ORDER BY seq DESC) FILTER (WHERE start <> state OR kind = ANY(%(settling)s)))[1] AS reached_by,
    coalesce((array_agg(discrepancy ORDER BY seq DESC) FILTER (WHERE result IS NOT NULL))[1], '') AS discrepancy,
    count(*) FILTER (WHERE kind = 'execution_started') AS starts,
    (array_agg(state ORDER BY seq DESC))[1] = ANY('{RECONCILED_SUCCESS,FAILED,COMPENSATED,ROLLED_BACK,ABANDONED}')
        AS settled
FROM told_step WHERE NOT late OR %(late)s GROUP BY story
"""
_CALLS = """
INSERT INTO approvals_call (tenant_id, id, session_id, agent_id, call_id, tool, accepted, code, category, reason,
    request_hash, restated_goal, disclosed, model_tier, layer, autonomy_version, action_id, result, at)
SELECT %(tenant)s, id, md5('session' || i / 10)::uuid, 'agent-' || i / 5 %% %(agents)s, 'call-' || i,
    (%(tools)s::text[])[tool], true, 'ACCEPTED', 'valid', '', hash || hash, '', 5, '', '', '1', id, '{{}}'::jsonb, at
FROM told
UNION ALL
SELECT %(tenant)s, (substr(id::text, 1, 18) || '-9' || substr(hash, 8, 3) || '-' || substr(hash, 1, 12))::uuid,
    md5('session' || i / 10)::uuid, 'agent-' || i / 5 %% %(agents)s, 'refused-' || i,
    CASE WHEN i %% 30 = 0 THEN 'invented_' || i ELSE (%(tools)s::text[])[tool] END, false,
    (ARRAY['PHANTOM_TOOL', 'UNDISCLOSED_TOOL', 'SCHEMA_MISMATCH', 'DUPLICATE_BLOCKED', 'SCHEMA_MISMATCH',
        'OUTSIDE_AUTONOMY'])[i / 5 %% 6 + 1],
    (ARRAY['phantom', 'undisclosed', 'argument_hallucination', 'duplicate', 'argument_hallucination',
        'boundary'])[i / 5 %% 6 + 1], '', hash || hash, '', 5, '', '', '1', NULL, '{{}}'::jsonb, at
FROM told WHERE i %% 5 = 0
"""
_POLICY = """
INSERT INTO ledger_policyversion (tenant_id, id, kind, version, digest, document, active, created_at)
SELECT tenant_id, md5('policy' || %(version)s)::uuid, kind, %(version)s, %(digest)s, document, false, created_at
    + interval '1 minute' FROM ledger_policyversion WHERE tenant_id = %(tenant)s AND kind = 'verification' AND active
"""
_CONTRACT = """
INSERT INTO ledger_contractversion (tenant_id, id, name, version, digest, document, lint, registered_at)
SELECT %(tenant)s, md5('contract' || name)::uuid, name, '0.1.0', md5(name) || md5(name),
    convert_to(json_build_object('side_effect_class', class)::text, 'UTF8'), '[]', %(until)s - interval '45 days'
FROM unnest(%(tools)s::text[], %(classes)s::text[]) AS tools(name, class)
"""
_SEARCH = "INSERT INTO ledger_actionsearch SELECT %(tenant)s, id, 'order/EX-' || upper(substr(hash, 1, 8)) FROM told"
_ALWAYS = """
SELECT tgrelid::regclass::text, tgname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
WHERE tgenabled = 'A' AND tgparentid = 0 AND relnamespace = 'public'::regnamespace
"""
_LATER = """
UPDATE ledger_action a SET state = last.state, seq = last.seq, reached_by = last.reached_by, settled = last.settled,
    discrepancy = last.discrepancy, contradicted = late_contradicted, reversed = late_reversed,
    changed_at = clock_timestamp()
FROM told JOIN ({ends}) AS last USING (story) JOIN (SELECT story, bool_or(late) AS late FROM told_step GROUP BY story)
    AS learnt USING (story)
WHERE a.tenant_id = %(tenant)s AND a.id = told.id AND learnt.late
"""


def fill(connection: psycopg.Connection, tenant: UUID, count: int, *, late: bool) -> None:
    """Insert the history of `count` actions, up to ten days old; with `late` also their later truth.

    The connection is that of the superuser, for checks and triggers of single rows are passed over. A large history is
    put there by as many connections as there are processors.
    """
    first, *more = (range(at, min(at + AT_A_TIME, count + 1)) for at in range(1, count + 1, AT_A_TIME))
    with without_triggers(connection):
        if not late:
            _found(connection, tenant)
        _fill_part(connection, tenant, count, first, late=late)
        # Whatever comes next is planned for tables that have something in them.
        connection.execute("ANALYZE")
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda part: _fill_apart(connection, tenant, count, part, late=late), more))


def _fill_apart(connection: psycopg.Connection, tenant: UUID, count: int, part: range, *, late: bool) -> None:
    """One part by a connection of its own."""
    with psycopg.connect(connection.info.dsn, password=connection.info.password, autocommit=True) as own:
        _fill_part(own, tenant, count, part, late=late)


def _fill_part(connection: psycopg.Connection, tenant: UUID, count: int, part: range, *, late: bool) -> None:
    steps, stories = _rows()
    values: dict[str, Any] = {"tenant": tenant, "count": count, "late": late, "weight": WEIGHT}
    values |= {"first": part[0], "last": part[-1]}
    values |= {"tools": list(TOOLS), "classes": list(CLASSES), "agents": AGENTS, "settling": list(SETTLING)}
    values |= {"steps": json.dumps(steps), "stories": json.dumps(stories)}
    with _in_bulk(connection):
        values |= _known(connection, tenant)
        _run(connection, _BEGUN, values)
        for seq in sorted({each["seq"] for each in steps if each["late"] is late}):
            _run(connection, _EVENTS, values | {"seq": seq})
        for statement in (_RUNS, _REPORTS):
            _run(connection, statement, values)
        for statement in (_LATER,) if late else (_ACTIONS, _CALLS, _SEARCH):
            _run(connection, statement.format(ends=_ENDS), values)


@contextmanager
def without_triggers(connection: psycopg.Connection) -> Iterator[None]:
    """Disable triggers until the end; their results are computed here, by the same rules."""
    always = [tuple(map(sql.Identifier, each)) for each in connection.execute(_ALWAYS).fetchall()]
    for table, trigger in always:
        connection.execute(sql.SQL("ALTER TABLE {} DISABLE TRIGGER {}").format(table, trigger))
    try:
        yield
    finally:
        for table, trigger in always:
            connection.execute(sql.SQL("ALTER TABLE {} ENABLE ALWAYS TRIGGER {}").format(table, trigger))


@contextmanager
def _in_bulk(connection: psycopg.Connection) -> Iterator[None]:
    """Open one transaction that skips the remaining triggers and does not wait for the disk."""
    with connection.transaction():
        connection.execute("SET LOCAL session_replication_role = replica")
        connection.execute("SET LOCAL synchronous_commit = off")
        connection.execute("SET LOCAL timezone = 'UTC'")
        # A part is looked up row by row in an index, and never joined with all that is there, whatever is known of the
        # tables' sizes: what another connection has just put there is not.
        for way in ("hashjoin", "mergejoin", "seqscan", "bitmapscan", "material"):
            connection.execute(sql.SQL("SET LOCAL {} = off").format(sql.Identifier(f"enable_{way}")))
        yield


def _found(connection: psycopg.Connection, tenant: UUID) -> None:
    """A second version of the verification policy, and contracts that are registered while the history runs."""
    values: dict[str, Any] = {"tenant": tenant, "tools": list(TOOLS), "classes": list(CLASSES)}
    with _in_bulk(connection):
        [(until,)] = connection.execute("SELECT date_trunc('hour', now()) - interval '10 days'").fetchall()
        _run(connection, _POLICY, values | {"version": "history", "digest": "7" * 64})
        _run(connection, _CONTRACT, values | {"until": until})


def _known(connection: psycopg.Connection, tenant: UUID) -> dict[str, Any]:
    """The digests of the policies, and where the history ends, which is the same for both calls."""
    policies = connection.execute(
        "SELECT digest FROM ledger_policyversion WHERE tenant_id = %s AND kind = 'verification' ORDER BY created_at",
        [tenant],
    ).fetchall()
    [(until,)] = connection.execute(
        "SELECT registered_at + interval '45 days' FROM ledger_contractversion WHERE tenant_id = %s AND name = %s"
        " AND version = '0.1.0'",
        [tenant, TOOLS[0]],
    ).fetchall()
    return {"policies": [digest for (digest,) in policies], "until": until}


def _run(connection: psycopg.Connection, statement: str, values: dict[str, Any]) -> None:
    # Bound on our side: a table that is made from a query takes no values.
    psycopg.ClientCursor(connection).execute(statement.encode(), values)


def _rows() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Steps and stories as rows."""
    steps: list[dict[str, Any]] = []
    stories, low = [], 0
    for number, story in enumerate(STORIES):
        state, at_s, run = "", 0.0, 0
        for seq, step in enumerate(story.steps, 1):
            at_s += step.after
            run += step.reading is not None
            result, discrepancy, consistency = step.reading or (None, None, None)
            row = {"story": number, "seq": seq, "kind": step.kind, "start": state, "state": step.to, "at_s": at_s}
            row |= {name: getattr(step, name) for name in ("late", "lost", "torn", "bare", "told")}
            row |= {"result": result, "discrepancy": discrepancy, "consistency": consistency, "number": run}
            steps.append(row)
            state = step.to
        about = {name: getattr(story, name) for name in ("reads", "contradicted", "late_contradicted", "late_reversed")}
        stories.append({"story": number, "low": low, "high": low + story.weight, **about})
        low += story.weight
    return steps, stories


# What people and keys left behind of these actions, and one action that shares much with many of them

_BUSY = """
UPDATE ledger_action a SET tool = b.tool, tool_version = b.tool_version, contract_digest = b.contract_digest,
    agent = b.agent
FROM ledger_action b WHERE b.tenant_id = %(tenant)s AND b.id = %(busy)s AND a.tenant_id = b.tenant_id
    AND substr(a.call_id, 1, 5) = 'call-' AND substr(a.call_id, 6)::int %% 20 = 0;
UPDATE ledger_action a SET target = b.target, session_id = b.session_id, run_id = b.run_id
FROM ledger_action b WHERE b.tenant_id = %(tenant)s AND b.id = %(busy)s AND a.tenant_id = b.tenant_id
    AND substr(a.call_id, 1, 5) = 'call-' AND substr(a.call_id, 6)::int %% 1000 = 0;
UPDATE approvals_call c SET tool = a.tool, agent_id = a.agent, session_id = a.session_id
FROM ledger_action a WHERE a.tenant_id = %(tenant)s AND a.id = c.action_id AND c.tenant_id = a.tenant_id
    AND a.tool = (SELECT tool FROM ledger_action WHERE tenant_id = %(tenant)s AND id = %(busy)s);
UPDATE ledger_actionsearch s SET target = a.target
FROM ledger_action a WHERE a.tenant_id = %(tenant)s AND a.id = s.id AND s.tenant_id = a.tenant_id
    AND a.session_id = (SELECT session_id FROM ledger_action WHERE tenant_id = %(tenant)s AND id = %(busy)s);
DELETE FROM ledger_contractversion c WHERE c.tenant_id = %(tenant)s AND c.version = '0.1.0'
"""
_OTHER_ID = "(substr(id::text, 1, 18) || '-a' || substr(id::text, 21))::uuid"
# Each is a copy of one of the tenant's rows, with what an action says of it: a table, which row, of which actions.
_DECIDED = "mutating AND (attempt_count > 0 OR reached_by = 'rejected')"
_COPIES = (
    (
        "approvals_session",
        "true",
        """SELECT DISTINCT ON (session_id) *, json_build_object('id', session_id, 'agent_id', agent, 'run_id', run_id,
            'pinned_at', proposed_at, 'pin_expires_at', proposed_at + interval '1 hour') AS said
        FROM ledger_action ORDER BY session_id, id""",
    ),
    (
        "approvals_approval",
        "state = 'CONSUMED'",
        f"""SELECT *, json_build_object('id', {_OTHER_ID}, 'action_id', id, 'requested_at', proposed_at,
            'decided_at', proposed_at + interval '4 minutes', 'decide_by', proposed_at + interval '1 day',
            'risk', (ARRAY['LOW', 'NORMAL', 'HIGH'])[seq %% 3 + 1],
            'state', CASE WHEN reached_by = 'rejected' THEN 'REJECTED' ELSE 'CONSUMED' END) AS said
        FROM ledger_action WHERE {_DECIDED}""",
    ),
    (
        "approvals_approval",
        "state = 'CONSUMED'",
        f"""SELECT *, json_build_object('id', {_OTHER_ID}, 'action_id', id, 'requested_at', proposed_at,
            'decided_at', NULL, 'decide_by', now() + interval '1 day', 'state', 'REQUESTED') AS said
        FROM ledger_action WHERE state = 'VALIDATED' AND attempt_count = 0 AND right(id::text, 1) = '0'""",
    ),
    (
        "approvals_vote",
        "verdict = 'approve'",
        f"""SELECT *, json_build_object('id', id, 'approval_id', {_OTHER_ID}, 'statement', '',
            'at', proposed_at + interval '4 minutes',
            'verdict', CASE WHEN reached_by = 'rejected' THEN 'reject' ELSE 'approve' END) AS said
        FROM ledger_action WHERE {_DECIDED}""",
    ),
    (
        "reviews_case",
        "action_id IS NOT NULL",
        f"""SELECT *, json_build_object('id', {_OTHER_ID}, 'action_id', id, 'tool', tool, 'target', target,
            'discrepancy', discrepancy, 'opened_at', changed_at, 'claimed_by', NULL, 'proposed_resolution', '',
            'snoozed_until', NULL, 'state', CASE WHEN settled THEN 'RESOLVED' ELSE 'OPEN' END,
            'resolution', CASE WHEN settled THEN 'FAIL' ELSE '' END,
            'resolved_at', CASE WHEN settled THEN changed_at END) AS said
        FROM ledger_action WHERE discrepancy <> '' AND state IN ('REVIEW_REQUIRED', 'FAILED', 'ABANDONED')""",
    ),
)
_COPY = """
INSERT INTO {table} SELECT made.* FROM (SELECT * FROM {table} WHERE tenant_id = %(tenant)s AND {chosen} LIMIT 1) AS one,
    ({actions}) AS action,
    LATERAL jsonb_populate_record(NULL::{table}, to_jsonb(one) || action.said::jsonb) AS made
WHERE action.tenant_id = %(tenant)s AND substr(action.call_id, 1, 5) = 'call-' ON CONFLICT DO NOTHING
"""


def surround(connection: psycopg.Connection, tenant: UUID, *, busy: UUID) -> None:
    """Give the actions sessions, approvals, votes and cases, each a copy of one of the tenant's own.

    One action in twenty gets the tool and the agent of the action `busy`, one in a thousand its target and session.
    """
    values = {"tenant": tenant, "busy": busy}
    with without_triggers(connection), _in_bulk(connection):
        _run(connection, _BUSY, values)
        for table, chosen, actions in _COPIES:
            _run(connection, _COPY.format(table=table, chosen=chosen, actions=actions), values)
