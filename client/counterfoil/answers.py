"""The console's answers to an agent, as frozen dataclasses.

Each is read from what the API sent; fields that a newer console adds are left out here and stay in
`raw` where there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

SETTLED = frozenset({"RECONCILED_SUCCESS", "FAILED", "COMPENSATED", "ROLLED_BACK", "ABANDONED"})
"""The states in which an action stays, unless a later reading contradicts it."""
FINAL_REPORTS = frozenset(
    {
        *(
            "COMPLETED",
            "ANSWERED",
            "ATTESTED",
            "ACCEPTED_AS_IT_IS",
            "FAILED",
            "NOT_EXECUTED",
            "PARTIALLY_COMPLETED",
            "COMPENSATED",
        ),
        "ROLLED_BACK",
        *("FINAL_STATE_UNKNOWN", "REVIEW_REQUIRED", "ABANDONED_UNRESOLVED"),
    }
)
"""The codes of a report after which nothing more comes by itself."""

Json = Mapping[str, Any]
ReceiptForm = Literal["text", "markdown", "html"]


@dataclass(frozen=True)
class Tool:
    """One tool that a session may call, with the schema of its arguments."""

    name: str
    version: str
    description: str
    arguments_schema: Json
    wrapper_version: str = ""
    side_effect_class: str = ""


@dataclass(frozen=True)
class Contract:
    """The tools that a session may call, and the state of the registry that they were taken from."""

    tools: tuple[Tool, ...] = ()
    sub_tools_disclosed: tuple[str, ...] = ()
    registry_version: str = ""
    registry_fingerprint: str = ""


@dataclass(frozen=True)
class Pin:
    """The hash of the pinned goal, and when the pin ends."""

    hash: str | None = None
    expires_at: str | None = None


@dataclass(frozen=True)
class OpenedSession:
    """The answer to a handshake."""

    session_id: str
    run_id: str
    contract: Contract
    pin: Pin


@dataclass(frozen=True)
class Question:
    """A person's question to the agent before a decision."""

    question_id: str
    action_id: str
    text: str
    at: str


@dataclass(frozen=True)
class SessionState:
    """A session with its counts and what people ask in it."""

    session_id: str
    calls_accepted: int
    calls_refused: int
    acceptance_rate: float | None
    closed: bool
    questions: tuple[Question, ...]
    raw: Json = field(repr=False)


@dataclass(frozen=True)
class AskCheck:
    """The comparison of a restated goal with the pinned one; `reason` says why they differ."""

    match: bool
    reason: str | None


@dataclass(frozen=True)
class CallResult:
    """The gate's answer to one call; a refused one has a code, a hint and, if there is one, a suggestion."""

    call_id: str
    accepted: bool
    action_id: str | None
    state: str | None
    code: str | None
    message: str | None
    hint: str | None
    suggestion: Any
    errors: tuple[Json, ...]
    approval: Json
    user_status: Json
    raw: Json = field(repr=False)


@dataclass(frozen=True)
class StartAtOnce:
    """An option of a call: start it at once, as this executor, if nothing holds it back.

    `headers` gives what shows for one try, sent to an address, that its sender is that executor.
    """

    executor_id: str
    wrapper_version: str
    timeout_s: int
    headers: Callable[[str], Mapping[str, str]] = field(repr=False)

    def body(self) -> dict[str, Any]:
        """The option in the API's form."""
        return {
            "executor_id": self.executor_id,
            "wrapper_version": self.wrapper_version,
            "timeout_s": self.timeout_s,
        }


@dataclass(frozen=True)
class Decision:
    """The console's answer to one call of a gateway: it may run now, it may not, or it waits.

    `decision_id` is the action's id, `reason` a sentence that says what would be accepted. `request` is the
    request itself: sent again, by whichever process, it is the same decision.
    """

    decision: Literal["allow", "deny", "wait"]
    decision_id: str | None
    call_id: str
    code: str | None
    reason: str
    waiting_for: tuple[str, ...]
    errors: tuple[Json, ...]
    request: Json = field(repr=False)
    raw: Json = field(repr=False)


@dataclass(frozen=True)
class CallResults:
    """The answers to a batch of calls in their order, and the word on what to do next; a run that must end
    here has its summary.
    """

    results: tuple[CallResult, ...]
    nudge: str
    next: NextStep | None = None
    summary: Summary | None = None

    def __len__(self) -> int:
        return len(self.results)

    def __getitem__(self, place: int) -> CallResult:
        return self.results[place]

    def __iter__(self) -> Iterator[CallResult]:
        return iter(self.results)


@dataclass(frozen=True)
class NextStep:
    """The next step for the agent: after a decision, after its calls, or about one fact."""

    code: str
    text: str
    tools: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """The verdict on a request to people; `waiting` means undecided, which is not a denial."""

    approval_id: str
    decision: str
    waiting: bool
    reason: str | None
    next: NextStep
    superseded_by: str | None
    more: Json
    decide_by: str | None
    release_by: str | None


