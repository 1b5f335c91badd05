"""Requests that are wrong in their shape, against the real server: each is refused, and nothing comes of any.

A JSON batch of which only single calls are outside the profile is answered, and each of those calls is refused.
"""

from __future__ import annotations

import json
import random
import re
import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from approvals.models import Call
from ledger.db import tenancy
from ledger.models import Action
from tests.conftest import Stack
from tests.support.api_tenant import Workshop, workshop
from tests.support.bad_calls import Malice

# So many of each kind.
EACH = 12
GOOD = b'{"calls": [{"call_id": "%s", "tool": "delete_document", "arguments": {}, "pin_hash": "00"}]}'
LARGEST = 1_048_576


@dataclass
class Wrong:
    """A request as the bytes that are sent; `ends` hangs up in the middle of it, so that no answer can be asked for."""

    body: bytes = b""
    method: str = "POST"
    path: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    ends: bool = False

    def sent(self, path: str, key: str) -> bytes:
        told = {
            "Host": "localhost",
            "Authorization": f"Bearer {key}",
            "Content-Type": "application/json",
            "Content-Length": str(len(self.body)),
            "Connection": "close",
        } | self.headers
        lines = [f"{name}: {value}" for name, value in told.items() if value]
        head = "\r\n".join([f"{self.method} {self.path or path} HTTP/1.1", *lines, "", ""])
        return head.encode("latin-1") + self.body


def wrong_json(malice: Malice) -> Wrong:
    """Something like JSON with a few bytes put in anywhere."""
    body = bytearray(b'{"calls": [' + malice.noise().encode())
    for _ in range(malice.chance.randrange(1, 4)):
        body.insert(malice.chance.randrange(len(body) + 1), malice.chance.randrange(256))
    return Wrong(bytes(body))


def wrong_document(malice: Malice) -> Wrong:
    """JSON that is no list of calls."""
    told = [b"null", b"7", b"[]", b'"calls"', b"{}", b'{"calls": {}}', b'{"calls": null}', b'{"calls": []}', b"true"]
    return Wrong(malice.chance.choice(told))


def truncated(malice: Malice) -> Wrong:
    return Wrong(GOOD[: malice.chance.randrange(len(GOOD) - 1)])


