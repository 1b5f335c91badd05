"""Problems: every refusal has one shape, and nothing that a client sends is answered with a fault of ours."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import LazySettings

from console.api import rate
from tests.callers import Api
from tests.workshop import Workshop


def a_problem(answer: Any, status: int, code: str) -> dict[str, Any]:
    """The problem in an answer, which must be one (RFC 9457)."""
    assert answer["Content-Type"] == "application/problem+json", answer.content
    problem: dict[str, Any] = answer.json()
    assert {"type", "title", "status", "code", "detail"} <= problem.keys()
    assert problem.keys() <= {"type", "title", "status", "code", "detail", "hint", "errors"}
    assert (answer.status_code, problem["status"], problem["code"]) == (status, status, code), problem
    assert problem["code"] == problem["code"].upper()
    assert problem["detail"].endswith((".", "?")), problem["detail"]
    for error in problem.get("errors", []):
        assert error.keys() == {"path", "code", "detail"}
    return problem


@pytest.fixture
def limited(settings: LazySettings, valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> LazySettings:
    settings.REDIS_URL = valkey_url
    settings.COUNTERFOIL_RATE_PER_S = 3
    monkeypatch.setattr(rate, "_away_until", 0.0)
    return settings


def test_a_key_over_its_rate_is_told_when_to_come_back(
    agent: Api, operator_key: Api, limited: LazySettings, clock: Any
):
    clock.stop()
    assert [agent.get("/actions").status_code for _ in range(3)] == [200] * 3
    answer = agent.get("/actions")
    a_problem(answer, 429, "RATE_LIMITED")
    assert answer["Retry-After"] == "1"
    assert operator_key.get("/actions").status_code == 200
    clock.forward(seconds=1)
    assert agent.get("/actions").status_code == 200


def test_without_a_broker_nothing_is_limited(agent: Api, limited: LazySettings):
    limited.REDIS_URL = "redis://127.0.0.1:1/0"
    assert {agent.get("/actions").status_code for _ in range(6)} == {200}


def test_a_limit_of_nothing_is_no_limit(shop: Workshop, limited: LazySettings):
    limited.COUNTERFOIL_RATE_PER_S = 0
    assert {shop.agent.get("/actions").status_code for _ in range(6)} == {200}
