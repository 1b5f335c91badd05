"""Replay through the API, the page and the command: a wrong refund, judged again by its own policies and by others."""

from __future__ import annotations

import json
import re
from html import unescape
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from console.models import PageView
from ledger.catalogue.rules.policies import default_policy
from ledger.db import tenancy
from ledger.verify_bundle import Verdict
from reviews.models import VerificationRun
from tests.support import exported
from tests.support.api_tenant import Clock
from tests.support.refund_shop import Counter
from tests.web.recovery.test_recovery_path import cancelling, lesser, wrong


@pytest.fixture
def refunded(counter: Counter, clock: Clock, secrets_dir: Path) -> str:
    """A refund of another amount than was asked for, cancelled by the recovery policy; then a policy that holds it."""
    action_id = wrong(counter.open(secrets_dir, lesser(), cancelling()), clock)
    clock.forward(seconds=1)
    document = default_policy("recovery") | {"hold": ["RT-03"]}
    assert counter.operator_key.release("recovery", {"version": "2", "document": document}).status_code == 201
    return action_id


def replayed(shop: Counter, action_id: str, query: str = "") -> Any:
    answer = shop.auditor.get(f"/actions/{action_id}/replay{query}")
    assert answer.status_code == 200, answer.content
    return answer.json()


def commanded(*arguments: str) -> tuple[int, str]:
    said = StringIO()
    try:
        call_command("replay", *arguments, stdout=said)
    except CommandError as ended:
        return ended.returncode, f"{said.getvalue()}{ended}"
    return 0, said.getvalue()


