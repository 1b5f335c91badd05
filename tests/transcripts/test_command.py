from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from jsonschema_rs import Draft202012Validator

from counterfoil_transcripts.commands.audit import Command
from tests.transcripts.recordings import TOOLS, agent, asks, user

ROOT = Path(__file__).parents[2]
ID = "ABC123"
GOOD = [user("Cancel it."), *asks("cancel_reservation", {"status": "ok"}, reservation_id=ID), agent("Anything else?")]
BAD = [
    user("Refund it."),
    *asks("issue_refund", {"refund_id": "re_1", "amount": 50}, reservation_id=ID, amount=100),
    *asks("cancel_reservaton", "Error: unknown tool", reservation_id=ID),
]


def recording(folder, *conversations, name="recording.jsonl"):
    file = folder / name
    file.write_text("".join(json.dumps({"messages": each, "tools": TOOLS}) + "\n" for each in conversations))
    return file


def audit(*arguments):
    """(what it ends with, what it prints, what it says of its troubles)."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    try:
        call_command(Command(), *map(str, arguments), stdout=out, stderr=err)
    except CommandError as problem:
        code = problem.returncode
        err.write(str(problem))
    return code, out.getvalue(), err.getvalue()


def test_the_audit_prints_totals_and_the_worst_conversations(tmp_path):
    code, out, err = audit(recording(tmp_path, GOOD, BAD, GOOD))

    assert (code, err) == (0, "")
    assert "3 conversations, 13 messages" in out
    assert "1  tool does not exist" in out
    assert "amount: requested 100, the answer shows 50" in out
    assert "PHANTOM_TOOL" in out
    assert "Did you mean `cancel_reservation`?" in out
    assert "Nothing here is verified" in out
    assert "line 1 " not in out


def test_the_report_shows_each_statement_beside_the_record(tmp_path):
    said = "Your refund of $100 is on its way."
    file = recording(tmp_path, [*BAD[:3], agent(said), *BAD[3:], agent("Anything else?"), user("No."), agent("Bye.")])

    assert audit(file, "--json", tmp_path / "report.json", "--html", tmp_path / "report.html")[0] == 0

    [one] = json.loads((tmp_path / "report.json").read_bytes())["conversations"]
    first, second = one["receipts"]
    assert (first["turn"], first["said"]) == (3, said)
    assert first["lines"][0] == "On record:"
    assert first["lines"][1].startswith("- Outcome not stated: issue refund ABC123.")
    assert "The amount is 50; 100 was asked for." in first["lines"][1]
    assert second["lines"][1].startswith("- Failed: cancel reservaton")
    page = (tmp_path / "report.html").read_text()
    row = page.split("<th>Record</th>")[1].split("</tr>")[1]
    assert row.index(said) < row.index("The amount is 50; 100 was asked for.")


def test_a_refused_contract_ends_the_run_before_the_audit_with_the_reason(tmp_path):
    contract = tmp_path / "contract.json"
    contract.write_text(json.dumps([*TOOLS, {"name": "issue_refund", "side_effect_class": "HARMLESS"}]))
    report = tmp_path / "report.json"

    code, out, err = audit(recording(tmp_path, GOOD, BAD), "--contracts", contract, "--json", report)

    assert (code, out) == (2, "")
    assert err.startswith("A contract is refused. Nothing was audited.\n")
    assert "issue_refund: " in err
    assert "HARMLESS" in err
    assert not report.exists()


def test_a_refused_contract_inside_a_recording_does_not_make_its_tool_a_phantom(tmp_path):
    carried = [*TOOLS, {"name": "archive_order", "side_effect_class": "HARMLESS", "arguments_schema": {}}]
    file = tmp_path / "recording.jsonl"
    file.write_text(
        json.dumps({"messages": [user("Archive."), *asks("archive_order", {"ok": True}, id=ID)], "tools": carried})
    )

    code, out, err = audit(file)

    assert code == 0
    assert "PHANTOM_TOOL" not in out
    assert "archive_order: " in err


def test_the_json_report_matches_its_published_schema(tmp_path):
    schema = json.loads((ROOT / "transcripts/counterfoil_transcripts/reports/report.schema.json").read_bytes())
    out = tmp_path / "report.json"
    late = [*asks("cancel_reservation", "timed out", reservation_id=ID), {"odd": 1}, *asks("read_file", path="a")]
    file = recording(tmp_path, GOOD, BAD, late)

    assert audit(file, tmp_path / "recording.jsonl", "--json", out)[0] == 3

    report = json.loads(out.read_bytes())
    assert [str(each) for each in Draft202012Validator(schema).iter_errors(report)] == []
    assert len(report["conversations"]) == 6
    assert report["totals"]["conversations"] == 6
    assert report["totals"]["categories"]["phantom"] == 2
    assert report["conversations"][2]["faults"][0]["path"] == "line 3[2]"


def test_written_drafts_are_accepted_as_contracts(tmp_path):
    drafts = tmp_path / "contracts.json"
    file = recording(tmp_path, BAD)
    audit(file, "--write-contracts", drafts)
    written = json.loads(drafts.read_bytes())

    assert sorted(one["name"] for one in written) == sorted(tool["function"]["name"] for tool in TOOLS)
    code, out, _ = audit(file, "--contracts", drafts)
    assert code == 0
    assert "PHANTOM_TOOL" in out


@pytest.mark.parametrize(
    ("text", "arguments", "code", "said"),
    [
        ("{broken\n", [], 2, "no conversation"),
        ('{"a": 1}', [], 2, "known format"),
        (None, [], 2, "no file"),
        ('[{"role": "user", "content": "x"}]', ["--contracts", "/nowhere.json"], 2, "cannot be read"),
        ('[{"role": "user", "content": "x"}, 7]', [], 3, "[1]"),
        ('[{"role": "user", "content": "x"}]', ["--fail-on-findings"], 0, ""),
    ],
)
def test_the_exit_code_and_message_state_what_could_be_read(tmp_path, text, arguments, code, said):
    file = tmp_path / "recording.json"
    if text is not None:
        file.write_text(text)

    ended, _, err = audit(file, *arguments)

    assert ended == code
    assert said in err


def test_findings_can_fail_a_build(tmp_path):
    assert audit(recording(tmp_path, BAD), "--fail-on-findings")[0] == 3
    assert audit(recording(tmp_path, GOOD), "--fail-on-findings")[0] == 0


HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>{{ 7|add:7 }}{% now 'Y' %}\u202egnp\x1b[31m\x00\ud800"


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_the_page_and_the_terminal_survive_hostile_recordings(tmp_path):
    hostile = [
        user(HOSTILE),
        *asks(HOSTILE, HOSTILE, **{HOSTILE: HOSTILE}),
        *asks("issue_refund", {"amount": HOSTILE}, reservation_id=ID, amount=5),
        *asks("cancel_reservation", {"error": HOSTILE}, reservation_id=HOSTILE),
    ]
    page, report = tmp_path / "page.html", tmp_path / "report.json"
    file = tmp_path / "recording.jsonl"
    file.write_text(json.dumps({"id": HOSTILE, "messages": hostile, "tools": TOOLS}) + "\n")

    code, out, _ = audit(file, "--html", page, "--json", report)

    text = page.read_text()
    seen = Tags()
    seen.feed(text)
    assert code == 0
    assert "script" not in seen.tags
    assert "img" not in seen.tags
    assert not {each for each in seen.attributes if each.startswith("on")}
    assert "&lt;script&gt;" in text
    assert "{{ 7|add:7 }}" in text
    assert "default-src &#x27;none&#x27;" in text or "default-src 'none'" in text
    for shown in (out, text):
        assert not set(shown) & {"\x1b", "\x00", "\u202e"}
    json.loads(report.read_bytes())


def test_the_page_loads_nothing_from_outside_and_stays_small(tmp_path, monkeypatch):
    monkeypatch.setattr("counterfoil_transcripts.reports.page.MOST_CONVERSATIONS", 5)
    page = tmp_path / "page.html"
    audit(recording(tmp_path, *[BAD] * 300), "--html", page, "--show", "0")

    text = page.read_text()
    assert "http" not in text.replace("http-equiv", "")
    assert text.count("<details") == 5
    assert "5 of 300" in text
    assert len(text) < 40_000


def test_the_audit_needs_no_installation_no_keys_and_no_server(tmp_path):
    file = recording(tmp_path, BAD)
    bare = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "counterfoil_transcripts", "audit", str(file), "--fail-on-findings"]
    ran = subprocess.run(command, cwd=tmp_path, env=bare, capture_output=True, text=True, check=False)

    assert ran.returncode == 3, ran.stderr
    assert "1 conversation, 5 messages" in ran.stdout
    assert "\r" not in ran.stderr


def test_a_reader_that_has_seen_enough_gets_no_traceback(tmp_path):
    file = recording(tmp_path, BAD)
    command = [sys.executable, "-m", "counterfoil_transcripts", "audit", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as ran:
        ran.stdout.close()
        said = ran.stderr.read()
    assert "Traceback" not in said
    assert "BrokenPipe" not in said
    assert ran.returncode == 141


def test_the_progress_bar_is_drawn_only_on_terminals():
    from counterfoil_transcripts.commands.audit import Bar

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    bar = Bar(screen, whole=100)
    bar.moved(50, counted=1234)
    bar.clear()
    assert "50%  1,234 conversations" in screen.getvalue()
    assert screen.getvalue().endswith("\r")
    pipe = io.StringIO()
    Bar(pipe, whole=100).moved(50)
    assert pipe.getvalue() == ""


GROWING = """
import json, resource, sys
words = ["audit", sys.argv[1], "--json", sys.argv[2], "--html", sys.argv[3], "--show", "3"]
from counterfoil_transcripts.__main__ import main
sys.stdout = open("/dev/null", "w")
main(words)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
"""


@pytest.mark.parametrize("kind", ["lines", pytest.param("array", marks=pytest.mark.long)])
def test_memory_does_not_grow_with_the_file(tmp_path, kind):
    peaks = []
    for count in (100, 1_200):
        file = tmp_path / f"{count}.json"
        each = json.dumps({"messages": [*GOOD, *BAD, user("x" * 2_000)], "tools": TOOLS})
        with file.open("w") as out:
            out.write("" if kind == "lines" else "[")
            for number in range(count):
                out.write(each + "\n" if kind == "lines" else ("," if number else "") + each)
            out.write("" if kind == "lines" else "]")
        outs = [str(tmp_path / "o.json"), str(tmp_path / "o.html")]
        command = [sys.executable, "-c", GROWING, str(file), *outs]
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        peaks.append(int(ran.stderr.split()[-1]))
        assert file.stat().st_size > count * 4_000

    assert peaks[1] < peaks[0] * 1.15, peaks
