"""Working through the queue: claims, suggestions, threads, batches, and the limits against floods."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from approvals.gate.rules import proposals
from approvals.requests.rules import assignments, threads
from approvals.voting.rules import batches
from ledger.record.rules.refusals import NothingSelected, RateExceeded, TooManySelected

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
MARA, PAUL, INES = uuid4(), uuid4(), uuid4()


# Claims


def test_a_claim_expires():
    until = NOW + assignments.LIFE
    assert assignments.active_claim(MARA, until, at=until - timedelta(seconds=1)) == assignments.Claim(MARA, until)
    assert assignments.active_claim(MARA, until, at=until) is None
    assert assignments.active_claim(None, None, at=NOW) is None


def test_only_other_people_are_warned_of_a_claim():
    claim = assignments.Claim(MARA, NOW)
    assert assignments.claim_of_another(claim, me=MARA) is None
    assert assignments.claim_of_another(claim, me=PAUL) == claim
    assert assignments.claim_of_another(None, me=PAUL) is None


def test_the_least_busy_person_is_suggested():
    assert assignments.least_loaded([MARA, PAUL, INES], {MARA: 3, PAUL: 1, INES: 1}) == PAUL
    assert assignments.least_loaded([MARA, PAUL], {MARA: 1}) == PAUL
    assert assignments.least_loaded([], {}) is None


# Threads

MEMBERS = [
    (MARA, "mara@orchid.example", "Mara Stein"),
    (PAUL, "paul@orchid.example", "Paul Weiss"),
    (INES, "ines.ruiz@orchid.example", "Ines Ruiz"),
]


@dataclass
class Line:
    kind: str
    id: UUID
    answers: UUID | None = None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("@mara please look", [MARA]),
        ("Ask @MaraStein, @paul@orchid.example and @mara.", [MARA, PAUL]),
        ("(@ines.ruiz)", [INES]),
        ("mail mara@orchid.example", []),
        ("@@paul @nobody @", []),
        ("a\n@paul\n", [PAUL]),
    ],
)
def test_members_are_mentioned_by_name(text, found):
    assert threads.find_mentions(text, threads.mention_handles(MEMBERS)) == found


def test_an_ambiguous_name_mentions_nobody():
    known = threads.mention_handles([*MEMBERS, (uuid4(), "mara@elsewhere.example", "Mara Klein")])
    assert threads.find_mentions("@mara", known) == []
    assert threads.find_mentions("@mara@orchid.example", known) == [MARA]


def test_a_comment_must_not_be_empty_or_too_long():
    assert threads.check_text("  Yes.\n") == "Yes."
    with pytest.raises(threads.NothingSaid):
        threads.check_text(" \n ")
    with pytest.raises(threads.TooLong, match="2000 are allowed"):
        threads.check_text("x" * 2001, longest=threads.LONGEST_ANSWER)


def test_a_question_is_open_until_its_answer():
    first, second = uuid4(), uuid4()
    lines = [Line("question", first), Line("comment", uuid4()), Line("question", second)]
    assert [line.id for line in threads.open_questions(lines)] == [first, second]
    assert [line.id for line in threads.open_questions([*lines, Line("answer", uuid4(), first)])] == [second]


# Batches

ITEM = batches.BatchItem(
    id=uuid4(),
    tool="write_note",
    contract_digest="c",
    policy_digest="p",
    side_effect_class="LOW_RISK_INTERNAL",
    reversibility="REVERSIBLE",
    risk="LOW",
    step_up="C",
    allowed=True,
    most=3,
)


def test_low_risk_items_of_one_kind_form_a_batch():
    batches.check_batch([ITEM, replace(ITEM, id=uuid4()), replace(ITEM, id=uuid4(), step_up="B")])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"side_effect_class": "CRITICAL_MUTATION"}, "critical"),
        ({"reversibility": "IRREVERSIBLE"}, "undone"),
        ({"risk": "NORMAL"}, "risk"),
        ({"risk": ""}, "risk"),
        ({"step_up": "A"}, "passkey"),
        ({"allowed": False}, "policy"),
    ],
)
def test_a_risky_item_is_refused_in_a_batch(change, said):
    """B39: whatever the policy says, an item that is grave is decided on its own page."""
    with pytest.raises(batches.NotForBatches, match=said):
        batches.check_batch([ITEM, replace(ITEM, **change)])


@pytest.mark.parametrize("change", [{"tool": "x"}, {"contract_digest": "x"}, {"policy_digest": "x"}])
def test_items_of_different_kinds_are_refused_in_a_batch(change):
    with pytest.raises(batches.NotOfOneKind):
        batches.check_batch([ITEM, replace(ITEM, **change)])


def test_a_batch_is_limited_by_its_policy_and_by_the_product():
    with pytest.raises(TooManySelected, match="3 at most"):
        batches.check_batch([replace(ITEM, id=uuid4()) for _ in range(4)])
    with pytest.raises(TooManySelected, match="50 at most"):
        batches.check_batch([replace(ITEM, id=uuid4(), most=1000) for _ in range(51)])
    with pytest.raises(NothingSelected):
        batches.check_batch([])


# Floods


@pytest.mark.parametrize(("open_now", "most", "flood"), [(0, 1, False), (1, 1, True), (9, 0, False), (9, 10, False)])
def test_the_number_of_waiting_approvals_of_an_agent_is_limited(open_now, most, flood):
    """B38: the next call of an agent that floods is refused."""
    assert proposals.is_flood(open_now, most=most) is flood


def test_the_number_of_votes_per_minute_is_limited():
    """B38: so many votes in a minute, and no more."""
    given = [NOW - timedelta(seconds=second) for second in (1, 30, 59, 60, 90)]
    proposals.check_voting_rate(given, most=4, at=NOW)
    with pytest.raises(RateExceeded, match="You have voted too many times"):
        proposals.check_voting_rate(given, most=3, at=NOW)
    proposals.check_voting_rate(given, most=0, at=NOW)
