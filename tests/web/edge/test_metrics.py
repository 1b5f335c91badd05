"""Figures for a monitor and for the page of hallucinations: equal to what was done, by hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.api_tenant import DELETE, Clock, Workshop, result
from tests.support.callers import new_client


def scraped(shop: Workshop) -> dict[str, float]:
    answer = shop.operator_key.get("/metrics")
    assert answer.status_code == 200
    assert answer["Content-Type"].startswith("text/plain; version=0.0.4")
    return {
        sample.labels.get("code", sample.name): sample.value
        for family in text_string_to_metric_families(answer.content.decode())
        for sample in family.samples
        if sample.labels["tenant"] == shop.slug
    }


def shown(shop: Workshop) -> dict[str, int]:
    page = shop.reviewer.client.get(f"/t/{shop.slug}/calls/hallucinations").content.decode()
    return {code: int(times) for code, times in re.findall(r'data-code="(HS-\d\d)">(\d+)<', page)}


@pytest.mark.req("R-MT-02", "R-MT-03")
def test_the_shares_are_those_of_the_calls(shop: Workshop, clock: Clock):
    shop.call(arguments={"path": "old/one.md", "reason": "It is out of date."})
    error = {"code": "REFUSED", "message": "no route", "phase": "before_send"}
    started = shop.started()
    shop.observe(started, result=result(status="failed", evidence=None, error=error))
    clock.forward(seconds=90)
    assert shop.read_back(started["action_id"], clock) == "FAILED"
    shop.call("delete_documents_now")
    shop.call(arguments={"file": "x.md"})
    shop.call(arguments={"path": 7})
    shop.operator_key.post("/agents", {"agent_id": "librarian", "version": "2", "tools": ["write_document"]})
    shop.call("delete_document")
    found = scraped(shop)
    assert found["counterfoil_gate_calls"] == 6
    assert found["counterfoil_gate_acceptance_rate"] == pytest.approx(2 / 6)
    assert found["counterfoil_attempted_undisclosed_calls"] == 1
    assert found["counterfoil_phantom_tool_rate"] == pytest.approx(1 / 6)
    assert found["counterfoil_argument_hallucination_rate"] == pytest.approx(2 / 6)
    assert found["counterfoil_valid_call_rate"] == pytest.approx(1 / 6)
    assert found["counterfoil_valid_call_execution_failure_rate"] == pytest.approx(1 / 6)


def test_a_share_of_nothing_is_left_out(shop: Workshop):
    found = scraped(shop)
    assert found["counterfoil_gate_calls"] == 0
    assert "counterfoil_valid_call_rate" not in found


@pytest.mark.req("R-HS-15")
def test_each_pattern_that_is_met_is_counted_under_its_code(shop: Workshop, clock: Clock):
    before = scraped(shop)
    assert {code for code in before if code.startswith("HS-")} == {f"HS-{number:02}" for number in range(1, 15)}
    assert sum(value for code, value in before.items() if code.startswith("HS-")) == 0
    # A refused payload, the same call twice, an action that was never tried; a timeout that nobody took for anything.
    shop.call(arguments={"file": "x.md"})
    session = shop.session()["session_id"]
    shop.agent.post(f"/sessions/{session}/guard", {"message": "I have deleted old/one.md."})
    started = shop.started()
    shop.call()
    timeout = {"code": "TIMED_OUT", "message": "No answer.", "phase": "unknown"}
    shop.observe(started, result=result(status="timeout", evidence=None, error=timeout))
    after = scraped(shop)
    met = {code: after[code] for code in after if code.startswith("HS-") and after[code]}
    assert met == {"HS-01": 1, "HS-02": 1, "HS-06": 1}
    assert {code: times for code, times in shown(shop).items() if times} == met
    # They are those of a window, which passes.
    clock.forward(hours=25)
    assert {code for code, value in scraped(shop).items() if code.startswith("HS-") and value} == set()


@pytest.mark.req("R-HS-15")
def test_an_ordinary_asynchronous_answer_that_is_read_back_counts_for_nothing(
    shop: Workshop, clock: Clock, tmp_path: Path
):
    started = shop.started()
    shop.observe(started, result=result(status="accepted", evidence=None))
    (tmp_path / "documents" / DELETE["path"]).unlink()
    clock.forward(seconds=90)
    assert shop.read_back(started["action_id"], clock) == "RECONCILED_SUCCESS"
    assert not any(shown(shop).values())


@pytest.mark.req("R-HS-15")
def test_a_success_that_a_reading_contradicts_counts_once_and_the_page_says_what_it_is(shop: Workshop, clock: Clock):
    shop.held(clock)
    assert {code: times for code, times in shown(shop).items() if times} == {"HS-03": 1}
    page = shop.reviewer.client.get(f"/t/{shop.slug}/calls/hallucinations").content.decode()
    assert "A tool reported success, and a reading showed that nothing had changed." in page


def test_a_failure_that_a_reading_contradicts_is_counted(shop: Workshop, clock: Clock, tmp_path: Path):
    started = shop.started()
    error = {"code": "TIMED_OUT", "message": "No answer.", "phase": "unknown"}
    shop.observe(started, result=result(status="failed", evidence=None, error=error))
    (tmp_path / "documents" / DELETE["path"]).unlink()
    clock.forward(seconds=90)
    assert shop.read_back(started["action_id"], clock) == "RECONCILED_SUCCESS"
    assert {code: times for code, times in shown(shop).items() if times} == {"HS-05": 1}


def test_only_an_operators_or_auditors_key_reads_them(shop: Workshop):
    assert shop.auditor.get("/metrics").status_code == 200
    for other in (shop.agent, shop.executor):
        assert other.get("/metrics").status_code == 403
    assert new_client().get("/api/v1/metrics").status_code == 401
