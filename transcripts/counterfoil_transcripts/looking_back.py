"""Compare a recorded change with its own answer and with later reads in the same conversation.

1. The tool's own answer is compared with the arguments, and the contract's predicates are evaluated over it. Both are
   marked `answer`: a tool that contradicts itself was not believed to be right, one that agrees proves nothing.
2. A later successful read is about the same thing where both calls name the same identifier and both tools the same
   kind of thing: what an order shows is not what a refund of it was to be. It is compared with what was asked, except
   for fields that a change in between has set again. These findings are marked `read`.
3. A difference or a predicate that is false contradicts the action. A read that agrees in at least one field, or shows
   every predicate true, and contradicts nothing, lets the action stand as seen.
4. After a deletion, a read of all that it named which still brings the thing, and does not call it deleted,
   contradicts it, and one that fails shows it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from counterfoil_transcripts import wording
from counterfoil_transcripts.acts import THE_THING, AuditedAct, PredicateResult
from counterfoil_transcripts.gating import AT
from counterfoil_transcripts.reading.notes import SystemReading
from ledger.catalogue.rules.contract import Contract
from ledger.catalogue.rules.fields import SETS, Field, FieldSource, compare_fields
from reviews.observations.rules import observe
from reviews.observations.rules.observe import ReportedStatus
from reviews.reconciliation.rules import predicates
from reviews.reconciliation.rules.reading import Consistency, ReadEffect, Reading, reading_bindings

MOST_LATER = 50
_GONE = re.compile(r"delet|remov|archiv|cancel|trash|gone|inactive", re.IGNORECASE)
_NAMES_IT = ("_id", "id", "number", "path", "file", "filename", "key", "email", "to", "name", "url", "ref")


@dataclass(eq=False)
class ChangeMemory:
    """The changes of one conversation, by the identifiers that they name."""

    _by_identifier: dict[str, list[AuditedAct]] = field(default_factory=dict)

    def answered(self, act: AuditedAct) -> list[AuditedAct]:
        """Note an answer; return the earlier changes that it concerns, including its own."""
        if act.mutating:
            return self._take_change(act)
        return self._take_read(act)

    def _take_change(self, act: AuditedAct) -> list[AuditedAct]:
        told = act.told
        if told is None or told.status in {ReportedStatus.FAILED, ReportedStatus.TIMEOUT, ReportedStatus.MALFORMED}:
            return []
        compare_with_answer(act)
        for one in named_identifiers(act.arguments):
            held = self._by_identifier.setdefault(one, [])
            held.append(act)
            del held[:-MOST_LATER]
        return [act]

    def _take_read(self, act: AuditedAct) -> list[AuditedAct]:
        told = act.told
        if told is None or told.status not in {ReportedStatus.SUCCESS, ReportedStatus.FAILED}:
            return []
        named = named_identifiers(act.arguments)
        touched: dict[int, AuditedAct] = {}
        for one in named:
            for change in self._by_identifier.get(one, ()):
                touched[change.number] = change
        found = [touched[number] for number in sorted(touched)]
        return [one for place, one in enumerate(found) if compare_with_read(one, act, found[place + 1 :], named)]


def named_identifiers(arguments: Mapping[str, Any]) -> frozenset[str]:
    """The identifiers in arguments, by the names of the arguments."""
    return wording.identifiers({name: value for name, value in arguments.items() if name.lower().endswith(_NAMES_IT)})


def compare_with_answer(act: AuditedAct) -> None:
    """Compare a change with its own answer (rule 1)."""
    if act.told is None:
        return
    act.answered_fields = compare_fields(act.arguments, contract=act.contract, answer=act.told.content)
    held = evaluate_predicates(act, act.told.content, where="answer")
    act.predicates.extend(held)
    act.contradicted = bool(act.differences) or any(one.holds == "FALSE" for one in held)


def compare_with_read(change: AuditedAct, act: AuditedAct, later: list[AuditedAct], named: frozenset[str]) -> bool:
    """Compare a change with a later read of the same object (rules 2 to 4); return True if that was evidence."""
    told = act.told
    if told is None or not _is_of_the_same_kind(change, act):
        return False
    if wording.verb_of(change.call.tool)[0] in wording.DELETES:
        return _after_deletion(change, act, named)
    if told.status is not ReportedStatus.SUCCESS:
        return False
    again = {name for one in later for name in one.arguments if one.told is not None}
    asked = {name: value for name, value in change.arguments.items() if name not in again}
    fields = compare_fields(asked, contract=change.contract, reading=told.content)
    held = evaluate_predicates(change, told.content, where="read")
    return _settle(change, act, fields, held, named)


def compare_with_system(change: AuditedAct, reading: SystemReading) -> None:
    """Compare a change with a hook's reading of the system after it, which outranks any answer."""
    change.contradicted = not reading.as_asked
    change.seen_by.clear()
    if reading.as_asked:
        change.seen_by.append(change.turn if change.answered_at is None else change.answered_at)
    else:
        change.read_fields[THE_THING] = Field(THE_THING, "as asked", reading.text, same=False, source=FieldSource.READ)


