"""What each role of the database may do, table by table. `prepare_database` grants exactly this.

A table that the application's list does not name stops the command, so that nobody gains or loses a right by
forgetting. Partitions are reached through their parent only. The owner's own rights are nobody's business here: no
process that runs all day signs in as it.
"""

from __future__ import annotations

from dataclasses import dataclass

READ = ("SELECT",)
APPEND = ("SELECT", "INSERT")
CHANGE = ("SELECT", "INSERT", "UPDATE")
OWN = ("SELECT", "INSERT", "UPDATE", "DELETE")

TABLES: dict[str, tuple[str, ...]] = {
    "django_migrations": READ,
    "django_content_type": READ,
    "auth_permission": READ,
    "auth_group": READ,
    "auth_group_permissions": READ,
    "django_session": OWN,
    "axes_accessattempt": OWN,
    "axes_accessattemptexpiration": OWN,
    "axes_accessfailurelog": OWN,
    "axes_accesslog": OWN,
    # Signing in, as allauth keeps it. Providers are settings, and no token of theirs is kept.
    "account_emailaddress": CHANGE,
    "account_emailconfirmation": READ,
    "mfa_authenticator": OWN,
    "usersessions_usersession": OWN,
    "socialaccount_socialaccount": OWN,
    "socialaccount_socialapp": READ,
    "socialaccount_socialtoken": READ,
    "console_cache": OWN,
    # The record is read here and written by ledger_append alone.
    "ledger_subject": READ,
    "ledger_event": READ,
    "ledger_entry": READ,
    "ledger_action": READ,
    "ledger_transition": READ,
    "ledger_tenant": APPEND,
    "ledger_evidence": APPEND,
    "ledger_subjectkey": APPEND,
    "ledger_contractversion": APPEND,
    "ledger_policyversion": CHANGE,
    "ledger_system": CHANGE,
    "ledger_freeze": CHANGE,
    "ledger_idempotency": CHANGE,
    # The log is read here and written by the sequencer alone; what outsiders gave for it is added here.
    "ledger_pending": READ,
    "ledger_log": READ,
    "ledger_leaf": READ,
    "ledger_tile": READ,
    "ledger_tip": READ,
    "ledger_checkpoint": READ,
    "ledger_anchor": APPEND,
    "ledger_anchoring": CHANGE,
    "ledger_alarm": CHANGE,
    "ledger_integritycheck": CHANGE,
    # What is erased, held and kept is decided here and done by the eraser.
    "ledger_erasure": CHANGE,
    "ledger_erased": READ,
    "ledger_hold": CHANGE,
    "ledger_retention": CHANGE,
    "ledger_blank": READ,
    "ledger_export": CHANGE,
    "ledger_order": OWN,
    "ledger_unwinding": CHANGE,
    "approvals_agent": CHANGE,
    "approvals_agentversion": APPEND,
    "approvals_session": CHANGE,
    "approvals_spending": CHANGE,
    "approvals_call": APPEND,
    "approvals_approval": CHANGE,
    "approvals_vote": APPEND,
    "approvals_approver": CHANGE,
    "approvals_approverkey": CHANGE,
    "approvals_challenge": OWN,
    "approvals_delegation": CHANGE,
    "approvals_absence": CHANGE,
    "approvals_comment": APPEND,
    "approvals_emergency": CHANGE,
    "approvals_executor": CHANGE,
    "approvals_grant": CHANGE,
    "approvals_attempt": CHANGE,
    "approvals_attention": OWN,
    "approvals_due": OWN,
    "reviews_observation": APPEND,
    "reviews_schedule": OWN,
    "reviews_lane": CHANGE,
    "reviews_health": CHANGE,
    "reviews_readingcount": OWN,
    "reviews_readingtotal": CHANGE,
    "reviews_hook": CHANGE,
    "reviews_hookdelivery": OWN,
    "reviews_run": APPEND,
    "reviews_case": CHANGE,
    "reviews_watch": CHANGE,
    "reviews_stray": APPEND,
    "reviews_comment": APPEND,
    "reviews_incident": CHANGE,
    "reviews_incidentlink": APPEND,
    "reviews_batch": CHANGE,
    "reviews_batchitem": CHANGE,
    "reviews_report": APPEND,
    "reviews_guardverdict": APPEND,
    "console_user": CHANGE,
    "console_user_groups": READ,
    "console_user_user_permissions": READ,
    "console_membership": CHANGE,
    "console_apikey": CHANGE,
    "console_answeredwrite": OWN,
    "console_spentproof": OWN,
    "console_sighting": APPEND,
    "console_notice": OWN,
    "console_message": OWN,
    "console_noticesettings": CHANGE,
    "console_noticewish": CHANGE,
    "console_noticecursor": CHANGE,
    "console_savedview": OWN,
    "console_recording": APPEND,
    "console_recordedconversation": APPEND,
    "console_recordedmessage": APPEND,
    "console_recordedword": APPEND,
}

