"""Hooks before and after each command of a coding agent: propose it, let it run, and report the outcome.

1. Before a command with an effect that is registered, the call is proposed. Where nothing holds it back, or people have
   approved it, its effect is looked at again: another one than was proposed cancels the action. Then an execution is
   started and the command runs; its words are exactly those that were proposed.
2. Where people must decide, the hook waits as long as the client lets it. Then the command is refused with a sentence
   that says so; the same command, sent again, goes on with the same request, also after a restart of the client.
3. Afterwards what the command said is reported; where a reading from here shows otherwise, that. It is evidence: what
   may be told is what the console answers.
4. A hook that cannot ask refuses. In shadow mode it never refuses, starts nothing, and notes what would have been
   and, after the command, what the system shows: with the user's own access, and on this machine only.
   What waits for nobody and was never started, since its hook died, is withdrawn by the next call that it blocks.
5. If the client never runs what was let through, or this process dies, the lease runs out and the system is read back.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from counterfoil.agent import SESSION_OVER
from counterfoil.answers import CallResult
from counterfoil.canonical import digest
from counterfoil.coding_agents.commands import read_back, read_command
from counterfoil.coding_agents.programs.files import read_file_tool
from counterfoil.coding_agents.shell import Effect, Refusal
from counterfoil.connection import Connection
from counterfoil.execution.grants import GrantRefused
from counterfoil.executor import Executor, Order
from counterfoil.problems import NotFound, Problem, Unreachable
from counterfoil.transport.reading import read_first_result
from counterfoil.work import Result, failed, succeeded

LEASE_S: Final = 120
SESSION_S: Final = 28_800
SETTLE_S: Final = 8.0
# How long a hook may take beyond its hold for a claim that is under way.
_CLAIM_S: Final = 10.0
_AGAIN: Final = (
    "To go on knowing that an earlier step did not end well, send the same command again: that is put on record."
)
MAY_DEFER: Final = "dontAsk"
"""The permission mode of Claude Code in which a run may be deferred: where `defer` is ignored, it denies by itself."""
_UNSETTLED: Final = ("UNRESOLVED_DEPENDENCY", "DUPLICATE_BLOCKED")
"""Refusals for an earlier action of the same run on the same target, and for one that was the same."""
_PENDING: Final = frozenset({"EXECUTING", "ACCEPTED", "PENDING", "UNKNOWN", "COMMITTED"})
"""States of an action that was started and whose outcome is not settled."""
_MAY_ARRIVE: Final = (
    "What came of the earlier action is not settled: a command that failed may still arrive for some two minutes, in "
    "which the system is read. Send the same command again after that."
)
_ENDED: Final = frozenset({"COMPLETED", "FAILED", "FINAL_STATE_UNKNOWN"})


@dataclass(frozen=True, kw_only=True)
class HookSettings:
    """One client's place at the console, as written by `onboard`."""

    client: str
    mode: str
    url: str
    agent_id: str
    agent_key: str
    executor_id: str
    executor_key: str
    hold_s: float
    issuer: str | None = None
    unattended: str = "refuse"
    """What a run in the mode `MAY_DEFER` is answered while people have not decided: `refuse`, or `defer`."""


@dataclass(frozen=True)
class FileCall:
    """A file that a client's tool writes, edits in part, or removes (`content` is None)."""

    path: str
    content: str | None


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """A shell command of a client or its written `files`, before it runs (`answer` is None) or afterwards."""

    session: str
    key: str
    command: str
    folder: Path
    answer: Result | None
    call_id: str = ""
    recorded_in: str = ""
    files: tuple[FileCall, ...] = ()
    event: str = ""
    permission_mode: str = ""

    def effect(self) -> Effect | None:
        """The effect that a call would have; None if it has none that is held. Raises `Refusal`."""
        if not self.files:
            return read_command(self.command, self.folder)
        found = [read_file_tool(each.path, each.content, self.folder) for each in self.files]
        return next(filter(None, found), None)


@dataclass(frozen=True)
class HookDecision:
    """The answer to the client: let it run, or not; `text` is read by the agent. `approved`: no further question.

    `deferred`: the run may end here and be resumed, when it comes to the same command again.
    """

    allowed: bool
    text: str = ""
    approved: bool = False
    deferred: bool = False


