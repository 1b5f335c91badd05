"""Everything that waits for a second person, and whether a person may be that one.

One statement reads all of it with the people who cannot be the second person: the proposer, the person concerned, and
whoever has confirmed already, each as the human behind the account. Home, its badge and the API use
`confirmations_for`; the operation that takes the answer applies the rules of its own subject again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, LiteralString, NamedTuple
from uuid import UUID

from django.urls import reverse

from approvals.voting.operations import approver_keys
from console.accounts.members import operations as members
from console.web import labels
from ledger.catalogue.operations import second_person
from ledger.db import execute, tenancy
from ledger.people.rules.confirmation import TERMS, Answer, has_expired
from ledger.record.operations import SYSTEM
from ledger.record.rules.refusals import Refused
from ledger.retention.operations import erasure, off_boarding, retention

if TYPE_CHECKING:
    from console.edge.auth import Caller

MOST: Final = 100
_WAITING: Final[LiteralString] = """
WITH waiting AS (
    SELECT 'case' AS kind, id, target AS name, '' AS place, proposed_resolution AS what,
           opened_at AS since, ARRAY[proposed_by] AS actors, ARRAY[]::text[] AS people
      FROM reviews_case WHERE tenant_id = $1 AND state = 'AWAITING_SECOND'
    UNION ALL
    SELECT 'contract', c.id, c.name, c.version, '', c.registered_at, ARRAY[c.sent_by], '{}'
      FROM ledger_contractversion c JOIN ledger_subject s ON s.tenant_id = $1 AND s.id = c.id
     WHERE c.tenant_id = $1 AND s.state = 'PENDING'
    UNION ALL
    SELECT 'system', id, name, '', '', (proposal->>'at')::timestamptz, ARRAY[(proposal->>'by')::uuid], '{}'
      FROM ledger_system WHERE tenant_id = $1 AND proposal IS NOT NULL
    UNION ALL
    SELECT 'key', id, name, '', '', created_at, ARRAY[proposed_by], ARRAY[person_id::text]
      FROM approvals_approverkey WHERE tenant_id = $1 AND state = 'PENDING'
    UNION ALL
    SELECT 'member', id, actor_id::text, '', proposal->>'what', (proposal->>'at')::timestamptz,
           ARRAY[(proposal->>'by')::uuid], ARRAY[person_id::text, proposal->>'by_person']
      FROM console_membership WHERE tenant_id = $1 AND proposal IS NOT NULL AND removed_at IS NULL
    UNION ALL
    SELECT 'erasure', id, legal_basis, '', '', requested_at, ARRAY[requested_by], '{}'
      FROM ledger_erasure WHERE tenant_id = $1 AND state = 'REQUESTED'
    UNION ALL
    SELECT 'retention', id, '', '', '', proposed_at, ARRAY[proposed_by], '{}'
      FROM ledger_retention WHERE tenant_id = $1 AND state = 'PROPOSED'
    UNION ALL
    SELECT 'off_boarding', (convert_from(n.detail, 'UTF8')::jsonb ->> 'off_boarding_id')::uuid, '', '', '', e.at,
           '{}', '{}'
      FROM ledger_event e JOIN ledger_entry n ON n.tenant_id = $1 AND n.subject_id = $1 AND n.seq = e.seq
     WHERE e.tenant_id = $1 AND e.subject_id = $1 AND e.kind = 'off_boarding_requested'
       AND NOT EXISTS (SELECT FROM ledger_event l WHERE l.tenant_id = $1 AND l.subject_id = $1 AND l.seq > e.seq
           AND starts_with(l.kind, 'off_boarding_'))
    UNION ALL
    SELECT 'standing', id, tool, agent, '', proposed_at, ARRAY[proposed_by], ARRAY[proposed_person::text]
      FROM approvals_standingapproval WHERE tenant_id = $1 AND state = 'PROPOSED'
    UNION ALL
    SELECT 'release', id, kind, version, tool, changed_at, ARRAY[first_by], '{}'
      FROM ledger_release WHERE tenant_id = $1 AND first_by IS NOT NULL AND promoted_by IS NULL
       AND state IN ('DRAFT', 'CHECKED', 'CANARY', 'READY')
    UNION ALL
    SELECT 'emergency', id, reason, '', '', used_at, ARRAY[used_by],
           ARRAY(SELECT review->>'person' FROM jsonb_array_elements(reviews) review)
      FROM approvals_emergency WHERE tenant_id = $1 AND reviewed_at IS NULL
)
"""
_FOR_PERSON: Final[LiteralString] = f"""{_WAITING}
, person AS (SELECT actor_id, person_id FROM console_membership WHERE tenant_id = $1)
SELECT kind, id, name, place, what, since FROM waiting
 WHERE kind = ANY($3) AND $2 <> ALL(array_remove(actors, NULL))
   AND NOT EXISTS (SELECT FROM person mine WHERE mine.actor_id = $2 AND (mine.person_id::text = ANY(people)
       OR mine.person_id IN (SELECT person_id FROM person WHERE actor_id = ANY(actors))
       OR mine.person_id IN (SELECT ledger_person($1, key.actor_id) FROM console_apikey key
           WHERE key.tenant_id = $1 AND key.actor_id = ANY(actors))))
 ORDER BY since, id LIMIT {MOST}
"""


_BEFORE: Final[LiteralString] = f"""{_WAITING}
SELECT kind, id, name, place, what, since FROM waiting WHERE kind = ANY($2) AND since <= $3
 ORDER BY since, id LIMIT {MOST}
