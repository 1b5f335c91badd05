"""Keys for grants: introduced ahead of time, rotated with overlap, retired at once; all of it on record.

They are rows that every host reads. Retirements are in both databases, so that a restore of one brings no key back.
"""

from __future__ import annotations

import json
import time
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from approvals.execution.operations import grant_keys
from approvals.execution.rules import jws
from console.installation import doctor
from console.local import servers
from ledger import keystore
from ledger.db import execute, tenancy
from ledger.record.queries import events as events_queries
from ledger.record.rules import encryption
from ledger.record.rules.envelope import instant
from ledger.record.rules.refusals import NotFound
from tests.conftest import KEYS, Run, copy_secrets
from tests.support.api_tenant import Workshop
from tests.support.callers import new_client


def write_key(file: Path, key: Ed25519PrivateKey) -> None:
    file.parent.mkdir(mode=0o700, exist_ok=True)
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    file.chmod(0o600)


@pytest.fixture(autouse=True)
def first_key(shop: Workshop, secrets_dir: Path) -> Ed25519PrivateKey:
    """A first key of this test's own: the list of retired keys is of the whole run."""
    key = Ed25519PrivateKey.generate()
    write_key(secrets_dir / "grant_key.pem", key)
    return key


def kid_of(order: dict[str, Any]) -> str:
    return str(json.loads(jws.decode(order["grant"].split(".")[0]))["kid"])


def published() -> dict[str, dict[str, Any]]:
    answer = new_client().get("/.well-known/jwks.json")
    assert answer["Cache-Control"] == "public, max-age=300"
    return {jwk["kid"]: jwk for jwk in answer.json()["keys"]}


def events(shop: Workshop) -> list[tuple[str, str]]:
    """(kind, key) of what the tenant's record says of grant keys."""
    with tenancy(shop.tenant):
        told = events_queries.history(shop.tenant, shop.tenant)
    return [(event.kind, detail["kid"]) for event, _, detail in told if event.kind.startswith("grant_key")]


