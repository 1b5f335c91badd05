"""A task that does nothing, on the product's broker and worker."""

from __future__ import annotations

from celery import shared_task


@shared_task
def nothing() -> None:
    """Nothing."""
