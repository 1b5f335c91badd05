"""Votes and settlements in a bundle, checked as docs/exports.md tells an outsider to: by a foreign WebAuthn library."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from ledger.verify_bundle import Verdict
from tests.support import exported
from tests.support.api_tenant import Clock, Workshop
from tests.support.outside.authenticators import Authenticator
from tests.support.settling import EVIDENCE, screen
from tests.support.signing import actor_of, device, enrolled, sign, wanted

PAGE = Path(__file__).resolve().parents[3] / "docs" / "exports.md"


def documented() -> Any:
    """The function that the page has an outsider run, as it stands there."""
    [block] = [each for each in PAGE.read_text().split("```python\n")[1:] if "def signed_statements(" in each]
    names: dict[str, Any] = {}
    exec(block.partition("```")[0], names)
    return names["signed_statements"]


def found(bundle: bytes, *, site: str = "", address: str = "") -> list[tuple[str, str, bool]]:
    """Of each signed statement: its act, its signer, and whether a foreign library verifies the signature."""
    site, address = site or settings.COUNTERFOIL_RP_ID, address or settings.COUNTERFOIL_ORIGINS[0]
    return [
        ("vote", said["vote"]["voter"], holds)
        if "vote" in said
        else (said["settlement"]["act"], said["settlement"]["by"], holds)
        for said, holds in documented()(io.BytesIO(bundle), site, address)
    ]


def answer_case(api: Any, case_id: str, path: str, one: Authenticator, **said: Any) -> str:
    """The state of a case once a passkey has signed this answer to it."""
    body = said | {"covers": screen(api, case_id)}
    asked = api.post(f"/reviews/{case_id}/challenges", {name: body[name] for name in body if name != "accept"})
    assert asked.status_code == 201, asked.content
    signed = {"challenge_id": asked.json()["challenge_id"], "assertion": one.answer(wanted(asked.json()))}
    return str(api.post(f"/reviews/{case_id}/{path}", body | signed).json()["state"])


@pytest.fixture
def bundle(shop: Workshop, clock: Clock, settings: Any, tmp_path: Path) -> bytes:
    """A bundle of a deletion that a reviewer approved and two people settled, each with a passkey."""
    settings.COUNTERFOIL_EXPORTS = tmp_path / "exports"
    reviewer = enrolled(shop.tenant, actor_of(shop.tenant, shop.reviewer), device("ed25519"))
    operator = enrolled(shop.tenant, actor_of(shop.tenant, shop.operator))
    action_id = shop.propose()
    assert sign(shop.reviewer, shop.approval_of(action_id), reviewer).status_code == 201
    [order] = shop.claim()
    started = shop.start(order).json()
    shop.observe(started)
    clock.forward(seconds=90)
    shop.read_back(action_id, clock)
    case = shop.case_of(action_id)
    assert case is not None
    case_id = case["case_id"]
    proposed = {"resolution": "ATTEST_ABSENT", "reason": "I looked.", "evidence": EVIDENCE}
    assert answer_case(shop.operator, case_id, "resolve", operator, **proposed) == "AWAITING_SECOND"
    assert answer_case(shop.reviewer, case_id, "resolve/confirm", reviewer, accept=True) == "RESOLVED"
    return exported.bundle(shop.tenant, payloads=True)


def test_a_foreign_library_verifies_the_passkeys_of_a_vote_and_of_both_sides_of_a_settlement(
    shop: Workshop, bundle: bytes
):
    reviewer, operator = (str(actor_of(shop.tenant, each)) for each in (shop.reviewer, shop.operator))
    assert found(bundle) == [("vote", reviewer, True), ("propose", operator, True), ("confirm", reviewer, True)]
    report = exported.judged(bundle, exported.policy(shop.tenant))
    assert report.worst is Verdict.VERIFIED, report.findings
    assert "3 passkey signatures" in report.looked["signatures"]


def test_a_foreign_library_refuses_them_at_another_site_or_over_another_statement_or_by_another_key(
    bundle: bytes,
):
    none = [False] * 3
    assert [holds for *_, holds in found(bundle, site="elsewhere.example")] == none
    assert [holds for *_, holds in found(bundle, address="https://elsewhere.example")] == none
    assert verified_after(bundle, ('"verdict":"approve"', '"verdict":"reject"')) == [False, True, True]
    assert verified_after(bundle, ('"act":"propose"', '"act":"confirm"')) == [True, False, True]
    assert verified_after(bundle, ('"act":"confirm"', '"act":"propose"')) == [True, True, False]
    assert verified_after(bundle, ('"resolution":"ATTEST_ABSENT"', '"resolution":"ATTEST_PRESENT"')) == [
        True,
        False,
        False,
    ]


def verified_after(bundle: bytes, change: tuple[str, str]) -> list[bool]:
    """Whether each signature holds in the bundle with a text of its events changed."""
    old, new = (json.dumps(each)[1:-1].encode() for each in change)
    changed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(bundle)) as source, zipfile.ZipFile(changed, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            if name.startswith("events/"):
                assert old in data, change
                data = data.replace(old, new)
            target.writestr(name, data)
    return [holds for *_, holds in found(changed.getvalue())]
