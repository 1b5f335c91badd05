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
    for name in (
        "XDG_STATE_HOME",
        "COUNTERFOIL_OPERATOR_KEY",
        *filter(None, (each.moved_by for each in CLIENTS.values())),
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COUNTERFOIL_AGENT_KEY", "cf_agent_word")
    return tmp_path


def run(*words):
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return ended.value.code


def contents(home):
    return {str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()}


def test_discover_lists_the_clients_of_this_machine_and_changes_nothing(home, capsys):
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


@pytest.mark.parametrize("mode", [(), ("--enforce",), ("--shadow",)])
def test_a_dry_run_shows_the_difference_and_changes_nothing(home, capsys, mode):
    before = contents(home)
    assert run("onboard", *mode, "--dry-run") == 0
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
    assert [len(hooks[event]) for event in ("PreToolUse", "PostToolUse", "PostToolUseFailure")] == [2, 1, 1]
    assert run("offboard", "claude-code") == 0
    assert contents(home) == before


def test_a_later_change_by_somebody_else_is_kept(home, capsys):
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
        (("onboard", "codex"), "Say --shadow or --enforce, or --dry-run to see the change."),
        (("offboard",), "No client is onboarded."),
        (("offboard", "codex"), "Codex CLI was not onboarded from here."),
        (("validate", "--live"), "No client is onboarded."),
    ],
)
def test_a_refusal_of_the_command_is_one_sentence(home, words, says):
    before = contents(home)
    assert run(*words) == f"counterfoil-agents: {says}"
    assert contents(home) == before


def test_a_hook_whose_console_is_away_refuses_and_says_so(home):
    assert run("onboard", "claude-code", "--shadow", "--url", "http://127.0.0.1:9") == 0
    folder = home / ".local/state/counterfoil/agents/claude-code"
    payload = {"session_id": "s", "cwd": str(home), "tool_name": "Bash", "tool_input": {"command": "git push | cat"}}
    words = [sys.executable, "-I", "-m", "counterfoil.coding_agents", "hook", "claude-code"]

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


@pytest.mark.parametrize("client", sorted(CLIENTS))
def test_the_installed_hook_imports_nothing_from_the_folder_that_the_agent_works_in(home, tmp_path, client):
    """A module of the project neither switches the hook off nor runs at a tool call."""
    assert run("onboard", client, "--shadow", "--url", "http://127.0.0.1:9") == 0
    project, mark = tmp_path / "project", tmp_path / "ran"
    (project / "counterfoil/coding_agents").mkdir(parents=True)
    for name in ("argparse", "json", "httpx", "counterfoil/__init__", "counterfoil/coding_agents/__main__"):
        (project / f"{name}.py").write_text(f"open({str(mark)!r}, 'w'); import os; os._exit(0)\n")
    entries = json.loads((home / CLIENTS[client].hooks_file).read_text())["hooks"][CLIENTS[client].events[0]]
    (command,) = [word for word in strings(entries) if "counterfoil" in word and "hook" in word]
    folder = home / f".local/state/counterfoil/agents/{client}/settings.json"
    folder.write_text(json.dumps(json.loads(folder.read_text()) | {"mode": "enforce"}))
    ran = subprocess.run(
        command,
        shell=True,
        cwd=project,
        env=os.environ | {"PYTHONPATH": str(project)},
        input=b"no JSON",
        capture_output=True,
        timeout=60,
    )
    assert (ran.returncode, ran.stdout, mark.exists()) == (2, b"", False)
    assert ran.stderr.startswith(b"Counterfoil: the hook failed, so nothing was run: JSONDecodeError")


def strings(node):
    if isinstance(node, str):
        return [node]
    each = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return [found for one in each for found in strings(one)]


SWITCHES = {
    ".claude/settings.local.json": ("claude-code", {"disableAllHooks": True}, "DISABLED by disableAllHooks in"),
    ".claude/settings.json": ("claude-code", {"disableAllHooks": True}, "DISABLED by disableAllHooks in"),
    ".gemini/settings.json": ("gemini", {"hooksConfig": {"enabled": False}}, "DISABLED by hooksConfig.enabled in"),
    ".copilot/config.json": ("copilot", {"disableAllHooks": True}, "DISABLED by disableAllHooks in"),
    ".github/copilot/settings.local.json": ("copilot", {"disableAllHooks": True}, "DISABLED by disableAllHooks in"),
}


