"""Several sources: a critical refund is read at the till and in the books, and both must say the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from ledger.db import tenancy
from ledger.record.queries import evidence
from tests.peers.support.standby import second_server
from tests.support.api_tenant import Clock
from tests.support.refund_shop import READER, Counter, books, refund_contract
from tests.support.seals import seal_up

OTHER_ROLE = (
    f"DO $$BEGIN CREATE ROLE {READER}_2 LOGIN PASSWORD 'word'; EXCEPTION WHEN duplicate_object THEN NULL; END$$;"
    f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {READER}_2"
)
CRITICAL = refund_contract(side_effect_class="CRITICAL_MUTATION", verification={"sources": ["payment_ledger", books()]})


@pytest.fixture
def critical(counter: Counter, secrets_dir: Path) -> Counter:
    return counter.open(secrets_dir, CRITICAL)


def told(counter: Counter, clock: Clock, *, booked: bool = True, book: dict[str, Any] | None = None) -> str:
    """A refund that the tool claims, as it stands at the till and in the books; read once."""
    started = counter.begun()
    counter.till.refund(started["idempotency_key"], booked=booked)
    if book is not None:
        counter.till.book(started["idempotency_key"], **book)
    counter.tell(started)
    clock.forward(seconds=10)
    counter.read_back(started["action_id"], clock)
    return str(started["action_id"])


def findings(counter: Counter, action_id: str) -> dict[str, Any]:
    """The newest run's evidence."""
    entry = counter.operator_key.get(f"/actions/{action_id}").json()["entry"]
    pointer = entry["verification"]["verified_state_pointer"]
    with tenancy(counter.tenant):
        found: dict[str, Any] = orjson.loads(evidence.open_evidence(counter.tenant, UUID(pointer)) or b"{}")
    return found


@pytest.mark.req("R-RC-13", "R-VD-06")
def test_two_sources_that_agree_are_both_in_the_evidence(critical: Counter, clock: Clock):
    action_id = told(critical, clock)
    assert critical.state(action_id) == "RECONCILED_SUCCESS"
    readings = findings(critical, action_id)["readings"]
    assert [(one["source"], one["name"], one["consistency"]) for one in readings] == [
        ("till", "", "PRIMARY"),
        ("books", "books", "PRIMARY"),
    ]
    assert all(one["freshness"].startswith("lsn") and one["pointer"] for one in readings)


@pytest.mark.req("R-VD-15", "R-RI-04")
def test_an_unsealed_success_is_not_reported_as_completed(critical: Counter, clock: Clock):
    action_id = told(critical, clock)
    assert critical.state(action_id) == "RECONCILED_SUCCESS"
    report = critical.report(action_id)
    assert (report["code"], report["completed"], report["trust_level"]) == (
        "VERIFIED_RECONCILIATION_IN_PROGRESS",
        False,
        3,
    )
    assert report["text"] == "The system of record has been read. The result is not final yet."
    seal_up()
    report = critical.report(action_id)
    assert (report["trust_level"], report["completed"]) == (4, True)


@pytest.mark.req("R-VD-15", "R-OB-08")
@pytest.mark.parametrize("sent", [None, "not a trace", f"00-{'a' * 32}"])
def test_a_critical_mutation_without_the_trace_of_its_agent_is_refused_with_instructions(
    critical: Counter, clock: Clock, sent: str | None
):
    trace = critical.agent.headers.pop("traceparent")
    if sent is not None:
        critical.agent.headers["traceparent"] = sent
    refused = critical.call("refund_order", {"order_id": "EX-1001", "amount": 1250, "currency": "EUR"})
    assert (refused["accepted"], refused["action_id"]) == (False, None)
    codes = refused["result"]["error"]["code"], refused["errors"][0]["code"]
    assert codes == ("OUTSIDE_AUTONOMY", "TRACE_REQUIRED")
    assert "`traceparent: 00-<32 hex digits>-<16 hex digits>-01`" in refused["hint"]
    critical.agent.headers["traceparent"] = trace
    told(critical, clock)


@pytest.mark.req("R-RC-13", "R-VD-06")
@pytest.mark.parametrize(
    ("book", "discrepancy"), [(None, "PARTIAL_APPLICATION"), ({"amount": 12500}, "VALUE_MISMATCH")]
)
def test_sources_that_disagree_freeze_the_order_and_open_a_case(
    critical: Counter, clock: Clock, book: dict[str, Any] | None, discrepancy: str
):
    action_id = told(critical, clock, booked=False, book=book)
    assert critical.state(action_id) == "REVIEW_REQUIRED"
    case = critical.case_of(action_id)
    assert case is not None
    assert case["discrepancy"] == discrepancy
    assert critical.report(action_id)["completed"] is False
    refused = critical.call("refund_order", {"order_id": "EX-1001", "amount": 5, "currency": "EUR"})
    assert refused["result"]["error"]["code"] == "TARGET_FROZEN"


