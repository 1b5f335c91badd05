"""Names to sign in with and verified addresses in their normal form, of which the database admits one account each."""

from __future__ import annotations

import unicodedata
from contextlib import suppress
from typing import Any

import idna
from django.db import migrations


def normal_form(address: str) -> str:
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", address).strip().casefold())
    local, at, domain = folded.rpartition("@")
    with suppress(idna.IDNAError):
        domain = domain if domain.isascii() else idna.encode(domain, uts46=True).decode()
    return f"{local}{at}{domain}" if at else folded


def normalise(apps: Any, schema_editor: Any) -> None:
    alias = schema_editor.connection.alias
    users = apps.get_model("console", "User").objects.using(alias)
    for user in users.all():
        name = normal_form(user.username)
        if name == user.username:
            continue
        if users.filter(username=name).exists():
            raise RuntimeError(
                f"Two accounts have one name in normal form: {user.username} and {name}. Rename one of them and migrate"
                " again: UPDATE console_user SET username = '...' WHERE username = '...';"
            )
        users.filter(pk=user.pk).update(username=name)
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SELECT id, user_id, email FROM account_emailaddress")
        rows = cursor.fetchall()
        kept = {(user_id, email) for _, user_id, email in rows}
        for row_id, user_id, email in rows:
            address = normal_form(email)
            if address == email:
                continue
            if (user_id, address) in kept:
                cursor.execute("DELETE FROM account_emailaddress WHERE id = %s", [row_id])
            else:
                cursor.execute("UPDATE account_emailaddress SET email = %s WHERE id = %s", [address, row_id])
                kept.add((user_id, address))


class Migration(migrations.Migration):
    dependencies = [
        ("console", "0012_posted_notices"),
        ("account", "0009_emailaddress_unique_primary_email"),
    ]
    operations = [
        migrations.RunPython(normalise, migrations.RunPython.noop),
        migrations.RunSQL(
            "ALTER TABLE console_user ADD CONSTRAINT user_name_in_normal_form"
            " CHECK (username = lower(btrim(normalize(username, NFKC))))",
            "ALTER TABLE console_user DROP CONSTRAINT user_name_in_normal_form",
        ),
    ]
