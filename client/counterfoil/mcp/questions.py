"""Relay what a server asks its client in the middle of a read: elicitation, sampling, roots.

1. Only a read may ask. Its contract says that it changes nothing, so no answer changes an effect. The answer to a tool
   that changes something would be part of a call that was judged and approved without it; such a tool is refused it.
2. A question is a stranger's text. It belongs to one action and goes to a caller of that action, if the caller declares
   that it answers such questions. It says first who asks, and that an answer approves nothing. Invisible characters,
   the context of other servers and tools are left out; size and number are limited. A page of the console is never
   passed on as a server's: only the gateway sends people there.
3. An answer goes to the server, under the key and in the form that were asked for, and nowhere else. It starts,
   approves and withdraws nothing.
4. Questions and answers are part of what is reported about the attempt (`record`).
5. A question that nobody answers within the call's time ends the call: the read has failed, and may be made again.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from pydantic import BaseModel, ValidationError

from counterfoil.mcp.surface import visible_text

MOST: Final = 20
"""Questions of one call."""
MOST_BYTES: Final = 50_000
_MOST_KEPT: Final = 2_000
_NOTICE: Final = "The server {} asks this. An answer goes to that server and approves nothing."
_ANSWERS: Final[dict[str, type[BaseModel]]] = {
    "elicitation/create": types.ElicitResult,
    "sampling/createMessage": types.CreateMessageResult,
    "roots/list": types.ListRootsResult,
}
Context = ServerRequestContext[Any, Any]


class QuestionUnanswered(Exception):
    """A question has no answer, and the call ends with the reason."""


class Questions:
    """The questions of one call: those that are open, and the record of all. `early` are answers that came with the
    call, for questions that are asked under the same keys.
    """

    def __init__(
        self,
        server: str,
        capabilities: types.ClientCapabilities | None,
        *,
        console: frozenset[str],
        early: Mapping[str, Any] | None = None,
    ) -> None:
        self._server = server
        self._console = console
        self._early = dict(early or {})
        self.declared = declared_part(capabilities)
        self.record: list[dict[str, Any]] = []
        self.missing: types.ErrorData | None = None
        self._open: dict[str, types.InputRequest] = {}
        self._answers: dict[str, BaseModel] = {}
        self._refusal = ""
        self._numbers = itertools.count(2)
        self._opened = anyio.Event()
        self._changed = anyio.Event()

    def open_for(self, capabilities: types.ClientCapabilities | None) -> dict[str, types.InputRequest]:
        """The open questions that a client with these capabilities answers."""
        return {key: each for key, each in self._open.items() if _answers(capabilities, each)}

    async def wait(self) -> None:
        """Wait until a question is open."""
        await self._opened.wait()

    async def ask(self, requests: Mapping[str, types.InputRequest]) -> dict[str, BaseModel]:
        """Put the requests to the callers; return the answers once each has one, or raise `QuestionUnanswered`."""
        if len(self.record) + len(requests) > MOST:
            raise QuestionUnanswered("The server asked too many questions.")
        declared = types.ClientCapabilities.model_validate(self.declared)
        if not all(_answers(declared, each) for each in requests.values()):
            raise QuestionUnanswered("The server asked what its client does not answer.")
        keys = {self._new_key(key): key for key in requests}
        shown = {mine: self._show(requests[key]) for mine, key in keys.items()}
        self._open |= shown
        try:
            self.answer({mine: self._early.pop(key) for mine, key in keys.items() if key in self._early})
            while any(mine in self._open for mine in keys):
                self._opened.set()
                await self._changed.wait()
                if self._refusal:
                    raise QuestionUnanswered(self._refusal)
        finally:
            for mine in keys:
                self._open.pop(mine, None)
                asked, told = shown[mine], self._answers.get(mine)
                self.record.append({"asked": _plain(asked), "answered": _plain(told) if told is not None else None})
            self._close_if_answered()
        return {key: self._answers[mine] for mine, key in keys.items()}

    def answer(self, responses: Mapping[str, Any]) -> None:
        """Take the answers that fit an open question; anything else is no answer."""
        for key in responses.keys() & self._open.keys():
            told = responses[key]
            given = _plain(told) if isinstance(told, BaseModel) else told
            try:
                answer = _ANSWERS[self._open[key].method].model_validate(given)
            except ValidationError:
                continue
            if len(answer.model_dump_json()) <= MOST_BYTES:
                self._answers[key] = answer
                del self._open[key]
        self._close_if_answered()
        self._tell()

    def refuse(self, reason: str) -> None:
        """End the asking: the caller who could answer does not."""
        self._refusal = reason
        self._tell()

    async def put(self, ctx: Context) -> None:
        """Put each question to a client of the older versions, as a request in the middle of its own."""
        while True:
            await self.wait()
            asked = self.open_for(ctx.session.client_capabilities)
            if not asked:
                return
            for key, request in asked.items():
                try:
                    told = await ctx.session.send_request(
                        request, _ANSWERS[request.method], metadata=ServerMessageMetadata(ctx.request_id)
                    )
                except (MCPError, ValidationError) as fault:
                    return self.refuse(f"The client gave no answer to the server's question: {str(fault)[:200]}")
                self.answer({key: told})
                if key in self._open:
                    return self.refuse("The client's answer to the server's question is none.")

    def _new_key(self, key: str) -> str:
        """A key that names one question of the call, also where the server uses its own again."""
        used = key in self._answers or key in self._open
        return f"{key}-{next(self._numbers)}" if used else key

    def _show(self, request: types.InputRequest) -> types.InputRequest:
        try:
            return shown_request(request, self._server, self._console)
        except QuestionUnanswered as fault:
            text = request.model_dump_json(by_alias=True, exclude_none=True)
            self.record.append({"asked": text[:_MOST_KEPT], "answered": None, "why": str(fault)})
            raise

    def _close_if_answered(self) -> None:
        if not self._open and self._opened.is_set():
            self._opened = anyio.Event()

    def _tell(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()


def declared_part(capabilities: types.ClientCapabilities | None) -> dict[str, Any]:
    """The capabilities of a client that a server behind the gateway may rely on."""
    has = capabilities or types.ClientCapabilities()
    relayed = types.ClientCapabilities(
        elicitation=has.elicitation,
        sampling=types.SamplingCapability() if has.sampling is not None else None,
        roots=types.RootsCapability() if has.roots is not None else None,
    )
    return relayed.model_dump(mode="json", by_alias=True, exclude_none=True)


def shown_request(request: types.InputRequest, server: str, console: frozenset[str]) -> types.InputRequest:
    """A server's request as its client sees it (rule 2). Raise `QuestionUnanswered` for one that is not passed on."""
    if len(request.model_dump_json(by_alias=True)) > MOST_BYTES:
        raise QuestionUnanswered("The server's question is too long to be passed on.")
    notice = _NOTICE.format(server)
    if isinstance(request, types.ElicitRequest):
        params = request.params
        if isinstance(params, types.ElicitRequestURLParams):
            page = urlsplit(params.url)
            if page.scheme != "https" or not page.hostname or page.hostname.lower() in console:
                raise QuestionUnanswered("The server asked to open a page that is not passed on.")
        told = {"message": f"{notice}\n{visible_text(params.message)}", "meta": None, "task": None}
        return types.ElicitRequest(params=params.model_copy(update=told))
    if isinstance(request, types.CreateMessageRequest):
        prompt = "\n".join(filter(None, (notice, visible_text(request.params.system_prompt or ""))))
        bare = dict.fromkeys(("include_context", "tools", "tool_choice", "metadata", "task", "meta"))
        return types.CreateMessageRequest(params=request.params.model_copy(update=bare | {"system_prompt": prompt}))
    return types.ListRootsRequest()


def _answers(capabilities: types.ClientCapabilities | None, request: types.InputRequest) -> bool:
    has = capabilities or types.ClientCapabilities()
    if isinstance(request, types.ElicitRequest):
        if isinstance(request.params, types.ElicitRequestURLParams):
            return has.elicitation is not None and has.elicitation.url is not None
        # A client that names no mode has forms.
        return has.elicitation is not None and (has.elicitation.form is not None or has.elicitation.url is None)
    return (has.sampling if isinstance(request, types.CreateMessageRequest) else has.roots) is not None


def _plain(message: BaseModel) -> dict[str, Any]:
    return message.model_dump(mode="json", by_alias=True, exclude_none=True)
