from __future__ import annotations

from contextlib import nullcontext
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from approvals.voting.rules import binding
from approvals.voting.rules.binding import Coverage, CurrentState, DisplayedDigests, VoteChoice, Voter, VoteStatement
from ledger.people.rules.statements import NotAStatement, coverage_digest
from ledger.record.rules.canonical import canonical, parse
from ledger.record.rules.outcomes import is_as_strong
from ledger.record.rules.refusals import AlreadyDecided, ProofNeeded, ReasonMissing, Refused
from tests.support.tables import every_row

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
COVERAGE = Coverage(
    installation="https://console.example",
    environment="production",
    tenant="t-1",
    approval_id="p-1",
    action_id="a-1",
    revision=1,
    payload_hash="11" * 32,
    payload_commitment="1a" * 32,
    payload_length=42,
    evidence_commitment="1b" * 32,
    tool="issue_refund",
    tool_version="1.2.0",
    contract_digest="22" * 32,
    target_resource="charge/ch_1",
    precondition="2b" * 32,
    side_effect_class="HIGH_RISK_EXTERNAL",
    reversibility="IRREVERSIBLE",
    amount="12500",
    currency="EUR",
    max_uses=1,
    agent="agent-actor",
    agent_version="3",
    run_id="run-1",
    session_pin="33" * 32,
    on_behalf_of="key-owner",
    policy="approval",
    policy_version="7",
    policy_digest="44" * 32,
    policy_row="IRREVERSIBLE",
    quorum_digest="4a" * 32,
    step_up="C",
    preflight_digest="4b" * 32,
    rendering_digest="55" * 32,
    renderer="fields-1",
    locale="en-gb",
)
VOTE = VoteStatement(
    statement_id="st-1",
    nonce="77" * 32,
    voter="person-1",
    person="human-1",
    role="reviewer",
    groups=("finance", "reviewers"),
    delegated_by="",
    verdict=VoteChoice.APPROVE,
    reason_commitment="66" * 32,
    without_reading=False,
    evidence_class="C",
    credential_id="",
    rp_id="",
    issued_at=NOW,
    not_before=NOW,
    expires_at=NOW + timedelta(minutes=15),
    log_origin="console.example/counterfoil/1",
    log_size=120,
    log_root="88" * 32,
)
VOTER = Voter(actor="person-1", roles=frozenset({"reviewer"}), evidence_class="C")
SEEN = DisplayedDigests(payload_hash=COVERAGE.payload_hash, rendering_digest=COVERAGE.rendering_digest)
CURRENT = CurrentState(
    payload_hash=COVERAGE.payload_hash,
    contract_digest=COVERAGE.contract_digest,
    policy_digest=COVERAGE.policy_digest,
    frozen=False,
)


# The statement


def test_a_written_statement_is_read_back():
    assert binding.read_statement(binding.statement(COVERAGE, VOTE)) == (COVERAGE, VOTE)


