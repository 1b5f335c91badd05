"""Keys for grants: introduced ahead of time, rotated with overlap, retired at once; all of it on record."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from django.core.management import CommandError, call_command
from django.utils import timezone

from approvals.execution.operations import grant_keys
from approvals.execution.rules import jws
from ledger.db import tenancy
from ledger.record.queries import events as events_queries
from ledger.record.rules.refusals import NotFound
from tests.support.api_tenant import Workshop
from tests.support.callers import new_client


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


def test_a_signature_by_a_key_before_its_start_is_refused(shop: Workshop, settings: Any):
    """B26: its private half is there already; a grant from before its time is refused."""
    order = shop.claimed()
    kid = grant_keys.introduce_key(lead=grant_keys.LEAD, reason="Yearly.", at=timezone.now())
    file = settings.COUNTERFOIL_SECRETS_DIR / "grant_keys" / f"{kid}.pem"
    assert file.stat().st_mode & 0o077 == 0
    early = load_pem_private_key(file.read_bytes(), password=None)
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
    kid = capsys.readouterr().out.split()[0]
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
