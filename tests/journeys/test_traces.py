"""The trace of one refund, as a collector gets it from the real processes: web, worker, beat and sequencer."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.journeys.ground import Ground
from tests.support.outside.collector import Collector, collecting


@pytest.fixture
def watched(quiet: Ground) -> Iterator[tuple[Ground, Collector]]:
    """The quiet ground with a collector that its worker and its beat were told of."""
    with collecting() as collector:
        quiet.stack.environment["COUNTERFOIL_OTLP_ENDPOINT"] = collector.address
        try:
            quiet.stack.stop("worker", "beat")
            quiet.stack.start("worker", "beat")
            quiet.until_at_work()
            yield quiet, collector
        finally:
            del quiet.stack.environment["COUNTERFOIL_OTLP_ENDPOINT"]
            quiet.stack.stop("worker", "beat")
            quiet.stack.start("worker", "beat")


@pytest.mark.long
@pytest.mark.req("R-TR-01", "R-TR-04")
def test_a_collector_receives_the_whole_trace_of_a_refund(watched):
    ground, collector = watched
    # What happened before a collector was named is not sent: the first look begins at the end of the log.
    ground.until(lambda: has_begun(ground), lambda: "no worker sends traces")
    ground.start("executor")
    action_id = str(ground.send("small_refund").action_id)
    ground.wait_for(action_id, "RECONCILED_SUCCESS")
    told = ground.operator.get(f"/actions/{action_id}/trace")
    ended = {span["span_id"] for span in told["spans"] if span["end"] is not None and span["stage"] != "report"}
    ground.until(lambda: ended <= {span.span_id.hex() for span in seen(collector, action_id)}, lambda: told)
    spans = {span.span_id.hex(): span for span in seen(collector, action_id)}
    assert {span.trace_id.hex() for span in spans.values()} == {told["trace_id"]}
    names = {span.name for span in spans.values()}
    assert {"counterfoil.action", "counterfoil.gate", "counterfoil.claim", "counterfoil.start"} <= names
    assert {"counterfoil.observation", "counterfoil.readback", "counterfoil.reconciliation"} <= names
    [root] = [span for span in spans.values() if span.name == "counterfoil.action"]
    assert all(span.parent_span_id.hex() in spans for span in spans.values() if span is not root)


def has_begun(ground) -> bool:
    with psycopg.connect(ground.database_url()) as connection:
        return connection.execute("SELECT FROM console_tracecursor").fetchone() is not None


def seen(collector, action_id: str):
    """The spans of an action that were collected so far."""
    return [
        span
        for span in collector.spans
        if any(each.key == "action.id" and each.value.string_value == action_id for each in span.attributes)
    ]