"""


class ConfirmationKind(NamedTuple):
    """One kind of decision by a second person: its label, and its page."""

    icon: str
    title: Callable[[Confirmation], str]
    page: Callable[[str, Confirmation], str]


@dataclass(frozen=True)
class Confirmation:
    """One decision that waits for a second person; the meaning of `name`, `place` and `what` depends on its kind."""

    kind: str
    id: UUID
    name: str
    place: str
    what: str
    since: datetime

    @property
    def title(self) -> str:
        return KINDS[self.kind].title(self)

    @property
    def icon(self) -> str:
        return KINDS[self.kind].icon

    def page(self, slug: str) -> str:
        """The address at which it is decided."""
        return KINDS[self.kind].page(slug, self)


def confirmations_for(caller: Caller, tenant_id: UUID) -> list[Confirmation]:
    """The proposals that this person may decide as the second one, oldest first."""
    kinds = [kind for kind, terms in TERMS.items() if terms.roles & caller.roles]
    return [Confirmation(*row) for row in execute(_FOR_PERSON, tenant_id, caller.actor.id, kinds)] if kinds else []


def end_expired_proposals(tenant_id: UUID, *, at: datetime) -> int:
    """End the proposals of a tenant that were not confirmed in time, each in its own transaction; return their number.

    If we crash between two, the next run ends the rest.
    """
    lives = {kind: terms.lives for kind, terms in TERMS.items() if terms.lives is not None}
    with tenancy(tenant_id):
        rows = execute(_BEFORE, tenant_id, list(lives), at - min(lives.values()))
    expired = [each for each in (Confirmation(*row) for row in rows) if has_expired(each.kind, each.since, at=at)]
    return sum(_end(tenant_id, each, at=at) for each in expired)


def _end(tenant_id: UUID, each: Confirmation, *, at: datetime) -> bool:
    reason = "Nobody confirmed it in time."
    facts: dict[str, Any] = {"tenant_id": tenant_id, "by": SYSTEM, "at": at}
    try:
        with tenancy(tenant_id):
            match each.kind:
                case "contract":
                    second_person.decide_contract_change(
                        **facts, name=each.name, version=each.place, answer=Answer.DECLINE, reason=reason
                    )
                case "system":
                    second_person.decide_system_change(**facts, name=each.name, answer=Answer.DECLINE, reason=reason)
                case "erasure":
                    erasure.answer_erasure(**facts, erasure_id=each.id, answer=Answer.WITHDRAW, reason=reason)
                case "retention":
                    retention.answer_policy(**facts, retention_id=each.id, answer=Answer.WITHDRAW, reason=reason)
                case "off_boarding":
                    off_boarding.answer_off_boarding(
                        **facts, off_boarding_id=each.id, answer=Answer.DECLINE, reason=reason
                    )
                case "member":
                    members.answer_proposal(**facts, member_id=each.id, answer=Answer.DECLINE)
                case "key":
                    approver_keys.refuse(**facts, key_id=each.id, reason=reason)
    except Refused:
        # Somebody answered it meanwhile.
        return False
    return True


def _resolution(each: Confirmation) -> str:
    return labels.RESOLUTIONS.get(each.what, (labels.sentence_case(each.what), ""))[0].lower()


def _page_address(name: str, *, by_id: bool = True, anchor: str = "") -> Callable[[str, Confirmation], str]:
    return lambda slug, each: reverse(name, args=[slug, each.id] if by_id else [slug]) + anchor


_MEMBER: Final = {"roles": "Confirm new roles of a member", "separation": "Confirm separating two accounts"}
KINDS: Final = {
    "case": ConfirmationKind(
        "cases", lambda each: f"Confirm a resolution: {_resolution(each)}, {each.name}", _page_address("case")
    ),
    "contract": ConfirmationKind(
        "contracts",
        lambda each: f"Confirm a weaker contract: {each.name} {each.place}",
        lambda slug, each: reverse("contract", args=[slug, each.name, each.place]),
    ),
    "system": ConfirmationKind(
        "systems",
        lambda each: f"Confirm a change of the system {each.name}",
        lambda slug, each: f"{reverse('systems', args=[slug])}#system-{each.id}",
    ),
    "key": ConfirmationKind(
        "key",
        lambda each: f"Confirm a passkey: {each.name}",
        _page_address("people", by_id=False),
    ),
    "member": ConfirmationKind(
        "people", lambda each: _MEMBER.get(each.what, _MEMBER["roles"]), _page_address("member")
    ),
    "erasure": ConfirmationKind(
        "ledger",
        lambda each: f"Confirm an erasure: {each.name}",
        _page_address("holds", by_id=False),
    ),
    "retention": ConfirmationKind(
        "ledger", lambda each: "Confirm a retention policy", _page_address("holds", by_id=False)
    ),
    "off_boarding": ConfirmationKind(
        "ledger", lambda each: "Confirm the off-boarding of this tenant", _page_address("holds", by_id=False)
    ),
    "standing": ConfirmationKind(
        "approvals",
        lambda each: f"Agree to a standing approval: {each.name} by {each.place}",
        _page_address("standing-approval"),
    ),
    "release": ConfirmationKind(
        "policies",
        lambda each: f"Promote a release: {each.what or each.name + ' policy'} {each.place}",
        _page_address("release"),
    ),
    "emergency": ConfirmationKind(
        "alarm",
        lambda each: f"Review a use of break-glass: {each.name}",
        _page_address("emergencies", by_id=False),
    ),
}
