from __future__ import annotations

import hmac
from typing import Any
from uuid import UUID

from django.db import migrations, models

from ledger import keystore
from ledger.rules import sealing

# The keys move out of this database. Their ids are made of what they belong to, with the key-encryption key, so that a
# move that died half way finds on its second run what the first one stored, and no copy of a key is left without a row.
# The old table is dropped, not emptied: its file goes, and with it the bytes.


def key_id_of(tenant_id: UUID, subject_id: UUID) -> UUID:
    named = hmac.digest(
        keystore.key_encryption_key(), b"counterfoil key id\x00" + f"{tenant_id}/{subject_id}".encode(), "sha256"
    )
    return UUID(bytes=named[:16], version=4)


def move(apps: Any, schema_editor: Any) -> None:
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SELECT id FROM ledger_tenant")
        for (tenant_id,) in cursor.fetchall():
            cursor.execute("SELECT set_config('app.tenant', %s, true)", [str(tenant_id)])
            after: UUID | None = UUID(int=0)
            while after is not None:
                after = move_some(cursor, tenant_id, after)
        cursor.execute("SELECT set_config('app.tenant', '', true)")


def move_some(cursor: Any, tenant_id: UUID, after: UUID) -> UUID | None:
    """Move the next thousand keys, and say where they end."""
    cursor.execute(
        "SELECT subject_id, wrapped FROM ledger_wrappedkey WHERE tenant_id = %s AND subject_id > %s"
        " ORDER BY subject_id LIMIT 1000",
        [tenant_id, after],
    )
    rows = cursor.fetchall()
    if not rows:
        return None
    kek = keystore.key_encryption_key()
    keys = [
        keystore.DataKey(
            key_id_of(tenant_id, subject_id), sealing.open_sealed(kek, bytes(data), f"{tenant_id}/{subject_id}")
        )
        for subject_id, data in rows
    ]
    keystore.keep(keys)
    cursor.execute(
        "INSERT INTO ledger_subjectkey (tenant_id, subject_id, key_id)"
        " SELECT %s, * FROM unnest(%s::uuid[], %s::uuid[])",
        [tenant_id, [subject_id for subject_id, _ in rows], [key.id for key in keys]],
    )
    last: UUID = rows[-1][0]
    return last


TABLES = """
ALTER TABLE ledger_subjectkey RENAME TO ledger_wrappedkey;
ALTER INDEX ledger_subjectkey_pkey RENAME TO ledger_wrappedkey_pkey;
CREATE TABLE ledger_subjectkey (
    tenant_id uuid NOT NULL,
    subject_id uuid NOT NULL,
    key_id uuid NOT NULL,
    PRIMARY KEY (tenant_id, subject_id),
    CONSTRAINT key_of_one_subject UNIQUE (tenant_id, key_id)
);
SELECT ledger_isolate('ledger_subjectkey');
SELECT ledger_make_append_only('ledger_subjectkey');
"""


class Migration(migrations.Migration):
    dependencies = [("ledger", "0010_search")]
    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RemoveField(model_name="subjectkey", name="wrapped"),
                migrations.AddField(
                    model_name="subjectkey", name="key_id", field=models.UUIDField(), preserve_default=False
                ),
                migrations.AddConstraint(
                    model_name="subjectkey",
                    constraint=models.UniqueConstraint(fields=("tenant_id", "key_id"), name="key_of_one_subject"),
                ),
            ],
            database_operations=[
                migrations.RunSQL(TABLES, migrations.RunSQL.noop),
                migrations.RunPython(move, migrations.RunPython.noop),
                migrations.RunSQL("DROP TABLE ledger_wrappedkey;", migrations.RunSQL.noop),
            ],
        ),
    ]
