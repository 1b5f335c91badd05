"""The approval policy: when people are asked, how long they have, and how they prove who they are.

A policy is data with a version (D10): `{"version", "decide_within_s", "release_within_s", "grant_life_s", "step_up",
"require"}`. What is left out has the default below; an unknown name is refused, so that a misspelt limit cannot
silently be none.

People are asked (C-20, R-AP-03) when

1. the class is CRITICAL_MUTATION (R-AP-01), or
2. the effect is IRREVERSIBLE and the tool mutates at all (R-AP-02), or
3. the contract says approval_required, or
4. the contract is of an upper class and nothing can be read back (R-TC-07, C-43), or
5. a rule of the policy matches: `require` lists `{side_effect_class?, effect_domain?, tool?}`, and a rule matches when
   everything that it names does.

A policy can only add to 1 to 4, never take away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from jsonschema_rs import ValidationError

from ledger.rules import schemas
from ledger.rules.canonical import canonical, digest
from ledger.rules.contract import Contract
from ledger.rules.effects import UPPER_CLASSES, EffectDomain, Reversibility, SideEffectClass
from ledger.rules.refusals import Refused

_DAY = 24 * 3600
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["version"],
    "properties": {
        "version": {"type": "string", "pattern": "^[0-9A-Za-z][0-9A-Za-z.+-]{0,63}$"},
        "decide_within_s": {"type": "integer", "minimum": 1, "maximum": 30 * _DAY, "default": 4 * 3600},
        "release_within_s": {"type": "integer", "minimum": 1, "maximum": _DAY, "default": 15 * 60},
        "grant_life_s": {"type": "integer", "minimum": 60, "maximum": 300, "default": 120},
        "step_up": {"enum": ["A", "B", "C"], "default": "C"},
        "require": {
            "type": "array",
            "maxItems": 100,
            "default": [],
            "items": {
                "type": "object",
                "additionalProperties": False,
                "minProperties": 1,
                "properties": {
                    "side_effect_class": {"enum": [kind.value for kind in SideEffectClass]},
                    "effect_domain": {"enum": [domain.value for domain in EffectDomain]},
                    "tool": {"type": "string", "minLength": 1, "maxLength": 128},
                },
            },
        },
    },
}


class BadPolicy(Refused):
    """The approval policy is not valid."""

    code = "BAD_POLICY"
    status = 422


@dataclass(frozen=True)
class ApprovalPolicy:
    """A version of the approval policy. `digest` names the document as it was released."""

    version: str
    decide_within_s: int
    release_within_s: int
    grant_life_s: int
    step_up: str
    require: tuple[Mapping[str, str], ...]
    document: bytes
    digest: str

    def decide_by(self, *, requested_at: datetime) -> datetime:
        """When the request lapses if nobody decides."""
        return requested_at + timedelta(seconds=self.decide_within_s)

    def release_by(self, *, decided_at: datetime) -> datetime:
        """When an approval stops authorising anything (R-AP-08)."""
        return decided_at + timedelta(seconds=self.release_within_s)

    def grant_expiry(self, *, minted_at: datetime, release_by: datetime | None) -> datetime:
        """When a grant minted now ends: never after the approval that it rests on."""
        end = minted_at + timedelta(seconds=self.grant_life_s)
        return end if release_by is None else min(end, release_by)


@dataclass(frozen=True)
class Requirement:
    """Whether people are asked, and every reason why."""

    required: bool
    reasons: tuple[str, ...]


def parse(document: Mapping[str, Any]) -> ApprovalPolicy:
    """The policy in a document, or `BadPolicy` with every fault."""
    plain = dict(document)
    faults = [_fault(problem) for problem in schemas.compiled(_SCHEMA).iter_errors(plain)]
    if faults:
        raise BadPolicy(errors=faults)
    text = canonical(plain)
    values = {name: part["default"] for name, part in _SCHEMA["properties"].items() if "default" in part} | plain
    return ApprovalPolicy(
        version=values["version"],
        decide_within_s=values["decide_within_s"],
        release_within_s=values["release_within_s"],
        grant_life_s=values["grant_life_s"],
        step_up=values["step_up"],
        require=tuple(values["require"]),
        document=text,
        digest=digest(text),
    )


def requirement(contract: Contract, policy: ApprovalPolicy) -> Requirement:
    """Whether a call of this tool waits for people (rules 1 to 5)."""
    kind = contract.side_effect_class
    reasons = [
        reason
        for reason, holds in (
            ("CRITICAL_MUTATION", kind is SideEffectClass.CRITICAL_MUTATION),
            ("IRREVERSIBLE", contract.mutating and contract.reversibility is Reversibility.IRREVERSIBLE),
            ("CONTRACT", contract.approval_required),
            ("UNVERIFIABLE", kind in UPPER_CLASSES and not contract.verifiable),
        )
        if holds
    ]
    reasons += [f"POLICY_RULE_{index}" for index, rule in enumerate(policy.require, 1) if _matches(rule, contract)]
    return Requirement(bool(reasons), tuple(reasons))


def _matches(rule: Mapping[str, str], contract: Contract) -> bool:
    facts = {
        "side_effect_class": contract.side_effect_class.value,
        "effect_domain": contract.effect_domain.value,
        "tool": contract.name,
    }
    return all(facts[name] == value for name, value in rule.items())


def _fault(problem: ValidationError) -> dict[str, str]:
    path = "".join(f"/{part}" for part in problem.instance_path)
    return {"path": path, "code": "SCHEMA", "detail": problem.message[:300]}
