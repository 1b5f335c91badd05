"""Send a caller who may decide to the console's page of the request (URL elicitation), and seal what it brings back.

The page is the console's own: who opens it signs in there and has only their own rights, so the address gives nothing
away and a client's word that it was opened changes nothing. A client without tasks sends its call again with
`requestState`. That is the action's id, encrypted under a key of this executor, for an hour, for this agent and this
very call (tool and arguments); everything else is refused before it reaches a handler. A repeated one leads to the same
action, which runs once.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from counterfoil.mcp.errands import PendingCall
from counterfoil.mcp.settings import Settings
from counterfoil.proof import load_key

STATE_S = 3_600.0
_LABEL = b"counterfoil-mcp requestState"
_MESSAGE = "This call waits for approval. If you may decide about it, open its page at the console and decide there."
Context = ServerRequestContext[Any, Any]


class CallerDecision:
    """The request to open the page of a held call; `pages` is the address of the console's requests, or empty."""

    def __init__(self, pages: str) -> None:
        self._pages = pages.rstrip("/")
        # A key names one request only, also beyond this run of the gateway.
        self._key = f"decision-{secrets.token_hex(4)}"

    def requests(self, ctx: Context, errand: PendingCall, approval_id: str | None) -> dict[str, types.ElicitRequest]:
        """The request for this client; none if it opens no pages or has answered already."""
        if not (self._pages and approval_id and errand.held) or errand.sent_to_page or not _opens_pages(ctx):
            return {}
        page = types.ElicitRequestURLParams(message=_MESSAGE, url=f"{self._pages}/{approval_id}")
        return {self._key: types.ElicitRequest(params=page)}

    def note(self, errand: PendingCall, responses: Mapping[str, Any]) -> None:
        """Ask no more once the request was answered, whatever the answer is."""
        errand.sent_to_page = errand.sent_to_page or self._key in responses


def state_boundary(settings: Settings) -> RequestStateBoundary:
    """The seal of `requestState`; a state is good for one agent and one token of the gateway."""
    private = load_key(settings.executor_jwk).private.private_bytes_raw()
    caller = f"{settings.console.agent_id} {hashlib.sha256(settings.gateway.token.encode()).hexdigest()}"
    security = RequestStateSecurity(
        keys=[hmac.digest(private, _LABEL, "sha256")], ttl=STATE_S, bind_principal=lambda _: caller
    )
    return RequestStateBoundary(security, default_audience=f"{settings.console.url} {settings.executor_id}")


def _opens_pages(ctx: Context) -> bool:
    has = ctx.session.client_capabilities
    modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
    return modern and has is not None and has.elicitation is not None and has.elicitation.url is not None
