"""Checks the policies that decisions name: each was in force when it decided and has the row that it named.

1. An event that a policy decided names the policy's digest in its envelope, and version and digest in its entry
   (R-LE-13, R-VD-17, R-RP-24). Both are of one version of the tenant's policies of that kind.
2. That version was in force when the event happened, by the events of the policy. A run reads for a while and clocks
   differ, so `READ_FOR` on either side counts as then.
3. A run of verification names the verification policy. A row of the recovery table stands with the digest of the
   table's rows; the policy has that table, and the table that row, with the action that was decided.
4. No entry changes what it says of a policy unless its event names that policy.

Events from before the entry had digests are held to what they name, which is less. A table that another release
built in cannot be looked up; of it only rules 1 and 2 are asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ledger.catalogue.rules.policies import POLICY_KINDS, context_field
from ledger.record.rules.canonical import canonical, digest, parse
from ledger.record.rules.envelope import Envelope

READ_FOR = timedelta(minutes=15)
BUILT_IN = "built-in"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyInForce:
    """A version of a policy and the time in which it was in force; `until` is None while it is."""

    kind: str
    version: str
    digest: str
    since: datetime
    until: datetime | None
    document: bytes

    def was_in_force(self, at: datetime) -> bool:
        """Return whether it was in force at that time (rule 2)."""
        return self.since - READ_FOR <= at and (self.until is None or at <= self.until + READ_FOR)


class PolicyHistory:
    """Every version of every policy of one tenant, by the events of the policies."""

    def __init__(self, versions: Iterable[PolicyInForce], tables: Mapping[str, Mapping[str, str]]) -> None:
        self._versions: dict[tuple[str, str], list[PolicyInForce]] = {}
        for each in versions:
            self._versions.setdefault((each.kind, each.digest), []).append(each)
        self._built_in = tables

    def fault(
        self,
        envelope: Envelope,
        detail: Mapping[str, Any],
        entry: Mapping[str, Any],
        before: Mapping[str, str] | None,
    ) -> str | None:
        """Describe a fault in an action's event concerning policies; `before` is the context of the entry before.

        `before` is None for the first entry, and after an erased one.
        """
        context: Mapping[str, str] = entry["policy_context"]
        named = {kind: envelope.digests[kind] for kind in POLICY_KINDS if kind in envelope.digests}
        for kind, value in named.items():
            fault = self._version_fault(kind, value, context, envelope.at)
            if fault is not None:
                return fault
        for kind in POLICY_KINDS:
            if kind not in named and _is_changed(context, before, kind):
                return f"its entry names another {kind} policy, and nothing was decided under it."
        return self._decision_fault(detail, entry, named)

    def _version_fault(self, kind: str, value: str, context: Mapping[str, str], at: datetime) -> str | None:
        versions = self._versions.get((kind, value), [])
        if not any(each.was_in_force(at) for each in versions):
            return f"it was decided under a {kind} policy that was not in force."
        name = context_field(kind)
        if f"{name}_digest" not in context:
            return None
        said = context[f"{name}_version"], context[f"{name}_digest"]
        if said not in {(each.version, each.digest) for each in versions}:
            return f"its entry names another {kind} policy than the one that decided."
        return None

    def _decision_fault(
        self, detail: Mapping[str, Any], entry: Mapping[str, Any], named: Mapping[str, str]
    ) -> str | None:
        if "run" in detail and "verification_policy_digest" in entry["policy_context"] and "verification" not in named:
            return "it was read and judged under a verification policy that it does not name."
        table = detail.get("recovery_table")
        if table is None:
            return None
        if "recovery" not in named:
            return "a row of a recovery policy decided that it does not name."
        rows = self._rows(named["recovery"], table)
        if rows is None:
            return "its recovery policy has another table than the one that decided."
        row = str(detail.get("recovery_row"))
        said = str(detail.get("because") or entry["reconciliation"]["recovery_decision"] or "")
        if rows and (row not in rows or (said.startswith(f"{row} ") and said != f"{row} {rows[row]}")):
            return f"its recovery policy has no row {row} that decides this."
        return None

    def _rows(self, policy: str, table: str) -> Mapping[str, str] | None:
        """The rows of a recovery policy by their ids: empty where another release built them in, None if not its."""
        document = self._versions["recovery", policy][0].document
        if digest(document) != policy:
            # The document was changed: the policy itself is where that is found.
            return {}
        own = parse(document).get("table", BUILT_IN)
        if own == BUILT_IN:
            return self._built_in.get(table, {})
        return {row["id"]: row["action"] for row in own} if digest(canonical(own)) == table else None


def _is_changed(context: Mapping[str, str], before: Mapping[str, str] | None, kind: str) -> bool:
    version, value = f"{context_field(kind)}_version", f"{context_field(kind)}_digest"
    if before is None:
        return False
    return (context[version], context.get(value)) != (before[version], before.get(value))
