"""SQL conditions that match the predicates of partial indexes.

The states are written out: a plan that is made for any value uses no index that leaves out the rows of some.
"""

from __future__ import annotations

from collections.abc import Iterable

from ledger.record.rules.lifecycle import BLOCKS_REPEAT, OPEN


def in_states(column: str, states: Iterable[str]) -> str:
    """The condition that a column holds one of these states, written out: so an index that holds only them is used."""
    return f"{column} IN ({', '.join(repr(str(state)) for state in states)})"


IS_OPEN = f"(contradicted OR {in_states('state', sorted(OPEN))})"


def open_duplicates_sql(*, key: str, at: str) -> str:
    """The ids of a tenant's ($1) actions of one logical mutation that keep it from being repeated, as a statement.

    Those that are open, may still take effect, or are contradicted (R-EX-08). Each part has an index of its own, so
    the repeats that are over are not read.
    """
    mine = f"SELECT o.id FROM ledger_action o WHERE o.tenant_id = $1 AND o.operation_key = {key} AND o.mutating"
    blocking = in_states("o.state", sorted(BLOCKS_REPEAT))
    late = f"o.state = 'FAILED' AND o.blocks_until > {at}"
    return f"{mine} AND {blocking} UNION ALL {mine} AND {late} UNION ALL {mine} AND o.contradicted"
