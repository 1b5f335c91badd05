"""The text of a message: verb, class, risk, waiting time and deadline, and a link that requires signing in.

No payload, no target, no argument and no word of the agent leaves the console: people must not decide on an excerpt,
and messages can be read on their way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from approvals.requests.rules.rendering import mark_hidden
from console.notifications.rules import WAITS, Occasion
from console.web import labels

NO_POWER: Final = "The link requires sign-in; decisions are made in the console."
_LONGEST_VERB: Final = 60

# To one person; to a room; what to add.
TITLES: Final[dict[str, tuple[str, str, str]]] = {
    Occasion.REQUESTED: ("Approval needed", "Approval needed", ""),
    Occasion.REMINDED: ("Approval still needed", "Approval still needed", "Deadline approaching."),
    Occasion.ESCALATED: ("Approval escalated to you", "Approval escalated", "Nobody has decided in time."),
    Occasion.OVERDUE: ("Escalated approval is overdue", "Escalated approval is overdue", ""),
    Occasion.ASSIGNED: ("Approval assigned to you", "Approval assigned", ""),
    Occasion.NO_APPROVER: (
        "No eligible approver",
        "No eligible approver",
        "The request will expire unless an approver becomes available.",
    ),
    Occasion.MENTIONED: ("You were mentioned on an approval", "Person mentioned on an approval", ""),
    Occasion.ANSWERED: ("The agent answered your question", "The agent answered a question", ""),
    Occasion.APPROVED: (
        "Approved, not yet executed",
        "Approved, not yet executed",
        "Approved does not mean executed.",
    ),
    Occasion.REJECTED: ("Rejected", "Rejected", "It will not run."),
    Occasion.CHANGES: ("Changes were requested", "Changes were requested", "It will not run in this form."),
    Occasion.EXPIRED: ("Approval expired", "Approval expired", "It was not decided in time."),
    Occasion.VOIDED: ("Approval superseded", "Approval superseded", "It no longer authorises anything."),
    Occasion.WITHDRAWN: (
        "Request withdrawn",
        "Request withdrawn",
        "Its agent was stopped, or may no longer do this. Nobody needs to decide.",
    ),
    Occasion.BREAK_GLASS: ("Break-glass was used", "Break-glass was used", "Others must review it."),
    Occasion.AGENT_FLAGGED: (
        "Agent flagged",
        "Agent flagged",
        "It calls unknown or undisclosed tools, or is blocked often. Check loaded tools, renames and the model tier.",
    ),
    Occasion.CONTRACT_WAITS: (
        "Weaker contract version requires a second approver",
        "Weaker contract version requires a second approver",
        "Not used until a second person confirms it.",
    ),
    Occasion.SYSTEM_WAITS: (
        "System change requires a second approver",
        "System change requires a second approver",
        "Current settings apply until a second person confirms it.",
    ),
    Occasion.KEY_WAITS: (
        "Passkey requires confirmation by a second person",
        "Passkey requires confirmation by a second person",
        "",
    ),
    Occasion.CASE_OPENED: ("New case", "New case", "It needs an operator to resolve it."),
    Occasion.CASE_REOPENED: (
        "Case reopened",
        "Case reopened",
        "Until it is resolved again, the outcome counts as unknown.",
    ),
    Occasion.CASE_ASSIGNED: ("Case assigned to you", "Case assigned", ""),
    Occasion.SETTLEMENT_WAITS: (
        "Case resolution requires your confirmation",
        "Case resolution requires a second approver",
        "Nothing is carried out before that.",
    ),
    Occasion.UNKNOWN: (
        "Outcome of an action unknown",
        "Outcome of an action unknown",
        "It may or may not have taken effect. Verification continues; retries are blocked.",
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
    Occasion.BUDGET_SHARE_REACHED: (
        "A share of the budget of costs is used",
        "A share of the budget of costs is used",
        "The Costs page says how much is left.",
    ),
    Occasion.BUDGET_PASSED: (
        "The budget of costs is exceeded",
        "The budget of costs is exceeded",
        "Nothing is stopped by it. The Costs page says by how much, and who pays.",
    ),
    Occasion.STANDING_APPROVAL_PAUSED: (
        "A standing approval that you agreed to is paused",
        "A standing approval is paused",
        "No call passes under it now; each call needs approval again. Its page says why.",
    ),
    Occasion.STANDING_APPROVAL_WAITS: (
        "Standing approval requires a second person",
        "Standing approval requires a second person",
        "Nothing passes under it before that.",
    ),
    Occasion.TIME_BOXED_PASS_GIVEN: (
        "A time-boxed pass was given",
        "A time-boxed pass was given",
        "Calls of one exact shape pass without a vote until it ends. Its page says which, and revokes it.",
    ),
    Occasion.TIME_BOXED_PASS_REVOKED: (
        "A time-boxed pass was revoked",
        "A time-boxed pass was revoked",
        "Nothing passes under it any more, and what has not started needs a vote.",
    ),
    Occasion.RELEASE_WAITS: (
        "Release requires a second approver",
        "Release requires a second approver",
        "Not in force before that.",
    ),
    Occasion.INCIDENT_OPENED: ("Incident opened", "Incident opened", "It needs an operator to contain and close it."),
    Occasion.SYSTEM_DOWN: (
        "System of record down",
        "System of record down",
        "Nothing is verified in it until it answers; outcomes stay open, not failed.",
    ),
    Occasion.SYSTEM_UP: (
        "System of record reachable again",
        "System of record reachable again",
        "Verification of what waited for it continues.",
    ),
    Occasion.EXPORT_READY: ("Your export is ready", "Export ready", "Its download is recorded."),
    Occasion.EXPORT_FAILED: ("Your export failed", "Export failed", "Start it again on the Exports page."),
    Occasion.ROLES_WAIT: (
        "Role change requires a second administrator",
        "Role change requires a second administrator",
        "",
    ),
    Occasion.SEPARATION_WAITS: (
        "Account separation requires a second administrator",
        "Account separation requires a second administrator",
        "",
    ),
    Occasion.ERASURE_WAITS: (
        "Erasure request requires a second approver",
        "Erasure request requires a second approver",
        "Nothing is erased before that.",
    ),
    Occasion.RETENTION_WAITS: (
        "Retention policy requires a second approver",
        "Retention policy requires a second approver",
        "Not in force before that.",
    ),
}


@dataclass(frozen=True)
class NoticeFact:
    """The facts that a message may contain about one object.

    Without an action (a key) that is only the link, and for a flagged agent its runbook.
    """

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
    """A message by any channel: its subject, and one paragraph for each fact."""

    subject: str
    paragraphs: tuple[str, ...]


def operation_verb(operation_kind: str) -> str:
    """The operation as a verb from the contract, never from an agent; shortened if it is not one word."""
    plain, _ = mark_hidden(operation_kind.replace("_", " ").replace("-", " ").strip())
    return (plain[:1].upper() + plain[1:])[:_LONGEST_VERB] or "Run"


def render_message(facts: Sequence[NoticeFact], *, tenant: str, personal: bool, at: datetime) -> RenderedMessage:
    """The message about these facts."""
    titles = [message_title(each.kind, personal=personal) for each in facts]
    if len(facts) == 1:
        subject = f"Counterfoil: {_low(titles[0])} in {tenant}"
    else:
        waiting = sum(each.still_waits for each in facts)
        subject = f"Counterfoil: {len(facts)} items in {tenant}, {waiting} waiting"
    pairs = zip(titles, facts, strict=True)
    return RenderedMessage(subject, tuple(_paragraph(title, each, at=at) for title, each in pairs))


def render_update(facts: Sequence[NoticeFact], endings: Sequence[str], *, tenant: str, at: datetime) -> RenderedMessage:
    """The update of a message in a room: the same facts as they are now."""
    waiting = sum(each.still_waits for each in facts)
    if len(facts) == 1 and not waiting:
        subject = f"Counterfoil: {'decided' if endings[0] else 'no longer waiting'} in {tenant}"
    elif len(facts) == 1:
        subject = f"Counterfoil: {_low(message_title(facts[0].kind, personal=False))} in {tenant}"
    else:
        subject = f"Counterfoil: {len(facts)} items in {tenant}, {waiting} waiting"
    pairs = zip(facts, endings, strict=True)
    return RenderedMessage(subject, tuple(_current_paragraph(each, ending, at=at) for each, ending in pairs))


def _current_paragraph(fact: NoticeFact, ending: str, *, at: datetime) -> str:
    title = message_title(fact.kind, personal=False)
    if fact.still_waits or (not ending and fact.kind not in WAITS):
        return _paragraph(title, fact, at=at)
    head = ending or f"No longer waiting ({_low(title)})"
    return "\n".join([f"{head}: {describe_fact(fact)}." if fact.verb else f"{head}.", fact.href])


def message_title(kind: str, *, personal: bool = True) -> str:
    """The title of a message, in one line."""
    return TITLES[kind][0 if personal else 1]


def _low(text: str) -> str:
    return text[:1].lower() + text[1:]


def _paragraph(head: str, fact: NoticeFact, *, at: datetime) -> str:
    lines = [f"{head}." if not fact.verb else f"{head}: {describe_fact(fact)}."]
    lines += [part for part in (TITLES[fact.kind][2], describe_times(fact, at=at)) if part]
    book = [f"Runbook for unknown tools: {fact.runbook}"] if fact.runbook else []
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
    """The time that it has waited, and its deadline."""
    if not fact.still_waits or fact.asked_at is None or fact.decide_by is None:
        return ""
    return f"Waiting for {_span(fact.asked_at, at)}; due {format_moment(fact.decide_by)}."


def format_moment(at: datetime) -> str:
    """Return a time in words with its zone, because mail has no tooltip."""
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
