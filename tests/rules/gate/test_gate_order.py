"""The order of the gate's steps: what each says, and that of two which would refuse the earlier is the answer."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest

from approvals.gate.rules import gate, stale_reads
from approvals.gate.rules.gate import CallerContext, GateVerdict, Proposal, Step, TargetContext
from ledger.catalogue.rules.effects import SideEffectClass
from tests.rules.gate.test_gate import CALL, CLEAR, NOW, REFUND, STANDING, compiles

Scene = tuple[Proposal, CallerContext, TargetContext]
CRITICAL = replace(REFUND, side_effect_class=SideEffectClass.CRITICAL_MUTATION)
READ = {"resource": "order/17", "read_at": (NOW - timedelta(seconds=9)).isoformat()}


def change(*, call=None, standing=None, around=None):
    """What is changed of a call that passes, of who makes it, and of what surrounds its target."""

    def spoil(scene: Scene) -> Scene:
        return (
            replace(scene[0], **(call or {})),
            replace(scene[1], **(standing or {})),
            replace(scene[2], **(around or {})),
        )

    return spoil


# What each step alone refuses; the tenant's policies are in tests/web/gate/test_gate.py.
REFUSED_BY = {
    Step.IDENTITY: change(standing={"registered": False}),
    Step.ITERATIONS: change(standing={"forced_out": True}),
    Step.PIN: change(call={"goal": "Refund order 18"}),
    Step.TOOL: change(call={"fault": "It is no object."}),
    Step.GOAL: change(call={"pin_hash": None}),
    Step.TRACE: change(standing={"traced": False, "disclosed": {**STANDING.disclosed, "issue_refund": CRITICAL}}),
    Step.ARGUMENTS: change(call={"arguments": {"order_id": "17"}}),
    Step.UNWINDING: change(around={"unwinding": True}),
    Step.PIVOT: change(around={"after_pivot": True}),
    Step.DEPENDENCIES: change(call={"depends_on": ("a-9",)}),
    Step.SUPERSEDED: change(call={"supersedes": "a-8"}),
    Step.FREEZES: change(around={"freezes": (("tenant", ""),)}),
    Step.DUPLICATE: change(around={"open_twin": "a-7"}),
    Step.UNOBSERVED: change(around={"unobserved": (("a-6", "EXECUTING"),)}),
    Step.FAILED_STEPS: change(around={"failed": ("a-5",)}),
    Step.READS: change(
        call={"based_on": stale_reads.parse_reads([READ])},
        around={"changes": {"order/17": (stale_reads.ResourceChange(what="an action is at work"),)}},
    ),
}


def judge(*steps: Step) -> GateVerdict:
    """The verdict on a call that all these steps would refuse."""
    scene: Scene = (CALL, STANDING, CLEAR)
    for step in steps:
        scene = REFUSED_BY[step](scene)
    call, standing, around = scene
    verdict = gate.check_call(call, standing, compile_predicate=compiles, at=NOW)
    return gate.check_preconditions(verdict, call, around, at=NOW)


def said(verdict: GateVerdict) -> tuple[bool, str, str]:
    return verdict.accepted, verdict.code, verdict.message


def test_the_steps_of_the_gate_have_this_order():
    assert [f"{step.name}: {step.value}" for step in Step] == [
        "IDENTITY: The agent is registered, not revoked, its entry unaltered, and the session is open (R-TG-08, C-12).",
        "ITERATIONS: The run has calls left, refused ones counted, and was not forced to end (R-MC-23, R-FB-06).",
        "PIN: The pin lives, and what the call restates is the pinned goal (R-PA-05, R-PA-06).",
        "TOOL: The tool exists, is disclosed and stands in the sealed entry of the agent (R-TG-02, R-TG-10, R-MC-22).",
        "GOAL: A mutating call restates the goal or its hash (R-PA-08).",
        "TRACE: A CRITICAL_MUTATION comes with the trace of its agent, which level 4 needs (R-VD-15, R-OB-08).",
        "ARGUMENTS: The arguments fit the contract, name the claimed target, and added predicates compile (D13).",
        "UNWINDING: The run is not being taken back.",
        "PIVOT: After the run's pivot the tool may be sent again unchanged (R-RP-40).",
        "DEPENDENCIES: What the call depends on is a settled success, or its failure was acknowledged (R-EX-20).",
        "SUPERSEDED: What the call stands in for has failed, and is the same key's.",
        "FREEZES: Nothing is frozen that the call touches (R-EX-15).",
        "DUPLICATE: The same mutation is not open (R-EX-08).",
        "UNOBSERVED: No step of the run on this target is unobserved (R-PL-13).",
        "FAILED_STEPS: No failed step of the run is unacknowledged (R-PL-14).",
        "READS: What the call says that it is based on still holds (R-TC-16).",
        "AUTONOMY: The call lies inside the autonomy boundary in force.",
        "APPROVAL_POLICY: No rule of the approval policy refuses it, and its agent has not too many waiting (B38).",
        "BUDGETS: Agent and session have budget left; charged last, so that what is refused has cost nothing.",
    ]


def test_every_step_belongs_to_the_caller_the_target_or_the_policies():
    policies = (Step.AUTONOMY, Step.APPROVAL_POLICY, Step.BUDGETS)

    assert (*gate.CALLER_STEPS, *gate.TARGET_STEPS, *policies) == tuple(Step)
    assert (*REFUSED_BY, *policies) == tuple(Step)


def test_a_valid_call_is_accepted():
    assert judge().accepted


@pytest.mark.parametrize("step", REFUSED_BY)
def test_each_step_refuses_with_its_own_message(step: Step):
    others = {said(judge(other)) for other in REFUSED_BY if other is not step}

    assert not judge(step).accepted
    assert said(judge(step)) not in others


@pytest.mark.parametrize(("earlier", "later"), [*pairwise(REFUSED_BY)], ids=lambda step: step.name)
def test_the_first_refusing_step_answers(earlier: Step, later: Step):
    assert said(judge(later, earlier)) == said(judge(earlier))