def nested(malice: Malice) -> Wrong:
    deep, opening = malice.chance.choice([100, 2_000, 50_000, 400_000]), malice.chance.choice([b"[", b'{"a":'])
    closing = {b"[": b"]", b'{"a":': b"1" + b"}"}[opening]
    whole = opening * (deep // len(opening)) + closing * malice.chance.choice([0, deep // len(opening)])
    return Wrong(b'{"calls": [' + whole + b"]}")


def large(malice: Malice) -> Wrong:
    more = malice.chance.choice([1, 4_096, 3 * LARGEST])
    filler = malice.chance.choice([b" ", b"[", b"a", b"\x00"])
    return Wrong(b'{"calls": ["' + filler * (LARGEST + more))


def unreadable(malice: Malice) -> Wrong:
    """Text in no encoding, or in another one."""
    broken = [
        b"\xff",
        b"\xc0\xaf",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"\x80",
        b"\\ud800",
        b"\\udc00\\ud800",
        b"\x00",
    ]
    text = malice.chance.choice(["\ufeff{}", "{}"]).encode(malice.chance.choice(["utf-16", "utf-32", "utf-8-sig"]))
    return Wrong(malice.chance.choice([text, b'{"calls": [{"call_id": "' + malice.chance.choice(broken) + b'"}]}']))


def twice(malice: Malice) -> Wrong:
    """The same name twice in one object."""
    told = [
        b'{"calls": [], "calls": [{}]}',
        GOOD.replace(b'"tool"', b'"call_id": "b", "tool"'),
        b'{"a": 1, "a": 1}',
    ]
    return Wrong(malice.chance.choice(told))


def out_of_range(malice: Malice) -> Wrong:
    numbers = [
        b"1e999",
        b"-1e999",
        b"NaN",
        b"Infinity",
        b"9007199254740993",
        b"1.5",
        b"007",
        b"+1",
        b"1e",
        b"9" * 6_000,
    ]
    return Wrong(b'{"calls": [{"call_id": "a", "arguments": {"n": ' + malice.chance.choice(numbers) + b"}}]}")


def wrong_method(malice: Malice) -> Wrong:
    methods = ["PUT", "PATCH", "DELETE", "GET", "TRACE", "CONNECTED", "PROPFIND", "HEAD"]
    return Wrong(GOOD, method=malice.chance.choice(methods))


def wrong_type(malice: Malice) -> Wrong:
    forms = ["multipart/form-data; boundary=x", "application/x-www-form-urlencoded"]
    kinds = ["", "text/plain", *forms, "\xff/\xff", "a" * 999]
    return Wrong(malice.noise().encode() + b"\x00", headers={"Content-Type": malice.chance.choice(kinds)})


def wrong_headers(malice: Malice) -> Wrong:
    headers = [
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer \xff\xfe"},
        {"Authorization": f"Basic {malice.word(3_000)}"},
        {"Idempotency-Key": "x" * 5_000},
        {"Idempotency-Key": "\xff"},
        {"traceparent": "00-" + "0" * 32 + "-zz-01"},
        {"Host": "elsewhere.test:99999"},
        {"X-Forwarded-For": "'; --"},
        {"Cookie": "sessionid=\xff; csrftoken="},
        {"Accept-Language": "*" * 3_000},
        {"Content-Encoding": "gzip"},
    ]
    return Wrong(b"{", headers=malice.chance.choice(headers))


def wrong_framing(malice: Malice) -> Wrong:
    """Bodies whose length is not what is said of it."""
    headers = [
        {"Content-Length": "-1"},
        {"Content-Length": "9" * 30},
        {"Content-Length": "seven"},
        {"Content-Length": "3, 5"},
        {"Content-Length": "", "Transfer-Encoding": "chunked"},
        {"Transfer-Encoding": "chunked"},
        {"Transfer-Encoding": "gzip, chunked"},
    ]
    return Wrong(GOOD, headers=malice.chance.choice(headers), ends=True)


def cut_off(malice: Malice) -> Wrong:
    return Wrong(GOOD, headers={"Content-Length": str(len(GOOD) + malice.chance.randrange(1, 9_000))}, ends=True)


def wrong_path(malice: Malice) -> Wrong:
    paths = [
        "%00",
        "%ff%fe",
        "..%2f..",
        "0" * 3_000,
        "sessions/7/calls",
        "sessions/%F0%9F/calls",
        "?a=%00&a[]=1",
        "%",
        "//",
    ]
    return Wrong(b"{}", path=f"/api/v1/{malice.chance.choice(paths)}")


KINDS: dict[str, Callable[[Malice], Wrong]] = {
    kind.__name__.replace("_", " "): kind
    for kind in (
        wrong_json, wrong_document, truncated, nested, large, unreadable, twice, out_of_range, wrong_method, wrong_type,
        wrong_headers, wrong_framing, cut_off, wrong_path,
    )
}  # fmt: skip


@pytest.fixture
def served(stack: Stack) -> tuple[Workshop, Stack, str]:
    """A shop behind the server that the product runs, and its address for calls."""
    stack.environment["COUNTERFOIL_RATE_PER_S"] = "0"
    shop = workshop("orchid").set_up()
    session = shop.session()
    stack.start("web")
    return shop, stack, f"/api/v1/sessions/{session['session_id']}/calls"


def answered(stack: Stack, data: bytes, *, ends: bool) -> tuple[int, bytes, bytes]:
    """(status, head, body) of the answer; 0 where the server only hung up."""
    with socket.create_connection(("127.0.0.1", stack.port), timeout=20) as line:
        got = b""
        try:
            line.sendall(data)
            if ends:
                line.shutdown(socket.SHUT_WR)
            while more := line.recv(65_536):
                got += more
        except (ConnectionResetError, BrokenPipeError):
            # It has heard enough and said so; what it said may be lost with the line.
            pass
    head, _, body = got.partition(b"\r\n\r\n")
    found = re.match(rb"HTTP/1\.1 (\d{3})", head)
    return int(found.group(1)) if found else 0, head.lower(), body


def is_refused_call_by_call(wrong: Wrong, body: bytes) -> bool:
    """The request is a JSON batch, and each of its calls was refused alone (R-MC-06)."""
    sent, results = json.loads(wrong.body, parse_int=str)["calls"], json.loads(body)["results"]
    refused = [
        each for each in results if (each["accepted"], each["layer"], each["action_id"]) == (False, "syntax", None)
    ]
    return len(sent) == len(results) == len(refused) > 0 and all(isinstance(call, dict) for call in sent)


@pytest.mark.req("R-MC-21")
def test_malformed_requests_are_refused_without_effect(served: Any):
    shop, stack, path = served
    key = shop.agent.headers["Authorization"].removeprefix("Bearer ")
    malice, met = Malice("", "", random.Random(8)), Counter[tuple[str, int]]()
    for name, kind in KINDS.items():
        for _ in range(EACH):
            wrong = kind(malice)
            status, head, body = answered(stack, wrong.sent(path, key), ends=wrong.ends)
            met[name, status] += 1
            told = (name, wrong.method, wrong.path, wrong.headers, wrong.body[:200], status, body[:300])
            if status == 200 and (wrong.method, wrong.path) == ("POST", ""):
                assert is_refused_call_by_call(wrong, body), told
                continue
            assert 400 <= status < 500 or (status == 0 and wrong.ends), told
            # What the server itself cannot read as a request never comes to the product.
            if status and b"text/plain" not in head and wrong.method != "HEAD":
                assert b"application/problem+json" in head or wrong.path, told
    assert httpx.get(f"{stack.url}/livez", timeout=10).status_code == 200
    written = (stack.folder / "web.log").read_text()
    assert "Traceback" not in written
    with tenancy(shop.tenant):
        assert not Call.objects.filter(tenant_id=shop.tenant).exclude(accepted=False, layer="syntax").exists()
        assert not Action.objects.filter(tenant_id=shop.tenant).exists()
    assert {name for name, _ in met} == set(KINDS)
    assert {name for name, status in met if status == 200} == {"unreadable", "twice", "out of range"}
