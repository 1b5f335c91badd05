"""Hand-offs: what other teams take from the record, each as its consumer reads it: by its schema, and nothing else."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from django.core.management import CommandError, call_command

from console.handoffs.documents import HANDOFFS, handoff_schema
from console.notifications.channels import TenantOutlets
from console.tasks import count_metrics, send_handoffs
from ledger.db import execute, tenancy
from ledger.record.rules.canonical import digest
from reviews.observations.rules import webhooks
from reviews.tasks import verify_due, watch_changes
from tests.support.api_tenant import Clock, Workshop, anonymous, result
from tests.support.outside.receivers import Posts, posts
from tests.support.refund_shop import ORDER, TOOL, Counter
from tests.web.cases.test_ungated import AUDIT
from tests.web.recovery.test_recovery_path import CANCEL, cancelling, carried_out, child_of, lesser

ROOT = Path(__file__).resolve().parents[3]
SECRET = "whsec_" + "YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFh"


@pytest.fixture
def lived(shop: Workshop, clock: Clock, tmp_path: Path) -> Workshop:
    """A shop in which one action was verified, one disproved and held, and two calls refused."""
    folder = tmp_path / "documents"
    for name in ("notes", "old"):
        (folder / name).mkdir()
    (folder / "old" / "one.md").write_text("Still here.")
    clock.stop()
    written = shop.propose("write_document")
    started = shop.start(shop.claim()[0]).json()
    (folder / "notes" / "today.md").write_text("Quiet.")
    clock.forward(seconds=2)
    shop.observe(started, result=result(tool="write_document"))
    clock.forward(seconds=8)
    assert shop.read_back(written, clock) == "RECONCILED_SUCCESS"
    shop.held(clock)
    shop.call("delete_documents_now")
    shop.operator_key.post("/agents", {"agent_id": "librarian", "version": "2", "tools": ["write_document"]})
    shop.call("delete_document")
    count_metrics()
    return shop


def take(shop: Workshop, name: str) -> dict[str, Any]:
    """A hand-off as a consumer takes it: with the key of an auditor, and held to the schema that it fetched."""
    schema = shop.auditor.get(f"/handoffs/{name}/schema")
    answer = shop.auditor.get(f"/handoffs/{name}")
    assert (schema.status_code, answer.status_code) == (200, 200), answer.content
    document: dict[str, Any] = answer.json()
    jsonschema_rs.Draft202012Validator(schema.json(), validate_formats=True).validate(document)
    assert (document["handoff"], document["tenant"]) == (name, shop.slug)
    assert (name, document["version"]) in SHAPES
    return document


def by(document: dict[str, Any], *names: str) -> dict[Any, dict[str, Any]]:
    return {tuple(row[name] for name in names) if len(names) > 1 else row[names[0]]: row for row in document["rows"]}


@pytest.mark.req("R-HO-02", "R-HO-03", "R-HO-09", "R-HO-10", "R-HO-15")
def test_each_consumer_gets_its_figures(lived: Workshop):
    tools = by(take(lived, "contracts"), "tool")
    deleting = tools["delete_document"]
    assert (deleting["verification"], deleting["system"], deleting["idempotent"]) == ("filesystems", "documents", True)
    assert (deleting["executed"], deleting["mismatched"], deleting["mismatch_share"]) == (1, 1, 1)
    assert tools["write_document"]["mismatch_share"] == 0
    assert all(row["class"] and row["missing_checks"] is not None and row["lint"] is not None for row in tools.values())

    sick = by(take(lived, "pathologies"), "tool")
    assert (sick["delete_document"]["failure_share"], sick["write_document"]["failure_share"]) == (1, 0)
    assert sum(sick["delete_document"]["discrepancies"].values()) >= 1
    assert sick["write_document"]["discrepancies"] == {}
    assert sick["delete_document"]["unsettled"] == 1

    refused = take(lived, "permissions")["rows"]
    assert {row["code"] for row in refused} == {"PHANTOM_TOOL", "UNDISCLOSED_TOOL"}

    [system] = take(lived, "dependencies")["rows"]
    assert (system["settled"], system["settled_median_ms"] is not None) == (2, True)

    [case] = take(lived, "reviews")["rows"]
    assert (case["tool"], case["claimed"], case["compensation_failed"]) == ("delete_document", False, False)
    assert (case["action_state"], case["action_outcome"]) == ("REVIEW_REQUIRED", "NEEDS_REVIEW")
    assert lived.operator_key.get(case["details"].removeprefix("/api/v1")).json()["case_id"] == case["case_id"]

    told = by(take(lived, "telemetry"), "metric")
    assert (len(told), told["M-01"]["value"], told["M-02"]["value"], told["M-18"]["value"]) == (25, 0.5, 0.5, 1)

    reference = {row["table"]: row["content"] for row in take(lived, "reference")["rows"]}
    assert len(reference["lifecycle"]["states"]) == 19
    assert len(reference["lifecycle"]["transitions"]) == 54
    assert len(reference["discrepancies"]) == 12
    assert {"RT-01", "RT-99"} <= {row["id"] for row in reference["recovery"]["rows"]}
    for name in ("ledger_entry", "ledger_entry_1", "contract"):
        jsonschema_rs.meta.validate(reference[name])


@pytest.fixture
def watched_till(counter: Counter, secrets_dir: Path) -> Counter:
    """A till whose refunds a tool can cancel, and whose changes are compared with the record."""
    assert counter.open(secrets_dir, lesser(), cancelling(), settings={"till": {"changes": AUDIT}})
    assert watch_changes() == 0
    return counter


def refunded(till: Counter, clock: Clock, order_id: str, *changes: dict[str, Any]) -> str:
    """A refund of this order that wrote these rows, read back once."""
    till.till.order(order_id)
    started = till.begun(order_id=order_id)
    for change in changes:
        till.till.refund(started["idempotency_key"], **({"order_id": order_id} | change))
    till.tell(started)
    clock.forward(seconds=30)
    till.read_back(started["action_id"], clock)
    return str(started["action_id"])


@pytest.mark.req("R-HO-04")
def test_security_finds_wrong_targets_foreign_tenants_strange_changes_and_undisclosed_tools(
    watched_till: Counter, clock: Clock
):
    wrong = refunded(watched_till, clock, "EX-1001", {"order_id": "EX-6666", "tenant": "willow"})
    watched_till.till.refund("a-strangers-key", order_id="EX-2001")
    assert watch_changes() == 1
    watched_till.operator_key.post("/agents", {"agent_id": "cashier", "version": "2", "tools": [TOOL]})
    watched_till.call(CANCEL, {"refund_id": 1})
    [case] = [each for each in watched_till.operator.get("/reviews").json()["items"] if not each["action_id"]]

    rows = take(watched_till, "permissions")["rows"]
    assert {(row["kind"], row["code"], row["tool"], row["action_id"], row["case_id"]) for row in rows} == {
        ("wrong_target", "WRONG_TARGET_MODIFIED", TOOL, wrong, None),
        ("ungated_effect", "UNGATED_EFFECT", None, None, case["case_id"]),
        ("refused_call", "UNDISCLOSED_TOOL", CANCEL, None, None),
    }
    assert {row["tenant"] for row in rows} == {watched_till.slug}


@pytest.mark.req("R-HO-05")
def test_a_system_that_stopped_answering_is_handed_off_with_its_circuit_and_what_waits_for_it(
    watched_till: Counter, clock: Clock, secrets_dir: Path
):
    clock.stop()

    def answered(order_id: str) -> None:
        watched_till.till.order(order_id)
        started = watched_till.begun(order_id=order_id)
        watched_till.till.refund(started["idempotency_key"], order_id=order_id)
        watched_till.tell(started)
        clock.forward(seconds=30)

    answered("EX-1001")
    assert verify_due() == 1
    count_metrics()
    healthy = by(take(watched_till, "dependencies"), "system")["till"]
    assert (healthy["circuit"], healthy["reads"], healthy["unanswered_share"]) == ("CLOSED", 1, 0)
    assert (healthy["settled"], healthy["not_releasing"], healthy["tools"]) == (1, None, [CANCEL, TOOL])

    (secrets_dir / "systems" / "orchid" / "till.json").write_text('{"url": "host=127.0.0.1 port=1 dbname=none"}')
    for number in range(5):
        answered(f"EX-200{number}")
    verify_due()
    sick = by(take(watched_till, "dependencies"), "system")["till"]
    assert (sick["circuit"], sick["reads"], sick["unanswered"], sick["unanswered_share"]) == (
        "OPEN",
        6,
        5,
        pytest.approx(5 / 6),
    )
    assert (sick["failures"], sick["waiting"]) == (5, 5)
    assert sick["not_releasing"]
    assert by(take(watched_till, "dependencies"), "system")["books"]["circuit"] == "CLOSED"


@pytest.mark.req("R-HO-06")
def test_duplicates_repeats_readings_and_compensations_are_handed_off_by_tool_and_agent(
    watched_till: Counter, clock: Clock
):
    refunded(watched_till, clock, "EX-1001", {})
    refunded(watched_till, clock, "EX-1002", {}, {})
    wrong = refunded(watched_till, clock, "EX-1003", {"amount": 99})
    assert watched_till.state(wrong) == "COMPENSATING"
    carried_out(watched_till, clock, child_of(watched_till, wrong))
    assert watched_till.state(wrong) == "COMPENSATED"
    watched_till.till.order("EX-1004")
    watched_till.begun(order_id="EX-1004")
    assert watched_till.call(TOOL, ORDER | {"order_id": "EX-1004"})["result"]["error"]["code"] == "DUPLICATE_BLOCKED"
    count_metrics()

    rows = by(take(watched_till, "resources"), "tool", "agent")
    refunds, cancellations = rows[TOOL, "cashier"], rows[CANCEL, "recovery"]
    assert (refunds["executed"], refunds["calls"]) == (4, 5)
    assert (refunds["duplicated"], refunds["duplicate_share"]) == (1, 0.25)
    assert (refunds["compensations"], refunds["compensation_share"]) == (1, 0.25)
    assert (refunds["repeats"], refunds["repeats_per_action"]) == (1, 0.25)
    assert (refunds["readings"], refunds["readings_per_action"]) == (3, 0.75)
    assert (cancellations["executed"], cancellations["compensations"], cancellations["duplicated"]) == (1, 0, 0)


@pytest.mark.req("R-HO-11")
def test_own_failures_are_handed_off_as_scenarios_and_replayed_elsewhere_as_they_were_judged(
    watched_till: Counter, clock: Clock, tmp_path: Path
):
    refunded(watched_till, clock, "EX-1001", {})
    false = refunded(watched_till, clock, "EX-1002")
    wrong = refunded(watched_till, clock, "EX-1003", {"amount": 99})
    twice = refunded(watched_till, clock, "EX-1004", {}, {})
    rows = by(take(watched_till, "evaluations"), "action_id")
    assert {each: (row["discrepancy"], row["pattern"], row["claimed"]) for each, row in rows.items()} == {
        false: ("NO_OP_FAILURE", "HS-03", True),
        wrong: ("VALUE_MISMATCH", None, True),
        twice: ("DUPLICATE_SIDE_EFFECT", "HS-06", True),
    }
    bundle = watched_till.auditor.get(rows[false]["bundle"].removeprefix("/api/v1"))
    assert [run["number"] for run in bundle.json()["runs"]] == [1]

    pack, told = tmp_path / "pack", io.StringIO()
    call_command("replay", failures_to=pack, tenant=watched_till.slug, stdout=told)
    assert told.getvalue() == "Bundles written: 3, HS-03: 1, HS-06: 1, VALUE_MISMATCH: 1.\n"
    assert sorted(file.name for file in pack.iterdir()) == [
        f"HS-03-{false}.json",
        f"HS-06-{twice}.json",
        f"VALUE_MISMATCH-{wrong}.json",
    ]
    replayed = io.StringIO()
    call_command("replay", bundle=[pack], stdout=replayed)
    assert replayed.getvalue() == "Actions: 3, runs: 3, different: 0.\n"
    with pytest.raises(CommandError, match="There is no tenant nobody"):
        call_command("replay", failures_to=pack, tenant="nobody")


@pytest.mark.req("R-LE-03", "R-LE-04")
def test_stored_entries_fit_version_2_of_the_schema_and_without_the_digests_of_policies_version_1(lived: Workshop):
    reference = {row["table"]: row["content"] for row in take(lived, "reference")["rows"]}
    newer, older = (
        jsonschema_rs.Draft202012Validator(reference[name], validate_formats=True)
        for name in ("ledger_entry", "ledger_entry_1")
    )
    with tenancy(lived.tenant):
        stored = [json.loads(entry) for (entry,) in execute("SELECT entry FROM ledger_entry WHERE entry IS NOT NULL")]
    stored = [entry for entry in stored if "action_id" in entry]
    assert len(stored) > 10
    for entry in stored:
        newer.validate(entry)
        digests = [name for name in entry["policy_context"] if name.endswith("_digest")]
        assert len(digests) == 4
        older.validate(entry | {"policy_context": _without(entry["policy_context"], digests)})


def _without(block: dict[str, Any], names: list[str]) -> dict[str, Any]:
    return {name: value for name, value in block.items() if name not in names}


def test_rows_have_the_same_values_as_a_table_and_as_json_lines(lived: Workshop):
    for name in HANDOFFS:
        rows = take(lived, name)["rows"]
        lines = lived.auditor.get(f"/handoffs/{name}/rows.jsonl").content.decode().splitlines()
        assert [json.loads(line) for line in lines] == rows, name
        table = list(csv.DictReader(io.StringIO(lived.auditor.get(f"/handoffs/{name}/rows.csv").content.decode())))
        assert [list(row) for row in table] == [list(row) for row in rows], name
        assert [row and next(iter(row.values())) for row in table] == [str(next(iter(row.values()))) for row in rows]


def test_a_period_consists_of_whole_days_and_only_readers_are_admitted(shop: Workshop):
    document = shop.operator_key.get("/handoffs/telemetry?from=2026-01-05T07:00:00Z&to=2026-01-06T07:00:00Z").json()
    assert (document["from"][:16], document["to"][:16]) == ("2026-01-05T00:00", "2026-01-07T00:00")
    assert {row["value"] for row in document["rows"] if row["kind"] == "share"} == {None}
    long = shop.operator_key.get("/handoffs/telemetry?from=1990-01-01T00:00:00Z")
    assert (long.status_code, long.json()["code"]) == (422, "PERIOD_TOO_LONG")
    assert shop.operator_key.get("/handoffs/gossip").status_code == 404
    assert shop.agent.get("/handoffs/reference").status_code == 403
    assert anonymous().get("/handoffs").status_code == 401


def test_the_handoff_page_lists_each_handoff_with_its_version_and_address(shop: Workshop):
    text = (ROOT / "docs" / "handoffs.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \|", text, re.M)
    listed = shop.operator_key.get("/handoffs").json()
    assert rows == [(each["name"], str(each["version"])) for each in listed]
    assert [each["name"] for each in listed] == list(HANDOFFS)
    for each in listed:
        assert (
            shop.operator_key.get(each["json_schema"].removeprefix("/api/v1"))
            .json()["$id"]
            .endswith(f":{each['name']}:{each['version']}")
        )


SHAPES = {
    ("contracts", 1): "b1ee7f3112c1",
    ("pathologies", 1): "2733e630f193",
    ("permissions", 1): "99a98031aeae",
    ("dependencies", 1): "47e1d02cf591",
    ("resources", 1): "9fc9f2348e42",
    ("reviews", 3): "48a1505319fe",
    ("unrecorded", 3): "e15ad59779ba",
    ("telemetry", 1): "fd7ffba5fad8",
    ("evaluations", 1): "73dbf72891e2",
    ("reference", 1): "4168e060f507",
}


def shape_of(part: Any) -> Any:
    """A schema without its words."""
    if isinstance(part, dict):
        words = ("title", "description")
        return {name: shape_of(each) for name, each in part.items() if name not in words or isinstance(each, dict)}
    return [shape_of(each) for each in part] if isinstance(part, list) else part


def test_a_changed_shape_has_a_new_version():
    shapes = {
        (name, kind.model_fields["version"].default): digest(
            json.dumps(shape_of(handoff_schema(name)), sort_keys=True).encode()
        )[:12]
        for name, kind in HANDOFFS.items()
    }
    assert shapes == SHAPES, "raise the version of what changed, and note its new shape here"


@pytest.fixture
def machine(settings: Any, shop: Workshop) -> Iterator[Posts]:
    """A consumer's address, of which the installation knows the secret."""
    with posts() as server:
        settings.COUNTERFOIL_CHANNELS = {"*": TenantOutlets(webhook=(f"http://127.0.0.1:{server.port}/take", SECRET))}
        yield server


