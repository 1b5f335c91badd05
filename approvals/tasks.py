"""What Celery runs before the effect: leases and approvals whose time has come."""

from __future__ import annotations

import logging

from celery import shared_task
from django.db import DatabaseError
from django.utils import timezone

from approvals import queries
from approvals.operations import leases, votes
from ledger.rules.refusals import Refused
from ledger.tenancy import tenancy

log = logging.getLogger(__name__)


@shared_task
def lapse() -> int:
    """End what has run out, each in a transaction of its own."""
    at = timezone.now()
    due = queries.due(at=at)
    for tenant_id, subject_id, what in due:
        try:
            with tenancy(tenant_id):
                if what == "lease":
                    leases.end_lease(tenant_id=tenant_id, action_id=subject_id, at=at)
                else:
                    votes.expire(tenant_id=tenant_id, approval_id=subject_id, at=at)
        except (DatabaseError, Refused):
            log.exception("what was due for %s did not end", subject_id)
    return len(due)
