"""Checks of an installation beside its status: roles, rights, key files, folders, connections, servers.

`manage.py doctor` runs them, with what `/statusz` tells. A web process does not: they take longer, and what they find
is wrong until somebody changes it. A thing that cannot be seen from here is not known, never in order.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import psycopg
import redis
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, connection, transaction

from approvals.agents import queries as agents
from approvals.agents.operations.registry_entry import is_sealed
from approvals.execution.operations import grant_keys
from console.brokers.addresses import OVER_TLS
from console.local.keys import KEY_FILES, LOG_KEY, PUSH_KEY
from console.local.rights import APP_RIGHTS, AUDITOR_RIGHTS, ERASER_RIGHTS, KEY_TABLES, SEQUENCER_RIGHTS
from console.telemetry.health import Check, look_at_installation
from ledger import keystore
from ledger.db import execute, tenancy
from ledger.record.queries import events
from ledger.record.rules.refusals import Refused

logger = logging.getLogger(__name__)
TITLES: Final = {
    "ROLES": "Roles of the database",
    "RIGHTS": "Rights of the roles",
    "KEY_RIGHTS": "Rights in the key database",
    "KEY_FILES": "Keys against the database",
    "FOLDERS": "Folders and key files",
    "TLS": "Connections",
    "SERVER": "Settings of the server",
    "REPLICATION": "Replication",
    "BROKER_POLICY": "Settings of the broker",
}
"""Every code beside those of the status, and what it is about; docs/commands.md has a remedy for each."""
WORDS: Final = {"in_order": "ok", "failed": "fails", "unknown": "not known"}
KEYS_TRIED: Final = 1_000
MOST_NAMED: Final = 5
_PREPARE: Final = "Run `manage.py prepare_database`."
_PRIVILEGES: Final = ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER")
_COLUMN: Final = re.compile(r"(\w+) \((.+)\)")
_ENCRYPTED: Final = OVER_TLS | {"unix"}
_HERE: Final = ("", "localhost", "127.0.0.1", "::1")


def examine(*, at: datetime) -> list[Check]:
    """The status of the installation and every check of `TITLES`, in that order."""
    found = look_at_installation().checks
    whole = all(check.in_order for check in found if check.code in ("DATABASE", "MIGRATIONS"))
    for code, look in _LOOKS.items():
        if code in _FROM_DATABASE and not whole:
            found.append(_check(code, None, "Not known while the database is not in order."))
            continue
        try:
            with transaction.atomic():
                found += look(at)
        except (DatabaseError, psycopg.Error, OSError, ValueError, ImproperlyConfigured, Refused) as problem:
            logger.debug("a check could not be made", exc_info=problem)
            found.append(
                _check(code, None, f"Not known: {str(problem).strip().splitlines()[0] or type(problem).__name__}")
            )
    return found


def _check(code: str, in_order: bool | None, detail: str) -> Check:
    return Check(code, in_order, detail, page="commands")


def _list_faults(faults: Iterable[str]) -> str:
    """The first of these faults, and how many more there are."""
    listed = list(faults)
    more = f" and {len(listed) - MOST_NAMED} more" if len(listed) > MOST_NAMED else ""
    return "; ".join(listed[:MOST_NAMED]) + more


# Roles and rights


def _roles() -> dict[str, tuple[dict[str, tuple[str, ...]], tuple[str, ...]]]:
    """The tables and functions of each role, as `prepare_database` grants them."""
    app = connection.settings_dict["USER"]
    rights = {
        app: APP_RIGHTS,
        settings.COUNTERFOIL_SEQUENCER_ROLE: SEQUENCER_RIGHTS,
        settings.COUNTERFOIL_ERASER_ROLE: ERASER_RIGHTS,
        settings.COUNTERFOIL_AUDITOR_ROLE: AUDITOR_RIGHTS,
    }
    return {role: (each.tables, each.functions) for role, each in rights.items()}


def _look_at_roles(_: datetime) -> Iterator[Check]:
    known = {
        role: (mighty, owns)
        for role, mighty, owns in execute(
            "SELECT rolname::text, rolsuper OR rolbypassrls OR rolcreaterole, pg_has_role(rolname,"
            " (SELECT relowner FROM pg_class WHERE oid = 'ledger_event'::regclass), 'MEMBER')"
            " FROM pg_roles WHERE rolname = ANY($1)",
            list(_roles()),
        )
    }
    faults = [f"{role} does not exist" for role in _roles() if role not in known]
    faults += [f"{role} is mightier than it may be" for role, (mighty, _) in known.items() if mighty]
    faults += [f"{role} owns the tables or can become their owner" for role, (_, owns) in known.items() if owns]
    if faults:
        yield _check("ROLES", False, f"{_list_faults(faults)}. Set the roles up as deploy/postgresql.sql does.")
    else:
        yield _check("ROLES", True, "None is a superuser, passes row-level security or can become the owner.")


_TABLE_RIGHTS: Final = """
SELECT r.role, c.relname::text || '.' || p.word FROM pg_class c CROSS JOIN unnest($1::text[]) r (role)
CROSS JOIN unnest($2::text[]) p (word) WHERE c.relnamespace = 'public'::regnamespace
    AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND has_table_privilege(r.role, c.oid, p.word)
