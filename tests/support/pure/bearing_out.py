"""What bears a sentence out, read from the events of an action alone; it knows nothing of the fold.

`unborne` reads each claim of a sentence against its witnesses, `false_words` the words of a text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from reviews.reporting.rules.sentences import Claim, Claims
from tests.support.pure.histories import DIFFERENCES, Happening

Events = list[Happening]
Check = Callable[[Events], bool]


def of_attempt(events: Events) -> Events:
    """The events since the newest start."""
    begun = max((each.seq for each in events if each.kind == "execution_started"), default=0)
    return [each for each in events if each.seq >= begun] if begun else []


def answers(events: Events) -> Events:
    """The executor's answers to the newest attempt."""
    number = max((each.detail["attempt"] for each in events if each.kind == "execution_started"), default=0)
    told = [each for each in events if each.detail.get("observation", {}).get("source") == "executor"]
    return [each for each in told if each.detail["attempt"] == number]


def status(event: Happening) -> str:
    return str(event.detail["observation"]["status"])


def said(event: Happening, text: str) -> bool:
    return status(event) == text and "nothing_sent" not in event.detail.get("grounds", ())


def runs(events: Events) -> dict[str, Events]:
    """The runs in which a system answered, in order."""
    listed = [each.detail["run"] for each in events if each.detail.get("listed", {}).get("source")]
    return {run: [each for each in events if each.detail.get("run") == run] for run in listed}


DECIDES: Final = frozenset(
    [
        "verified",
        "reconciled",
        "partially_reconciled",
        "reconciliation_failed",
        "rolled_back",
        "rechecked",
        "contradicted",
        "contradiction_withdrawn",
    ]
)
DECIDING_GROUNDS: Final = frozenset({"decisive_read", "no_effect_remains"})


def decisive(events: Events) -> list[Events]:
    """Of those, the runs that decided something, in order."""
    return [
        steps
        for steps in runs(events).values()
        if any(
            each.kind in DECIDES or (each.kind == "failed" and DECIDING_GROUNDS & set(each.detail["grounds"]))
            for each in steps
        )
    ]


def discrepancy(steps: Events) -> str:
    return str(next(each.detail["listed"]["discrepancy"] for each in steps if each.detail.get("listed")))


def showed(steps: Events) -> str:
    listed = next(each.detail["listed"] for each in steps if each.detail.get("listed"))
    if listed["result"] == "ABSENT" or listed["discrepancy"] == "NO_OP_FAILURE":
        return "nothing"
    return "wanted" if listed["result"] == "SUCCESS" or discrepancy(steps) == "COMPENSATION_REQUIRED" else "otherwise"


def newest(events: Events) -> str:
    """What the newest decisive reading of the newest attempt showed."""
    found = decisive(of_attempt(events))
    return showed(found[-1]) if found else ""


def ever(events: Events, *shown: str) -> bool:
    return any(showed(steps) in shown for steps in decisive(of_attempt(events)))


def kinds(events: Iterable[Happening]) -> set[str]:
    return {each.kind for each in events}


def last_word(events: Events, *wanted: str) -> bool:
    """Whether one of these words of a person stands: none has been said since, and nothing has moved the action."""
    words = {"attested_present", "attested_absent", "accepted_as_it_is", "failed_by_review", "abandoned"}
    spoken = [each for each in events if each.kind in words]
    return bool(spoken) and spoken[-1].kind in wanted


def standing_doubt(events: Events) -> Happening | None:
    """What contradicts the outcome, if nothing has taken it back."""
    doubt = None
    for each in events:
        if each.kind in ("contradicted", "doubted"):
            doubt = each
        elif (each.detail.get("view") or {}).get("contradicted") is False:
            doubt = None
    return doubt


def _of_run(seqs: tuple[int, ...], events: Events, *shown: str) -> bool:
    """Whether these witnesses are of one decisive reading that showed this."""
    return any({each.seq for each in steps} >= set(seqs) and showed(steps) in shown for steps in decisive(events))


def _all(seqs: tuple[int, ...], events: Events, holds: Callable[[Happening], bool]) -> bool:
    return bool(seqs) and all(holds(events[seq - 1]) for seq in seqs)


