"""What is really wrong in recordings that others made, found in them. In `make test-long`: the packages are fetched."""

from __future__ import annotations

import json

import pytest
from django.core.management import call_command

from counterfoil_transcripts.commands.audit import Command
from tests.transcripts.cassettes import conversations, fetched


def report(tmp_path, package):
    folder = tmp_path / "package"
    folder.mkdir()
    recording, out = tmp_path / "recording.jsonl", tmp_path / "report.json"
    with recording.open("w") as lines:
        for each in conversations(fetched(package, folder)):
            lines.write(json.dumps(each) + "\n")
    call_command(Command(), str(recording), json=out, html=tmp_path / "page.html", verbosity=0, show=0)
    return json.loads(out.read_bytes())


def answers(found, status):
    return [
        (call["tool"], call["answer"]["reason"])
        for one in found["conversations"]
        for call in one["calls"]
        if call["answer"] is not None and call["answer"]["status"] == status
    ]


@pytest.mark.long
def test_recorded_exchanges_of_langchain_with_anthropic_are_read_without_false_claims(tmp_path):
    found = report(tmp_path, "langchain-anthropic==1.7.10")
    totals = found["totals"]

    assert totals["conversations"] >= 30
    assert totals["faults"] == 0
    assert totals["formats"]["anthropic"] >= 30
    assert totals["categories"].get("phantom", 0) == 0
    # A search that ran into its limit, an editor whose answer could not be parsed, and a call nobody answered.
    failed = answers(found, "failed")
    assert ("web_search", "max_uses_exceeded") in failed
    assert any(tool == "text_editor_code_execution" and "parsing error" in reason for tool, reason in failed)
    assert totals["answers"]["no answer"] > 0
    # No contract says here which words report a change, so an answer on the weather claims nothing, nor does a "Done!".
    assert totals["spoken"] > 40
    assert (totals["claims"], totals["false_claims"]) == ({}, {})


@pytest.mark.long
def test_recorded_exchanges_of_opentelemetry_with_openai_are_read(tmp_path):
    found = report(tmp_path, "opentelemetry-instrumentation-openai==0.62.4")
    totals = found["totals"]

    assert totals["conversations"] >= 100
    assert totals["calls"] >= 40
    assert {"openai-chat", "openai-responses"} <= set(totals["formats"])
    assert totals["categories"] == {"valid": totals["calls"]}
    assert totals["answers"]["no answer"] >= totals["calls"] / 2