NOTHING: Final = HookDecision(True)
_SHELL_TOOLS: Final = frozenset({"Bash", "bash", "run_shell_command", "shell", "exec_command"})
_FILE_TOOLS: Final = frozenset(
    {"Write", "Edit", "MultiEdit", "NotebookEdit", "write_file", "replace", "create", "edit", "apply_patch"}
)
_PATCHED: Final = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+?)\s*$", re.M)
"""A file that a patch of Codex names."""


def read_call(client: str, payload: Mapping[str, Any]) -> ToolCall | None:
    """The shell command or the file in a hook's payload, in any client's form; None for another tool."""
    name = payload.get("tool_name", payload.get("toolName", ""))
    given = payload.get("tool_input", payload.get("toolArgs", payload))
    if isinstance(given, str):
        given = json.loads(given or "{}")
    if client != "cursor" and name not in _SHELL_TOOLS | _FILE_TOOLS:
        return None
    command = given.get("command", given.get("cmd", ""))
    command = " ".join(command) if isinstance(command, list) else str(command)
    files = _read_files(name, command, given) if name in _FILE_TOOLS else ()
    folder = Path(str(given.get("directory") or given.get("workdir") or "."))
    session = str(payload.get("session_id") or payload.get("sessionId") or payload.get("conversation_id") or "")
    cwd = Path(str(payload.get("cwd") or "."))
    asked = {"session": session, "cwd": str(cwd), "command": command, "files": [asdict(each) for each in files]}
    told = str(payload.get("tool_use_id") or digest(asked))
    return ToolCall(
        session=session,
        key=hashlib.sha256(f"{client} {told}".encode()).hexdigest(),
        command=command,
        folder=cwd / folder,
        answer=_read_answer(payload),
        call_id=str(payload.get("tool_use_id") or ""),
        recorded_in=str(payload.get("transcript_path") or ""),
        files=files,
        event=_event(payload),
        permission_mode=str(payload.get("permission_mode") or ""),
    )


def _event(payload: Mapping[str, Any]) -> str:
    return str(payload.get("hook_event_name") or payload.get("hookEventName") or "")


def _read_files(tool: str, command: str, given: Mapping[str, Any]) -> tuple[FileCall, ...]:
    if tool == "apply_patch":
        return tuple(FileCall(path, None) for path in _PATCHED.findall(command)) or (FileCall("", None),)
    path = next((given[name] for name in ("file_path", "path", "notebook_path") if given.get(name)), "")
    whole = [given[name] for name in ("content", "file_text") if isinstance(given.get(name), str)]
    return (FileCall(str(path), whole[0] if whole else None),)


def _read_answer(payload: Mapping[str, Any]) -> Result | None:
    """Parse the client's report on a call; only a report that it ended counts as success."""
    event = _event(payload).lower()
    said = next((payload[name] for name in ("tool_response", "toolResult", "output") if name in payload), None)
    if said is None and not event.startswith(("post", "after")):
        return None
    about = {**payload, **said} if isinstance(said, Mapping) else payload
    if about.get("interrupted") or about.get("is_interrupt"):
        return failed("INTERRUPTED", "The client says that the command was interrupted.", phase="unknown")
    codes = [about[name] for name in ("exit_code", "exitCode", "returncode") if about.get(name) is not None]
    wrong = about.get("error") or about.get("isError") or about.get("resultType") in ("failure", "denied", "rejected")
    if "failure" in event or wrong or any(code != 0 for code in codes):
        return failed("COMMAND_FAILED", "The client says that the command failed.", phase="unknown")
    return succeeded("the command ended", raw=said)


