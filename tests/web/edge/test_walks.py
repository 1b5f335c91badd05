"""The three walks of docs/where-things-are.md, held to requests as they run."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
from django.conf import settings

from reviews import tasks
from tests.support.api_tenant import Clock, Workshop
from tests.support.scenes import PASSWORD

ROOT = Path(settings.BASE_DIR)
GUIDE = ROOT / "docs" / "where-things-are.md"
PACKAGES = ("console", "approvals", "reviews", "ledger")
STANDS_UNDER = {"approvals": 1, "reviews": 1, "ledger": 2, "console": 0}


class Walk:
    """The modules of the product that are entered while something is done, in order, and who called whom."""

    def __init__(self, do: Callable[[], Any]) -> None:
        self.passed: dict[str, None] = {}
        self.calls: set[tuple[str, str]] = set()
        self._known: dict[CodeType, str] = {}
        sys.setprofile(self._entered)
        threading.setprofile(self._entered)
        try:
            self.answer = do()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _entered(self, frame: FrameType, event: str, _: Any) -> None:
        module = self._module(frame.f_code) if event == "call" else ""
        if not module:
            return
        self.passed[module] = None
        caller = frame.f_back
        while caller is not None and not self._module(caller.f_code):
            caller = caller.f_back
        if caller is not None:
            self.calls.add((self._module(caller.f_code), module))

    def _module(self, code: CodeType) -> str:
        if code not in self._known:
            file = Path(code.co_filename)
            inside = file.relative_to(ROOT) if file.is_relative_to(ROOT) else Path()
            ours = inside.parts[:1] and inside.parts[0] in PACKAGES and code.co_name != "<module>"
            self._known[code] = str(inside.with_suffix("")) if ours else ""
        return self._known[code]

    def steps(self) -> list[str]:
        """What decides and writes: no reads, no frame around a request, and of the record its one door."""
        return [module for module in self.passed if re.search(STEPS, module)]


STEPS = (
    # The recovery table and the shapes of settings are made once in a process, by whoever comes first.
    r"^(?!.*/(?:recovery_table|shapes))"
    r"(?:console/(\w+/(views|displays|routes)|accounts/step_up)"
    r"|(approvals|reviews)/(tasks|\w+/(operations|rules)|checks/filesystems)"
    r"|ledger/record/operations)"
)


ROOMS = ("tasks", "operations checks", "queries", "rules")


def room(module: str) -> int:
    names = module.split("/")
    if module.startswith("console"):
        return 0
    return next((depth for depth, name in enumerate(ROOMS) if set(name.split()) & set(names)), 0)


def written(title: str) -> list[str]:
    """The modules of one walk, as the guide has them."""
    block = re.search(rf"\*\*{title}\*\*.*?```text\n(.*?)```", GUIDE.read_text(), re.S)
    assert block, title
    return [line.split()[0] for line in block[1].splitlines()]


@pytest.fixture
def walks(shop: Workshop, clock: Clock, tmp_path: Path) -> dict[str, Walk]:
    action_id = shop.propose()
    approval = shop.approval_of(action_id)
    covers = approval["covers"]
    form = {name: covers[name] for name in ("payload_hash", "rendering_digest")}
    form |= {"without_reading": "on"} if approval["target_unread"] else {}
    form |= {"verdict": "approve", "covers": approval["covers_digest"], "reason": "It is old.", "password": PASSWORD}
    vote = Walk(lambda: shop.reviewer.client.post(f"/t/orchid/approvals/{approval['approval_id']}/vote", form))
    order = shop.claim()[0]
    start = Walk(lambda: shop.start(order))
    (tmp_path / "documents" / "policies" / "returns.md").unlink()
    shop.observe(start.answer.json())
    clock.forward(seconds=10)
    verdict = Walk(tasks.verify_due)
    assert (vote.answer.status_code, start.answer.status_code, verdict.answer) == (302, 201, 1)
    assert shop.state(action_id) == "RECONCILED_SUCCESS"
    return {"A vote": vote, "A start": start, "A verdict": verdict}


def test_the_guide_lists_the_functions_of_a_vote_a_start_and_a_verdict_in_order(walks: dict[str, Walk]):
    for title, walk in walks.items():
        assert "\n".join(walk.steps()) == "\n".join(written(title))


def test_no_call_goes_from_a_lower_room_to_a_higher_one(walks: dict[str, Walk]):
    """From views to operations to reads to rules, and from a package to what stands under it."""
    up = [
        (caller, called)
        for walk in walks.values()
        for caller, called in walk.calls
        if called.count("/") > 1
        and (STANDS_UNDER[called.split("/")[0]], room(called)) < (STANDS_UNDER[caller.split("/")[0]], room(caller))
    ]
    assert not up
