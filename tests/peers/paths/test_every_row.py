"""Every row of the recovery table, walked through the real path: contract, gate, start, effect, answer, reading.

The systems are a real PostgreSQL and a real Valkey; the tool's mistakes are the test's. Five rows ask what the durable
idempotency record says of a silent attempt: there the record is set, as its owner or its expiry would, before the run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID, uuid4

import pytest
import redis
from psycopg.conninfo import make_conninfo

from approvals import tasks as before
from approvals.execution.operations import executions
from approvals.requests.queries import approvals
from approvals.voting.operations import approvers, votes
from approvals.voting.rules import binding
from console.actions import target_drift
from console.local import servers
from ledger.actions import operations as ledger_orders
from ledger.actions.queries import actions, freezes
from ledger.catalogue.operations import registration
from ledger.catalogue.rules import contract as contracts
from ledger.catalogue.rules.policies import default_policy
from ledger.db import tenancy
from ledger.record import operations as ledger
from ledger.record.queries import events as events_queries
from reviews import tasks as after
from reviews.observations.operations import observations
from reviews.recovery.rules.recovery_table import ROWS
from tests.peers.paths.test_path_queues import Events, publishing
from tests.peers.support.errand import Errand
from tests.peers.support.orders import Shop
from tests.peers.support.path import SETTLED, Office, Work
from tests.peers.support.standby import standby
from tests.support.callers import put_in_force

LATE = timedelta(hours=3)
HIGH = {"side_effect_class": "HIGH_RISK_EXTERNAL", "reversibility": "COMPENSABLE"}
FINAL = {"side_effect_class": "MEDIUM_RISK_WRITE", "reversibility": "IRREVERSIBLE"}
READ = {"side_effect_class": "READ_ONLY"}


class Place:
    """An office, a shop and a stream, and the ways in which things go wrong there."""

    def __init__(self, office: Office, shop: Shop, valkey_url: str, cluster: Any, folder: Path) -> None:
        self.office, self.shop, self.valkey_url = office, shop, valkey_url
        self.cluster, self.folder = cluster, folder

    def refunding(self, *, url: str = "", equals: bool = False, **facts: Any) -> Errand:
        part = {
            "table": f"{self.shop.schema}.refunds",
            "where": {"idempotency_key": "scope.idempotency_key"},
            "fields": ["amount", "order_id"],
            "tenant_column": "tenant",
            "target_column": "order_id",
        }
        return Errand(
            pattern="databases",
            credential={"url": url or self.shop.url},
            arguments={"order_id": "o-17", "amount": 1000},
            lookup={"effects": {"refund": part}, "target": self.shop.target},
            predicates=("sa.amount == sr.amount",),
            target="order/{order_id}",
            reading={"timeout_s": 1},
            facts=facts,
        )

    def looking(self) -> Errand:
        """A question about an order: it changes nothing, so there is no key to look by."""
        whole = self.refunding(**READ)
        part = whole.lookup["effects"]["refund"] | {"where": {"order_id": "sr.order_id"}}
        return replace(whole, lookup={"effects": {"refund": part}, "target": self.shop.target})

    def refund(self, work: Work, **fields: Any) -> None:
        self.shop.refund(key=work.key, **fields)

    def carry_out(self, errand: Errand, effect: Callable[[Work], object] = lambda work: None, **how: Any) -> UUID:
        """The whole path; the action's id."""
        work = self.begin(errand)
        effect(work)
        self.office.observe(work, status=how.get("status", "success"), error=how.get("error"))
        self.office.verify(work, later=how.get("later", SETTLED))
        return work.action_id

    def begin(self, errand: Errand) -> Work:
        """Everything up to the start, with a person's approval where the contract asks for it."""
        self.office.register(errand)
        action_id = self.office.propose(errand)
        self.approve(action_id)
        return self.office.start(action_id)

    def approve(self, action_id: UUID) -> None:
        tenant = self.office.tenant
        with tenancy(tenant):
            approval = approvals.approval_of(tenant, action_id)
            if approval is None:
                return
            covers, voter = votes.vote_coverage(approval), uuid4()
            approvers.add_approver(tenant_id=tenant, actor_id=voter, person_id=voter, at=self.office.now())
            votes.cast_vote(
                tenant_id=tenant,
                approval_id=approval.id,
                verdict=binding.VoteChoice.APPROVE,
                voter=binding.Voter(actor=str(voter), roles=frozenset({"reviewer"}), evidence_class="C"),
                seen=binding.DisplayedDigests(
                    payload_hash=covers.payload_hash,
                    rendering_digest=covers.rendering_digest,
                    without_reading=target_drift.is_unread(approval),
                ),
                reason="I have read it.",
                at=self.office.now(),
            )

    def silent(self, errand: Errand, status: str | None, **how: Any) -> UUID:
        """An attempt that went unanswered, and what its idempotency record says by then."""
        work = self.begin(errand)
        self.office.observe(work, status="timeout")
        with tenancy(self.office.tenant):
            if status is not None:
                head = ledger.lock_subject(tenant_id=self.office.tenant, subject_id=work.action_id, kind="action")
                said = ledger.NewEvent(kind="idempotency_expired", changes={"idempotency": {"status": status}})
                ledger.append(head, said, actor=ledger.SYSTEM, at=self.office.now())
        self.office.verify(work, later=how.get("later", SETTLED))
        return work.action_id

    def rows_of(self, action_id: UUID) -> set[str]:
        """Every row that the record names, of any of the action's events."""
        with tenancy(self.office.tenant):
            events = events_queries.history(self.office.tenant, action_id)
        named = {
            str((entry or {})["reconciliation"]["recovery_decision"] or "").partition(" ")[0] for _, entry, _ in events
        }
        return named | {str((detail or {}).get("recovery_row") or "") for _, _, detail in events}

    # Systems that are not there, effects in parts, states that held before

    def unreachable(self, **facts: Any) -> Errand:
        return self.refunding(url=make_conninfo(self.shop.url, port=str(servers.free_port())), **facts)

    def settling_late(self) -> Errand:
        """A shop that may take a minute to show what was done."""
        return replace(self.refunding(), reading={"settle_s": 60})

    def in_parts(self, **facts: Any) -> Errand:
        whole = self.refunding(**facts)
        part = whole.lookup["effects"]["refund"]
        fee = part | {"where": part["where"] | {"amount": "7"}}
        main = part | {"where": part["where"] | {"amount": "sr.amount"}}
        return replace(
            whole,
            lookup={"effects": {"refund": main, "fee": fee}, "target": self.shop.target},
            predicates=("sa.effects.refund.amount == sr.amount",),
        )

    def settling(self, **facts: Any) -> Errand:
        part = {
            "table": f"{self.shop.schema}.orders",
            "where": {"id": "sr.order_id"},
            "fields": ["status"],
            "tenant_column": "tenant",
            "target_column": "id",
        }
        return replace(
            self.refunding(**facts),
            lookup={"effects": {"settle": part}},
            predicates=("sa.status == 'settled'",),
            arguments={"order_id": "o-17"},
            reading={"baseline": True},
        )

    def bumping(self, **facts: Any) -> Errand:
        """As `settling`, and the version must move."""
        part = self.shop.target | {"equals": {"status": "'settled'"}, "tenant_column": "tenant", "target_column": "id"}
        return replace(self.settling(**facts), lookup={"effects": {"settle": part}})

    def undoable(self, *, argument: str, **facts: Any) -> Errand:
        """A refund that another tool takes back; with an argument that tool does not know, its gate refuses it."""
        back = self.refunding().document("1.0.0") | {"name": "carry_back"}
        with tenancy(self.office.tenant):
            contract = contracts.validate(back, compile_predicate=lambda _: None)
            registration.register_contract(
                tenant_id=self.office.tenant, contract=contract, actor=ledger.SYSTEM, at=self.office.now()
            )
        remedy = {
            "compensation_tool": "carry_back",
            "compensation_arguments": {argument: "sr.order_id", "amount": "sr.amount"},
        }
        return self.refunding(recovery=remedy, **facts)

    def unwind(self, work: Work) -> None:
        with tenancy(self.office.tenant):
            run = actions.action(self.office.tenant, work.action_id)
            assert run is not None
            ledger_orders.unwind_run(
                tenant_id=self.office.tenant,
                run_id=run.run_id,
                reason="It is no longer wanted.",
                actor=ledger.SYSTEM,
                at=self.office.now(),
            )

    def started_with(self, errand: Errand, *, payload_hash: str | None = None, policy: bool = False) -> UUID:
        """A start that the product refuses and puts on record."""
        office = self.office
        office.register(errand)
        action_id = office.propose(errand)
        order = office._claimed(action_id)
        with tenancy(office.tenant):
            if policy:
                document = default_policy("approval") | {"version": "2", "decide_within_s": 60}
                put_in_force(office.tenant, "approval", "2", document, at=office.now())
            request = executions.StartRequest(
                action_id=action_id,
                token=order.grant,
                executor_id="runner",
                thumbprint=office.thumbprint,
                wrapper_version="1",
                timeout_s=1,
                payload_hash=payload_hash,
            )
            executions.start_execution(tenant_id=office.tenant, request=request, by=office.executor, at=office.now())
        return action_id


