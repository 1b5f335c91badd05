"""Primary keys that begin with the tenant: Django changes none of several columns itself."""

from __future__ import annotations

from typing import Any

from django.db import models


def tenant_key(*names: str) -> models.CompositePrimaryKey:
    """A key of the tenant and these columns, as a migration's state has it."""
    return models.CompositePrimaryKey(
        "tenant_id", *names, blank=True, editable=False, primary_key=True, serialize=False
    )


def put_tenant_first(schema_editor: Any, table: str, *names: str) -> None:
    """Make the tenant and these columns the primary key of a table, whose rows stay."""
    quoted = {"table": schema_editor.quote_name(table), "name": schema_editor.quote_name(f"{table}_pkey")}
    columns = ", ".join(schema_editor.quote_name(name) for name in ("tenant_id", *names))
    schema_editor.execute(schema_editor.sql_delete_pk % quoted)
    schema_editor.execute(schema_editor.sql_create_pk % {**quoted, "columns": columns})
