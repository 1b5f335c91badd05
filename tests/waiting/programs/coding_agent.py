"""A coding agent with hooks, in the form of Claude Code: before its command, and after it.

It sends the same command again while it is told that the command was not run yet. It keeps nothing: its conversation
has the command, and the hook its own notes.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.waiting.programs.client import Folder, pause, say

folder = Folder()
told = folder.told


def hook(event: str, **more: Any) -> dict[str, Any]:
    """What the client hears from the hook that stands in its own settings."""
    settings = json.loads((Path(told["home"]) / ".claude/settings.json").read_text())
    (entry,) = settings["hooks"][event]
    payload = {
        "session_id": told["name"],
        "transcript_path": "/dev/null",
        "cwd": told["work"],
        "permission_mode": "default",
        "hook_event_name": event,
        "tool_name": "Bash",
        "tool_input": {"command": told["command"], "description": "Push"},
        "tool_use_id": f"toolu_{told['name']}",
    } | more
    words = entry["hooks"][0]["command"]
    ran = subprocess.run(words, shell=True, input=json.dumps(payload), capture_output=True, text=True)
    return dict(json.loads(ran.stdout)["hookSpecificOutput"]) if ran.stdout else {}


while True:
    said = hook("PreToolUse")
    decision, reason = said.get("permissionDecision", ""), said.get("permissionDecisionReason", "")
    say(decision, reason)
    if decision == "allow":
        ran = subprocess.run(told["command"], shell=True, cwd=told["work"], capture_output=True, text=True)
        answer = {"stdout": ran.stdout, "stderr": ran.stderr, "interrupted": False, "exit_code": ran.returncode}
        after = str(hook("PostToolUse", tool_response=answer).get("additionalContext", ""))
        folder.heard("APPROVED", after, done=ran.returncode == 0)
        break
    if decision == "deny" and reason.startswith("Not run."):
        folder.heard("REJECTED" if "Rejected" in reason else "", reason, done=False)
        break
    if reason.startswith("Refused"):
        folder.heard("NONE", reason, done=False)
        break
    pause()
