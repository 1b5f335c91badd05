"""Programs that ask `POST /verify`, before the console itself, and the sentence that each of them passes on."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from console.edge import waiting
from counterfoil.agent import Agent, AsyncAgent
from counterfoil.answers import Verification
from counterfoil.coding_agents.__main__ import main
from counterfoil.problems import Problem
from ledger.db import tenancy
from reviews import tasks
from reviews.models import UngatedClaim
from tests.client.consoles import StandIn
from tests.mcp.conftest import Bench, word
from tests.support.callers import Api, answered, key_for
from tests.web.claims.desk import Desk
from tests.web.claims.refund_situations import CLAIM
from tests.web.claims.served import served_console

SAFE = "Safe to claim: payments shows the refund as claimed; read at "
WRONG = "Not safe to claim: payments shows amount 15.00 EUR instead of 40.00 EUR; read at "


@pytest.fixture
def console(desk: Desk) -> Iterator[StandIn]:
    with served_console(nap=read_due) as server:
        yield server


def read_due(_: float) -> None:
    """The workers read what is due while a request waits."""
    tasks.verify_due()


def secret_of(caller: Api) -> str:
    return caller.headers["Authorization"].removeprefix("Bearer ")


def ask_agent(url: str, key: str, **claimed: Any) -> Verification:
    with Agent(url=url, key=key, agent_id="cashier") as agent:
        found: Verification = agent.verify("payments", "refund", **claimed)
        assert agent.claim(found.claim_id) == found
        return found


def ask_async_agent(url: str, key: str, **claimed: Any) -> Verification:
    async def ask() -> Verification:
        async with AsyncAgent(url=url, key=key, agent_id="cashier") as agent:
            found: Verification = await agent.verify("payments", "refund", **claimed)
            assert await agent.claim(found.claim_id) == found
            return found

    return asyncio.run(ask())


@pytest.mark.parametrize("ask", [ask_agent, ask_async_agent])
@pytest.mark.parametrize(("amount", "said"), [(4000, SAFE), (1500, WRONG)])
def test_an_agent_is_told_whether_what_it_says_is_safe_to_claim(
    desk: Desk, console: StandIn, ask: Any, amount: int, said: str
):
    desk.processor.refund(operation="op-1", amount=amount)
    key = secret_of(desk.shop.agent)
    found = ask(console.url, key, operation="op-1", expected=CLAIM, said_by="cashier", statement="I refunded it.")
    assert found.sentence.startswith(said)
    assert (found.safe_to_claim, found.settled) == (amount == 4000, True)
    assert (found.not_known[0], found.receipt) == ("who did it", None)
    with pytest.raises(Problem, match="amuont"):
        ask(console.url, key, operation="op-1", expected={"amuont": 1}, said_by="cashier")


def command(console: StandIn, *more: str) -> Any:
    """Its exit code, or the fault that it ends with."""
    words = ["verify", "payments", "refund", "--operation", "op-1", "--said-by", "night job", "--url", console.url]
    with pytest.raises(SystemExit) as ended:
        main([*words, *more])
    return ended.value.code


@pytest.mark.parametrize(("amount", "said", "code"), [(4000, SAFE, 0), (1500, WRONG, 1)])
def test_the_command_says_the_sentence_and_ends_with_0_only_where_it_is_safe(
    desk: Desk,
    console: StandIn,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    amount: int,
    said: str,
    code: int,
):
    monkeypatch.setenv("COUNTERFOIL_OPERATOR_KEY", secret_of(desk.shop.operator_key))
    desk.processor.refund(operation="op-1", amount=amount)
    expected = ("--expect", "amount=4000", "--expect", "currency=EUR", "--expect", 'customer="cus_1"')
    assert command(console, *expected, "--statement", "I refunded it.") == code
    sentence, not_known = capsys.readouterr().out.splitlines()
    assert sentence.startswith(said)
    assert not_known.startswith("Not known: who did it, whether it was approved, ")
    assert command(console, *expected, "--json") == code
    told = json.loads(capsys.readouterr().out)
    assert told["safe_to_claim"] is (code == 0)
    assert told["receipt"]["payloadType"] == "application/vnd.in-toto+json"


@pytest.mark.parametrize(
    ("more", "says"),
    [(("--expect", "amount"), "--expect takes FIELD=VALUE; amount is none."), (("--expect", "amuont=1"), "amuont")],
)
def test_the_command_never_ends_with_0_where_nothing_was_verified(
    desk: Desk,
    console: StandIn,
    monkeypatch: pytest.MonkeyPatch,
    more: tuple[str, ...],
    says: str,
):
    monkeypatch.setenv("COUNTERFOIL_OPERATOR_KEY", secret_of(desk.shop.operator_key))
    desk.processor.refund(operation="op-1")
    fault = command(console, *more)
    assert says in fault, "a text is exit code 1"
    with tenancy(desk.shop.tenant):
        assert UngatedClaim.objects.count() == 0


def test_an_agent_behind_the_mcp_gateway_gets_the_sentence_from_its_tool(desk: Desk, console: StandIn, tmp_path: Path):
    shop = desk.shop
    desk.open_gate(lookup={"id": "so.evidence.refund"}, checks={"idempotency_key": {"not_applicable": "By id."}})
    desk.processor.refund(operation="op-1", amount=1500)
    bench = Bench(tmp_path, console.url)
    bench.told(console={"agent_id": "cashier"})
    bench.keys = {
        "COUNTERFOIL_AGENT_KEY": secret_of(shop.agent),
        "COUNTERFOIL_EXECUTOR_KEY": secret_of(key_for(shop.tenant, "exec")),
    }
    claimed = {"system": "payments", "effect": "refund", "operation": "op-1", "expected": CLAIM}

    async def script(client: Any) -> Any:
        assert "counterfoil_verify" in [tool.name for tool in (await client.list_tools()).tools]
        wrong = await client.call_tool("counterfoil_verify", claimed | {"statement": "I refunded 40.00 EUR."})
        right = await client.call_tool("counterfoil_verify", claimed | {"expected": CLAIM | {"amount": 1500}})
        refused = [
            await client.call_tool("counterfoil_verify", claimed | wrong)
            for wrong in ({"expected": {}}, {"expected": "amount"}, {"system": "nowhere", "said_by": "nobody"})
        ]
        return wrong, right, [one.content[0].text for one in refused if one.is_error]

    wrong, right, refused = bench.talk(script)
    assert wrong.content[0].text.startswith(WRONG)
    assert " Not known: who did it, whether it was approved, " in wrong.content[0].text
    assert (word(wrong)["safe_to_claim"], word(wrong)["outcome"]) == (False, "NEEDS_REVIEW")
    assert right.content[0].text.startswith(SAFE)
    assert (word(right)["safe_to_claim"], word(right)["outcome"]) == (True, "VERIFIED")
    said = "Not verified, so it is not safe to claim: "
    assert refused == [
        f"Refused (NOTHING_EXPECTED): {said}A claim names at least one field and the value that it should have.",
        f"Refused (ARGUMENT_HALLUCINATION): {said}`expected` is an object of fields and their values.",
        f"Refused (NOT_FOUND): {said}System not found.",
    ]
    with tenancy(shop.tenant):
        assert {row.said_by for row in UngatedClaim.objects.all()} == {"cashier"}


# The wait of `POST /verify`


def test_the_answer_waits_for_the_reading_that_settles_the_claim(desk: Desk):
    desk.processor.refund(operation="op-1")
    told = verified(desk, wait_s=20).json()
    assert told["sentence"].startswith(SAFE)
    assert told["receipt"]["payloadType"] == "application/vnd.in-toto+json"
    with tenancy(desk.shop.tenant):
        assert UngatedClaim.objects.count() == 1


def test_an_answer_that_is_not_settled_in_time_says_so(desk: Desk):
    desk.processor.refund(operation="op-1")
    desk.processor.last()["status"] = "pending"
    began = time.monotonic()
    told = verified(desk, wait_s=1).json()
    assert time.monotonic() - began >= 1
    assert (told["state"], told["safe_to_claim"]) == ("OPEN", False)
    assert told["sentence"].startswith("Not safe to claim yet: ")


def test_one_more_than_may_wait_is_answered_at_once(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(waiting, "MOST_WAITING", 0)
    desk.processor.refund(operation="op-1")
    told = verified(desk, wait_s=20).json()
    assert told["sentence"] == "Not safe to claim yet: payments has not been read."


def verified(desk: Desk, *, wait_s: int) -> Any:
    """The answer to a claim that may wait."""
    return answered(desk.shop.operator_key.client, lambda: desk.verify(wait_s=wait_s), nap=read_due)
