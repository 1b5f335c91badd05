"""What an agent says that its call rests on: read in one shape, bounded, and kept as it was sent."""

from __future__ import annotations

import pytest

from approvals.gate.rules.agent_evidence import MAX_ITEMS, EvidenceItem, parse_evidence, read_evidence, write_evidence
from approvals.gate.rules.proposals import read_call

SENT = [
    {"statement": "The customer wrote that the lamp arrived broken."},
    {"link": "https://tickets.example/7", "id": "ticket/7"},
]


def test_sent_evidence_is_kept_unchanged():
    items = read_evidence(SENT)
    assert items == (
        EvidenceItem(statement=SENT[0]["statement"]),
        EvidenceItem(link="https://tickets.example/7", id="ticket/7"),
    )
    assert [each.document() for each in parse_evidence(write_evidence(items))] == SENT
    assert read_evidence(None) == read_evidence([]) == ()
    assert len(read_evidence([{"id": "x" * 512}] * MAX_ITEMS)) == MAX_ITEMS


@pytest.mark.parametrize(
    "raw",
    [
        "They wrote.",
        {"statement": "They wrote."},
        ["They wrote."],
        [{}],
        [None],
        [{"statement": ""}],
        [{"statement": 7}],
        [{"statement": None, "id": "ticket/7"}],
        [{"statement": "They wrote.", "approved": "yes"}],
        [{"statement": "x" * 2001}],
        [{"link": "x" * 513}],
        [{"id": "x" * 513}],
        [{"id": "ticket/7"}] * (MAX_ITEMS + 1),
        [{"statement": "\ud800"}],
    ],
)
def test_malformed_evidence_refuses_the_call_and_names_the_expected_shape(raw):
    assert read_evidence(raw) is None
    call = read_call({"call_id": "c", "tool": "refund", "arguments": {}, "evidence": raw})
    assert call.evidence == ()
    assert call.fault == (
        "`evidence` is a list of at most 20 items, each with `statement` (at most 2000 characters), `link` or `id` (at"
        " most 512 each) as text, and nothing else."
    )
