"""Finds in which ways a version of a contract is weaker than the one before.

A version is weaker where fewer approvals are needed, less is verified, more is accepted, or less can be undone.
A weaker version waits for a second person before any agent sees it. What only says the same in other words, or
asks for more, goes on as it is. Every field of a contract document is judged here or named in `HARMLESS`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ledger.catalogue.rules.contract import Contract, Verification
from ledger.catalogue.rules.effects import Boundary, EffectDomain, Reversibility
from ledger.catalogue.rules.remedies import Relation, Remedy
from ledger.catalogue.rules.widening import widenings as schema_widenings

HARMLESS: Final = {
    "name": "the versions that are compared have the same",
    "version": "says nothing of its own",
    "schema_version": "the form of the document",
    "wrapper_version": "an executor names its own, and the grant is bound to the contract's digest",
    "description": "words for the model; the linter reads them",
    "next_tools": "a hint to the model; each of them is gated by its own contract",
    "formerly": "old names, which stay refused",
    "approval.decide_within_s": "how long people have; whoever decides late is asked again",
    "approval.prepare_within_s": "people are asked all the same, with an unknown state before",
    "verification.polling.first_after_s": "when it is read first; it is read until the end of its time",
    "verification.polling.backoff": "how often it is read until then",
    "verification.polling.max_interval_s": "how often it is read until then",
}
"""Fields whose change weakens nothing, and why."""

_GRADES: Final = ("LOW", "MODERATE", "HIGH")


@dataclass(frozen=True)
class Weakening:
    """One way in which a version is weaker: a stable code, the place in the document, and what a person reads."""

    code: str
    path: str
    text: str


def weakenings(before: Contract, after: Contract) -> tuple[Weakening, ...]:
    """Every way in which `after` is weaker than `before`; defaults are filled in on both sides."""
    old, new = json.loads(before.document), json.loads(after.document)
    return tuple(
        Weakening(code, path, text)
        for part in (
            _effects(before, after),
            _identity(before, after),
            _asking(before, after),
            _preparation(before, after, old.get("approval", {}), new.get("approval", {})),
            _grades(old, new),
            _arguments(before, after),
            _verification(before, after),
            _recovery(before, after),
            _claims(before, after),
            _answers(before, after),
            _origin(before, after),
            _dry_run(before, after),
            _preview(before, after),
        )
        for code, path, text in part
    )


RawWeakenings = Iterator[tuple[str, str, str]]


def _effects(before: Contract, after: Contract) -> RawWeakenings:
    if after.side_effect_class.rank < before.side_effect_class.rank:
        said = f"Its class falls from {before.side_effect_class} to {after.side_effect_class}."
        yield "CLASS_LOWERED", "/side_effect_class", said
    order = list(Reversibility)
    if order.index(after.reversibility) < order.index(before.reversibility):
        said = f"It is said to be {after.reversibility}, was {before.reversibility}."
        yield "REVERSIBILITY_RAISED", "/reversibility", said
    if after.transaction_boundary is not before.transaction_boundary and not _says_less(after.transaction_boundary):
        said = f"Its transaction boundary is {after.transaction_boundary}, was {before.transaction_boundary}."
        yield "BOUNDARY_CHANGED", "/transaction_boundary", said
    if after.effect_domain is not before.effect_domain and before.effect_domain is not EffectDomain.OTHER:
        said = f"What it would hurt is {after.effect_domain}, was {before.effect_domain}."
        yield "DOMAIN_CHANGED", "/effect_domain", said
    if before.pivot and not after.pivot:
        yield "PIVOT_DROPPED", "/pivot", "It is no longer a step that cannot be taken back."
    if before.externally_visible and not after.externally_visible:
        yield "VISIBILITY_DROPPED", "/externally_visible", "Its effect is no longer said to be seen outside."


def _identity(before: Contract, after: Contract) -> RawWeakenings:
    if before.target_template != after.target_template:
        said = f"What it is about is `{after.target_template}`, was `{before.target_template}`."
        yield "TARGET_CHANGED", "/target_resource", said
    if before.operation_kind != after.operation_kind:
        said = f"Its operation is `{after.operation_kind}`, was `{before.operation_kind}`: repeats are told by it."
        yield "OPERATION_CHANGED", "/operation_kind", said


def _says_less(boundary: Boundary) -> bool:
    """Return True if nothing can be rolled back under this boundary."""
    return boundary is Boundary.UNKNOWN_BOUNDARY


def _asking(before: Contract, after: Contract) -> RawWeakenings:
    if before.approval_required and not after.approval_required:
        yield "APPROVAL_DROPPED", "/approval_required", "People are no longer asked whatever the policy says."
    if not before.unverifiable_acknowledged and after.unverifiable_acknowledged:
        said = "It is taken as one that cannot be read back."
        yield "UNVERIFIABLE", "/unverifiable_acknowledged", said
    if before.based_on.required and not after.based_on.required:
        yield "BASIS_DROPPED", "/based_on/required", "A call need not name the read that it rests on."
    if _is_longer(before.based_on.max_age_s, after.based_on.max_age_s):
        said = f"A read may be {_seconds(after.based_on.max_age_s)} old, was {_seconds(before.based_on.max_age_s)}."
        yield "BASIS_OLDER", "/based_on/max_age_s", said


def _preparation(before: Contract, after: Contract, old: Mapping[str, Any], new: Mapping[str, Any]) -> RawWeakenings:
    ready, then = before.preparation, after.preparation
    if ready.baseline and not then.baseline:
        yield "BASELINE_DROPPED", "/approval/baseline", "The target is no longer read before people are asked."
    for condition in old.get("preflight", ()):
        if condition not in new.get("preflight", ()):
            yield "PREFLIGHT_DROPPED", "/approval/preflight", f"No longer checked before: {_plainly(condition)}."
    added = [each for each in then.volatile if each not in ready.volatile]
    if added:
        said = f"A change of {', '.join(added)} no longer counts as drift."
        yield "DRIFT_IGNORED", "/approval/volatile", said
    if ready.blast_radius and (
        ready.blast_radius != then.blast_radius or _is_longer(ready.high_above, then.high_above)
    ):
        yield "RADIUS_LOOSENED", "/approval/blast_radius", "How much it touches weighs less, or is no longer counted."


def _grades(old: Mapping[str, Any], new: Mapping[str, Any]) -> RawWeakenings:
    for name in ("data_sensitivity", "cost", "user_impact"):
        was, now = old.get(name, "LOW"), new.get(name, "LOW")
        if _GRADES.index(now) < _GRADES.index(was):
            yield "GRADE_LOWERED", f"/{name}", f"Its {name.replace('_', ' ')} is {now}, was {was}: less is checked."


def _arguments(before: Contract, after: Contract) -> RawWeakenings:
    for path, what in schema_widenings(before.arguments_schema, after.arguments_schema, "/arguments_schema"):
        yield "ARGUMENTS_WIDER", path, f"It takes more than before: {what}."
    for path, what in schema_widenings(before.result_schema, after.result_schema, "/result_schema"):
        yield "RESULT_WIDER", path, f"More passes as its answer: {what}."
    if after.coerces and not before.coerces:
        yield "COERCES", "/coercion", "It takes a value in another type that says the same."


def _verification(before: Contract, after: Contract) -> RawWeakenings:
    if after.no_op_success_allowed and not before.no_op_success_allowed:
        yield "NO_OP_ALLOWED", "/no_op_success_allowed", "It counts as done where nothing had to be done."
    new_errors = [each for each in after.stale_errors if each not in before.stale_errors]
    if new_errors:
        yield "ERRORS_EXCUSED", "/stale_errors", f"Its error {', '.join(new_errors)} counts as a target that moved on."
    for effect in before.required_effects:
        if effect not in after.required_effects:
            yield "EFFECT_DROPPED", "/required_effects", f"The effect `{effect}` is no longer required."
    if before.verification is None:
        return
    if after.verification is None:
        yield "READBACK_DROPPED", "/verification", "Its effect is no longer read back."
        return
    yield from _readback(before.verification, after.verification)
    yield from _timing(before.verification, after.verification)


def _readback(old: Verification, new: Verification) -> RawWeakenings:
    for predicate in old.predicates:
        if predicate not in new.predicates:
            yield "PREDICATE_DROPPED", "/verification/predicates", f"No longer checked: `{predicate}`."
    if (old.pattern, old.system) != (new.pattern, new.system):
        said = f"It is read back in {new.system} ({new.pattern}), was {old.system} ({old.pattern})."
        yield "SOURCE_CHANGED", "/verification/system", said
    yield from _sources(old, new)
    # How a record is found, and what counts as fresh, decides what a reading can show: any change is looked at.
    for part in ("lookup", "root", "fresh_after", "allow_extensions"):
        if old.document.get(part) != new.document.get(part):
            yield "LOOKUP_CHANGED", f"/verification/{part}", f"What is read back has changed: `{part}`."
    if old.document.get("baseline") and not new.document.get("baseline"):
        yield "BASELINE_DROPPED", "/verification/baseline", "The state before is no longer read."
    yield from _checks(old.document.get("checks", {}), new.document.get("checks", {}))


def _sources(old: Verification, new: Verification) -> RawWeakenings:
    for name in old.sources:
        if name not in new.sources:
            yield "SOURCE_DROPPED", "/verification/sources", f"The source `{name}` is gone."
    further = {each.name: each.document for each in new.further}
    for source in old.further:
        if source.name not in further:
            yield "SOURCE_DROPPED", "/verification/sources", f"The further source `{source.name}` is gone."
        elif further[source.name] != source.document:
            yield "SOURCE_CHANGED", "/verification/sources", f"The further source `{source.name}` is read otherwise."


def _checks(old: Mapping[str, Any], new: Mapping[str, Any]) -> RawWeakenings:
    for check in sorted(old.keys() | new.keys()):
        was, now = old.get(check), new.get(check)
        if was == now:
            continue
        path = f"/verification/checks/{check}"
        if now is not None and "not_applicable" in now:
            yield "CHECK_WAIVED", path, f"The check `{check}` is said not to apply: {now['not_applicable']}."
        elif was is not None and "by" in was:
            yield "CHECK_CHANGED", path, f"The check `{check}` is made by something else."


def _timing(old: Verification, new: Verification) -> RawWeakenings:
    if new.settle_s < old.settle_s:
        said = f"Late effects are waited for {new.settle_s} s, was {old.settle_s} s."
        yield "SETTLE_SHORTER", "/verification/settle_s", said
    was, now = old.document.get("timeout_s"), new.document.get("timeout_s")
    if was is not None and (now is None or now < was):
        yield "TIMEOUT_SHORTER", "/verification/timeout_s", f"A reading may take {_seconds(now)}, was {_seconds(was)}."
    if new.polling.sla_s < old.polling.sla_s:
        said = f"It is read for at most {new.polling.sla_s} s, was {old.polling.sla_s} s."
        yield "HORIZON_SHORTER", "/verification/polling/sla_s", said
    for after in old.recheck_after:
        if not any(each >= after for each in new.recheck_after):
            said = f"It is no longer read again after {int(after.total_seconds())} s."
            yield "RECHECK_DROPPED", "/verification/recheck_after", said


def _recovery(before: Contract, after: Contract) -> RawWeakenings:
    old, new = before.recovery, after.recovery
    places: list[tuple[str | None, Relation, Remedy]] = [(None, *each) for each in old.whole.items()]
    places += [(effect, relation, remedy) for effect, part in old.effects.items() for relation, remedy in part.items()]
    for effect, relation, remedy in places:
        now = new.remedy(relation, effect)
        of = f" of `{effect}`" if effect else ""
        if now is None:
            yield "REMEDY_DROPPED", "/recovery", f"The {relation}{of} by {remedy.tool} is gone."
        elif now != remedy:
            said = f"The {relation}{of} is {now.tool}, with other arguments or instead of {remedy.tool}."
            yield "REMEDY_CHANGED", "/recovery", said
    for kind, remedy in old.corrections.items():
        replaced = new.corrections.get(kind)
        if replaced is None:
            yield "REMEDY_DROPPED", "/recovery/corrections", f"The correction of a {kind} by {remedy.tool} is gone."
        elif replaced != remedy:
            said = f"The correction of a {kind} is {replaced.tool}, with other arguments or instead of {remedy.tool}."
            yield "REMEDY_CHANGED", "/recovery/corrections", said
    if new.idempotent and not old.idempotent:
        yield "SENT_AGAIN", "/recovery/idempotent", "It may be sent again unchanged."
    if new.safe_without_effect and not old.safe_without_effect:
        said = "Its compensation is said to do nothing where nothing was done."
        yield "SAFE_WITHOUT_EFFECT", "/recovery/safe_without_effect", said


def _claims(before: Contract, after: Contract) -> RawWeakenings:
    old, new = before.claims, after.claims
    conditions = {(word, each.when) for each in new.sayings for word in each.words}
    lost = [word for each in old.sayings for word in each.words if (word, each.when) not in conditions]
    if lost:
        yield (
            "CLAIMS_DROPPED",
            "/claims/sayings",
            f"The condition on these words has changed or gone: {', '.join(lost)}.",
        )
    retold = [template for language, template in before.report if dict(after.report).get(language) != template]
    if retold:
        yield "REPORT_CHANGED", "/report", f"A receipt no longer says: {' '.join(retold)}"
    gone = [each for each in (*old.done, *old.object) if each not in (*new.done, *new.object)]
    if gone:
        yield "CLAIMS_DROPPED", "/claims", f"A claim in these words is no longer recognised: {', '.join(gone)}."


def _answers(before: Contract, after: Contract) -> RawWeakenings:
    """Return fields of the answer with which an argument is no longer compared."""
    for name in sorted({*before.answers, *after.answers}):
        was, now = before.answers.get(name), after.answers.get(name)
        if was is not None and now != was:
            yield (
                "ANSWER_DROPPED",
                f"/answers/{name}",
                f"`{name}` is no longer compared with the answer's `{was.path}`.",
            )
        elif name not in before.answers and now is None:
            yield "ANSWER_DROPPED", f"/answers/{name}", f"`{name}` is no longer compared with the answer's field."


def _origin(before: Contract, after: Contract) -> RawWeakenings:
    """Return the tenant or source that an answer no longer has to name."""
    for name, named in before.answer_origin.items():
        if after.answer_origin.get(name) != named:
            said = f"An answer no longer has to name `{named.expected}` as its {name}, at `{named.path}`."
            yield "ORIGIN_UNCHECKED", f"/answer_origin/{name}", said


def _dry_run(before: Contract, after: Contract) -> RawWeakenings:
    """A lookup that is no longer tried before its contract is registered."""
    if before.dry_run and not after.dry_run:
        yield "DRY_RUN_DROPPED", "/dry_run", "Its lookup is no longer tried before it is registered."


def _preview(before: Contract, after: Contract) -> RawWeakenings:
    """Parts of the target no longer shown before approval."""
    told = {(field.read, field.label) for field in after.preview.fields}
    gone = [field.label for field in before.preview.fields if (field.read, field.label) not in told]
    gone += [lost for lost in before.preview.lost if lost not in after.preview.lost]
    if gone:
        yield "PREVIEW_DROPPED", "/preview", f"People are no longer shown before they approve: {', '.join(gone)}"


def _is_longer(was: int | None, now: int | None) -> bool:
    return was is not None and (now is None or now > was)


def _seconds(value: int | None) -> str:
    return "any time" if value is None else f"{value} s"


def _plainly(condition: Any) -> str:
    return f"`{condition['holds'] if isinstance(condition, dict) else condition}`"
