"""Verification depth: the checks that an action's class requires, and the part of its contract that covers each
(R-VD-01 to R-VD-10).

1. Each class requires its checks (`side_effect_classes.json`). HIGH data sensitivity, cost or user impact, and
   irreversibility, add the checks of the next class; nothing takes any away (R-VD-07). Only a CRITICAL_MUTATION is
   verified like one: its depth is more than a list of checks.
2. A check is covered by something that a run can show: predicates, the scope that the lookup declares, a strong
   reading, the effects themselves, the state before, the record. What a contract's words do not show is declared in
   `verification.checks`: the predicates that do it, or why it does not apply. Without a declaration, a check counts as
   not made.
3. Where the class demands every check, or an input is HIGH, a check that nothing covers makes success impossible. The
   contract is linted for it, and its runs end undecided.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from typing import Any

from ledger.catalogue.rules.effects import DEFAULT_REVERSIBILITY, UPPER_CLASSES, Reversibility, SideEffectClass

_C = SideEffectClass
_CLASSES = json.loads(files("ledger.catalogue.rules").joinpath("side_effect_classes.json").read_bytes())["classes"]
REQUIRED: dict[SideEffectClass, tuple[str, ...]] = {
    SideEffectClass(name): tuple(row["required_checks"]) for name, row in _CLASSES.items()
}
DEMANDING = frozenset(SideEffectClass(name) for name, row in _CLASSES.items() if row["demands_every_check"])
REVIEW_TRIGGERS: dict[SideEffectClass, tuple[str, ...]] = {
    SideEffectClass(name): tuple(row["review_triggers"]) for name, row in _CLASSES.items()
}
INPUTS = ("data_sensitivity", "cost", "user_impact")
_DEEPER = {
    _C.EPHEMERAL_WRITE: _C.LOW_RISK_INTERNAL,
    _C.LOW_RISK_INTERNAL: _C.MEDIUM_RISK_WRITE,
    _C.MEDIUM_RISK_WRITE: _C.HIGH_RISK_EXTERNAL,
}


class CheckEvidence(StrEnum):
    """The kind of evidence that shows that a check was made."""

    PREDICATES = "PREDICATES"
    SCOPE = "SCOPE"
    STRONG_READ = "STRONG_READ"
    EFFECTS = "EFFECTS"
    INTEGRITY = "INTEGRITY"
    BEFORE = "BEFORE"
    SETTLED = "SETTLED"
    SOURCES = "SOURCES"
    APPROVAL = "APPROVAL"
    POLICIES = "POLICIES"
    ENTRY = "ENTRY"
    NOT_APPLICABLE = "NOT_APPLICABLE"
    NOTHING = "NOTHING"


@dataclass(frozen=True)
class CheckRequirement:
    """One required check and its cover: predicates by their text, a kind of scope, or the reason why it
    does not apply.
    """

    check: str
    by: CheckEvidence
    texts: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class VerificationDepth:
    """The checks that an action of a contract requires, and which inputs of the contract demand them."""

    level: SideEffectClass
    demanding: bool
    because: tuple[str, ...]
    requirements: tuple[CheckRequirement, ...]

    @property
    def uncovered(self) -> tuple[str, ...]:
        """Return the required checks that nothing in the contract covers."""
        return tuple(one.check for one in self.requirements if one.by is CheckEvidence.NOTHING)


def verification_depth(document: Mapping[str, Any]) -> VerificationDepth:
    """The depth of a contract document of the right shape."""
    kind = SideEffectClass(document["side_effect_class"])
    high = [name for name in INPUTS if document.get(name) == "HIGH"]
    reversibility = document.get("reversibility", DEFAULT_REVERSIBILITY[kind])
    lasting = reversibility == Reversibility.IRREVERSIBLE and kind in (_C.EPHEMERAL_WRITE, _C.LOW_RISK_INTERNAL)
    level = _DEEPER.get(kind, kind) if high or lasting else kind
    names = dict.fromkeys([*REQUIRED[kind], *REQUIRED[level]])
    part = document.get("verification")
    covered = () if part is None else tuple(_check_requirement(name, document, part) for name in names)
    because = (*(f"{name} is HIGH" for name in high), *(("it is irreversible",) if lasting else ()))
    return VerificationDepth(level, kind in DEMANDING or bool(high), because, covered)


def _check_requirement(name: str, document: Mapping[str, Any], part: Mapping[str, Any]) -> CheckRequirement:
    said = part.get("checks", {}).get(name)
    if said is not None and "not_applicable" in said:
        return CheckRequirement(name, CheckEvidence.NOT_APPLICABLE, note=said["not_applicable"])
    if said is not None:
        return CheckRequirement(name, CheckEvidence.PREDICATES, texts=tuple(said["by"]))
    return _COVERS[name](name, document, part) or CheckRequirement(name, CheckEvidence.NOTHING, note=_MISSING[name])


Cover = Callable[[str, Mapping[str, Any], Mapping[str, Any]], CheckRequirement | None]


def _always(by: CheckEvidence) -> Cover:
    return lambda name, document, part: CheckRequirement(name, by)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)


def _names(value: Any) -> Iterator[str]:
    """The names declared by a lookup, without those that it compares with."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield name
            yield from _names(each)


