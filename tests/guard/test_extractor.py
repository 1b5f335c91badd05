"""The optional extractor finds reports and judges nothing; where it fails, the built-in detector is asked."""

from __future__ import annotations

import json

import httpx
import pytest

from reviews.guarding.extractor import Extractor, read, reports_by

ENDPOINT = Extractor("http://127.0.0.1:9/v1/chat/completions", "small")
SLY = "Your refund will warm your heart and your wallet from today on."


def answering(content: object, status: int = 200) -> httpx.MockTransport:
    text = content if isinstance(content, str) else json.dumps(content)
    return httpx.MockTransport(lambda _: httpx.Response(status, json={"choices": [{"message": {"content": text}}]}))


def test_the_extractor_locates_the_reports_in_a_message():
    said = f"Hello. {SLY}"
    assert reports_by(ENDPOINT, said, transport=answering({"reports": [SLY]})) == ((7, len(said)),)


SENSELESS = ("no JSON", {"reports": 5}, {}, [])
REPORT = "I have booked the table for you."


@pytest.mark.parametrize("answer", [{"reports": ["never said"]}, {"reports": [""]}])
def test_words_that_are_not_in_the_message_are_ignored(answer: object):
    assert reports_by(ENDPOINT, REPORT, transport=answering(answer)) == ()


@pytest.mark.parametrize("answer", SENSELESS)
def test_the_built_in_detector_replaces_a_nonsensical_answer(answer: object):
    assert reports_by(ENDPOINT, REPORT, transport=answering(answer)) == ((0, len(REPORT)),)


def test_the_built_in_detector_replaces_a_missing_answer_or_endpoint():
    assert reports_by(ENDPOINT, REPORT, transport=answering({}, status=500)) == ((0, len(REPORT)),)
    assert reports_by(ENDPOINT, REPORT) == ((0, len(REPORT)),)
    assert reports_by(read(None), f"Hello. {REPORT} Anything else?") == ((7, 7 + len(REPORT)),)
