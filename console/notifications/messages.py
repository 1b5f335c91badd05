"""What a message says: verb, class, risk, how long it waits and until when, and a link that asks for a sign-in.

No payload, no target, no argument and no word of the agent leaves the console: what is cut off in a message is what
somebody decides on unseen, and what stands in it is read by everybody on the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from approvals.requests.rules.rendering import mark_hidden
from console.notifications.rules import Occasion
from console.web import labels

NO_POWER: Final = "This message gives nobody any power: whoever follows the link signs in first, and decides there."
_LONGEST_VERB: Final = 60

# To one person; to a room; what to add.
SAID: Final[dict[str, tuple[str, str, str]]] = {
    Occasion.REQUESTED: ("An approval waits for you", "An approval waits", ""),
    Occasion.REMINDED: ("An approval still waits for you", "An approval still waits", "Its time is running out."),
    Occasion.ESCALATED: ("An approval was escalated to you", "An approval was escalated", "It has waited too long."),
    Occasion.OVERDUE: ("An escalated approval still waits", "An escalated approval still waits", ""),
    Occasion.ASSIGNED: ("An approval was given to you", "An approval was assigned", ""),
    Occasion.NO_APPROVER: (
        "Nobody may decide an approval",
        "Nobody may decide an approval",
        "No eligible approver is left. It waits, and lapses if nothing changes.",
    ),
    Occasion.MENTIONED: ("You were mentioned at an approval", "Somebody was mentioned at an approval", ""),
    Occasion.ANSWERED: ("The agent answered your question", "The agent answered a question", ""),
    Occasion.APPROVED: (
        "Approved, and not run yet",
        "Approved, and not run yet",
        "That is permission, no more.",
    ),
    Occasion.REJECTED: ("Rejected", "Rejected", "It will not run."),
    Occasion.CHANGES: ("Changes were requested", "Changes were requested", "It will not run as it is."),
    Occasion.EXPIRED: ("An approval has lapsed", "An approval has lapsed", "Nobody denied it; its time was over."),
    Occasion.VOIDED: ("An approval was set aside", "An approval was set aside", "It authorises nothing any more."),
    Occasion.EMERGENCY: ("Break-glass was used", "Break-glass was used", "Two others must look at it."),
    Occasion.AGENT_FLAGGED: (
        "An agent's calls need a look",
        "An agent's calls need a look",
        "It invents tools, is refused too often, or probes. Check the tools loaded, renames and the model tier.",
    ),
    Occasion.CONTRACT_WAITS: (
        "A weaker contract version waits for a second person",
        "A weaker contract version waits for a second person",
        "No agent is shown it until a second person accepts it.",
    ),
    Occasion.SYSTEM_WAITS: (
        "A change of a system waits for a second person",
        "A change of a system waits for a second person",
        "It is read as before until a second person accepts it.",
    ),
    Occasion.KEY_WAITS: ("A passkey waits for a second person", "A passkey waits for a second person", ""),
    Occasion.CASE_OPENED: ("A case needs somebody", "A case needs somebody", "It waits for a person to settle it."),
    Occasion.CASE_REOPENED: (
        "A settled case was opened again",
        "A settled case was opened again",
        "Until it is settled again, the final state counts as not known.",
    ),
    Occasion.CASE_ASSIGNED: ("A case was given to you", "A case was assigned", ""),
    Occasion.SETTLEMENT_WAITS: (
        "A settlement waits for you as second person",
        "A settlement waits for a second person",
        "Nothing is carried out until somebody else confirms it.",
    ),
    Occasion.UNKNOWN: (
        "The outcome of an action is not known",
        "The outcome of an action is not known",
        "It may have happened or not. It is read again; a repeat is refused.",
    ),
    Occasion.ALERT_RAISED: (
        "A metric has passed its alert threshold",
        "A metric has passed its alert threshold",
        "The Metrics page says which, and by how much.",
    ),
    Occasion.ALERT_CLEARED: (
        "An alert was cleared",
        "An alert was cleared",
        "The Metrics page says why.",
    ),
    Occasion.REGRESSION_FOUND: (
        "A new version verifies differently, beyond chance",
        "A new version verifies differently, beyond chance",
        "The Metrics page says which version, and which rates.",
    ),
    Occasion.STANDING_APPROVAL_PAUSED: (
        "A standing approval that you agreed to is paused",
        "A standing approval is paused",
        "Nothing passes under it any more; people are asked about each call again. Its page says why.",
    ),
    Occasion.ROLES_WAIT: (
        "A change of roles waits for a second administrator",
        "A change of roles waits for a second administrator",
        "",
    ),
    Occasion.SEPARATION_WAITS: (
        "A separation of accounts waits for a second administrator",
        "A separation of accounts waits for a second administrator",
        "",
    ),
    Occasion.ERASURE_WAITS: (
        "A request to erase waits for a second person",
        "A request to erase waits for a second person",
        "Nothing is erased until somebody else confirms it.",
    ),
    Occasion.RETENTION_WAITS: (
        "A retention policy waits for a second person",
        "A retention policy waits for a second person",
        "It is not in force until somebody else confirms it.",
    ),
}


@dataclass(frozen=True)
class NoticeFact:
    """What may be told of one thing; without an action (a key), only the link, and of a flagged agent its runbook."""

    kind: str
    href: str
    verb: str = ""
    side_effect_class: str = ""
    reversibility: str = ""
    risk: str = ""
    asked_at: datetime | None = None
    decide_by: datetime | None = None
    still_waits: bool = False
    # What it is about, with its target: shown inside the console only, never sent.
    title: str = ""
    runbook: str = ""


@dataclass(frozen=True)
class RenderedMessage:
    """A message by any channel: its head line, and one paragraph for each thing it tells."""

    subject: str
    paragraphs: tuple[str, ...]


def operation_verb(operation_kind: str) -> str:
    """The operation as a word: registered with the contract, never an agent's; cut where it is no word."""
    plain, _ = mark_hidden(operation_kind.replace("_", " ").replace("-", " ").strip())
    return (plain[:1].upper() + plain[1:])[:_LONGEST_VERB] or "Run"


