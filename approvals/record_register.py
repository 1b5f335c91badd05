"""The rules by which this package's rows follow from their events, for `ledger.register` and
`manage.py verify_ledger`.
"""

from __future__ import annotations

from typing import Any

from approvals.execution.rules import dpop
from approvals.sessions.rules import pins
from approvals.voting.rules import passkeys
from ledger.people.rules.statements import statement_hash
from ledger.record.rules.canonical import canonical, digest
from ledger.verification.rules.rebuilding import (
    KEEP,
    UNKNOWN,
    RecordTable,
    Row,
    VerifiedEvent,
    actor_of,
    changes_row,
    constant,
    creates_row,
    detail_field,
    envelope_digest,
    event_time,
    on_first_event,
    state_after,
)

_BY_VOTE = ("vote_cast", "approved", "rejected", "changes_requested", "break_glass_used")
_USAGE = ("agent_id", "model", "calls", "input_tokens", "output_tokens", "reference")


def _fold_approval(rows: dict[Any, Row], event: VerifiedEvent) -> None:
    """Apply deadlines and decisions to a request."""
    envelope = event.envelope
    row = rows.get(envelope.subject_id)
    if row is None:
        return
    if envelope.kind in ("clock_stopped", "clock_resumed"):
        row["paused_at"] = event.said("since", None)
        for column in ("decide_by", "release_by"):
            moved = event.said(column, KEEP)
            if moved is not KEEP:
                row[column] = moved
    if envelope.from_state != envelope.to_state and envelope.to_state in ("APPROVED", "REJECTED"):
        row["decided_at"] = envelope.at
        row["release_by"] = event.said("release_by") if envelope.to_state == "APPROVED" else row["release_by"]
        if envelope.kind != "break_glass_used":
            row["stranded_at"] = None


def _key_actor(event: VerifiedEvent) -> Any:
    return event.envelope.actor_id if event.envelope.actor_kind == "executor" else event.envelope.subject_id


def _verdict(event: VerifiedEvent) -> Any:
    return "break_glass" if event.envelope.kind == "break_glass_used" else event.said("verdict")


def _fold_reviews(rows: dict[Any, Row], event: VerifiedEvent) -> None:
    """The reviews of a use of break-glass, in their order."""
    row = rows.get(event.envelope.subject_id)
    if row is None or event.envelope.kind != "break_glass_reviewed" or row["reviews"] is UNKNOWN:
        return
    given = {name: event.said(name) for name in ("person", "finding", "reason")}
    if UNKNOWN in given.values():
        row["reviews"] = UNKNOWN
        return
    at_text = event.envelope.at.isoformat(timespec="microseconds").replace("+00:00", "Z")
    row["reviews"] = [*row["reviews"], given | {"actor": event.envelope.actor_id, "at": at_text}]


def _fold_roster(rows: dict[Any, Row], event: VerifiedEvent) -> None:
    """Apply an event to the roster: members of the role, and the people behind accounts and keys.

    An event from before members recorded their standing leaves the roster open.
    """
    kind = event.envelope.kind
    if kind == "key_issued":
        person = event.said("person", None)
        if person is not None:
            _identify(rows, event, event.said("key_actor"), person)
        return
    who, may = event.said("actor"), event.said("approver")
    if kind not in _OF_PEOPLE:
        return
    if may is UNKNOWN or who is UNKNOWN:
        rows.pop(who, None)
        rows[UNKNOWN] = {}
    elif kind in ("accounts_linked", "accounts_separated"):
        _identify(rows, event, who, event.said("person"))
    elif may:
        row = rows.setdefault(who, {"since": event.envelope.at})
        person, groups = event.said("person"), event.said("groups")
        row.update({"person_id": person, "groups": groups, "active": True, "ended_at": None})
    elif kind in _LEAVING and rows.get(who, {}).get("active"):
        rows[who].update({"active": False, "ended_at": event.envelope.at})


_LEAVING = ("roles_changed", "account_closed", "member_removed")
_OF_PEOPLE = frozenset(
    {*_LEAVING, "member_added", "member_joined", "account_opened", "accounts_linked", "accounts_separated"}
)


