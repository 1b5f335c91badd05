"""Keys of evidence that the key database no longer has."""

from __future__ import annotations

from uuid import UUID

import psycopg

from console.local import servers
from ledger import keystore
from ledger.db import tenancy
from ledger.record.queries import evidence
from tests.conftest import KEYS, Run


def forget_key(tenant: UUID, run: Run, action_id: str) -> None:
    """Remove the key of an action from the key database, as an older backup of it would."""
    with tenancy(tenant):
        key_id = evidence.key_id(tenant, UUID(action_id))
    with psycopg.connect(run.postgres.url(servers.ERASER, KEYS), autocommit=True) as eraser:
        eraser.execute("DELETE FROM data_key WHERE id = %s", [key_id])
    keystore.clear_cache()
