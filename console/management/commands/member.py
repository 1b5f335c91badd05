"""`manage.py member USERNAME --tenant T …`: change a person's access as the installation's owner.

For installations with a single administrator, and for when no administrator is left. It needs access to the machine;
the record names the console as the actor, since it cannot know the person.
"""

from __future__ import annotations

import argparse
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.utils import timezone

from approvals.voting.queries import approvers
from console.accounts.members import operations as people
from console.accounts.members import queries as members
from console.accounts.members.rules import ROLES, current_roles
from console.models import Membership
from ledger.db import tenancy
from ledger.record import operations as ledger
from ledger.record.queries import events as queries
from ledger.record.rules.refusals import Refused


class Command(BaseCommand):
    help = "Change a member's roles, groups, account or passkeys without a second administrator."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("username")
        parser.add_argument("--tenant", required=True, metavar="SLUG")
        parser.add_argument("--roles", help=f"replace their roles: any of {', '.join(ROLES)}")
        parser.add_argument("--groups", help="replace their groups: names separated by commas")
        parser.add_argument(
            "--confirm-keys", action="store_true", help="confirm the passkeys that need a second person"
        )
        parser.add_argument("--close", action="store_true", help="close the account in every tenant")
        parser.add_argument("--open", action="store_true", help="reopen the account")

    def handle(self, *args: Any, username: str, tenant: str, **options: Any) -> None:
        known = queries.tenant(tenant)
        row = members.member_by_username(known.id, username) if known is not None else None
        if known is None or row is None:
            raise CommandError(f"There is no member {username} in the tenant {tenant}.")
        try:
            with transaction.atomic(), tenancy(known.id):
                self._do(row, options)
        except Refused as refusal:
            raise CommandError(refusal.detail) from None

    def _do(self, row: Membership, options: dict[str, Any]) -> None:
        at, done = timezone.now(), []
        if options["roles"] is not None or options["groups"] is not None:
            now = current_roles(row)
            people.change_member(
                tenant_id=row.tenant_id,
                member_id=row.id,
                roles=_words(options["roles"], now.roles),
                groups=_words(options["groups"], now.groups),
                by=ledger.SYSTEM,
                by_person=ledger.SYSTEM.id,
                at=at,
                is_proven=True,
            )
            done.append("roles and groups changed")
        if options["close"] or options["open"]:
            people.set_account_open(user=row.user, is_open=options["open"], at=at)
            done.append("account reopened" if options["open"] else "account closed")
        if options["confirm_keys"]:
            waiting = approvers.approver_keys(row.tenant_id, actor_id=row.actor_id, states=("PENDING",))
            for key in waiting:
                people.confirm_key(
                    tenant_id=row.tenant_id, key_id=key.id, by=ledger.SYSTEM, by_person=ledger.SYSTEM.id, at=at
                )
            done.append(f"{len(waiting)} passkeys confirmed")
        self.stdout.write(f"{row.user.get_username()}: {', '.join(done) or 'nothing to change'}.")


def _words(given: str | None, now: frozenset[str]) -> list[str]:
    return sorted(now) if given is None else [word for word in given.replace(",", " ").split() if word]
