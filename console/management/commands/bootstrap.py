"""`manage.py bootstrap --tenant SLUG`: a new tenant with its first people and keys.

1. One person per role and one key per kind; passwords and keys are random, and shown this once.
2. All of it or nothing: the secrets are written out before the commit, so that a crash in between leaves words that
   open nothing, and never a tenant whose words nobody has seen.
3. A tenant that exists is left alone, and the refusal is one sentence.
"""

from __future__ import annotations

import argparse
import json
import re
import secrets
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.utils import timezone

from console.accounts import operations as accounts_operations
from ledger.catalogue.operations import registration
from ledger.record import operations as ledger
from ledger.record.queries import events as ledger_queries

SLUG = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
PASSWORD_BYTES = 15


class Command(BaseCommand):
    help = "Found a tenant with one person per role and one key per kind; prints the secrets once."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--tenant", required=True, metavar="SLUG", help="lower-case letters, digits and hyphens")
        parser.add_argument("--name", help="what people read (the slug)")
        parser.add_argument("--json", action="store_true", dest="as_json", help="one JSON object instead of text")

    def handle(self, *args: Any, tenant: str, name: str | None = None, as_json: bool = False, **options: Any) -> None:
        if not SLUG.fullmatch(tenant):
            raise CommandError(f"{tenant!r} cannot name a tenant: use lower-case letters, digits and hyphens.")
        if ledger_queries.tenant(tenant) is not None:
            raise CommandError(f"The tenant {tenant} exists already; nothing was changed.")
        with transaction.atomic():
            made = set_up_tenant(slug=tenant, name=name or tenant, at=timezone.now())
            self.stdout.write(json.dumps(made, indent=1) if as_json else _as_text(made))
            self.stdout.flush()


def set_up_tenant(*, slug: str, name: str, at: datetime) -> dict[str, Any]:
    """Write everything, in the caller's transaction; the answer holds what to show once."""
    host = urlsplit(settings.COUNTERFOIL_PUBLIC_URL).hostname or "localhost"
    tenant = registration.set_up_tenant(tenant_id=ledger.new_id(at), slug=slug, name=name, host=host, at=at)
    return {
        "tenant": {"id": str(tenant.id), "slug": tenant.slug, "name": tenant.name, "origin": tenant.origin},
        "people": [_add_person(tenant.id, slug, role, at=at) for role in accounts_operations.ROLES],
        "keys": {
            kind: accounts_operations.create_key(
                tenant_id=tenant.id, kind=kind, name=f"first {kind}", by=ledger.SYSTEM, at=at
            )
            for kind in accounts_operations.KEY_KINDS
        },
    }


def _add_person(tenant_id: UUID, slug: str, role: str, *, at: datetime) -> dict[str, str]:
    username, password = f"{role}@{slug}", secrets.token_urlsafe(PASSWORD_BYTES)
    member = accounts_operations.add_member(
        tenant_id=tenant_id,
        username=username,
        password=password,
        name=role.capitalize(),
        roles=frozenset({role}),
        by=ledger.SYSTEM,
        at=at,
    )
    if not member.user.check_password(password):
        raise CommandError(f"A person called {username} exists already; nothing was changed.")
    return {"role": role, "username": username, "password": password}


def _as_text(made: dict[str, Any]) -> str:
    people = [f"  {each['role']:<14} {each['username']:<32} {each['password']}" for each in made["people"]]
    keys = [f"  {kind:<14} {secret}" for kind, secret in made["keys"].items()]
    heading = f"Tenant {made['tenant']['slug']} is founded. These secrets are shown this once:"
    return "\n".join([heading, *people, *keys])
