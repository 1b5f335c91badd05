"""B30: the offline verifier checks every passkey's signature again from the bundle alone, and misses no forged one."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from approvals.voting.rules import passkeys
from ledger.people.rules.statements import challenge_bytes
from ledger.record.rules.canonical import canonical
from ledger.record.rules.envelope import commitment
from ledger.verify_bundle import Report, Verdict, verify
from tests.support.bundles import Draft, Log, draft, policy
from tests.support.outside.authenticators import BS, UP, UV, Authenticator, b64

SITE, ORIGIN = "console.example.org", "https://console.example.org"
HOLDER, SECOND, SYSTEM = ("person", "p-1"), ("person", "p-2"), ("system", "s-1")
SALT = b"\x05" * 32


@dataclass
class Scene:
    """One signed vote, of which a test can bend any part before it is written down."""

    device: Authenticator = field(default_factory=lambda: Authenticator("p256", rp_id=SITE, origin=ORIGIN))
    vote: dict[str, Any] = field(default_factory=dict)
    detail: dict[str, Any] = field(default_factory=dict)
    enrolled: dict[str, Any] = field(default_factory=dict)
    confirmed_by: tuple[str, str] = SECOND
    confirmed_as: str = "human-2"
    enrolled_by: tuple[str, str] = HOLDER
    state: str = "ACTIVE"
    key: dict[str, Any] = field(default_factory=dict)
    answer: Callable[[Authenticator, bytes], dict[str, Any]] = lambda one, asked: one.answer(asked)
    version: int = 4
    brought: bytes | None = None
    covers: dict[str, Any] = field(default_factory=dict)
    has_assertion: bool = True
    has_key: bool = True

    def statement(self) -> bytes:
        vote = {
            "voter": "p-1",
            "verdict": "approve",
            "evidence_class": "A",
            "credential_id": self.device.name,
            "rp_id": SITE,
            "reason_commitment": commitment("reason", SALT, b"I looked."),
            "log_size": 0,
        }
        vote |= {"without_reading": True} if self.version >= 4 else {}
        covers = {"approval_id": "ap-1", "action_id": "ac-1", "payload_hash": "ab" * 32}
        covers |= {"evidence_commitment": ""} if self.version >= 3 else {}
        return canonical({"version": self.version, "covers": covers | self.covers, "vote": vote | self.vote})

    def log(self) -> Log:
        log = Log()
        log.add("log/log-1", "log_opened", "OPEN")
        if self.has_key:
            self._key(log)
        if self.brought is not None:
            brought = {"payload": b"{}", "agent_evidence": self.brought}
            log.add("action/ac-1", "proposed", "PROPOSED", by=("agent", "a-1"), entry=None, evidence=brought)
        log.add("approval/ap-1", "approval_requested", "REQUESTED", detail={"payload_hash": "ab" * 32})
        statement = self.statement()
        told = {
            "statement_hash": hashlib.sha256(statement).hexdigest(),
            "evidence_class": "A",
            "reason": "I looked.",
            "reason_salt": SALT.hex(),
        }
        evidence = {"statement": statement}
        if self.has_assertion:
            evidence["assertion"] = self.document(statement)
        log.add("approval/ap-1", "approved", "APPROVED", by=HOLDER, detail=told | self.detail, evidence=evidence)
        return log

    def _key(self, log: Log) -> None:
        kept = {
            "holder": "p-1",
            "person": "human-1",
            "credential_id": self.device.name,
            "public_key": b64(self.device.public_key),
        }
        log.add("approver_key/k-1", "key_enrolled", "PENDING", by=self.enrolled_by, detail=kept | self.enrolled)
        if self.state == "PENDING":
            return
        said = {"person": self.confirmed_as}
        log.add("approver_key/k-1", "key_confirmed", "ACTIVE", by=self.confirmed_by, detail=said)
        if self.state == "SUSPENDED":
            log.add("approver_key/k-1", "key_suspended", "SUSPENDED", by=SYSTEM, detail={"reason": "Lost."})

    def document(self, statement: bytes) -> bytes:
        answer = self.answer(self.device, challenge_bytes(statement))
        key = {"id": "k-1", "credential_id": self.device.name, "public_key": b64(self.device.public_key)}
        assertion = {"id": answer["id"], **answer["response"]}
        return canonical({"version": 1, "assertion": assertion, "key": key | self.key})


def judged(scene: Scene, **how: Any) -> Report:
    made: Draft = draft(scene.log(), **how)
    return verify(io.BytesIO(made.pack()), policy())


def broken(scene: Scene) -> str:
    report = judged(scene)
    assert report.worst is Verdict.BROKEN, report.findings
    return " ".join(finding.text for finding in report.findings)


@pytest.mark.parametrize("kind", ["p256", "ed25519"])
def test_a_signed_vote_is_verified_and_counted(kind):
    report = judged(Scene(device=Authenticator(kind, rp_id=SITE, origin=ORIGIN)))
    assert (report.worst, report.findings) == (Verdict.VERIFIED, [])
    assert report.looked["signatures"] == "1 passkey signatures"


def test_votes_without_a_signature_are_counted_separately():
    report = judged(Scene(vote={"evidence_class": "C"}, detail={"evidence_class": "C"}, has_assertion=False))
    assert report.worst is Verdict.VERIFIED
    assert report.looked["signatures"] == "1 votes without a signature"


def test_statements_of_the_first_version_are_still_verified():
    report = judged(Scene(version=1, has_assertion=False))
    assert (report.worst, report.looked["signatures"]) == (Verdict.VERIFIED, "no votes")


@pytest.mark.parametrize("version", [2, 3])
def test_statements_of_earlier_versions_are_still_verified(version):
    report = judged(Scene(version=version))
    assert (report.worst, report.looked["signatures"]) == (Verdict.VERIFIED, "1 passkey signatures")


@pytest.mark.parametrize("said", [None, "yes", 1])
def test_a_statement_that_does_not_say_whether_the_target_was_read_is_found(said):
    assert judged(Scene(vote={"without_reading": said})).worst is Verdict.BROKEN


def test_a_statement_of_a_future_version_is_not_called_verified():
    assert judged(Scene(version=5)).worst is Verdict.UNKNOWN


def test_a_statement_names_the_evidence_that_the_agent_sent():
    log = Scene(brought=b'[{"statement":"They wrote."}]').log()
    (digest,) = (
        each["digest"]
        for event in log.events
        for each in json.loads(event.data)["commitments"]
        if each["purpose"] == "agent_evidence"
    )
    report = judged(Scene(brought=b'[{"statement":"They wrote."}]', covers={"evidence_commitment": digest}))
    assert (report.worst, report.findings) == (Verdict.VERIFIED, [])


@pytest.mark.parametrize("named", ["", "cd" * 32])
def test_a_statement_about_other_evidence_than_proposed_is_broken(named):
    scene = Scene(brought=b'[{"statement":"They wrote."}]', covers={"evidence_commitment": named})
    assert "names other evidence than its action was proposed with" in broken(scene)


def test_a_signature_by_another_key_is_broken():
    other = Authenticator("p256", rp_id=SITE, origin=ORIGIN)
    scene = Scene(answer=lambda one, asked: one.answer(asked, signature=other.sign(b"anything")))
    assert "does not hold" in broken(scene)


def test_a_signature_over_another_statement_is_broken():
    assert "something else than its statement" in broken(Scene(answer=lambda one, asked: one.answer(b"\x07" * 32)))


@pytest.mark.parametrize("flags", [UP, UV, 0, UP | UV | BS])
def test_a_signature_without_user_verification_is_broken(flags):
    broken(Scene(answer=lambda one, asked: one.answer(asked, data=one.data(flags=flags))))


@pytest.mark.parametrize(
    "changes",
    [
        {"type": "webauthn.create"},
        {"crossOrigin": True},
        {"origin": "https://evil.example"},
        {"origin": "https://console.example.org.evil.example"},
        {"origin": "https://xconsole.example.org"},
        {"origin": "http://console.example.org"},
        {"origin": "https://console.example.org/path"},
        {"origin": None},
    ],
)
def test_a_signature_with_another_type_or_origin_is_broken(changes):
    scene = Scene(
        answer=lambda one, asked: one.answer(asked, client_data=one.client_data(asked, **changes)),
    )
    broken(scene)


def test_a_signature_for_another_site_is_broken():
    assert "another site" in broken(Scene(device=Authenticator("p256", rp_id="evil.example", origin=ORIGIN)))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"enrolled": {"public_key": "AAAA"}}, "its passkey is not the one that was enrolled"),
        ({"enrolled": {"credential_id": "AAAA"}}, "its passkey is not the one that was enrolled"),
        ({"enrolled": {"holder": "p-9"}, "enrolled_by": ("person", "p-9")}, "somebody else's"),
        ({"enrolled_by": ("person", "p-9")}, "a passkey was enrolled by somebody other than its holder"),
        ({"confirmed_by": HOLDER}, "second person"),
        ({"confirmed_as": "human-1"}, "second person"),
        ({"state": "PENDING"}, "its passkey was not active then"),
        ({"state": "SUSPENDED"}, "its passkey was not active then"),
        ({"has_key": False}, "never enrolled"),
        ({"key": {"credential_id": "AAAA"}}, "another passkey"),
        ({"key": {"public_key": "AAAA"}}, "its passkey is not the one that was enrolled"),
        ({"vote": {"credential_id": "AAAA"}}, "another passkey"),
        ({"vote": {"log_size": 10_000}}, "longer than it was"),
        ({"vote": {"rp_id": "evil.example"}}, "another address"),
        ({"detail": {"evidence_class": "C"}}, "its vote and its statement name different proofs"),
        ({"detail": {"reason": "I did not look."}}, "the reason of its vote differs from the one that was signed"),
        ({"has_assertion": False}, "there is no signature"),
    ],
)
def test_a_vote_whose_key_or_statement_does_not_match_is_broken(changes, words):
    """B23, B30: the key, its enrolment, its holder, its state, the statement's own words."""
    assert words in broken(Scene(**changes))


