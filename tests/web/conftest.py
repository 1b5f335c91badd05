"""Callers of the HTTP API, in the test's own transaction.

What they are made of imports models, which are ready only once pytest has set Django up: so it is imported late.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest


@pytest.fixture
def founded(db: None) -> UUID:
    """A tenant with its first event and default policies."""
    from tests.callers import found

    return found("orchid")


@pytest.fixture
def elsewhere(db: None) -> UUID:
    """Somebody else's tenant, founded alike."""
    from tests.callers import found

    return found("willow")


@pytest.fixture
def agent(founded: UUID) -> Any:
    from tests.callers import key_for

    return key_for(founded, "agent")


@pytest.fixture
def operator_key(founded: UUID) -> Any:
    from tests.callers import key_for

    return key_for(founded, "oper")


@pytest.fixture
def executor_key(founded: UUID) -> Any:
    from tests.callers import key_for

    return key_for(founded, "exec")


@pytest.fixture
def reviewer(founded: UUID) -> Any:
    from tests.callers import person_for

    return person_for(founded, "reviewer")


@pytest.fixture
def operator(founded: UUID) -> Any:
    from tests.callers import person_for

    return person_for(founded, "operator")
