"""One operator's key sends no password elsewhere and moves no source of truth: moving a known system takes two."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from console.models import Membership
from ledger.catalogue import queries as catalogue_queries
from ledger.db import tenancy
from ledger.record.queries import events
from reviews.checks import fetching, postgres
from reviews.checks.interface import CheckFailed, SystemAccess
from reviews.readback.operations import plans
from tests.support.api_tenant import PASSWORD, Workshop
from tests.support.browser_users import Visitor, words
from tests.support.callers import Api, new_client, person_for

SYSTEM = {"name": "books", "pattern": "databases", "settings": {"tables": ["books.entries"]}}
MOVED = SYSTEM | {"settings": {"tables": ["books.entries"], "host": "evil.example", "port": 6666}}
REASON = "They moved the primary."


def administrator_of(shop: Workshop, name: str = "ada@orchid") -> Api:
    known = Membership.objects.filter(tenant_id=shop.tenant, user__username=name).first()
    if known is None:
        return person_for(shop.tenant, "administrator", name=name)
    client = new_client()
    client.force_login(known.user, backend="console.accounts.sign_in.sessions.PasswordBackend")
    return Api(client, {})


def answer(shop: Workshop, name: str = "ada@orchid", **body: Any) -> Any:
    word = {"confirm": True, "reason": REASON, "password": PASSWORD}
    return administrator_of(shop, name).post("/systems/books/answer", word | body)


def settings_of(shop: Workshop) -> dict[str, Any]:
    with tenancy(shop.tenant):
        return catalogue_queries.system(shop.tenant, "books").settings


def access(shop: Workshop) -> tuple[SystemAccess | None, str]:
    with tenancy(shop.tenant):
        return plans.system_access(shop.tenant, shop.slug, "books")


@pytest.fixture
def books(shop: Workshop, secrets_dir: Path) -> Workshop:
    """A system whose credential has a password."""
    credential = {"url": "postgresql://reader:word@books.example:5432/books"}
    (secrets_dir / "systems" / "orchid" / "books.json").write_text(json.dumps(credential))
    assert shop.operator_key.post("/systems", SYSTEM).status_code == 201
    return shop


def test_no_key_can_move_a_known_system(books: Workshop):
    """The attack: settings of a known system lead its password to a host of one's choice."""
    sent = books.operator_key.post("/systems", MOVED)
    assert sent.json()["settings"] == SYSTEM["settings"] == settings_of(books)
    assert sent.json()["waits"] == {"pattern": "databases", "settings": MOVED["settings"]}
    otherwise = SYSTEM | {"pattern": "database_changes"}
    assert books.operator_key.post("/systems", otherwise).json()["pattern"] == "databases"
    word = {"confirm": True, "reason": REASON, "password": PASSWORD}
    for key in (books.operator_key, books.agent, books.executor):
        assert key.post("/systems/books/answer", word).status_code == 403


def test_even_confirmed_settings_send_no_password_to_another_host(books: Workshop):
    books.operator_key.post("/systems", MOVED)
    assert answer(books).status_code == 200
    assert settings_of(books)["host"] == "evil.example"
    assert access(books) == (
        None,
        "The system books is not asked. Its settings name evil.example:6666, which its credential does not name.",
    )


def test_a_new_system_sends_no_existing_password_to_another_host(shop: Workshop, secrets_dir: Path):
    """The attack: a system is registered under the name of a credential that is there already."""
    credential = {"url": "postgresql://reader:word@books.example:5432/books"}
    (secrets_dir / "systems" / "orchid" / "books.json").write_text(json.dumps(credential))
    assert shop.operator_key.post("/systems", MOVED).status_code == 201
    assert access(shop)[0] is None


def test_a_change_that_does_not_move_a_system_applies_at_once(books: Workshop):
    quicker = SYSTEM | {"settings": SYSTEM["settings"] | {"limits": {"incident_after_s": 60}}}
    assert books.operator_key.post("/systems", quicker).status_code == 201
    assert settings_of(books)["limits"] == {"incident_after_s": 60}


