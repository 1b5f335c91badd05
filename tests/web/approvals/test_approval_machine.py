"""The whole approval machine in any order that Hypothesis finds: B42.

Agents propose, people vote honestly and otherwise, policies and teams change, freezes come and go, time passes, glass
is broken, executors claim and start, and start again with what they have. An oracle of its own keeps count of what
people said. Whenever a start succeeds, it holds that

- enough different people, none of them gone since and none of them counted twice, agreed to this very request, or one
  operator broke the glass;
- it was asked for under the policy that is in force, and its time was not over;
- nothing that covers it is frozen;
- its grant, and its approval, were used by no start before.

Every vote that was refused has left its event, and so has every start that was refused although its grant was real.
In the end of each run the ledger is read again, and must lead to the same projections.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.apps import apps
from django.core.management import call_command
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule, run_state_machine_as_test

from approvals import tasks as before
from approvals.models import Attempt, Grant
from approvals.requests.queries import approvals
from approvals.voting.operations import approvers
from console.accounts.members import operations as people
from console.models import Membership
from ledger import register
from ledger.db import execute, tenancy
from ledger.management.commands import verify_ledger
from ledger.record import operations as ledger
from ledger.record.queries import events
from ledger.verification.queries import storage
from tests.support.api_tenant import Clock, Workshop, new_key
from tests.support.callers import Api
from tests.web.conftest import RolledBackMachine

PAPERS = count(1)
VERSIONS = count(100)
PEOPLE = ("ana", "ben", "cleo", "ana's other account")
LIVE = ("PREPARING", "REQUESTED", "APPROVED")
STARTED: Counter[int] = Counter()
AGREED = ("approve", "break_glass")


class Desk(RolledBackMachine):
    """A desk where people decide: three humans with four accounts, an operator, an agent and two executors."""

    shop: Workshop
    clock: Clock
    people: dict[str, Api]
    folder: Path

    @initialize(need=st.sampled_from([2, 1]), agreeing=st.permutations(PEOPLE), some=st.integers(1, 4))
    def open(self, need: int, agreeing: list[str], some: int) -> None:
        self.actions: list[str] = []
        self.asked_under: dict[str, tuple[str, int]] = {}
        self.said: dict[str, dict[str, str]] = {}
        self.orders: list[dict[str, Any]] = []
        self.refused: Counter[str] = Counter()
        self.gone: set[str] = set()
        self.freeze_id = ""
        self.spent: set[str] = set()
        self.policy(need=need, on_change="revalidate")
        self.propose()
        self.press_on(0, agreeing, some, False)
        self.propose()

    # The agent

    @precondition(lambda self: len(self._live()) < 3 and len(self.actions) < 9)
    @rule()
    def propose(self) -> None:
        path = f"old/{next(PAPERS)}.md"
        (self.folder / path).write_text("Returns within 7 days.")
        result = self.shop.call(arguments={"path": path, "reason": "It is out of date."})
        if result["accepted"]:
            self.actions.append(str(result["action_id"]))
        else:
            assert self.freeze_id, result
        self._notice()

    @precondition(lambda self: len(self._live()) == 3)
    @rule(number=st.integers(0, 3))
    def cancel(self, number: int) -> None:
        path = f"/actions/{self._one(number)}/cancel"
        self.shop.operator_key.post(path, {"reason": "No longer wanted."})

    # People

    @precondition(lambda self: self.actions)
    @rule(
        number=st.integers(0, 3),
        who=st.sampled_from(PEOPLE),
        verdict=st.sampled_from(["approve", "approve", "approve", "approve", "reject", "request_changes"]),
        how=st.sampled_from(["read", "read", "read", "read", "another payload", "another page", "no password"]),
    )
    def vote(self, number: int, who: str, verdict: str, how: str) -> None:
        self._vote(number, who, self.people[who], verdict, how)

    @precondition(lambda self: self.actions)
    @rule(number=st.integers(0, 3), who=st.sampled_from(["operator", "ana", "agent"]))
    def break_glass(self, number: int, who: str) -> None:
        by = {"operator": self.shop.operator, "agent": self.shop.agent}.get(who) or self.people[who]
        self._vote(number, who, by, "break_glass", "read")

    def _vote(self, number: int, who: str, by: Api, verdict: str, how: str) -> None:
        approval = self._approval(self._one(number))
        if approval is None:
            return
        body = {
            "verdict": verdict,
            "payload_hash": "0" * 64 if how == "another payload" else approval.payload_hash,
            "rendering_digest": "0" * 64 if how == "another page" else approval.rendering_digest,
            "without_reading": verdict in AGREED,
            "reason": "I have looked.",
            "password": "wrong horse" if how == "no password" else "correct horse battery",
        }
        answer = by.post(f"/approvals/{approval.id}/votes", body)
        if answer.status_code == 201:
            assert how in ("read", "no password"), "a vote on something else counted"
            assert how == "read" or verdict not in AGREED, "nobody agrees without a proof of who they are"
            assert who not in self.gone, "somebody who is gone has voted"
            self.said.setdefault(str(approval.id), {})[who] = verdict
            return
        assert answer.status_code in (403, 409, 422, 429), answer.content
        if who != "agent" and answer.status_code != 429:
            self.refused[str(approval.id)] += 1

    @rule(who=st.sampled_from(PEOPLE[1:3]), back=st.booleans())
    def team(self, who: str, back: bool) -> None:
        """Somebody loses the right to decide, or gets it back."""
        tenant, place, at = self.shop.tenant, self._place(who), self.clock.now()
        with tenancy(tenant):
            if back:
                approvers.add_approver(tenant_id=tenant, actor_id=place, person_id=place, at=at)
            else:
                approvers.remove_approver(tenant_id=tenant, actor_id=place, at=at)
            row = Membership.objects.select_related("user").get(tenant_id=tenant, actor_id=place)
            # On record as the console writes it, without what else comes with a closed account.
            kind = "account_opened" if back else "account_closed"
            people._say(row, kind, {"approver": back}, ledger.SYSTEM, at=at)
        (self.gone.discard if back else self.gone.add)(who)

    @rule(need=st.sampled_from([1, 2, 2]), on_change=st.sampled_from(["revalidate", "void"]))
    def policy(self, need: int, on_change: str) -> None:
        """Another version of the policy comes into force."""
        self.version = f"v{next(VERSIONS)}"
        self.need = need
        document = {
            "thresholds": [{"group": "reviewers", "count": need}],
            "on_change": on_change,
            "release_within_s": 600,
            "break_glass": {"enabled": need == 2, "step_up": "C"},
        }
        answer = self.shop.operator_key.release("approval", {"version": self.version, "document": document})
        assert answer.status_code == 201, answer.content

    @rule(lift=st.sampled_from([True, True, False]))
    def freeze(self, lift: bool) -> None:
        if lift and self.freeze_id:
            self.shop.operator.post(f"/freezes/{self.freeze_id}/lift", {"reason": "Go on."})
            self.freeze_id = ""
        elif not lift and not self.freeze_id:
            body = {"scope": "tool", "value": "delete_document", "reason": "Wait."}
            self.freeze_id = self.shop.operator.post("/freezes", body).json()["freeze_id"]

    # Executors

    @precondition(lambda self: self.actions)
    @rule(
        number=st.integers(0, 3),
        agreeing=st.permutations(PEOPLE),
        some=st.integers(1, 4),
        between=st.sampled_from([False, False, True]),
    )
    def press_on(self, number: int, agreeing: list[str], some: int, between: bool) -> None:
        """What mostly happens: some of them agree, and it is started at once, or right after the policy has changed."""
        for who in agreeing[:some]:
            self._vote(number, who, self.people[who], "approve", "read")
        self.claim()
        if between:
            self.policy(need=self.need, on_change="void")
        self.start(len(self.orders) - 1 if self.orders else 0, "own")

    @precondition(lambda self: self._live("APPROVED"))
    @rule()
    def claim(self) -> None:
        self.orders += self.shop.claim()

    @precondition(lambda self: self.orders)
    @rule(
        number=st.integers(0, 9),
        how=st.sampled_from(["own", "own", "own", "own", "another payload", "another key", "another action"]),
    )
    def start(self, number: int, how: str) -> None:
        """Start with any grant that was ever handed out, again too, as it was meant or otherwise."""
        if not self.orders:
            return
        order = self.orders[number % len(self.orders)]
        action_id = order["action_id"]
        if how == "another action":
            order = order | {"action_id": next((each for each in self.actions if each != action_id), action_id)}
        approval = self._approval(order["action_id"])
        body = {"payload_hash": "0" * 64} if how == "another payload" else {}
        proof = self.shop.proof(order["action_id"], order["grant"], key=self.other if how == "another key" else None)
        # The database judges by its own clock, some time after this.
        asked_at = datetime.now(UTC)
        answer = self.shop.start(order, proof=proof, **body)
        if answer.status_code == 201:
            assert how == "own" or (how == "another action" and order["action_id"] == action_id), how
            self._is_founded(order, approval, asked_at)
        else:
            assert answer.status_code in (403, 409), answer.content

    def _is_founded(self, order: dict[str, Any], approval: Any, asked_at: datetime) -> None:
        assert order["grant"] not in self.spent, "a grant was used twice"
        self.spent.add(order["grant"])
        STARTED[self.need] += 1
        assert not self.freeze_id, "it was started in a freeze"
        assert approval is not None, "it was started without an approval"
        assert approval.state == "APPROVED", approval.state
        assert str(approval.id) not in self.spent, "an approval was used twice"
        self.spent.add(str(approval.id))
        version, need = self.asked_under[str(approval.id)]
        assert version == self.version, "it was started under another policy than it was asked for"
        assert approval.release_by > asked_at, "it was started after its time"
        said = self.said[str(approval.id)]
        if "break_glass" in said.values():
            return
        agreed = {who.removesuffix("'s other account") for who, verdict in said.items() if verdict == "approve"}
        assert len(agreed - self.gone) >= need, (said, self.gone, need)
        assert set(said.values()) == {"approve"}, said

    # Time

    @rule(seconds=st.sampled_from([1, 20, 200, 700]), tick=st.booleans())
    def wait(self, seconds: int, tick: bool) -> None:
        """Time passes: all that has been put down moves into the past, for the database's own clock cannot be moved."""
        self.shop.run_out(seconds=seconds)
        with tenancy(self.shop.tenant):
            execute(
                "UPDATE approvals_approval SET decide_by = decide_by - make_interval(secs => $2),"
                " release_by = release_by - make_interval(secs => $2) WHERE tenant_id = $1 AND paused_at IS NULL",
                *(self.shop.tenant, seconds),
            )
            execute(
                "UPDATE approvals_due SET due_at = due_at - make_interval(secs => $2) WHERE tenant_id = $1",
                *(self.shop.tenant, seconds),
            )
        if tick:
            before.lapse()
            before.turn_clocks()

    # What must hold

    @invariant()
    def it_holds(self) -> None:
        if not getattr(self, "actions", []):
            return
        self._notice()
        tenant = self.shop.tenant
        with tenancy(tenant):
            for action_id in self.actions:
                told = [event.kind for event, _, _ in events.history(tenant, UUID(action_id))]
                used = Grant.objects.filter(tenant_id=tenant, action_id=action_id, consumed_at__isnull=False).count()
                begun = Attempt.objects.filter(tenant_id=tenant, action_id=action_id).count()
                assert told.count("execution_started") == begun, (told, begun)
                # A start with another payload than the approved one spends the grant, and nothing runs (RT-21).
                assert used == begun + told.count("payload_mismatch"), (told, used, begun)
                live = [each for each in approvals.approvals_of(tenant, UUID(action_id)) if each.state in LIVE]
                assert len(live) <= 1, "two requests about one action are open"
            for approval_id, expected in self.refused.items():
                told = [event.kind for event, _, _ in events.history(tenant, UUID(approval_id))]
                assert told.count("vote_refused") == expected, (told, expected)

    def _notice(self) -> None:
        """Under which policy each request was asked: the one in force when it is first seen, as nothing else moves."""
        for action_id in self.actions:
            approval = self._approval(action_id)
            if approval is not None:
                self.asked_under.setdefault(str(approval.id), (self.version, self.need))

    def _approval(self, action_id: str) -> Any:
        with tenancy(self.shop.tenant):
            return approvals.approval_of(self.shop.tenant, UUID(action_id))

    def _live(self, *states: str) -> list[str]:
        found = {each: self._approval(each) for each in getattr(self, "actions", [])}
        return [each for each, approval in found.items() if approval and approval.state in (states or LIVE)]

    def _one(self, number: int) -> str:
        """Mostly one that is still open."""
        chosen = self.actions if number == 3 else self._live() or self.actions
        return chosen[number % len(chosen)]

    def _place(self, who: str) -> UUID:
        return self.places[who]

    def _set_clocks_back(self) -> None:
        """The deadlines as the record has them: what `wait` moved is no part of it."""
        tenant, tables = self.shop.tenant, {table.model: table for table in register.record_tables()}
        moved = {"approval": "approvals.Approval", "action": "approvals.Grant"}
        with tenancy(tenant):
            for kind, model in moved.items():
                for subject in storage.subjects_of_kind(tenant, [kind]):
                    rebuilt = verify_ledger.Rebuilt(kind)
                    for event in verify_ledger.events_of(tenant, subject):
                        rebuilt.take(event)
                    for key, row in rebuilt.rows(tables[model]).items():
                        known = {name: row[name] for name in ("decide_by", "release_by", "expires_at") if name in row}
                        rows = apps.get_model(model).objects.filter(tenant_id=tenant)
                        rows.filter(**{tables[model].key[0]: key}).update(**known)

    def check_at_end(self) -> None:
        self._set_clocks_back()
        call_command("verify_ledger", verbosity=0)

    places: dict[str, UUID]
    other: Any


