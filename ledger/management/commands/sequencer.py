"""`manage.py sequencer [--once] [--adopt CHECKPOINT]`: append events to the log and sign it.

One process leads, under a lease in the signer state; any number stand by to take over when it ends. The leader empties
the queue every 25 to 50 ms, and every 200 ms after five seconds without an event. Every five seconds it visits the logs
with something unsigned, and those that were not visited for an hour; whoever begins to lead visits every log once, a
portion at a time. A log that is damaged or forked stops alone, with an alarm, and is checked again every few seconds;
the others go on. It signs in as the role of its own and is the only process that needs the log key and the signer
state.
"""

from __future__ import annotations

import argparse
import logging
import signal
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import Error, IntegrityError, OperationalError, connection
from django.utils import timezone

from counterfoil_tlog import checkpoint, notes
from ledger import processes
from ledger.catalogue.rules.moving import LOG_GROWS
from ledger.log.operations import logs
from ledger.log.operations import sequencer as sequencer_operations
from ledger.log.queries import log as queries
from ledger.log.rules.signing import TreeHead
from ledger.log.signer_state import LeadLost, SignerStateUnavailable, StateInsideRecord, open_state, read_keys
from ledger.management.alive_file import renew_alive_file
from ledger.record.queries import events
from ledger.record.queries.work import Work, tenants_with
from ledger.record.rules.refusals import Refused

logger = logging.getLogger(__name__)

BUSY_S, IDLE_S, QUIET_S, STANDBY_S, PAUSE_S = 0.025, 0.05, 0.2, 0.25, 1.0
QUIET_AFTER_S = 5.0
SWEEP_S = 5.0
PORTION = 20
"""The number of logs that a new leader visits between two looks at the queue."""


class Command(BaseCommand):
    help = "Append queued events to the Merkle log and sign its head."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--once", action="store_true", help="process the queue once, sign and exit")
        parser.add_argument(
            "--adopt", metavar="CHECKPOINT", help="rebuild lost signer state from this signed checkpoint"
        )

    def handle(self, *args: Any, once: bool = False, adopt: str | None = None, **options: Any) -> None:
        with open_signer() as signer:
            if adopt is not None:
                with lead_at_once(signer):
                    self.stdout.write(adopted_head(Path(adopt), signer))
            elif once:
                with lead_at_once(signer):
                    Sequencer(signer).visit_all()
            else:
                ending = threading.Event()
                for each in (signal.SIGTERM, signal.SIGINT):
                    signal.signal(each, lambda *_: ending.set())
                Sequencer(signer).run(ending)


@contextmanager
def open_signer() -> Iterator[sequencer_operations.Signer]:
    """The log key and the signer state of this installation."""
    try:
        with open_state(settings.COUNTERFOIL_SIGNER_STATE) as state:
            yield sequencer_operations.Signer(read_keys(settings.COUNTERFOIL_LOG_KEY), state)
    except (OSError, ValueError) as error:
        raise CommandError(f"The log key or the signer state cannot be used: {error}") from None
    except (StateInsideRecord, SignerStateUnavailable) as error:
        raise CommandError(str(error)) from None


@contextmanager
def lead_at_once(signer: sequencer_operations.Signer) -> Iterator[None]:
    """Replace the sequencer that leads, if one does, until this ends; then any takes the lead again."""
    try:
        sequencer_operations.take_lead(signer.state, at_once=True)
        yield
        signer.state.release_lead()
    except LeadLost as lost:
        raise CommandError(f"{lost} Run this again.") from None


def adopted_head(file: Path, signer: sequencer_operations.Signer) -> str:
    """Adopt a checkpoint signed by this key for a log whose signer state is lost; returns the message to print."""
    try:
        note = notes.parse(file.read_bytes())
        point = checkpoint.parse(note.text)
        notes.verify_signatures(note, [notes.verifier(point.origin, key.public_key()) for key in signer.keys.all])
        signer.state.adopt(point.origin, TreeHead(point.size, point.root))
    except Refused as refusal:
        raise CommandError(f"{file} was not adopted: {refusal.detail}") from None
    return f"Signer state restored: {point.origin} at {point.size} entries."


def all_tenants() -> list[UUID]:
    """Every tenant: what a new leader, or one run by hand, visits once."""
    return [each.id for each in events.tenants()]


