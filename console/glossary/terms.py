"""The eighteen terms that the product uses with one meaning each (R-CX-11), as in docs/glossary.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Term:
    """A term, its meaning here, its consequence, and its label on screens and in the API."""

    name: str
    meaning: str
    consequence: str
    here: str


TERMS: Final = (
    Term(
        "Action verification",
        "The work after an execution that proves or disproves the intended change.",
        "Until it is done, no task state changes and no success is reported.",
        "verification run",
    ),
    Term(
        "Intended state",
        "What the target should look like according to the goal or the plan.",
        "Every comparison starts from it.",
        "predicates of the contract",
    ),
    Term(
        "Requested state",
        "The values that the model proposed and the gate validated.",
        "It turns the intent into something that can be hashed and approved.",
        "payload",
    ),
    Term(
        "Observed state",
        "What the tool's answer says.",
        "It is evidence and changes nothing by itself.",
        "observation",
    ),
    Term(
        "Authoritative state",
        "What the target's primary record says, not a replica or cache.",
        "It decides the verdict.",
        "readback",
    ),
    Term(
        "Believed task state",
        "What the orchestrator believes about its task.",
        "Only a reconciliation changes it.",
        "context of a session",
    ),
    Term(
        "Hallucinated success",
        "Treating something unfinished, failed or simulated as done.",
        "It corrupts plans, the audit trail and what users are told; every detected pattern is counted.",
        "HS-01 to HS-14, on Calls",
    ),
    Term(
        "Assumed completion",
        "Treating a request that was sent as a change that was made.",
        "Later steps would have no basis, so no step starts before the previous one was observed.",
        "accepted, pending",
    ),
    Term(
        "Observation object",
        "A tool's answer in one fixed format.",
        "A model never sees the raw output; the side-effect class decides whether the answer must be read back.",
        "observation",
    ),
    Term(
        "Reconciliation",
        "The comparison of what was read with what was intended.",
        "It ends in success, failure, partial success or a need for recovery.",
        "verdict",
    ),
    Term(
        "Read-after-write check",
        "A query after the change that is not affected by replica delay.",
        "A stale reading is not taken as proof of absence.",
        "strong read",
    ),
    Term(
        "Partial failure",
        "Only some of the intended changes took place.",
        "It has its own state and is never reported as success or as failure.",
        "partly done",
    ),
    Term(
        "Rollback",
        "Undoing changes inside one transaction boundary.",
        "Where possible, it is chosen first.",
        "rolled back",
    ),
    Term(
        "Compensation",
        "A separate, idempotent action that reverses a committed effect.",
        "It is used where changes cannot be undone in one transaction, and is verified like any other action.",
        "reversal",
    ),
    Term(
        "Forward recovery",
        "Completing a partial change to reach the goal.",
        "It is used for effects that cannot or should not be undone.",
        "finishing what is missing",
    ),
    Term(
        "Action ledger",
        "The append-only record of what was executed, verified and recovered.",
        "Compliance, investigations and regression tests rely on it.",
        "ledger; events and entries",
    ),
    Term(
        "Verification depth",
        "How much is checked; it grows with the side-effect class.",
        "It balances delay against risk.",
        "checks that the class requires",
    ),
    Term(
        "Recovery policy",
        "Fixed rules that map a discrepancy to a recovery action.",
        "No model improvises a recovery.",
        "rows RT-01 to RT-99",
    ),
)
