"""The drills, in short: each runs an installation of its own and tells by its exit code whether all went well."""

from __future__ import annotations

import sys

import pytest

from deploy.drills import broker, disk, keys, kills, poolers, promotion, signer, skew, takeover
from deploy.drills.drill import Drill

CANNOT_RUN = 3

# A drill kills what its threads talk to, and ends while some of them wait.
IGNORED = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
pytestmark = [pytest.mark.long, IGNORED]


def passes(drill: Drill, capsys: pytest.CaptureFixture[str], *words: str) -> bool:
    """Run a drill; skip where this machine lacks what it needs."""
    code = drill.run(list(words))
    said = capsys.readouterr()
    if code == CANNOT_RUN:
        pytest.skip(said.err.strip())
    sys.stdout.write(said.out + said.err)
    return code == 0


@pytest.mark.parametrize("more", [(), ("--synchronous",)], ids=["asynchronous", "synchronous"])
def test_a_promotion_during_work_repeats_nothing(more: tuple[str, ...], capsys: pytest.CaptureFixture[str]):
    assert passes(promotion.DRILL, capsys, "--rounds", "2", "--behind", "4", *more)


def test_killed_processes_lose_and_double_nothing(capsys: pytest.CaptureFixture[str]):
    assert passes(kills.DRILL, capsys, "--rounds", "6")


@pytest.mark.parametrize("more", [(), ("--pause",)], ids=["killed", "paused"])
def test_another_host_takes_over_from_the_sequencer_that_leads(
    more: tuple[str, ...], capsys: pytest.CaptureFixture[str]
):
    assert passes(signer.drill(), capsys, "--rounds", "3", *more)


def test_no_proposal_is_refused_while_the_broker_is_down(capsys: pytest.CaptureFixture[str]):
    assert passes(broker.DRILL, capsys, "--proposals", "100", "--away", "15", "--per-s", "8")


@pytest.mark.parametrize("broker_kind", ["sentinel", "rabbitmq"])
def test_a_lost_host_of_the_broker_loses_nothing_and_delays_no_reading_by_half_a_minute(
    broker_kind: str, capsys: pytest.CaptureFixture[str]
):
    assert passes(takeover.DRILL, capsys, broker_kind, "--rounds", "1")


def test_everyone_is_asked_to_retry_later_while_the_key_database_is_down(capsys: pytest.CaptureFixture[str]):
    assert passes(keys.DRILL, capsys, "--rounds", "1")


def test_a_full_disk_is_reported_and_nothing_is_lost(capsys: pytest.CaptureFixture[str]):
    assert passes(disk.DRILL, capsys, "--rounds", "1")


def test_wrong_clocks_are_reported_and_their_executors_refused(capsys: pytest.CaptureFixture[str]):
    assert passes(skew.DRILL, capsys, "--rounds", "2", "--for", "8")


def test_an_installation_behind_a_pooler_executes_and_verifies_everything(capsys: pytest.CaptureFixture[str]):
    assert passes(poolers.DRILL, capsys, "--rounds", "1", "--for", "15")
