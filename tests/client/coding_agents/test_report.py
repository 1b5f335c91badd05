"""A week in shadow mode: a hook beside real pushes to a real git server, the client's own session file, one report."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from counterfoil.coding_agents.__main__ import main
from counterfoil.coding_agents.clients import CLIENTS
from counterfoil.coding_agents.hooks import Hook, HookSettings, read_call
from counterfoil.coding_agents.onboarding import default_places
from counterfoil.coding_agents.report import AuditedSessions, make_report, print_lines, render_page
from tests.support.outside import git_server
from tests.support.outside.git_server import QUIET, commit, git

NOBODY = "http://127.0.0.1:9"
NOW = datetime.now(UTC)


class Week:
    """A user's machine: Claude Code in shadow mode, a clone, and the session that the client records."""

    def __init__(self, home, server, folder):
        self.home, self.server, self.folder, self.lines, self.calls = home, server, folder, [], 0
        self.places = default_places({"HOME": str(home)})
        self.session = home / ".claude/projects/app/4b1e6f0a.jsonl"
        for each in (self.session.parent, self.places.of(CLIENTS["claude-code"])):
            each.mkdir(parents=True)
        settings = HookSettings(
            client="claude-code",
            mode="shadow",
            url=NOBODY,
            agent_id="claude-code",
            agent_key="none",
            executor_id="hook-claude-code",
            executor_key="none",
            hold_s=1,
        )
        self.hook = Hook(settings, self.places.of(CLIENTS["claude-code"]))

    def run(self, command, *, really):
        """The client runs a command and calls it done."""
        self.calls += 1
        call_id = f"toolu_{self.calls}"
        payload = {
            "session_id": "4b1e6f0a",
            "transcript_path": str(self.session),
            "cwd": str(self.folder),
            "tool_name": "Bash",
            "tool_input": {"command": command},
            "tool_use_id": call_id,
        }
        assert self.hook.before(read_call("claude-code", payload | {"hook_event_name": "PreToolUse"})).allowed
        if really:
            git(self.folder, *command.split()[1:])
        said = payload | {"hook_event_name": "PostToolUse", "tool_response": {"stdout": "Everything up-to-date"}}
        assert self.hook.after(read_call("claude-code", said)) == ""
        self.line("assistant", [{"type": "tool_use", "id": call_id, "name": "Bash", "input": {"command": command}}])
        self.line("user", [{"type": "tool_result", "tool_use_id": call_id, "content": "To the server"}])

    def line(self, kind, content):
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        message = {"role": kind, "content": content}
        self.lines.append(json.dumps({"type": kind, "sessionId": "4b1e6f0a", "uuid": "u", "message": message}))
        self.session.write_text("\n".join(self.lines) + "\n")

    def notes(self):
        file = self.places.of(CLIENTS["claude-code"]) / "shadow.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture(scope="module")
def week(tmp_path_factory):
    root = tmp_path_factory.mktemp("week")
    (root / "served").mkdir()
    with pytest.MonkeyPatch.context() as patch, git_server.served(root / "served") as server:
        for name, value in QUIET.items():
            patch.setenv(name, value)
        server.repository("team/app.git")
        week = Week(root / "home", server, server.clone("team/app.git", root / "app"))
        week.line("user", "Push what is there.")
        commit(week.folder, "second")
        week.run("git push origin HEAD:main", really=True)
        week.line("assistant", "I have pushed the commit to main.")
        commit(week.folder, "third")
        week.run("git push origin HEAD:release", really=False)
        week.line("assistant", "The changes are pushed to the release branch.")
        week.run("git push origin HEAD:a && true", really=False)
        week.hook.close()
        yield week


def test_after_each_command_the_system_of_record_is_read_even_if_the_console_does_not_answer(week):
    judged = [note for note in week.notes() if "would" in note]
    assert [(note["would"], note["rules"]) for note in judged] == [
        ("unknown", ["CONSOLE_UNREACHABLE"]),
        ("unknown", ["CONSOLE_UNREACHABLE"]),
        ("refuse", ["COMMAND_FORM"]),
    ]
    first, second = (note for note in week.notes() if "shown" in note)
    pushed = week.server.ref("team/app.git", "refs/heads/main")
    assert first["shown"] == {"as_asked": True, "text": f"refs/heads/main of team/app.git names {pushed}"}
    assert second["shown"] == {"as_asked": False, "text": "refs/heads/release of team/app.git is not there"}
    assert not any("git push origin HEAD" in json.dumps(note) for note in week.notes())


def test_the_report_names_the_claim_that_the_system_contradicts_and_no_other(week, monkeypatch, capsys, tmp_path):
    pytest.importorskip("counterfoil_transcripts")
    monkeypatch.setenv("HOME", str(week.home))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    with pytest.raises(SystemExit) as ended:
        main(["report", "--html", str(tmp_path / "report.html")])
    said = capsys.readouterr().out
    assert ended.value.code == 0
    assert "Systems read after 2 of these calls; 1 said done and were not:" in said
    assert "1 of them false: 1 beside what the systems showed, 0 beside the tools' answers" in said
    assert "“The changes are pushed to the release branch.”" in said
    assert "The system showed: refs/heads/release of team/app.git is not there." in said
    assert "UNKNOWN_FLATTENED" not in said
    assert "I have pushed the commit to main." not in said
    page = (tmp_path / "report.html").read_text()
    assert "The changes are pushed to the release branch." in page
    assert "<script" not in page


def test_without_the_console_package_the_report_says_that_no_sessions_were_audited(week, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("HOME", str(week.home))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    with pytest.raises(SystemExit):
        main(["report", "--console", str(tmp_path)])
    said = capsys.readouterr().out
    assert "What the agents said was not held to the record." in said
    assert "The sessions were not audited: " in said


def test_the_report_counts_for_each_rule_what_it_held_and_what_it_alone_held():
    def note(would, *rules):
        return {"at": NOW.isoformat(), "client": "codex", "tool": "git_push", "would": would, "rules": list(rules)}

    notes = [note("hold", "IRREVERSIBLE"), note("hold", "IRREVERSIBLE", "RULE main"), note("pass"), note("refuse", "X")]
    found = make_report(notes, AuditedSessions(), since=NOW - timedelta(days=7), until=NOW, minutes=40)
    said = "\n".join(print_lines(found))
    assert "irreversible by its contract: 2 held, 0 refused, 1 by this rule alone, about 1 h 20 min of waiting" in said
    assert "policy rule main: 1 held, 0 refused, 0 by this rule alone, about 40 min of waiting" in said
    assert "In all 2 held, about 1 h 20 min of waiting" in said
    assert "40 minutes a decision, an assumption" in said


def test_the_content_of_a_note_is_escaped():
    bad = {"at": NOW.isoformat(), "client": "codex", "tool": "<script>", "would": "hold", "rules": ["RULE <b>"]}
    page = render_page(make_report([bad], AuditedSessions(), since=NOW, until=NOW, minutes=1))
    assert "&lt;script&gt;" in page
    assert "policy rule &lt;b&gt;" in page
    assert "<b>" not in page
