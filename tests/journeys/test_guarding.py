"""What the user of an agent reads: six kinds of agent at work in the shop, each telling its user what it did.

The shop's executor really refunds, the console really reads it back, and what goes out is what the client library hands
to whoever sends it. With `COUNTERFOIL_PICTURES=folder` the page of each session is photographed into that folder.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import END, START, MessagesState, StateGraph

from console.local import live_example
from counterfoil.adapters import langgraph as adapter
from counterfoil.agent import Agent, Call, Session
from counterfoil.answers import Outcome
from counterfoil.problems import NotNow
from example.stage import Order, money, refund_of
from tests.browser import chromium as chrome
from tests.journeys.ground import Ground

STRICT, SILENT = "strict-assistant", "silent-assistant"
TOOL = "refund_small_amount"
WIDTH = {"width": 1280, "height": 900}


@dataclass(frozen=True)
class Talk:
    """A session of an agent that refunds an order, and the order."""

    ground: Ground
    session: Session
    order: Order

    def refund(self, call_id: str, *, amount: int = 0, after: tuple[str, ...] = ()) -> Outcome:
        """Refund the order, or this much of it, and wait for what came of it; `after` are failures that it knows of."""
        call = Call(
            TOOL,
            refund_of(self.order, amount=amount),
            call_id=call_id,
            acknowledges=after,
            target_resource=f"order/{self.order.order_id}",
        )
        outcome: Outcome = self.session.attempt(call, for_s=90)
        assert outcome.settled, outcome
        return outcome

    @property
    def page(self) -> str:
        """Where people see the session."""
        return f"/t/{live_example.TENANT}/sessions/{self.session.session_id}"

    @property
    def amount(self) -> str:
        return money(self.order.amount, self.order.currency)

    @property
    def done(self) -> str:
        """The console's line once the whole order is refunded and read back."""
        return f"Verified: Refunded {self.amount} on order {self.order.order_id}."

    @property
    def failed(self) -> str:
        """The console's line on a refund that the shop refused."""
        return (
            f"Failed: refund small amount, order {self.order.order_id}. The system of record shows that nothing"
            " happened. Reason: the tool answered AMOUNT_TOO_HIGH."
        )


@pytest.fixture(scope="module")
def shop(busy_ground: Ground) -> Ground:
    """The shop with two agents more: one in strict mode, and one that must not end a session unguarded."""
    for agent_id in (STRICT, SILENT):
        body = {"agent_id": agent_id, "version": "1", "tools": [TOOL]}
        assert busy_ground.operator.post("/agents", body).status_code == 201
    rule = {"agents": {STRICT: {"uncited": "hold"}, SILENT: {"guarded": True}}}
    busy_ground.put_in_force("verification", "guarding", {"messages": rule})
    return busy_ground


def talk(ground: Ground, agent_id: str = "shop-assistant") -> Talk:
    key = ground.known["keys"]["agent"]
    agent = Agent(url=ground.stack.url, key=key, agent_id=agent_id, http=ground.machine("agent").http)
    order = ground.stage().order()
    goal = f"Refund {money(order.amount, order.currency)} on order/{order.order_id}."
    return Talk(ground, agent.open_session(goal=goal, ttl_seconds=600), order)


def test_a_message_with_another_amount_than_was_paid_is_corrected(shop: Ground):
    made = talk(shop)
    made.refund("call-1")
    said = f"Good news! I have refunded 123.45 EUR on order {made.order.order_id}. Is there anything else?"
    read = made.session.guarded(said)
    assert read == (
        f"Good news! {made.done} No other amount is on record for it. Is there anything else?"
        f"\n\nOn record:\n- {made.done}"
    )
    pictured(made, "guard-other-amount")


def test_a_success_claim_after_two_failed_attempts_is_corrected(shop: Ground):
    made = talk(shop)
    first = made.refund("call-1", amount=made.order.amount + 10)
    second = made.refund("call-2", amount=made.order.amount + 20, after=(str(first.action_id),))
    assert (first.state, second.state) == ("FAILED", "FAILED")
    read = made.session.guarded("It did not work at first. The second time it did: I have issued a refund. Bye!")
    assert read.startswith(
        f"It did not work at first. {made.failed} Bye!\n\nOn record:\n- {made.failed} Asked: amount "
    )
    assert f"amount {money(made.order.amount + 20, made.order.currency)}; reason " in read
    pictured(made, "guard-second-try")


