"""The optional extractor adds claims, clears none, and never stands in the guard's way."""

from __future__ import annotations

import json

import httpx
import pytest

from reviews.operations.extracting import Extractor, extracted, read
from reviews.rules.guard.records import Ground, Tool
from reviews.rules.guard.verdict import judge

GROUND = Ground((Tool("issue_refund", done=("refunded",), object=("refund",)),), ())
ENDPOINT = Extractor("http://127.0.0.1:9/v1/chat/completions", "small")
SLY = "Your refund will warm your heart and your wallet from today on."


def answering(content: object, status: int = 200) -> httpx.MockTransport:
    text = content if isinstance(content, str) else json.dumps(content)
    return httpx.MockTransport(lambda _: httpx.Response(status, json={"choices": [{"message": {"content": text}}]}))


@pytest.mark.req("R-CG-17")
def test_what_it_sees_is_judged_like_any_other_claim():
    found = extracted(ENDPOINT, SLY, transport=answering({"claims": [{"quote": SLY, "kind": "done"}]}))
    assert judge(SLY, GROUND).verdict == "ALLOW"
    verdict = judge(SLY, GROUND, extra=found)
    assert verdict.verdict == "BLOCK"
    assert [each.rule for each in verdict.violations] == ["extractor"]
    assert verdict.corrected is not None


def test_it_clears_nothing():
    lie = "I have refunded your charge."
    found = extracted(ENDPOINT, lie, transport=answering({"claims": []}))
    assert judge(lie, GROUND, extra=found) == judge(lie, GROUND)


SENSELESS = (
    "no JSON",
    {"claims": [{"quote": "never said", "kind": "done"}]},
    {"claims": [{"quote": SLY, "kind": "x"}]},
    {},
    [],
)


@pytest.mark.parametrize("answer", SENSELESS)
def test_a_senseless_answer_is_none(answer: object):
    assert extracted(ENDPOINT, SLY, transport=answering(answer)) == ()


def test_no_answer_is_none():
    assert extracted(ENDPOINT, SLY, transport=answering({}, status=500)) == ()
    assert extracted(ENDPOINT, SLY) == ()
    assert extracted(read(None), SLY) == ()
