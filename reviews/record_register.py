"""What `ledger.register` reads of this package: how its rows follow from their events."""

from __future__ import annotations

from reviews.rules import recovery_table

RECOVERY_TABLES = {recovery_table.BUILT_IN.digest: {row.id: row.action for row in recovery_table.ROWS}}