def twice(place: Place) -> Callable[[Work], object]:
    return lambda work: [place.refund(work), place.refund(work)]


def half(place: Place) -> Callable[[Work], object]:
    return lambda work: place.refund(work)


def gone(place: Place) -> Callable[[Work], object]:
    return lambda work: place.shop.run("DELETE FROM {s}.orders")


def wrong(place: Place) -> Callable[[Work], object]:
    return lambda work: place.refund(work, amount=999)


def failing(code: str) -> dict[str, Any]:
    return {"status": "failed", "error": {"code": code, "message": "No.", "phase": "call"}}


def held_before(place: Place, **facts: Any) -> UUID:
    place.shop.run("UPDATE {s}.orders SET status = 'settled'")
    return place.carry_out(place.settling(**facts))


def unmoved(place: Place) -> UUID:
    place.shop.run("UPDATE {s}.orders SET status = 'settled'")
    return place.carry_out(place.bumping(), **failing("ODD"))


def tried_again(place: Place) -> UUID:
    """Tool and authority agree that nothing happened, and the policy leaves an attempt."""
    with tenancy(place.office.tenant):
        document = default_policy("recovery") | {"version": "2", "max_attempts": 2}
        put_in_force(place.office.tenant, "recovery", "2", document, at=place.office.now())
    return place.carry_out(place.refunding(recovery={"idempotent": True}), **failing("ODD"))


