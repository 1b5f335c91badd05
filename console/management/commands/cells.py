"""`manage.py cells DEED …`: the directory of several installations (docs/cells.md).

prepare                                        make its tables and give the roles their rights
add NAME --url URL --address URL… [--record A] add a cell, or change its addresses
remove NAME                                    remove a cell that serves nobody
list, history [SLUG]                           cells and tenants; the newest changes
place SLUG --cell NAME [--after NAME]          have a cell serve a tenant that stands at --after, or nowhere yet
place --all --cell NAME                        place each tenant of this installation that is not placed yet
host SLUG HOST | --none                        give a tenant a host name of its own, or take it away
withdraw SLUG --after NAME                     take out a tenant that no cell serves any more
check                                          ask each cell, and tell what differs from the directory
"""

from __future__ import annotations

import argparse
import sys
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import UUID

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from psycopg.conninfo import conninfo_to_dict

from console.cells import comparison, directory
from ledger.record.queries import events

_REFUSALS: Final = (
    directory.NoDirectory,
    directory.DirectoryUnavailable,
    directory.UnknownCell,
    directory.DirectoryConflict,
    directory.PlacedElsewhere,
)


class Command(BaseCommand):
    help = "The directory of several installations: cells, which of them serves a tenant, and a comparison with them."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        deeds = {name.removeprefix("do_") for name in dir(self) if name.startswith("do_")}
        parser.add_argument("deed", choices=sorted(deeds), help="what to do")
        parser.add_argument("name", nargs="?", help="a cell with add and remove, else a tenant's slug")
        parser.add_argument("value", nargs="?", help="with host: the host name")
        parser.add_argument("--url", help="with add: the URL that people use")
        parser.add_argument(
            "--address", action="append", default=[], help="with add: where requests go; may be repeated"
        )
        parser.add_argument("--record", default="", help="with add: the record, for a role that reads its tenants")
        parser.add_argument("--cell", help="with place: the cell that is to serve the tenant")
        parser.add_argument("--after", help="with place and withdraw: the cell at which the tenant stands now")
        parser.add_argument("--id", type=UUID, help="with place: the tenant's id, if it is not of this installation")
        parser.add_argument("--all", action="store_true", help="with place: every tenant of this installation")
        parser.add_argument("--none", action="store_true", help="with host: take the host name away")
        parser.add_argument("--reason", default="", help="kept in the history")

    def handle(self, *args: Any, deed: str, **options: Any) -> None:
        try:
            getattr(self, f"do_{deed}")(**options)
        except _REFUSALS as refusal:
            raise CommandError(str(refusal)) from None

    def do_prepare(self, **_: Any) -> None:
        for name in ("COUNTERFOIL_DIRECTORY_OWNER_URL", "COUNTERFOIL_DIRECTORY_URL"):
            if not getattr(settings, name):
                raise CommandError(f"{name} is not set.")
        operator = str(conninfo_to_dict(settings.COUNTERFOIL_DIRECTORY_URL)["user"])
        router = settings.COUNTERFOIL_ROUTER_ROLE
        directory.prepare(settings.COUNTERFOIL_DIRECTORY_OWNER_URL, operator=operator, router=router)
        self.stdout.write(f"The directory is ready: {operator} writes it, {router} reads it.")

    def do_add(
        self, *, name: str | None, url: str | None, address: list[str], record: str, reason: str, **_: Any
    ) -> None:
        if not name or not url or not address:
            raise CommandError("Name the cell, and give its --url and at least one --address.")
        for each in address:
            parts = urlsplit(each)
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.path or parts.username:
                raise CommandError(f"{each} must look like http://web.internal:8000.")
        directory.put_cell(directory.Cell(name, url.rstrip("/"), address, record), reason=reason)
        self.stdout.write(f"{name} is in the directory.")

    def do_remove(self, *, name: str | None, reason: str, **_: Any) -> None:
        directory.remove_cell(name or "", reason=reason)
        self.stdout.write(f"{name} is no longer in the directory.")

    def do_list(self, **_: Any) -> None:
        found = directory.read_directory()
        assert found is not None
        for cell in found.cells:
            self.stdout.write(f"{cell.name}  {cell.public_url}  {' '.join(cell.addresses)}")
            for each in found.placements:
                if each.cell == cell.name:
                    self.stdout.write(
                        f"  {each.slug}  {each.tenant_id}  version {each.version}  {each.host or ''}".rstrip()
                    )

    def do_history(self, *, name: str | None, **_: Any) -> None:
        for each in reversed(directory.history(name)):
            place = f"{_state(each.before)} -> {_state(each.after)}"
            self.stdout.write(
                f"{each.number}  {each.at:%Y-%m-%d %H:%M:%S}  {each.role}  {place}  {each.reason}".rstrip()
            )

    def do_place(
        self,
        *,
        name: str | None,
        cell: str | None,
        after: str | None,
        id: UUID | None,
        all: bool,
        reason: str,
        **_: Any,
    ) -> None:
        if not cell or bool(name) == all:
            raise CommandError("Name a tenant or give --all, and name the --cell.")
        if name:
            placed = directory.place(id or self._id(name), name, cell=cell, after=after, reason=reason)
            self.stdout.write(f"{name} stands at {placed.cell}.")
            return
        for tenant in events.tenants():
            if directory.find_tenant(tenant.id) is None:
                directory.place(tenant.id, tenant.slug, cell=cell, after=None, reason=reason)
                self.stdout.write(f"{tenant.slug} stands at {cell}.")

    def _id(self, slug: str) -> UUID:
        here = events.tenant(slug)
        placed = None if here else directory.find(slug)
        if here is None and placed is None:
            raise CommandError(f"Neither this installation nor the directory has {slug}: give its --id.")
        return here.id if here else placed.tenant_id  # type: ignore[union-attr]

    def do_host(self, *, name: str | None, value: str | None, none: bool, reason: str, **_: Any) -> None:
        if not name or bool(value) == none:
            raise CommandError("Name a tenant, and its host or --none.")
        directory.name_host(name, value.lower() if value else None, reason=reason)
        self.stdout.write(f"{name} has {f'the host {value}' if value else 'no host of its own'}.")

    def do_withdraw(self, *, name: str | None, after: str | None, reason: str, **_: Any) -> None:
        if not name or not after:
            raise CommandError("Name a tenant, and with --after the cell at which it stands.")
        directory.withdraw(name, after=after, reason=reason)
        self.stdout.write(f"{name} is no longer in the directory.")

    def do_check(self, **_: Any) -> None:
        found = directory.read_directory()
        assert found is not None
        findings = comparison.compare(found, {cell.name: comparison.ask_cell(cell) for cell in found.cells})
        for each in findings:
            self.stdout.write(f"{'differs' if each.is_fault else 'not known'}  {each.sentence}")
        if any(each.is_fault for each in findings):
            sys.exit(1)
        if findings:
            sys.exit(3)
        self.stdout.write(f"{len(found.placements)} tenants at {len(found.cells)} cells, as the directory says.")


def _state(row: dict[str, Any] | None) -> str:
    if row is None:
        return "none"
    return f"{row['slug']} at {row['cell']}" if "slug" in row else f"cell {row['name']} at {row['public_url']}"