@given(
    st.text(alphabet=st.characters(exclude_categories=["Cs"])),
    st.sampled_from(VoteChoice),
    st.datetimes(min_value=datetime(2000, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
)
def test_any_text_verdict_and_time_survive_a_round_trip(text, verdict, at):
    coverage = replace(COVERAGE, target_resource=text)
    vote = replace(VOTE, voter=text, verdict=verdict, issued_at=at)

    assert binding.read_statement(binding.statement(coverage, vote)) == (coverage, vote)


def test_a_statement_of_the_version_without_evidence_is_read():
    """Whoever was asked before an update may still answer after it."""
    before = binding.statement(COVERAGE, VOTE, version=2)
    assert "evidence_commitment" not in parse(before)["covers"]
    assert binding.read_statement(before) == (replace(COVERAGE, evidence_commitment=""), VOTE)


def test_a_statement_from_before_the_reading_is_read_as_one_that_knows_nothing_of_it():
    before = binding.statement(COVERAGE, VOTE, version=3)
    assert "without_reading" not in parse(before)["vote"]
    assert binding.read_statement(before) == (COVERAGE, VOTE)


@pytest.mark.parametrize("verdict", [VoteChoice.APPROVE, VoteChoice.BREAK_GLASS])
def test_an_approval_without_a_reading_says_so_in_words_that_are_signed(verdict):
    said = parse(binding.statement(COVERAGE, replace(VOTE, verdict=verdict, without_reading=True)))["vote"]

    assert said["without_reading"] is True
    assert said["meaning"] == f"{binding.MEANING[verdict]} I do so knowing that its target has not been read."


@pytest.mark.parametrize(
    ("ticked", "reading", "refusal"),
    [
        (False, "not taken", binding.TargetUnread),
        (True, "not taken", None),
        (False, "taken", None),
        (True, "taken", binding.StatementChanged),
        (False, "not possible", None),
        (True, "not possible", None),
    ],
)
def test_a_vote_says_of_the_reading_what_holds(ticked, reading, refusal):
    seen = replace(SEEN, without_reading=ticked)
    with pytest.raises(refusal) if refusal else nullcontext():
        binding.check_reading(seen, is_read=reading == "taken", is_unread=reading == "not taken")


def other_than(name):
    return 2 if isinstance(getattr(COVERAGE, name), int) else "other"


COVERED = [field.name for field in fields(Coverage)]


@pytest.mark.req("R-AP-05", "R-AP-06")
@every_row("name", COVERED)
def test_any_changed_field_of_the_coverage_changes_the_statement(name):
    """B1: one test per field of the coverage."""
    changed = replace(COVERAGE, **{name: other_than(name)})

    assert binding.statement(changed, VOTE) != binding.statement(COVERAGE, VOTE)
    assert coverage_digest(changed) != coverage_digest(COVERAGE)


@pytest.mark.req("R-AP-05", "R-AP-06")
@every_row("name", COVERED)
def test_a_statement_that_does_not_match_the_present_is_refused(name):
    """B1: any single bound field changed between the statement and the vote."""
    changed = replace(COVERAGE, **{name: other_than(name)})
    codes = {"payload": "PAYLOAD_CHANGED", "contract": "CONTRACT_CHANGED", "rendering": "RENDERING_CHANGED"}
    codes |= {"renderer": "RENDERING_CHANGED", "locale": "RENDERING_CHANGED"}
    wanted = "POLICY_CHANGED" if name == "policy_digest" else codes.get(name.split("_")[0], "STATEMENT_CHANGED")

    binding.check_covered(COVERAGE, COVERAGE)
    for said, now in ((COVERAGE, changed), (changed, COVERAGE)):
        with pytest.raises(Refused) as refusal:
            binding.check_covered(said, now)
        assert (refusal.value.code, refusal.value.status) == (wanted, 409)


def test_a_statement_names_every_bound_field():
    """B1: the column Statement of the table of bound fields."""
    said = parse(binding.statement(COVERAGE, VOTE))

    assert (said["domain"], said["version"], said["type"]) == ("counterfoil-approval-statement", 4, "vote")
    assert said["payload"] == {"media_type": "application/json", "canonicalisation": "RFC 8785, integers only"}
    assert set(said) == {"domain", "version", "type", "covers", "payload", "vote"}
    assert set(said["covers"]) == set(COVERED)
    assert set(said["vote"]) == {field.name for field in fields(VoteStatement)} | {"meaning"}


DENIALS = [VoteChoice.REJECT, VoteChoice.REQUEST_CHANGES]


@pytest.mark.parametrize("verdict", DENIALS)
@pytest.mark.parametrize("evidence_class", ["A", "B", "C", "D"])
def test_step_up_never_blocks_a_rejection(verdict, evidence_class):
    strict, voter = replace(COVERAGE, step_up="A"), replace(VOTER, evidence_class=evidence_class)

    vote(coverage=strict, voter=voter, verdict=verdict, reason="No.")


@pytest.mark.parametrize("evidence_class", ["", "E", "AB", "d"])
def test_a_rejection_without_a_session_does_not_count(evidence_class):
    with pytest.raises(ProofNeeded):
        vote(voter=replace(VOTER, evidence_class=evidence_class), verdict=VoteChoice.REJECT, reason="No.")


@pytest.mark.parametrize(("evidence_class", "step_up"), [("D", "C"), ("C", "B"), ("C", "A"), ("B", "A"), ("", "C")])
def test_an_approval_weaker_than_the_policy_requires_is_refused(evidence_class, step_up):
    with pytest.raises(ProofNeeded):
        vote(coverage=replace(COVERAGE, step_up=step_up), voter=replace(VOTER, evidence_class=evidence_class))


def test_a_vote_on_an_outdated_page_is_refused():
    """B1, B37: a stale tab."""
    vote(seen=replace(SEEN, covers=coverage_digest(COVERAGE)))
    with pytest.raises(binding.StatementChanged):
        vote(seen=replace(SEEN, covers=coverage_digest(replace(COVERAGE, precondition="other"))))


@pytest.mark.parametrize("name", [field.name for field in fields(VoteStatement)])
def test_any_changed_field_of_the_vote_changes_the_statement(name):
    others = {
        "verdict": VoteChoice.REJECT,
        "groups": ("reviewers",),
        "issued_at": NOW - timedelta(1),
        "not_before": NOW - timedelta(1),
        "expires_at": NOW + timedelta(1),
        "log_size": 121,
        "without_reading": True,
    }
    changed = replace(VOTE, **{name: others.get(name, "other")})

    assert binding.statement(COVERAGE, changed) != binding.statement(COVERAGE, VOTE)


def test_a_statement_contains_the_meaning_of_its_signature():
    said = parse(binding.statement(COVERAGE, VOTE))

    assert said["domain"] == "counterfoil-approval-statement"
    assert "authorise" in said["vote"]["meaning"]
    assert set(binding.MEANING) == set(VoteChoice)


def damaged_statements():
    said = parse(binding.statement(COVERAGE, VOTE))
    yield b""
    yield b"{}"
    yield b"[]"
    yield b"null"
    yield binding.statement(COVERAGE, VOTE) + b" "
    yield canonical(said | {"domain": "other"})
    yield canonical(said | {"version": 1})
    yield canonical(said | {"version": 2})
    yield canonical(said | {"version": 3})
    yield canonical(said | {"version": 5})
    yield canonical(said | {"vote": said["vote"] | {"without_reading": True}})
    yield canonical(said | {"vote": said["vote"] | {"without_reading": 0}})
    yield canonical(said | {"type": "grant"})
    yield canonical(said | {"vote": said["vote"] | {"groups": "reviewers"}})
    yield canonical(said | {"vote": said["vote"] | {"groups": [1]}})
    yield canonical(said | {"vote": said["vote"] | {"log_size": "120"}})
    yield canonical(said | {"covers": said["covers"] | {"max_uses": True}})
    yield canonical(said | {"extra": 1})
    yield canonical(said | {"covers": said["covers"] | {"extra": "1"}})
    yield canonical(said | {"covers": {}})
    yield canonical(said | {"covers": said["covers"] | {"revision": "1"}})
    yield canonical(said | {"covers": said["covers"] | {"revision": True}})
    yield canonical(said | {"covers": said["covers"] | {"tenant": 1}})
    yield canonical(said | {"covers": []})
    yield canonical(said | {"vote": said["vote"] | {"voter": 1}})
    yield canonical(said | {"vote": said["vote"] | {"extra": "1"}})
    yield canonical(said | {"vote": said["vote"] | {"verdict": "maybe"}})
    yield canonical(said | {"vote": said["vote"] | {"verdict": "reject"}})
    yield canonical(said | {"vote": said["vote"] | {"meaning": "I have not looked."}})
    yield canonical(said | {"vote": said["vote"] | {"issued_at": "2030-01-01T12:00:00Z"}})
    yield canonical(said | {"vote": said["vote"] | {"issued_at": "2030-01-01T12:00:00"}})
    yield canonical(said | {"vote": said["vote"] | {"issued_at": "now"}})


@pytest.mark.parametrize("data", list(damaged_statements()))
def test_anything_that_is_not_a_statement_is_refused(data):
    with pytest.raises(NotAStatement):
        binding.read_statement(data)


# Votes


def vote(**changes):
    facts = {
        "verdict": VoteChoice.APPROVE,
        "voter": VOTER,
        "requesters": frozenset({"agent-actor", "key-owner"}),
        "undecided": True,
        "decide_by": NOW + timedelta(minutes=1),
        "seen": SEEN,
        "frozen": False,
        "reason": "",
        "at": NOW,
    }
    coverage = changes.pop("coverage", COVERAGE)
    binding.check_vote(coverage, **(facts | changes))


def test_a_vote_by_a_reviewer_on_the_shown_request_counts():
    vote()


@pytest.mark.req("R-AP-08", "R-AP-11", "R-AP-12", "R-AP-17", "R-AP-23", "R-UI-04")
@pytest.mark.parametrize(
    ("changes", "refusal", "status"),
    [
        ({"voter": replace(VOTER, roles=frozenset())}, binding.NotEligible, 403),
        ({"voter": replace(VOTER, roles=frozenset({"administrator", "operator"}))}, binding.NotEligible, 403),
        ({"voter": replace(VOTER, actor="agent-actor")}, binding.SelfApproval, 403),
        ({"voter": replace(VOTER, actor="key-owner")}, binding.SelfApproval, 403),
        ({"undecided": False}, AlreadyDecided, 409),
        ({"decide_by": NOW}, binding.ApprovalLapsed, 409),
        ({"seen": replace(SEEN, payload_hash="00" * 32)}, binding.PayloadChanged, 409),
        ({"seen": replace(SEEN, payload_hash="")}, binding.PayloadChanged, 409),
        ({"seen": replace(SEEN, rendering_digest="00" * 32)}, binding.RenderingChanged, 409),
        ({"frozen": True}, binding.TargetFrozen, 409),
        ({"coverage": replace(COVERAGE, step_up="B")}, ProofNeeded, 403),
        ({"voter": replace(VOTER, evidence_class="")}, ProofNeeded, 403),
        ({"verdict": VoteChoice.REJECT}, ReasonMissing, 422),
        ({"verdict": VoteChoice.REQUEST_CHANGES, "reason": " \n"}, ReasonMissing, 422),
    ],
)
def test_one_changed_fact_voids_the_vote(changes, refusal, status):
    with pytest.raises(refusal) as caught:
        vote(**changes)

    assert caught.value.status == status


def test_a_request_on_a_frozen_target_can_still_be_rejected():
    vote(frozen=True, verdict=VoteChoice.REJECT, reason="Frozen.")


@pytest.mark.parametrize("given_class", ["A", "B", "C", "", "D", "AB", "a"])
@pytest.mark.parametrize("wanted", ["A", "B", "C"])
def test_a_stronger_proof_counts_as_a_weaker_one_and_never_the_reverse(given_class, wanted):
    known = {"A": 3, "B": 2, "C": 1}

    assert is_as_strong(given_class, wanted) is (known.get(given_class, 0) >= known[wanted])


# Release


def release(**changes):
    facts = {"granted": True, "release_by": NOW + timedelta(minutes=1), "now": CURRENT, "at": NOW}
    binding.check_release(COVERAGE, **(facts | changes))


def test_a_granted_approval_that_still_matches_is_released():
    release()


@pytest.mark.req("R-AP-05", "R-AP-06", "R-AP-08", "R-AP-09", "R-AP-24", "R-EX-15")
@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"granted": False}, binding.ApprovalRequired),
        ({"release_by": None}, binding.ApprovalRequired),
        ({"release_by": NOW}, binding.ApprovalExpired),
        ({"now": replace(CURRENT, payload_hash="00" * 32)}, binding.PayloadChanged),
        ({"now": replace(CURRENT, contract_digest="00" * 32)}, binding.ContractChanged),
        ({"now": replace(CURRENT, policy_digest="00" * 32)}, binding.PolicyChanged),
        ({"now": replace(CURRENT, frozen=True)}, binding.TargetFrozen),
    ],
)
def test_one_changed_fact_prevents_the_release(changes, refusal):
    with pytest.raises(refusal):
        release(**changes)


def test_the_same_changes_prevent_the_release_of_an_action_without_approval():
    validated = {
        "payload_hash": COVERAGE.payload_hash,
        "contract_digest": COVERAGE.contract_digest,
        "policy_digest": COVERAGE.policy_digest,
    }
    binding.check_unapproved_release(**validated, now=CURRENT)

    with pytest.raises(binding.TargetFrozen):
        binding.check_unapproved_release(**validated, now=replace(CURRENT, frozen=True))