# Functions of ours that the application may call; trigger functions need no right to fire.
FUNCTIONS: tuple[str, ...] = ("ledger_append", "ledger_current_tenant", "ledger_lock")
APP_FUNCTIONS: tuple[str, ...] = (*FUNCTIONS, "ledger_enter", "ledger_take_turn")

# The sequencer reads events and gives each its place. It may append to the record, since what happens to a log
# (opened, key rotated, restored) is an event; it reads no payload, no evidence and nothing of people.
SEQUENCER_TABLES: dict[str, tuple[str, ...]] = {
    "django_migrations": READ,
    "ledger_tenant": ("SELECT", "UPDATE (origin)"),
    "ledger_subject": READ,
    "ledger_event": READ,
    "ledger_transition": READ,
    "ledger_pending": ("SELECT", "DELETE"),
    "ledger_log": APPEND,
    "ledger_leaf": APPEND,
    "ledger_tile": CHANGE,
    "ledger_tip": CHANGE,
    "ledger_checkpoint": APPEND,
    "ledger_anchor": READ,
    "ledger_alarm": APPEND,
}


@dataclass(frozen=True)
class RoleRights:
    """What one role may do with tables, and which of our functions it may call."""

    tables: dict[str, tuple[str, ...]]
    functions: tuple[str, ...]


# The eraser sees which requests are confirmed, and does what they say through functions that look for themselves. It
# reads no event, no entry and no evidence, and can write no event but those that say what it did.
ERASER_TABLES: dict[str, tuple[str, ...]] = {
    "django_migrations": READ,
    "ledger_tenant": READ,
    "ledger_erasure": ("SELECT (tenant_id, id, state, begun_at)",),
}
ERASER_FUNCTIONS: tuple[str, ...] = (
    "ledger_current_tenant",
    "ledger_begin_erasure",
    "ledger_erase",
    "ledger_keys_to_destroy",
    "ledger_keys_destroyed",
    "ledger_erasure_head",
    "ledger_tell_erasure",
)

# The auditor reads the record of the tenant that it names, its log and what people decided in it. No payload, no
# evidence, no key, nobody's name, and nothing at all to write.
AUDITOR_TABLES: dict[str, tuple[str, ...]] = dict.fromkeys(
    (
        "django_migrations",
        "ledger_tenant",
        "ledger_subject",
        "ledger_event",
        "ledger_entry",
        "ledger_action",
        "ledger_transition",
        "ledger_contractversion",
        "ledger_policyversion",
        "ledger_freeze",
        "ledger_log",
        "ledger_leaf",
        "ledger_tile",
        "ledger_tip",
        "ledger_checkpoint",
        "ledger_anchor",
        "ledger_alarm",
        "ledger_erasure",
        "ledger_erased",
        "ledger_hold",
        "ledger_retention",
    ),
    READ,
)

APP_RIGHTS = RoleRights(TABLES, APP_FUNCTIONS)
SEQUENCER_RIGHTS = RoleRights(SEQUENCER_TABLES, FUNCTIONS)
ERASER_RIGHTS = RoleRights(ERASER_TABLES, ERASER_FUNCTIONS)
AUDITOR_RIGHTS = RoleRights(AUDITOR_TABLES, ("ledger_current_tenant",))