@pytest.mark.parametrize(
    "document", [b"{}", b"null", b"[]", b"\xff", canonical({"version": 1, "assertion": {}, "key": {}})]
)
def test_an_unreadable_assertion_is_broken(document, monkeypatch):
    monkeypatch.setattr(Scene, "document", lambda self, statement: document)
    broken(Scene())


def test_the_signature_of_a_key_enrolled_before_the_range_is_counted_and_checked():
    report = judged(Scene(), start=3)
    assert report.worst is Verdict.VERIFIED
    assert report.looked["signatures"] == "1 passkey signatures, 1 passkeys whose enrolment is not visible"


def test_every_flipped_bit_of_an_assertion_is_detected():
    """B30: the bytes that the browser gave are good as a whole or not at all."""

    def bent(name: str, place: int) -> Callable[[Authenticator, bytes], dict[str, Any]]:
        def answer(one: Authenticator, asked: bytes) -> dict[str, Any]:
            said = one.answer(asked)
            data = bytearray(passkeys.unbase64url(said["response"][name]))
            data[place % len(data)] ^= 1
            return json.loads(json.dumps(said)) | {"response": said["response"] | {name: b64(bytes(data))}}

        return answer

    for name in ("clientDataJSON", "authenticatorData", "signature"):
        for place in (0, 7, 20, 33, 36):
            broken(Scene(device=Authenticator("ed25519", rp_id=SITE, origin=ORIGIN), answer=bent(name, place)))