def _identify(rows: dict[Any, Row], event: VerifiedEvent, who: Any, person: Any) -> None:
    since = event.envelope.at
    fresh: Row = {"person_id": person, "active": False, "since": since, "ended_at": since, "groups": []}
    row = rows.setdefault(who, fresh)
    row["person_id"] = person


_RECORD_TABLES_OF_REQUESTS = (
    RecordTable(
        model="approvals.Approval",
        subjects=("approval",),
        events={
            kind: creates_row(
                action_id=detail_field("action_id"),
                payload_hash=detail_field("payload_hash"),
                rendering_digest=detail_field("rendering_digest"),
                contract_digest=envelope_digest("contract"),
                policy_digest=envelope_digest("approval"),
                policy_version=detail_field("policy_version"),
                policy_row=lambda event: _join_rules(event.said("rules")),
                step_up=detail_field("step_up"),
                terms=detail_field("terms"),
                risk=detail_field("risk"),
                requester=detail_field("requester"),
                editor=detail_field("editor"),
                standing_id=detail_field("standing_approval_id", None),
                decide_by=detail_field("decide_by"),
                baseline_digest=lambda event: _baseline_field(event, "baseline_digest", ""),
                baseline_pointer=lambda event: _baseline_field(event, "baseline", None),
                preflight_digest=lambda event: _baseline_field(event, "preflight_digest", ""),
                **{
                    name: on_first_event(source)
                    for name, source in {
                        "requested_at": event_time,
                        "release_by": constant(None),
                        "decided_at": constant(None),
                        "stranded_at": constant(None),
                        "paused_at": constant(None),
                        "emergency": constant(value=False),
                        "claimed_by": constant(None),
                        "claimed_until": constant(None),
                        "assigned_to": constant(None),
                        "reminded_at": constant(None),
                        "escalated_at": constant(None),
                    }.items()
                },
            )
            for kind in ("approval_preparing", "approval_requested", "standing_approval_passed")
        }
        | {
            "approval_claimed": changes_row(claimed_by=actor_of, claimed_until=detail_field("until")),
            "approval_released": changes_row(claimed_by=constant(None), claimed_until=constant(None)),
            "approval_assigned": changes_row(assigned_to=detail_field("to")),
            "approval_reminded": changes_row(reminded_at=event_time),
            "approval_escalated": changes_row(escalated_at=event_time),
            "no_eligible_approver": changes_row(stranded_at=event_time),
            "eligible_approver_found": changes_row(stranded_at=constant(None)),
            "break_glass_used": changes_row(emergency=constant(value=True)),
        },
        always={"state": state_after},
        fold=_fold_approval,
    ),
    RecordTable(
        model="approvals.Vote",
        subjects=("approval",),
        place="approval_id",
        key=("voter",),
        events={
            kind: creates_row(
                actor_of,
                verdict=_verdict,
                evidence_class=detail_field("evidence_class"),
                statement_hash=detail_field("statement_hash"),
                statement=detail_field("statement_hash"),
                reason=detail_field("reason"),
                at=event_time,
                groups=detail_field("groups"),
                person_id=detail_field("person"),
                delegated_by=detail_field("delegated_by", None),
                credential_id=detail_field("credential_id"),
            )
            for kind in _BY_VOTE
        },
        read={"statement": lambda row: statement_hash(bytes(row["statement"]))},
        outside={
            "id": "a number of the row; a voter has one vote",
            "assertion": "the same bytes are evidence of the event, which is where an outsider checks them",
        },
    ),
    RecordTable(
        model="approvals.Approver",
        subjects=("member", "credential"),
        place="",
        key=("actor_id",),
        fold=_fold_roster,
        folded=("person_id", "groups", "active", "since", "ended_at"),
    ),
    RecordTable(
        model="approvals.ApproverKey",
        subjects=("approver_key",),
        events={
            "key_enrolled": creates_row(
                actor_id=detail_field("holder"),
                credential_id=detail_field("credential_id"),
                public_key=detail_field("public_key"),
                aaguid=detail_field("aaguid"),
                backup_eligible=detail_field("backup_eligible"),
                proposed_by=actor_of,
                confirmed_by=constant(None),
                created_at=event_time,
                decided_at=constant(None),
            ),
            "key_confirmed": changes_row(confirmed_by=actor_of, decided_at=event_time),
            **{
                kind: changes_row(decided_at=event_time)
                for kind in ("key_refused", "key_suspended", "key_restored", "key_removed")
            },
        },
        always={"state": state_after},
        read={"public_key": lambda row: passkeys.base64url(bytes(row["public_key"]))},
        outside={
            "person_id": "follows the person behind the account, which is compared where the roster names it",
            "name": "a label for its holder",
            "sign_count": "moves with each use; what matters is that it goes back, and then an event says so",
            "registration": "the same bytes are evidence of the event",
        },
    ),
    RecordTable(
        model="approvals.Delegation",
        subjects=("delegation",),
        events={
            "delegated": creates_row(
                from_actor=detail_field("from"),
                to_actor=detail_field("to"),
                groups=detail_field("groups"),
                tools=detail_field("tools"),
                starts_at=detail_field("starts_at"),
                ends_at=detail_field("ends_at"),
                reason=detail_field("reason"),
                created_by=actor_of,
                ended_at=constant(None),
            ),
            "delegation_ended": changes_row(ended_at=event_time),
        },
    ),
    RecordTable(
        model="approvals.Absence",
        subjects=("absence",),
        events={
            "absence_began": creates_row(
                actor_id=detail_field("actor"),
                starts_at=detail_field("starts_at"),
                ends_at=detail_field("ends_at"),
                ended_at=constant(None),
            ),
            "absence_ended": changes_row(ended_at=event_time),
        },
    ),
    RecordTable(
        model="approvals.StandingApproval",
        subjects=("standing_approval",),
        events={
            **{
                kind: creates_row(
                    agent=detail_field("shape.agent"),
                    tool=detail_field("shape.tool"),
                    target_kind=detail_field("shape.target_kind"),
                    currency=detail_field("shape.currency"),
                    shape=detail_field("shape"),
                    shape_digest=detail_field("shape_digest"),
                    max_count=detail_field("max_count"),
                    max_minor=detail_field("max_minor"),
                    ends_at=detail_field("ends_at"),
                    evidence=detail_field("evidence"),
                    approvers=detail_field("approvers"),
                    policies=detail_field("policies"),
                    reason=detail_field("reason"),
                    proposed_by=actor_of,
                    proposed_person=detail_field("person"),
                    proposed_at=event_time,
                    answered_by=constant(None),
                    answered_person=constant(None),
                    answered_at=constant(None),
                    used_count=constant(0),
                    used_minor=constant(0),
                    paused_at=constant(None),
                    pause_reason=constant(""),
                    pause_action=constant(None),
                    case_id=constant(None),
                    ended_at=constant(None),
                    ended_because=constant(""),
                    is_time_boxed=constant(is_time_boxed),
                )
                for kind, is_time_boxed in (("standing_approval_proposed", False), ("time_boxed_pass_given", True))
            },
            **{
                kind: changes_row(answered_by=actor_of, answered_person=detail_field("person"), answered_at=event_time)
                for kind in ("standing_approval_agreed", "standing_approval_declined")
            },
            "standing_approval_used": changes_row(
                used_count=detail_field("number"), used_minor=detail_field("used_minor")
            ),
            "standing_approval_paused": changes_row(
                paused_at=event_time, pause_reason=detail_field("because"), pause_action=detail_field("action_id")
            ),
            "case_opened": changes_row(case_id=detail_field("case_id")),
            "standing_approval_resume_proposed": changes_row(
                policies=detail_field("policies"),
                reason=detail_field("reason"),
                proposed_by=actor_of,
                proposed_person=detail_field("person"),
                answered_by=constant(None),
                answered_person=constant(None),
                answered_at=constant(None),
                paused_at=constant(None),
                pause_reason=constant(""),
                pause_action=constant(None),
                case_id=constant(None),
            ),
            **{
                kind: changes_row(ended_at=event_time, ended_because=detail_field("because"))
                for kind in ("standing_approval_ended", "time_boxed_pass_revoked")
            },
        },
        always={"state": state_after},
    ),
    RecordTable(
        model="approvals.StandingPass",
        subjects=("standing_approval",),
        place="standing_id",
        key=("number",),
        events={
            "standing_approval_used": creates_row(
                detail_field("number"),
                action_id=detail_field("action_id"),
                approval_id=detail_field("approval_id"),
                minor=detail_field("minor"),
                at=event_time,
            )
        },
    ),
    RecordTable(
        model="approvals.BreakGlassUse",
        subjects=("emergency",),
        events={
            "break_glass_used": creates_row(
                action_id=detail_field("action_id"),
                approval_id=detail_field("approval_id"),
                used_by=actor_of,
                reason=detail_field("reason"),
                used_at=event_time,
                review_by=detail_field("review_by"),
                reviews=constant([]),
                reviewed_at=constant(None),
            ),
            "break_glass_reviewed": changes_row(
                reviewed_at=lambda event: event.envelope.at if event.envelope.to_state == "REVIEWED" else None
            ),
        },
        fold=_fold_reviews,
    ),
)