class Sequencer:
    """The main loop of the sequencer process."""

    def __init__(self, signer: sequencer_operations.Signer) -> None:
        self.signer = signer
        self.id = uuid4()
        self.leads = False
        self.unvisited: list[UUID] = []
        self.swept = -SWEEP_S
        self.worked = time.monotonic()
        self.stopped: dict[UUID, float] = {}
        self.compares = self.overtaken = False

    def run(self, ending: threading.Event) -> None:
        """Run until asked to stop; finish the step under way first."""
        while not ending.is_set():
            renew_alive_file()
            try:
                ending.wait(self._turn())
            except LeadLost as lost:
                logger.warning("%s This one stands by.", str(lost))
                self.leads = False
            except SignerStateUnavailable as error:
                # Nobody else can sign meanwhile either; the lease is still ours if it is short.
                logger.warning("%s", str(error))
                ending.wait(PAUSE_S)
            except (OperationalError, Error) as error:
                # The server is away, or the connection is; another host may still reach it.
                logger.warning("The database cannot be reached: %s", str(error).strip())
                connection.close()
                self._stand_by()
                ending.wait(PAUSE_S)
        self._stand_by()

    def _stand_by(self) -> None:
        if self.leads:
            self.leads = False
            with suppress(SignerStateUnavailable):
                self.signer.state.release_lead()

    def _turn(self) -> float:
        """Process the queue once; returns how long to wait before the next time."""
        if not self.leads:
            self.leads = sequencer_operations.take_lead(self.signer.state)
            if not self.leads:
                return STANDBY_S
            sequencer_operations.end_pauses_in_transactions()
            logger.info("This sequencer is now the leader.")
            # The database may be another one than before, or set back.
            self.swept, self.unvisited, self.compares = -SWEEP_S, all_tenants(), False
        self.signer.state.keep_lead()
        due = time.monotonic() - self.swept >= SWEEP_S
        if due:
            # A key may have been rotated meanwhile (`manage.py log`).
            self.signer = sequencer_operations.Signer(read_keys(settings.COUNTERFOIL_LOG_KEY), self.signer.state)
            self.swept = time.monotonic()
            processes.take_lease(processes.SEQUENCER, self.id, seconds=0)
            queries.learn_sizes()
            self._compare_unless_signed()
        portion, self.unvisited = self.unvisited[:PORTION], self.unvisited[PORTION:]
        long_ago = timezone.now() - sequencer_operations.HEARTBEAT
        done = self.work([*portion, *(tenants_with(Work.UNSIGNED_LOGS, at=long_ago) if due else ())])
        self._sign_once_compared()
        if done or self.unvisited:
            self.worked = time.monotonic()
            return BUSY_S
        return IDLE_S if time.monotonic() - self.worked < QUIET_AFTER_S else QUIET_S

    def visit_all(self) -> int:
        """Visit every log at once, as a run by hand does."""
        self._compare_unless_signed()
        self.unvisited = []
        done = self.work(all_tenants())
        self._sign_once_compared()
        return done

    def _compare_unless_signed(self) -> None:
        """Have every log compared if the epoch is not signed for this database, as after a restore."""
        if not self.compares and not sequencer_operations.is_epoch_signed(self.signer):
            self.unvisited, self.compares, self.overtaken = all_tenants(), True, False
            self.stopped.clear()

    def _sign_once_compared(self) -> None:
        """Sign the epoch when every log was compared; where another sequencer came between, they are compared again."""
        if self.compares and not self.unvisited:
            self.compares = False
            if not self.overtaken:
                sequencer_operations.sign_epoch(self.signer)

    def work(self, visited: Collection[UUID]) -> int:
        """Process waiting events, and visit these logs without any too: they may lack a signature."""
        stopped = [tenant_id for tenant_id, until in self.stopped.items() if time.monotonic() < until]
        waiting: dict[UUID, list[int]] = queries.pending_events(but=stopped)
        wanted = [tenant_id for tenant_id in visited if tenant_id not in stopped]
        known = events.tenants_by_id(wanted).items() if wanted else ()
        # A log that is on its way to another installation, or there, is not signed here.
        tenants = {tenant_id: tenant for tenant_id, tenant in known if tenant.moving in LOG_GROWS}
        idle = {tenant_id: list[int]() for tenant_id in tenants}
        done = sum(self._drain(tenant_id, positions) for tenant_id, positions in (idle | waiting).items())
        for tenant_id, tenant in tenants.items():
            if tenant.epoch is None and tenant_id not in self.stopped:
                # A log from before the database knew its epoch, which continues what was signed.
                sequencer_operations.accept_epoch(tenant_id=tenant_id, epoch=self.signer.state.epoch)
        return done

    def _drain(self, tenant_id: UUID, positions: Sequence[int]) -> int:
        self.signer.state.keep_lead()
        try:
            return sequencer_operations.drain_queue(
                tenant_id=tenant_id, positions=positions, signer=self.signer, at=timezone.now()
            )
        except (sequencer_operations.TipMoved, IntegrityError) as lost:
            # Somebody else leads meanwhile, and has taken these: nothing of ours was kept.
            logger.warning("Another sequencer has advanced the log of %s: %s", tenant_id, lost)
            self.overtaken = True
            return 0
        except Refused as refusal:
            self.stopped[tenant_id] = time.monotonic() + SWEEP_S
            logger.critical("The log of %s is stopped: %s", tenant_id, refusal.detail)
            sequencer_operations.stop_log(tenant_id=tenant_id, code=refusal.code)
            logs.raise_alarm(tenant_id=tenant_id, kind=refusal.code, detail=refusal.detail, at=timezone.now())
            return 0
