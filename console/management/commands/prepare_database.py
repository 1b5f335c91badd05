"""Make the database ready for one release: migrate as the owner, then hand the application its rights.

Runs as the role of DATABASE_OWNER_URL and grants to the role of DATABASE_URL, on an embedded or an outside
server. It may be run again at any time: it ends with exactly the rights written here.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import connections, transaction
from django.db.utils import OperationalError
from psycopg import sql

PARTITIONS_AHEAD_MONTHS = 3

READ = ("SELECT",)
APPEND = ("SELECT", "INSERT")
CHANGE = ("SELECT", "INSERT", "UPDATE")
OWN = ("SELECT", "INSERT", "UPDATE", "DELETE")

# What the application role may do, table by table. A table that is not here stops the command, so that
# nobody gains or loses a right by forgetting. Partitions are reached through their parent only.
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
    "ledger_order": OWN,
    "ledger_unwinding": CHANGE,
    "approvals_agent": CHANGE,
    "approvals_agentversion": APPEND,
    "approvals_session": CHANGE,
    "approvals_call": APPEND,
    "approvals_approval": CHANGE,
    "approvals_vote": APPEND,
    "approvals_executor": CHANGE,
    "approvals_grant": CHANGE,
    "approvals_attempt": CHANGE,
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
    "console_user": CHANGE,
    "console_user_groups": READ,
    "console_user_user_permissions": READ,
    "console_membership": CHANGE,
    "console_apikey": CHANGE,
    "console_answeredwrite": OWN,
    "console_spentproof": OWN,
}

# Functions of ours that the application may call; trigger functions need no right to fire.
FUNCTIONS: tuple[str, ...] = ("ledger_append", "ledger_current_tenant", "ledger_lock")


class Command(BaseCommand):
    help = "Migrate as DATABASE_OWNER_URL, then give the role of DATABASE_URL exactly its rights."
    requires_system_checks = ()

    def handle(self, *args: Any, verbosity: int = 1, **options: Any) -> None:
        if "owner" not in settings.DATABASES:
            raise CommandError("Set DATABASE_OWNER_URL to the role that owns the tables.")
        role = connections["default"].settings_dict["USER"]
        try:
            check_roles(role)
        except OperationalError as error:
            raise CommandError(f"The database cannot be reached: {str(error).strip()}") from None
        call_command("migrate", database="owner", interactive=False, verbosity=max(verbosity - 1, 0))
        with transaction.atomic(using="owner"):
            ensure_partitions()
            grant(role)
        if verbosity:
            self.stdout.write(f"The database is ready for {role}.")


def rows(statement: str | sql.Composable, values: list[Any] | None = None) -> list[tuple[Any, ...]]:
    with connections["owner"].cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall() if cursor.description else []


def check_roles(role: str) -> None:
    """The fences of the ledger stand on this: the application is not, and cannot become, the owner."""
    owner = connections["owner"].settings_dict["USER"]
    found = rows(
        "SELECT rolsuper OR rolbypassrls, pg_has_role(rolname, current_user, 'MEMBER')"
        " FROM pg_roles WHERE rolname = %s",
        [role],
    )
    if not found:
        raise CommandError(f"The role {role} of DATABASE_URL does not exist.")
    mighty, member = found[0]
    if mighty or member or role == owner:
        raise CommandError(
            f"The role {role} of DATABASE_URL must be no superuser, not bypass row-level security"
            f" and not be a member of {owner}."
        )


def ensure_partitions() -> None:
    known = rows("SELECT to_regprocedure('ledger_ensure_partitions(integer)') IS NOT NULL")
    if known[0][0]:
        rows("SELECT ledger_ensure_partitions(%s)", [PARTITIONS_AHEAD_MONTHS])


def grant(role: str) -> None:
    """Take everything back, then give what the lists say, in the caller's transaction."""
    tables: dict[str, bool] = dict(
        rows(
            "SELECT relname, relispartition FROM pg_class"
            " WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'f')"
            " AND relowner = current_user::regrole"
        )
    )
    unlisted = sorted(name for name, partition in tables.items() if not partition and name not in TABLES)
    if unlisted:
        raise CommandError(f"No rights are written down for {', '.join(unlisted)}: add to TABLES.")
    app = sql.Identifier(role)
    for name in tables:
        rows(sql.SQL("REVOKE ALL ON TABLE {} FROM PUBLIC, {}").format(sql.Identifier(name), app))
    for name, rights in TABLES.items():
        if name in tables:
            listed = sql.SQL(", ").join(sql.SQL(right) for right in rights)
            rows(sql.SQL("GRANT {} ON TABLE {} TO {}").format(listed, sql.Identifier(name), app))
    grant_functions(app)
    grant_places(app)


def grant_functions(app: sql.Identifier) -> None:
    own = rows(
        "SELECT oid::regprocedure::text, proname FROM pg_proc"
        " WHERE pronamespace = 'public'::regnamespace AND proowner = current_user::regrole"
    )
    missing = sorted(set(FUNCTIONS) - {name for _, name in own})
    if missing:
        raise CommandError(f"The functions {', '.join(missing)} are listed and do not exist.")
    for signature, name in own:
        function = sql.SQL(signature)
        rows(sql.SQL("REVOKE ALL ON FUNCTION {} FROM PUBLIC, {}").format(function, app))
        if name in FUNCTIONS:
            rows(sql.SQL("GRANT EXECUTE ON FUNCTION {} TO {}").format(function, app))


def grant_places(app: sql.Identifier) -> None:
    database = sql.Identifier(connections["owner"].settings_dict["NAME"])
    rows(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC, {}").format(database, app))
    rows(sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(database, app))
    rows(sql.SQL("REVOKE ALL ON SCHEMA public FROM PUBLIC, {}").format(app))
    rows(sql.SQL("GRANT USAGE ON SCHEMA public TO {}").format(app))
    for kind in ("TABLES", "SEQUENCES", "FUNCTIONS"):
        rows(
            sql.SQL("ALTER DEFAULT PRIVILEGES REVOKE ALL ON {} FROM PUBLIC, {}").format(
                sql.SQL(kind),
                app,
            )
        )