def lagging(place: Place, later: timedelta) -> UUID:
    with redis.Redis.from_url(place.valkey_url, decode_responses=True) as client:
        client.xgroup_create("shop:events", "mailer", id="0", mkstream=True)
        events = Events(client)
        errand = publishing(place.valkey_url)
        return place.carry_out(errand, events.publish, status="partial", later=later)


def on_a_standby(place: Place) -> UUID:
    made: list[Shop] = []
    with standby(place.cluster, place.folder, lambda connection: made.append(Shop(connection))) as url:
        there = Place(place.office, made[0], place.valkey_url, place.cluster, place.folder)
        return place.carry_out(there.refunding(url=url))


def not_undone(place: Place, **facts: Any) -> UUID:
    """A compensation that the gate refuses."""
    action_id = place.carry_out(place.undoable(argument="moon", **facts), wrong(place))
    later = place.office.now() + 2 * SETTLED
    with patch("django.utils.timezone.now", lambda: later):
        before.propose_follow_ups()
        after.recover()
    return action_id


def taken_back(place: Place, errand: Errand) -> UUID:
    work = place.begin(errand)
    place.unwind(work)
    place.refund(work)
    place.office.observe(work)
    place.office.verify(work)
    return work.action_id


def expired(place: Place) -> UUID:
    work = place.begin(place.refunding())
    place.office.observe(work, status="timeout")
    observations.expire_records(at=place.office.now() + timedelta(days=31))
    place.office.verify(work)
    return work.action_id