"""
_COLUMN_RIGHTS: Final = """
SELECT r.role, c.relname::text || '.' || p.word || '.' || a.attname FROM pg_class c
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
CROSS JOIN unnest($1::text[]) r (role) CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE']) p (word)
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND a.attacl IS NOT NULL
    AND has_column_privilege(r.role, c.oid, a.attnum, p.word) AND NOT has_table_privilege(r.role, c.oid, p.word)
"""
_FUNCTION_RIGHTS: Final = """
SELECT r.role, 'function ' || p.proname FROM pg_proc p CROSS JOIN unnest($1::text[]) r (role)
WHERE p.pronamespace = 'public'::regnamespace AND has_function_privilege(r.role, p.oid, 'EXECUTE')
    AND p.proowner = (SELECT relowner FROM pg_class WHERE oid = 'ledger_event'::regclass)
"""


def _look_at_rights(_: datetime) -> Iterator[Check]:
    roles = _roles()
    known = [role for (role,) in execute("SELECT rolname::text FROM pg_roles WHERE rolname = ANY($1)", list(roles))]
    granted = {
        *execute(_TABLE_RIGHTS, known, list(_PRIVILEGES)),
        *execute(_COLUMN_RIGHTS, known),
        *execute(_FUNCTION_RIGHTS, known),
    }
    wanted = {
        (role, right)
        for role in known
        for right in (
            *(each for table, words in roles[role][0].items() for word in words for each in _spelled_out(table, word)),
            *(f"function {name}" for name in roles[role][1]),
        )
    }
    faults = [f"{role} has {right}, which it may not" for role, right in sorted(granted - wanted)]
    faults += [f"{role} lacks {right}" for role, right in sorted(wanted - granted)]
    if faults:
        yield _check("RIGHTS", False, f"{_list_faults(faults)}. {_PREPARE}")
    else:
        yield _check("RIGHTS", True, f"Each of {len(known)} roles has exactly its rights.")


def _spelled_out(table: str, word: str) -> list[str]:
    """A right on a table, or those on the columns that it names."""
    columns = _COLUMN.fullmatch(word)
    if columns is None:
        return [f"{table}.{word}"]
    return [f"{table}.{columns[1]}.{name.strip()}" for name in columns[2].split(",")]


_KEY_TABLE_RIGHTS: Final = """
SELECT c.relname::text || '.' || p.word FROM pg_class c CROSS JOIN unnest(%(words)s::text[]) p (word)
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND has_table_privilege(%(role)s, c.oid, p.word)
"""
_KEY_COLUMN_RIGHTS: Final = """
SELECT c.relname::text || '.' || p.word || '.' || a.attname FROM pg_class c
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE']) p (word)
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r'
    AND has_column_privilege(%(role)s, c.oid, a.attnum, p.word) AND NOT has_table_privilege(%(role)s, c.oid, p.word)