def _is_of_the_same_kind(change: AuditedAct, act: AuditedAct) -> bool:
    """Return whether two tools concern the same kind of object, by their names (rule 2)."""
    changed, shown = wording.things_of(change.call.tool), wording.things_of(act.call.tool)
    if wording.verb_of(change.call.tool)[0] in SETS:
        naming_it = (name for name in change.arguments if name.lower().endswith(_NAMES_IT))
        changed |= {word for name in naming_it for word in wording.words_of(name)}
    return not changed or not shown or bool(changed & shown)


def _settle(
    change: AuditedAct, act: AuditedAct, fields: tuple[Field, ...], held: list[PredicateResult], named: frozenset[str]
) -> bool:
    told = {one.name: one for one in fields if one.same is not None}
    change.read_fields = {**change.read_fields, **told}
    change.predicates = [one for one in change.predicates if one.where != "read"] + held
    wrong = any(one.differs for one in told.values()) or any(one.holds == "FALSE" for one in held)
    agrees = any(one.same and not wording.identifiers(one.asked) <= named for one in told.values())
    right = not wrong and (agrees or (bool(held) and all(one.holds == "TRUE" for one in held)))
    change.contradicted = wrong or (change.contradicted and not right)
    if wrong:
        change.seen_by.clear()
    elif right:
        change.seen_by.append(act.turn if act.answered_at is None else act.answered_at)
    return wrong or right


def _after_deletion(change: AuditedAct, act: AuditedAct, named: frozenset[str]) -> bool:
    told = act.told
    if told is None or change.told is None or change.told.status is not ReportedStatus.SUCCESS:
        return False
    if told.status is ReportedStatus.FAILED:
        change.seen_by.append(act.turn if act.answered_at is None else act.answered_at)
        return True
    gone = _GONE.search(str(told.content.get("status", ""))) if isinstance(told.content, Mapping) else None
    found = wording.identifiers(told.content, limit=200) if isinstance(told.content, Mapping) and gone is None else ()
    still = bool(named.intersection(found)) and named_identifiers(change.arguments) <= named
    if still:
        change.read_fields[THE_THING] = Field(THE_THING, "deleted", "still there", same=False, source=FieldSource.READ)
        change.contradicted = True
        change.seen_by.clear()
    return still


def evaluate_predicates(act: AuditedAct, content: object, *, where: str) -> list[PredicateResult]:
    """The contract's predicates over the shown values."""
    contract = act.contract
    if contract is None or not contract.predicates or not isinstance(content, Mapping):
        return []
    reading = _reading(contract, content, where)
    bindings: dict[str, Mapping[str, Any]] = {
        "si": {},
        "sr": _plain(act.arguments),
        "so": observe.observation_bindings(act.told.observation if act.told else None),
        "sa": reading_bindings(reading, contract.required_effects),
        "scope": {},
        "pre": {},
    }
    results = predicates.evaluate(
        reading,
        bindings=bindings,
        contract=contract.predicates,
        added=(),
        target_resource=act.verdict.target_resource,
    )
    return [
        PredicateResult(one.text, str(one.holds), where, one.reason, one.expected, one.actual)
        for one in results
        if one.origin is predicates.PredicateOrigin.CONTRACT
    ]


def _reading(contract: Contract, content: Mapping[str, Any], where: str) -> Reading:
    """Return the shown values in the form of a reading, with undeclared consistency, so that nothing can rest on it."""
    fields = _plain(content)
    wanted = contract.required_effects or (contract.operation_kind,)
    return Reading(
        source=f"recorded {where}",
        consistency=Consistency.UNDECLARED,
        freshness="recorded",
        observed_at=AT,
        pointer="",
        effects=tuple(ReadEffect(name=name, present=True, count=1, fields=fields) for name in wanted),
        target=fields,
        context=fields,
    )


def _plain(value: Any) -> Any:
    """The value without fractions, which predicates do not support: whole ones as integers, others as text."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 2**53 else repr(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value
