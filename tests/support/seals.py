"""What the sequencer would have done by now, inside a test's own transaction.

The tests' server lends its role to the application (tests/conftest.py); a real one does not. Tests about the process
itself start it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings
from django.db import connection, transaction

from ledger.log.operations import sequencer
from ledger.log.operations.sequencer import Signer
from ledger.log.queries import log as queries
from ledger.log.signer_state import SignerState, open_state, read_keys

_state_names = ["signer"]


@cache
def _folder() -> Path:
    """In the run's own folder, which is in memory: each seal would otherwise wait for a disk."""
    return Path(tempfile.mkdtemp(prefix="signer-", dir=os.environ["COUNTERFOIL_TEST_RUN"]))


def signer_state_file() -> Path:
    """The signer state of this process's tests."""
    return _folder() / f"{_state_names[-1]}.sqlite"


@contextmanager
def new_signer_state() -> Iterator[None]:
    """A signer state that has seen nothing, for as long as a test runs."""
    _state_names.append(uuid4().hex)
    try:
        yield
    finally:
        for left in _folder().glob(f"{_state_names.pop()}*"):
            left.unlink()


@contextmanager
def signer(path: Path | None = None) -> Iterator[Signer]:
    """The sequencer's keys and a signer state, of which we lead."""
    with leading_state(path or signer_state_file()) as state:
        yield Signer(read_keys(settings.COUNTERFOIL_LOG_KEY), state)


@contextmanager
def leading_state(path: Path) -> Iterator[SignerState]:
    """The signer state at this path, of which we lead."""
    with open_state(path) as state:
        state.take_lead(at_once=True)
        yield state


@contextmanager
def as_sequencer() -> Iterator[None]:
    """The sequencer's rights for a while."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL ROLE counterfoil_sequencer")
        # One at a time, as there is one leader.
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [4_711_003])
        yield
        cursor.execute("RESET ROLE")


def seal_up(path: Path | None = None) -> int:
    """Everything that waits gets its place and a signature over it; how many events there were."""
    if not queries.pending_events(limit=1):
        return 0
    with as_sequencer(), signer(path) as signing:
        return sum(
            sequencer.drain_queue(tenant_id=tenant_id, positions=positions, signer=signing, at=datetime.now(UTC))
            for tenant_id, positions in queries.pending_events().items()
        )


def seal_promptly(patch: pytest.MonkeyPatch) -> None:
    """Seal everything before executors are handed work, and before a request that asks what is ready is let in: what
    only reads cannot seal."""
    from approvals.execution.operations import ready_actions
    from console.edge.auth import Key

    mint, admit = ready_actions.mint_grants, Key.__call__

    def minted(**named: Any) -> Any:
        seal_up()
        return mint(**named)

    def admitted(key: Key, request: Any) -> Any:
        if request.path.endswith("/executions/ready"):
            seal_up()
        return admit(key, request)

    patch.setattr(ready_actions, "mint_grants", minted)
    patch.setattr(Key, "__call__", admitted)
