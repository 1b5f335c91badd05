"""`manage.py bootstrap --tenant SLUG`: create a tenant with its first people and keys.

1. One person per role, a further one for each `--also ROLE`, and one key per kind; passwords and keys are random, and
   shown this once.
2. All of it or nothing: the secrets are written out before the commit, so that a crash in between leaves secrets that
   open nothing, and never a tenant whose secrets nobody has seen.
3. A tenant that exists is left alone, and the refusal is one sentence.
4. The first version of each policy comes with the installation: the default one, or the document that `--policy
   KIND=FILE` names, checked as a draft of a release is.
5. What becomes of an agent's report that nothing on record supports is asked: `--messages`, or `messages.uncited` of a
   verification policy, or a question on the terminal. There is no default.
"""

from __future__ import annotations

import argparse
import json
import re
import secrets
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.utils import timezone

from console.accounts import operations as accounts_operations
from console.releases import release_steps
from ledger.catalogue.operations import registration
from ledger.catalogue.rules.policies import POLICY_KINDS, default_policy
from ledger.record import operations as ledger
from ledger.record.queries import events as ledger_queries
from ledger.record.rules.refusals import Refused

SLUG = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
PASSWORD_BYTES = 15
MODES = {
    "pass": "it goes out, with the receipt and its notes",
    "mark": "it goes out, marked as not confirmed",
    "hold": "it is held back until the agent cites an action",
}


class Command(BaseCommand):
    help = "Create a tenant with one person per role and one key per kind; print the secrets once."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--tenant", required=True, metavar="SLUG", help="lower-case letters, digits and hyphens")
        parser.add_argument("--name", help="display name (default: the slug)")
        parser.add_argument(
            "--policy",
            action="append",
            default=[],
            metavar="KIND=FILE",
            help="start with this policy instead of the default one; once for each kind",
        )
        parser.add_argument(
            "--also",
            action="append",
            default=[],
            choices=accounts_operations.ROLES,
            metavar="ROLE",
            help="a further person with this role, such as a second administrator; repeatable",
        )
        parser.add_argument(
            "--messages",
            choices=tuple(MODES),
            help="what becomes of an agent's report that cites nothing and that the record does not support: "
            + "; ".join(f"{mode}: {words}" for mode, words in MODES.items()),
        )
        parser.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object instead of text")

    def handle(
        self,
        *args: Any,
        tenant: str,
        name: str | None = None,
        policy: Sequence[str] = (),
        also: Sequence[str] = (),
        messages: str | None = None,
        as_json: bool = False,
        **options: Any,
    ) -> None:
        if not SLUG.fullmatch(tenant):
            raise CommandError(f"{tenant!r} is not a valid tenant name: use lower-case letters, digits and hyphens.")
        if ledger_queries.tenant(tenant) is not None:
            raise CommandError(f"The tenant {tenant} already exists; nothing was changed.")
        first = _with_mode(dict(map(_read_policy, policy)), messages)
        with transaction.atomic():
            made = set_up_tenant(slug=tenant, name=name or tenant, policies=first, also=also, at=timezone.now())
            self.stdout.write(json.dumps(made, indent=1) if as_json else _as_text(made))
            self.stdout.flush()


def set_up_tenant(
    *, slug: str, name: str, policies: Mapping[str, Mapping[str, Any]], also: Sequence[str] = (), at: datetime
) -> dict[str, Any]:
    """Create everything in the caller's transaction; return the secrets to show once."""
    host = urlsplit(settings.COUNTERFOIL_PUBLIC_URL).hostname or "localhost"
    tenant = registration.set_up_tenant(
        tenant_id=ledger.new_id(at), slug=slug, name=name, host=host, policies=policies, at=at
    )
    return {
        "tenant": {"id": str(tenant.id), "slug": tenant.slug, "name": tenant.name, "origin": tenant.origin},
        "people": [
            *(_add_person(tenant.id, slug, role, at=at) for role in accounts_operations.ROLES),
            *(
                _add_person(tenant.id, slug, role, number=list(also[: place + 1]).count(role) + 1, at=at)
                for place, role in enumerate(also)
            ),
        ],
        "keys": {
            kind: accounts_operations.create_key(
                tenant_id=tenant.id, kind=kind, name=f"first {kind}", by=ledger.SYSTEM, at=at
            )
            for kind in accounts_operations.KEY_KINDS
        },
    }


def _with_mode(policies: dict[str, dict[str, Any]], mode: str | None) -> dict[str, dict[str, Any]]:
    """The first policies with the mode of the guard in them (rule 5)."""
    document = policies.get("verification") or default_policy("verification")
    stated = document.get("messages", {}).get("uncited")
    if stated is not None and mode is not None and mode != stated:
        raise CommandError(f"--messages says {mode}, the verification policy says {stated}.")
    if stated is not None:
        return policies
    told = {**document.get("messages", {}), "uncited": mode or _ask_for_mode()}
    return policies | {"verification": {**document, "messages": told, "version": "1"}}


def _ask_for_mode() -> str:
    explained = "\n".join(f"  {mode}  {words}" for mode, words in MODES.items())
    question = f"What becomes of an agent's report that the record does not support?\n{explained}"
    if not sys.stdin.isatty():
        raise CommandError(f"{question}\nChoose with --messages {'|'.join(MODES)}; there is no default.")
    mode = input(f"{question}\n> ").strip()
    if mode not in MODES:
        raise CommandError(f"{mode!r} is none of {', '.join(MODES)}; nothing was changed.")
    return mode


def _read_policy(given: str) -> tuple[str, dict[str, Any]]:
    """Return the kind and the checked document that `KIND=FILE` names; the first version is `1`."""
    kind, _, file = given.partition("=")
    if kind not in POLICY_KINDS or not file:
        raise CommandError(f"{given!r} is not KIND=FILE. KIND is one of {', '.join(POLICY_KINDS)}.")
    try:
        document = json.loads(Path(file).read_text())
    except (OSError, ValueError) as fault:
        raise CommandError(f"The {kind} policy in {file} cannot be read: {fault}") from fault
    if not isinstance(document, dict):
        raise CommandError(f"The {kind} policy in {file} is not a JSON object.")
    document |= {"version": "1"}
    try:
        release_steps.check_draft(kind, document)
    except Refused as fault:
        faults = "; ".join(f"{each['path'] or '/'}: {each['detail']}" for each in getattr(fault, "errors", ()))
        raise CommandError(f"The {kind} policy in {file} was refused: {faults or fault.detail}") from fault
    return kind, document


def _add_person(tenant_id: UUID, slug: str, role: str, *, number: int = 1, at: datetime) -> dict[str, str]:
    suffix = "" if number == 1 else f"-{number}"
    username, password = f"{role}{suffix}@{slug}", secrets.token_urlsafe(PASSWORD_BYTES)
    member = accounts_operations.add_member(
        tenant_id=tenant_id,
        username=username,
        password=password,
        name=f"{role.capitalize()}{suffix.replace('-', ' ')}",
        roles=frozenset({role}),
        by=ledger.SYSTEM,
        at=at,
    )
    if not member.user.check_password(password):
        raise CommandError(f"A person called {username} already exists; nothing was changed.")
    return {"role": role, "username": username, "password": password}


def _as_text(made: dict[str, Any]) -> str:
    people = [f"  {each['role']:<14} {each['username']:<32} {each['password']}" for each in made["people"]]
    keys = [f"  {kind:<14} {secret}" for kind, secret in made["keys"].items()]
    heading = f"Tenant {made['tenant']['slug']} was created. These secrets are shown only once:"
    return "\n".join([heading, *people, *keys])
