"""The gate over recorded calls: the same `judge` and `clear` as for a live session, without a database.

1. The conversation is the session: its first request is the pinned goal, its tools are the disclosed ones. A recording
   restates no goal, so the pin itself is not at stake here.
2. Payloads of the product hold no fractions; recordings do. A call whose only fault is that is judged by its schema
   all the same, and the fraction is noted, not counted as a mistake of the agent.
3. A drafted contract names its target by an argument that nobody chose for it. A path, or a text, that no target can be
   made of is no mistake of the agent's; the call is judged by its schema, and its target is shortened.
4. A call that repeats a change whose outcome is open is DUPLICATE_BLOCKED; one that repeats a change that was already
   answered with success is noted as a repeat (HS-06). No repeat is a command or a script that is run again, which may
   do another thing each time, nor a change of what another call has changed in between.
5. A call depends on an earlier one where it uses an identifier that nobody had said before that one's answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import orjson

from approvals.gate.rules import gate, malformed
from approvals.gate.rules.gate import CallerContext, Dependency, GateVerdict, Proposal, TargetContext
from approvals.gate.rules.layers import layer_of
from approvals.sessions.rules import pins
from counterfoil_transcripts import wording
from counterfoil_transcripts.acts import AuditedAct, TrustRequirement, believed_state
from counterfoil_transcripts.contracts import DRAFT_VERSION
from counterfoil_transcripts.offers import ToolOffer
from counterfoil_transcripts.reading.records import TranscriptCall
from ledger.catalogue.rules import targets
from ledger.catalogue.rules.contract import Contract
from ledger.catalogue.rules.targets import BadTarget
from ledger.record.rules.canonical import NotCanonical, digest
from reviews.observations.rules.observe import ReportedStatus

AT = datetime(2000, 1, 1, tzinfo=UTC)
"""The one instant of every judgement: a recording's own times decide nothing."""
FRACTION = "FRACTION"
LONGEST_NAME = 120
_OPEN = frozenset({ReportedStatus.PENDING, ReportedStatus.ACCEPTED, ReportedStatus.TIMEOUT, ReportedStatus.MALFORMED})


