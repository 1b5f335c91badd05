"""Migrations only add, so that the version before goes on beside a new one: what `make migrations` refuses."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.postgres.operations import AddConstraintNotValid, AddIndexConcurrently, ValidateConstraint
from django.db import migrations, models
from django.db.migrations.loader import MigrationLoader

from tests.db.installation.migrations import faults

POSITIVE = models.CheckConstraint(condition=models.Q(id__isnull=False), name="freeze_has_id")
BY_STATE = models.Index(fields=["tenant_id", "id"], name="freeze_by_walk")


def judged(*operations: Any, name: str = "0999_walk", atomic: bool = True) -> list[str]:
    """The faults of a migration with these operations, behind all that there are."""
    migration = migrations.Migration(name, "ledger")
    migration.operations, migration.atomic = list(operations), atomic
    return faults(migration, MigrationLoader(None).project_state())


@pytest.mark.parametrize(
    ("operation", "rule"),
    [
        (migrations.RemoveField("freeze", "reason"), "ban-drop-column"),
        (migrations.RenameField("freeze", "reason", "why"), "renaming-column"),
        (migrations.DeleteModel("Freeze"), "ban-drop-table"),
        (migrations.AlterModelTable("freeze", "ledger_stop"), "renaming-table"),
        (migrations.AddField("freeze", "motto", models.TextField(default="")), "ban-drop-default"),
        (migrations.AlterField("freeze", "id", models.BigIntegerField()), "changing-column-type"),
        (migrations.AddIndex("freeze", BY_STATE), "require-concurrent-index-creation"),
        (migrations.AddConstraint("freeze", POSITIVE), "constraint-missing-not-valid"),
        (migrations.RunSQL("TRUNCATE ledger_freeze CASCADE"), "ban-truncate-cascade"),
        (migrations.RunPython(lambda *_: None), "rows are moved by a task or a command"),
    ],
    ids=lambda each: each if isinstance(each, str) else type(each).__name__,
)
def test_a_migration_that_takes_away_or_holds_writers_up_is_refused(operation: Any, rule: str):
    assert [fault for fault in judged(operation) if rule in fault]


@pytest.mark.parametrize(
    ("operation", "atomic"),
    [
        (migrations.AddField("freeze", "motto", models.TextField(null=True)), True),
        (migrations.AddField("freeze", "motto", models.TextField(default="", db_default="")), True),
        (migrations.CreateModel("Walk", [("id", models.UUIDField(primary_key=True))]), True),
        (AddConstraintNotValid("freeze", POSITIVE), True),
        (AddIndexConcurrently("freeze", BY_STATE), False),
    ],
)
def test_a_migration_that_adds_is_fine(operation: Any, atomic: bool):
    assert judged(operation, atomic=atomic) == []


def test_a_constraint_is_validated_by_a_migration_of_its_own():
    state = [AddConstraintNotValid("freeze", POSITIVE), ValidateConstraint("freeze", POSITIVE.name)]
    assert len(judged(*state)) == 1


def test_what_runs_outside_a_transaction_is_alone_in_its_migration():
    index = AddIndexConcurrently("freeze", BY_STATE)
    column = migrations.AddField("freeze", "motto", models.TextField(null=True))
    assert len(judged(index, column, atomic=False)) == 1


def test_a_step_that_says_which_earlier_version_needs_a_column_no_more_may_drop_it():
    assert judged(migrations.RemoveField("freeze", "reason"), name="0999_from_0_0_without_reason") != []
    # The version that brings the step is itself still 0.1.
    [fault] = judged(migrations.RemoveField("freeze", "reason"), name="0999_from_0_1_without_reason")
    assert fault.endswith("the version in its name must be an earlier one than the version that brings it.")


def test_such_a_step_may_drop_once_the_version_in_its_name_is_over(monkeypatch):
    monkeypatch.setattr("console.telemetry.versions.own_minor", lambda: (0, 2))
    assert judged(migrations.RemoveField("freeze", "reason"), name="0999_from_0_1_without_reason") == []
    assert judged(migrations.AddIndex("freeze", BY_STATE), name="0999_from_0_1_without_reason") != []