def refused(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def test_a_new_key_is_published_before_it_signs(shop: Workshop):
    """B26: verifiers have read it before its first grant; until then the key before it signs."""
    first = next(iter(published()))
    kid = grant_keys.introduce_key(lead=grant_keys.LEAD, reason="Yearly.", at=timezone.now())
    jwks = published()
    assert set(jwks) == {first, kid}
    assert jwks[first]["exp"] == jwks[kid]["nbf"] > timezone.now().timestamp() + 500
    assert "d" not in jwks[kid]
    assert kid_of(shop.claimed()) == first
    with pytest.raises(grant_keys.KeyWaiting):
        grant_keys.introduce_key(lead=grant_keys.LEAD, reason="Again.", at=timezone.now())


def test_grants_of_the_old_key_are_valid_to_their_end(shop: Workshop):
    """B26: rotation with overlap."""
    order = shop.claimed()
    kid = grant_keys.introduce_key(lead=timedelta(0), reason="Yearly.", at=timezone.now())
    assert kid_of(shop.claimed(path="policies/b.md")) == kid != kid_of(order)
    assert shop.start(order).status_code == 201


def test_a_retired_key_is_refused_at_once(shop: Workshop):
    """B26: what it signed is refused, the JWKS names it no more, the directory does."""
    order = shop.claimed()
    old = kid_of(order)
    with pytest.raises(grant_keys.LastKey):
        grant_keys.retire_key(kid=old, reason="Stolen.", at=timezone.now())
    kid = grant_keys.introduce_key(lead=timedelta(0), reason="Stolen.", at=timezone.now())
    grant_keys.retire_key(kid=old, reason="Stolen.", at=timezone.now())
    assert refused(shop.start(order)) == (403, "GRANT_INVALID")
    assert set(published()) == {kid}
    assert [each.kid for each in grant_keys.key_directory()] == [old, kid]
    assert events(shop) == [("grant_key_introduced", kid), ("grant_key_retired", old)]
    with pytest.raises(NotFound, match="Grant key not found"):
        grant_keys.retire_key(kid="nobody", reason="", at=timezone.now())


def test_a_signature_by_a_key_before_its_start_is_refused(shop: Workshop):
    """B26: its private half is there already; a grant from before its time is refused."""
    order = shop.claimed()
    kid = grant_keys.introduce_key(lead=grant_keys.LEAD, reason="Yearly.", at=timezone.now())
    early = grant_keys.signing_key(timezone.now() + grant_keys.LEAD)
    header, claims = (json.loads(jws.decode(part)) for part in order["grant"].split(".")[:2])
    token = jws.write_token(header=header | {"kid": kid}, claims=claims, sign=early.sign)
    assert refused(shop.start(order | {"grant": token})) == (403, "GRANT_INVALID")


def test_an_interrupted_key_change_is_recorded_by_the_next_run(shop: Workshop, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patched:
        patched.setattr(grant_keys, "announce_keys", lambda **_: None)
        kid = grant_keys.introduce_key(lead=timedelta(0), reason="Yearly.", at=timezone.now())
    assert events(shop) == []
    for _ in range(2):
        grant_keys.announce_keys(reason="Yearly.", at=timezone.now())
    assert events(shop) == [("grant_key_introduced", kid)]


def test_the_commands_rotate_and_retire_keys_and_report_it(shop: Workshop, capsys: pytest.CaptureFixture[str]):
    old = next(iter(published()))
    call_command("rotate_grant_key", "--lead", "0", "--reason", "Stolen.")
    kid = capsys.readouterr().out.splitlines()[-1].split()[0]
    call_command("retire_grant_key", "--reason", "Stolen.", "--", old)
    assert set(published()) == {kid}
    with pytest.raises(CommandError, match="This is the only signing key; introduce another first"):
        call_command("retire_grant_key", "--reason", "Why not.", "--", kid)
    with pytest.raises(CommandError, match="Grant key not found"):
        call_command("retire_grant_key", "--reason", "Stolen.", "--", "-abc")
    call_command("rotate_grant_key")
    with pytest.raises(CommandError, match="A new key is already waiting to take over"):
        call_command("rotate_grant_key")


def test_a_bundle_contains_every_former_grant_key(shop: Workshop):
    from console.exports.bundle_information import public_keys

    old = next(iter(published()))
    kid = grant_keys.introduce_key(lead=timedelta(0), reason="Stolen.", at=timezone.now())
    grant_keys.retire_key(kid=old, reason="Stolen.", at=timezone.now())
    with tenancy(shop.tenant):
        told = json.loads(public_keys(shop.tenant))
    assert [jwk["kid"] for jwk in told["grants"]["keys"]] == [old, kid]


# Several hosts, and what is lost or altered


def forget() -> None:
    """As a process that has just started."""
    keystore.clear_cache()
    for kept in (grant_keys._changes_up_to, grant_keys._open_row, grant_keys._read_files):
        kept.cache_clear()


def test_hosts_without_a_shared_folder_use_each_others_keys(
    shop: Workshop, run: Run, secrets_dir: Path, settings: Any, tmp_path: Path
):
    """One command on one host: every other mints under the new key and redeems what it signed, at once."""
    other_host = copy_secrets(run, tmp_path / "another host")
    (other_host / "grant_key.pem").write_bytes((secrets_dir / "grant_key.pem").read_bytes())
    before = {file: file.read_bytes() for folder in (secrets_dir, other_host) for file in folder.rglob("*.*")}
    first = shop.claimed()
    kid = grant_keys.introduce_key(lead=timedelta(0), reason="Yearly.", at=timezone.now())
    ours = shop.claimed(path="policies/ours.md")
    settings.COUNTERFOIL_SECRETS_DIR = other_host
    forget()
    theirs = shop.claimed(path="policies/theirs.md")
    assert kid_of(ours) == kid_of(theirs) == kid != kid_of(first)
    assert shop.start(ours).status_code == shop.start(first).status_code == 201
    settings.COUNTERFOIL_SECRETS_DIR = secrets_dir
    forget()
    assert shop.start(theirs).status_code == 201
    grant_keys.retire_key(kid=kid_of(first), reason="Stolen.", at=timezone.now())
    settings.COUNTERFOIL_SECRETS_DIR = other_host
    assert set(published()) == {kid}
    assert {file: file.read_bytes() for folder in (secrets_dir, other_host) for file in folder.rglob("*.*")} == before


def test_a_retirement_is_seen_by_a_process_that_knows_the_key(shop: Workshop):
    """Another host retires it: this process reads no list of the key database anew for five seconds, and the record
    with each start.
    """
    order = shop.claimed()
    kid = grant_keys.introduce_key(lead=timedelta(0), reason="Stolen.", at=timezone.now())
    assert set(published()) == {kid_of(order), kid}
    number = len(grant_keys._read_changes(None)) + 1
    execute(
        "INSERT INTO approvals_grantkeychange (number, id, kid, kind, at) VALUES ($1, $2, $3, 'retired', now())",
        *(number, uuid4(), kid_of(order)),
    )
    assert refused(shop.start(order)) == (403, "GRANT_INVALID")
    assert set(published()) == {kid}


def set_back_key_database(run: Run, kid: str) -> None:
    """Restore the key database to before a retirement."""
    with psycopg.connect(run.postgres.url(servers.SUPERUSER, KEYS)) as admin:
        admin.execute("ALTER TABLE retired_grant_key DISABLE TRIGGER no_change")
        assert admin.execute("DELETE FROM retired_grant_key WHERE kid = %s", [kid]).rowcount == 1
        admin.execute("ALTER TABLE retired_grant_key ENABLE ALWAYS TRIGGER no_change")


def stand_in_key_database(run: Run, kid: str) -> bool:
    with psycopg.connect(run.postgres.url(servers.APP, KEYS)) as keys:
        return bool(keys.execute("SELECT FROM retired_grant_key WHERE kid = %s", [kid]).rowcount)


def test_a_restore_of_the_key_database_brings_no_retired_key_back(shop: Workshop, run: Run, secrets_dir: Path):
    order = shop.claimed()
    old = kid_of(order)
    kid = grant_keys.introduce_key(lead=timedelta(0), reason="Stolen.", at=timezone.now())
    grant_keys.retire_key(kid=old, reason="Stolen.", at=timezone.now())
    set_back_key_database(run, old)
    forget()
    assert refused(shop.start(order)) == (403, "GRANT_INVALID")
    assert set(published()) == {kid}
    [told] = grant_keys.directory_faults(timezone.now())
    assert told == f"the grant key {old} is retired in one database only: run `manage.py retire_grant_key` for it again"
    call_command("retire_grant_key", "--reason", "Stolen.", "--", old)
    assert stand_in_key_database(run, old)
    assert grant_keys.directory_faults(timezone.now()) == []


def test_a_restore_of_the_record_brings_no_retired_key_back(shop: Workshop):
    """To before the retirement, and to before there was any row: then the file of the first key counts again."""
    order = shop.claimed()
    old = kid_of(order)
    with transaction.atomic():
        kid = grant_keys.introduce_key(lead=timedelta(0), reason="Stolen.", at=timezone.now())
        with transaction.atomic():
            grant_keys.retire_key(kid=old, reason="Stolen.", at=timezone.now())
            transaction.set_rollback(True)
        forget()
        assert refused(shop.start(order)) == (403, "GRANT_INVALID")
        assert set(published()) == {kid}
        assert old in grant_keys.directory_faults(timezone.now())[0]
        transaction.set_rollback(True)
    forget()
    assert published() == {}
    assert refused(shop.start(order)) == (403, "GRANT_INVALID")
    shop.approved(path="policies/b.md")
    answer = shop.executor.post("/executions/claim", {"executor_id": "runner", "limit": 1})
    assert refused(answer) == (503, "NO_SIGNING_KEY")
    again = grant_keys.introduce_key(lead=timedelta(0), reason="The record was restored.", at=timezone.now())
    assert set(published()) == {again}
    assert grant_keys._kid(grant_keys.signing_key(timezone.now()).public_key()) == again


def test_a_process_that_saw_a_key_retired_keeps_that_when_both_databases_go_back(shop: Workshop, run: Run):
    order = shop.claimed()
    with transaction.atomic():
        grant_keys.introduce_key(lead=timedelta(0), reason="Stolen.", at=timezone.now())
        grant_keys.retire_key(kid=kid_of(order), reason="Stolen.", at=timezone.now())
        transaction.set_rollback(True)
    set_back_key_database(run, kid_of(order))
    assert refused(shop.start(order)) == (403, "GRANT_INVALID")


def test_a_key_that_cannot_be_opened_signs_nothing_and_is_named(shop: Workshop, run: Run):
    """The key database was restored to before it was introduced; no earlier key takes its place unasked."""
    order = shop.claimed()
    kid = grant_keys.introduce_key(lead=timedelta(0), reason="Yearly.", at=timezone.now())
    [lost] = [each.key_id for each in grant_keys._read_changes(None) if each.kid == kid]
    with psycopg.connect(run.postgres.url(servers.ERASER, KEYS)) as eraser:
        eraser.execute("DELETE FROM data_key WHERE id = %s", [lost])
    forget()
    assert set(published()) == {kid_of(order)}
    shop.approved(path="policies/b.md")
    answer = shop.executor.post("/executions/claim", {"executor_id": "runner", "limit": 1})
    assert refused(answer) == (503, "NO_SIGNING_KEY")
    assert f"The grant key {kid} cannot be opened" in answer.json()["detail"]
    assert answer.headers["Retry-After"] == "2"
    [check] = list(doctor._look_at_key_files(timezone.now()))
    assert check.state == "failed"
    assert f"the row of the grant key {kid} does not open" in check.detail
    call_command("rotate_grant_key", "--lead", "0", "--reason", "The key database was restored.")
    assert len(published()) == 2
    assert grant_keys._kid(grant_keys.signing_key(timezone.now()).public_key()) not in (kid, kid_of(order))


@pytest.mark.parametrize("forged", ["own key", "moved", "garbled"])
def test_a_row_that_somebody_adds_makes_no_key_trusted(shop: Workshop, forged: str):
    """B29: by whoever writes to the record, with a key of their own, bytes of another row, or an altered time."""
    order = shop.claimed()
    grant_keys.introduce_key(lead=timedelta(days=1), reason="Yearly.", at=timezone.now())
    rows = grant_keys._read_changes(None)
    thief, at = Ed25519PrivateKey.generate(), timezone.now() - timedelta(hours=1)
    kid = grant_keys._kid(thief.public_key())
    raw = thief.public_key().public_bytes_raw() + thief.private_bytes_raw()
    sealed, key_id = {
        "own key": (encryption.seal(b"k" * 32, b"n" * 12, raw, f"grant_key/{kid}/{instant(at)}"), uuid4()),
        "moved": (bytes(rows[1].sealed or b""), rows[1].key_id),
        "garbled": (b"x" * 108, rows[0].key_id),
    }[forged]
    execute(
        "INSERT INTO approvals_grantkeychange (number, id, kid, kind, at, key_id, sealed)"
        " VALUES ($1, $2, $3, 'introduced', $4, $5, $6)",
        *(len(rows) + 1, uuid4(), kid, at, key_id, sealed),
    )
    assert kid not in published()
    header, claims = (json.loads(jws.decode(part)) for part in order["grant"].split(".")[:2])
    token = jws.write_token(header=header | {"kid": kid}, claims=claims, sign=thief.sign)
    assert refused(shop.start(order | {"grant": token})) == (403, "GRANT_INVALID")
    assert any(kid in each for each in grant_keys.directory_faults(timezone.now()))


def test_a_copy_of_the_record_has_no_private_half(shop: Workshop, first_key: Ed25519PrivateKey):
    grant_keys.introduce_key(lead=timedelta(0), reason="Yearly.", at=timezone.now())
    private = [first_key.private_bytes_raw(), grant_keys.signing_key(timezone.now()).private_bytes_raw()]
    rows = execute("SELECT to_jsonb(k)::text FROM approvals_grantkeychange k")
    assert len(rows) == 2
    assert not any(key.hex() in row for (row,) in rows for key in private)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE approvals_grantkeychange SET at = now()",
        "DELETE FROM approvals_grantkeychange",
        "TRUNCATE approvals_grantkeychange",
        "INSERT INTO approvals_grantkeychange SELECT number + 9, gen_random_uuid(), kid, kind, at, key_id, sealed"
        " FROM approvals_grantkeychange LIMIT 1",
    ],
)
def test_what_was_introduced_or_retired_stays_so(shop: Workshop, change: str):
    grant_keys.introduce_key(lead=timedelta(0), reason="Yearly.", at=timezone.now())
    with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(change)


