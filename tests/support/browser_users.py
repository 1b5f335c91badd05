"""People at the pages: signed in, looking at what a browser would get."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from django.test import Client

from console.actions import target_drift
from ledger.db import tenancy
from tests.support.callers import signed_in
from tests.support.scenes import PASSWORD, Stage


@dataclass
class Visitor:
    """One signed-in person in one tenant."""

    client: Client
    slug: str

    def get(self, path: str = "", **query: Any) -> Any:
        return self.client.get(f"/t/{self.slug}/{path}", query)

    def fragment(self, path: str = "") -> Any:
        return self.client.get(f"/t/{self.slug}/{path}", headers={"HX-Request": "true"})

    def post(self, path: str, **fields: Any) -> Any:
        return self.client.post(f"/t/{self.slug}/{path}", fields)

    def page(self, path: str = "", **query: Any) -> str:
        """The text of a page that must be there."""
        answer = self.get(path, **query)
        assert answer.status_code == 200, answer.content
        return str(answer.content.decode())


def visitor(stage: Stage, *roles: str, name: str = "") -> Visitor:
    return Visitor(signed_in(stage.person(*roles, name=name).user), stage.slug)


def words(page: str) -> str:
    """What a page says, without its tags."""
    plain = re.sub(r"<[^>]+>", " ", page)
    return re.sub(r"\s+", " ", plain).replace("&#x27;", "'").replace("&quot;", '"').replace("&gt;", ">")


def ballot(stage: Stage, action_id: Any, verdict: str, **changes: Any) -> dict[str, Any]:
    """What the vote form sends."""
    approval = stage.approval(action_id)
    held = {
        "verdict": verdict,
        "payload_hash": approval.payload_hash,
        "rendering_digest": approval.rendering_digest,
        "reason": "I looked at it.",
        "password": PASSWORD,
    }
    with tenancy(stage.tenant):
        held |= {"without_reading": "on"} if target_drift.is_unread(approval) else {}
    return held | changes
