"""One recorded conversation through gate, observation, predicates, dependencies and guard, in the order it happened.

1. Turns are taken one by one. In a turn, calls come before their answers, and answers before the words: what an agent
   writes beside its calls is judged with those calls under way.
2. The guard judges every message of the agent against what had happened until then, and nothing that came later.
3. Answers are paired by place: an id names a call within its message at best. An answer belongs to the newest message
   that has open calls of its id (without an id: of its tool), and there to the first of them. What stands between two
   answers is one message, since some formats give each call a line of its own.
4. Where nobody wrote down which tools there were, the agent may have had one that it did not use here, and a tool that
   runs any code or command can do anything: a claim of what no call did is passed over then.
5. A change that failed, or whose outcome is open, and that the agent neither told nor tried again, makes every later
   change a silent one (R-EX-20).
6. Where parts of the conversation could not be read, calls may be missing: nothing that nobody bears out, and no
   silence, is held against the agent there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from counterfoil_transcripts import answers
from counterfoil_transcripts.acts import AuditedAct, TrustRequirement, believed_state, guard_record
from counterfoil_transcripts.gating import AT, RecordedGate
from counterfoil_transcripts.looking_back import ChangeMemory, compare_with_system
from counterfoil_transcripts.offers import ToolOffer
from counterfoil_transcripts.reading.formats import mcp_log
from counterfoil_transcripts.reading.notes import HookNote
from counterfoil_transcripts.reading.records import (
    AGENT,
    USER,
    Transcript,
    TranscriptAnswer,
    TranscriptCall,
    TranscriptFault,
    TranscriptTurn,
)
from counterfoil_transcripts.wording import runs_anything
from ledger.record.rules.lifecycle import State
from reviews.guarding.rules.receipt import receipt_of
from reviews.guarding.rules.records import Ground, Note, Record
from reviews.guarding.rules.verdict import Found, Violation, judge
from reviews.observations.rules.observe import ReportedStatus
from reviews.recovery.rules import sagas

MOST_STEPS = 200
MOST_SAID = 2_000
_END = re.compile(r"(?<=[.!?])[\s\"')\]]+|\n+")


@dataclass(frozen=True, slots=True)
class AgentClaim:
    """One claim of the agent and its support in the recording. `basis`: read, answer or nothing."""

    turn: int
    span: tuple[int, int]
    quote: str
    sentence: str
    kind: str
    code: str
    detail: str
    acts: tuple[int, ...]
    basis: str
    rule: str

    @property
    def false(self) -> bool:
        """Return whether no record up to then supports it."""
        return bool(self.code)


@dataclass(frozen=True, slots=True)
class RecordBesideMessage:
    """A message of the agent with the lines of its receipt at that moment; `notes` are the lines about unsupported
    statements of the message.
    """

    turn: int
    said: str
    lines: tuple[str, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ConversationAudit:
    """The findings about one conversation. `corrected` maps a turn to its corrected text."""

    conversation: Transcript
    acts: tuple[AuditedAct, ...]
    claims: tuple[AgentClaim, ...]
    corrected: dict[int, str]
    spoken: int
    is_open: bool
    faults: tuple[TranscriptFault, ...] = ()
    receipts: tuple[RecordBesideMessage, ...] = ()


@dataclass(eq=False)
class _Run:
    conversation: Transcript
    offer: ToolOffer
    trust: TrustRequirement
    gate: RecordedGate
    notes: Mapping[str, HookNote] = field(default_factory=dict)
    memory: ChangeMemory = field(default_factory=ChangeMemory)
    acts: list[AuditedAct] = field(default_factory=list)
    waiting: list[AuditedAct] = field(default_factory=list)
    message: int = 0
    messages: dict[int, int] = field(default_factory=dict)
    asides: list[tuple[str, int]] = field(default_factory=list)
    records: dict[int, Record] = field(default_factory=dict)
    changed: set[int] = field(default_factory=set)
    claims: list[AgentClaim] = field(default_factory=list)
    corrected: dict[int, str] = field(default_factory=dict)
    faults: list[TranscriptFault] = field(default_factory=list)
    spoken: int = 0
    heard: list[str] = field(default_factory=list)
    receipts: list[RecordBesideMessage] = field(default_factory=list)

    def turn(self, turn: TranscriptTurn) -> None:
        if turn.asks:
            self.asides.append((turn.asks, len(self.acts)))
        for call in turn.calls:
            if not self._is_logged_twice(call):
                self._call(call, turn.number)
        for answer in turn.answers:
            self._answer(answer, turn.number)
        if turn.answers or (turn.text.strip() and not turn.calls):
            self.message += 1
        if turn.role == AGENT and turn.text.strip():
            self._say(turn)
        elif turn.text:
            self.gate.heard(turn.text)
            self.heard.append(turn.text)

    def _call(self, call: TranscriptCall, turn: int) -> None:
        act = self.gate.judged(call, number=len(self.acts) + 1, turn=turn)
        self.acts.append(act)
        self.waiting.append(act)
        self.messages[act.number] = self.message
        self._note(act)

    def _answer(self, answer: TranscriptAnswer, turn: int) -> None:
        act = self._take_request(answer)
        if act is None:
            if not answer.loose:
                what = f"`{answer.call_id[:60]}`" if answer.call_id else "no call"
                place = f"{self.conversation.path}[{turn}]"
                reason = f"An answer to {what}, which is not recorded before it."
                self.faults.append(TranscriptFault(self.conversation.file, self.conversation.id, place, reason))
            return
        self.waiting.remove(act)
        act.told = answers.parse_answer(answer, act.call.tool, mutating=act.mutating)
        act.answered_at = turn
        for touched in self.memory.answered(act):
            self._note(touched)
        note = self.notes.get(act.call.id)
        if note is not None and note.reading is not None:
            compare_with_system(act, note.reading)
        self.gate.answered(act)
        self._note(act)

    def _take_request(self, answer: TranscriptAnswer) -> AuditedAct | None:
        if answer.call_id:
            fit = [one for one in self.waiting if one.call.id == answer.call_id]
        else:
            fit = [one for one in self.waiting if not answer.tool or one.call.tool == answer.tool]
        asked = [one for one in self.asides if answer.loose and one[0] == answer.call_id]
        if asked and all(one.number <= asked[-1][1] for one in fit):
            # The newer request of this id was another one, which is answered first.
            self.asides.remove(asked[-1])
            return None
        newest = max((self.messages[one.number] for one in fit), default=None)
        return next((one for one in fit if self.messages[one.number] == newest), None)

    def _is_logged_twice(self, call: TranscriptCall) -> bool:
        """Return whether a log shows the same request again: no id is reused while its request is open."""
        return self.conversation.format == mcp_log.NAME and any(one.call == call for one in self.waiting)

    def _note(self, act: AuditedAct) -> None:
        self.records[act.number] = guard_record(act, self.trust)
        self.changed.add(act.number)

    def _say(self, turn: TranscriptTurn) -> None:
        self.spoken += 1
        told = (one.marked(is_new=number in self.changed) for number, one in self.records.items())
        is_whole = not (self.offer.may_do_more or self.conversation.unread)
        ground = Ground(self.offer.tools, tuple(told), heard="\n".join(self.heard), is_whole=is_whole)
        verdict = judge(turn.text, ground)
        self._show_record(turn, ground, verdict.notes)
        self.changed.clear()
        violations = {(one.span, one.code, one.action_id): one for one in verdict.violations}
        claims = [one for one in verdict.claims if not self._is_ignored(one)]
        for found in claims:
            # One sentence may be several claims, each about a call of its own.
            about = found.action_ids[0] if found.action_ids else None
            self._claim(turn, found, violations.get((found.span, found.code, about)))
        if verdict.corrected is not None and any(one.code for one in claims):
            self.corrected[turn.number] = verdict.corrected

    def _show_record(self, turn: TranscriptTurn, ground: Ground, notes: tuple[Note, ...]) -> None:
        """Keep the receipt of the changes, unless all of them are still in progress beside this message."""
        under_way = {str(act.number) for act in self.waiting if act.turn == turn.number}
        if under_way:
            ground = replace(ground, records=tuple(one for one in ground.records if one.action_id not in under_way))
        receipt = receipt_of(ground, message=turn.text, notes=notes)
        if receipt.text:
            lines = tuple(receipt.text.splitlines())
            noted = tuple(each.text for each in notes)
            self.receipts.append(RecordBesideMessage(turn.number, turn.text[:MOST_SAID], lines, noted))

    def _is_ignored(self, found: Found) -> bool:
        """Return whether a claim is ignored: it may concern something no call did (rule 4), or parts are unread (rule
        6).
        """
        return (found.rule == "phantom" and self.offer.may_do_more) or (bool(found.code) and self.conversation.unread)

    def _claim(self, turn: TranscriptTurn, found: Found, violation: Violation | None) -> None:
        numbers = tuple(int(one) for one in found.action_ids if one.isdigit())
        about = [self.acts[number - 1] for number in numbers if number <= len(self.acts)]
        if found.kind == "failed" and not found.code:
            for act in about:
                act.told_as_failed = True
            if all(runs_anything(act.call.tool) for act in about):
                # That a command ended with an error is the work itself: nothing is claimed of a change.
                return
        self.claims.append(
            AgentClaim(
                turn=turn.number,
                span=found.span,
                quote=found.quote,
                sentence=sentence_around(turn.text, found.span),
                kind=found.kind,
                code=found.code,
                detail=violation.detail if violation is not None else "",
                acts=numbers,
                basis=_weakest(about),
                rule=found.rule,
            )
        )


def audit_conversation(
    conversation: Transcript,
    offer: ToolOffer,
    *,
    trust: TrustRequirement = TrustRequirement.ANSWERS,
    notes: Mapping[str, HookNote] | None = None,
) -> ConversationAudit:
    """Audit a conversation; `notes` are those of a client's hooks, already applied to its calls."""
    goal = next((turn.text for turn in conversation.turns if turn.role == USER and turn.text.strip()), "")
    run = _Run(conversation, offer, trust, RecordedGate(offer, trust, goal), notes or {})
    for turn in conversation.turns:
        run.turn(turn)
    if run.faults:
        # An answer without its call is a sign of a call that was not read.
        run.claims = [one for one in run.claims if not one.false]
        run.corrected.clear()
    if not run.faults and not conversation.unread:
        _silences(run.acts, trust)
    return ConversationAudit(
        conversation,
        tuple(run.acts),
        tuple(run.claims),
        run.corrected,
        run.spoken,
        offer.is_open,
        (*conversation.faults, *run.faults),
        tuple(run.receipts),
    )