def _fold_versions(rows: dict[Any, Row], event: VerifiedEvent) -> None:
    """A version keeps its first registration; registering it again reinstates a revoked agent."""
    key = (event.said("agent_id"), event.said("version"))
    if event.envelope.kind == "agent_registered" and key not in rows:
        names = ("tools", "output_tags", "model_tier", "registered_by", "registered_at")
        fingerprint = event.envelope.digests.get("fingerprint", UNKNOWN)
        rows[key] = {name: event.said(name) for name in names} | {"fingerprint": fingerprint}
        rows[key]["versions"] = event.said("versions", {})
        rows[key]["acts_elsewhere"] = event.said("acts_elsewhere", False)


def _join_rules(rules: Any) -> Any:
    return ", ".join(rules)[:200] if isinstance(rules, list) else rules


def _baseline_field(event: VerifiedEvent, name: str, missing: Any) -> Any:
    """The baseline read before approval was requested; without one the earlier event's value is kept."""
    if event.said("before", None) is None:
        return missing if event.envelope.seq == 1 else KEEP
    return event.said(f"before.{name}")


RECORD_TABLES = (
    *_RECORD_TABLES_OF_REQUESTS,
    RecordTable(
        model="approvals.Agent",
        subjects=("agent",),
        events={
            "agent_registered": creates_row(
                agent_id=detail_field("agent_id"),
                version=detail_field("version"),
                owner=detail_field("owner"),
                revoked_at=constant(None),
                sessions_since=detail_field("sessions_since", 0),
                withdrawn=detail_field("withdrawn", {}),
            ),
            "agent_revoked": changes_row(revoked_at=event_time),
        },
        outside={"flags": "figures of a window, computed anew by every look; each turn is an event"},
    ),
    RecordTable(
        model="approvals.AgentVersion",
        subjects=("agent",),
        place="",
        key=("agent_id", "version"),
        fold=_fold_versions,
        folded=(
            *("tools", "output_tags", "model_tier", "registered_by", "registered_at", "versions", "acts_elsewhere"),
            "fingerprint",
        ),
        outside={"id": "a number of the row"},
    ),
    RecordTable(
        model="approvals.ModelUsage",
        subjects=("session",),
        place="session_id",
        events={
            "model_usage_reported": creates_row(
                lambda event: event.envelope.id,
                **{name: detail_field(name) for name in _USAGE},
                at=event_time,
            )
        },
    ),
    RecordTable(
        model="approvals.Session",
        subjects=("session",),
        events={
            "session_opened": creates_row(
                agent_id=detail_field("agent_id"),
                agent_version=detail_field("agent_version"),
                model_tier=detail_field("model_tier"),
                actor_id=actor_of,
                key_actor=detail_field("key_actor"),
                on_behalf_of=detail_field("on_behalf_of", None),
                fingerprint=envelope_digest("fingerprint"),
                goal=detail_field("pin_hash"),
                pin_hash=detail_field("pin_hash"),
                pinned_at=detail_field("pinned_at"),
                pin_expires_at=detail_field("pin_expires_at"),
                contract=detail_field("contract_digest"),
                run_id=detail_field("run_id"),
                first_id=detail_field("first_session_id", None),
                iteration_limit=detail_field("iteration_limit"),
                agent_seq=detail_field("agent_seq", 0),
                unwinds=lambda event: _is(event.said("on_failure"), "compensate"),
                closed_at=constant(None),
            ),
            "session_closed": changes_row(closed_at=event_time),
            "session_ended": changes_row(closed_at=event_time),
        },
        read={
            "goal": lambda row: pins.pin_hash(session_id=str(row["id"]), goal=row["goal"]),
            "contract": lambda row: digest(canonical(row["contract"])),
        },
        outside=dict.fromkeys(
            ("calls_accepted", "calls_refused", "undisclosed_attempts", "drifts", "probed", "probing_at", "used_at"),
            "counters and flags of the gate's own record, which is no part of the ledger",
        )
        | {"forced_at": "set for every session of a run at once; the session that reached the limit has the event"},
    ),
    RecordTable(
        model="approvals.Executor",
        subjects=("executor",),
        events={
            "executor_registered": creates_row(
                executor_id=detail_field("executor_id"),
                key_actor=on_first_event(_key_actor),
                public_jwk=detail_field("thumbprint"),
                thumbprint=detail_field("thumbprint"),
                tools=detail_field("tools"),
                registered_at=on_first_event(event_time),
                revoked_at=constant(None),
            ),
            "executor_revoked": changes_row(revoked_at=event_time),
        },
        read={"public_jwk": lambda row: dpop.thumbprint(row["public_jwk"])},
    ),
    RecordTable(
        model="approvals.StartOverride",
        subjects=("log",),
        place="log_id",
        key=("id",),
        events={
            "start_override_placed": creates_row(
                detail_field("override_id"),
                tools=detail_field("tools"),
                reason=detail_field("reason", cut=1000),
                placed_by=actor_of,
                placed_at=event_time,
                ends_at=detail_field("ends_at"),
                ended_at=constant(None),
            ),
            "start_override_ended": changes_row(detail_field("override_id"), ended_at=event_time),
        },
    ),
    RecordTable(
        model="approvals.Grant",
        subjects=("action",),
        place="action_id",
        key=("jti",),
        events={
            "grant_minted": creates_row(
                detail_field("jti"),
                executor_id=detail_field("executor_id"),
                token_hash=detail_field("token_hash"),
                attempt=detail_field("attempt"),
                expires_at=detail_field("expires_at"),
                consumed_at=constant(UNKNOWN),
            ),
            "execution_started": changes_row(detail_field("jti"), consumed_at=constant(value=True)),
        },
        read={"consumed_at": lambda row: row["consumed_at"] is not None},
        outside={
            "minted_at": "the clock of the database, which grants are judged by",
            "voided_at": "who sets a grant aside says so of the approval or the action, not of each grant; a start"
            " needs a grant that no earlier start used, which the record itself is held to",
        },
    ),
    RecordTable(
        model="approvals.Attempt",
        subjects=("action",),
        place="action_id",
        key=("number",),
        events={
            "execution_started": creates_row(
                detail_field("attempt"),
                jti=detail_field("jti"),
                executor_id=detail_field("executor_id"),
                wrapper_version=detail_field("wrapper_version"),
                started_at=event_time,
                timeout_s=detail_field("timeout_s"),
            )
        },
        outside={
            "lease_expires_at": "moves with every heartbeat, which is no event; it is bounded by ends_at",
            "ends_at": "the start and its timeout, which are compared",
            "ended_at": "a mark for the sweep; the answer or the end of the lease is the event",
        },
    ),
)


def _is(value: Any, wanted: str) -> Any:
    return value if value is UNKNOWN else value == wanted


OUTSIDE = {
    "approvals.Call": "the record of the gate, append-only by the database: refused calls are no part of the ledger, an"
    " accepted one is its action's first event",
    "approvals.Spending": "counters of budgets; each charge stands with its call in the record of the gate",
    "approvals.Challenge": "lives for minutes; what was signed is evidence of the vote",
    "approvals.Comment": "what people say to each other; nothing is decided by it, and its event names it",
    "approvals.Deadline": "a queue of ids; what is missing is looked at by the sweep",
    "approvals.GrantKeyChange": "the keys that sign grants, of the whole installation: sealed, append-only by the"
    " database; each change is an event of every tenant",
    "approvals.ApprovalDisplay": "what a page reports of itself; no part of the record",
}
