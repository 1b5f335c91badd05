"""What every check must endure: the network between us and its peer fails in each way, and nothing is concluded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta

from console.local import processes
from tests.peers.support.errand import Errand
from tests.peers.support.path import Ended, Office, Work, succeeded
from tests.peers.support.proxy import SAYS, Fault, Net, timed

SLOW_MACHINE_S = 8
TRIES = 3
"""A slow machine may need more than one reading when the network is whole again; a poll would come by itself."""
LATER = timedelta(seconds=30)
CUTS = (0.05, 0.45, 0.9, 0.0, 0.15, 0.3, 0.6, 0.75)
SILENCES = (0.9, 0.0, 0.5)
BRIEF = 3


def faults(heard: int, *, timeout_s: float, brief: bool) -> Iterator[tuple[str, Fault]]:
    """Every way in which the network fails, or some of each kind; `heard` is how long a whole conversation is."""
    yield "refused", Fault(refuses=True)
    if not brief:
        yield "late", Fault(late_s=timeout_s + 1)
    for share in CUTS[: BRIEF if brief else None]:
        for then in ("cut", "end"):
            yield f"{then} after {share:.0%}", Fault(after=int(heard * share), then=then)
    for share in SILENCES[: 1 if brief else None]:
        yield f"silence after {share:.0%}", Fault(after=int(heard * share), then="silence")
    for name, says in list(SAYS.items())[:: BRIEF if brief else 1]:
        yield name, Fault(says=says)


def endured(
    office: Office, errand: Errand, effect: Callable[[Work], object], *, timeout_s: int, brief: bool = False
) -> bytes:
    """The action is done and right, and each fault hides it: never success, never failure, never absence.

    What the peer said before the tool acted is kept, and said again at the end, as a forgotten copy would. When the
    network is mended, the action is found done. Returned is all that was said to the peer in that last reading.
    """
    with Net() as net:
        led = replace(net.through(errand), reading=errand.reading | {"timeout_s": timeout_s, "settle_s": 10})
        work = office.begin(led)
        net.record()
        office.observe(work)
        before = office.verify(work, later=timedelta(0))
        assert before.state == "PENDING", before.document["verdict"]
        # A conversation is kept once both sides have hung up, which may come after the answer.
        processes.wait_until(lambda: any(net.heard.values()), within_s=SLOW_MACHINE_S)
        heard = sum(len(one) for tapes in net.heard.values() for one in tapes)
        assert heard > 100, net.heard
        effect(work)
        for name, fault in faults(heard, timeout_s=timeout_s, brief=brief):
            net.spoil(fault)
            ended, took_s = timed(lambda: office.verify(work, later=LATER))
            concludes_nothing(ended, name)
            assert took_s < max(timeout_s, 2) + SLOW_MACHINE_S, name
        net.spoil(Fault())
        net.play_back()
        concludes_nothing(office.verify(work, later=LATER), "what was said before")
        net.mend()
        for _ in range(TRIES):
            net.asked.clear()
            ended = office.verify(work, later=LATER)
            if ended.state != "PENDING":
                break
        succeeded(ended)
        return b"".join(net.asked)


def concludes_nothing(ended: Ended, name: str) -> None:
    """The action goes on waiting, and by a row that reads again."""
    assert ended.state == "PENDING", (name, ended.document["verdict"]["reason"], ended.document["failure"])
    assert ended.row in {"RT-01", "RT-02", "RT-19"}, (name, ended.row)
