"""A tenant's move to another installation: it is frozen, copied, taken in there, compared, and opened there.

Each step may be run again after a crash at any point, and goes on where it was. How far it is, the directory says
(`ledger.catalogue.rules.moving`); the database itself refuses what a step has ended (ledger/sql/moves.sql). Between
`freeze` and the hand-over of the log (`ledger.log.operations.hand_over`) a move can be given up.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from datetime import datetime
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID, uuid4

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError
from psycopg.types.json import Jsonb

from console.accounts.known_keys import forget_keys
from console.event_export.queries import running_destinations
from console.event_export.sending import addresses
from console.installation import tenant_copy
from console.installation.tenant_copy import Manifest, owner_transaction
from ledger.catalogue.operations.installation import record_move
from ledger.catalogue.queries import systems
from ledger.catalogue.rules.moving import FREEZING, FROZEN, HERE, IMPORTED, VERIFIED, has_come
from ledger.db import execute, tenancy
from ledger.log.epochs import read_public_keys
from ledger.log.queries import log
from ledger.record.queries import events
from reviews.readback.operations import plans

if TYPE_CHECKING:
    from ledger.models import Tenant

LOOK_EVERY_S: Final = 0.05


class MoveRefused(Exception):
    """The step cannot be taken now; the message says why, and what is as it was."""


@dataclass(frozen=True, slots=True)
class Offer:
    """The destination for the source: its name, its address and the key that will sign the log there."""

    cell: str
    address: str
    key: str


def make_offer(cell: str) -> Offer:
    """The offer of this installation to take a tenant in."""
    [key, *_] = read_public_keys(settings.COUNTERFOIL_LOG_PUBLIC_KEY)
    return Offer(cell, settings.COUNTERFOIL_PUBLIC_URL, key.hex())


def read_offer(file: Path) -> Offer:
    """Read an offer that another installation has written."""
    try:
        offer = Offer(**json.loads(file.read_bytes()))
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(offer.key))
    except (OSError, ValueError, TypeError) as error:
        raise MoveRefused(f"{file} is no offer of an installation: {error}") from None
    return offer


def write_offer(file: Path, offer: Offer) -> None:
    """Write an offer for the source."""
    file.write_text(json.dumps(asdict(offer), indent=1))


def freeze(tenant_id: UUID, offer: Offer, *, cell: str, reason: str, wait_s: float, at: datetime) -> None:
    """Let nothing more be written for a tenant: when this returns, each event has its place under a signed head, and
    nobody who began to write before is still at it.
    """
    tenant = events.tenant_by_id(tenant_id)
    if tenant.moving == HERE:
        tenant = _begin(tenant, offer, cell=cell, reason=reason, at=at)
        with tenancy(tenant_id):
            record_move("tenant_move_begun", tenant=tenant, at=at)
        _set(tenant, FREEZING, (HERE,))
    elif tenant.moving not in (FREEZING, FROZEN):
        raise MoveRefused(f"The tenant is {tenant.moving}.")
    else:
        _check_destination(tenant, offer)
    # Each process reads every key again, and finds the tenant on its way.
    forget_keys()
    until = time.monotonic() + wait_s
    _wait(lambda: _has_no_writer(tenant_id), until, "Somebody still writes in a transaction that has not ended.")
    _wait(lambda: _is_signed(tenant_id), until, "The log has events without a signed place. Does the sequencer run?")
    _set(tenant, FROZEN, (FREEZING, FROZEN))
    _wait(lambda: _has_no_writer(tenant_id), until, "Somebody still writes in a transaction that has not ended.")


def _begin(tenant: Tenant, offer: Offer, *, cell: str, reason: str, at: datetime) -> Tenant:
    """Write the move into the directory before it is recorded, so that a repeated command records the same move."""
    if _is_begun(tenant.move):
        _check_destination(tenant, offer)
        return tenant
    with tenancy(tenant.id):
        if log.current_log(tenant.id) is None:
            raise MoveRefused("The tenant has no log yet. Start the sequencer, and run this again.")
        _record_abandonment(tenant, at)
    move = {"id": str(uuid4()), "from": cell, "to": offer.cell, "address": offer.address, "key": offer.key}
    _set(tenant, HERE, (HERE,), move | {"reason": reason, "begun_at": at.isoformat()})
    return events.tenant_by_id(tenant.id)


def _is_begun(move: dict[str, Any] | None) -> bool:
    """Return whether the tenant's own move has begun here and was not given up."""
    return move is not None and not has_come(move) and "abandoned_at" not in move


def _check_destination(tenant: Tenant, offer: Offer) -> None:
    move = tenant.move or {}
    if (move["to"], move["key"]) != (offer.cell, offer.key):
        raise MoveRefused(f"The tenant is being moved to {move['to']} already, with another key.")