def _about(words: str) -> Cover:
    """Return predicates on a field whose name contains one of these words."""
    field = re.compile(rf"\bsa(?:\.\w+)*\.\w*(?:{words})", re.ASCII | re.IGNORECASE)

    def cover(name: str, document: Mapping[str, Any], part: Mapping[str, Any]) -> CheckRequirement | None:
        found = tuple(text for text in part["predicates"] if field.search(text))
        return CheckRequirement(name, CheckEvidence.PREDICATES, texts=found) if found else None

    return cover


def _first_cover(*covers: Cover) -> Cover:
    def cover(name: str, document: Mapping[str, Any], part: Mapping[str, Any]) -> CheckRequirement | None:
        return next((found for one in covers if (found := one(name, document, part)) is not None), None)

    return cover


def _scope(kind: str) -> Cover:
    def cover(name: str, document: Mapping[str, Any], part: Mapping[str, Any]) -> CheckRequirement | None:
        declared = any(one.startswith(f"{kind}_") for one in _names(part.get("lookup", {})))
        return CheckRequirement(name, CheckEvidence.SCOPE, texts=(kind,)) if declared else None

    return cover


def _all_predicates(name: str, document: Mapping[str, Any], part: Mapping[str, Any]) -> CheckRequirement | None:
    comparing = tuple(text for text in part["predicates"] if "sa." in text)
    return CheckRequirement(name, CheckEvidence.PREDICATES, texts=comparing) if comparing else None


def _cover_request(name: str, document: Mapping[str, Any], part: Mapping[str, Any]) -> CheckRequirement | None:
    if not document["arguments_schema"].get("properties"):
        return CheckRequirement(name, CheckEvidence.NOT_APPLICABLE, note="The tool takes no arguments.")
    comparing = tuple(text for text in part["predicates"] if "sr." in text)
    if comparing:
        return CheckRequirement(name, CheckEvidence.PREDICATES, texts=comparing)
    asked = any("sr." in text for text in _texts(part.get("lookup", {})))
    return CheckRequirement(name, CheckEvidence.EFFECTS, note="The lookup is made of the request.") if asked else None


def _in_files(by: CheckEvidence) -> Cover:
    def cover(name: str, document: Mapping[str, Any], part: Mapping[str, Any]) -> CheckRequirement:
        if part["pattern"] != "filesystems":
            return CheckRequirement(name, CheckEvidence.NOT_APPLICABLE, note="The tool writes no file.")
        return CheckRequirement(name, by)

    return cover


def _cover_absence(name: str, document: Mapping[str, Any], part: Mapping[str, Any]) -> CheckRequirement | None:
    effects = part.get("lookup", {}).get("effects", {})
    gone = bool(effects) and all(isinstance(one, Mapping) and one.get("expect") == "absent" for one in effects.values())
    return CheckRequirement(name, CheckEvidence.NOT_APPLICABLE, note="The thing is to be gone.") if gone else None


def _cover_version(name: str, document: Mapping[str, Any], part: Mapping[str, Any]) -> CheckRequirement | None:
    declared = any(one in ("version_column", "sequence_field") for one in _names(part.get("lookup", {})))
    return (
        CheckRequirement(name, CheckEvidence.INTEGRITY, note="The declared version must move on.") if declared else None
    )


def _cover_state_before(name: str, document: Mapping[str, Any], part: Mapping[str, Any]) -> CheckRequirement | None:
    speaks = any("pre." in text for text in _texts([part["predicates"], part.get("lookup", {})]))
    return CheckRequirement(name, CheckEvidence.BEFORE) if speaks or part.get("baseline") is True else None


def _cover_audit(name: str, document: Mapping[str, Any], part: Mapping[str, Any]) -> CheckRequirement | None:
    found = tuple(text for text in part["predicates"] if "sa.audit" in text)
    return CheckRequirement(name, CheckEvidence.PREDICATES, texts=found) if found else None


def _downstream(name: str, document: Mapping[str, Any], part: Mapping[str, Any]) -> CheckRequirement:
    if {"group", "downstream", "dead_letter"} & set(_names(part.get("lookup", {}))):
        return CheckRequirement(name, CheckEvidence.SETTLED)
    return CheckRequirement(name, CheckEvidence.NOT_APPLICABLE, note="The lookup names no system downstream.")


def _cover_delivery(name: str, document: Mapping[str, Any], part: Mapping[str, Any]) -> CheckRequirement | None:
    telling = part["pattern"] in ("email", "payments", "queues", "queues_events", "deployments")
    return (
        CheckRequirement(name, CheckEvidence.SETTLED, note="The check tells what is still on its way.")
        if telling
        else None
    )


