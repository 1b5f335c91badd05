"""Keys of the installation are changed in steps, without closing anything and whatever is interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from allauth.mfa.adapter import get_adapter
from allauth.mfa.models import Authenticator
from django.core.management import CommandError, call_command
from django.db import OperationalError
from django.utils import timezone

from console.accounts import operations as accounts
from console.accounts import queries as accounts_queries
from console.local import servers
from console.local.installation import ROOT
from console.local.processes import wait_until
from console.models import User
from ledger import key_files, keystore
from ledger.db import tenancy
from ledger.record.queries import events
from ledger.record.rules import encryption
from tests.conftest import environment
from tests.db.installation.conftest import OWN_KEYS
from tests.support.callers import found

DAYS = timedelta(days=3)


@pytest.fixture
def tenant(db: None) -> UUID:
    """A tenant with its first event."""
    return found("orchid")


def rotate(*words: str) -> None:
    call_command("rotate", *words, "--reason", "Yearly.")


def make_keys(count: int) -> dict[Any, bytes]:
    made = dict(keystore.new_key() for _ in range(count))
    keystore.clear_cache()
    return made


def under_first(owner_url: str) -> tuple[int, int]:
    """Count the stored keys under the key in use, and all of them."""
    with psycopg.connect(owner_url) as owner:
        rows = owner.execute("SELECT id, wrapped FROM data_key").fetchall()
    return sum(opens(keystore.key_encryption_key(), data, key_id) for key_id, data in rows), len(rows)


def opens(key: bytes, data: bytes, key_id: Any) -> bool:
    try:
        return bool(encryption.open_sealed(key, data, keystore.key_context(key_id)))
    except encryption.CannotOpen:
        return False


def age(file: Path, by: timedelta) -> None:
    """Have the key in use be so much older."""
    first, *rest = key_files.read_lines(file)
    assert first.since is not None
    key_files.write_lines(file, [key_files.KeyLine(first.text, since=first.since - by), *rest])


def changes(tenant: Any) -> list[tuple[str, str, str]]:
    with tenancy(tenant):
        told = events.history(tenant, tenant)
    return [(event.kind, said["key"], said["name"]) for event, _, said in told if "installation_key" in event.kind]


def test_a_kek_is_made_used_and_retired_while_every_key_stays_readable(tenant, own_keys, secrets_dir, capsys):
    file, before = secrets_dir / "kek", make_keys(3)
    old = key_files.read_lines(file)[0]
    rotate("kek")
    assert key_files.read_lines(file)[0] == old
    assert file.stat().st_mode & 0o777 == 0o600
    between = make_keys(1)
    rotate("kek", "--use")
    new = key_files.read_lines(file)[0]
    assert new != old
    assert under_first(own_keys) == (2 * keystore.BLOCK, 2 * keystore.BLOCK)
    age(file, DAYS)
    rotate("kek", "--retire")
    assert [each.name for each in key_files.read_lines(file)] == [new.name]
    assert keystore.read_keys(before | between) == before | between
    assert changes(tenant) == [
        ("installation_key_introduced", "kek", new.name),
        ("installation_key_used", "kek", new.name),
        ("installation_key_retired", "kek", old.name),
    ]
    assert new.text not in capsys.readouterr().out


def test_a_key_of_a_host_that_has_not_got_the_new_order_is_read_and_wrapped_anew_by_the_last_step(
    tenant, own_keys, secrets_dir
):
    file = secrets_dir / "kek"
    rotate("kek")
    waiting = file.read_text()
    rotate("kek", "--use")
    done = file.read_text()
    # Another host seals under the old key and reads the new one, until it gets the file.
    file.write_text(waiting)
    late = make_keys(1)
    file.write_text(done)
    assert keystore.read_keys(late) == late
    age(file, DAYS)
    rotate("kek", "--retire")
    assert under_first(own_keys) == (keystore.BLOCK, keystore.BLOCK)


def test_a_crash_while_keys_are_wrapped_loses_none_and_the_next_run_does_the_rest(
    run, committed_db, own_keys, secrets_dir, monkeypatch
):
    made = make_keys(3 * keystore.BLOCK)
    rotate("kek")
    environment_of_command = {
        **os.environ,
        **environment(run, committed_db.name),
        "KEYS_DATABASE_URL": run.postgres.url(servers.APP, OWN_KEYS),
        "KEYS_DATABASE_OWNER_URL": own_keys,
        "COUNTERFOIL_SECRETS_DIR": str(secrets_dir),
    }
    in_small_batches = (
        "import django; django.setup(); from console.management.commands import rotate; rotate.BATCH = 50"
    )
    use = "from django.core.management import call_command; call_command('rotate', 'kek', '--use')"
    with psycopg.connect(own_keys) as other:
        # The last batch waits for this lock, and there the command is killed.
        other.execute("SELECT FROM data_key WHERE id = (SELECT max(id::text)::uuid FROM data_key) FOR UPDATE")
        command = subprocess.Popen(
            [sys.executable, "-c", f"{in_small_batches}; {use}"], cwd=ROOT, env=environment_of_command
        )

        def waits() -> bool:
            assert command.poll() is None
            with psycopg.connect(run.postgres.url(servers.SUPERUSER, OWN_KEYS)) as superuser:
                asked = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND wait_event_type = 'Lock'"
                return superuser.execute(asked, [OWN_KEYS]).fetchone() == (1,)

        assert wait_until(waits, within_s=60)
        command.send_signal(signal.SIGKILL)
        command.wait()
    wrapped, stored = under_first(own_keys)
    assert 0 < wrapped < stored == 3 * keystore.BLOCK
    assert keystore.read_keys(made) == made
    keystore.clear_cache()
    rotate("kek", "--use")
    assert under_first(own_keys) == (stored, stored)
    assert keystore.read_keys(made) == made


def test_a_destroyed_key_stays_destroyed_when_the_others_are_wrapped_anew(tenant, own_keys, secrets_dir):
    [gone] = make_keys(1)
    with psycopg.connect(own_keys) as owner:
        owner.execute("DELETE FROM data_key WHERE id = %s", [gone])
    rotate("kek")
    rotate("kek", "--use")
    assert keystore.read_keys([gone]) == {}


def test_a_key_under_an_unknown_kek_is_no_erased_one_and_nothing_is_retired(tenant, own_keys, secrets_dir, tmp_path):
    file, [lost] = secrets_dir / "kek", make_keys(1)
    file.write_text("ab" * 32 + "\n")
    with pytest.raises(OperationalError, match="that this host's file `kek` does not have"):
        keystore.read_keys([lost])
    rotate("kek")
    with pytest.raises(CommandError, match="that this host's file `kek` does not have"):
        rotate("kek", "--use")
    age(file, DAYS)
    with pytest.raises(CommandError, match="that this host's file `kek` does not have"):
        rotate("kek", "--retire", "--now")
    assert len(key_files.read_lines(file)) == 2


def test_second_factors_and_answers_to_repeats_outlast_the_kek_that_sealed_them(tenant, own_keys, secrets_dir):
    user = User.objects.create(username="anna@example.org")
    factor = Authenticator.objects.create(user=user, type="totp", data={"secret": get_adapter().encrypt("JBSWY3DP")})
    write = {"tenant_id": tenant, "caller": user.id, "key": "once"}
    with tenancy(tenant):
        assert accounts.reserve_answer(**write, request=b"a", at=timezone.now())
        accounts.store_answer(**write, status=201, body=b"made")
    rotate("kek")
    rotate("kek", "--use")
    with tenancy(tenant):
        assert accounts_queries.stored_answer(**write, request=b"a") == (201, b"made")
        assert accounts_queries.stored_answer(**write, request=b"b") is None
    with pytest.raises(CommandError, match="answers to repeats of a write are kept so long"):
        rotate("kek", "--retire")
    age(secrets_dir / "kek", DAYS)
    rotate("kek", "--retire")
    factor.refresh_from_db()
    assert get_adapter().decrypt(factor.data["secret"]) == "JBSWY3DP"


def test_a_step_out_of_order_is_refused_and_one_that_was_interrupted_is_recorded_by_the_next_run(
    tenant, secrets_dir, monkeypatch
):
    with pytest.raises(CommandError, match="No new registry-key was made"):
        rotate("registry-key", "--use")
    with pytest.raises(CommandError, match="There is no former registry-key to retire"):
        rotate("registry-key", "--retire")
    with monkeypatch.context() as patched:
        patched.setattr("console.management.commands.rotate.record_key_change", lambda *_, **__: None)
        rotate("registry-key")
    assert changes(tenant) == []
    rotate("registry-key")
    rotate("registry-key")
    assert len(key_files.read_lines(secrets_dir / "registry_key")) == 2
    assert [kind for kind, _, _ in changes(tenant)] == ["installation_key_introduced"]
    with pytest.raises(CommandError, match="A new registry-key waits for its use"):
        rotate("registry-key", "--retire")


def test_a_folder_that_cannot_be_written_is_named_with_the_way_round_it(tenant, secrets_dir, monkeypatch):
    def refuse(path: Path, text: str) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(key_files, "write_private", refuse)
    with pytest.raises(CommandError, match="Copy the folder to one of mode 700"):
        rotate("kek")


@pytest.mark.parametrize("content", ["", "abc next\n", "abc def ghi\n", "abc yesterday\n"])
def test_a_damaged_key_file_is_refused_with_its_name(tmp_path, content):
    file = tmp_path / "kek"
    file.write_text(content)
    with pytest.raises(key_files.BadKeyFile, match=str(file)):
        key_files.read_lines(file)


def test_a_process_starts_with_the_secret_in_use_and_reads_those_before_and_after_it(run, secrets_dir, tenant):
    file = secrets_dir / "django_secret"
    rotate("django-secret")
    rotate("django-secret", "--use")
    rotate("django-secret")
    ask = "from console import settings as s; print(s.SECRET_KEY, *s.SECRET_KEY_FALLBACKS)"
    told = {**os.environ, "COUNTERFOIL_SECRETS_DIR": str(secrets_dir)}
    answer = subprocess.run([sys.executable, "-c", ask], cwd=ROOT, env=told, capture_output=True, text=True, check=True)
    assert answer.stdout.split() == [each.text for each in key_files.read_lines(file)]
    assert len(answer.stdout.split()) == 3
