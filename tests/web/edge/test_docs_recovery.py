"""The examples of docs/recovery.md are run, in their order, and its fragments of contracts are valid."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from approvals import tasks as before
from ledger.catalogue.rules import contract
from reviews import tasks as after
from tests.support.api_tenant import CONTRACTS, result
from tests.web.edge.test_docs_examples import GUIDE, Reader, blocks
from tests.web.edge.test_docs_examples import reader as reader  # the same tenant, folder and keys

RECOVERY = GUIDE.with_name("recovery.md")
WRONG = "<!-- the tool writes another text, says success, and is read back -->"
WITHDRAWN = "<!-- the page is withdrawn, and that is read back -->"


def carried_out(reader: Reader, tool: str, effect: Callable[[dict[str, Any]], None]) -> None:
    """The executor carries out the one order that there is, and what it did is read back."""
    (order,) = reader.shop.claim()
    started = reader.shop.start(order).json()
    effect(started["payload"])
    assert reader.shop.observe(started, result=result(tool=tool)).status_code == 202
    reader.clock.forward(seconds=60)
    reader.shop.read_back(order["action_id"], reader.clock)


def published_wrong(reader: Reader) -> None:
    tools = ["publish_page", "withdraw_page"]
    body = {"executor_id": "runner", "public_jwk": reader.shop.key.public_jwk, "tools": tools}
    assert reader.shop.executor.post("/executors", body).status_code == 201
    (reader.folder / "pages").mkdir()
    carried_out(reader, tools[0], lambda payload: _write(reader, payload["path"]))


def _write(reader: Reader, path: str) -> None:
    (reader.folder / path).write_text("Open from ten.")


def withdrawn(reader: Reader) -> None:
    before.propose_follow_ups()
    carried_out(reader, "withdraw_page", lambda payload: (reader.folder / payload["path"]).unlink())
    for _ in range(3):
        after.recover()


ACTS = {WRONG: published_wrong, WITHDRAWN: withdrawn}


@pytest.mark.req("R-RP-37", "R-RP-45")
def test_the_requests_of_the_recovery_guide_get_the_documented_answers(reader: Reader):
    answer: Any = None
    done = []
    for kind, status, text in blocks(RECOVERY):
        text = text.replace("/srv/documents", str(reader.folder))
        if kind == "http":
            answer = reader.ask(text)
        elif kind == "json" and status:
            assert answer.status_code == int(status), answer.content
            reader.compare(json.loads(text), answer.json())
        elif kind == "note":
            ACTS[text](reader)
            done.append(text)
    assert done == [WRONG, WITHDRAWN]
    assert not (reader.folder / "pages" / "opening-hours.md").exists()


def test_the_fragments_of_the_recovery_guide_are_parts_of_valid_contracts():
    fragments = [json.loads(text) for kind, status, text in blocks(RECOVERY) if kind == "json" and not status]
    document = json.loads((CONTRACTS / "refund_and_notify.json").read_text())
    assert fragments
    for fragment in fragments:
        made = contract.validate(document | fragment, compile_predicate=lambda text: None)
        named = made.recovery.effects.keys() or {made.required_effects[0]}
        assert named <= set(made.required_effects)
        assert made.recovery.effects or made.recovery.corrections