@pytest.mark.parametrize("file", SWITCHES)
def test_status_and_validate_report_a_project_setting_that_disables_hooks(home, tmp_path, monkeypatch, capsys, file):
    client, setting, says = SWITCHES[file]
    assert run("onboard", client, "--shadow", "--url", "http://127.0.0.1:9") == 0
    project = tmp_path / "project"
    (project / file).parent.mkdir(parents=True)
    (project / ".git").mkdir()
    monkeypatch.chdir(project)
    run("status")
    assert "hook installed" in capsys.readouterr().out
    (project / file).write_text(json.dumps(setting))
    assert run("status") == 1
    assert f"{CLIENTS[client].title}: shadow, {says} {project / file}" in capsys.readouterr().out
    if client == "gemini":
        assert run("validate", "--live") != 0
        assert f"{CLIENTS[client].title}: {says} {project / file}" in capsys.readouterr().out


def test_status_reports_a_hook_that_gemini_disables_by_name(home, capsys):
    assert run("onboard", "gemini", "--shadow", "--url", "http://127.0.0.1:9") == 0
    path = home / ".gemini/settings.json"
    document = json.loads(path.read_text())
    (entry,) = document["hooks"]["BeforeTool"]
    for name in (entry["hooks"][0]["name"], entry["hooks"][0]["command"]):
        path.write_text(json.dumps(document | {"hooksConfig": {"disabled": ["other", name]}}))
        assert run("status") == 1
        assert f"DISABLED by hooksConfig.disabled in {path}" in capsys.readouterr().out


@pytest.mark.parametrize("client", sorted(CLIENTS))
def test_status_reports_a_hook_whose_entry_was_changed(home, capsys, client):
    assert run("onboard", client, "--shadow", "--url", "http://127.0.0.1:9") == 0
    path, event = home / CLIENTS[client].hooks_file, CLIENTS[client].events[0]
    document = json.loads(path.read_text())
    run("status")
    assert f"{CLIENTS[client].title}: shadow, hook installed" in capsys.readouterr().out
    (entry,) = [each for each in document["hooks"][event] if is_ours(each)]
    entry["matcher"] = "Nothing"
    path.write_text(json.dumps(document))
    assert run("status") == 1
    assert f"HOOK CHANGED, it may run for other tools or not stop them ({event})" in capsys.readouterr().out


@pytest.mark.parametrize("client", sorted(name for name, each in CLIENTS.items() if each.moved_by))
def test_status_reports_a_client_that_keeps_its_settings_elsewhere(home, monkeypatch, capsys, client):
    assert run("onboard", client, "--shadow", "--url", "http://127.0.0.1:9") == 0
    monkeypatch.setenv(CLIENTS[client].moved_by, "/elsewhere")
    assert run("status") == 1
    assert (
        f"NOT KNOWN: {CLIENTS[client].moved_by} has the client read its settings in /elsewhere"
        in capsys.readouterr().out
    )


def test_a_failing_hook_stops_the_command_where_the_client_supports_it(home):
    assert run("onboard", "--shadow") == 0
    hooks = {name: json.loads((home / each.hooks_file).read_text())["hooks"] for name, each in CLIENTS.items()}
    assert hooks["claude-code"]["PreToolUse"][-1]["hooks"][0]["onFailure"] == "block"
    assert "onFailure" not in hooks["claude-code"]["PostToolUse"][0]["hooks"][0]
    assert hooks["cursor"]["beforeShellExecution"][0]["failClosed"]
    assert "onFailure" not in hooks["codex"]["PreToolUse"][0]["hooks"][0]


def test_status_reports_an_installation_of_an_older_version_and_an_event_without_a_hook(home, capsys):
    assert run("onboard", "claude-code", "--shadow", "--url", "http://127.0.0.1:9") == 0
    path = home / ".claude/settings.json"
    text = path.read_text()
    path.write_text(text.replace(" -I -m ", " -m "))
    assert run("status") == 1
    assert (
        "HOOK OF AN OLDER VERSION, which imports from the agent's folder: run `onboard` again"
        in capsys.readouterr().out
    )
    document = json.loads(text)
    del document["hooks"]["PostToolUseFailure"]
    path.write_text(json.dumps(document))
    assert run("status") == 1
    assert "HOOK MISSING from the client's settings (PostToolUseFailure)" in capsys.readouterr().out


@pytest.mark.parametrize(("mode", "code"), [("enforce", 2), ("shadow", 0)])
def test_a_hook_that_would_be_late_refuses_before_its_client_gives_up(home, mode, code):
    """A client passes over a hook that is late; here nothing ever comes on standard input."""
    assert run("onboard", "claude-code", "--shadow", "--url", "http://127.0.0.1:9") == 0
    settings = home / ".local/state/counterfoil/agents/claude-code/settings.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"mode": mode}))
    words = (
        "import counterfoil.coding_agents.__main__ as hook; hook._SPARE_S = -519; hook.main(['hook', 'claude-code'])"
    )
    with subprocess.Popen(
        [sys.executable, "-I", "-c", words], stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ
    ) as waits:
        assert waits.wait(timeout=60) == code
        said = waits.stderr.read()
    assert said == (b"Counterfoil: the hook took too long, so nothing was run.\n" if code else b"")
