"""The report on a session or a run for its page: the same text, with a link to each action."""

from __future__ import annotations

from typing import Any

from django.urls import reverse

from console.sessions.session_context import SessionActions
from console.web.labels import action_title
from reviews.reporting.rules import summary as rules

MOST = 30


def summary_panel(slug: str, session_actions: SessionActions) -> dict[str, Any]:
    """The summary and the report of each action, oldest first; of many the newest."""
    actions = {str(each.id): each for each in session_actions.actions}
    lines = [
        {
            "item": item,
            "title": action_title(actions[item.action_id].operation_kind, item.target),
            "action": actions[item.action_id],
            "href": reverse("action", args=[slug, item.action_id]),
        }
        for item in session_actions.items[-MOST:]
    ]
    return {
        "summary": rules.build_summary(session_actions.items, session_actions.scene),
        "ending": session_actions.scene.ending,
        "told": lines,
        "more": len(session_actions.items) - len(lines) + session_actions.scene.unseen,
    }
