"""Shadow mode: let every call through and report what the gate would have decided.

1. Nothing is blocked, hidden or delayed: tools are listed as the server lists them, calls are sent as they came.
2. The gate is asked beside each call, as a dry run: it judges and notes, and there is no action, no approval and no
   grant. The effect is nobody's but the caller's; the record claims nothing about it.
3. Each call is one line of the report: what would have become of it, and what the server answered. Arguments and
   answers are not written down. A console that is away is one of the outcomes, and holds nothing up.
"""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from anyio import to_thread
from anyio.abc import TaskGroup
from mcp.server.context import ServerRequestContext

from counterfoil.agent import Call
from counterfoil.answers import CallResult
from counterfoil.mcp.desk import ConsoleClient
from counterfoil.mcp.settings import Settings
from counterfoil.mcp.state import first_texts
from counterfoil.mcp.surface import ToolDecision, ToolSurface, compare_tools, contract_name
from counterfoil.mcp.upstream import Upstream
from counterfoil.problems import BodyRefused, Problem, Unreachable

log = logging.getLogger("counterfoil.mcp")

Context = ServerRequestContext[Any, Any]
_LEFT_S = 5.0


class ShadowTools:
    """Answers for tools as the server does, and reports."""

    def __init__(self, settings: Settings, upstream: Upstream) -> None:
        self._settings = settings
        self._upstream = upstream
        self._tasks: TaskGroup | None = None
        self._desk = ConsoleClient(settings)
        self._surface = ToolSurface({})
        self._open = False
        self._asked = 0
        self._would: Counter[str] = Counter()

    async def ready(self, tasks: TaskGroup) -> None:
        """Open a session for the dry runs, if the console is there."""
        self._tasks = tasks
        try:
            await to_thread.run_sync(self._desk.open)
            self._open = True
        except (Problem, Unreachable) as fault:
            log.warning("the gate cannot be asked, and nothing waits for it: %s", fault)
        await self.look()

    async def settle(self) -> None:
        """Wait for the last answers of the gate."""
        with anyio.move_on_after(_LEFT_S):
            while self._asked:
                await anyio.sleep(0.05)

    def close(self) -> None:
        """Write the report of what was seen."""
        log.warning("shadow mode, calls by what would have become of them: %s", dict(self._would) or "none")
        self._desk.close()

    def doubt(self) -> None:
        """Do nothing: in shadow mode no call is held back."""

    async def look(self) -> None:
        """Survey the server's tools; report what would be withheld without withholding it."""
        listing, prefix = await self._upstream.tools(), self._settings.prefix
        with first_texts(self._settings) as seen_first:
            self._surface = compare_tools(
                listing.tools, self._desk.known, prefix=prefix, unread=listing.unread, seen_first=seen_first
            )
        for one in self._surface.seen.values():
            if one.fate is not ToolDecision.OFFERED:
                self._write({"tool": one.tool.name, "would": _word(one.fate), "listed": True, "message": one.why})

    async def list_tools(self, _: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        cursor = params.cursor if params is not None else None
        request = types.ListToolsRequest(params=types.PaginatedRequestParams(cursor=cursor))
        return await self._upstream.ask(request, types.ListToolsResult)

    async def call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        assert self._tasks is not None
        line: dict[str, Any] = {"tool": params.name, "at": datetime.now(UTC).isoformat()}
        self._asked += 1
        begun = time.monotonic()
        judged = anyio.Event()
        self._tasks.start_soon(self._judge, params, line, judged)
        answered = "error"
        try:
            request = types.CallToolRequest(params=params.model_copy(update={"meta": None}))
            said = await self._upstream.pass_on(request, progress=ctx.session.report_progress)
            answered = "failed" if said.is_error else "success"
            return said
        finally:
            line |= {"answered": answered, "ms": round((time.monotonic() - begun) * 1000)}
            self._tasks.start_soon(self._report, line, judged)

    async def _judge(self, params: types.CallToolRequestParams, line: dict[str, Any], judged: anyio.Event) -> None:
        try:
            line |= await self._verdict(params)
        finally:
            judged.set()

    async def _verdict(self, params: types.CallToolRequestParams) -> dict[str, Any]:
        seen = self._surface.seen.get(params.name)
        if seen is not None and seen.fate is ToolDecision.CHANGED:
            return {"would": _word(seen.fate), "code": "TOOL_CHANGED", "message": seen.why}
        if not self._open:
            return {"would": "unknown", "code": "GATE_UNREACHABLE"}
        call = Call(
            tool=contract_name(self._settings.prefix, params.name), arguments=params.arguments or {}, dry_run=True
        )
        try:
            result, _ = await to_thread.run_sync(partial(self._desk.propose, call))
            return _shadow_note(result)
        except BodyRefused as fault:
            return {"would": "refuse", "code": fault.code, "message": fault.detail, "hint": fault.hint}
        except (Problem, Unreachable) as fault:
            return {"would": "unknown", "code": "GATE_UNREACHABLE", "message": str(fault)[:300]}

    async def _report(self, line: dict[str, Any], judged: anyio.Event) -> None:
        await judged.wait()
        self._asked -= 1
        self._would[line.get("would", "unknown")] += 1
        self._write(line)

    def _write(self, line: dict[str, Any]) -> None:
        line.setdefault("at", datetime.now(UTC).isoformat())
        text = json.dumps({name: part for name, part in line.items() if part not in (None, "")}, ensure_ascii=False)
        path = self._settings.gateway.report
        if not path:
            log.warning("%s", text)
            return
        with Path(path).expanduser().open("a", encoding="utf-8") as file:
            file.write(text + "\n")


def _word(fate: ToolDecision) -> str:
    return {ToolDecision.CHANGED: "withhold", ToolDecision.UNREGISTERED: "hide"}.get(fate, "pass")


def _shadow_note(result: CallResult) -> dict[str, Any]:
    if result.accepted:
        return {"would": "hold" if result.approval.get("required") else "pass"}
    return {"would": "refuse", "code": result.code, "message": result.message, "hint": result.hint}
