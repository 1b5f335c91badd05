"""Somebody with a superuser's rights forges rows of every table that decides anything, and each forgery is named.

One record has a row in every table that `verify_ledger` rebuilds from its events. Each compared column of each table
is given another value, each row is taken away and each table gets a row that nobody's event made. Every test puts back
what it forged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from django.apps import apps
from psycopg import sql

from approvals.voting.operations import approver_keys, delegations
from approvals.voting.rules import passkeys
from console.event_export import operations as events_outside
from console.local import servers
from console.models import Membership
from console.tasks import count_metrics, watch_alerts
from ledger import register
from ledger.actions import operations as actions_operations
from ledger.actions.queries import actions
from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.operations import registration
from ledger.catalogue.rules.policies import default_policy
from ledger.db import tenancy
from ledger.exports.operations import exports
from ledger.management.commands import verify_ledger
from ledger.record import operations as ledger
from ledger.record.queries import events
from ledger.retention.operations import erasure, retention
from ledger.retention.rules.retention import HoldScope, RetentionPolicy
from ledger.verification import operations as verification_operations
from ledger.verification.rules.rebuilding import RecordTable
from reviews.cases.operations import batches
from reviews.cases.rules.batches import BatchKind
from reviews.incidents import operations as incidents_operations
from reviews.incidents.rules.incidents import IncidentKind, Severity
from reviews.observations.operations import ungated_effects, webhooks
from reviews.observations.rules.ungated_effects import Change
from reviews.readback.operations import systems
from tests.support import api_tour
from tests.support.api_tenant import Clock, Workshop, contract
from tests.support.callers import put_in_force
from tests.support.outside.authenticators import ORIGIN, RP_ID, Authenticator
from tests.support.probes import opened
from tests.support.seals import seal_up
from tests.web.approvals.test_break_glass import broken, policy
from tests.web.metrics.test_alerts import RULE, counted

CONSTRAINTS = "SELECT conname FROM pg_constraint WHERE conrelid = %s::regclass AND contype IN ('c', 'u')"
UNIQUE = (
    "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
    " WHERE i.indrelid = %s::regclass AND i.indisunique AND NOT i.indisprimary"
)
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BY = ledger.Actor("person", uuid4())
OWN_RULES = ("its document is not the one that was registered", "whether it is in force is not what its events say")
# Of a contract that waits for a second person; the oldest of the record did not (see below).
OF_PROPOSALS = ("compared_with", "sent_by")
PARTY = passkeys.RelyingParty(id=RP_ID, origins=frozenset({ORIGIN}))


@pytest.fixture(scope="module")
def shop(module_db: Any, run: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    """A tenant that has something of everything."""
    with opened(tmp_path_factory.mktemp("shop"), run.secrets) as (made, clock):
        api_tour.agree(made, clock, lambda api: api)
        raise_alert(made, clock)
        case = made.held(clock)
        made.report(case["action_id"])
        session = f"/sessions/{made.session()['session_id']}"
        made.agent.post(f"{session}/guard", {"message": "I have deleted it."})
        api_tour.claim(made)
        made.agent.post(f"{session}/model-usage", {"model": "large-1", "calls": 2, "input_tokens": 900})
        price = {"kind": "reading", "about": "documents", "amount": "0.25", "currency": "EUR", "payer": "Library"}
        assert made.operator_key.post("/prices", price).status_code == 201
        budget = {"amount": "9", "currency": "EUR", "share": 80}
        assert made.operator_key.post("/cost-budgets", budget).status_code == 201
        fill(made, UUID(case["case_id"]), UUID(case["action_id"]), clock)
        weaker = contract("delete_document") | {"version": "9.0.0", "transaction_boundary": "LOCAL_TRANSACTION"}
        assert made.operator_key.post("/contracts", weaker).status_code in (201, 202)
        assert check_of(made) == []
        yield made


def check_of(shop: Workshop) -> list[str]:
    """What a check of the whole record finds."""
    found: list[str] = verify_ledger.check_tenant(shop.tenant, events.tenant_by_id(shop.tenant).origin)[1].listed
    return found


def raise_alert(shop: Workshop, clock: Clock) -> None:
    """A rule, and the alert that it raises."""
    assert shop.operator_key.post("/alert-rules", RULE | {"hold_min": 0}).status_code == 201
    count_metrics()
    counted(shop, clock, executed=40, unknown=5)
    assert watch_alerts() == 1


def fill(shop: Workshop, case_id: UUID, action_id: UUID, clock: Clock) -> None:
    """A row in every table that follows from events."""
    shop.person("reviewer", "administrator", name="giver@orchid")
    shop.person("reviewer", name="taker@orchid")
    policy(shop)
    assert broken(shop, shop.propose(path="policies/glass.md")).status_code == 201
    wish = {"tools": ["write_document"], "minutes": 5, "reason": "It cannot wait."}
    assert shop.operator.post("/ledger/overrides", wish).status_code == 201
    refused = shop.propose(path="policies/refused.md")
    assert shop.vote(shop.approval_of(refused), verdict="reject").status_code == 201
    clock.forward(seconds=1)
    at, here = clock.now(), shop.tenant
    with tenancy(here):
        actor = {each.user.username: each.actor_id for each in Membership.objects.filter(tenant_id=here)}
        who, to = actor["giver@orchid"], actor["taker@orchid"]
        lender = ledger.Actor("person", who)
        later = at + timedelta(hours=1)
        delegations.add_delegation(
            tenant_id=here,
            from_actor=who,
            to_actor=to,
            groups=["reviewers"],
            tools=["delete_document"],
            starts_at=at,
            ends_at=later,
            reason="I am away.",
            is_proven=True,
            by=lender,
            by_person=who,
            at=at,
        )
        events_outside.start(tenant_id=here, name="soc", start_at="now", by=lender, at=at)
        delegations.add_absence(tenant_id=here, actor_id=who, starts_at=at, ends_at=later, by=lender, at=at)
        device = Authenticator().registration(b"c" * 32)
        approver_keys.enrol(
            tenant_id=here,
            by=lender,
            person_id=who,
            name="Blue key",
            registered=passkeys.read_registration(device, party=PARTY, wanted=b"c" * 32),
            registration=b"{}",
            at=at,
        )
        put_in_force(here, "recovery", "2", default_policy("recovery") | {"version": "2"}, at=at)
        registration.place_freeze(
            tenant_id=here, scope="target", value="document/x", reason="Look first.", actor=BY, at=at
        )
        retention.place_hold(
            tenant_id=here, scope=HoldScope.TARGET, value="document/y", reason="A lawsuit.", by=BY, at=at
        )
        retention.propose_policy(tenant_id=here, policy=RetentionPolicy(), by=BY, at=at)
        verification_operations.start_check(tenant_id=here, by=BY, at=at)
        exports.request_export(tenant_id=here, wanted={}, by=BY, at=at)
        about = {"title": "It failed.", "kind": IncidentKind.OPERATIONS, "severity": Severity.LOW}
        incidents_operations.open_for_cause(tenant_id=here, **about, actions=[action_id], cases=[case_id], at=at)
        batches.start(tenant_id=here, kind=BatchKind.CLAIM, wanted={}, selected=[case_id], by=BY, at=at)
        webhooks.create_hook(tenant_id=here, name="documents", secret=SECRET, by=BY, at=at)
        systems.stop_releasing(tenant_id=here, name="documents", reason="It is being moved.", by=BY, at=at)
        action = actions.action(here, action_id)
        assert action is not None
        actions_operations.unwind_run(tenant_id=here, run_id=action.run_id, reason="Take it back.", actor=BY, at=at)
        change = Change(place="7", at=at, operation="delete", target="document/z")
        ungated_effects.open_ungated_case(here, catalogue_queries.system(here, "documents"), change, at=at)
        wish = erasure.ErasureRequest(subjects=(UUID(refused),), legal_basis="Art. 17", reason="Asked for.")
        erasure.request_erasure(tenant_id=here, request=wish, by=BY, at=at)
    seal_up()


@dataclass
class Forger:
    """Someone for whom no trigger fires and no check holds."""

    connection: psycopg.Connection
    tenant: UUID

    def one(self, table: RecordTable, **wanted: Any) -> dict[str, Any]:
        """The oldest row of a table, of those that the events speak of."""
        model = apps.get_model(table.model)
        order = sql.SQL(", ").join(sql.Identifier(name) for name in table.key)
        where = sql.SQL(" AND ").join(
            sql.SQL("{} = %s").format(sql.Identifier(name)) for name in ("tenant_id", *wanted)
        )
        query = sql.SQL("SELECT * FROM {} WHERE {} ORDER BY {} LIMIT 1").format(
            sql.Identifier(model._meta.db_table), where, order
        )
        with self.connection.cursor(row_factory=psycopg.rows.dict_row) as cursor:
            row = cursor.execute(query, [self.tenant, *wanted.values()]).fetchone()
        assert row is not None, f"the record has no row in {table.model}"
        return row

    def put(self, table: RecordTable, row: dict[str, Any], values: dict[str, Any]) -> None:
        model = apps.get_model(table.model)
        where = sql.SQL(" AND ").join(
            sql.SQL("{} = %s").format(sql.Identifier(key)) for key in ("tenant_id", *self.keys(table))
        )
        changes = sql.SQL(", ").join(sql.SQL("{} = %s").format(sql.Identifier(name)) for name in values)
        query = sql.SQL("UPDATE {} SET {} WHERE {}").format(sql.Identifier(model._meta.db_table), changes, where)
        given = [as_sql(value) for value in values.values()]
        done = self.connection.execute(query, [*given, self.tenant, *(row[key] for key in self.keys(table))])
        assert done.rowcount == 1

    def take(self, table: RecordTable, row: dict[str, Any]) -> None:
        model = apps.get_model(table.model)
        where = sql.SQL(" AND ").join(
            sql.SQL("{} = %s").format(sql.Identifier(key)) for key in ("tenant_id", *self.keys(table))
        )
        query = sql.SQL("DELETE FROM {} WHERE {}").format(sql.Identifier(model._meta.db_table), where)
        assert self.connection.execute(query, [self.tenant, *(row[key] for key in self.keys(table))]).rowcount == 1

    def add(self, table: RecordTable, row: dict[str, Any]) -> None:
        model = apps.get_model(table.model)
        names = sql.SQL(", ").join(map(sql.Identifier, row))
        places = sql.SQL(", ").join(sql.Placeholder() * len(row))
        query = sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(sql.Identifier(model._meta.db_table), names, places)
        self.connection.execute(query, [as_sql(value) for value in row.values()])

    def keys(self, table: RecordTable) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*([table.place] if table.place else []), *table.key]))


@pytest.fixture(scope="module")
def forger(shop: Workshop, module_db: Any, run: Any) -> Iterator[Forger]:
    with psycopg.connect(run.postgres.url(servers.SUPERUSER, module_db.name), autocommit=True) as superuser:
        superuser.execute("SET session_replication_role = replica")
        for table in register.record_tables():
            name = sql.Identifier(apps.get_model(table.model)._meta.db_table)
            superuser.execute(sql.SQL("ALTER TABLE {} DISABLE TRIGGER USER").format(name))
            place = [apps.get_model(table.model)._meta.db_table]
            found = superuser.execute(CONSTRAINTS, place).fetchall()
            for (constraint,) in found:
                drop = sql.SQL("ALTER TABLE {} DROP CONSTRAINT {} CASCADE").format(name, sql.Identifier(constraint))
                superuser.execute(drop)
            for (index,) in superuser.execute(UNIQUE, place).fetchall():
                superuser.execute(sql.SQL("DROP INDEX {}").format(sql.Identifier(index)))
        yield Forger(superuser, shop.tenant)


def as_sql(value: Any) -> Any:
    return psycopg.types.json.Jsonb(value) if isinstance(value, dict | list) else value


def other(value: Any, field: Any) -> Any:
    """Another value of the same type."""
    kind = field.get_internal_type()
    if kind == "JSONField":
        return [*value, "forged"] if isinstance(value, list) else {"forged": True}
    if kind in ("UUIDField", "ForeignKey"):
        return uuid4()
    if kind == "DateTimeField":
        return (value or datetime(2026, 1, 1, tzinfo=UTC)) + timedelta(seconds=1)
    if kind == "BooleanField":
        return not value
    if kind == "BinaryField":
        return b"{}"
    if kind in ("IntegerField", "SmallIntegerField", "BigIntegerField", "DecimalField"):
        return (value or 0) + 1
    return "x" if value != "x" else "y"


def finding(table: RecordTable, tenant: UUID, row: dict[str, Any]) -> str:
    """What the check says of one subject, or of the tenant where the table is of the whole of it."""
    if table.place:
        subject = row[table.place]
        origin = events.tenant_by_id(tenant).origin
        with tenancy(tenant):
            _, found = verify_ledger.verify_range(tenant, origin, UUID(int=subject.int - 1), subject)
    else:
        found = verify_ledger.check_whole_tenant(tenant)
    return " ".join(each.detail for each in found) or "holds"


def test_every_forged_column_that_is_compared_is_named(shop: Workshop, forger: Forger):
    """A check names every fault of a row, so one check is enough for a table."""
    for table in register.record_tables():
        row, fields = forger.one(table), apps.get_model(table.model)._meta.concrete_fields
        assert finding(table, shop.tenant, row) == "holds", table.model
        names = table.compared - {table.place, *table.key, *OF_PROPOSALS}
        # When a grant was spent is the database's own clock; that it was spent is what the record says.
        forged = {
            field.attname: None if field.attname == "consumed_at" else other(row[field.attname], field)
            for field in fields
            if field.attname in names
        }
        missed = unnamed(forger, table, row, forged)
        # A document is held to its digest by a rule of its own, and whether a policy is in force too.
        for name in missed:
            assert unnamed(forger, table, row, {name: forged[name]}) == [], (table.model, name)


def unnamed(forger: Forger, table: RecordTable, row: dict[str, Any], forged: dict[str, Any]) -> list[str]:
    """Which of these columns a check does not speak of, while they have these values."""
    forger.put(table, row, forged)
    said = finding(table, forger.tenant, row)
    forger.put(table, row, {name: row[name] for name in forged})
    by_own_rule = len(forged) == 1 and any(each in said for each in OWN_RULES)
    return [name for name in forged if not by_own_rule and f"another {name} than its events say" not in said]


@pytest.mark.parametrize(("name", "value"), [("compared_with", "9"), ("sent_by", uuid4()), ("weakens", [])])
def test_a_row_that_waits_for_a_second_person_is_compared_with_its_proposal(forger: Forger, name: str, value: Any):
    table = next(each for each in register.record_tables() if each.model == "ledger.ContractVersion")
    row = forger.one(table, version="9.0.0")
    assert finding(table, forger.tenant, row) == "holds"
    assert unnamed(forger, table, row, {name: value}) == []


def test_a_removed_row_and_an_invented_one_are_both_reported(shop: Workshop, forger: Forger):
    for table in register.record_tables():
        row, model = forger.one(table), apps.get_model(table.model)
        forger.take(table, row)
        said = finding(table, shop.tenant, row)
        # Nobody need have asked for a report.
        assert table.optional or any(each in said for each in ("is missing", *OWN_RULES)), (table.model, said)
        forger.add(table, row)
        if table.whole:
            fields = {field.attname: field for field in model._meta.concrete_fields}
            names = {field.attname for field in model._meta.pk_fields} | {"id", *table.key}
            unique = {name: other(row[name], fields[name]) for name in sorted(names & set(fields) - {"tenant_id"})}
            added = row | unique | ({table.place: row[table.place]} if table.place not in ("", *table.key) else {})
            forger.add(table, added)
            said = finding(table, shop.tenant, added)
            assert "no event made its row" in said, (table.model, said)
            forger.take(table, added)
    assert check_of(shop) == []


def test_every_table_and_column_is_compared_or_excluded_with_a_reason():
    """A new model, or a new column, fails here until somebody has said how it follows from the record."""
    models = {
        model._meta.label: {field.attname for field in model._meta.concrete_fields} - {"pk"}
        for app in ("ledger", "approvals", "reviews", "console")
        for model in apps.get_app_config(app).get_models()
    }
    compared = {table.model: table for table in register.record_tables()}
    outside = register.excluded_tables()
    assert set(compared) | set(outside) == set(models)
    assert not set(compared) & set(outside)
    assert all(len(reason) > 10 for reason in outside.values())
    for label, table in compared.items():
        known = {"tenant_id", table.place, *table.key} - {""}
        assert table.compared | set(table.outside) | known == models[label] | known, label
        assert not table.compared & set(table.outside), label
        assert all(len(reason) > 10 for reason in table.outside.values()), label


def test_the_documentation_lists_every_excluded_table():
    said = (Path(__file__).parents[3] / "docs" / "ledger.md").read_text()
    missing = [model for model in register.excluded_tables() if f"`{model}`" not in said]
    assert missing == []


# What follows from the record in another way than column by column


@pytest.mark.req("R-RI-15", "R-LE-02")
def test_a_report_with_a_code_that_its_event_does_not_allow_is_detected(shop: Workshop, forger: Forger):
    table = next(each for each in register.record_tables() if each.model == "reviews.Report")
    row = forger.one(table)
    said = "its row in reviews.Report has another code than its events say."
    for code in {"COMPLETED", "ATTESTED", "FAILED", "FINAL_STATE_UNKNOWN"} - {row["code"]}:
        forger.put(table, row, {"code": code})
        assert said in finding(table, shop.tenant, row), code
    forger.put(table, row, {"code": row["code"], "completed": not row["completed"]})
    said = "its row in reviews.Report has another completed than its events say."
    assert any(each.endswith(said) for each in check_of(shop))
    forger.put(table, row, {"completed": row["completed"]})


@pytest.mark.req("R-CG-19", "R-LE-02")
def test_an_inverted_verdict_of_the_guard_is_detected(shop: Workshop, forger: Forger):
    table = next(each for each in register.record_tables() if each.model == "reviews.GuardVerdict")
    row = forger.one(table)
    forger.put(table, row, {"verdict": "ALLOW" if row["verdict"] == "BLOCK" else "BLOCK"})
    said = "its row in reviews.GuardVerdict has another verdict than its events say."
    assert any(each.endswith(said) for each in check_of(shop))
    forger.put(table, row, {"verdict": row["verdict"]})
