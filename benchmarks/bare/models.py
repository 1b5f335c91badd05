"""The tables of the bare side, created by tables.sql, so that no migration of the product contains them."""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class Row(models.Model):
    """A row with as many bytes and indexes as one event of the record."""

    objects: ClassVar[models.Manager[Row]] = models.Manager()

    id = models.UUIDField(primary_key=True)
    subject_id = models.UUIDField()
    seq = models.IntegerField()
    kind = models.TextField()
    state = models.TextField()
    envelope = models.BinaryField()
    entry = models.BinaryField()
    detail = models.BinaryField()
    at = models.DateTimeField()

    class Meta:
        managed = False
        db_table = "bare_row"

    def __str__(self) -> str:
        return str(self.id)


class Action(models.Model):
    """The product's own table of actions, as Django's admin would be pointed at it."""

    id = models.UUIDField(primary_key=True)
    tenant_id = models.UUIDField()
    state = models.CharField(max_length=32)
    tool = models.CharField(max_length=128)
    agent = models.CharField(max_length=128)
    target = models.CharField(max_length=512)
    side_effect_class = models.CharField(max_length=32)
    discrepancy = models.CharField(max_length=32)
    proposed_at = models.DateTimeField()
    changed_at = models.DateTimeField()

    class Meta:
        managed = False
        db_table = "ledger_action"

    def __str__(self) -> str:
        return f"{self.tool} {self.id}"


class BestAction(Action):
    """The same, for the admin at its best."""

    class Meta:
        proxy = True
