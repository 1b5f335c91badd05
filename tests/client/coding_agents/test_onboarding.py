"""Each client's own files, in the forms that their documentation gives: found, changed, and restored to the byte."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys

import pytest

from counterfoil.coding_agents import onboarding
from counterfoil.coding_agents.__main__ import main
from counterfoil.coding_agents.clients import CLIENTS, is_ours

FILES = {
    ".claude/settings.json": """{
    "permissions": {"allow": ["Bash(npm test:*)"]},
    "hooks": {
        "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "~/bin/lint.sh"}]}]
    }
}""",
    ".claude.json": '{"mcpServers": {"notes": {"command": "counterfoil-mcp", "args": ["--config", "g.toml"]}}}',
    ".codex/config.toml": '# mine\nmodel = "o"\n\n[mcp_servers.docs]\ncommand = "npx"\nargs = ["-y", "docs"]\n',
    ".codex/hooks.json": '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]}}\n',
    ".copilot/mcp-config.json": '{"mcpServers": {"files": {"type": "local", "command": "files-server"}}}',
    ".cursor/hooks.json": '{"version": 1, "hooks": {"afterFileEdit": [{"command": "./format.sh"}]}}',
    ".cursor/mcp.json": '{"mcpServers": {"web": {"url": "https://mcp.example.org/mcp"}}}',
    ".gemini/settings.json": '{"theme": "Ätna",\n "mcpServers": {"web": {"httpUrl": "https://mcp.example.org"}}}\n',
}


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_STATE_HOME", "COUNTERFOIL_OPERATOR_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COUNTERFOIL_AGENT_KEY", "cf_agent_word")
    return tmp_path


def run(*words):
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return ended.value.code


def contents(home):
    return {str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()}


def test_discover_tells_what_is_here_and_changes_nothing(home, capsys):
    before = contents(home)
    assert run("discover") == 0
    told = capsys.readouterr().out
    for line in (
        "Claude Code: no Counterfoil hook",
        "  MCP server notes: counterfoil-mcp --config g.toml\n",
        "Codex CLI: no Counterfoil hook",
        "  MCP server docs: npx -y docs (not gated)",
        "  MCP server files: files-server (not gated)",
        "  MCP server web: https://mcp.example.org/mcp (not gated)",
        "  A hook that crashes or takes longer than its limit is passed over: the command runs.",
    ):
        assert line in told
    assert contents(home) == before


def test_a_dry_run_shows_the_difference_and_changes_nothing(home, capsys):
    before = contents(home)
    assert run("onboard", "--dry-run") == 0
    told = capsys.readouterr().out
    assert '+            "command": "~/bin/lint.sh"' in told
    assert f"{onboarding.hook_command()} claude-code" in told
    assert told.endswith("Nothing was changed.\n")
    assert contents(home) == before


def test_every_client_is_restored_byte_for_byte(home, capsys):
    before = contents(home)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in home.rglob("*")}
    assert run("onboard", "--shadow") == 0
    told = capsys.readouterr().out
    for client in CLIENTS.values():
        document = json.loads((home / client.hooks_file).read_text())
        assert all(any(map(is_ours, document["hooks"][event])) for event in client.events)
        assert f"{client.title}: the hook is in" in told
    kept = json.loads((home / ".claude/settings.json").read_text())
    assert kept["permissions"] == {"allow": ["Bash(npm test:*)"]}
    assert kept["hooks"]["PreToolUse"][0]["hooks"][0]["command"] == "~/bin/lint.sh"
    assert json.loads((home / ".cursor/hooks.json").read_text())["hooks"]["beforeShellExecution"][0]["failClosed"]
    assert "cf_agent_word" not in (home / ".claude/settings.json").read_text()
    private = home / ".local/state/counterfoil/agents/claude-code/settings.json"
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert run("offboard") == 0
    assert "Gemini CLI: " in (told := capsys.readouterr().out)
    assert "is again as it was, byte for byte." in told
    assert "counterfoil.json is removed; it was not there before." in told
    assert contents(home) == before
    assert {path: mode for path, mode in modes.items() if stat.S_IMODE(path.stat().st_mode) != mode} == {}


def test_onboarding_twice_keeps_the_first_backup_and_one_hook(home):
    before = contents(home)
    assert run("onboard", "claude-code", "--shadow") == 0
    assert run("onboard", "claude-code", "--shadow") == 0
    hooks = json.loads((home / ".claude/settings.json").read_text())["hooks"]
    assert [len(hooks[event]) for event in ("PreToolUse", "PostToolUse")] == [2, 1]
    assert run("offboard", "claude-code") == 0
    assert contents(home) == before


def test_what_somebody_changed_since_is_not_thrown_away(home, capsys):
    assert run("onboard", "cursor", "--shadow") == 0
    path = home / ".cursor/hooks.json"
    document = json.loads(path.read_text())
    document["hooks"]["stop"] = [{"command": "./bell.sh"}]
    path.write_text(json.dumps(document))
    assert run("offboard", "cursor") == 0
    assert "was changed since; only the hook was removed. The original is in" in capsys.readouterr().out
    assert json.loads(path.read_text()) == {
        "version": 1,
        "hooks": {"afterFileEdit": [{"command": "./format.sh"}], "stop": [{"command": "./bell.sh"}]},
    }
    assert (home / ".local/state/counterfoil/agents/cursor/original").read_text() == FILES[".cursor/hooks.json"]


@pytest.mark.parametrize("text", ["// a comment\n{}", "[]", '{"hooks": []}'])
def test_a_file_in_another_form_is_left_as_it_is(home, text):
    path = home / ".gemini/settings.json"
    path.write_text(text)
    before = contents(home)
    assert str(run("onboard", "--shadow")).startswith("counterfoil-agents: ")
    assert contents(home) == before


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ("onboard", "notepad", "--shadow"),
            "Unknown client notepad (known: claude-code, codex, copilot, cursor, gemini).",
        ),
        (("onboard", "--enforce"), "Not set: COUNTERFOIL_EXECUTOR_KEY. `manage.py create_key` makes keys."),
        (("offboard",), "No client is onboarded."),
        (("offboard", "codex"), "Codex CLI was not onboarded from here."),
        (("validate", "--live"), "No client is onboarded."),
    ],
)
def test_what_cannot_be_done_is_one_sentence(home, words, says):
    before = contents(home)
    assert run(*words) == f"counterfoil-agents: {says}"
    assert contents(home) == before


def test_a_hook_whose_console_is_away_refuses_and_says_so(home):
    assert run("onboard", "claude-code", "--shadow", "--url", "http://127.0.0.1:9") == 0
    folder = home / ".local/state/counterfoil/agents/claude-code"
    payload = {"session_id": "s", "cwd": str(home), "tool_name": "Bash", "tool_input": {"command": "git push | cat"}}
    words = [sys.executable, "-m", "counterfoil.coding_agents", "hook", "claude-code"]

    def hook(**changes):
        sent = json.dumps(payload | changes)
        ran = subprocess.run(words, input=sent, env=os.environ, capture_output=True, text=True, timeout=60)
        return ran.returncode, ran.stdout, ran.stderr

    assert hook() == (0, "", "")
    assert json.loads((folder / "shadow.jsonl").read_text())["would"] == "refuse"
    stored = json.loads((folder / "settings.json").read_text())
    (folder / "settings.json").write_text(json.dumps(stored | {"mode": "enforce"}))
    code, told, _ = hook()
    decision = json.loads(told)["hookSpecificOutput"]
    assert (code, decision["permissionDecision"]) == (0, "deny")
    assert decision["permissionDecisionReason"].startswith("Send `git push` as a command of its own")
    assert hook(tool_input={"command": "ls"}) == (0, "", "")
    assert hook(tool_name="Read", tool_input={"file_path": "a"}) == (0, "", "")
    code, told, error = hook(tool_input="no JSON")
    assert (code, told) == (2, "")
    assert error.startswith("Counterfoil: the hook failed, so nothing was run: ")
