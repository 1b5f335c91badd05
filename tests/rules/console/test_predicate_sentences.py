"""Predicates as sentences."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from console.web.predicate_sentences import CUSTOM, predicate_sentence


def contract(target="order/{order_id}", operation="refund", lookup=None, effects=("refund",)):
    return SimpleNamespace(
        target_template=target,
        operation_kind=operation,
        required_effects=effects,
        verification=SimpleNamespace(lookup=lookup or {}),
    )


@pytest.mark.parametrize(
    ("predicate", "sentence"),
    [
        ("sa.amount == sr.amount", "Refunded amount equals requested amount"),
        ("sa.order_id == sr.order_id", "Order ID equals requested order ID"),
        ("sa.status == 'succeeded'", "Status is \u201csucceeded\u201d"),
        ("sa.status != \"open\"", "Status is not \u201copen\u201d"),
        ("sa.effects.notice.body == sr.message", "Notice body equals requested message"),
        ("sa.version > pre.version", "Version is above version before execution"),
        ("sa.size == size(bytes(sr.text))", "Size equals size of requested text"),
        ("sa.tenant == sa.target.tenant", "Tenant equals tenant of the target"),
        ("sa.count == 1", "Exactly one refund exists"),
        ("sa.exists", "Refund exists"),
        ("!sa.exists", "Refund does not exist"),
        ("sa.paid", "Paid is true"),
        ("sa.amount == sr.amount && sa.status in ['held', 'paid']",
         "Refunded amount equals requested amount, and status is one of \u201cheld\u201d, \u201cpaid\u201d"),
        ("sa.amount * 2 == sr.amount", CUSTOM),
        ("sa.items.all(i, i.paid)", CUSTOM),
        ("sa.a == 1 || sa.b == 2", CUSTOM),
        ("sa.text == 'a && b'", "Text is \u201ca && b\u201d"),
    ],
)  # fmt: skip
def test_a_predicate_reads_as_a_sentence(predicate, sentence):
    assert predicate_sentence(predicate, contract()) == sentence


def test_a_deletion_is_described_as_gone():
    lookup = json.loads('{"effects": {"deletion": {"path": "sr.path", "expect": "absent"}}}')
    gone = contract("document/{path}", "delete", lookup, ("deletion",))
    assert predicate_sentence("sa.exists", gone) == "Document is gone"
    assert predicate_sentence("sa.effects.deletion.exists", gone) == "Document is gone"
