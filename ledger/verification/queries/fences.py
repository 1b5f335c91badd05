"""The record's fences (triggers, row-level security, owners, functions), checked against the system catalogue (L31).

A migration, a restore or a manual change may drop a fence without a trace in any row. So the catalogue is read for the
status of the installation (`/statusz`) and before each verification, and compared with what must be
there. The fences themselves are in the `.sql` files of the apps.
"""

from __future__ import annotations

from ledger.db import execute

APPEND_ONLY = (
    "ledger_event",
    "ledger_entry",
    "ledger_evidence",
    "ledger_subjectkey",
    "ledger_contractversion",
    "ledger_releasegate",
    "ledger_blank",
    "ledger_log",
    "ledger_leaf",
    "ledger_checkpoint",
    "ledger_anchor",
    "approvals_agentversion",
    "approvals_call",
    "approvals_comment",
    "approvals_grantkeychange",
    "approvals_modelusage",
    "approvals_standingpass",
    "approvals_vote",
    "reviews_observation",
    "reviews_run",
    "reviews_comment",
    "reviews_guardverdict",
    "reviews_incidentlink",
    "reviews_report",
    "console_recording",
    "console_recordedconversation",
    "console_recordedmessage",
    "console_recordedword",
    "console_sighting",
)
GROWING = ("ledger_tile", "ledger_tip")
"""Tables whose rows only grow."""
GATED = (
    "ledger_policyversion",
    "ledger_freeze",
    "approvals_agent",
    "approvals_startoverride",
    "approvals_executor",
    "approvals_approver",
    "approvals_approverkey",
    "approvals_standingapproval",
)
"""Tables that change behind the tenant's gate only, since starts are judged by them."""
TRIGGERS = [
    *((table, trigger) for table in APPEND_ONLY for trigger in ("no_change", "no_truncate")),
    *((table, trigger) for table in GROWING for trigger in ("only_grows", "no_truncate")),
    *((table, "gate") for table in GATED),
    ("ledger_epoch", "epoch_rises"),
    ("ledger_epoch", "epoch_stays"),
    ("ledger_evidence", "has_event"),
    ("reviews_run", "has_event"),
    ("reviews_claim", "keep_claim"),
    ("ledger_action", "contract_in_force"),
    ("ledger_action", "search_follows"),
    ("approvals_grant", "refuse_stopped"),
    ("approvals_attempt", "refuse_stopped"),
    ("approvals_standingapproval", "begin_standing"),
    ("approvals_standingapproval", "keep_standing"),
    ("approvals_standingpass", "count_pass"),
    ("ledger_contractversion", "is_released"),
    ("ledger_policyversion", "is_released"),
    ("ledger_release", "keeps_its_draft"),
    ("ledger_releasegate", "has_evidence"),
    ("console_price", "keep_price"),
]
_NAMED = ("no_change", "no_truncate", "only_grows")
"""Triggers that are given the name of their table."""
ELEVATED = (
    *("ledger_append", "ledger_lock", "ledger_begin_erasure", "ledger_erase", "ledger_tell_erasure"),
    *("ledger_search", "ledger_search_fault", "ledger_follow_target", "ledger_count_concerns"),
    *("ledger_learn_sizes", "ledger_survey", "approvals_survey", "reviews_survey", "console_survey"),
)
NOT_ISOLATED = frozenset(
    {
        "console_membership",
        "console_apikey",
        "console_answeredwrite",
        "console_spentproof",
        "approvals_due",
        "ledger_pending",
        "ledger_order",
        "ledger_actionsearch",
        "reviews_schedule",
        "reviews_lane",
    }
)
"""Tables of ids that are read across tenants, and one that is closed to all; others with a tenant are isolated."""


def missing_fences() -> list[str]:
    """Return one sentence for each fence that is missing or altered; empty if all are in place."""
    return [*_triggers(), *_isolation(), *_holds(), *_owners(), *_functions()]


def _triggers() -> list[str]:
    # On the parent and on every partition: each has a trigger of its own, which can be switched off alone. One that is
    # given the name of its table has that of the parent.
    rows = execute(
        "SELECT w.relation, w.name, p.relname FROM unnest($1::text[], $2::text[]) w (relation, name)"
        " LEFT JOIN pg_class c ON c.relname = w.relation AND c.relnamespace = 'public'::regnamespace"
        " LEFT JOIN LATERAL (SELECT c.oid, c.relname UNION ALL SELECT i.inhrelid, k.relname FROM pg_inherits i"
        " JOIN pg_class k ON k.oid = i.inhrelid WHERE i.inhparent = c.oid AND k.relkind = 'r') p ON true"
        " LEFT JOIN pg_trigger t ON t.tgrelid = p.oid AND t.tgname = w.name"
        " WHERE t.tgenabled IS DISTINCT FROM 'A'"
        " OR (w.name = ANY($3) AND t.tgargs <> convert_to(w.relation, 'UTF8') || '\\x00'::bytea) ORDER BY 1, 2, 3",
        *([table for table, _ in TRIGGERS], [trigger for _, trigger in TRIGGERS], list(_NAMED)),
    )
    return [
        f"The trigger {trigger} of {part or table} is missing, not always on or of another table."
        for table, trigger, part in rows
    ]


def _isolation() -> list[str]:
    rows = execute(
        "SELECT c.relname::text FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id'"
        " WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT a.attisdropped"
        " AND NOT (c.relrowsecurity AND c.relforcerowsecurity AND EXISTS (SELECT FROM pg_policy p"
        " WHERE p.polrelid = c.oid AND p.polname = 'one_tenant')) ORDER BY 1"
    )
    return [f"The table {name} is not kept apart by tenant." for (name,) in rows if name not in NOT_ISOLATED]


def _holds() -> list[str]:
    # A table's own trigger suffices: nobody writes to a partition by its name.
    rows = execute(
        "SELECT c.relname::text FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id'"
        " WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition"
        " AND NOT a.attisdropped AND NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid"
        " AND t.tgname = 'being_moved' AND t.tgenabled = 'A') ORDER BY 1"
    )
    return [f"The table {name} is written to while its tenant is moved." for (name,) in rows]


def _owners() -> list[str]:
    rows = execute(
        "SELECT c.relname::text FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace"
        " AND c.relkind IN ('r', 'p')"
        " AND (c.relowner = current_user::regrole OR pg_has_role(current_user, c.relowner, 'MEMBER')) ORDER BY 1"
    )
    mighty = execute("SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user")
    found = [f"This role owns, or may become the owner of, {name}." for (name,) in rows]
    return [*found, *(["This role is bound by no row-level security."] if mighty and mighty[0][0] else [])]


def _functions() -> list[str]:
    rows = execute(
        "SELECT w.name FROM unnest($1::text[]) w (name) WHERE NOT EXISTS (SELECT FROM pg_proc p"
        " WHERE p.proname = w.name AND p.pronamespace = 'public'::regnamespace AND p.prosecdef"
        " AND 'search_path=pg_catalog, public, pg_temp' = ANY(p.proconfig)"
        " AND p.proowner = (SELECT relowner FROM pg_class WHERE oid = 'ledger_event'::regclass)) ORDER BY 1",
        list(ELEVATED),
    )
    return [f"The function {name} is missing, or not the owner's, or can be led astray." for (name,) in rows]