Walk = Callable[[Place], UUID]
CRITICAL = {"side_effect_class": "CRITICAL_MUTATION", "unverifiable_acknowledged": True}
PIVOT = {"pivot": True, "approval_required": True, "recovery": {"idempotent": True}}
NOWHERE = {"verification": None}
WALKS: dict[str, tuple[str, Walk]] = {
    "RT-01": ("PENDING", lambda p: p.carry_out(p.settling_late(), later=timedelta(0))),
    "RT-02": ("PENDING", on_a_standby),
    "RT-03": ("REVIEW_REQUIRED", lambda p: p.carry_out(p.refunding(), wrong(p))),
    "RT-04": ("REVIEW_REQUIRED", lambda p: p.carry_out(p.refunding(**HIGH))),
    "RT-05": ("REVIEW_REQUIRED", lambda p: p.carry_out(p.unreachable(), later=LATE)),
    "RT-06": ("REVIEW_REQUIRED", lambda p: p.carry_out(p.unreachable(**FINAL), later=LATE)),
    "RT-07": ("FAILED", lambda p: p.silent(p.refunding(), None)),
    "RT-09": ("REVIEW_REQUIRED", lambda p: p.carry_out(p.in_parts(), half(p))),
    "RT-10": ("REVIEW_REQUIRED", lambda p: p.carry_out(p.in_parts(**PIVOT), half(p))),
    "RT-11": ("FAILED", lambda p: p.carry_out(p.refunding(), **failing("STALE_STATE"))),
    "RT-12": ("REVIEW_REQUIRED", lambda p: p.carry_out(p.refunding(effect_domain="FINANCIAL"), twice(p))),
    "RT-13": ("RECONCILED_SUCCESS", lambda p: p.carry_out(p.refunding(no_op_success_allowed=True), twice(p))),
    "RT-14": ("REVIEW_REQUIRED", lambda p: p.carry_out(p.refunding(), lambda work: p.refund(work, tenant="willow"))),
    "RT-15": ("UNKNOWN", lambda p: p.carry_out(p.refunding(**NOWHERE, side_effect_class="LOW_RISK_INTERNAL"))),
    "RT-16": (
        "REVIEW_REQUIRED",
        lambda p: p.carry_out(p.refunding(**NOWHERE, **HIGH, unverifiable_acknowledged=True)),
    ),
    "RT-17": ("REVIEW_REQUIRED", lambda p: not_undone(p, externally_visible=True)),
    "RT-19": ("PENDING", lambda p: p.carry_out(p.unreachable())),
    "RT-20": ("VALIDATED", lambda p: p.started_with(p.refunding(), policy=True)),
    "RT-21": ("REVIEW_REQUIRED", lambda p: p.started_with(p.refunding(), payload_hash="0" * 64)),
    "RT-31": ("RECONCILED_SUCCESS", lambda p: held_before(p, no_op_success_allowed=True)),
    "RT-32": ("REVIEW_REQUIRED", held_before),
    "RT-33": ("VALIDATED", tried_again),
    "RT-34": ("REVIEW_REQUIRED", unmoved),
    "RT-35": ("REVIEW_REQUIRED", lambda p: p.carry_out(p.refunding(), wrong(p), **failing("ODD"))),
    "RT-36": ("REVIEW_REQUIRED", lambda p: p.carry_out(p.refunding(**HIGH), wrong(p), **failing("ODD"))),
    "RT-37": ("FAILED", lambda p: p.carry_out(p.refunding(), gone(p), **failing("GONE"))),
    "RT-38": ("REVIEW_REQUIRED", lambda p: p.carry_out(p.refunding(), gone(p))),
    "RT-39": ("PENDING", lambda p: lagging(p, SETTLED)),
    "RT-40": ("REVIEW_REQUIRED", lambda p: lagging(p, LATE)),
    "RT-41": ("REVIEW_REQUIRED", lambda p: p.carry_out(p.refunding(**NOWHERE))),
    "RT-42": ("REVIEW_REQUIRED", lambda p: p.carry_out(p.refunding(), twice(p))),
    "RT-43": ("UNKNOWN", lambda p: p.carry_out(p.unreachable(**READ), later=LATE)),
    "RT-44": ("REVIEW_REQUIRED", lambda p: p.carry_out(p.unreachable(**HIGH), later=LATE)),
    "RT-45": ("VALIDATED", lambda p: p.silent(p.looking(), None)),
    "RT-46": ("FAILED", lambda p: p.silent(p.refunding(), "COMPLETED")),
    "RT-47": ("FAILED", lambda p: p.silent(p.refunding(), "FAILED_RETRYABLE")),
    "RT-48": ("FAILED", lambda p: p.silent(p.refunding(), "FAILED_FINAL")),
    "RT-49": ("REVIEW_REQUIRED", expired),
    "RT-50": ("REVIEW_REQUIRED", not_undone),
    "RT-51": ("COMPENSATING", lambda p: taken_back(p, p.undoable(argument="order_id"))),
    "RT-52": ("REVIEW_REQUIRED", lambda p: taken_back(p, p.refunding())),
    "RT-53": ("UNKNOWN", lambda p: p.silent(p.refunding(), "COMPENSATED")),
    "RT-54": ("REVIEW_REQUIRED", lambda p: p.carry_out(p.in_parts(**CRITICAL), half(p))),
    "RT-99": (
        "REVIEW_REQUIRED",
        lambda p: p.carry_out(p.looking(), lambda work: p.refund(work, tenant="willow")),
    ),
}


