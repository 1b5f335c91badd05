"""The eighteen terms that the product uses with one meaning each (R-CX-11); docs/glossary.md says the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Term:
    """A term, what it means here, what follows from it, and the word that stands for it on screens and in the API."""

    name: str
    meaning: str
    consequence: str
    here: str


TERMS: Final = (
    Term(
        "Action verification",
        "The work after an execution that proves or disproves the change that was intended.",
        "Before it, no task state changes and nobody is told of a success.",
        "verification run",
    ),
    Term(
        "Intended state",
        "What the target should look like, by the goal or the plan.",
        "Every comparison starts from it.",
        "predicates of the contract",
    ),
    Term(
        "Requested state",
        "The values that the model proposed and the gate validated.",
        "It is the intent in a form that can be hashed and approved.",
        "payload",
    ),
    Term(
        "Observed state",
        "What the answer of the tool says.",
        "It is evidence, and changes nothing by itself.",
        "observation",
    ),
    Term(
        "Authoritative state",
        "What the primary record of the target holds, without replicas and caches.",
        "It decides.",
        "readback",
    ),
    Term(
        "Believed task state",
        "What the orchestrator holds to be true about its task.",
        "Only a reconciliation changes it.",
        "context of a session",
    ),
    Term(
        "Hallucinated success",
        "Something unfinished, failed or simulated that is treated as done.",
        "It spoils plans, the audit trail and what users are told; each pattern that was met is counted.",
        "HS-01 to HS-14, on Calls",
    ),
    Term(
        "Assumed completion",
        "A request that was sent, taken for a change that was made.",
        "Later steps would stand on nothing, so none starts before the one before it was observed.",
        "accepted, pending",
    ),
    Term(
        "Observation object",
        "The answer of a tool in one fixed form.",
        "A model never sees the raw output; whether the answer must be read back depends on the side-effect class.",
        "observation",
    ),
    Term(
        "Reconciliation",
        "The comparison of what was read with what was intended.",
        "It ends in a success, a failure, a part, or a need for recovery.",
        "verdict",
    ),
    Term(
        "Read-after-write check",
        "A query after the change that gets round the delay of replicas.",
        "A stale reading is not taken for an absence.",
        "strong read",
    ),
    Term(
        "Partial failure",
        "Only a part of the intended changes took place.",
        "It has a state of its own and is never told as a success or as a failure.",
        "partly done",
    ),
    Term(
        "Rollback",
        "Undoing inside one transaction boundary.",
        "Where it is possible, it is chosen first.",
        "rolled back",
    ),
    Term(
        "Compensation",
        "A separate, idempotent action that reverses an effect which has been committed.",
        "It is for changes that cannot be undone in one piece, and is verified like any other action.",
        "reversal",
    ),
    Term(
        "Forward recovery",
        "Going on from a partial state to the goal.",
        "It is for effects that cannot or should not be undone.",
        "finishing what is missing",
    ),
    Term(
        "Action ledger",
        "The append-only record of what was executed, verified and recovered.",
        "Compliance, investigations and regression tests read it.",
        "ledger; events and entries",
    ),
    Term(
        "Verification depth",
        "How much is checked, growing with the side-effect class.",
        "It weighs delay against risk.",
        "checks that the class asks for",
    ),
    Term(
        "Recovery policy",
        "Fixed rules that lead from a discrepancy to a recovery action.",
        "No model improvises a recovery.",
        "rows RT-01 to RT-99",
    ),
)