@pytest.fixture
def machine(shop: Workshop, clock: Clock, tmp_path: Path) -> type[Desk]:
    folder = tmp_path / "documents"
    (folder / "old").mkdir()
    voters = {who: shop.person("reviewer", name=f"{who}@orchid") for who in PEOPLE}
    found = {place.user.username: place for place in Membership.objects.select_related("user")}
    places = {who: found[f"{who}@orchid"].actor_id for who in PEOPLE}
    with tenancy(shop.tenant):
        # One human, two accounts.
        both = [found[f"{who}@orchid"].id for who in ("ana", PEOPLE[3])]
        people.link_accounts(tenant_id=shop.tenant, member_ids=both, by=ledger.SYSTEM, at=clock.now())
    made = {"shop": shop, "clock": clock, "people": voters, "places": places, "other": new_key(), "folder": folder}
    return type("Today", (Desk,), made)


def play(machine: type[Desk], *, runs: int, steps: int, same: bool) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=runs,
            stateful_step_count=steps,
            deadline=None,
            derandomize=same,
            database=None,
            # A failing run is told as it was found when there is no time to look for a shorter one.
            phases=[Phase.generate] if same else list(Phase),
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.req("R-AP-05", "R-AP-07", "R-AP-09", "R-AP-17", "R-AP-23", "R-AP-24")
def test_a_start_requires_valid_votes_one_redemption_and_the_policy_in_force(machine: type[Desk]):
    STARTED.clear()
    play(machine, runs=6, steps=15, same=True)
    assert sum(STARTED.values()) > 2, "hardly anything was ever started, so nothing was shown"


@pytest.mark.long
def test_a_start_requires_them_in_a_long_search_too(machine: type[Desk]):
    play(machine, runs=200, steps=80, same=False)