def sentence_around(text: str, span: tuple[int, int]) -> str:
    """The sentence around a span, at most 300 characters of it."""
    start, end = span
    before = [found.end() for found in _END.finditer(text, max(0, start - 300), start)]
    after = _END.search(text, max(start, end - 1), min(len(text), end + 300))
    first = before[-1] if before else max(0, start - 300)
    last = after.start() if after else min(len(text), end + 300)
    return " ".join(text[first : max(last, end)].split())[:300]


def _weakest(about: list[AuditedAct]) -> str:
    found = {act.basis for act in about}
    return next((one for one in ("nothing", "answer", "read") if one in found), "nothing")


def _silences(acts: list[AuditedAct], trust: TrustRequirement) -> None:
    """Note the continuations after a failure or an open outcome (rule 5)."""
    changes = [act for act in acts if act.mutating and act.verdict.category != "phantom"][-MOST_STEPS:]
    steps = [_step(act, changes, trust) for act in changes]
    by_number = {act.number: act for act in changes}
    for silence in sagas.silent_steps(steps):
        by_number[int(silence.step)].silent_over.append((int(silence.over), silence.because))


def _step(act: AuditedAct, changes: list[AuditedAct], trust: TrustRequirement) -> sagas.SagaStep:
    believed = believed_state(act, TrustRequirement.ANSWERS) or State.FAILED
    ended = AT + timedelta(seconds=2 * (act.answered_at if act.answered_at is not None else 10**9) + 1)
    noticed = [one for one in changes if one.number < act.number and _is_noticed(one, act, changes)]
    return sagas.SagaStep(
        id=str(act.number),
        state=believed,
        mutating=True,
        proposed_at=AT + timedelta(seconds=2 * act.turn),
        ended_at=ended.isoformat() if act.told is not None else None,
        contradicted=act.contradicted,
        depends_on=tuple(str(one) for one in act.depends_on),
        acknowledges=tuple(str(one.number) for one in noticed),
    )


def _is_noticed(failed: AuditedAct, act: AuditedAct, changes: list[AuditedAct]) -> bool:
    """Return whether a failure was noticed before a later step: it was reported, or the tool was called again."""
    if failed.told is None or failed.told.status not in {ReportedStatus.FAILED, ReportedStatus.TIMEOUT}:
        return False
    again = (one for one in changes if failed.number < one.number <= act.number)
    return failed.told_as_failed or any(one.call.tool == failed.call.tool for one in again)