_ENDS: Final = frozenset(
    [
        "validation_failed",
        "preflight_refused",
        "outside_autonomy",
        "approval_voided",
        "rejected",
        "changes_requested",
        "approval_expired",
        "provider_outage",
        "superseded",
        "cancelled",
    ]
)
BORNE_OUT: Final[dict[Claim, Callable[[tuple[int, ...], Events], bool]]] = {
    Claim.STARTED: lambda seqs, events: (
        _all(seqs, events, lambda each: each.kind == "execution_started") and seqs[0] == of_attempt(events)[0].seq
    ),
    Claim.NOT_STARTED: lambda seqs, events: "execution_started" not in kinds(events),
    Claim.ANSWERED: lambda seqs, events: _all(seqs, events, lambda each: each in answers(events)),
    Claim.CLAIMED_SUCCESS: lambda seqs, events: _all(
        seqs, events, lambda each: each in answers(events) and said(each, "success")
    ),
    Claim.SAID_FAILURE: lambda seqs, events: _all(
        seqs, events, lambda each: each in answers(events) and said(each, "failed")
    ),
    Claim.SAID_UNSENT: lambda seqs, events: _all(
        seqs, events, lambda each: each in answers(events) and "nothing_sent" in each.detail.get("grounds", ())
    ),
    Claim.NO_ANSWER: lambda seqs, events: not answers(events),
    Claim.FELL_SILENT: lambda seqs, events: _all(
        seqs, events, lambda each: each.kind == "lease_ended" and each in of_attempt(events)
    ),
    Claim.READ: lambda seqs, events: any({each.seq for each in steps} >= set(seqs) for steps in runs(events).values()),
    Claim.NOT_READ: lambda seqs, events: not runs(of_attempt(events)),
    Claim.NOT_DECIDED: lambda seqs, events: not decisive(of_attempt(events)),
    Claim.SAW_REQUESTED: lambda seqs, events: _of_run(seqs, of_attempt(events), "wanted"),
    Claim.SAW_NOTHING: lambda seqs, events: _of_run(seqs, of_attempt(events), "nothing"),
    Claim.SAW_OTHERWISE: lambda seqs, events: _of_run(seqs, of_attempt(events), "otherwise"),
    Claim.PERSON_SAID: lambda seqs, events: _all(seqs, events, lambda each: each.actor_kind == "person"),
    Claim.REVERSED: lambda seqs, events: _all(
        seqs, events, lambda each: each.kind in ("compensated", "compensation_attested")
    ),
    Claim.CONTRADICTED: lambda seqs, events: _all(seqs, events, lambda each: each is standing_doubt(events)),
    Claim.APPROVED: lambda seqs, events: _all(seqs, events, lambda each: each.kind == "approval_granted"),
    Claim.ENDED_UNSTARTED: lambda seqs, events: _all(seqs, events, lambda each: each.kind in _ENDS),
}


def unborne(text: str, claims: Claims, events: Events) -> list[str]:
    """The claims of a sentence that no event bears out."""
    return [f"{text!r} claims {claim} on {seqs}" for claim, seqs in claims if not BORNE_OUT[claim](seqs, events)]


def _asked(events: Events) -> bool:
    return any(each.detail.get("approval_required") for each in events if each.kind == "validated")


def _granted(events: Events, *, standing: bool) -> bool:
    grants = [each for each in events if each.kind == "approval_granted"]
    return bool(grants) and bool(grants[-1].detail.get("standing_approval_id")) == standing


def _found(*wanted: str) -> Check:
    """A run of this attempt with one of these discrepancies."""
    return lambda events: any(
        (each.detail.get("listed") or {}).get("discrepancy") in wanted for each in of_attempt(events)
    )


def _doubted_by(kind: str, *, run: bool) -> Check:
    def holds(events: Events) -> bool:
        doubt = standing_doubt(events)
        return doubt is not None and doubt.kind == kind and bool(doubt.detail.get("run")) == run

    return holds


def _ended_by(kind: str) -> Check:
    return lambda events: [each.kind for each in events if each.kind in _ENDS][-1:] == [kind]


def _any_answer(*statuses: str) -> Check:
    return lambda events: any(status(each) in statuses for each in answers(events))


