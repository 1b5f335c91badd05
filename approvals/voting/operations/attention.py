"""Records what reviewers had on screen when they voted: outside the record, erasable, opt-in per tenant.

A time that the page reports of itself is shown and counts for nothing: what a rule asks for is measured here, from the
moment the payload was served to the vote.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from approvals.models import Approval, ApprovalDisplay
from approvals.requests.queries import approvals, deadlines
from ledger.db import defer
from ledger.record.rules.refusals import Refused

MOST_SECTIONS = 50
LONGEST_NAME = 40


class DwellRequired(Refused):
    """The policy requires more time on this page before an approval of this risk."""

    code = "DWELL_REQUIRED"


# The length is kept beside what is sealed; an erased payload is displayed to nobody.
_RECORD_DISPLAYS = """
INSERT INTO approvals_attention (tenant_id, approval_id, actor_id, payload_bytes, served_at)
SELECT $1, p.id, $2, v.length, t.at FROM unnest($3::uuid[], $4::timestamptz[]) AS t (id, at)
JOIN approvals_approval p ON p.tenant_id = $1 AND p.id = t.id AND p.state = 'REQUESTED'
JOIN ledger_action a ON a.tenant_id = $1 AND a.id = p.action_id
JOIN ledger_evidence v ON v.tenant_id = $1 AND v.id = a.payload_pointer AND v.sealed IS NOT NULL
ON CONFLICT DO NOTHING
"""


def record_displays(*, tenant_id: UUID, actor_id: UUID, opened: Mapping[UUID, datetime]) -> None:
    """Record when the payloads of these approvals were first displayed to a person, if the tenant has opted in."""
    wanted = [each.id for each in approvals.approvals_named(tenant_id, opened).values() if _is_wanted(each)]
    if wanted:
        defer((_RECORD_DISPLAYS, tenant_id, actor_id, wanted, [opened[each] for each in wanted]))


def record_page_report(
    *, tenant_id: UUID, approval_id: UUID, actor_id: UUID, visible_s: float, opened: Sequence[str] | None, at: datetime
) -> bool:
    """Record a page's report about itself: at most the time that there was, and only for a page that was served."""
    row = approvals.display_of(tenant_id, approval_id, actor_id)
    if row is None:
        return False
    most = max((at - row.served_at).total_seconds(), 0.0)
    changed: dict[str, Any] = {"visible_s": min(max(visible_s, row.visible_s or 0.0), most), "reported_at": at}
    if opened is not None:
        named = {*(row.opened or ()), *(name[:LONGEST_NAME] for name in opened[:MOST_SECTIONS])}
        changed["opened"] = sorted(named)[:MOST_SECTIONS]
    here = ApprovalDisplay.objects.filter(tenant_id=tenant_id, approval_id=approval_id, actor_id=actor_id)
    return bool(here.update(**changed))


def check_dwell(approval: Approval, actor_id: UUID, *, at: datetime) -> None:
    """Refuse an approval of high risk that is given sooner than the policy allows."""
    least = timedelta(seconds=deadlines.policy_of(approval).min_dwell_s)
    if approval.risk != "HIGH" or not least:
        return
    row = approvals.display_of(approval.tenant_id, approval.id, actor_id)
    if row is None:
        raise DwellRequired("The policy wants this to be looked at before it is approved. Open its page first.")
    left = least - (at - row.served_at)
    if left > timedelta(0):
        raise DwellRequired(
            f"The policy wants this to be looked at for {least.seconds} s; {left.seconds + 1} s are left."
        )


def delete_expired(*, tenant_id: UUID, before: datetime) -> None:
    """Delete rows past their retention."""
    ApprovalDisplay.objects.filter(tenant_id=tenant_id, served_at__lt=before).delete()


def _is_wanted(approval: Approval) -> bool:
    if approval.state != "REQUESTED":
        return False
    rules = deadlines.policy_of(approval)
    return rules.reviewer_quality != "off" or rules.min_dwell_s > 0
