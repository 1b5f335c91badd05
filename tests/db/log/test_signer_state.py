"""The signer state as a file and as a PostgreSQL of its own: one leader, whose token fences every earlier one off."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import psycopg
import pytest

from console.local import processes, servers
from ledger.log import signer_state
from ledger.log.operations.sequencer import take_lead
from ledger.log.rules.signing import NOTHING, HistoryForked, TreeHead
from ledger.log.signer_state import LeadLost, SignerState, SignerStateUnavailable, StateInsideRecord, open_state
from tests.db.log.state_server import StateServer, state_server

LOG = "example.org/log"
ONE, TWO, OTHER = TreeHead(1, b"\1" * 32), TreeHead(2, b"\2" * 32), TreeHead(1, b"\3" * 32)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StateServer]:
    with state_server() as started:
        yield started


@pytest.fixture(params=["sqlite", "postgresql"])
def opened(request: pytest.FixtureRequest, tmp_path) -> Iterator[Callable[[], SignerState]]:
    """Open one and the same state, each time as another process would."""
    if request.param == "sqlite":
        address = tmp_path / "signer.sqlite"
    else:
        address = request.getfixturevalue("server").new_database()
    with ExitStack() as stack:
        yield lambda: stack.enter_context(open_state(address))


def expire(state: SignerState) -> None:
    """The lease of the leader has ended, as after a pause of it."""
    state._run("UPDATE leader SET until = 0")


def test_a_leader_that_wakes_up_after_a_takeover_changes_nothing(opened):
    old, new = opened(), opened()
    assert old.take_lead()
    old.enrol(LOG)
    assert not new.take_lead()
    expire(old)
    assert new.take_lead()
    for change in (
        lambda: old.advance(LOG, NOTHING, OTHER),
        lambda: old.enrol("example.org/another"),
        lambda: old.adopt("example.org/another", ONE),
        old.raise_epoch,
    ):
        with pytest.raises(LeadLost):
            change()
    old.release_lead()
    new.advance(LOG, NOTHING, ONE)
    assert (new.last(LOG), new.origins(), new.epoch) == (ONE, [LOG], 1)
    assert not old.take_lead()


def test_a_state_that_nobody_leads_is_not_changed(opened):
    with pytest.raises(LeadLost):
        opened().enrol(LOG)


def test_the_lead_passes_on_at_once_when_it_is_released_or_taken_by_an_operator(opened):
    first, second, operator = opened(), opened(), opened()
    assert first.take_lead()
    first.release_lead()
    assert second.take_lead()
    assert operator.take_lead(at_once=True)
    with pytest.raises(LeadLost):
        second.enrol(LOG)
    assert operator.take_lead()


def test_a_leader_keeps_the_lead_by_working(opened, monkeypatch):
    first, second = opened(), opened()
    first.take_lead()
    expire(first)
    first.keep_lead()
    assert first._run("SELECT until FROM leader") == [(0,)]
    monkeypatch.setattr(signer_state, "RENEW_S", 0)
    first.keep_lead()
    assert not second.take_lead()
    expire(first)
    first.enrol(LOG)
    assert not second.take_lead()


def test_a_head_is_stored_only_after_the_one_before_it(opened):
    state = opened()
    state.take_lead()
    state.enrol(LOG)
    state.advance(LOG, NOTHING, ONE)
    # After a crash before the signature the same head is stored, and signed, again.
    state.advance(LOG, ONE, ONE)
    state.advance(LOG, ONE, TWO)
    for last in (NOTHING, ONE, OTHER):
        with pytest.raises(HistoryForked):
            state.advance(LOG, last, TreeHead(3, b"\4" * 32))
    assert state.last(LOG) == TWO


def test_a_change_that_waits_for_a_takeover_is_refused_by_it(server):
    """The old leader's statement is under way when the new one commits."""
    address = server.new_database()
    with open_state(address) as old, psycopg.connect(address) as new:
        old.take_lead()
        old.enrol(LOG)
        new.execute("UPDATE leader SET token = token + 1, holder = 'other'")
        refusals: list[LeadLost] = []

        def sign() -> None:
            try:
                old.advance(LOG, NOTHING, OTHER)
            except LeadLost as lost:
                refusals.append(lost)

        signing = threading.Thread(target=sign)
        signing.start()
        waits = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        assert processes.wait_until(lambda: server.ask(waits) == 1, within_s=60)
        new.commit()
        signing.join()
        assert [str(each) for each in refusals] == ["Another signer leads: other."]
        assert old.last(LOG) == NOTHING


def test_a_state_whose_server_was_away_goes_on_under_the_same_token(server):
    with open_state(server.new_database()) as state:
        state.take_lead()
        state.enrol(LOG)
        server.stop()
        with pytest.raises(SignerStateUnavailable):
            state.advance(LOG, NOTHING, ONE)
        server.start()
        state.advance(LOG, NOTHING, ONE)
        assert state.last(LOG) == ONE


def test_a_state_that_cannot_be_durable_is_made_so(server):
    address = server.new_database()
    with open_state(f"{address}?options=-csynchronous_commit%3Doff") as state:
        assert state._run("SHOW synchronous_commit") == [("on",)]


@pytest.mark.usefixtures("db")
def test_a_state_on_the_server_of_the_record_is_refused(run):
    inside = open_state(run.postgres.url(servers.SUPERUSER, "postgres"))
    with inside as state, pytest.raises(StateInsideRecord, match="another server"):
        take_lead(state)
