"""Judges outgoing messages against the record and stores each verdict with its grounds (R-CG-19).

The message, its corrected text and the quotes are sealed as evidence of the session, and go with it when it is erased;
the event and the log's row hold hashes, spans, codes and the states that were looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from ledger.catalogue.rules.report_templates import DEFAULT_LANGUAGE
from ledger.record import operations as ledger
from ledger.record.rules.canonical import digest
from ledger.record.rules.outcomes import outcome_of
from ledger.record.rules.refusals import Refused
from reviews.guarding.queries import Speaker, actions_of, ground_of, untold_changes
from reviews.guarding.rules.receipt import Receipt, receipt_of
from reviews.guarding.rules.records import Stated
from reviews.guarding.rules.verdict import Found, MessageVerdict, Strictness, judge
from reviews.models import GuardVerdict


class MessageUnguarded(Refused):
    """A session that must be guarded ends with a change that no guarded message followed."""

    code = "MESSAGE_UNGUARDED"


@dataclass(frozen=True, slots=True)
class Guarded:
    """The guard's verdict on a message, and the receipt that goes with it."""

    verdict: MessageVerdict
    receipt: Receipt


def guard(
    *,
    speaker: Speaker,
    message: str,
    stated: tuple[Stated, ...] = (),
    language: str = DEFAULT_LANGUAGE,
    strict: Strictness | None = None,
    at: datetime,
) -> Guarded:
    """Judge a message and store the verdict; `language` is that of the message and of its receipt."""
    actions = actions_of(speaker)
    ground = ground_of(speaker, actions, at=at)
    verdict = judge(message, ground, stated, strict=strict, language=language)
    receipt = receipt_of(ground, language=language, message=message, notes=verdict.notes)
    guarded = Guarded(verdict, receipt)
    _keep(speaker, message, guarded, actions, at=at)
    return guarded


def check_guarded(tenant_id: UUID, session_id: UUID) -> None:
    """Raise `MessageUnguarded` if a change of the session was not followed by a guarded message."""
    untold = untold_changes(tenant_id, session_id)
    if untold:
        raise MessageUnguarded(f"{len(untold)} of its changes were followed by no message that the guard has seen.")


def receipt_of_session(speaker: Speaker, *, language: str = DEFAULT_LANGUAGE, at: datetime) -> Receipt:
    """The receipt of everything that a session changed."""
    return receipt_of(ground_of(speaker, actions_of(speaker), at=at), language=language, only_new=False)


def _keep(speaker: Speaker, message: str, guarded: Guarded, actions: list[Any], *, at: datetime) -> None:
    verdict = guarded.verdict
    blocked = verdict.verdict == "BLOCK"
    used = [
        {"action_id": str(each.id), "seq": each.seq, "state": each.state, "outcome": str(outcome_of(each))}
        for each in actions
    ]
    used += [{"action_id": each.action_id, "seq": 0, "state": "", "outcome": each.outcome} for each in speaker.refused]
    claims = [_without_quote(each) for each in verdict.claims]
    codes, tags = (
        _distinct(each.code for each in verdict.violations),
        _distinct(each.tag for each in verdict.violations),
    )
    message_hash = digest(message.encode("utf-8", "replace"))
    head = ledger.lock_subject(tenant_id=speaker.tenant_id, subject_id=speaker.session_id, kind="session")
    sealed = ledger.store_evidence(
        tenant_id=speaker.tenant_id,
        subject_id=speaker.session_id,
        purpose="message",
        data=orjson.dumps({"message": message, **asdict(verdict), "receipt": guarded.receipt.text}),
        media_type="application/json",
        source=f"agent {speaker.agent_id}",
        at=at,
    )
    head = ledger.append(
        head,
        ledger.NewEvent(
            kind="message_blocked" if blocked else "message_allowed",
            detail={"codes": codes, "tags": tags, "message_hash": message_hash, "claims": claims, "records": used},
            evidence=(sealed,),
        ),
        actor=ledger.Actor("agent", speaker.actor_id),
        at=at,
    )
    assert head.event_id is not None
    GuardVerdict.objects.create(
        tenant_id=speaker.tenant_id,
        id=ledger.new_id(at),
        session_id=speaker.session_id,
        event_id=head.event_id,
        verdict=verdict.verdict,
        codes=codes,
        tags=tags,
        claims=claims,
        records=used,
        message_hash=message_hash,
        pointer=sealed.pointer,
        at=at,
    )


def _without_quote(claim: Found) -> dict[str, Any]:
    """Return a claim without its quote."""
    kept = {name: value for name, value in asdict(claim).items() if name != "quote"}
    return kept | {"span": list(claim.span), "action_ids": list(claim.action_ids)}


def _distinct(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))