@dataclass(frozen=True)
class Status:
    """The status of an action, as far as its agent may see it."""

    action_id: str
    state: str
    tool: str
    target: str
    contradicted: bool
    approval: Verdict | None
    questions: tuple[Question, ...]
    supersedes: str | None
    user_status: Json
    raw: Json = field(repr=False)

    @property
    def settled(self) -> bool:
        """Return whether it has ended."""
        return self.state in SETTLED


@dataclass(frozen=True)
class Report:
    """The only text about an action that may be told to a user, and the state that it is about."""

    state: str
    code: str
    text: str
    completed: bool
    trust_level: int | None

    @property
    def settled(self) -> bool:
        """Return whether the action has ended."""
        return self.state in SETTLED


@dataclass(frozen=True)
class Verification:
    """The standing of a claim: whether it is safe to claim, in one sentence, and by which reading.

    `outcome` is in the words of the outcomes of actions. `not_known` is what no reading can say of an action that was
    not gated; `receipt` is given to operators and auditors alone. `raw` is the whole answer.
    """

    claim_id: str
    state: str
    outcome: str
    safe_to_claim: bool
    sentence: str
    reading: Mapping[str, Any] | None
    not_known: tuple[str, ...]
    receipt: Mapping[str, Any] | None
    raw: Mapping[str, Any] = field(repr=False)

    @property
    def settled(self) -> bool:
        """Return whether a reading has settled it, or nobody could tell in time."""
        return self.state != "OPEN"


@dataclass(frozen=True)
class Observed:
    """The console's answer to an executor's report: the action's status, and the present report."""

    status: Status
    report: Report


@dataclass(frozen=True)
class CancelledAction:
    """An action that was withdrawn before it started."""

    action_id: str
    state: str


@dataclass(frozen=True)
class RecordedAnswer:
    """An answer to a question, as the record keeps it."""

    question_id: str
    line_id: str


@dataclass(frozen=True)
class Fact:
    """A recorded fact about one action, for the next turn of a model, with the next step."""

    action_id: str | None
    state: str | None
    statement: str
    trust_level: int | None
    tool: str = ""
    target: str = ""
    next: NextStep | None = None


@dataclass(frozen=True)
class Context:
    """The context for a model's next turn: verified facts, unresolved ones, and both as text."""

    text: str
    facts: tuple[Fact, ...]
    unresolved: tuple[Fact, ...]
    next: NextStep | None
    raw: Json = field(repr=False)


@dataclass(frozen=True)
class Summary:
    """A session in at most six lines, from the record and not from the model."""

    lines: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class Violation:
    """One claim that the record does not support."""

    code: str
    span: tuple[int, int] | None
    claim: str
    action_id: str | None
    detail: str


@dataclass(frozen=True)
class ReceiptLine:
    """The console's own line about one action; `code` is its confirmation code, where it has one."""

    action_id: str
    tool: str
    target: str
    outcome: str
    text: str
    code: str


@dataclass(frozen=True)
class Receipt:
    """The record in lines that may be passed on as they are: each as text, and all in three forms.

    `notes` are what the message says and the record does not bear out; they are part of the three forms.
    """

    lines: tuple[ReceiptLine, ...] = ()
    open: tuple[ReceiptLine, ...] = ()
    text: str = ""
    markdown: str = ""
    html: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class GuardResult:
    """The guard's result for a message: its replacement, if there is one, and the receipt."""

    verdict: str
    violations: tuple[Violation, ...]
    corrected: str | None
    raw: Json = field(repr=False)
    receipt: Receipt = Receipt()

    @property
    def allowed(self) -> bool:
        """True if the record contradicts nothing in the message."""
        return self.verdict == "ALLOW"

    def sendable(self, message: str, *, form: ReceiptForm | None = "text") -> str:
        """The text to send: the message or its replacement, followed by the receipt in this form, if any."""
        receipt = "" if form is None else str(getattr(self.receipt, form))
        return "\n\n".join(filter(None, (message if self.corrected is None else self.corrected, receipt)))


@dataclass(frozen=True)
class Outcome:
    """The progress of a proposed call within the time waited for it.

    `settled` says that nothing more will follow: the gate refused the call, it was a dry run, or the action has ended.
    Otherwise the outcome is a handle: ask again with `action_id`. The end of the waiting says nothing against the
    action, and is no denial.
    """

    settled: bool
    action_id: str | None
    state: str | None
    call: CallResult | None = None
    report: Report | None = None
    approval: Verdict | None = None
    receipt: Receipt | None = None

    @property
    def refused(self) -> bool:
        """Return whether the gate refused the call."""
        return self.call is not None and not self.call.accepted

    @property
    def held(self) -> bool:
        """Return whether people have yet to decide."""
        return not self.settled and self.approval is not None and self.approval.waiting

    @property
    def completed(self) -> bool:
        """True if a reading verified it as done, which is the only ground for reporting that."""
        return self.report is not None and self.report.completed
