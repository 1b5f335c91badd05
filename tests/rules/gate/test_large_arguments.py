"""A megabyte of argument names, well formed or not, is read and answered in time and memory that grow with its size."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from approvals.gate.rules import malformed, proposals
from approvals.requests.rules.rendering import render_payload
from ledger.catalogue.rules import schemas
from ledger.record.rules.refusals import Refused

SCHEMA = {
    "type": "object",
    "required": ["order_id"],
    "additionalProperties": False,
    "properties": {
        "order_id": {"type": "string"},
        "labels": {"type": "object", "propertyNames": {"maxLength": 3}},
        "lines": {"type": "array", "items": {"type": "object", "additionalProperties": False}, "uniqueItems": True},
    },
}
VALIDATOR = schemas.compile_schema(SCHEMA)
SMALL, LARGE = 50_000, 800_000


def names(size: int, form: str = "name{:07d}") -> dict[str, Any]:
    return {form.format(number): 1 for number in range(size // 20)}


def repeated_name(size: int) -> str:
    text = json.dumps(names(size))
    return text[:-1] + ", " + text[text.rindex('"name') : -1] + "}"


SHAPES: dict[str, Callable[[int], str]] = {
    "many names": lambda size: json.dumps(names(size)),
    "a name repeated at the end": repeated_name,
    "one name repeated": lambda size: "{" + ", ".join(['"name": 1'] * (size // 11)) + "}",
    "one long name": lambda size: json.dumps({"n" * size: 1}),
    "names beyond the basic plane": lambda size: json.dumps(names(size, "\U0001f600{:07d}"), ensure_ascii=False),
    "names of lookalikes": lambda size: json.dumps(names(size, "\u0430\u0440{:07d}"), ensure_ascii=False),
    "deep nesting": lambda size: '{"a":' * (size // 6) + "1" + "}" * (size // 6),
    "names that are not allowed": lambda size: json.dumps({"order_id": "1", "labels": names(size)}),
    "objects that are not allowed": lambda size: json.dumps({"order_id": "1", "lines": [{"n": 1}] * (size // 10)}),
    "fractions": lambda size: json.dumps({"a": [1.5] * (size // 5)}),
    "a long number": lambda size: '{"a": ' + "9" * size + "}",
}


def answer(text: str) -> Any:
    """The path of one call: read as a batch; its arguments by themselves; the mistake in them, and their display."""
    try:
        batch = proposals.read_batch(f'{{"calls": [{{"call_id": "1", "tool": "t", "arguments": {text}}}]}}'.encode())
        found = malformed.read_arguments(text)
        if isinstance(found, malformed.Malformed):
            return batch, found
        return malformed.find_mistake(found, schema=SCHEMA, validator=VALIDATOR), len(render_payload(found))
    except (Refused, RecursionError) as refusal:
        return refusal


def processor_time(text: str, times: int) -> float:
    taken = []
    for _ in range(times):
        began = time.process_time()
        answer(text)
        taken.append(time.process_time() - began)
    return min(taken)


@pytest.mark.parametrize("shape", SHAPES)
def test_sixteen_times_the_names_take_no_more_than_forty_times_as_long(shape: str):
    """What grows with the square takes 256 times as long."""
    small, large = (SHAPES[shape](size) for size in (SMALL, LARGE))
    answer(small)
    assert processor_time(large, 1) <= 40 * processor_time(small, 3) + 0.1


@pytest.mark.parametrize("shape", ["many names", "a name repeated at the end", "names that are not allowed"])
def test_a_megabyte_of_names_takes_a_bounded_memory(shape: str):
    text = SHAPES[shape](LARGE)
    tracemalloc.start()
    try:
        answer(text)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most <= 150 * LARGE


def test_a_name_that_is_given_twice_is_named():
    found = malformed.read_arguments(repeated_name(LARGE))
    assert isinstance(found, malformed.Malformed)
    assert found.code == "UNPARSEABLE_ARGUMENTS"
    assert found.message == f"`name{LARGE // 20 - 1:07d}` is given twice."


def test_of_a_megabyte_of_mistakes_the_first_is_told():
    sent = {"order_id": "1", "labels": names(LARGE)}
    found = malformed.find_mistake(sent, schema=SCHEMA, validator=VALIDATOR)
    assert found is not None
    assert (found.code, len(found.errors)) == ("SCHEMA_DRIFT", 1)
