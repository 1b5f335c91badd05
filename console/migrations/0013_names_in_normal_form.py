"""Names to sign in with and verified addresses in their normal form, of which the database admits one account each."""

from __future__ import annotations

import unicodedata
from contextlib import suppress
from pathlib import Path
from typing import Any

import idna
from django.db import migrations

FOLDER = Path(__file__).parents[1] / "sql"
FILES = ("names.sql",)


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
    addresses = apps.get_model("account", "EmailAddress").objects.using(alias)
    for row in addresses.order_by("id"):
        address = normal_form(row.email)
        if address == row.email:
            continue
        if addresses.filter(user_id=row.user_id, email=address).exists():
            addresses.filter(pk=row.pk).delete()
        else:
            addresses.filter(pk=row.pk).update(email=address)


class Migration(migrations.Migration):
    dependencies = [
        ("console", "0012_posted_notices"),
        ("account", "0009_emailaddress_unique_primary_email"),
    ]
    operations = [
        migrations.RunPython(normalise, migrations.RunPython.noop),
        *(migrations.RunSQL((FOLDER / name).read_text()) for name in FILES),
    ]
