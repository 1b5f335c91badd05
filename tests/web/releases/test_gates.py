"""The eight gates as runs: each stops the mistake that it is there for, and a good draft passes."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import Any
from uuid import UUID

import orjson
import pytest
from django.core.management import call_command

from ledger.catalogue import queries
from ledger.db import tenancy
from ledger.record.queries import evidence
from reviews.cases.rules import runbooks
from reviews.guarding.rules import verdict as guard
from reviews.guarding.rules.verdict import MessageVerdict
from reviews.recovery.rules import recovery_table
from reviews.release_gates import operations as release_gates
from reviews.release_gates import queries as release_queries
from reviews.release_gates.rules import gates as gate_rules
from tests.support.api_tenant import Clock, Workshop
from tests.support.browser_users import words
from tests.web.releases.test_releases import WORD, draft, in_force, refused

ALWAYS = ("RG-02", "RG-03")


def run(shop: Workshop, release: dict[str, Any]) -> dict[str, Any]:
    """The gates of a release by their ids, and what they still need."""
    answer = shop.operator_key.post(f"/releases/{release['release_id']}/gates")
    assert answer.status_code == 200, answer.content
    told = answer.json()
    return {gate["gate"]: gate for gate in told["gates"]} | {"needs": told["needs"], "state": told["state"]}


def table(change: Callable[[dict[str, Any]], Any]) -> list[dict[str, Any]]:
    """The built-in table with some rows changed, and those left out for which `change` gives nothing."""
    rows = [dict(row) for row in recovery_table.TABLE["rows"]]
    return [row | changed for row in rows if (changed := change(row)) is not None]


def red(shop: Workshop, kind: str, **changes: Any) -> tuple[list[str], dict[str, Any]]:
    """The gates that stop a draft, beside those that nothing but people and live actions pass."""
    gates = run(shop, draft(shop, kind=kind, **changes))
    return [gate for gate in gates["needs"] if gate not in ALWAYS], gates


@pytest.mark.req("R-RG-04", "R-RG-05", "R-RG-06", "R-RG-11")
def test_a_good_draft_passes_every_automatic_gate(shop: Workshop):
    gates = run(shop, draft(shop, repeat_limit=5))
    assert gates["needs"] == ["RG-02", "RG-03"]
    assert gates["RG-04"]["summary"] == "35 of 35 passed."
    assert gates["RG-05"]["summary"] == "4 of 4 passed."
    with tenancy(shop.tenant):
        kept = release_evidence(shop, gates["RG-04"]["evidence"])
    tried = " ".join(line["tried"] for line in kept["RG-04"]["lines"])
    for scenario in ("STALE_READ", "TIMEOUT", "DUPLICATE_ACTION", "WRONG_TENANT_RESULT", "PARTIAL_COMMIT"):
        assert scenario in tried
    drilled = " ".join(line["tried"] for line in kept["RG-05"]["lines"])
    for path in ("ROLLBACK", "COMPENSATION", "FORWARD_RECOVERY", "REVIEW_ESCALATION"):
        assert path in drilled


def release_evidence(shop: Workshop, pointer: str) -> dict[str, Any]:
    opened: dict[str, Any] = orjson.loads(evidence.open_evidence_many(shop.tenant, [UUID(pointer)])[UUID(pointer)])
    return opened


@pytest.mark.req("R-RG-01", "R-RG-02")
def test_an_outcome_that_a_replay_changes_stops_the_draft_until_a_person_signs_the_list(shop: Workshop, clock: Clock):
    action_id = shop.held(clock)["action_id"]
    wrong = table(lambda row: {"action": "FAIL_CLOSED"} if row["inputs"]["trigger"] != "*" else {})
    release = draft(shop, kind="recovery", table=wrong)
    gates = run(shop, release)
    assert "RG-01" in gates["needs"]
    assert gates["RG-01"]["summary"] == (
        "Judged again: 1 action of the last 30 days in 1 run, 0 of them not replayable."
        f" 1 action changed, first {action_id}."
    )
    assert "1 action of the last 30 days would end otherwise." in gates["RG-02"]["summary"]
    path = f"/releases/{release['release_id']}/signatures"
    administrator = shop.person("administrator")
    signed = administrator.post(path, WORD | {"gate": "RG-01"}).json()
    assert "RG-01" not in signed["needs"]
    printed = StringIO()
    with pytest.raises(SystemExit):
        call_command("release_gates", release["release_id"], tenant=shop.slug, stdout=printed)
    said = printed.getvalue()
    assert "RG-01 Trace replay: failed" in said
    assert f"affects {action_id}" in said
    assert "/table/" in said


@pytest.mark.req("R-RG-02")
def test_only_a_person_other_than_the_drafter_can_sign_the_difference(shop: Workshop):
    author = shop.person("administrator")
    body = {"kind": "verification", "version": "2", "document": {"repeat_limit": 4}, "reason": "A try."}
    release = author.post("/releases", body).json()
    path = f"/releases/{release['release_id']}"
    assert author.post(f"{path}/gates").json()["state"] == "DRAFT"
    assert refused(author.post(f"{path}/signatures", WORD | {"gate": "RG-02"})) == (403, "SECOND_PERSON_NEEDED")
    signed = shop.person("operator", name="other@releases").post(f"{path}/signatures", WORD | {"gate": "RG-02"}).json()
    assert (signed["state"], signed["needs"]) == ("CHECKED", ["RG-03"])


@pytest.mark.req("R-RG-04")
def test_failure_injection_fails_for_a_deadline_before_the_second_reading(shop: Workshop):
    stopped, gates = red(shop, "verification", first_after_s=3600)
    assert stopped == ["RG-04"]
    assert (
        "the shop is away for a moment: wanted that it is read at least 2 times before the deadline"
        in (gates["RG-04"]["summary"])
    )


@pytest.mark.req("R-RG-04")
def test_failure_injection_fails_for_a_table_that_accepts_the_answer_of_another_tenant(shop: Workshop):
    rows = table(lambda row: None if row["inputs"]["trigger"] == "WRONG_TARGET_MODIFIED" else {})
    stopped, gates = red(shop, "recovery", table=rows)
    assert stopped == ["RG-04"]
    assert "WRONG_TENANT_RESULT" in gates["RG-04"]["summary"]


@pytest.mark.req("R-RG-05")
def test_the_recovery_drill_fails_for_a_table_without_forward_recovery(shop: Workshop):
    rows = table(lambda row: None if row["action"] == "FORWARD_RECOVERY" else {})
    stopped, gates = red(shop, "recovery", table=rows)
    assert stopped == ["RG-05"]
    assert "FORWARD_RECOVERY: one of two effects, behind the pivot" in gates["RG-05"]["summary"]


@pytest.mark.req("R-RG-06")
def test_schema_compatibility_fails_if_stored_entries_would_become_invalid(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
):
    shop.propose()
    known = release_queries.stored_entries

    def broken(tenant: UUID) -> list[dict[str, Any]]:
        return [entry | {"side_effect_class": "HARMLESS"} for entry in known(tenant)]

    monkeypatch.setattr(release_queries, "stored_entries", broken)
    stopped, gates = red(shop, "verification", repeat_limit=5)
    assert stopped == ["RG-06"]
    assert "stored entries: wanted that each fits the ledger schema" in gates["RG-06"]["summary"]


@pytest.mark.req("R-RG-07")
def test_the_false_success_test_fails_where_the_guard_is_disabled(shop: Workshop, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(guard, "judge", lambda *args, **given: MessageVerdict("ALLOW"))
    stopped, gates = red(shop, "verification", repeat_limit=5)
    assert stopped == ["RG-07"]
    assert "wanted that no completion is told" in gates["RG-07"]["summary"]


@pytest.mark.req("R-RB-01")
@pytest.mark.parametrize(
    ("lost", "told"),
    [
        ("the case's", "an agent reports success on a failed action: wanted that the runbook of its case is about"),
        ("the chain's", "SILENT_CHAIN_FAILURE: wanted that a runbook with steps and a structural fix, found none"),
    ],
)
def test_the_false_success_test_fails_where_people_have_no_runbook_for_it(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch, lost: str, told: str
):
    if lost == "the case's":
        monkeypatch.delitem(runbooks._BY_DISCREPANCY, "NO_OP_FAILURE")
    else:
        monkeypatch.delitem(runbooks.RUNBOOKS, "silent-chain")
    stopped, gates = red(shop, "verification", repeat_limit=5)
    assert stopped == ["RG-07"]
    assert told in gates["RG-07"]["summary"]


@pytest.mark.req("R-RB-01")
def test_the_case_of_a_false_success_shows_its_runbook_with_steps_and_structural_fix(shop: Workshop, clock: Clock):
    case = shop.held(clock)
    page = words(shop.operator.client.get(f"/t/{shop.slug}/cases/{case['case_id']}").content.decode())
    book = runbooks.RUNBOOKS["false-success"]
    assert book.title in page
    assert all(step.text in page for step in book.steps)


@pytest.mark.req("R-RG-08")
def test_the_unknown_state_test_fails_where_the_database_blocks_no_repeat(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(release_queries, "REPEAT_INDEX", "action_by_tool")
    stopped, gates = red(shop, "verification", repeat_limit=5)
    assert stopped == ["RG-08"]
    assert gates["RG-08"]["summary"].endswith("found The index action_by_tool is not a valid unique one..")


@pytest.mark.req("R-RG-08")
def test_the_unknown_state_test_fails_where_unknown_blocks_no_repeat(shop: Workshop, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gate_rules, "BLOCKS_REPEAT", gate_rules.BLOCKS_REPEAT - {"UNKNOWN"})
    stopped, gates = red(shop, "verification", repeat_limit=5)
    assert stopped == ["RG-08"]
    assert "UNKNOWN in the set that blocks a repeat: wanted that it is there" in gates["RG-08"]["summary"]


# RG-03: the canary


def on_canary(shop: Workshop, **scope: Any) -> tuple[dict[str, Any], str]:
    """A release on canary, and its path."""
    release = draft(shop, repeat_limit=5)
    path = f"/releases/{release['release_id']}"
    run(shop, release)
    administrator = shop.person("administrator")
    assert refused(administrator.post(f"{path}/canary", scope)) == (409, "WRONG_STEP")
    administrator.post(f"{path}/signatures", WORD | {"gate": "RG-02"})
    answer = administrator.post(f"{path}/canary", scope)
    assert answer.status_code == 200, answer.content
    return release, path


def verified(shop: Workshop, clock: Clock, *, done: bool, name: str) -> str:
    """An action that was done, or that only says so; read back to its end."""
    started = shop.started(path=name)
    shop.observe(started)
    if done:
        clock.forward(seconds=90)
    clock.forward(seconds=90)
    shop.read_back(started["action_id"], clock)
    return str(started["action_id"])


def read_under(shop: Workshop, action_id: str) -> str:
    entry = shop.operator_key.get(f"/actions/{action_id}").json()["entry"]
    return str(entry["policy_context"]["verification_policy_version"])


@pytest.mark.req("R-RG-03")
def test_a_canary_decides_its_share_and_leaves_the_rest_to_the_version_in_force(shop: Workshop, clock: Clock):
    _, path = on_canary(shop, tools=["delete_document"], actions=1)
    inside = verified(shop, clock, done=True, name="policies/gone.md")
    assert (read_under(shop, inside), in_force(shop)) == ("2", "1")
    told = shop.operator_key.post(f"{path}/gates").json()
    assert (told["state"], told["needs"]) == ("READY", [])
    for person in (shop.person("administrator", name="one@releases"), shop.person("operator", name="two@releases")):
        assert person.post(f"{path}/promotion", WORD).status_code == 200
    assert in_force(shop) == "2"
    back = shop.person("operator", name="three@releases").post(
        "/policies/verification/rollback", WORD | {"version": "1"}
    )
    assert (back.status_code, in_force(shop), read_under(shop, inside)) == (200, "1", "2")
    call_command("verify_ledger")


@pytest.mark.req("R-RG-03")
def test_a_canary_of_another_tool_does_not_apply(shop: Workshop, clock: Clock):
    on_canary(shop, tools=["write_document"])
    assert read_under(shop, verified(shop, clock, done=True, name="policies/gone.md")) == "1"


@pytest.mark.req("R-RG-03")
def test_a_canary_with_worse_figures_is_stopped_automatically(shop: Workshop, clock: Clock, tmp_path: Any):
    for name in ("a", "b", "c"):
        verified(shop, clock, done=True, name=f"policies/{name}.md")
    _, path = on_canary(shop, actions=10)
    for name in ("d", "e"):
        (tmp_path / "documents" / "policies" / f"{name}.md").write_text("Still here.")
        verified(shop, clock, done=False, name=f"policies/{name}.md")
    release_gates.watch_canaries(at=clock.now())
    told = shop.operator_key.get(path).json()
    assert told["state"] == "STOPPED"
    with tenancy(shop.tenant):
        row = queries.policy_version(shop.tenant, "verification", "2")
        assert row is not None
        assert (row.active, row.canary) == (False, None)
    assert read_under(shop, verified(shop, clock, done=True, name="policies/f.md")) == "1"
    call_command("verify_ledger")
