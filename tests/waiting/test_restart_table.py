"""Clients of each kind wait for a person over restarts and over a day: no decision is lost, and no effect is doubled.

`python -m pytest -m long -s tests/waiting/test_restart_table.py` prints the table.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.waiting.place import KINDS, CannotRun, Place, Wish, opened

IGNORED = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
pytestmark = [pytest.mark.long, IGNORED]
TIMES = int(os.environ.get("RESTARTS_EACH", "1"))
STILL_S = 5.0
Fault = Callable[[Place, list[Wish]], None]


def _console(place: Place, wishes: list[Wish]) -> None:
    place.kill_console()
    time.sleep(2)
    place.start_console()
    place.decide(wishes)


def _gateway(place: Place, wishes: list[Wish]) -> None:
    place.kill_gateways()
    place.decide([each for each in wishes if each.while_away])
    time.sleep(1)
    place.start_gateways()
    place.decide([each for each in wishes if not each.while_away])


def _client(place: Place, wishes: list[Wish]) -> None:
    place.kill_clients(wishes)
    place.decide([each for each in wishes if each.while_away])
    # The executors act meanwhile; the gateways wait for a client.
    time.sleep(8)
    for each in wishes:
        place.start(each)
    place.decide([each for each in wishes if not each.while_away])


def _day(place: Place, wishes: list[Wish]) -> None:
    place.a_day_passes()
    place.decide(wishes)


def _day_away(place: Place, wishes: list[Wish]) -> None:
    """The client is away for the day, and people decide in the middle of it."""
    place.kill_clients(wishes)
    place.a_day_passes()
    place.decide(wishes)
    time.sleep(12)
    for each in wishes:
        place.start(each)


FAULTS: dict[str, Fault] = {
    "console": _console,
    "gateway": _gateway,
    "client": _client,
    "24 h": _day,
    "24 h, client away": _day_away,
}


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        try:
            with opened(Path(name)) as made:
                yield made
        except CannotRun as missing:
            pytest.skip(str(missing))


def lost(wish: Wish, effects: int) -> str:
    """The reason why a decision did not arrive; empty if it did."""
    heard = wish.heard
    if heard is None:
        return "heard nothing"
    approved = wish.verdict == "approve"
    if heard["decision"] != ("APPROVED" if approved else "REJECTED") or heard["done"] != approved:
        return f"heard {heard}"
    if approved and effects == 0:
        return "approved, and nothing happened"
    return "" if approved or wish.reason in heard["text"] else f"not with its reason: {heard['text']}"


@pytest.mark.parametrize("fault", FAULTS)
def test_no_decision_is_lost_and_no_effect_is_doubled(
    place: Place, fault: str, table: dict[tuple[str, str], str], tell: Callable[[str], None]
):
    wishes = [
        place.wish(kind, verdict, while_away=(place_of_kind + number + (verdict == "reject")) % 2 == 0)
        for place_of_kind, kind in enumerate(KINDS)
        for verdict in ("approve", "reject")
        for number in range(TIMES)
    ]
    # The gateway's next session: a call that people rejected is a failed step of its run.
    place.restart_gateways()
    for each in wishes:
        place.start(each)
    place.all_wait(wishes)
    FAULTS[fault](place, wishes)
    place.await_word(wishes)
    time.sleep(STILL_S)
    counts = place.counts()
    missed = {each.name: f"{each.kind.name}: {why}" for each in wishes if (why := lost(each, counts[each.name]))}
    for kind in KINDS:
        of_kind = [each for each in wishes if each.kind is kind]
        table[kind.name, fault] = (
            f"{len(missed.keys() & {each.name for each in of_kind})} / {_doubled(of_kind, counts)} of {len(of_kind)}"
        )
    tell(f"{fault}: {', '.join(f'{kind.name} {table[kind.name, fault]}' for kind in KINDS)}; {missed or 'none lost'}")
    place.kill_clients(wishes)
    logs = "\n".join(place.client_log(each) for each in wishes if each.name in missed)
    assert (missed, _doubled(wishes, counts)) == ({}, 0), logs


def _doubled(wishes: list[Wish], counts: Counter[str]) -> int:
    """The effects beyond those that were approved."""
    return sum(max(0, counts[each.name] - (each.verdict == "approve")) for each in wishes)


@pytest.fixture(scope="module")
def table(tell: Callable[[str], None]) -> Iterator[dict[tuple[str, str], str]]:
    found: dict[tuple[str, str], str] = {}
    yield found
    lines = [f"| client | {' | '.join(FAULTS)} |", f"|---|{'---|' * len(FAULTS)}"]
    for kind in KINDS:
        cells = [found.get((kind.name, fault), "not run") for fault in FAULTS]
        lines.append(f"| {kind.name} | {' | '.join(cells)} |")
    tell("\n" + "\n".join(lines) + "\nlost decisions / double effects, of so many calls")


@pytest.fixture(scope="module")
def tell(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Write a line that is seen although the test passes."""
    plugins = request.config.pluginmanager
    reporter, capture = plugins.getplugin("terminalreporter"), plugins.getplugin("capturemanager")

    def write(text: str) -> None:
        with capture.global_and_fixture_disabled():
            reporter.write_line(text)

    return write
