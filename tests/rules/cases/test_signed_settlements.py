"""The offline verifier checks what people signed when they settled a case, from the bundle alone."""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ledger.catalogue.rules.effects import Reversibility, SideEffectClass
from ledger.people.rules.statements import challenge_bytes, statement_hash
from ledger.record.rules.canonical import canonical
from ledger.record.rules.envelope import commitment
from ledger.record.rules.lifecycle import State
from ledger.verify_bundle import Report, Verdict, verify
from reviews.cases.rules import settlements
from reviews.cases.rules.resolutions import HeldAction, Resolution
from reviews.cases.rules.settlements import Act, Coverage, Settlement
from tests.support.bundles import AGENT, EXECUTOR, Log, draft, policy
from tests.support.outside.authenticators import Authenticator, b64

SITE, ORIGIN = "console.example.org", "https://console.example.org"
FIRST, SECOND, OTHER = ("person", "p-1"), ("person", "p-2"), ("person", "p-3")
SALT = b"\x07" * 32
PAYLOAD = "ab" * 32
REASON, EVIDENCE = "I called the provider.", ["Their mail of 12:04."]
AT = datetime(2026, 11, 21, 12, tzinfo=UTC)
HELD = HeldAction(
    state=State.REVIEW_REQUIRED,
    executed=True,
    verifiable=True,
    discrepancy="NO_OP_FAILURE",
    side_effect_class=SideEffectClass.HIGH_RISK_EXTERNAL,
    reversibility=Reversibility.IRREVERSIBLE,
)


@dataclass
class Scene:
    """A case that two people settle, of which a test can bend any part before it is written down."""

    covers: dict[str, Any] = field(default_factory=dict)
    first: dict[str, Any] = field(default_factory=dict)
    second: dict[str, Any] = field(default_factory=dict)
    detail: dict[str, Any] = field(default_factory=dict)
    confirmed_by: tuple[str, str] = SECOND
    device: Authenticator | None = None
    signs: bytes = b""
    has_statement: bool = True
    reason: str = REASON

    def coverage(self, seq: int, head: str) -> Coverage:
        known = Coverage(
            installation=ORIGIN,
            environment="production",
            tenant="t-1",
            case_id="ca-1",
            case_reason="RT-04",
            action_id="ac-1",
            state="REVIEW_REQUIRED",
            contradicted=False,
            discrepancy="NO_OP_FAILURE",
            payload_hash=PAYLOAD,
            payload_commitment="1a" * 32,
            tool="issue_refund",
            contract_digest="2b" * 32,
            target_resource="order/1",
            side_effect_class="HIGH_RISK_EXTERNAL",
            reversibility="IRREVERSIBLE",
            evidence=("3c" * 32,),
            record_seq=seq,
            record_hash=head,
        )
        return replace(known, **self.covers)

    def said(self, by: str, act: Act, changes: dict[str, Any]) -> Settlement:
        known = Settlement(
            statement_id=f"st-{by}",
            nonce="4d" * 32,
            by=by,
            person=f"human-{by}",
            act=act,
            resolution=Resolution.ATTEST_ABSENT,
            consequence="The action ends.",
            over="",
            words_commitment=commitment("settlement", SALT, settlements.typed_words(REASON, EVIDENCE)),
            evidence_class="C",
            credential_id="",
            rp_id="",
            issued_at=AT,
            expires_at=AT + timedelta(minutes=5),
            log_origin="o",
            log_size=0,
            log_root="00" * 32,
        )
        return replace(known, **changes)

    def log(self) -> Log:
        log = Log()
        log.add("log/log-1", "log_opened", "OPEN")
        if self.device is not None:
            self._key(log, self.device)
        entry = {"action_id": "ac-1", "requested_operation": {"validated_payload_hash": PAYLOAD}}
        log.add("action/ac-1", "proposed", "PROPOSED", by=AGENT, entry=entry)
        log.add("action/ac-1", "validated", "VALIDATED", entry=entry)
        log.add("action/ac-1", "grant_minted", "VALIDATED", entry=entry, detail={"jti": "g-1"})
        grounds = {"attempt": 1, "jti": "g-1", "grounds": ["released"]}
        log.add("action/ac-1", "execution_started", "EXECUTING", by=EXECUTOR, entry=entry, detail=grounds)
        log.add("action/ac-1", "lease_ended", "UNKNOWN", entry=entry)
        log.add("action/ac-1", "held", "REVIEW_REQUIRED", entry=entry)
        log.add("case/ca-1", "case_opened", "OPEN")
        seq, _, head = log.heads["action/ac-1"]
        covers = self.coverage(seq, head)
        first = settlements.statement(covers, self.said("p-1", Act.PROPOSE, self.first), held=HELD)
        told = {"resolution": "ATTEST_ABSENT", "reason": REASON, "evidence": EVIDENCE}
        log.add(
            "case/ca-1",
            "resolution_proposed",
            "AWAITING_SECOND",
            by=FIRST,
            detail=told | self._told(first),
            evidence={"statement": first},
        )
        self._confirm(log, entry, covers, first, told)
        return log

    def _confirm(self, log: Log, entry: Any, covers: Coverage, first: bytes, told: dict[str, Any]) -> None:
        over = {"over": statement_hash(first)}
        if self.device is not None:
            over |= {"evidence_class": "A", "credential_id": self.device.name, "rp_id": SITE}
        second = settlements.statement(covers, self.said("p-2", Act.CONFIRM, over | self.second), held=HELD)
        detail = told | self._told(second) | {"case_id": "ca-1", "by": "p-1", "confirmed_by": "p-2"}
        detail |= {"grounds": ["reason_and_evidence", "no_effect_remains"], "reason": self.reason}
        if self.device is not None:
            detail |= {"evidence_class": "A"}
        kept = {"statement": second, "proposal": first} if self.has_statement else {}
        if self.device is not None:
            kept["assertion"] = self._assertion(self.device, self.signs or second)
        by = self.confirmed_by
        detail |= self.detail
        log.add("action/ac-1", "attested_absent", "FAILED", by=by, entry=entry, detail=detail, evidence=kept)
        log.add("case/ca-1", "case_resolved", "RESOLVED", by=by, detail=detail)

    def _told(self, statement: bytes) -> dict[str, Any]:
        hashed = hashlib.sha256(statement).hexdigest()
        return {"statement_hash": hashed, "evidence_class": "C", "words_salt": SALT.hex()}

    def _key(self, log: Log, device: Authenticator) -> None:
        kept = {
            "holder": "p-2",
            "person": "human-p-2",
            "credential_id": device.name,
            "public_key": b64(device.public_key),
        }
        log.add("approver_key/k-1", "key_enrolled", "PENDING", by=SECOND, detail=kept)
        log.add("approver_key/k-1", "key_confirmed", "ACTIVE", by=OTHER, detail={"person": "human-p-3"})

    def _assertion(self, device: Authenticator, statement: bytes) -> bytes:
        answer = device.answer(challenge_bytes(statement))
        key = {"id": "k-1", "credential_id": device.name, "public_key": b64(device.public_key)}
        return canonical({"version": 1, "assertion": {"id": answer["id"], **answer["response"]}, "key": key})


