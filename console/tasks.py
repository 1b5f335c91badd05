"""What Celery runs for the directory: forgetting what no repeat and no replay can need any more."""

from __future__ import annotations

from datetime import timedelta

from celery import shared_task
from django.utils import timezone

from console import operations

KEPT = timedelta(days=2)


@shared_task
def tidy() -> None:
    """Drop the answers and proofs of the day before yesterday."""
    operations.forget(before=timezone.now() - KEPT)