@pytest.mark.req("R-VD-06", "R-VD-16")
def test_an_unreadable_second_source_holds_a_critical_refund(critical: Counter, clock: Clock, secrets_dir: Path):
    (secrets_dir / "systems" / "orchid" / "books.json").unlink()
    action_id = told(critical, clock)
    assert critical.state(action_id) == "PENDING"
    clock.forward(seconds=600)
    critical.read_back(action_id, clock)
    assert critical.state(action_id) == "REVIEW_REQUIRED"
    assert critical.case_of(action_id) is not None


def test_a_silent_second_source_does_not_hold_a_lower_class(counter: Counter, clock: Clock, secrets_dir: Path):
    counter.open(secrets_dir, refund_contract(verification={"sources": [books()]}))
    (secrets_dir / "systems" / "orchid" / "books.json").unlink()
    action_id = told(counter, clock)
    assert counter.state(action_id) == "RECONCILED_SUCCESS"
    assert findings(counter, action_id)["silent"][0]["source"] == "books"


def test_a_second_source_that_disagrees_prevents_success_in_any_class(
    counter: Counter, clock: Clock, secrets_dir: Path
):
    counter.open(secrets_dir, refund_contract(verification={"sources": [books()]}))
    action_id = told(counter, clock, booked=False)
    assert counter.state(action_id) == "PENDING"
    clock.forward(seconds=600)
    counter.read_back(action_id, clock)
    assert counter.state(action_id) == "REVIEW_REQUIRED"


@pytest.mark.req("R-RC-13")
def test_a_critical_contract_with_one_source_is_refused_unless_people_attest(counter: Counter):
    alone = refund_contract(side_effect_class="CRITICAL_MUTATION")
    answer = counter.operator_key.post("/contracts", alone)
    assert answer.status_code == 422
    assert [each["code"] for each in answer.json()["errors"]] == ["TOO_FEW_SOURCES"]
    known = counter.operator_key.post("/contracts", alone | {"unverifiable_acknowledged": True})
    assert known.status_code == 201
    assert "ONE_SOURCE" in [each["code"] for each in known.json()["lint"]]


def test_a_predicate_of_a_further_source_is_compiled_against_that_source(counter: Counter):
    typo = refund_contract(verification={"sources": [books(predicates=["sa.amuont == sr.amount"])]})
    answer = counter.operator_key.post("/contracts", typo)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["path"] == "/verification/sources/0/predicates/0"


# Two names of one source


def at_the_till(counter: Counter, secrets_dir: Path, url: str = "") -> None:
    """Where the books were, the till's own database is asked, or whatever is at this address."""
    path = secrets_dir / "systems" / "orchid" / "books.json"
    path.write_text(json.dumps({"url": url or counter.till.urls["till"]}))


def last_run(counter: Counter, action_id: str) -> dict[str, Any]:
    run: dict[str, Any] = counter.auditor.get(f"/actions/{action_id}/runs").json()["items"][0]
    return run


@pytest.fixture
def followed(counter: Counter) -> Iterator[Counter]:
    """A till that writes the entries of its books itself, in its own database."""
    for statement in (
        "CREATE TABLE entries (id bigint, key text, order_id text, amount bigint)",
        f"GRANT SELECT ON entries TO {READER}",
        "CREATE FUNCTION enter() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO entries"
        " VALUES (NEW.id, NEW.key, NEW.order_id, NEW.amount); RETURN NULL; END $$",
        "CREATE TRIGGER enter AFTER INSERT ON refunds FOR EACH ROW EXECUTE FUNCTION enter()",
    ):
        counter.till.till.execute(statement)
    yield counter
    counter.till.till.execute("DROP FUNCTION enter CASCADE")
    counter.till.till.execute("DROP TABLE entries")


NAMES = {
    "the same address": "",
    "an alias of the host": "host=localhost",
    "another user": f"user={READER}_2",
}


