"""The standing of a claim, for its page, the API and its receipt: derived from its row and its reading's evidence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from console.claims import schemas
from reviews.claims import queries
from reviews.claims.rules import claims as rules

if TYPE_CHECKING:
    from reviews.models import UngatedClaim

NOT_KNOWN: Final = (
    "who did it",
    "whether it was approved",
    "whether it had been done before, or was done again elsewhere",
    "whether anything else was done besides",
)
"""The things that an ungated verification cannot know (docs/verify.md)."""
_HOLDS: Final = {"TRUE": True, "FALSE": False}


def claim_row(row: UngatedClaim) -> schemas.ClaimRow:
    """A claim as lists show it."""
    return schemas.ClaimRow.of(row, **_standing(row))


def claim_answer(row: UngatedClaim) -> schemas.Claim:
    """A claim with its sentence and its reading."""
    findings = queries.claim_findings(row)
    return schemas.Claim.of(
        row,
        **_standing(row),
        sentence=sentence_of(row, findings),
        reading=_reading(row, findings),
        not_known=list(NOT_KNOWN),
    )


def _standing(row: UngatedClaim) -> dict[str, Any]:
    outcome = rules.claim_outcome(row.state, reached_by=row.reached_by, discrepancy=row.discrepancy)
    return {"outcome": outcome, "safe_to_claim": rules.is_safe(row.state)}


def sentence_of(row: UngatedClaim, findings: Mapping[str, Any]) -> str:
    """The sentence that says whether it is safe to claim."""
    return rules.claim_sentence(
        row.state,
        reached_by=row.reached_by,
        system=row.system,
        effect=row.effect,
        read_at=row.read_at,
        findings=findings,
    )


def _reading(row: UngatedClaim, findings: Mapping[str, Any]) -> schemas.ClaimReading | None:
    if row.pointer is None or row.read_at is None:
        return None
    verdict = findings.get("verdict", {})
    reading: Mapping[str, Any] = next(iter(findings.get("readings", ())), {})
    return schemas.ClaimReading(
        read_at=row.read_at,
        result=row.result,
        discrepancy=row.discrepancy,
        reason=verdict.get("reason", ""),
        source=reading.get("source"),
        consistency=reading.get("consistency"),
        freshness=reading.get("freshness"),
        fields=[
            _compare_field(each, findings) for each in verdict.get("predicates", ()) if each["origin"] == "contract"
        ],
        evidence=row.pointer,
    )


def _compare_field(predicate: Mapping[str, Any], findings: Mapping[str, Any]) -> schemas.ComparedField:
    """One expected field: its predicate is over `sa.` and its name, and over nothing else."""
    name = predicate["text"].removeprefix("sa.").split(" ")[0]
    layers = findings.get("layers", {})
    return schemas.ComparedField(
        name=name,
        expected=_member(layers.get("sr"), name),
        shown=_member(layers.get("sa"), name),
        matches=_HOLDS.get(predicate["holds"]),
    )


def _member(found: Any, name: str) -> Any:
    for step in name.split("."):
        found = found.get(step) if isinstance(found, Mapping) else None
    return found