@pytest.fixture
def place(office, superuser_connection, valkey_url, cluster, run):
    shop = Shop(superuser_connection)
    yield Place(office, shop, valkey_url, cluster, run.folder)
    shop.drop()


@pytest.mark.req(*(f"R-RP-{number:02}" for number in range(1, 22)), "R-RP-24")
@pytest.mark.parametrize("row", WALKS)
def test_a_walk_reaches_its_row_and_ends_in_the_listed_state(place, row):
    state, walk = WALKS[row]
    action_id = walk(place)
    with tenancy(place.office.tenant):
        ended = actions.action(place.office.tenant, action_id)
    assert row in place.rows_of(action_id), (place.rows_of(action_id), ended.state)
    assert ended.state == state


@pytest.mark.req("R-RP-08", "R-EX-22")
def test_a_silent_attempt_whose_record_was_lost_is_frozen_and_held(
    committed_db, secrets_dir, superuser_connection, valkey_url, cluster, run
):
    """RT-08. The application cannot lose a record; somebody with a superuser's rights can."""
    shop = Shop(superuser_connection)
    place = Place(Office(secrets_dir), shop, valkey_url, cluster, run.folder)
    work = place.begin(place.refunding())
    place.office.observe(work, status="timeout")
    superuser_connection.execute("DELETE FROM ledger_idempotency WHERE action_id = %s", [work.action_id])
    place.office.verify(work)
    assert "RT-08" in place.rows_of(work.action_id)
    with tenancy(place.office.tenant):
        assert actions.action(place.office.tenant, work.action_id).state == "REVIEW_REQUIRED"
        assert [freeze.value for freeze in freezes.freezes_in_force(place.office.tenant)] == ["order/o-17"]


ELSEWHERE = {"RT-08", "RT-18"}
"""RT-08 is walked above, in a database of its own; RT-18, before any attempt, with the releases that it stops."""


def test_every_row_has_a_walk():
    assert {row.id for row in ROWS} - set(WALKS) - ELSEWHERE == set()
