"""Ways out over HTTP and on the page: for every state, class and reversibility the control that leads on, and that it
does.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reviews import tasks as after
from tests.support import settling
from tests.support.api_tenant import Clock
from tests.support.browser_users import Visitor, words
from tests.support.refund_shop import TOOL, Counter, books, refund_contract
from tests.web.recovery.test_recovery_path import cancelling, child_of, in_parts, lesser, local, refund_part, wrong

CLASSES = ("READ_ONLY", "EPHEMERAL_WRITE", "LOW_RISK_INTERNAL", "MEDIUM_RISK_WRITE", "HIGH_RISK_EXTERNAL")
CLASSES += ("CRITICAL_MUTATION",)
REVERSIBILITIES = ("REVERSIBLE", "COMPENSABLE", "IRREVERSIBLE")
UNREAD = "refund_unread"
_ORDERS = itertools.count(2000)


def unread(**changes: Any) -> dict[str, Any]:
    """A refund tool whose contract names no way to look."""
    document = refund_contract(name=UNREAD, side_effect_class="LOW_RISK_INTERNAL") | changes
    del document["verification"]
    return document


def contracts_of(side_effect_class: str, reversibility: str) -> list[dict[str, Any]]:
    """A tool of the class that is read back, and one that nobody can read back."""
    facts = {"side_effect_class": side_effect_class, "reversibility": reversibility}
    critical = {"verification": {"sources": [books()]}} if side_effect_class == "CRITICAL_MUTATION" else {}
    high = side_effect_class in ("HIGH_RISK_EXTERNAL", "CRITICAL_MUTATION")
    return [
        refund_contract(**facts, **critical),
        unread(**facts, **({"unverifiable_acknowledged": True} if high else {})),
    ]


class Walker:
    """Brings actions to where they rest, and takes the way out that is named there."""

    def __init__(self, counter: Counter, clock: Clock) -> None:
        self.counter, self.clock = counter, clock
        self.page = Visitor(counter.operator.client, counter.slug)
        self.second = counter.person("operator", "reviewer", name="second@orchid")
        self.seen: set[str] = set()

    def proposed(self, tool: str) -> str:
        answer = self.counter.call(tool, self._arguments())
        assert answer["state"] == "VALIDATED", answer
        return str(answer["action_id"])

    def _arguments(self) -> dict[str, Any]:
        return {"order_id": f"EX-{next(_ORDERS)}", "amount": 1250, "currency": "EUR"}

    def approved(self, tool: str) -> str:
        action_id = self.proposed(tool)
        for voter in (self.counter.reviewer, self.second):
            if self.counter.waiting(action_id):
                assert self.counter.vote(self.counter.approval_of(action_id), by=voter).status_code == 201
        return action_id

    def started(self, tool: str) -> dict[str, Any]:
        action_id = self.approved(tool)
        order = next(each for each in self.counter.claim() if each["action_id"] == action_id)
        answer = self.counter.start(order)
        assert answer.status_code == 201, answer.content
        started: dict[str, Any] = answer.json()
        return started

    def told(self, tool: str, status: str) -> str:
        started = self.started(tool)
        self.counter.tell(started, status, tool=tool)
        return str(started["action_id"])

    def read(self, tool: str, status: str = "success") -> str:
        """An action that was verified, with nothing to be found."""
        action_id = self.told(tool, status)
        self.clock.forward(seconds=60)
        self.counter.read_back(action_id, self.clock)
        return action_id

    def standing(self, tool: str) -> str | None:
        """A contradiction that a person let stand."""
        action_id = self.read(tool)
        step = self.step(action_id)
        if step is None or step["owner"] != "OPERATORS":
            return None
        if step["controls"][0]["control"] == "OPEN_CASE":
            self.counter.operator.post(f"/actions/{action_id}/case", {"reason": "It must be settled."})
        case = self.case(action_id)
        self.settle(case, "ATTEST_PRESENT")
        assert self.counter.operator.post(f"/reviews/{case}/reopen", {"reason": "I doubt it."}).status_code == 200
        self.settle(case, "ATTEST_ABSENT")
        return action_id

    def case(self, action_id: str) -> str:
        """The case that the next step names."""
        return str(self.step(action_id)["controls"][0]["path"].split("/")[2])

    def settle(self, case: str, resolution: str) -> None:
        answer = settling.settle(self.counter.operator, case, resolution)
        assert answer.status_code == 200, answer.content
        if answer.json()["state"] == "AWAITING_SECOND":
            assert settling.confirm(self.second, case).status_code == 200

    # The way out

    def shown(self, action_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.counter.operator.get(f"/actions/{action_id}").json()
        return found

    def step(self, action_id: str) -> Any:
        return self.shown(action_id)["way_out"]

    def leave(self, action_id: str) -> str:
        """Take the first control that the API and the page name, and see that the action stands otherwise; its name."""
        step = self.step(action_id)
        assert step is not None, self.counter.path(action_id)
        control = step["controls"][0]
        name = control["control"]
        if name not in self.seen:
            self.on_page(action_id, step, name)
        taken = getattr(self, f"take_{name.lower()}")
        before_it = self.standing_of(action_id)
        taken(action_id, control)
        assert self.standing_of(action_id) != before_it, (name, before_it)
        self.seen.add(name)
        return str(name)

    def standing_of(self, action_id: str) -> tuple[Any, ...]:
        shown = self.shown(action_id)
        return shown["state"], shown["seq"], (shown["way_out"] or {}).get("owner")

    def on_page(self, action_id: str, step: dict[str, Any], name: str) -> None:
        panel = self.page.page(f"actions/{action_id}").split('data-part="way-out"')[1].split("</section>")[0]
        assert step["text"] in words(panel).replace("&#x27;", "'")
        if name != "REPORT":
            addresses = re.findall(r'(?:action|href)="/t/orchid/([^"]+)"', panel)
            assert addresses, panel

    def take_decide(self, action_id: str, control: dict[str, Any]) -> None:
        for voter in (self.counter.reviewer, self.second):
            if self.counter.waiting(action_id):
                assert self.counter.vote(self.counter.approval_of(action_id), by=voter).status_code == 201

    def take_cancel(self, action_id: str, control: dict[str, Any]) -> None:
        answer = self.page.post(f"actions/{action_id}/cancel", reason="Not any more.")
        assert (answer.status_code, self.counter.state(action_id)) == (302, "FAILED")

    def take_report(self, action_id: str, control: dict[str, Any]) -> None:
        answer = self.counter.executor.post(control["path"], {"result": {"tool": TOOL, "status": "timeout"}})
        assert answer.status_code == 202, answer.content

    def take_verify(self, action_id: str, control: dict[str, Any]) -> None:
        assert self.counter.operator.post(control["path"]).status_code == 202
        assert self.page.post(f"actions/{action_id}/verify").status_code == 302
        self.clock.forward(seconds=400)  # beyond the SLA: it is decided now
        assert self.counter.read_back(action_id, self.clock) is not None

    def take_open_case(self, action_id: str, control: dict[str, Any]) -> None:
        refused = self.counter.operator.post(f"/actions/{action_id}/verify")
        assert (refused.status_code, refused.json()["code"]) == (409, "NOTHING_TO_VERIFY")
        assert "open one" in refused.json()["detail"]
        answer = self.page.post(f"actions/{action_id}/case", reason="It must be settled.")
        assert answer.status_code == 302
        again = self.counter.operator.post(control["path"], {"reason": "Once more."})
        assert (again.status_code, again.json()["code"]) == (409, "CASE_OPEN")

    def take_settle_case(self, action_id: str, control: dict[str, Any]) -> None:
        case = self.case(action_id)
        offered = [each["resolution"] for each in self.counter.operator.get(f"/reviews/{case}").json()["allowed"]]
        self.settle(case, next(each for each in ("ABANDON", "FAIL", "ACKNOWLEDGE") if each in offered))
        assert self.shown(action_id)["repeat_refused"] is None

    def take_reopen_case(self, action_id: str, control: dict[str, Any]) -> None:
        shown = self.shown(action_id)
        wanted = None if shown["side_effect_class"] == "READ_ONLY" else "WHEN_SETTLED"
        assert (shown["repeat_refused"] or {}).get("ends") == wanted
        assert self.counter.operator.post(control["path"], {"reason": "Once more."}).status_code == 200

    def take_follow_recovery(self, action_id: str, control: dict[str, Any]) -> None:
        child = control["path"].removeprefix("/actions/")
        assert self.step(child)["controls"][0]["control"] == "CANCEL"
        self.take_cancel(child, control)
        after.recover()
        assert self.counter.state(action_id) == "REVIEW_REQUIRED"


RESTING: dict[str, Callable[[Walker, str], str | None]] = {
    "proposed": Walker.proposed,
    "approved": Walker.approved,
    "executing": lambda walker, tool: str(walker.started(tool)["action_id"]),
    "accepted": lambda walker, tool: walker.told(tool, "accepted"),
    "reported": lambda walker, tool: walker.told(tool, "success"),
    "silent": lambda walker, tool: walker.told(tool, "timeout"),
    "read": Walker.read,
    "contradicted": Walker.standing,
}


def combinations() -> Iterator[Any]:
    """Each class with each reversibility; the bounded suite has the one that used to have no way out."""
    for pair in itertools.product(CLASSES, REVERSIBILITIES):
        bounded = pair == ("LOW_RISK_INTERNAL", "COMPENSABLE")
        yield pytest.param(*pair, id="-".join(pair), marks=() if bounded else pytest.mark.long)


@pytest.mark.req("R-SM-26", "R-SM-18", "R-UI-08")
@pytest.mark.parametrize(("side_effect_class", "reversibility"), list(combinations()))
def test_every_state_is_left_by_its_named_control(
    counter: Counter, clock: Clock, secrets_dir: Path, side_effect_class: str, reversibility: str
):
    counter.open(secrets_dir, *contracts_of(side_effect_class, reversibility))
    walker = Walker(counter, clock)
    for tool, (where, bring) in itertools.product((TOOL, UNREAD), RESTING.items()):
        action_id = bring(walker, tool)
        for _ in range(12):
            if action_id is None or walker.step(action_id) is None:
                break
            walker.leave(action_id)
        else:
            pytest.fail(f"{tool} {where} comes to no end: {counter.path(action_id)}")
    wanted = {"CANCEL", "REPORT", "VERIFY"} | ({"SETTLE_CASE"} if side_effect_class != "READ_ONLY" else set())
    assert wanted <= walker.seen


def in_recovery(counter: Counter, clock: Clock, secrets_dir: Path, state: str) -> str:
    """An action that is being compensated, finished or rolled back."""
    if state == "COMPENSATING":
        counter.open(secrets_dir, lesser(), cancelling())
        return wrong(counter, clock)
    if state == "RECONCILIATION_FAILED":
        counter.open(secrets_dir, local(), cancelling())
        return wrong(counter, clock)
    counter.open(secrets_dir, in_parts(pivot=True, approval_required=True), cancelling(), refund_part())
    started = counter.begun()
    counter.till.refund(started["idempotency_key"], currency="EUR")
    counter.tell(started, "partial")
    clock.forward(seconds=60)
    counter.read_back(started["action_id"], clock)
    return str(started["action_id"])


@pytest.mark.parametrize("state", ["COMPENSATING", "FORWARD_RECOVERY", "RECONCILIATION_FAILED"])
def test_an_action_in_recovery_is_settled_through_its_recovery_action(
    counter: Counter, clock: Clock, secrets_dir: Path, state: str
):
    action_id = in_recovery(counter, clock, secrets_dir, state)
    walker = Walker(counter, clock)
    assert (counter.state(action_id), walker.step(action_id)["owner"]) == (state, "CONSOLE")
    assert "A recovery action is ordered" in walker.step(action_id)["text"]
    child_of(counter, action_id)
    assert walker.leave(action_id) == "FOLLOW_RECOVERY"
    assert walker.leave(action_id) == "SETTLE_CASE"
    assert walker.step(action_id) is None


def test_an_agent_is_told_who_acts_next_and_sees_only_its_own_controls(
    counter: Counter, clock: Clock, secrets_dir: Path
):
    counter.open(secrets_dir, unread())
    walker = Walker(counter, clock)
    ready, unknown = walker.proposed(UNREAD), walker.read(UNREAD)
    own, other = (counter.agent.get(f"/actions/{each}").json()["way_out"] for each in (ready, unknown))
    assert [each["control"] for each in own["controls"]] == ["CANCEL"]
    assert (other["owner"], other["controls"]) == ("OPERATORS", [])
    refused = counter.agent.post(f"/actions/{unknown}/case", {"reason": "I want it."})
    assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN")


def test_a_case_can_be_opened_manually_only_where_nothing_else_happens_and_with_a_reason(
    counter: Counter, clock: Clock, secrets_dir: Path
):
    counter.open(secrets_dir, refund_contract(side_effect_class="LOW_RISK_INTERNAL"), unread())
    walker = Walker(counter, clock)
    path = f"/actions/{walker.told(TOOL, 'success')}/case"
    refused = counter.operator.post(path, {"reason": "Now."})
    assert (refused.status_code, refused.json()["code"]) == (409, "NOTHING_TO_SETTLE")
    unknown = walker.read(UNREAD)
    assert counter.operator.post(f"/actions/{unknown}/case", {"reason": " "}).json()["code"] == "REASON_REQUIRED"
    walker.page.post(f"actions/{unknown}/case", reason="")
    assert "No case was opened: enter a reason." in words(walker.page.page(f"actions/{unknown}"))
    assert counter.operator.post(f"/actions/{unknown}/case", {"reason": "A customer asks."}).status_code == 201
    page = walker.page.page(f"cases/{walker.case(unknown)}")
    assert "Opened by a person" in words(page)
    [opened] = [each for each in counter.history(unknown) if each["event"] == "case_opened"]
    assert (opened["actor"]["kind"], opened["detail"]["why"]) == ("person", "A customer asks.")
