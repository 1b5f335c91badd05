"""The bare row twice, as text because the packages keep text: once under each package."""

from __future__ import annotations

from auditlog.registry import auditlog
from django.db import models
from simple_history.models import HistoricalRecords


class Row(models.Model):
    """A row with as many bytes and indexes as one append writes."""

    id = models.UUIDField(primary_key=True)
    subject_id = models.UUIDField()
    seq = models.IntegerField()
    kind = models.TextField()
    state = models.TextField()
    envelope = models.TextField()
    entry = models.TextField()
    detail = models.TextField()
    at = models.DateTimeField(db_index=True)

    class Meta:
        abstract = True
        unique_together = [("subject_id", "seq"), ("subject_id", "seq", "state")]
        indexes = [
            models.Index(fields=["subject_id", "id"]),
            models.Index(fields=["kind", "id"]),
            models.Index(fields=["state", "at"]),
        ]

    def __str__(self) -> str:
        return str(self.id)


class Logged(Row):
    pass


class Remembered(Row):
    history = HistoricalRecords()


auditlog.register(Logged)
