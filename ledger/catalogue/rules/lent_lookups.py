"""Lookups added later: an action whose contract has no lookup is read with that of a later version.

1. A version lends its lookup only to one that has none, and only where both are about the same thing: the same tool,
   the same operation on the same target, and every effect that was required before.
2. What is lent is where and how the system is read: `verification`, and the effects that it looks for. Class, remedies,
   what counts as done where nothing was to do, and everything else stay those of the contract that the action was
   proposed under; so a lent lookup adds a reading and takes nothing away.
"""

from __future__ import annotations

import json
from dataclasses import replace

from ledger.catalogue.rules.contract import Contract, parse_document

_LENT = ("verification", "required_effects")


def lends_lookup(later: Contract, contract: Contract) -> bool:
    """Return whether actions of a contract may be read with the lookup of a later version (rule 1)."""
    is_same = (later.name, later.target_template, later.operation_kind) == (
        contract.name,
        contract.target_template,
        contract.operation_kind,
    )
    keeps_effects = set(contract.required_effects) <= set(later.required_effects)
    return contract.mutating and not contract.verifiable and later.verifiable and is_same and keeps_effects


def with_lookup_of(later: Contract, contract: Contract) -> Contract:
    """The contract with a later version's lookup for reading its actions (rule 2); its digest does not change."""
    lent, own = json.loads(later.document), json.loads(contract.document)
    document = own | {part: lent[part] for part in _LENT if part in lent}
    return replace(parse_document(document), digest=contract.digest)