"""


def _look_at_key_rights(_: datetime) -> Iterator[Check]:
    with psycopg.connect(settings.KEYS_DATABASE_URL) as keys:
        faults = []
        for place, role in enumerate((keys.info.user, settings.COUNTERFOIL_ERASER_ROLE)):
            wanted = {
                right
                for table, may in KEY_TABLES.items()
                for word in re.findall(r"\w+(?: \(\w+\))?", may[place])
                for right in _spelled_out(table, word)
            }
            found = {
                right
                for statement in (_KEY_TABLE_RIGHTS, _KEY_COLUMN_RIGHTS)
                for (right,) in keys.execute(statement, {"role": role, "words": list(_PRIVILEGES)})
            }
            faults += [f"{role} has {right}, which it may not" for right in sorted(found - wanted)]
            faults += [f"{role} lacks {right}" for right in sorted(wanted - found)]
        if faults:
            yield _check("KEY_RIGHTS", False, f"{_list_faults(faults)}. {_PREPARE}")
        else:
            yield _check("KEY_RIGHTS", True, "The application cannot destroy a key, and the eraser cannot read one.")


# Keys and folders


def _look_at_key_files(at: datetime) -> Iterator[Check]:
    tried, unopened = keystore.count_unopened_keys(limit=KEYS_TRIED)
    faults = [f"{unopened} of {tried} keys of payloads open under no key of the file kek"] if unopened else []
    for tenant in events.tenants():
        with tenancy(tenant.id):
            altered = [each.agent_id for each in agents.registrations_in_force(tenant.id) if not is_sealed(each)]
        faults += [f"{tenant.slug}: the registration of {name} matches no key of registry_key" for name in altered]
    remedy = " Find the file that belongs to this database." if faults else ""
    try:
        faults += grant_keys.directory_faults(at)
    except (OSError, ValueError) as problem:
        faults.append(f"no grant can be signed: {problem}")
    if faults:
        yield _check("KEY_FILES", False, f"{_list_faults(faults)}.{remedy}")
    elif not tried:
        yield _check("KEY_FILES", None, "Not known: no key of a payload is stored yet.")
    else:
        yield _check(
            "KEY_FILES", True, f"{tried} stored keys were tried; they, all registrations and grants fit the files."
        )


def _look_at_folders(_: datetime) -> Iterator[Check]:
    secrets = Path(settings.COUNTERFOIL_SECRETS_DIR)
    faults = [f"{secrets} can be entered by others: chmod 700 it"] if secrets.stat().st_mode & 0o077 else []
    names = [secrets / name for name in (*KEY_FILES, LOG_KEY, PUSH_KEY)]
    files = [*names, *secrets.glob("systems/**/*.json"), *secrets.glob("grant_keys/*.pem")]
    faults += [
        f"{file} can be read by others: chmod 600 it" for file in files if file.exists() and file.stat().st_mode & 0o077
    ]
    log_key = Path(settings.COUNTERFOIL_LOG_KEY)
    if log_key.exists():
        try:
            load_pem_private_key(log_key.read_bytes(), password=None)
        except (OSError, ValueError):
            faults.append(f"{log_key} is no key of a log")
    exports = Path(settings.COUNTERFOIL_EXPORTS)
    place = next(each for each in (exports, *exports.parents) if each.exists())
    if not os.access(place, os.W_OK | os.X_OK):
        faults.append(f"{exports} cannot be written, so no export is made")
    if faults:
        yield _check("FOLDERS", False, f"{_list_faults(faults)}.")
    else:
        yield _check("FOLDERS", True, "Key files are closed to others, and exports can be written.")


# Connections and servers


def _look_at_connections(_: datetime) -> Iterator[Check]:
    faults = []
    connection.ensure_connection()
    lines = {"DATABASE_URL": connection.connection}
    with psycopg.connect(settings.KEYS_DATABASE_URL) as keys:
        lines["KEYS_DATABASE_URL"] = keys
        for name, line in lines.items():
            mode = line.info.get_parameters().get("sslmode", "prefer")
            if line.info.host in _HERE or line.info.host.startswith("/"):
                continue
            if not line.pgconn.ssl_in_use:
                faults.append(f"{name} is not encrypted: add sslmode=verify-full and sslrootcert")
            elif mode != "verify-full":
                faults.append(f"{name} believes any server (sslmode={mode}): use sslmode=verify-full and sslrootcert")
    for name, address in {"REDIS_URL": settings.REDIS_URL, "BROKER_URL": settings.BROKER_URL}.items():
        if name == "BROKER_URL" and address == settings.REDIS_URL:
            continue
        parts = urlsplit(address)
        if parts.scheme not in _ENCRYPTED and (parts.hostname or "") not in _HERE:
            faults.append(f"{name} is not encrypted: use rediss:// or amqps://")
        if "cert_reqs=none" in parts.query.lower():
            faults.append(f"{name} believes any server: leave out that it need not prove its name")
    if faults:
        yield _check("TLS", False, f"{_list_faults(faults)}.")
    else:
        yield _check(
            "TLS", True, "Each connection stays on this host, or is encrypted to a server that proves its name."
        )


def _look_at_server(_: datetime) -> Iterator[Check]:
    [(version, fsync, pages, commit)] = execute(
        "SELECT current_setting('server_version_num')::int, current_setting('fsync'),"
        " current_setting('full_page_writes'), current_setting('synchronous_commit')"
    )
    faults = [] if 150_000 <= version < 190_000 else [f"PostgreSQL {version // 10_000} is none of 15 to 18"]
    settings_off = {"fsync": fsync, "full_page_writes": pages, "synchronous_commit": commit}
    faults += [
        f"{name} is off: a crash loses what was answered" for name, value in settings_off.items() if value == "off"
    ]
    if faults:
        yield _check("SERVER", False, f"{_list_faults(faults)}.")
    else:
        yield _check("SERVER", True, f"PostgreSQL {version // 10_000} keeps what it has committed.")


def _look_at_replication(_: datetime) -> Iterator[Check]:
    [(names, standbys, confirming, told)] = execute(
        "SELECT current_setting('synchronous_standby_names'), count(s.pid),"
        " count(*) FILTER (WHERE s.sync_state IN ('sync', 'quorum')), bool_or(s.sync_state IS NOT NULL)"
        " FROM (SELECT) one LEFT JOIN pg_stat_replication s ON true"
    )
    if not names:
        told = "Not known: no standby has to confirm a commit, so a failover may lose some (docs/failover.md)."
        yield _check("REPLICATION", None, told)
    elif not standbys:
        yield _check("REPLICATION", False, "Commits wait for a standby, and none is connected.")
    elif not told:
        yield _check("REPLICATION", None, "Not known: a standby is connected, and this role may not see its state.")
    else:
        detail = f"{confirming} of {standbys} standbys confirm commits."
        yield _check("REPLICATION", confirming > 0, detail)


def _look_at_broker(_: datetime) -> Iterator[Check]:
    if urlsplit(settings.BROKER_URL).scheme not in ("redis", "rediss", "unix"):
        yield _check("BROKER_POLICY", None, "Not known: this broker does not tell its settings here.")
        return
    try:
        with redis.Redis.from_url(settings.BROKER_URL, socket_timeout=2, socket_connect_timeout=2) as client:
            told = client.info("everything")
    except redis.RedisError as problem:
        yield _check("BROKER_POLICY", None, f"Not known: {problem}")
        return
    policy, append_only = told.get("maxmemory_policy"), told.get("aof_enabled")
    faults = []
    if policy not in (None, "noeviction"):
        faults.append(f"maxmemory-policy is {policy}, so it forgets messages: set noeviction")
    if append_only == 0:
        faults.append("it is not persistent: set appendonly yes")
    if faults:
        yield _check("BROKER_POLICY", False, f"{_list_faults(faults)}.")
    elif policy is None or append_only is None:
        yield _check("BROKER_POLICY", None, "Not known: the broker does not tell its settings to this account.")
    else:
        yield _check("BROKER_POLICY", True, "It is persistent and evicts nothing.")


_LOOKS: Final[dict[str, Callable[[datetime], Iterator[Check]]]] = {
    "ROLES": _look_at_roles,
    "RIGHTS": _look_at_rights,
    "KEY_RIGHTS": _look_at_key_rights,
    "KEY_FILES": _look_at_key_files,
    "FOLDERS": _look_at_folders,
    "TLS": _look_at_connections,
    "SERVER": _look_at_server,
    "REPLICATION": _look_at_replication,
    "BROKER_POLICY": _look_at_broker,
}
_FROM_DATABASE: Final = ("ROLES", "RIGHTS", "KEY_FILES", "TLS", "SERVER", "REPLICATION")


def lines(checks: Iterable[Check]) -> list[str]:
    """A line for each check: its state, its code, what was found, and where its remedy stands."""
    return [
        f"{WORDS[each.state]:<9}  {each.code:<13}  {each.detail}{'' if each.in_order else f' See {each.runbook}'}"
        for each in checks
    ]


def document(checks: Iterable[Check]) -> dict[str, Any]:
    """The findings as a document."""
    return {
        "checks": [
            {"code": each.code, "state": WORDS[each.state], "detail": each.detail, "see": each.runbook}
            for each in checks
        ]
    }


def exit_code(checks: Iterable[Check]) -> int:
    """1 if a check fails, else 3 if one is not known, else 0."""
    states = {each.state for each in checks}
    return 1 if "failed" in states else 3 if "unknown" in states else 0
