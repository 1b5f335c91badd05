"""The drills, in short: each runs an installation of its own and says by its exit code whether all went well."""

from __future__ import annotations

import pytest

from deploy.drills import kills, promotion


@pytest.mark.long
@pytest.mark.parametrize("more", [(), ("--synchronous",)], ids=["asynchronous", "synchronous"])
def test_a_promotion_while_work_goes_on_does_nothing_twice(more: tuple[str, ...], capsys: pytest.CaptureFixture[str]):
    assert promotion.main(["--rounds", "2", "--behind", "4", *more]) == 0, capsys.readouterr().out


@pytest.mark.long
def test_processes_that_are_killed_lose_and_double_nothing(capsys: pytest.CaptureFixture[str]):
    assert kills.main(["--rounds", "6"]) == 0, capsys.readouterr().out