class Hook:
    """The hook of one client; `state` is a folder that only this user can read."""

    def __init__(self, settings: HookSettings, state: Path) -> None:
        self._settings = settings
        self._state = state
        self._agent = Connection(url=settings.url, key=settings.agent_key, timeout_s=10.0)
        self._until = time.monotonic() + settings.hold_s

    def close(self) -> None:
        """Close the connection."""
        self._agent.close()

    def before(self, call: ToolCall) -> HookDecision:
        """Decide before a command whether it may run (rules 1, 2 and 4)."""
        if self._settings.mode == "shadow":
            self._note_call(call)
            return NOTHING
        try:
            effect = call.effect()
            return NOTHING if effect is None else self._decide(call, effect)
        except Refusal as refusal:
            return HookDecision(False, str(refusal))
        except (Problem, Unreachable, GrantRefused, OSError) as fault:
            return HookDecision(False, f"The console could not be asked, so nothing runs: {fault}")

    def after(self, call: ToolCall) -> str:
        """Report the answer of a command; return the report for the agent, empty if the call was not held (rule 3)."""
        if self._settings.mode == "shadow":
            return self._note_reading(call)
        began = self._take("started", call.key)
        if began is None or call.answer is None:
            return ""
        action_id = str(began["action_id"])
        with closing(self._executor(began["tool"])) as executor:
            executor.report(
                action_id=action_id,
                attempt=str(began["attempt"]),
                tool=str(began["tool"]),
                result=_compare_with_reading(call, began),
            )
        until = time.monotonic() + SETTLE_S
        while True:
            report = self._agent.get(f"/actions/{action_id}/report")
            if report["code"] in _ENDED or time.monotonic() >= until:
                break
            time.sleep(0.5)
        return f"Counterfoil, action {action_id}: {report['text']}"

    def try_out(self, folder: Path) -> tuple[str, str]:
        """Have the gate judge a call without effect (a dry run); return the session and the verdict."""
        call = ToolCall(session="validate", key="0" * 64, command="", folder=folder, answer=None)
        arguments = {
            "remote": "https://git.example.org/counterfoil/validate.git",
            "repository": "counterfoil/validate.git",
            "ref": "refs/heads/validate",
            "commit": "0" * 40,
        }
        result = self._propose(call, Effect("git_push", arguments), dry_run=True)
        said = "it would pass" if result.accepted else _refusal_text(result)
        return str(self._session(call, renew=False)["session_id"]), said

    def _note_call(self, call: ToolCall) -> None:
        """Before a command in shadow mode, note what the gate would do with it, and by which rules (rule 4)."""
        try:
            effect = call.effect()
        except Refusal as refusal:
            self._note(call, would="refuse", rules=["COMMAND_FORM"], text=str(refusal))
            return
        if effect is None:
            return
        self._write("noted", call.key, {**asdict(effect), "folder": str(call.folder)})
        try:
            result = self._propose(call, effect, dry_run=True)
        except (Problem, Unreachable) as fault:
            self._note(call, would="unknown", rules=["CONSOLE_UNREACHABLE"], text=str(fault)[:300], **asdict(effect))
            return
        would = ("hold" if result.approval.get("required") else "pass") if result.accepted else "refuse"
        rules = list(result.approval.get("reasons") or ()) or ([] if result.accepted else [str(result.code)])
        self._note(call, would=would, rules=rules, text=result.message or "", **asdict(effect))

    def _note_reading(self, call: ToolCall) -> str:
        """After a command in shadow mode, note its client's answer and what the system shows (rule 4)."""
        noted = self._take("noted", call.key)
        if noted is None or call.answer is None:
            return ""
        effect = Effect(str(noted["tool"]), dict(noted["arguments"]))
        reading = read_back(effect, Path(noted["folder"]))
        self._note(call, **asdict(effect), said=call.answer.status, shown=asdict(reading) if reading else None)
        return ""

    def _decide(self, call: ToolCall, effect: Effect) -> HookDecision:
        asked = digest({"session": call.session, "tool": effect.tool, "arguments": effect.arguments})
        self._withdraw_earlier(call, asked)
        known = self._read("held", asked) or {}
        action_id = str(known.get("action_id", ""))
        if not action_id:
            result = self._propose_anew(call, effect, asked, known)
            if not result.accepted:
                failed_steps = _named_actions(result, path="/acknowledges")
                if failed_steps:
                    self._write("held", asked, {"failed": failed_steps})
                    return HookDecision(False, f"Refused ({result.code}). {result.message} {_AGAIN}")
                self._take("held", asked)
                late = result.code in _UNSETTLED and any(map(self._is_pending, _named_actions(result)))
                return HookDecision(False, f"{_refusal_text(result)} {_MAY_ARRIVE if late else ''}".strip())
            action_id = str(result.action_id)
            self._write("held", asked, {"action_id": action_id})
        while True:
            order = self._claim(effect.tool, asked, action_id)
            if order is not None:
                if call.effect() != effect:
                    return self._cancel(asked, action_id)
                with closing(self._executor(effect.tool)) as executor:
                    work = executor.begin(order)
                known = {"action_id": action_id, "attempt": work.attempt, "folder": str(call.folder), **asdict(effect)}
                self._write("started", call.key, known)
                self._take("held", asked)
                approved = ((self._status(action_id).get("approval")) or {}).get("decision") == "APPROVED"
                return HookDecision(True, "Approved at the console." if approved else "", approved)
            status = self._status(action_id)
            if status.get("state") != "VALIDATED":
                self._take("held", asked)
                return HookDecision(False, f"Not run. {self._outcome(action_id, status)} (action {action_id})")
            if time.monotonic() >= self._until:
                approved = (status.get("approval") or {}).get("decision") == "APPROVED"
                why = "it is approved and about to be released" if approved else "people must approve it first"
                return HookDecision(
                    False,
                    f"Not run yet: {why} (action {action_id}). Nothing was changed. "
                    "Send the same command again later; it goes on with this request.",
                    deferred=self._settings.unattended == "defer" and call.permission_mode == MAY_DEFER,
                )

    def _propose_anew(self, call: ToolCall, effect: Effect, asked: str, known: Mapping[str, Any]) -> CallResult:
        """Propose an effect without an existing request of this hook, and cancel requests that no hook can start any
        more.
        """
        call_id = str(known.get("call_id") or uuid4().hex)
        session = known.get("session")
        while True:
            # Written first: a hook that its client kills in the middle proposes the same call again, not another; it
            # is the same call in the session in which it was proposed, however long ago.
            session = session or dict(self._session(call, renew=False))
            self._write("held", asked, {**known, "call_id": call_id, "session": session})
            result = self._propose(call, effect, acknowledges=known.get("failed", ()), call_id=call_id, session=session)
            session = None
            blocking = _named_actions(result) if result.code in _UNSETTLED else []
            # The same action may be another machine's; one of the same run is this client's.
            withdrawn = result.code == _UNSETTLED[0] and self._withdraw_abandoned(blocking)
            if not withdrawn and not self._await_settled(blocking):
                return result
            call_id = uuid4().hex

    def _await_settled(self, action_ids: Sequence[str]) -> bool:
        """Wait until pending actions have ended, within the client's time limit; return True if they did."""
        waited = False
        while any(map(self._is_pending, action_ids)):
            if time.monotonic() >= self._until:
                return False
            waited = True
            time.sleep(1)
        return waited

    def _is_pending(self, action_id: str) -> bool:
        return self._status(action_id).get("state") in _PENDING

    def _withdraw_earlier(self, call: ToolCall, asked: str) -> None:
        """Cancel earlier proposals of the same command that would now have another effect (rule 1)."""
        files = [each.path for each in call.files]
        name = digest({"session": call.session, "command": call.command, "files": files})
        earlier = self._read("commands", name) or {}
        self._write("commands", name, {"asked": asked})
        waiting = self._read("held", str(earlier.get("asked"))) if earlier.get("asked") != asked else None
        if waiting and waiting.get("action_id"):
            with suppress(Problem):
                self._cancel(str(earlier["asked"]), str(waiting["action_id"]))

    def _cancel(self, asked: str, action_id: str) -> HookDecision:
        reason = "The command would no longer do what was proposed."
        self._take("held", asked)
        self._agent.write(f"/actions/{action_id}/cancel", {"reason": reason}, give_up_after_s=10.0)
        return HookDecision(
            False,
            f"Not run: a file, a ref or what it changes is not what was proposed any more, so action {action_id} is "
            "cancelled. Nothing was changed. Send the command again to propose it as it is now.",
        )

    def _withdraw_abandoned(self, action_ids: Sequence[str]) -> bool:
        """Withdraw actions because of which a call was refused, if each was allowed and no hook is left to start it."""
        if not action_ids or not all(map(self._is_abandoned, action_ids)):
            return False
        try:
            for action_id in action_ids:
                reason = "It was never started: the hook that proposed it has ended."
                self._agent.write(f"/actions/{action_id}/cancel", {"reason": reason}, give_up_after_s=10.0)
        except Problem:
            # It was started in this moment after all, and blocks by right.
            return False
        return True

    def _is_abandoned(self, action_id: str) -> bool:
        status = self._status(action_id)
        if status.get("state") != "VALIDATED" or status.get("approval"):
            return False
        age = datetime.now(UTC) - datetime.fromisoformat(str(status["proposed_at"]))
        return age.total_seconds() > self._settings.hold_s + _CLAIM_S

    def _claim(self, tool: str, asked: str, action_id: str) -> Order | None:
        """The order, if it may start. A claim is written down until it is answered: if the client kills the hook
        meanwhile, the next hook repeats that claim and gets the order.
        """
        wait_s = max(0, min(8, int(self._until - time.monotonic())))
        claim = (self._read("held", asked) or {}).get("claim") or {"key": uuid4().hex, "wait_s": wait_s}
        self._write("held", asked, {"action_id": action_id, "claim": claim})
        with closing(self._executor(tool)) as executor:
            orders = executor.claim(actions=[action_id], wait_s=int(claim["wait_s"]), idempotency_key=str(claim["key"]))
        self._write("held", asked, {"action_id": action_id})
        now = datetime.now(UTC)
        return next((order for order in orders if datetime.fromisoformat(order.grant_expires_at) > now), None)

    def _status(self, action_id: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = self._agent.get(f"/actions/{action_id}")
        except NotFound:
            return {}
        return found

    def _outcome(self, action_id: str, status: Mapping[str, Any]) -> str:
        """The reason why an action does not run, in the words of the deciding person if there are any."""
        if not status:
            return "The console no longer knows it."
        verdict = status.get("approval")
        if not verdict or verdict["waiting"]:
            return str(self._agent.get(f"/actions/{action_id}/report")["text"])
        decided = str(verdict["decision"]).replace("_", " ").capitalize()
        return f"{decided}{': ' + verdict['reason'] if verdict['reason'] else '.'} {verdict['next']['text']}"

    def _propose(
        self,
        call: ToolCall,
        effect: Effect,
        *,
        dry_run: bool = False,
        acknowledges: Sequence[str] = (),
        call_id: str = "",
        session: Mapping[str, Any] | None = None,
    ) -> CallResult:
        """Propose a call in the client's session, at first in `session`, and open a new one if that one is over."""
        body = {
            "call_id": call_id or uuid4().hex,
            "tool": effect.tool,
            "arguments": effect.arguments,
            **({"dry_run": True} if dry_run else {}),
            **({"acknowledges": list(acknowledges)} if acknowledges else {}),
        }
        now = self._session(call, renew=False)
        result = self._send_call(session or now, body)
        if result.code in SESSION_OVER and session not in (None, now):
            result = self._send_call(now, body)
        if result.code in SESSION_OVER:
            result = self._send_call(self._session(call, renew=True), body)
        return result

    def _send_call(self, session: Mapping[str, Any], body: Mapping[str, Any]) -> CallResult:
        calls = [{**body, "pin_hash": session["pin_hash"]}]
        answer = self._agent.write(f"/sessions/{session['session_id']}/calls", {"calls": calls}, give_up_after_s=10.0)
        return read_first_result(answer)

    def _session(self, call: ToolCall, *, renew: bool) -> Mapping[str, Any]:
        """The console's session for the client's own; several hooks at once open one (rule 2)."""
        name = digest({"session": call.session, "folder": str(call.folder)})
        with self._state_lock():
            known = None if renew else self._read("sessions", name)
            if known is not None and known["until"] > time.time():
                return known
            goal = f"Work with {self._settings.client} in {call.folder.resolve().name or 'the root folder'}."
            body = {"agent_id": self._settings.agent_id, "goal": goal, "ttl_seconds": SESSION_S}
            opened = self._agent.write("/sessions", body, give_up_after_s=10.0)
            made = {
                "session_id": opened["session_id"],
                "pin_hash": opened["pin"]["hash"],
                "until": time.time() + SESSION_S - 60,
            }
            self._write("sessions", name, made)
            return made

    def _executor(self, tool: str) -> Executor:
        settings = self._settings
        return Executor(
            url=settings.url,
            key=settings.executor_key,
            executor_id=settings.executor_id,
            key_file=self._state / "executor.jwk",
            handlers={tool: _never},
            timeout_s=LEASE_S,
            report_for_s=20.0,
            issuer=settings.issuer,
        )

    # What is kept between two starts of this program: names are hashes, contents ids

    @contextmanager
    def _state_lock(self) -> Iterator[None]:
        with (self._state / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _file(self, kind: str, name: str) -> Path:
        return self._state / kind / f"{name}.json"

    def _read(self, kind: str, name: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads(self._file(kind, name).read_text())
        except FileNotFoundError:
            return None
        return found

    def _write(self, kind: str, name: str, document: Mapping[str, Any]) -> None:
        path = self._file(kind, name)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(document))
        fresh.replace(path)

    def _take(self, kind: str, name: str) -> dict[str, Any] | None:
        found = self._read(kind, name)
        self._file(kind, name).unlink(missing_ok=True)
        return found

    def _note(self, call: ToolCall, **line: Any) -> None:
        """Write one line of the shadow report, without the command itself."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        about = {"folder": str(call.folder), "call_id": call.call_id, "recorded_in": call.recorded_in}
        with (self._state / "shadow.jsonl").open("a") as report:
            report.write(json.dumps({"at": at, "client": self._settings.client, **about, **line}) + "\n")


def _compare_with_reading(call: ToolCall, began: Mapping[str, Any]) -> Result:
    """The client's result of a command, or a contradiction if the hook's own reading shows otherwise (rule 3)."""
    assert call.answer is not None
    effect, folder = Effect(str(began["tool"]), dict(began["arguments"])), Path(began["folder"])
    reading = read_back(effect, folder) if call.answer.status == "success" else None
    if reading is None or reading.as_asked:
        return call.answer
    why = f"The client says that the command ended; {reading.text}."
    return failed("CONTRADICTED_BY_READING", why, phase="unknown")


def _never(_: object) -> Result:
    raise AssertionError("the client runs the command, not this program")


def _refusal_text(result: CallResult) -> str:
    return f"Refused ({result.code}). {' '.join(filter(None, [result.message, result.hint]))}".strip()


def _named_actions(result: CallResult, path: str = "") -> list[str]:
    """The earlier actions because of which a call was refused; `/acknowledges` are those to acknowledge."""
    named = [each for each in result.errors if each.get("action_id") and (not path or each.get("path") == path)]
    return [str(each["action_id"]) for each in named]


# What each client reads


def answer_before(client: str, decision: HookDecision) -> dict[str, Any]:
    """The answer to a hook before a command, in the client's form; empty if the client's own rules decide."""
    if client == "cursor":
        said = {"user_message": decision.text, "agent_message": decision.text} if decision.text else {}
        return {"permission": "allow" if decision.allowed else "deny", **said}
    if decision.allowed and not decision.approved:
        return {}
    verdict = "allow" if decision.allowed else "deny"
    if client == "claude-code" and decision.deferred:
        verdict = "defer"
    if client == "gemini":
        return {"decision": verdict, "reason": decision.text}
    if client in ("codex", "copilot") and decision.allowed:
        return {}
    told = {"permissionDecision": verdict, "permissionDecisionReason": decision.text}
    return told if client == "copilot" else {"hookSpecificOutput": {"hookEventName": "PreToolUse", **told}}


def answer_after(client: str, text: str, event: str = "") -> dict[str, Any]:
    """The answer to a hook after a command: the report for the agent to read."""
    usual = {"claude-code": "PostToolUse", "codex": "PostToolUse", "gemini": "AfterTool"}.get(client)
    if not text or usual is None:
        return {}
    return {"hookSpecificOutput": {"hookEventName": event or usual, "additionalContext": text}}
