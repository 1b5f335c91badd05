"""The doctor finds damage to roles, rights, keys, folders and servers, and says what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.utils import timezone
from psycopg import sql

from console.installation import doctor
from console.local import servers
from console.telemetry import health
from ledger import keystore
from tests.support.callers import found

COMMANDS = Path(__file__).parents[3] / "docs" / "commands.md"


@pytest.fixture
def examined(committed_db: Any, own_keys: str, secrets_dir: Path, broker: Any, settings: Any) -> Any:
    """Looks at a sound installation, or at what a test has made of it."""
    settings.REDIS_URL = settings.BROKER_URL = broker.url()
    found("orchid")
    keystore.new_key()

    def look(code: str) -> tuple[str, str]:
        keystore.clear_cache()
        [check] = [each for each in doctor.examine(at=timezone.now()) if each.code == code]
        return check.state, check.detail

    return look


@pytest.mark.parametrize("code", ["ROLES", "RIGHTS", "KEY_RIGHTS", "KEY_FILES", "FOLDERS", "TLS"])
def test_a_sound_installation_passes(examined, code):
    assert examined(code)[0] == "in_order", examined(code)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (f"GRANT UPDATE ON ledger_event TO {servers.APP}", f"{servers.APP} has ledger_event.UPDATE, which it may not"),
        (
            f"GRANT UPDATE (origin) ON ledger_tenant TO {servers.APP}",
            f"{servers.APP} has ledger_tenant.UPDATE.origin, which it may not",
        ),
        (f"REVOKE SELECT ON ledger_tip FROM {servers.SEQUENCER}", f"{servers.SEQUENCER} lacks ledger_tip.SELECT"),
        (
            f"GRANT EXECUTE ON FUNCTION ledger_append TO {servers.AUDITOR}",
            f"{servers.AUDITOR} has function ledger_append, which it may not",
        ),
    ],
)
def test_a_right_too_many_or_too_few_is_named(examined, owner_connection: psycopg.Connection, damage, told):
    owner_connection.execute(sql.SQL(damage))
    assert examined("RIGHTS") == ("failed", f"{told}. Run `manage.py prepare_database`.")


def test_a_role_that_is_missing_or_owns_the_tables_is_named(examined, settings):
    settings.COUNTERFOIL_AUDITOR_ROLE, settings.COUNTERFOIL_ERASER_ROLE = "counterfoil_nobody", servers.OWNER
    state, told = examined("ROLES")
    assert state == "failed"
    assert told.startswith(
        f"counterfoil_nobody does not exist; {servers.OWNER} owns the tables or can become their owner."
    )


def test_keys_of_another_installation_are_found(examined, secrets_dir):
    (secrets_dir / "kek").write_text("ab" * 32)
    state, told = examined("KEY_FILES")
    assert state == "failed"
    assert "open under no key of the file kek. Find the file that belongs to this database." in told


def test_a_key_file_that_others_can_read_is_found(examined, secrets_dir):
    (secrets_dir / "kek").chmod(0o640)
    assert examined("FOLDERS") == ("failed", f"{secrets_dir}/kek can be read by others: chmod 600 it.")


def test_connections_that_cross_the_network_in_clear_are_found_before_they_are_made(examined, settings):
    settings.REDIS_URL = "redis://broker.example.org:6379/0"
    assert examined("TLS") == ("failed", "REDIS_URL is not encrypted: use rediss:// or amqps://.")


def test_a_broker_that_keeps_nothing_fails_and_one_that_is_away_is_not_known(examined, settings):
    assert examined("BROKER_POLICY") == ("failed", "it is not persistent: set appendonly yes.")
    settings.BROKER_URL = "redis://127.0.0.1:1/0"
    assert examined("BROKER_POLICY")[0] == "unknown"


def test_a_server_that_may_lose_commits_fails(examined):
    """As the one of the tests does, which nobody needs after a crash."""
    state, told = examined("SERVER")
    assert state == "failed"
    assert told.startswith("fsync is off: a crash loses what was answered; full_page_writes is off")


def test_what_nobody_can_see_from_here_is_not_known(examined):
    assert examined("REPLICATION") == (
        "unknown",
        "Not known: no standby has to confirm a commit, so a failover may lose some (docs/failover.md).",
    )


def test_each_check_is_a_line_with_its_remedy_and_the_exit_code_is_that_of_the_worst(
    examined, monkeypatch, capsys: pytest.CaptureFixture[str]
):
    sound = health.Check("BROKER", True, "It answers.")
    broken = health.Check("TLS", False, "Not encrypted.", page="commands")
    hidden = health.Check("BACKUPS", None, "Not known.")
    for checks, code in (([sound], 0), ([sound, hidden], 3), ([sound, hidden, broken], 1)):
        monkeypatch.setattr(doctor, "examine", lambda checks=checks, **_: checks)
        assert run_doctor() == code
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "ok         BROKER         It answers.",
        "not known  BACKUPS        Not known. See docs/runbooks.md#backups",
        "fails      TLS            Not encrypted. See docs/commands.md#tls",
    ]
    assert run_doctor("--json") == 1
    assert json.loads(capsys.readouterr().out)["checks"][2] == {
        "code": "TLS",
        "state": "fails",
        "detail": "Not encrypted.",
        "see": "docs/commands.md#tls",
    }


def run_doctor(*words: str) -> int:
    try:
        call_command("doctor", *words)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_every_check_has_its_remedy_in_the_documentation():
    assert [code for code in doctor.TITLES if f"\n### {code}\n" not in COMMANDS.read_text()] == []