def render_message(facts: Sequence[NoticeFact], *, tenant: str, personal: bool, at: datetime) -> RenderedMessage:
    """The message that tells these things."""
    said = [message_title(each.kind, personal=personal) for each in facts]
    if len(facts) == 1:
        subject = f"Counterfoil: {_low(said[0])} in {tenant}"
    else:
        waiting = sum(each.still_waits for each in facts)
        subject = f"Counterfoil: {len(facts)} things in {tenant}, {waiting} of them waiting"
    told = zip(said, facts, strict=True)
    return RenderedMessage(subject, tuple(_paragraph(head, each, at=at) for head, each in told))


def message_title(kind: str, *, personal: bool = True) -> str:
    """What happened, in a line."""
    return SAID[kind][0 if personal else 1]


def _low(text: str) -> str:
    return text[:1].lower() + text[1:]


def _paragraph(head: str, fact: NoticeFact, *, at: datetime) -> str:
    lines = [f"{head}." if not fact.verb else f"{head}: {describe_fact(fact)}."]
    lines += [part for part in (SAID[fact.kind][2], describe_times(fact, at=at)) if part]
    book = [f"For invented tools, the runbook: {fact.runbook}"] if fact.runbook else []
    return "\n".join([" ".join(lines), fact.href, *book])


def describe_fact(fact: NoticeFact) -> str:
    """Verb, class, reversibility and risk."""
    parts = [
        fact.verb,
        labels.SIDE_EFFECT_CLASSES.get(fact.side_effect_class, "").lower(),
        labels.REVERSIBILITY.get(fact.reversibility, "").lower(),
        f"{fact.risk.lower()} risk" if fact.risk else "",
    ]
    return ", ".join(part for part in parts if part)


def describe_times(fact: NoticeFact, *, at: datetime) -> str:
    """How long it waits, and until when."""
    if not fact.still_waits or fact.asked_at is None or fact.decide_by is None:
        return ""
    return f"It has waited {_span(fact.asked_at, at)}; to be decided by {format_moment(fact.decide_by)}."


def format_moment(at: datetime) -> str:
    """A moment in words; mail has no tooltip, so the zone is said."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _span(since: datetime, at: datetime) -> str:
    minutes = max(int((at - since).total_seconds()) // 60, 0)
    if minutes < 1:
        return "less than a minute"
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 48 * 60 else f"{minutes // 1440} days"


def webhook_event(fact: NoticeFact, line: dict[str, Any]) -> dict[str, Any]:
    """The same for a machine."""
    return {
        "kind": fact.kind,
        "about": {"kind": line["about_kind"], "id": line["about"]},
        "verb": fact.verb or None,
        "side_effect_class": fact.side_effect_class or None,
        "reversibility": fact.reversibility or None,
        "risk": fact.risk or None,
        "requested_at": fact.asked_at.astimezone(UTC).isoformat() if fact.asked_at else None,
        "decide_by": fact.decide_by.astimezone(UTC).isoformat() if fact.decide_by else None,
        "url": fact.href,
    }
