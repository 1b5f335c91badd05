"""Log lines as JSON, one object each, made by structlog; chosen by COUNTERFOIL_LOG_FORMAT=json."""

from __future__ import annotations

import logging
from typing import Any

import orjson
import structlog

from console.telemetry.logging_lines import without_payload


class JsonFormatter(logging.Formatter):
    """Every line of every logger, ours or a library's, by the same processors, and with no payload."""

    def __init__(self) -> None:
        super().__init__()
        self._lines = structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[
                structlog.stdlib.add_log_level,
                structlog.stdlib.add_logger_name,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                _facts_of_line,
            ],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(serializer=_dumps),
            ],
        )

    def format(self, record: logging.LogRecord) -> str:
        return str(self._lines.format(without_payload(record)))


def _facts_of_line(_logger: Any, _name: str, line: Any) -> Any:
    record = line["_record"].__dict__
    line.update(record["facts"])
    if record["faults"]:
        line["faults"] = record["faults"]
    return line


def _dumps(value: Any, **_: Any) -> str:
    return orjson.dumps(value, default=str).decode()