@dataclass(eq=False)
class RecordedGate:
    """The gate of one conversation, and its memory of it."""

    offer: ToolOffer
    trust: TrustRequirement
    goal: str
    _standing: CallerContext = field(init=False)
    _sources: dict[str, int] = field(default_factory=dict)
    _said: set[str] = field(default_factory=set)
    _changes: dict[str, AuditedAct] = field(default_factory=dict)
    _last_change_of: dict[str, AuditedAct] = field(default_factory=dict)
    _acts: dict[int, AuditedAct] = field(default_factory=dict)

    def __post_init__(self) -> None:
        goal = self.goal[: pins.MAX_GOAL].encode("utf-8", "replace").decode("utf-8")
        pin = pins.new_pin(session_id="recording", goal=goal if goal.strip() else "none", ttl_seconds=60, at=AT)
        self._standing = CallerContext(
            registered=True,
            sealed=True,
            open=True,
            pin=pin,
            disclosed=self.offer.disclosed,
            catalogue=self.offer.known,
        )

    def judged(self, call: TranscriptCall, *, number: int, turn: int) -> AuditedAct:
        """The act in a call, judged."""
        sent = self._parameters(call)
        asked = read_arguments(sent)
        proposal = Proposal(
            call_id=call.id,
            tool=call.tool,
            arguments=sent,
            pin_hash=self._standing.pin.hash,
            depends_on=tuple(str(one) for one in self._depends_on(asked)),
        )
        verdict = gate.check_call(proposal, self._standing, compile_predicate=lambda *_: None, at=AT)
        notes = []
        if any(error["code"] == NotCanonical.code for error in verdict.errors):
            verdict, notes = self._by_schema(verdict, asked), [FRACTION]
        elif _is_for_its_target(verdict, asked):
            verdict = self._by_schema(verdict, asked)
        verdict = gate.check_preconditions(verdict, proposal, self._target_context(verdict, proposal.depends_on))
        act = AuditedAct(
            number=number,
            turn=turn,
            call=call,
            verdict=verdict,
            arguments=asked,
            contract=self.offer.disclosed.get(call.tool),
            notes=notes,
            depends_on=tuple(int(one) for one in proposal.depends_on),
        )
        self._remember(act)
        return act

    def _parameters(self, call: TranscriptCall) -> Any:
        """Return the arguments of a call; the text of a tool that accepts any is its only parameter."""
        if not call.free_text:
            return call.arguments
        contract = self.offer.disclosed.get(call.tool)
        declared = list((contract.arguments_schema.get("properties") or {}) if contract is not None else ())
        return {declared[0] if len(declared) == 1 else "input": call.arguments}

    def heard(self, text: str) -> None:
        """Record what was said to the agent: an identifier in it comes from no tool."""
        self._said.update(wording.words_with_digits(text))

    def answered(self, act: AuditedAct) -> None:
        """Note an answer: identifiers that are new in it come from that call."""
        if act.told is None:
            return
        for one in wording.identifiers(act.told.content, limit=200):
            if any(character.isdigit() for character in one) and one not in self._said:
                self._sources.setdefault(one, act.number)

    def _depends_on(self, asked: Mapping[str, Any]) -> list[int]:
        found = {self._sources[one] for one in wording.identifiers(asked) if one in self._sources}
        return sorted(number for number in found if self._acts[number].mutating)

    def _target_context(self, verdict: GateVerdict, depends_on: Iterable[str]) -> TargetContext:
        dependencies = {one: self._dependency(self._acts[int(one)]) for one in depends_on}
        before = self._changes.get(verdict.operation_hash) if verdict.accepted else None
        is_open = before is not None and (before.told is None or before.told.status in _OPEN) and not before.seen_by
        return TargetContext(
            dependencies=dependencies, open_twin=f"call {before.number}" if is_open and before else None
        )

    def _dependency(self, act: AuditedAct) -> Dependency:
        state = believed_state(act, TrustRequirement.ANSWERS)
        return Dependency(state=str(state or "FAILED"), acknowledged=act.told_as_failed)

    def _remember(self, act: AuditedAct) -> None:
        self._acts[act.number] = act
        if not act.verdict.accepted or not act.mutating:
            return
        before = self._changes.get(act.verdict.operation_hash)
        if before is not None and before.told is not None and before.told.status is ReportedStatus.SUCCESS:
            target = act.verdict.target_resource
            is_newest = not target or self._last_change_of.get(target) is before
            act.repeats = before.number if is_newest and not wording.runs_anything(act.call.tool) else None
        self._changes[act.verdict.operation_hash] = act
        self._last_change_of[act.verdict.target_resource] = act

    def _by_schema(self, verdict: GateVerdict, asked: Mapping[str, Any]) -> GateVerdict:
        """The verdict by the schema alone (rules 2 and 3)."""
        contract = verdict.contract
        if contract is None or not asked:
            return verdict
        mistake = malformed.find_mistake(
            dict(asked), schema=contract.arguments_schema, validator=contract.arguments_validator
        )
        if mistake is not None:
            return replace(
                verdict,
                code=mistake.code,
                layer=layer_of(mistake.code),
                message=mistake.message,
                hint=mistake.hint,
                errors=mistake.errors,
            )
        return replace(
            verdict,
            accepted=True,
            code=gate.ACCEPTED,
            layer="",
            message="The call is well formed by its schema.",
            hint="",
            errors=(),
            target_resource=_target(contract, asked),
        )


def read_arguments(raw: object) -> Mapping[str, Any]:
    """The arguments for comparing, parsed leniently; empty if they are not an object."""
    if isinstance(raw, str):
        try:
            raw = orjson.loads(raw)
        except ValueError:
            return {}
    return raw if isinstance(raw, Mapping) else {}


def _is_for_its_target(verdict: GateVerdict, asked: Mapping[str, Any]) -> bool:
    """Return whether a call of a drafted contract is refused because its arguments make no target (rule 3)."""
    contract = verdict.contract
    if verdict.accepted or contract is None or contract.version != DRAFT_VERSION:
        return False
    named = [asked.get(name) for name in targets.template_arguments(contract.target_template)]
    if not all(isinstance(value, str) and value.strip() for value in named):
        return False
    try:
        contract.render_target(asked)
    except BadTarget:
        return True
    return False


def _target(contract: Contract, asked: Mapping[str, Any]) -> str:
    try:
        return contract.render_target(asked)
    except BadTarget:
        kind = contract.target_template.partition("/")[0]
        named = " ".join(str(asked.get(name, "")) for name in targets.template_arguments(contract.target_template))
        short = " ".join(named.split())
        if len(short) > LONGEST_NAME:
            short = f"{short[:LONGEST_NAME]}… {digest(named.encode('utf-8', 'replace'))[-8:]}"
        return f"{kind}/{short}"