def test_a_citation_is_filled_from_the_record(shop: Ground):
    made = talk(shop)
    made.refund("call-1")
    read = made.session.guarded("It is settled. {{action:call-1}} That is {{call-1.amount}} cents for you.")
    assert read == f"It is settled. {made.done} That is {made.order.amount} cents for you.\n\nOn record:\n- {made.done}"
    pictured(made, "guard-cites")


def test_a_citation_of_a_failed_or_missing_action_is_corrected(shop: Ground):
    made = talk(shop)
    made.refund("call-1", amount=made.order.amount + 10)
    read = made.session.guarded(
        "You have your money back {{action:call-1}}. A voucher is on its way {{action:call-9}}."
    )
    line = f"{made.failed} Asked: amount {money(made.order.amount + 10, made.order.currency)}; reason "
    assert read.startswith(f"{made.failed} Not done: no such action is on record.\n\nOn record:\n- {line}")
    pictured(made, "guard-cites-wrongly")


def test_strict_mode_holds_an_unsupported_sentence_back(shop: Ground):
    made = talk(shop, STRICT)
    made.refund("call-1")
    held = made.session.guarded("I have booked you a taxi for eight. Anything else?")
    assert held == f"No such action is on record here. Anything else?\n\nOn record:\n- {made.done}"
    assert made.session.guarded("{{action:call-1}} Anything else?") == f"{made.done} Anything else?"
    pictured(made, "guard-strict")


def test_a_change_without_any_checked_message_is_counted_as_unreported(shop: Ground):
    made = talk(shop, SILENT)
    made.refund("call-1")
    with pytest.raises(NotNow) as refused:
        made.session.end()
    assert "1 of its changes were followed by no message that the guard has seen." in str(refused.value)
    assert shop.operator.get(f"/agents/{SILENT}")["untold_changes"] == 1
    page = shop.reviewer.http.get(made.page).text
    assert "No messages checked yet." in page
    pictured(made, "guard-never-asked")


def test_a_graph_cites_its_action_and_the_user_reads_the_line_of_the_console(shop: Ground):
    made = talk(shop)
    call = {"name": TOOL, "args": refund_of(made.order), "id": "call-1", "type": "tool_call"}
    asks = {"name": "status_lines", "args": {}, "id": "call-2", "type": "tool_call"}
    script = iter(
        (
            AIMessage("", tool_calls=[call]),
            AIMessage("", tool_calls=[asks]),
            AIMessage("Here you are. {{action:call-1}} I have refunded 123.45 EUR. Anything else?"),
        )
    )
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [next(script)]})
    graph.add_node("tools", adapter.call_tools(made.session, wait_s=90))
    graph.add_node("guard", adapter.guard(made.session))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", adapter.wants_tools, {True: "tools", False: "guard"})
    graph.add_edge("tools", "model")
    graph.add_edge("guard", END)
    messages = graph.compile().invoke({"messages": [HumanMessage("Please refund my order.")]})["messages"]
    answers = {each.tool_call_id: json.loads(each.content) for each in messages if each.type == "tool"}
    assert answers["call-1"]["cite"] == "{{action:call-1}}"
    action_id = answers["call-1"]["action_id"]
    assert answers["call-2"] == {"lines": [{"text": made.done, "cite": f"{{{{action:{action_id}}}}}"}]}
    assert messages[-1].text == (
        f"Here you are. {made.done} {made.done} No other amount is on record for it. Anything else?"
        f"\n\nOn record:\n- {made.done}"
    )


def pictured(made: Talk, name: str) -> None:
    """Photograph what the session's page shows of its messages, where somebody asks for it."""
    folder = os.environ.get("COUNTERFOIL_PICTURES")
    if not folder:
        return
    from playwright.sync_api import sync_playwright

    chromium, http = chrome.find(), made.ground.reviewer.http
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium.path, args=list(chrome.FLAGS), env=os.environ | chromium.environment
        )
        context = browser.new_context(viewport=WIDTH, color_scheme="light")
        context.add_cookies(
            [{"name": key, "value": value, "url": str(http.base_url)} for key, value in http.cookies.items()]
        )
        page = context.new_page()
        page.goto(f"{made.ground.stack.url}{made.page}")
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)
        browser.close()
