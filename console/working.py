"""Who may be given an approval, and who looks at it now: what pages and API say of the work alike."""

from __future__ import annotations

from typing import Any, NoReturn
from uuid import UUID

from approvals import queries as before
from approvals.rules import claims
from ledger.rules.envelope import instant


def eligible(approval: Any) -> list[UUID]:
    """Who may decide an approval, in the order in which they came to the roster; never whoever asked for it."""
    return [each.actor_id for each in before.approvers(approval.tenant_id) if each.actor_id != approval.requester]


def nobody_left() -> NoReturn:
    """There is nobody to suggest."""
    raise claims.NotEligible("Nobody here may decide this.")


def questions(tenant_id: UUID, action_ids: list[UUID]) -> list[dict[str, Any]]:
    """What the agent was asked about these actions and has not answered."""
    return [
        {"question_id": str(line.id), "action_id": str(action_id), "text": line.text, "at": instant(line.at)}
        for action_id, lines in before.questions_to(tenant_id, action_ids).items()
        for line in lines
    ]
