"""The gates of an approval or autonomy policy: past calls decided again by the draft, the difference, and the schemas.

Such a policy decides which calls run and which are asked about. Nothing that it changes can be seen in a reading, so
no gate of readings says anything about it (decision 46).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from approvals.policy.rules import autonomy, policy
from approvals.policy.rules.simulation import PolicyOutcome
from console.web import policy_simulation
from console.web.policy_simulation import PolicySimulation, TouchedAction
from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.operations import releases
from ledger.catalogue.operations.releases import GateResult
from ledger.catalogue.rules.releases import WrongStep
from ledger.record.operations import Actor
from ledger.record.rules.canonical import parse
from ledger.record.rules.refusals import Refused

if TYPE_CHECKING:
    from ledger.models import Release

SIMULATED: Final = timedelta(days=30)
MOST_LISTED: Final = 200
_LOADERS: Mapping[str, Callable[[bytes], Any]] = {"approval": policy.load_stored, "autonomy": autonomy.load_stored}


def run_call_gates(row: Release, *, changes: Sequence[Mapping[str, str]], by: Actor, at: datetime) -> Release:
    """Run the three gates and store each result. `changes` are the differences of the draft."""
    if row.state != "DRAFT":
        raise WrongStep("The gates of this draft have passed. To run them again, withdraw it and create a new draft.")
    in_force = catalogue_queries.active_policies(row.tenant_id)[row.kind]
    simulation = policy_simulation.simulate_policy(
        row.tenant_id, row.kind, parse(bytes(row.document)), since=at - SIMULATED, until=at
    )
    results = [
        _simulation_gate(simulation),
        _difference(in_force.version, changes, simulation),
        _readable(row),
    ]
    return releases.record_gates(
        tenant_id=row.tenant_id, release_id=row.id, results=results, basis=in_force.digest, by=by, at=at
    )


def loosened_calls(simulation: PolicySimulation) -> list[TouchedAction]:
    """Return the calls that were asked about or refused and that the draft would pass."""
    return [each for each in simulation.touched if each.now == PolicyOutcome.LET_THROUGH]


def _simulation_gate(simulation: PolicySimulation) -> GateResult:
    """Passed if the draft allows nothing that was held or refused; else a person signs the list."""
    loose = loosened_calls(simulation)
    said = simulation.text
    if loose:
        said += (
            f" {len(loose)} of these were held or refused and would have been let through:"
            " a person who did not draft it must sign."
        )
    told = {
        "decided": simulation.decided,
        "left_out": simulation.left_out,
        "is_cut": simulation.is_cut,
        "touched": [
            {"action_id": str(each.action_id), "then": each.then, "now": each.now, "wrong": each.wrong}
            for each in simulation.touched[:MOST_LISTED]
        ],
        "touched_in_all": len(simulation.touched),
    }
    return GateResult(gate="SIMULATION", passed=not loose, summary=said, evidence=told)


def _difference(version: str, changes: Sequence[Mapping[str, str]], simulation: PolicySimulation) -> GateResult:
    """RG-02: never passed automatically; a person signs it."""
    places = "1 place differs" if len(changes) == 1 else f"{len(changes)} places differ"
    calls = "1 call" if len(simulation.touched) == 1 else f"{len(simulation.touched)} calls"
    said = (
        f"{places} from version {version}; {calls} of the last {SIMULATED.days} days would have been decided"
        " differently. A person who did not draft it must sign."
    )
    ids = [str(each.action_id) for each in simulation.touched[:MOST_LISTED]]
    told = {"compared_with": version, "changes": [dict(each) for each in changes], "actions": ids}
    return GateResult(gate="RG-02", passed=False, summary=said, evidence=told)


def _readable(row: Release) -> GateResult:
    """RG-06: the draft and every stored version of its kind are read as this release reads them."""
    stored = catalogue_queries.policy_versions(row.tenant_id, row.kind)
    lines = [_line(row.kind, "the draft", bytes(row.document))]
    lines += [_line(row.kind, f"version {each.version}", bytes(each.document)) for each in stored]
    bad = [line for line in lines if not line["passed"]]
    said = f"{len(lines) - len(bad)} of {len(lines)} passed."
    if bad:
        said += f" The first that failed: {bad[0]['tried']}: {bad[0]['found']}"
    return GateResult(gate="RG-06", passed=not bad, summary=said, evidence={"lines": lines})


def _line(kind: str, tried: str, document: bytes) -> dict[str, Any]:
    found = ""
    try:
        _LOADERS[kind](document)
    except Refused as fault:
        found = fault.detail
    except (KeyError, ValueError, TypeError) as fault:
        found = f"{type(fault).__name__}: {fault}"
    return {"tried": tried, "wanted": "that it is read", "found": found or "it is", "passed": not found}
