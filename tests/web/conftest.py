"""Callers of the HTTP API, in the test's own transaction.

What they are made of imports models, which are ready only once pytest has set Django up: so it is imported late.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest


@pytest.fixture
def founded(db: None) -> UUID:
    """A tenant with its first event and default policies."""
    from tests.support.callers import found

    return found("orchid")


@pytest.fixture
def elsewhere(db: None) -> UUID:
    """Somebody else's tenant, founded alike."""
    from tests.support.callers import found

    return found("willow")


@pytest.fixture
def agent(founded: UUID) -> Any:
    from tests.support.callers import key_for

    return key_for(founded, "agent")


@pytest.fixture
def operator_key(founded: UUID) -> Any:
    from tests.support.callers import key_for

    return key_for(founded, "oper")


@pytest.fixture
def executor_key(founded: UUID) -> Any:
    from tests.support.callers import key_for

    return key_for(founded, "exec")


@pytest.fixture
def reviewer(founded: UUID) -> Any:
    from tests.support.callers import person_for

    return person_for(founded, "reviewer")


@pytest.fixture
def operator(founded: UUID) -> Any:
    from tests.support.callers import person_for

    return person_for(founded, "operator")


@pytest.fixture
def stage(db: None) -> Any:
    """A tenant whose agent and executor can be sent anywhere; see tests/support/scenes.py."""
    from tests.support.scenes import set_up

    return set_up("orchid")


@pytest.fixture(autouse=True)
def unhurried(settings: Any) -> Any:
    """No test is refused for asking often; those about that say so themselves."""
    settings.COUNTERFOIL_RATE_PER_S = 0
    return settings


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The clock of views and tasks, to be put forward."""
    from tests.support.api_tenant import Clock

    clock = Clock()
    monkeypatch.setattr("django.utils.timezone.now", clock.now)
    return clock


@pytest.fixture
def shop(db: None, secrets_dir: Path, tmp_path: Path) -> Any:
    """A tenant at work on a folder in which the document to delete still lies."""
    from tests.support.api_tenant import workshop

    root = tmp_path / "documents"
    (root / "policies").mkdir(parents=True)
    (root / "policies" / "returns.md").write_text("Returns within 14 days.")
    credentials = secrets_dir / "systems" / "orchid"
    credentials.mkdir(parents=True)
    (credentials / "documents.json").write_text("{}")
    return workshop("orchid").set_up(root)


@pytest.fixture(scope="session")
def open_till(cluster: Any) -> Any:
    """Two real databases that the console is to read: refunds, and the books that follow them."""
    from tests.support.refund_shop import opened

    with opened(cluster) as till:
        yield till


@pytest.fixture
def till(open_till: Any) -> Any:
    """The till, empty but for one order."""
    open_till.clear()
    return open_till


@pytest.fixture
def counter(db: None, secrets_dir: Path, till: Any) -> Iterator[Any]:
    """A tenant whose agent refunds orders at the till; nothing is registered yet. Whatever was read there can be judged
    again, and comes out the same.
    """
    from tests.support.refund_shop import counter
    from tests.support.replays import replays_alike

    made = counter("orchid", till)
    yield made
    assert replays_alike(made.tenant) == []