def test_of_two_changes_at_once_one_is_refused(shop: Workshop, monkeypatch: pytest.MonkeyPatch):
    rows = grant_keys._read_changes(None)
    grant_keys.introduce_key(lead=grant_keys.LEAD, reason="Yearly.", at=timezone.now())
    monkeypatch.setattr(grant_keys, "take_over_files", lambda **_: [])
    monkeypatch.setattr(grant_keys, "_read_changes", lambda _: rows)
    with pytest.raises(grant_keys.KeysChanged):
        grant_keys.introduce_key(lead=grant_keys.LEAD, reason="Yearly.", at=timezone.now())


def test_while_the_key_database_is_away_the_keys_that_are_known_count(
    shop: Workshop, settings: Any, monkeypatch: pytest.MonkeyPatch
):
    order = shop.claimed()
    kid = grant_keys.introduce_key(lead=timedelta(0), reason="Stolen.", at=timezone.now())
    grant_keys.retire_key(kid=kid_of(order), reason="Stolen.", at=timezone.now())
    assert set(published()) == {kid}
    settings.KEYS_DATABASE_URL = "postgresql://nobody@127.0.0.1:1/none"
    later = time.monotonic() + keystore.RETIRED_FOR_S + 1
    monkeypatch.setattr(keystore, "time", SimpleNamespace(monotonic=lambda: later))
    assert set(published()) == {kid}
    forget()
    answer = new_client().get("/api/v1/jwks.json")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")