def spoken(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


HELD = "Under recovery policy 2 run 1 would have been held: The recovery policy holds RT-03 for a person."


@pytest.mark.req("R-RG-13", "R-LE-15", "R-HO-12")
def test_a_run_can_be_replayed_under_its_own_policies_and_under_others(counter: Counter, refunded: str, tmp_path: Path):
    then = replayed(counter, refunded)
    assert then["text"] == "Replayed under the policies of its time: same result (1 of 1 run)."
    assert then["runs"][0]["text"] == "Run 1, replayed under the policies of its time: same result."
    assert (then["same"], then["runs"][0]["differs"]) == (True, [])
    assert then["runs"][0]["under"] == {"verification": "1", "recovery": "1"}
    assert then["runs"][0]["recorded"] == then["runs"][0]["replayed"]
    assert then["runs"][0]["recorded"]["discrepancy"] == "VALUE_MISMATCH"

    other = replayed(counter, refunded, "?recovery_policy=2")
    assert other["text"] == "Replayed under recovery policy 2: 1 of 1 run with a different result."
    assert other["runs"][0]["text"] == HELD
    assert other["runs"][0]["replayed"]["held"]
    assert "decision.held_because" in other["runs"][0]["differs"]
    missing = counter.auditor.get(f"/actions/{refunded}/replay?recovery_policy=9")
    assert (missing.status_code, missing.json()["code"]) == (404, "NOT_FOUND")
    assert missing.json()["detail"] == "There is no version 9 of the recovery policy."
    with tenancy(counter.tenant):
        seen = PageView.objects.filter(tenant_id=counter.tenant, kind="action", thing_id=refunded)
        assert seen.count() == 1

    base = f"/t/{counter.slug}/actions/{refunded}"
    pages = counter.operator.client
    assert f'href="{base}/replay"' in pages.get(base).content.decode()
    assert "Run 1, replayed under the policies of its time: same result." in spoken(
        pages.get(f"{base}/replay").content.decode()
    )
    assert HELD in spoken(pages.get(f"{base}/replay", {"recovery": "2"}).content.decode())
    assert pages.get(f"{base}/replay", {"recovery": "9"}).status_code == 404

    assert commanded("--tenant", counter.slug) == (0, "Actions: 1, runs: 1, different: 0.\n")
    assert commanded("--action", refunded, "--policy", "recovery:2") == (
        1,
        f"{refunded}: {HELD}\nActions: 1, runs: 1, different: 1.",
    )
    draft = tmp_path / "draft.json"
    draft.write_text(json.dumps(default_policy("recovery") | {"hold": ["RT-03"]}))
    code, said = commanded("--document", f"recovery:{draft}")
    assert (code, HELD.replace("policy 2", "policy draft") in said) == (1, True)
    assert commanded("--since", "2300-01-01T00:00:00Z") == (0, "Actions: 0, runs: 0, different: 0.\n")


def test_the_command_explains_what_it_cannot_do(counter: Counter, tmp_path: Path):
    draft = tmp_path / "draft.json"
    draft.write_text('{"hold": ["RT-77"]}')
    for arguments, said in (
        (("--tenant", "nobody"), "There is no tenant nobody."),
        (("--tenant", counter.slug, "--policy", "recovery:9"), "There is no version 9 of the recovery policy."),
        (("--document", f"recovery:{draft}"), "The policy is not valid. /hold/0: There is no row RT-77."),
        (("--document", f"approval:{draft}"), "A run is judged by a verification or a recovery policy"),
        (("--document", f"recovery:{tmp_path / 'gone'}"), "cannot be read: No such file or directory."),
        (("--action", "0198c0de-0000-7000-8000-000000000000"), "There is no action"),
        (("--since", "yesterday"), "yesterday is not a time with a time zone"),
    ):
        code, told = commanded(*arguments)
        assert said in told, told
        assert code in (1, 2), arguments


def test_evidence_of_an_older_version_is_reported_as_not_replayable(counter: Counter, refunded: str, monkeypatch: Any):
    """Stored by a release that kept no circumstances."""
    from reviews.replay import queries

    def as_before(tenant_id: Any, pointers: Any) -> Any:
        documents, gone = opened(tenant_id, pointers)
        return {
            pointer: {k: v for k, v in one.items() if k != "circumstances"} for pointer, one in documents.items()
        }, gone

    opened = queries._evidence
    with monkeypatch.context() as patched:
        patched.setattr(queries, "_evidence", as_before)
        then = replayed(counter, refunded)
    assert then["text"] == ("No run can be replayed. Its evidence was stored before circumstances were kept with it.")
    assert (then["same"], then["runs"][0]["same"], then["runs"][0]["replayed"]) == (False, None, None)
    with tenancy(counter.tenant):
        assert VerificationRun.objects.filter(tenant_id=counter.tenant, action_id=refunded).count() == 1


def no_database(execute: Any, sql: Any, params: Any, many: bool, context: Any) -> Any:
    raise AssertionError(f"a database was asked: {sql!r:.80}")


@pytest.mark.req("R-LE-14", "R-LE-15", "R-RG-13")
def test_bundles_are_replayed_elsewhere_with_the_same_result(counter: Counter, refunded: str, tmp_path: Path):
    """By the id in the entry's trace, and in an exported bundle, which an outsider can verify as well."""
    trace = counter.auditor.get(f"/actions/{refunded}/trace").json()
    assert trace["replay_bundle_id"] == refunded
    answer = counter.auditor.get(f"/replay-bundles/{trace['replay_bundle_id']}")
    assert [run["number"] for run in answer.json()["runs"]] == [1]
    assert {each["version"] for each in answer.json()["documents"]["policies"]} == {"1"}
    assert counter.agent.get(f"/replay-bundles/{refunded}").status_code == 403
    page = f"/t/{counter.slug}/actions/{refunded}/replay"
    shown = counter.operator.client.get(page).content.decode()
    assert "Download replay bundle (JSON)" in spoken(shown)
    assert f'href="{page}-bundle"' in shown
    loaded = counter.operator.client.get(f"{page}-bundle")
    assert loaded["Content-Disposition"] == f'attachment; filename="replay-{refunded}.json"'
    assert json.loads(loaded.content) == answer.json()
    folder = tmp_path / "regression"
    folder.mkdir()
    (folder / "one.json").write_bytes(answer.content)
    data = exported.bundle(counter.tenant, filters={"action": refunded})
    (folder / "two.zip").write_bytes(data)
    report = exported.judged(data, exported.policy(counter.tenant))
    assert report.worst is Verdict.VERIFIED, report.document()
    draft = tmp_path / "draft.json"
    draft.write_text(json.dumps(default_policy("recovery") | {"hold": ["RT-03"]}))
    with connection.execute_wrapper(no_database):
        assert commanded("--bundle", str(folder)) == (0, "Actions: 2, runs: 2, different: 0.\n")
        code, said = commanded("--bundle", str(folder / "two.zip"), "--document", f"recovery:{draft}")
        assert (code, f"{refunded}: {HELD.replace('policy 2', 'policy draft')}" in said) == (1, True)
        code, said = commanded("--bundle", str(folder), "--policy", "recovery:7")
        assert (code, "does not contain version 7 of the recovery policy." in said) == (2, True)

    altered = answer.json()
    altered["documents"]["contracts"][0] = altered["documents"]["contracts"][0].replace("refund", "refuse")
    (tmp_path / "altered.json").write_text(json.dumps(altered))
    code, said = commanded("--bundle", str(tmp_path / "altered.json"))
    assert (code, "The contract that it was judged by is not there." in said) == (0, True)
    assert said.endswith("different: 0, not replayable: 1.\n")
    (tmp_path / "odd.json").write_text("[]")
    assert commanded("--bundle", str(tmp_path / "odd.json"))[0] == 2

    withheld = exported.bundle(counter.tenant, filters={"action": refunded}, payloads=False)
    (tmp_path / "withheld.zip").write_bytes(withheld)
    assert "Its evidence is not in the bundle: withheld." in commanded("--bundle", str(tmp_path / "withheld.zip"))[1]
