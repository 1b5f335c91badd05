"""The optional extractor is a detector: it finds reports, judges nothing, and never stands in the guard's way."""

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


def test_it_finds_the_places_of_reports():
    said = f"Hello. {SLY}"
    assert reports_by(ENDPOINT, said, transport=answering({"reports": [SLY]})) == ((7, len(said)),)


SENSELESS = ("no JSON", {"reports": ["never said"]}, {"reports": [""]}, {"reports": 5}, {}, [])


@pytest.mark.parametrize("answer", SENSELESS)
def test_a_senseless_answer_finds_nothing(answer: object):
    assert reports_by(ENDPOINT, SLY, transport=answering(answer)) == ()


def test_no_answer_finds_nothing():
    assert reports_by(ENDPOINT, SLY, transport=answering({}, status=500)) == ()
    assert reports_by(ENDPOINT, SLY) == ()
    assert reports_by(read(None), SLY) == ()
