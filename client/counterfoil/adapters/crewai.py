"""CrewAI: a session's tools, and the guard as a task's guardrail.

`tools(session)` gives tools for `Agent(tools=...)`; arguments go to the gate as the model wrote them. `guard(session)`
is a guardrail for `Task(guardrail=...)` that puts what may go out in the place of the task's text.

CrewAI keeps no call's id, so each call is one of its own; a repeated call reaches the gate again, because results are
not taken from the crew's cache. A tool that is not there and text that is no JSON are answered by CrewAI itself and
never reach the gate. A crew cannot be ended and resumed at a call: one that waits for people longer than `wait_s` is
told as open, and `check_action` asks again. CrewAI ends a run that hears the same answer too often; the action goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from crewai import TaskOutput
from crewai.tools import BaseTool
from pydantic import BaseModel, ConfigDict, PrivateAttr

from counterfoil.adapters.offer import parse_call, propose_call, session_tools
from counterfoil.agent import Session
from counterfoil.answers import Tool
from counterfoil.telling import outcome_text


class GatedCrewTool(BaseTool):
    """A tool whose arguments are judged at the gate."""

    _session: Session = PrivateAttr()
    _wait_s: float = PrivateAttr()

    def __init__(self, session: Session, tool: Tool, wait_s: float) -> None:
        super().__init__(
            name=tool.name,
            description=tool.description,
            args_schema=_arguments_model(tool.arguments_schema),
            cache_function=_never,
        )
        self._session, self._wait_s = session, wait_s

    def _run(self, **arguments: Any) -> str:
        call = parse_call(self.name, arguments, None)
        return outcome_text(
            self._session.carry_out(propose_call(self._session, call, for_s=self._wait_s)), can_ask=True
        )

    async def _arun(self, **arguments: Any) -> str:
        return await asyncio.to_thread(self._run, **arguments)


def tools(session: Session, *, wait_s: float = 30.0) -> list[BaseTool]:
    """The tools of a session; each call waits `wait_s` at most for its outcome."""
    return [GatedCrewTool(session, one, wait_s) for one in session_tools(session)]


def guard(session: Session) -> Callable[[TaskOutput], tuple[bool, Any]]:
    """A guardrail that lets a task's text through as the guard allows it."""

    # CrewAI refuses a guardrail whose annotations are postponed; a lambda has none.
    return lambda output: (True, session.guarded(output.raw))


def _never(arguments: Any = None, result: Any = None) -> bool:
    return False


def _arguments_model(schema: Mapping[str, Any]) -> type[BaseModel]:
    """A model that accepts any arguments and shows the contract's schema."""

    class Arguments(BaseModel):
        model_config = ConfigDict(extra="allow")

        @classmethod
        def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
            return dict(schema)

    return Arguments
