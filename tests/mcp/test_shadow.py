"""Shadow mode: all of it goes through, and what the gate would have done is written down."""

from __future__ import annotations

import json
from datetime import datetime

import pytest

from tests.mcp import servers

NOTE = {"text": "Milk"}


@pytest.fixture
def shadow(bench):
    return bench.told(gateway={"mode": "shadow", "report": str(bench.folder / "shadow.jsonl")})


def _lines(bench):
    return [json.loads(line) for line in (bench.folder / "shadow.jsonl").read_text().splitlines()]


def _calls(bench):
    return [line for line in _lines(bench) if not line.get("listed")]


def _twice(*names):
    async def script(client):
        return (await client.list_tools()).tools, [await client.call_tool(name, NOTE) for name in names]

    return script


def test_in_shadow_mode_every_call_passes_unchanged(shadow, desk):
    tools, (kept, unregistered) = shadow.talk(_twice("keep_note", "read_notes"))
    assert [tool.description for tool in tools] == [tool.description for tool in servers.tools()]
    assert (kept.structured_content["kept"], kept.structured_content["counterfoil"]) == (True, "forged")
    assert not unregistered.is_error
    assert [call["tool"] for call in shadow.calls] == ["keep_note", "read_notes"]
    assert desk.actions == {}
    assert all(call["dry_run"] for call in desk.calls)


def test_the_shadow_report_says_what_the_gate_would_have_done_with_each_call(shadow, desk):
    desk.held = {"notes.keep_note"}
    shadow.talk(_twice("keep_note"))
    desk.refuse = {"code": "OUTSIDE_AUTONOMY", "message": "Never.", "hint": "Do not repeat it."}
    shadow.talk(_twice("fail_note"))
    held, refused = _calls(shadow)
    assert (held["tool"], held["would"], held["answered"]) == ("keep_note", "hold", "success")
    assert (refused["would"], refused["code"], refused["answered"]) == ("refuse", "OUTSIDE_AUTONOMY", "failed")
    assert datetime.fromisoformat(held["at"]).tzinfo is not None
    assert held["ms"] >= 0
    assert "Milk" not in (shadow.folder / "shadow.jsonl").read_text()


def test_tools_that_would_be_withheld_are_reported_and_still_listed(shadow):
    shadow.become("injected")
    tools, _ = shadow.talk(_twice("keep_note"))
    assert "IMPORTANT" in next(tool.description for tool in tools if tool.name == "keep_note")
    listed = {line["tool"]: line["would"] for line in _lines(shadow) if line.get("listed")}
    assert listed == {"keep_note": "withhold", "read_notes": "hide"}
    assert _calls(shadow)[0]["code"] == "TOOL_CHANGED"


def test_in_shadow_mode_an_unreachable_console_stops_no_call(shadow):
    shadow.told(console={"url": "http://127.0.0.1:9"})
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("counterfoil.mcp.shadow.ConsoleClient.open", _unreachable)
        _, (result,) = shadow.talk(_twice("keep_note"))
    assert not result.is_error
    assert _calls(shadow)[0]["would"] == "unknown"


def _unreachable(_):
    from counterfoil.problems import Unreachable

    raise Unreachable("nobody is there")