def abandon(tenant_id: UUID, *, at: datetime) -> None:
    """Give a move up: the tenant goes on where it is. Refused once its log was handed over.

    The directory says first that the move was given up, since until then the database refuses the event.
    """
    tenant = events.tenant_by_id(tenant_id)
    if tenant.moving in (FREEZING, FROZEN) or (tenant.moving == HERE and _is_begun(tenant.move)):
        move = {**(tenant.move or {}), "abandoned_at": at.isoformat()}
        _set(tenant, HERE, (HERE, FREEZING, FROZEN), move)
        tenant = events.tenant_by_id(tenant_id)
        was_under_way = True
    elif tenant.moving != HERE:
        raise MoveRefused(f"The tenant is {tenant.moving}, and its move cannot be given up.")
    else:
        was_under_way = False
    forget_keys()
    with tenancy(tenant_id):
        if not _record_abandonment(tenant, at) and not was_under_way:
            raise MoveRefused("No move is under way.")


def _record_abandonment(tenant: Tenant, at: datetime) -> bool:
    """Record that the last move was given up, if it was; return whether that was not on record yet."""
    if "abandoned_at" not in (tenant.move or {}):
        return False
    record_move("tenant_move_begun", tenant=tenant, at=at)
    return record_move("tenant_move_abandoned", tenant=tenant, at=at)


def verify(manifest: Manifest, *, without_files: bool) -> list[str]:
    """Verify an imported tenant as it is here; return what is missing and was accepted. Then its log may be taken over.

    The rows and keys must be those of the copy, the record must follow from its events, the log from its tiles.
    """
    tenant = events.tenant_by_id(manifest.tenant_id)
    if tenant.moving not in (IMPORTED, VERIFIED) or (tenant.move or {}).get("copy") != manifest.digest:
        raise MoveRefused("This copy was not imported here, or its tenant is open already.")
    faults = tenant_copy.differences(manifest)
    for options in ({"log": True}, {}):
        try:
            call_command("verify_ledger", tenant=tenant.slug, stdout=StringIO(), **options)
        except CommandError as error:
            faults.append(str(error))
    missing = missing_files(tenant)
    if faults or (missing and not without_files):
        raise MoveRefused("\n".join([*faults, *missing]))
    _set(tenant, VERIFIED, (IMPORTED, VERIFIED))
    return missing


def missing_files(tenant: Tenant) -> list[str]:
    """Name what the tenant needs in files of this installation and does not find: one sentence each."""
    with tenancy(tenant.id):
        names = [each.name for each in systems(tenant.id)]
        gone = [plans.system_access(tenant.id, tenant.slug, name)[1] for name in names]
        wanted = running_destinations(tenant.id)
    found = [each for each in gone if each]
    known = addresses(tenant)
    return [*found, *(f"The event destination {name} has no address here." for name in wanted if name not in known)]


def take_in(folder: Path) -> tuple[Manifest, bool]:
    """Take a copy in; return its manifest, and whether it was not here before."""
    manifest = tenant_copy.read_manifest(folder)
    return manifest, tenant_copy.take_in(folder, manifest)


def _set(tenant: Tenant, moving: str, before: Collection[str], move: dict[str, Any] | None = None) -> None:
    """Set how far the move is, if it is still the move that was read: of two commands at once only one goes on."""
    with owner_transaction() as session:
        changed = session.execute(
            "UPDATE ledger_tenant SET moving = %s, move = coalesce(%s, move)"
            " WHERE id = %s AND moving = ANY(%s) AND move IS NOT DISTINCT FROM %s",
            [
                moving,
                Jsonb(move) if move is not None else None,
                tenant.id,
                list(before),
                Jsonb(tenant.move) if tenant.move is not None else None,
            ],
        ).rowcount
    if not changed:
        raise MoveRefused("Another command has changed the move meanwhile. See `move_tenant status`.")


def _wait(is_reached: Callable[[], bool], until: float, otherwise: str) -> None:
    while not is_reached():
        if time.monotonic() > until:
            raise MoveRefused(f"{otherwise} The tenant stays held; run this again, or `move_tenant abandon`.")
        time.sleep(LOOK_EVERY_S)


def _has_no_writer(tenant_id: UUID) -> bool:
    """Return whether nobody holds the lock that writers hold until their transaction ends (ledger/sql/moves.sql)."""
    with owner_transaction() as session:
        [(alone,)] = session.execute(
            "SELECT pg_try_advisory_xact_lock(4711006, hashtext(%s))", [str(tenant_id)]
        ).fetchall()
    return bool(alone)


def _is_signed(tenant_id: UUID) -> bool:
    with tenancy(tenant_id):
        head = log.current_log(tenant_id)
        waiting = execute("SELECT 1 FROM ledger_pending WHERE tenant_id = $1 LIMIT 1", tenant_id)
    return head is not None and not waiting and head.signed_size == head.size