# Files of earlier versions


def listed(key: Ed25519PrivateKey, since: str, *, until: str | None = None, retired_at: str | None = None) -> Any:
    kid = grant_keys._kid(key.public_key())
    return {
        "kid": kid,
        "x": jws.encode(key.public_key().public_bytes_raw()),
        "since": since,
        "until": until,
        "retired_at": retired_at,
        "file": f"grant_keys/{kid}.pem",
    }


@pytest.fixture
def files(secrets_dir: Path, first_key: Ed25519PrivateKey) -> list[Ed25519PrivateKey]:
    """The files of an installation that has rotated twice with the version before, and retired the second key."""
    second, third = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    days = [f"2026-0{month}-01T00:00:00.000000Z" for month in (1, 2, 3, 4)]
    document = [
        listed(first_key, days[0], until=days[1]) | {"file": "grant_key.pem"},
        listed(second, days[1], until=days[2], retired_at=days[3]),
        listed(third, days[2]),
    ]
    (secrets_dir / "grant_keys.json").write_text(json.dumps(document))
    write_key(secrets_dir / document[2]["file"], third)
    return [first_key, second, third]


def test_the_first_change_takes_over_the_keys_in_files(
    shop: Workshop, files: list[Ed25519PrivateKey], secrets_dir: Path, capsys: pytest.CaptureFixture[str]
):
    first, second, third = (grant_keys._kid(each.public_key()) for each in files)
    order = shop.claimed()
    assert kid_of(order) == third
    before = published()
    assert set(before) == {first, third}
    call_command("rotate_grant_key", "--reason", "Yearly.")
    told = capsys.readouterr().out
    assert f"The grant keys of this host's files are in the databases now: {first}, {second}, {third}." in told
    for name in ("grant_key.pem", "grant_keys.json"):
        (secrets_dir / name).unlink()
    forget()
    assert shop.start(order).status_code == 201
    assert kid_of(shop.claimed(path="policies/b.md")) == third
    now = published()
    assert len(now) == 3
    assert now[first] == before[first]
    assert {name: now[third][name] for name in before[third]} == before[third]
    call_command("retire_grant_key", "--reason", "Stolen.", "--", first)
    assert "in the databases now" not in capsys.readouterr().out
    assert second not in published()


def test_files_that_lack_a_key_of_the_record_are_not_taken_over(
    shop: Workshop, files: list[Ed25519PrivateKey], secrets_dir: Path
):
    """A host that did not get the newest files would take the installation back to an earlier key."""
    third = grant_keys._kid(files[2].public_key())
    grant_keys.announce_keys(reason="Yearly.", at=timezone.now())
    (secrets_dir / "grant_keys.json").rename(secrets_dir / "elsewhere")
    with pytest.raises(CommandError, match="lack a grant key that is on record"):
        call_command("rotate_grant_key")
    (secrets_dir / "elsewhere").rename(secrets_dir / "grant_keys.json")
    (secrets_dir / "grant_keys" / f"{third}.pem").unlink()
    forget()
    with pytest.raises(CommandError, match=f"The private half of the grant key {third} is not among the files"):
        call_command("rotate_grant_key")
    assert grant_keys._read_changes(None) == ()