@pytest.mark.req("R-RC-13", "R-VD-06")
class TestTwoNamesOfOneSource:
    @pytest.mark.parametrize("name", NAMES)
    def test_a_critical_mutation_does_not_succeed_on_one_database_under_two_names(
        self, followed: Counter, clock: Clock, secrets_dir: Path, name: str
    ):
        """Registered apart; afterwards both names lead to one database."""
        critical = followed.open(secrets_dir, CRITICAL)
        if name == "another user":
            critical.till.till.execute(OTHER_ROLE)
        changes = dict([NAMES[name].split("=")]) if NAMES[name] else {}
        at_the_till(critical, secrets_dir, make_conninfo(critical.till.urls["till"], **changes))
        action_id = told(critical, clock)
        assert critical.state(action_id) not in ("COMMITTED", "RECONCILED_SUCCESS")
        run = last_run(critical, action_id)
        assert (run["result"], run["discrepancy"]) == ("UNKNOWN", "UNVERIFIABLE_STATE")
        assert run["independent_sources"] == 1
        [server] = {one["origin"]["server"] for one in findings(critical, action_id)["readings"]}
        said = (
            "1 independent source of 2 that were read. till and books count as one source: both are the same database"
            f" of the server {server}."
        )
        assert run["independence"] == said
        assert run["reason"] == f"A critical mutation is told by several sources, and this run had one: {said}"
        assert critical.case_of(action_id) is not None
        assert critical.report(action_id)["completed"] is False

    def test_a_contract_that_names_one_database_twice_is_refused(self, followed: Counter, secrets_dir: Path):
        followed.open(secrets_dir, refund_contract())
        at_the_till(followed, secrets_dir, make_conninfo(followed.till.urls["till"], host="localhost"))
        answer = followed.operator_key.post("/contracts", CRITICAL | {"version": "2"})
        assert answer.status_code == 422
        assert answer.json()["errors"] == [
            {
                "path": "/verification/sources",
                "code": "SAME_SOURCE",
                "detail": "till and books are one source: both are at the same address.",
            }
        ]
        lesser = refund_contract(version="2", verification={"sources": [books()]})
        assert followed.operator_key.post("/contracts", lesser).status_code in (201, 409)

    def test_two_databases_on_one_server_count_as_two_sources_with_a_note(self, critical: Counter, clock: Clock):
        action_id = told(critical, clock)
        assert critical.state(action_id) == "RECONCILED_SUCCESS"
        run = last_run(critical, action_id)
        assert run["independent_sources"] == 2
        assert run["independence"] == (
            "2 independent sources of 2 that were read. till and books are two databases of one server."
        )
        proved = findings(critical, action_id)["account"]["how_proved"]
        assert proved["sources"] == run["independence"]

    def test_two_servers_are_two_sources(
        self, counter: Counter, clock: Clock, secrets_dir: Path, cluster: Any, run: Any
    ):
        critical = counter.open(secrets_dir, CRITICAL)
        with second_server(cluster, run.folder) as url, psycopg.connect(url, autocommit=True) as elsewhere:
            elsewhere.execute("CREATE TABLE entries (id bigint, key text, order_id text, amount bigint)")
            at_the_till(critical, secrets_dir, url)
            started = critical.begun()
            key = started["idempotency_key"]
            critical.till.refund(key, booked=False)
            elsewhere.execute("INSERT INTO entries VALUES (1, %s, 'EX-1001', 1250)", [key])
            critical.tell(started)
            clock.forward(seconds=10)
            assert critical.read_back(started["action_id"], clock) == "RECONCILED_SUCCESS"
        assert last_run(critical, started["action_id"])["independence"] == (
            "2 independent sources of 2 that were read."
        )

    def test_a_server_that_does_not_identify_itself_is_not_independent(
        self, critical: Counter, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ):
        """As where a role may not ask: PostgreSQL lets anybody, a hosted one need not."""
        critical.till.till.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
        try:
            action_id = told(critical, clock)
        finally:
            critical.till.till.execute("GRANT EXECUTE ON FUNCTION pg_control_system() TO PUBLIC")
        assert critical.state(action_id) not in ("COMMITTED", "RECONCILED_SUCCESS")
        assert "at least one of them does not say which server it is." in last_run(critical, action_id)["independence"]

    def test_a_missing_independence_is_reported_for_a_lower_class_without_holding_it(
        self, followed: Counter, clock: Clock, secrets_dir: Path
    ):
        followed.open(secrets_dir, refund_contract(verification={"sources": [books()]}))
        at_the_till(followed, secrets_dir)
        action_id = told(followed, clock)
        assert followed.state(action_id) == "RECONCILED_SUCCESS"
        assert last_run(followed, action_id)["independent_sources"] == 1