def test_a_second_person_confirms_with_proof_and_never_the_sender(books: Workshop):
    ada = administrator_of(books)
    assert ada.post("/systems", MOVED).json()["waits"]
    refused = answer(books)
    assert (refused.status_code, refused.json()["code"]) == (403, "SECOND_PERSON_NEEDED")
    assert answer(books, "ben@orchid", password=None).json()["code"] == "STEP_UP_REQUIRED"
    assert answer(books, "ben@orchid").json()["settings"] == MOVED["settings"]
    assert answer(books, "ben@orchid").json()["code"] == "NOTHING_PROPOSED"


def test_a_declined_change_changes_nothing(books: Workshop):
    books.operator_key.post("/systems", MOVED)
    assert answer(books, confirm=False, reason="Nobody asked for it.").json()["waits"] is None
    assert settings_of(books) == SYSTEM["settings"]
    with tenancy(books.tenant):
        row = catalogue_queries.system(books.tenant, "books")
        told = [(event.kind, detail) for event, _, detail in events.history(books.tenant, row.id)]
    assert [kind for kind, _ in told] == ["system_registered", "system_change_proposed", "system_change_declined"]
    assert told[1][1]["settings"] == MOVED["settings"]
    assert told[2][1]["reason"] == "Nobody asked for it."


def test_the_page_shows_the_difference_and_takes_the_decision_of_the_second_person(books: Workshop):
    books.operator_key.post("/systems", MOVED)
    ada = Visitor(administrator_of(books).client, books.slug)
    page = words(ada.page("systems"))
    assert "A change requires a second approver." in page
    assert "/settings/host" in page
    assert "evil.example" in page
    with tenancy(books.tenant):
        path = f"systems/{catalogue_queries.system(books.tenant, 'books').id}/answer"
    asked = ada.post(path, to="confirm", reason=REASON)
    assert asked.status_code == 403
    assert "Confirm with your password or a one-time code." in words(asked.content.decode())
    ada.post(path, to="confirm", reason=REASON, password=PASSWORD)
    assert "Confirmed. The new settings of books apply." in words(ada.page("systems"))


# Under TLS alone


def test_no_secret_is_sent_without_tls_except_to_this_machine():
    for asked in (
        {"auth": ("ann", "word")},
        {"headers": {"Authorization": "Bearer x"}},
        {"headers": {"X-Vault-Token": "x"}},
    ):
        with pytest.raises(CheckFailed, match=r"10\.0\.0\.7 is asked without TLS, so no secret is sent to it\."):
            fetching.Site("http://10.0.0.7:8200", until=fetching.deadline_after(5), **asked)
        fetching.Site("http://127.0.0.1:8200", until=fetching.deadline_after(5), **asked)
        fetching.Site("https://10.0.0.7:8200", until=fetching.deadline_after(5), **asked)
    fetching.Site("http://10.0.0.7:8200", until=fetching.deadline_after(5))


def test_a_database_password_is_sent_to_another_machine_only_over_tls():
    assert postgres._tls_settings({"host": "books.example", "password": "word"}) == {"sslmode": "require"}
    assert postgres._tls_settings({"host": "books.example", "password": "word", "sslmode": "verify-full"}) == {}
    assert postgres._tls_settings({"host": "127.0.0.1", "password": "word"}) == {}
    assert postgres._tls_settings({"host": "/run/postgresql", "password": "word"}) == {}
    assert postgres._tls_settings({"host": "books.example"}) == {}
    for weak in ("disable", "allow", "prefer"):
        with pytest.raises(CheckFailed, match="is asked without TLS"):
            postgres._tls_settings({"host": "books.example", "password": "word", "sslmode": weak})


def test_a_broker_password_is_sent_to_another_machine_only_over_tls():
    from reviews.checks import queues

    with pytest.raises(CheckFailed, match=r"without TLS \(rediss\)"):
        queues._open_broker(SystemAccess("events", "queues_events", {}, {"url": "redis://:word@events.example"}), 1)
