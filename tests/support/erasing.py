"""The eraser's process, as far as tests need it: the same command, as its own role, on the test's database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from io import StringIO
from uuid import UUID, uuid4

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection, connections, transaction
from django.utils import timezone

from console.local import servers
from ledger import keystore
from ledger.db import tenancy
from ledger.people.rules.confirmation import Answer
from ledger.record.operations import Actor
from ledger.record.queries import evidence
from ledger.retention.operations import erasure as operations
from tests.conftest import KEYS, Run
from tests.support.builders import AT


@contextmanager
def as_eraser(run: Run) -> Iterator[None]:
    """Django's own connection and that to the keys, signed in as the eraser."""
    kept = {name: connections["default"].settings_dict[name] for name in ("USER", "PASSWORD")}
    with pytest.MonkeyPatch.context() as patch:
        connections["default"].close()
        connections["default"].settings_dict |= {"USER": servers.ERASER, "PASSWORD": run.postgres.passwords.eraser}
        patch.setattr("django.conf.settings.KEYS_DATABASE_URL", run.postgres.url(servers.ERASER, KEYS))
        keystore.clear_cache()
        try:
            yield
        finally:
            connections["default"].close()
            connections["default"].settings_dict |= kept
    keystore.clear_cache()


def erase(run: Run) -> str:
    """What `manage.py eraser --once` says."""
    said = StringIO()
    with as_eraser(run):
        call_command("eraser", once=True, stdout=said)
    return said.getvalue()


def erase_here(run: Run, tenant: UUID, erasure_id: UUID) -> int:
    """What the eraser would have done by now, inside a test's own transaction; its role is lent (tests/conftest.py)."""
    with pytest.MonkeyPatch.context() as patch, transaction.atomic(), connection.cursor() as cursor:
        patch.setattr("django.conf.settings.KEYS_DATABASE_URL", run.postgres.url(servers.ERASER, KEYS))
        cursor.execute("SET LOCAL ROLE counterfoil_eraser")
        count = operations.run_erasure(tenant_id=tenant, erasure_id=erasure_id, clock=timezone.now)
        cursor.execute("RESET ROLE")
    return count


def decided(tenant: UUID, *subjects: UUID, by: tuple[Actor, Actor] | None = None, at: datetime = AT) -> UUID:
    """A request that one person made and another confirmed."""
    first, second = by or (Actor("person", uuid4()), Actor("person", uuid4()))
    wish = operations.ErasureRequest(subjects=subjects, legal_basis="Art. 17(1)(a) GDPR", reason="The customer asked.")
    with tenancy(tenant):
        row = operations.request_erasure(tenant_id=tenant, request=wish, by=first, at=at)
        operations.answer_erasure(
            tenant_id=tenant, erasure_id=row.id, answer=Answer.CONFIRM, by=second, is_proven=True, at=at
        )
    return row.id


def forget_key(tenant: UUID, run: Run, action_id: str) -> None:
    """Remove the key of an action from the key database, as an older backup of it would."""
    with tenancy(tenant):
        key_id = evidence.key_id(tenant, UUID(action_id))
    with psycopg.connect(run.postgres.url(servers.ERASER, KEYS), autocommit=True) as eraser:
        eraser.execute("DELETE FROM data_key WHERE id = %s", [key_id])
    keystore.clear_cache()