def test_the_webhook_gets_the_chosen_handoffs_once_a_day_signed(lived: Workshop, machine: Posts, clock: Clock):
    assert send_handoffs() == 0
    administrator = lived.person("administrator")
    wrong = administrator.post("/notices/channels", {"handoffs": ["gossip"]})
    assert wrong.status_code == 422
    chosen = administrator.post("/notices/channels", {"handoffs": ["pathologies", "telemetry"]})
    assert chosen.json()["handoffs"] == ["pathologies", "telemetry"]
    machine.answers = [500]
    send_handoffs()
    clock.forward(minutes=2)
    send_handoffs()
    assert send_handoffs() == 0
    taken = [json.loads(body) for _, body in machine.received]
    assert sorted(each["type"] for each in taken) in (
        ["handoff.pathologies", "handoff.pathologies", "handoff.telemetry"],
        ["handoff.pathologies", "handoff.telemetry", "handoff.telemetry"],
    )
    headers, body = machine.received[-1]
    stamp, webhook_id = headers["webhook-timestamp"], headers["webhook-id"]
    signed = webhooks.signature(webhooks.decode_secret(SECRET), webhook_id=webhook_id, timestamp=stamp, body=body)
    assert headers["webhook-signature"] == signed
    assert len({headers["webhook-id"] for headers, _ in machine.received}) == 2
    for each in taken:
        name, document = each["type"].removeprefix("handoff."), each["data"]
        jsonschema_rs.Draft202012Validator(handoff_schema(name), validate_formats=True).validate(document)
        # It ends with the day before, so what was done today comes tomorrow.
        assert document["to"] == each["timestamp"].replace("+00:00", ".000000Z")
    clock.forward(days=1)
    machine.received.clear()
    assert send_handoffs() == 2
    by_type = {each["type"]: each["data"] for each in machine.documents()}
    tools = {row["tool"]: row["failure_share"] for row in by_type["handoff.pathologies"]["rows"]}
    assert (tools["delete_document"], tools["write_document"]) == (1, 0)


def test_an_administrator_chooses_handoffs_on_the_page(shop: Workshop):
    browser = shop.person("administrator").client
    path = f"/t/{shop.slug}/notices/channels"
    page = browser.get(path).content.decode()
    assert "Daily hand-offs to the webhook" in page
    assert page.count('name="handoffs"') == len(HANDOFFS)
