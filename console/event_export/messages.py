"""The outgoing form of an event: its envelope, without personal data, and its log position. Pure.

1. A webhook carries one event, as in Standard Webhooks; its id is the event's, however often it is sent. The content
   that an envelope commits to (entries, payloads, evidence) is not in it.
2. A record of OTLP carries the bytes of the envelope as its body, and the same facts as attributes; many go in one
   message, in the order of the log.
3. For an action, the registered name of its tool and its side-effect class are added beside the envelope: they come
   from the contract, and a rule of a security desk needs them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import orjson

from ledger.record.rules.envelope import instant
from ledger.record.rules.event_kinds import EVENT_KINDS

TEST_KIND: Final = "counterfoil.test"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LOUD: Final = frozenset({"alarm", "warning"})


@dataclass(frozen=True, slots=True)
class SealedEvent:
    """An event under a signed checkpoint, with its log position; for an action also tool and class."""

    log: int
    index: int
    id: UUID
    kind: str
    subject_kind: str
    at: datetime
    entry_hash: bytes
    envelope: bytes
    tool: str | None
    side_effect_class: str | None
    trace_id: str | None


def webhook_body(event: SealedEvent) -> bytes:
    """The message of one event (rule 1)."""
    data: dict[str, Any] = {
        "log": event.log,
        "index": event.index,
        "entry_hash": event.entry_hash.hex(),
        "envelope": orjson.loads(event.envelope),
        **_of_action(event),
    }
    return orjson.dumps({"type": f"{event.subject_kind}.{event.kind}", "timestamp": instant(event.at), "data": data})


def webhook_id(event_id: UUID) -> str:
    """The id by which a receiver recognises a repeated message."""
    return f"msg_{event_id.hex}"


def test_body(tenant: str, *, at: datetime) -> bytes:
    """A message that contains nothing of the record."""
    return orjson.dumps({"type": TEST_KIND, "timestamp": instant(at), "data": {"tenant": tenant}})


def log_records(events: Sequence[SealedEvent], *, environment: str, tenant: str) -> bytes:
    """The message of many events (rule 2)."""
    from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

    return _logs_message([LogRecord(**_record(each)) for each in events], environment=environment, tenant=tenant)


def test_record(*, environment: str, tenant: str, at: datetime) -> bytes:
    """A log record that contains nothing of actions."""
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue
    from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, SeverityNumber

    told = LogRecord(
        time_unix_nano=_nanoseconds(at),
        severity_number=SeverityNumber.SEVERITY_NUMBER_INFO,
        severity_text="INFO",
        event_name=TEST_KIND,
        body=AnyValue(string_value="Test message for this destination; it refers to no action."),
    )
    return _logs_message([told], environment=environment, tenant=tenant)


def refused_records(answer: bytes) -> int:
    """The number of records that a collector dropped from a message that it accepted."""
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse

    try:
        return int(ExportLogsServiceResponse.FromString(answer).partial_success.rejected_log_records)
    except DecodeError:
        # It took the message and says so in words that are no protocol buffer.
        return 0


def _record(event: SealedEvent) -> dict[str, Any]:
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue
    from opentelemetry.proto.logs.v1.logs_pb2 import SeverityNumber

    known = EVENT_KINDS.get(event.kind)
    loud = known is not None and known.icon in _LOUD
    envelope = orjson.loads(event.envelope)
    told = {
        "counterfoil.event.id": str(event.id),
        "counterfoil.event.kind": event.kind,
        "counterfoil.subject.kind": event.subject_kind,
        "counterfoil.subject.id": envelope["subject"]["id"],
        "counterfoil.subject.seq": envelope["seq"],
        "counterfoil.state.from": envelope["from"],
        "counterfoil.state.to": envelope["to"],
        "counterfoil.actor.kind": envelope["actor"]["kind"],
        "counterfoil.actor.id": envelope["actor"]["id"],
        "counterfoil.log.origin": envelope["origin"],
        "counterfoil.log.number": event.log,
        "counterfoil.log.index": event.index,
        "counterfoil.log.entry_hash": event.entry_hash.hex(),
        **{f"counterfoil.action.{name}": value for name, value in _of_action(event).items()},
    }
    return {
        "time_unix_nano": _nanoseconds(event.at),
        "observed_time_unix_nano": _nanoseconds(event.at),
        "severity_number": SeverityNumber.SEVERITY_NUMBER_WARN if loud else SeverityNumber.SEVERITY_NUMBER_INFO,
        "severity_text": "WARN" if loud else "INFO",
        "event_name": f"counterfoil.{event.subject_kind}.{event.kind}",
        "body": AnyValue(string_value=event.envelope.decode()),
        "attributes": [_attribute(name, value) for name, value in told.items()],
        "trace_id": _trace(event.trace_id),
    }


def _logs_message(records: Sequence[Any], *, environment: str, tenant: str) -> bytes:
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
    from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
    from opentelemetry.proto.logs.v1.logs_pb2 import ResourceLogs, ScopeLogs
    from opentelemetry.proto.resource.v1.resource_pb2 import Resource

    named = {
        "service.name": "counterfoil",
        "deployment.environment.name": environment,
        "counterfoil.tenant": tenant,
    }
    resource = Resource(attributes=[_attribute(name, value) for name, value in named.items()])
    scope = ScopeLogs(scope=InstrumentationScope(name="counterfoil.ledger"), log_records=list(records))
    message = ExportLogsServiceRequest(resource_logs=[ResourceLogs(resource=resource, scope_logs=[scope])])
    return bytes(message.SerializeToString())


def _attribute(name: str, value: str | int) -> Any:
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

    told = AnyValue(int_value=value) if isinstance(value, int) else AnyValue(string_value=value)
    return KeyValue(key=name, value=told)


def _of_action(event: SealedEvent) -> dict[str, str]:
    told = {"tool": event.tool, "side_effect_class": event.side_effect_class}
    return {name: value for name, value in told.items() if value}


def _trace(trace_id: str | None) -> bytes:
    try:
        found = bytes.fromhex(trace_id or "")
    except ValueError:
        return b""
    return found if len(found) == 16 else b""


def _nanoseconds(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1) * 1000