def device() -> Authenticator:
    return Authenticator("p256", rp_id=SITE, origin=ORIGIN)


def judged(scene: Scene) -> Report:
    return verify(io.BytesIO(draft(scene.log()).pack()), policy())


def broken(scene: Scene) -> str:
    report = judged(scene)
    assert report.worst is Verdict.BROKEN, report.findings
    return " ".join(finding.text for finding in report.findings if finding.stage == "signatures")


def test_a_settlement_signed_by_two_people_is_verified_and_counted():
    report = judged(Scene())
    assert (report.worst, report.findings) == (Verdict.VERIFIED, [])
    assert report.looked["signatures"] == "2 settlements without a signature"
    assert "2 settlements" in report.looked["subjects"]


def test_a_statement_that_saw_a_longer_log_than_existed_is_broken():
    assert judged(Scene(second={"log_size": 9})).worst is Verdict.VERIFIED
    assert "its voter saw a log that was longer than it was" in broken(Scene(second={"log_size": 10}))


def test_a_settlement_that_a_passkey_signed_is_verified_by_its_signature():
    report = judged(Scene(device=device()))
    assert (report.worst, report.findings) == (Verdict.VERIFIED, [])
    assert report.looked["signatures"] == "1 passkey signatures, 1 settlements without a signature"


def test_a_passkey_signature_over_something_else_is_detected():
    assert "something else than its statement" in broken(Scene(device=device(), signs=b"another statement"))


@pytest.mark.parametrize(
    ("scene", "said"),
    [
        (Scene(covers={"payload_hash": "cd" * 32}), "its settlement was signed over another payload"),
        (Scene(covers={"record_hash": "cd" * 32}), "signed on another state of the record than it was made on"),
        (Scene(covers={"record_seq": 2}), "signed on another state of the record than it was made on"),
        (Scene(covers={"action_id": "ac-2"}), "the statement of its settlement is about something else"),
        (Scene(covers={"case_id": "ca-2"}), "the statement of its settlement is about something else"),
        (Scene(second={"by": "p-3"}), "the statement of its settlement is about something else"),
        (Scene(confirmed_by=OTHER), "the statement of its settlement is about something else"),
        (Scene(second={"resolution": Resolution.ATTEST_PRESENT}), "its settlement differs from its statement"),
        (Scene(detail={"resolution": "FAIL"}), "its settlement differs from its statement"),
        (Scene(detail={"statement_hash": "cd" * 32}), "the statement of its settlement is not the one it names"),
        (Scene(reason="Nobody answered."), "the reason or the evidence of its settlement differs from what was signed"),
        (
            Scene(detail={"evidence": ["nothing"]}),
            "the reason or the evidence of its settlement differs from what was signed",
        ),
        (Scene(second={"over": "cd" * 32}), "its second person confirmed another proposal"),
        (Scene(first={"resolution": Resolution.ABANDON}), "its second person confirmed something else"),
        (Scene(second={"person": "human-p-1"}), "its settlement was not confirmed by a second person"),
        (Scene(second={"log_size": 99}), "its voter saw a log that was longer than it was"),
        (Scene(has_statement=False), "the statement of its settlement is missing"),
    ],
)
def test_a_changed_settlement_is_detected(scene: Scene, said: str):
    assert said in broken(scene)


def test_a_statement_of_a_future_version_is_not_called_verified(monkeypatch):
    monkeypatch.setattr(settlements, "SETTLEMENT", replace(settlements.SETTLEMENT, version=2))
    report = judged(Scene())
    assert report.worst is Verdict.UNKNOWN
    assert "of a version that this verifier does not know" in report.findings[0].text