def _difference(text: str) -> Check:
    code = next(code for code, told in DIFFERENCES.items() if told == text)
    return lambda events: any(discrepancy(steps) == code for steps in decisive(of_attempt(events)))


# (surface or "", pattern, what must be so, how to see it)
RULES: Final[list[tuple[str, str, str, Check]]] = [
    ("authorization", r"^Approved", "a grant", lambda events: _granted(events, standing=False)),
    ("authorization", r"standing approval", "a standing grant", lambda events: _granted(events, standing=True)),
    ("authorization", r"^No approval needed", "a gate that asked nobody", lambda events: not _asked(events)),
    ("authorization", r"^Waiting for approval", "no grant", lambda events: "approval_granted" not in kinds(events)),
    *(
        ("", rf"^{text}", f"an end by {kind}", _ended_by(kind))
        for text, kind in {
            "Blocked by the gate": "validation_failed",
            "Blocked by preflight": "preflight_refused",
            "Blocked by the autonomy": "outside_autonomy",
            "Rejected": "rejected",
            "Changes requested": "changes_requested",
            "Approval expired": "approval_expired",
            "Approval void": "approval_voided",
            "Replaced by another": "superseded",
            "Cancelled": "cancelled",
            "Ended: its system": "provider_outage",
        }.items()
    ),
    ("execution", r"[Rr]eported success", "a claim of success", _any_answer("success")),
    ("execution", r"[Rr]eported failure|^Failed", "an answer that says failed", _any_answer("failed")),
    ("", r"^Accepted by the target", "an answer that says accepted", _any_answer("accepted")),
    ("execution", r"done in part", "an answer that says partial", _any_answer("partial")),
    ("execution", r"unfinished", "an answer that says pending", _any_answer("pending")),
    ("execution", r"a timeout", "an answer that says timeout", _any_answer("timeout")),
    ("execution", r"^No usable answer", "an answer that nobody can read", _any_answer("malformed")),
    (
        "",
        r"nothing was sent|before anything was sent|sent nothing",
        "an answer that nothing was sent",
        lambda events: any("nothing_sent" in each.detail.get("grounds", ()) for each in answers(events)),
    ),
    ("execution", r"never answered|no answer yet", "no answer", lambda events: not answers(events)),
    ("execution", r"never answered", "a lease that ended", lambda events: "lease_ended" in kinds(of_attempt(events))),
    (
        "",
        r"^Not started|[Nn]othing was executed|[Nn]othing has been attempted|not executed$|No start|^Not executed",
        "no start",
        lambda events: "execution_started" not in kinds(events),
    ),
    (
        "",
        r"not executed|Not executed|[Nn]othing was executed|Nothing has been attempted|^Not started",
        "no start that the record has lost, or a start and what it came to",
        lambda events: (
            "execution_started" in kinds(events) or not {"held_after_restore", "start_without_record"} & kinds(events)
        ),
    ),
    (
        "",
        r"[Nn]o start (is )?on record",
        "a start that the record has lost",
        lambda events: bool({"held_after_restore", "start_without_record"} & kinds(events)),
    ),
    (
        "payload",
        r"\bas executed|handed to the executor",
        "a start",
        lambda events: "execution_started" in kinds(events),
    ),
    (
        "",
        r"Attempt \d|[Aa]n attempt|Attempted\.|\bagain\b",
        "a start",
        lambda events: "execution_started" in kinds(events),
    ),
    ("", r"tool (has answered|reported)", "an answer", lambda events: bool(answers(events))),
    (
        "",
        r"no reading$|it was not verified by a reading|^Not read|not been read",
        "no reading of this attempt",
        lambda events: not runs(of_attempt(events)),
    ),
    (
        "",
        r"^Not read yet",
        "no run of this attempt",
        lambda events: not any(e.detail.get("run") for e in of_attempt(events)),
    ),
    (
        "",
        r"weak reading",
        "a weak reading, and no strong one",
        lambda events: (
            bool(runs(of_attempt(events)))
            and not any(
                each.detail["listed"]["consistency"] == "PRIMARY"
                for each in of_attempt(events)
                if each.detail.get("listed", {}).get("source")
            )
        ),
    ),
    (
        "",
        r"[Ii]nconclusive readings|settled nothing",
        "a reading that decided nothing",
        lambda events: bool(runs(of_attempt(events))) and not newest(events),
    ),
    ("", r"has been read\.|^Read, being", "a reading", lambda events: bool(runs(of_attempt(events)))),
    (
        "",
        r"Done, and confirmed|^Verified|^Confirmed",
        "a newest reading that showed it",
        lambda events: newest(events) == "wanted",
    ),
    (
        "",
        r"showed it as requested|shows it as requested",
        "a newest reading that showed it",
        lambda e: newest(e) == "wanted",
    ),
    (
        "",
        r"No effect, confirmed|shows that nothing happened|shows no effect|no effect is there|showed no effect",
        "a newest reading that showed nothing",
        lambda events: newest(events) == "nothing",
    ),
    (
        "",
        r"No effect, confirmed|shows that nothing happened|before it took effect|Nothing durable",
        "no reading of this attempt that showed an effect",
        lambda events: not ever(events, "wanted", "otherwise"),
    ),
    ("", r"any more", "an earlier reading that showed an effect", lambda events: ever(events, "wanted", "otherwise")),
    ("", r"^It was done and|^It took effect\.", "a reading that showed it as requested", lambda e: ever(e, "wanted")),
    (
        "",
        r"took effect, not as requested|^Not as requested|It was not as requested|It did not go as planned",
        "a reading that showed something else",
        lambda events: ever(events, "otherwise", "nothing"),
    ),
    ("", r"What came of it is not known\.", "no decisive reading", lambda events: not newest(events)),
    (
        "",
        r"[Nn]othing happened(?!\.)",
        "a person who attested absence",
        lambda events: last_word(events, "attested_absent"),
    ),
    (
        "",
        r"reversal is confirmed|^Reversed$|^Compensated",
        "a reversal that was read back",
        lambda events: (
            [each.kind for each in events if each.kind in ("compensated", "compensation_attested")][-1:]
            == ["compensated"]
        ),
    ),
    (
        "",
        r"by a later reading|but a later reading of",
        "a reading that contradicts",
        _doubted_by("contradicted", run=True),
    ),
    ("", r"[Dd]ispute", "a person who disputes it", _doubted_by("doubted", run=False)),
    (
        "",
        r"recovery action (did not hold|was contradicted|that it rests)",
        "a recovery action that was contradicted",
        _doubted_by("contradicted", run=False),
    ),
    (
        "",
        r"[Aa]ttested (that it took|by a person: it took)|^Attested by a person[;,]",
        "a person who attested presence, or absence",
        lambda events: last_word(events, "attested_present", "attested_absent"),
    ),
    (
        "",
        r"attested that it took|Attested by a person: it took",
        "a person who attested presence",
        lambda events: last_word(events, "attested_present"),
    ),
    (
        "",
        r"person (has )?accepted|[Aa]ccepted .*by a person",
        "a person who accepted it",
        lambda e: last_word(e, "accepted_as_it_is"),
    ),
    (
        "",
        r"[Ss]ettled (it )?as failed",
        "a person who settled it as failed",
        lambda e: last_word(e, "failed_by_review"),
    ),
    (
        "",
        r"In part|Partially applied|(?<!Reported as )(?<!reported as )[Dd]one in part",
        "a partial reading",
        _found("PARTIAL_APPLICATION"),
    ),
    ("", r"[Dd]uplicate effect", "a duplicate", _found("DUPLICATE_SIDE_EFFECT")),
    ("", r"[Vv]alues differ", "another value", _found("VALUE_MISMATCH")),
    ("", r"must be reversed", "an effect to reverse", _found("COMPENSATION_REQUIRED")),
    ("", r"[Nn]othing changed", "a claim that nothing bears out", _found("NO_OP_FAILURE")),
    ("", r"did not settle it", "a recovery that was proposed", lambda events: "recovery_proposed" in kinds(events)),
    *(("", re.escape(text), f"a reading of {text}", _difference(text)) for text in DIFFERENCES.values()),
]


def false_words(surface: str, text: str, events: Events) -> list[str]:
    """What a text says without its events."""
    return [
        f"{surface}: {text!r} needs {need}"
        for where, pattern, need, holds in RULES
        if where in ("", surface) and re.search(pattern, text) and not holds(events)
    ]
