"""Callers of the HTTP API, in the test's own transaction.

What they are made of imports models, which are ready only once pytest has set Django up: so it is imported late.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from copy import deepcopy
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction
from hypothesis.stateful import RuleBasedStateMachine

from tests.conftest import PreparedDatabase, PreparedDatabases, clean_memory


class RolledBackMachine(RuleBasedStateMachine):
    """A machine whose example is rolled back at its end, so that the same steps do the same again.

    Otherwise an open request, a lock-out after wrong passwords or a lease of one example would change what is possible
    in the next, and Hypothesis could neither repeat nor shorten a failure.
    """

    def __init__(self) -> None:
        super().__init__()
        self.example = ExitStack()
        self.example.enter_context(clean_memory())
        self.example.enter_context(transaction.atomic())

    def check_at_end(self) -> None:
        """What must hold when an example ends."""

    def teardown(self) -> None:
        with self.example:
            try:
                self.check_at_end()
            finally:
                transaction.set_rollback(True)


@pytest.fixture
def prepared(request: pytest.FixtureRequest) -> Iterator[None]:
    """The database that this test starts from: prepared for what it asks for, or with nothing in it."""
    name = next((name for name in request.fixturenames if name.startswith("database_of_")), None)
    if name is None:
        yield
        return
    database: PreparedDatabase = request.getfixturevalue(name)
    with database.in_use():
        yield


@pytest.fixture
def db(prepared: None, _django_db_helper: None) -> None:
    """A transaction, rolled back after the test, in that database."""


@pytest.fixture(scope="session")
def database_of_founded(prepared_databases: PreparedDatabases) -> PreparedDatabase:
    from tests.support.callers import found

    return prepared_databases.make("founded", lambda: found("orchid"))


@pytest.fixture(scope="session")
def database_of_stage(prepared_databases: PreparedDatabases) -> PreparedDatabase:
    from tests.support.scenes import set_up

    return prepared_databases.make("stage", lambda: set_up("orchid"))


@pytest.fixture(scope="session")
def root_of_documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the documents of a shop lie: a link to the folder of the test that runs."""
    return tmp_path_factory.mktemp("documents") / "root"


@pytest.fixture(scope="session")
def database_of_shop(prepared_databases: PreparedDatabases, root_of_documents: Path) -> PreparedDatabase:
    from tests.support.api_tenant import workshop

    return prepared_databases.make("shop", lambda: workshop("orchid").set_up(root_of_documents))


@pytest.fixture(scope="session")
def database_of_counter(prepared_databases: PreparedDatabases) -> PreparedDatabase:
    from tests.support.api_tenant import workshop

    return prepared_databases.make("counter", lambda: workshop("orchid"))


@pytest.fixture(scope="session")
def database_of_day(
    prepared_databases: PreparedDatabases, run: Any, tmp_path_factory: pytest.TempPathFactory
) -> PreparedDatabase:
    from tests.support.probes import spend_day

    folder = tmp_path_factory.mktemp("day")
    return prepared_databases.make("day", lambda: spend_day(folder, run.secrets))


@pytest.fixture(scope="module")
def day(database_of_day: PreparedDatabase, django_db_blocker: Any, broker: Any) -> Iterator[Any]:
    """A tenant after a whole day, to be asked anything that is then taken back; see tests/support/probes.py."""
    from tests.support.probes import after

    with database_of_day.in_use(), django_db_blocker.unblock(), after(database_of_day.content) as spent:
        yield spent


@pytest.fixture
def founded(db: None, database_of_founded: PreparedDatabase) -> UUID:
    """A tenant with its first event and default policies."""
    tenant: UUID = database_of_founded.content
    return tenant


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
def stage(db: None, database_of_stage: PreparedDatabase) -> Any:
    """A tenant whose agent and executor can be sent anywhere; see tests/support/scenes.py."""
    return deepcopy(database_of_stage.content)


@pytest.fixture(autouse=True)
def unhurried(settings: Any) -> Any:
    """No test is refused for asking often; those about that say so themselves."""
    settings.COUNTERFOIL_RATE_PER_S = 0
    return settings


@pytest.fixture
def punctual_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a slow machine takes for what comes before the seal, the log is not late for it."""
    monkeypatch.setattr("ledger.log.queries.log.LATE_S", 3600.0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The clock of views and tasks, to be put forward."""
    from tests.support.api_tenant import Clock

    clock = Clock()
    monkeypatch.setattr("django.utils.timezone.now", clock.now)
    return clock


@pytest.fixture
def shop(
    db: None, database_of_shop: PreparedDatabase, root_of_documents: Path, secrets_dir: Path, tmp_path: Path
) -> Any:
    """A tenant at work on a folder in which the document to delete still lies."""
    root = tmp_path / "documents"
    root_of_documents.unlink(missing_ok=True)
    root_of_documents.symlink_to(root)
    (root / "policies").mkdir(parents=True)
    (root / "policies" / "returns.md").write_text("Returns within 14 days.")
    credentials = secrets_dir / "systems" / "orchid"
    credentials.mkdir(parents=True)
    (credentials / "documents.json").write_text("{}")
    return database_of_shop.content.with_clients_of_its_own()


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
def counter(db: None, database_of_counter: PreparedDatabase, secrets_dir: Path, till: Any) -> Iterator[Any]:
    """A tenant whose agent refunds orders at the till; nothing is registered yet. Whatever was read there can be judged
    again, and comes out the same.
    """
    from tests.support.refund_shop import counter
    from tests.support.replays import replays_alike

    made = counter(database_of_counter.content.with_clients_of_its_own(), till)
    yield made
    assert replays_alike(made.tenant) == []
