from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from approvals.rules import binding
from approvals.rules.binding import Coverage, Current, Seen, Verdict, Vote, Voter
from ledger.rules.canonical import canonical, parse

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
COVERAGE = Coverage(
    installation="https://console.example",
    tenant="t-1",
    approval_id="p-1",
    action_id="a-1",
    revision=1,
    payload_hash="11" * 32,
    payload_length=42,
    tool="issue_refund",
    tool_version="1.2.0",
    contract_digest="22" * 32,
    target_resource="charge/ch_1",
    side_effect_class="HIGH_RISK_EXTERNAL",
    reversibility="IRREVERSIBLE",
    agent="agent-actor",
    agent_version="3",
    run_id="run-1",
    session_pin="33" * 32,
    policy_version="7",
    policy_digest="44" * 32,
    policy_row="IRREVERSIBLE",
    step_up="C",
    rendering_digest="55" * 32,
    renderer="fields-1",
)
VOTE = Vote(
    statement_id="st-1",
    voter="person-1",
    role="reviewer",
    verdict=Verdict.APPROVE,
    reason_commitment="66" * 32,
    evidence_class="C",
    issued_at=NOW,
    expires_at=NOW + timedelta(minutes=15),
)
VOTER = Voter(actor="person-1", roles=frozenset({"reviewer"}), evidence_class="C")
SEEN = Seen(payload_hash=COVERAGE.payload_hash, rendering_digest=COVERAGE.rendering_digest)
CURRENT = Current(
    payload_hash=COVERAGE.payload_hash,
    contract_digest=COVERAGE.contract_digest,
    policy_digest=COVERAGE.policy_digest,
    frozen=False,
)


# The statement


def test_reading_a_statement_gives_what_was_written():
    assert binding.read_statement(binding.statement(COVERAGE, VOTE)) == (COVERAGE, VOTE)


@given(
    st.text(alphabet=st.characters(exclude_categories=["Cs"])),
    st.sampled_from(Verdict),
    st.datetimes(min_value=datetime(2000, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
)
def test_reading_undoes_writing_for_any_text_verdict_and_time(text, verdict, at):
    coverage = replace(COVERAGE, target_resource=text)
    vote = replace(VOTE, voter=text, verdict=verdict, issued_at=at)

    assert binding.read_statement(binding.statement(coverage, vote)) == (coverage, vote)


@pytest.mark.req("R-AP-05", "R-AP-06")
@pytest.mark.parametrize("name", [field.name for field in fields(Coverage)])
def test_any_changed_field_of_the_coverage_is_another_statement(name):
    other = 2 if isinstance(getattr(COVERAGE, name), int) else "other"
    changed = replace(COVERAGE, **{name: other})

    assert binding.statement(changed, VOTE) != binding.statement(COVERAGE, VOTE)


@pytest.mark.parametrize("name", [field.name for field in fields(Vote)])
def test_any_changed_field_of_the_vote_is_another_statement(name):
    others = {"verdict": Verdict.REJECT, "issued_at": NOW - timedelta(1), "expires_at": NOW + timedelta(1)}
    changed = replace(VOTE, **{name: others.get(name, "other")})

    assert binding.statement(COVERAGE, changed) != binding.statement(COVERAGE, VOTE)


def test_a_statement_says_what_the_signature_means():
    said = parse(binding.statement(COVERAGE, VOTE))

    assert said["domain"] == "counterfoil-approval-statement"
    assert "authorise" in said["vote"]["meaning"]
    assert set(binding.MEANING) == set(Verdict)


def damaged_statements():
    said = parse(binding.statement(COVERAGE, VOTE))
    yield b""
    yield b"{}"
    yield b"[]"
    yield b"null"
    yield binding.statement(COVERAGE, VOTE) + b" "
    yield canonical(said | {"domain": "other"})
    yield canonical(said | {"version": 2})
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
def test_anything_that_was_not_written_as_a_statement_is_refused(data):
    with pytest.raises(binding.NotAStatement):
        binding.read_statement(data)


# Votes


def vote(**changes):
    facts = {
        "verdict": Verdict.APPROVE,
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


def test_a_vote_by_a_reviewer_on_what_is_shown_counts():
    vote()


@pytest.mark.req("R-AP-08", "R-AP-11", "R-AP-12", "R-AP-17", "R-AP-23", "R-UI-04")
@pytest.mark.parametrize(
    ("changes", "refusal", "status"),
    [
        ({"voter": replace(VOTER, roles=frozenset())}, binding.NotEligible, 403),
        ({"voter": replace(VOTER, roles=frozenset({"administrator", "operator"}))}, binding.NotEligible, 403),
        ({"voter": replace(VOTER, actor="agent-actor")}, binding.SelfApproval, 403),
        ({"voter": replace(VOTER, actor="key-owner")}, binding.SelfApproval, 403),
        ({"undecided": False}, binding.AlreadyDecided, 409),
        ({"decide_by": NOW}, binding.ApprovalLapsed, 409),
        ({"seen": replace(SEEN, payload_hash="00" * 32)}, binding.PayloadChanged, 409),
        ({"seen": replace(SEEN, payload_hash="")}, binding.PayloadChanged, 409),
        ({"seen": replace(SEEN, rendering_digest="00" * 32)}, binding.RenderingChanged, 409),
        ({"frozen": True}, binding.TargetFrozen, 409),
        ({"coverage": replace(COVERAGE, step_up="B")}, binding.StepUpRequired, 403),
        ({"voter": replace(VOTER, evidence_class="")}, binding.StepUpRequired, 403),
        ({"verdict": Verdict.REJECT}, binding.ReasonRequired, 422),
        ({"verdict": Verdict.REQUEST_CHANGES, "reason": " \n"}, binding.ReasonRequired, 422),
    ],
)
def test_one_changed_fact_refuses_the_vote(changes, refusal, status):
    with pytest.raises(refusal) as caught:
        vote(**changes)

    assert caught.value.status == status


def test_a_frozen_target_can_still_be_refused():
    vote(frozen=True, verdict=Verdict.REJECT, reason="Frozen.")


@pytest.mark.parametrize("given_class", ["A", "B", "C", "", "D", "AB", "a"])
@pytest.mark.parametrize("wanted", ["A", "B", "C"])
def test_a_stronger_proof_serves_where_a_weaker_is_asked_and_never_the_other_way(given_class, wanted):
    known = {"A": 3, "B": 2, "C": 1}

    assert binding.is_as_strong(given_class, wanted) is (known.get(given_class, 0) >= known[wanted])


# Release


def release(**changes):
    facts = {"granted": True, "release_by": NOW + timedelta(minutes=1), "now": CURRENT, "at": NOW}
    binding.check_release(COVERAGE, **(facts | changes))


def test_a_granted_approval_of_what_still_holds_releases():
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
def test_one_changed_fact_stops_the_release(changes, refusal):
    with pytest.raises(refusal):
        release(**changes)


def test_an_action_without_approval_is_stopped_by_the_same_changes():
    validated = {
        "payload_hash": COVERAGE.payload_hash,
        "contract_digest": COVERAGE.contract_digest,
        "policy_digest": COVERAGE.policy_digest,
    }
    binding.check_unapproved_release(**validated, now=CURRENT)

    with pytest.raises(binding.TargetFrozen):
        binding.check_unapproved_release(**validated, now=replace(CURRENT, frozen=True))
