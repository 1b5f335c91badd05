"""Each declared write is made worse, and the table notices: without its proof, by the same person, or miswired."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from console.api.root import ROUTES
from console.edge.schemas import Body
from console.standing_approvals.verbs import WORD
from console.verbs.verb import FRESH, AnyVerb, Proof, Verb
from ledger.record.operations import Actor
from tests.support.admissions import FRESH_PROOF, SECOND_PERSON
from tests.support.probes import Day
from tests.support.signing import actor_of
from tests.web.writes.check import faults_of
from tests.web.writes.scenes import WRITES

TABLE = {each.operation: each for each in WRITES}


def declared() -> Mapping[str, AnyVerb]:
    """Every declared write by the id of its operation in the document."""
    return {
        operation.view_func.verb.operation_id or f"{prefix}_{operation.view_func.verb.name}": operation.view_func.verb
        for prefix, module in ROUTES.items()
        for path in module.router.path_operations.values()
        for operation in path.operations
        if hasattr(operation.view_func, "verb")
    }


def by_another(operation: Callable[..., Any], day: Day, role: str) -> Callable[..., Any]:
    """The operation where somebody else counts as having asked for it."""

    def carry_out(**given: Any) -> Any:
        return operation(**given | {"by": Actor("person", actor_of(day.shop.tenant, day.own[role]))})

    return carry_out


def takes(verb: AnyVerb) -> tuple[Any, ...]:
    return verb.ids, frozenset(verb.body.model_fields), verb.proof


def mutants() -> Iterator[Any]:
    """A verb, the attribute that is another one, and its worse value."""
    verbs = declared()
    for name, verb in verbs.items():
        if verb.proof is not None:
            proof = Proof(verb.proof.fact, {FRESH: lambda *_: True, WORD: lambda *_: "B"}[verb.proof])
            yield pytest.param(verb, name, "proof", proof, id=f"{name} without its proof")
        if name in SECOND_PERSON:
            yield pytest.param(verb, name, "operation", by_another, id=f"{name} by the same person")
        alike = [other for other, each in verbs.items() if verb is not each and verb.ids and takes(verb) == takes(each)]
        for other in alike:
            # One of them is tried each time; the table knows nothing of which.
            marks = () if other == alike[0] else pytest.mark.long
            yield pytest.param(
                verb, name, "operation", verbs[other].operation, id=f"{name} wired to {other}", marks=marks
            )


@pytest.mark.parametrize(("verb", "name", "attribute", "worse"), list(mutants()))
def test_a_weakened_write_is_detected(
    day: Day, monkeypatch: pytest.MonkeyPatch, verb: AnyVerb, name: str, attribute: str, worse: Any
):
    before = getattr(verb, attribute)
    made = worse(before, day, TABLE[name].role()) if worse is by_another else worse
    object.__setattr__(verb, attribute, made)
    try:
        assert faults_of(TABLE[name], day)
    finally:
        object.__setattr__(verb, attribute, before)


def test_every_declared_write_is_in_the_table():
    assert declared().keys() <= TABLE.keys()
    proven = {name for name, verb in declared().items() if verb.proof is not None}
    assert proven == FRESH_PROOF & declared().keys()


def test_a_declaration_that_does_not_match_its_operation_cannot_be_imported():
    fits = declared()["retention_lift_hold"]
    for wrong in ({"path": "/holds/{legal_hold_id}/lift"}, {"body": Body}, {"operation": lambda *, hold_id: None}):
        facts = {each: getattr(fits, each) for each in ("name", "path", "operation", "body", "roles", "answer")}
        with pytest.raises(TypeError, match="lift_hold"):
            Verb(**facts | wrong, summary="", done="")