def _worth(name: str, document: Mapping[str, Any], part: Mapping[str, Any]) -> CheckRequirement | None:
    arguments = document["arguments_schema"].get("properties", {})
    if any(re.search(_AMOUNT, argument, re.IGNORECASE) for argument in arguments):
        return None
    return CheckRequirement(name, CheckEvidence.NOT_APPLICABLE, note="The request names no amount.")


def _cover_target(name: str, document: Mapping[str, Any], part: Mapping[str, Any]) -> CheckRequirement | None:
    named = re.findall(r"\{(\w+)\}", document["target_resource"])
    found = tuple(text for text in part["predicates"] if any(f"sr.{one}" in text for one in named))
    if found:
        return CheckRequirement(name, CheckEvidence.PREDICATES, texts=found)
    looked = any(f"sr.{one}" in text for one in named for text in _texts(part.get("lookup", {}).get("effects", {})))
    return CheckRequirement(name, CheckEvidence.EFFECTS, note="The lookup names the target.") if looked else None


def _cover_key(name: str, document: Mapping[str, Any], part: Mapping[str, Any]) -> CheckRequirement | None:
    known = re.compile(r"\bscope\.(idempotency_key|action_id|trace_id)\b")
    if any(known.search(text) for text in _texts(part.get("lookup", {}))):
        return CheckRequirement(name, CheckEvidence.EFFECTS, note="The lookup finds it by the key.")
    found = tuple(text for text in part["predicates"] if known.search(text))
    return CheckRequirement(name, CheckEvidence.PREDICATES, texts=found) if found else None


def _visible(name: str, document: Mapping[str, Any], part: Mapping[str, Any]) -> CheckRequirement | None:
    kind = SideEffectClass(document["side_effect_class"])
    if not document.get("externally_visible", kind in UPPER_CLASSES):
        return CheckRequirement(name, CheckEvidence.NOT_APPLICABLE, note="Nothing of it is visible outside.")
    return _all_predicates(name, document, part)


_AMOUNT = r"amount|price|total|quantity|value|sum$"
_PEOPLE = r"actor|author|assignee|organi[sz]er|owner|requester|approver|updated_by|created_by|user|principal"
_COVERS: dict[str, Cover] = {
    "request_parameters_confirmed": _cover_request,
    "tenant_scope_confirmed": _first_cover(_scope("tenant"), _about("tenant")),
    "source_identity_confirmed": _always(CheckEvidence.STRONG_READ),
    "response_integrity_confirmed": _always(CheckEvidence.INTEGRITY),
    "sandbox_path_confirmed": _in_files(CheckEvidence.INTEGRITY),
    "file_exists": _in_files(CheckEvidence.EFFECTS),
    "size_or_hash_matches": _first_cover(_about("sha256|size|hash|digest"), _cover_absence),
    "no_sandbox_escape": _in_files(CheckEvidence.INTEGRITY),
    "read_after_write_from_source_of_record": _always(CheckEvidence.STRONG_READ),
    "row_or_object_id": _always(CheckEvidence.EFFECTS),
    "tenant_id": _first_cover(_scope("tenant"), _about("tenant")),
    "version": _first_cover(_cover_version, _about("version|etag|revision|sequence")),
    "actor": _first_cover(_about(_PEOPLE), _cover_audit),
    "changed_fields": _first_cover(_all_predicates),
    "before_after_diff": _cover_state_before,
    "workflow_status": _about("status|state|phase|stage"),
    "audit_actor": _first_cover(_cover_audit, _about(_PEOPLE)),
    "downstream_queue_state_if_applicable": _downstream,
    "provider_transaction_id": _always(CheckEvidence.EFFECTS),
    "delivery_status": _first_cover(_about("status|state|deliver|sent|acknowledged|settled"), _cover_delivery),
    "recipient_or_target": _first_cover(_scope("target"), _cover_target, _about("recipient|account|to$")),
    "amount": _first_cover(_worth, _about(_AMOUNT)),
    "idempotency_key": _cover_key,
    "externally_visible_state": _visible,
    "multi_source_reconciliation": _always(CheckEvidence.SOURCES),
    "approval_verified": _always(CheckEvidence.APPROVAL),
    "policy_version_checked": _always(CheckEvidence.POLICIES),
    "audit_ledger_entry_present": _always(CheckEvidence.ENTRY),
    "post_action_verification": _always(CheckEvidence.STRONG_READ),
}
_MISSING: dict[str, str] = dict.fromkeys(_COVERS, "No predicate speaks of it.") | {
    "tenant_scope_confirmed": "The lookup declares no tenant, and no predicate speaks of one.",
    "tenant_id": "The lookup declares no tenant, and no predicate speaks of one.",
    "version": "The lookup declares no version, and no predicate speaks of one.",
    "before_after_diff": "Neither lookup nor predicates compare with the state before.",
    "idempotency_key": "Neither lookup nor predicates speak of the idempotency key, the action or the trace.",
    "recipient_or_target": "The lookup declares no target, and no predicate compares one.",
}
CHECKS: tuple[str, ...] = tuple(_COVERS)
"""Every check that some class requires."""
