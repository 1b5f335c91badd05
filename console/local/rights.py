"""The rights of each database role, table by table. `prepare_database` grants exactly these.

A table that the application's list does not name stops the command, so that nobody gains or loses a right by
forgetting. Partitions are reached through their parent only. The owner's own rights are not covered here: no process
that runs all day signs in as it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

import psycopg
from django.conf import settings
from django.core.management.base import CommandError
from psycopg import sql

from console.local.lock_waits import GIVE_UP_AFTER_S, change_in_short_waits
from ledger import keystore

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
    # Read by ledger_search alone.
    "ledger_actionsearch": (),
    "ledger_tenant": APPEND,
    "ledger_evidence": APPEND,
    "ledger_subjectkey": APPEND,
    "ledger_contractversion": APPEND,
    "ledger_policyversion": CHANGE,
    "ledger_release": CHANGE,
    "ledger_releasegate": APPEND,
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
    "ledger_epoch": READ,
    "ledger_processlease": CHANGE,
    "ledger_wrongclock": CHANGE,
    "ledger_taskrun": OWN,
    "ledger_maintenance": CHANGE,
    "ledger_unwinding": CHANGE,
    "approvals_agent": CHANGE,
    "approvals_agentversion": APPEND,
    "approvals_session": CHANGE,
    "approvals_modelusage": APPEND,
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
    "approvals_standingapproval": CHANGE,
    "approvals_standingpass": APPEND,
    "approvals_executor": CHANGE,
    "approvals_startoverride": CHANGE,
    "approvals_grant": CHANGE,
    "approvals_grantkeychange": APPEND,
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
    "reviews_claim": CHANGE,
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
    "console_pushdevice": OWN,
    "console_noticecursor": CHANGE,
    "console_price": CHANGE,
    "console_costbudget": CHANGE,
    "console_tracecursor": OWN,
    "console_eventdestination": CHANGE,
    # Figures that follow from the record and are made anew.
    "console_metricaction": OWN,
    "console_metricrollup": OWN,
    "console_metricdelay": OWN,
    "console_metriccursor": CHANGE,
    "console_searchterm": OWN,
    "console_searchcursor": CHANGE,
    "console_alertrule": CHANGE,
    "console_alert": CHANGE,
    "console_savedview": OWN,
    "console_recording": APPEND,
    "console_recordedconversation": APPEND,
    "console_recordedmessage": APPEND,
    "console_recordedword": APPEND,
}

# Functions of ours that the application may call; trigger functions need no right to fire.
TENANT_FUNCTIONS: tuple[str, ...] = ("ledger_current_tenant", "ledger_own_tenant", "ledger_refuse_tenant")
FUNCTIONS: tuple[str, ...] = ("ledger_append", "ledger_lock", *TENANT_FUNCTIONS)
APP_FUNCTIONS: tuple[str, ...] = (
    *(*FUNCTIONS, "ledger_enter", "ledger_pass_gate", "ledger_lock_versions", "ledger_take_turn"),
    # What the triggers of releases ask.
    *("ledger_red_gates", "ledger_verified_parts", "ledger_person", "ledger_two_people", "ledger_imports"),
    *("ledger_search", "ledger_search_fault", "approvals_lock_release", "ledger_count_concerns"),
    # Which tenants have work.
    *("ledger_survey", "approvals_survey", "reviews_survey", "console_survey", "ledger_uuid_from"),
)

# The sequencer reads events and gives each its place. It may append to the record, since what happens to a log
# (opened, key rotated, restored) is an event; it reads no payload, no evidence and nothing of people.
SEQUENCER_TABLES: dict[str, tuple[str, ...]] = {
    "django_migrations": READ,
    "ledger_tenant": ("SELECT", "UPDATE (origin, epoch, restored_at, moving)"),
    "ledger_epoch": CHANGE,
    "ledger_subject": READ,
    "ledger_event": READ,
    "ledger_pending": ("SELECT", "DELETE"),
    "ledger_log": APPEND,
    "ledger_leaf": APPEND,
    "ledger_tile": CHANGE,
    "ledger_tip": CHANGE,
    "ledger_checkpoint": APPEND,
    "ledger_anchor": READ,
    "ledger_alarm": APPEND,
    # When the leader was last seen.
    "ledger_processlease": CHANGE,
}


@dataclass(frozen=True)
class RoleRights:
    """The rights of one role on tables, and the functions of ours that it may call."""

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
    *TENANT_FUNCTIONS,
    "ledger_survey",
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
SEQUENCER_RIGHTS = RoleRights(SEQUENCER_TABLES, (*FUNCTIONS, "ledger_learn_sizes", "ledger_survey"))
ERASER_RIGHTS = RoleRights(ERASER_TABLES, ERASER_FUNCTIONS)
AUDITOR_RIGHTS = RoleRights(AUDITOR_TABLES, ("ledger_current_tenant",))

KEY_TABLES: dict[str, tuple[str, str]] = {
    "data_key": ("SELECT, INSERT", "SELECT (id), DELETE"),
    "retired_grant_key": ("SELECT, INSERT", ""),
}
"""The tables of the key database, and what the application and the eraser may do with each."""


def prepare_key_database(*, say: Callable[[str], object] = lambda _: None, wait_s: float = GIVE_UP_AFTER_S) -> None:
    """Create the tables of the key database and set their rights; existing keys are left alone.

    The application creates and reads keys, the eraser destroys them, and nobody changes one. Neither can do the other's
    work: whoever takes over the application cannot destroy a key, and the eraser never sees one.
    """
    with _owner() as connection:
        roles = (_app(), settings.COUNTERFOIL_ERASER_ROLE)
        for role in roles:
            _check(connection, role)
        change_in_short_waits(connection, lambda: _set_up(connection, roles), say=say, give_up_after_s=wait_s)


def _set_up(connection: psycopg.Connection, roles: tuple[str, str]) -> None:
    with connection.transaction():
        connection.execute(keystore.TABLES)
        _close_places(connection)
        for place, role in enumerate(roles):
            name = sql.Identifier(role)
            for table, may in KEY_TABLES.items():
                on = sql.Identifier(table)
                connection.execute(sql.SQL("REVOKE ALL ON TABLE {} FROM {}").format(on, name))
                if may[place]:
                    connection.execute(sql.SQL("GRANT {} ON TABLE {} TO {}").format(sql.SQL(may[place]), on, name))
            connection.execute(sql.SQL("GRANT USAGE ON SCHEMA public TO {}").format(name))
            database = sql.Identifier(connection.info.dbname)
            connection.execute(sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(database, name))


def _app() -> str:
    return unquote(urlsplit(settings.KEYS_DATABASE_URL).username or "")


@contextmanager
def _owner() -> Iterator[psycopg.Connection]:
    if not settings.KEYS_DATABASE_URL or not settings.KEYS_DATABASE_OWNER_URL:
        raise CommandError(
            "Set KEYS_DATABASE_URL and KEYS_DATABASE_OWNER_URL to the database of the keys; see docs/deploy.md."
        )
    try:
        with psycopg.connect(settings.KEYS_DATABASE_OWNER_URL, autocommit=True) as connection:
            yield connection
    except psycopg.OperationalError as error:
        raise CommandError(f"The key database cannot be reached: {str(error).strip()}") from None


def _check(connection: psycopg.Connection, role: str) -> None:
    found = connection.execute(
        "SELECT rolsuper OR rolbypassrls OR pg_has_role(rolname, current_user, 'MEMBER')"
        " FROM pg_roles WHERE rolname = %s",
        [role],
    ).fetchone()
    if found is None:
        raise CommandError(f"The role {role} does not exist on the server of the keys; see docs/deploy.md.")
    if found[0]:
        raise CommandError(f"The role {role} must be no superuser and no member of the owner of the key database.")


def _close_places(connection: psycopg.Connection) -> None:
    for table in KEY_TABLES:
        connection.execute(sql.SQL("REVOKE ALL ON TABLE {} FROM PUBLIC").format(sql.Identifier(table)))
    connection.execute("REVOKE ALL ON FUNCTION data_key_stays(), retired_grant_key_stays() FROM PUBLIC")
    connection.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC")
    connection.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(sql.Identifier(connection.info.dbname)))
