"""A collector sees an action's whole trace: it decodes what we send with OpenTelemetry's own messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes

from console.models import TraceCursor
from console.tasks import export_traces
from console.telemetry import exporting
from ledger.db import tenancy
from tests.support.api_tenant import Clock, Workshop
from tests.support.outside.collector import Collector, collecting
from tests.support.seals import seal_up
from tests.web.actions.test_traces import FOUR_MORE, PARENT, TRACE, TWELVE, deleted, trace


@pytest.fixture
def collector(settings: Any) -> Iterator[Collector]:
    with collecting() as here:
        settings.COUNTERFOIL_OTLP_ENDPOINT = here.address
        exporting._exporter.cache_clear()
        yield here
        exporting._exporter.cache_clear()


def values(span: Span) -> dict[str, Any]:
    return {each.key: getattr(each.value, str(each.value.WhichOneof("value"))) for each in span.attributes}


def test_a_collector_receives_the_whole_trace_of_an_action(shop: Workshop, clock: Clock, collector: Collector):
    seal_up()
    export_traces()
    assert collector.messages == []
    started = deleted(shop, clock)
    seal_up()
    clock.forward(minutes=2)
    assert export_traces() > 0
    found = collector.spans
    told = trace(shop, started["action_id"])["spans"]
    assert {span.span_id.hex() for span in found} == {span["span_id"] for span in told}
    assert len(found) == len(told)
    assert {span.trace_id.hex() for span in found} == {TRACE}
    by_name = {span.name: span for span in found}
    root = by_name["counterfoil.action"]
    assert root.parent_span_id.hex() == PARENT
    assert by_name["execute_tool delete_document"].parent_span_id == root.span_id
    assert by_name["counterfoil.reconciliation"].parent_span_id == by_name["counterfoil.readback"].span_id
    assert {span.name for span in found if span.status.code == Status.STATUS_CODE_OK} == {
        "counterfoil.action",
        "counterfoil.reconciliation",
    }
    for span in found:
        assert {*TWELVE, *FOUR_MORE} <= values(span).keys(), span.name
        assert span.end_time_unix_nano >= span.start_time_unix_nano
    effect = values(by_name["execute_tool delete_document"])
    assert effect[gen_ai_attributes.GEN_AI_OPERATION_NAME] == "execute_tool"
    assert effect[gen_ai_attributes.GEN_AI_TOOL_NAME] == "delete_document"
    assert effect[gen_ai_attributes.GEN_AI_TOOL_TYPE] == "function"
    assert effect[gen_ai_attributes.GEN_AI_TOOL_CALL_ID]
    assert effect[gen_ai_attributes.GEN_AI_CONVERSATION_ID]
    assert effect[gen_ai_attributes.GEN_AI_AGENT_NAME] == "librarian"
    [name] = [
        each.value.string_value
        for each in collector.messages[0].resource_spans[0].resource.attributes
        if each.key == "service.name"
    ]
    assert name == "counterfoil"
    # Each was sent once.
    assert export_traces() == 0
    assert len(collector.spans) == len(told)


def test_a_span_is_sent_only_after_it_has_ended(shop: Workshop, clock: Clock, collector: Collector):
    seal_up()
    export_traces()
    action_id = shop.propose()
    seal_up()
    export_traces()
    assert [span.name for span in collector.spans] == ["counterfoil.gate"]
    shop.vote(shop.approval_of(action_id))
    seal_up()
    export_traces()
    assert [span.name for span in collector.spans] == ["counterfoil.gate", "counterfoil.approval"]


def test_spans_that_a_collector_refused_are_sent_again(shop: Workshop, collector: Collector):
    seal_up()
    export_traces()
    shop.propose()
    seal_up()
    collector.answers = 400
    assert export_traces() == 0
    assert collector.spans == []
    collector.answers = 200
    assert export_traces() > 0
    assert [span.name for span in collector.spans] == ["counterfoil.gate"]


def test_simultaneous_reports_are_all_sent(shop: Workshop, clock: Clock, collector: Collector, monkeypatch: Any):
    seal_up()
    export_traces()
    monkeypatch.setattr(exporting, "AT_A_TIME", 1)
    told = [shop.propose(path=f"policies/{name}.md") for name in ("returns", "privacy", "cookies")]
    clock.stop()
    for action_id in told:
        shop.report(action_id)
    clock.forward(minutes=2)
    export_traces()
    reports = [span for span in collector.spans if span.name == "counterfoil.report"]
    assert sorted(values(span)["action.id"] for span in reports) == sorted(told)


def test_spans_from_before_the_collector_was_configured_are_not_sent(shop: Workshop, collector: Collector):
    shop.propose()
    seal_up()
    assert export_traces() == 0
    assert collector.spans == []


@pytest.mark.req("R-LE-11")
def test_traces_are_purged_without_affecting_the_ledger(shop: Workshop, clock: Clock, collector: Collector):
    seal_up()
    export_traces()
    started = deleted(shop, clock)
    seal_up()
    export_traces()
    kept = shop.history(started["action_id"])
    told = trace(shop, started["action_id"])
    collector.messages.clear()
    with tenancy(shop.tenant):
        assert TraceCursor.objects.filter(tenant_id=shop.tenant).delete()[0] == 1
    call_command("verify_ledger", verbosity=0)
    assert shop.history(started["action_id"]) == kept
    assert trace(shop, started["action_id"]) == told
