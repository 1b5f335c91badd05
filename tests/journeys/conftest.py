"""Grounds for journeys: each starts the real processes once, serves every journey of this worker and ends with them.

Left to the end of the run, their workers would look for what is due every second until then.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.journeys.ground import Ground, opened, tended


@pytest.fixture(scope="package")
def busy_ground(template, run) -> Iterator[Ground]:
    """The console and the whole example: an executor that is started again when it dies, and the mailer."""
    with opened(run) as ground, tended(ground, "executor", "consumer"):
        yield ground


@pytest.fixture(scope="package")
def quiet_ground(template, run) -> Iterator[Ground]:
    """The console with the shop beside it, and nobody at work there; its record must hold in the end."""
    with opened(run) as ground:
        yield ground
        ground.recover()
        ground.verify_ledger()


@pytest.fixture
def quiet(quiet_ground) -> Iterator[Ground]:
    """The quiet ground at work, whole again afterwards."""
    quiet_ground.until_at_work()
    yield quiet_ground
    quiet_ground.recover()
