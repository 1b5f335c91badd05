"""Tenants are listed, exported and off-boarded by one command; off-boarding takes a person of the tenant as well."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.core.management import CommandError, call_command

from approvals.tasks import end_stopped_work
from console.exports import bundle_information
from console.installation import off_boarding
from console.tasks import end_expired_proposals
from ledger.actions.queries import actions
from ledger.catalogue.operations import installation
from ledger.db import tenancy
from ledger.record.queries import events
from ledger.retention import queries
from tests.support import seals
from tests.support.api_tenant import PASSWORD, Clock, Workshop
from tests.support.callers import Api, person_for
from tests.support.exported import policy

NAME = "Orchid"


@pytest.fixture(autouse=True)
def sealed(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sequencer is at work while an export waits for it."""
    settings.COUNTERFOIL_EXPORTS = tmp_path / "exports"
    advance = bundle_information.advance_export

    def seal_and_advance(**values: Any) -> bool:
        seals.seal_up()
        return advance(**values)

    monkeypatch.setattr(bundle_information, "advance_export", seal_and_advance)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "orchid.zip"


def trusted(shop: Workshop, tmp_path: Path) -> Path:
    seals.seal_up()
    file = tmp_path / "policy"
    file.write_bytes(policy(shop.tenant))
    return file


def name_of(shop: Workshop) -> str:
    found = events.tenant("orchid")
    assert found is not None
    return found.name


def off_board(shop: Workshop, out: Path, **options: Any) -> None:
    given = {"confirm": name_of(shop), "reason": "The contract has ended.", "out": out} | options
    call_command("tenant", "off-board", "orchid", **given)


@pytest.fixture
def compliance(shop: Workshop) -> Api:
    return person_for(shop.tenant, "compliance")


def answer(shop: Workshop, by: Api, word: str, **body: Any) -> Any:
    with tenancy(shop.tenant):
        asked = queries.off_boarding(shop.tenant)
    assert asked is not None
    return by.post(f"/off-boarding/{asked.id}/{word}", body)


def ask_and_confirm(shop: Workshop, by: Api, out: Path) -> None:
    with pytest.raises(CommandError, match="A person of this tenant with the role compliance confirms it"):
        off_board(shop, out)
    assert answer(shop, by, "confirm", password=PASSWORD).status_code == 200


def kinds(shop: Workshop) -> list[str]:
    with tenancy(shop.tenant):
        return [event.kind for event, *_ in events.history(shop.tenant, shop.tenant)]


def test_the_list_counts_what_is_open_and_the_keys_in_force(shop: Workshop, capsys: pytest.CaptureFixture[str]):
    shop.approved()
    call_command("tenant", "list", "--json")
    [row] = json.loads(capsys.readouterr().out)
    assert (row["tenant"], row["open_actions"], row["open_cases"]) == ("orchid", 1, 0)
    assert row["keys_in_force"] >= 2
    call_command("tenant", "list")
    assert "actions open: 1, cases open: 0, keys: " in capsys.readouterr().out


def test_an_export_is_verified_as_an_outsider_does(
    shop: Workshop, out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = trusted(shop, tmp_path)
    call_command("tenant", "export", "orchid", out=out, policy=file)
    assert f"{out} was written and is verified" in capsys.readouterr().out
    file.write_text("log example.org/other+00000000+AQ==\nquorum none\n")
    with pytest.raises(CommandError, match="was written and is not verified"):
        call_command("tenant", "export", "orchid", out=out, policy=file)


def test_nothing_is_done_before_a_person_of_the_tenant_has_confirmed(shop: Workshop, compliance: Api, out: Path):
    for _ in range(2):
        with pytest.raises(CommandError, match="nothing else was done"):
            off_board(shop, out)
    assert kinds(shop).count("off_boarding_requested") == 1
    waits = compliance.get("/inbox").json()["items"]
    assert [each["title"] for each in waits if each["kind"] == "confirmation"] == [
        "Confirm the off-boarding of this tenant"
    ]
    assert "Off-boarding of this tenant" in compliance.client.get("/t/orchid/audit/holds").content.decode()
    assert answer(shop, compliance, "confirm").json()["code"] == "STEP_UP_REQUIRED"
    assert answer(shop, shop.operator, "confirm", password=PASSWORD).status_code == 403
    assert answer(shop, shop.operator_key, "confirm").status_code == 403
    assert shop.propose()
    assert not out.exists()


def test_an_off_boarding_that_was_refused_or_is_a_month_old_is_asked_for_anew(
    shop: Workshop, compliance: Api, out: Path, clock: Clock
):
    ask_and_confirm(shop, compliance, out)
    assert answer(shop, compliance, "refuse", reason="Not yet.").status_code == 200
    with pytest.raises(CommandError, match="nothing else was done"):
        off_board(shop, out)
    clock.forward(days=31)
    later = person_for(shop.tenant, "compliance", name="later@example.org")
    assert answer(shop, later, "confirm", password=PASSWORD).json()["code"] == "PROPOSAL_EXPIRED"
    assert end_expired_proposals() == 1
    with pytest.raises(CommandError, match="nothing else was done"):
        off_board(shop, out)
    told = [kind for kind in kinds(shop) if "off_boarding" in kind]
    assert told == [
        *("off_boarding_requested", "off_boarding_confirmed", "off_boarding_refused"),
        *("off_boarding_requested", "off_boarding_refused", "off_boarding_requested"),
    ]
    assert shop.propose()


def test_a_refusal_that_comes_while_it_begins_undoes_it(
    shop: Workshop, compliance: Api, out: Path, monkeypatch: pytest.MonkeyPatch
):
    ask_and_confirm(shop, compliance, out)
    revoke = off_boarding.revoke_agent

    def refuse_first(**values: Any) -> Any:
        monkeypatch.setattr(off_boarding, "revoke_agent", revoke)
        assert answer(shop, compliance, "refuse", reason="Not yet.").status_code == 200
        return revoke(**values)

    monkeypatch.setattr(off_boarding, "revoke_agent", refuse_first)
    with pytest.raises(CommandError, match="refused it at this moment"):
        off_board(shop, out)
    assert shop.propose()


def test_off_boarding_waits_for_what_is_open_and_lets_its_executor_report(
    shop: Workshop, compliance: Api, out: Path, capsys: pytest.CaptureFixture[str]
):
    started = shop.started()
    waiting = shop.approved(path="policies/later.md")
    ask_and_confirm(shop, compliance, out)
    with pytest.raises(CommandError, match=r"Open actions: 1, open cases: 0\. .* Run this again then\."):
        off_board(shop, out)
    assert shop.agent.get(f"/actions/{waiting}").status_code == 401
    assert shop.observe(started).status_code == 202
    end_stopped_work()
    with tenancy(shop.tenant):
        assert str(actions.action(shop.tenant, UUID(waiting)).state) == "FAILED"
    with pytest.raises(CommandError, match="Open actions: 1, open cases: 0"):
        off_board(shop, out)
    assert not out.exists()
    assert "off_boarding_finished" not in kinds(shop)


def test_a_tenant_without_open_work_is_handed_over_and_no_key_is_left(
    shop: Workshop, compliance: Api, out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    ask_and_confirm(shop, compliance, out)
    off_board(shop, out, policy=trusted(shop, tmp_path))
    told = capsys.readouterr().out
    assert "is verified" in told
    assert "What stays: events, their log with its signed heads and proofs" in told
    assert shop.executor.get("/executions/ready?tools=write_document").status_code == 401
    steps = ("requested", "confirmed", "begun", "finished")
    assert [kind for kind in kinds(shop) if "off_boarding" in kind] == [f"off_boarding_{step}" for step in steps]
    assert answer(shop, compliance, "refuse", reason="Too late.").json()["code"] == "ALREADY_DECIDED"
    with pytest.raises(CommandError, match="nothing else was done"):
        off_board(shop, out)


@pytest.mark.parametrize(
    ("options", "told"),
    [({"confirm": "orchid"}, "Type the tenant's full name"), ({"reason": " "}, "Say with --reason why")],
)
def test_nothing_is_done_without_the_full_name_and_a_reason(shop: Workshop, out: Path, options: Any, told: str):
    with pytest.raises(CommandError, match=told):
        off_board(shop, out, **options)
    assert "off_boarding_requested" not in kinds(shop)
    assert shop.propose()


def test_an_interrupted_off_boarding_is_done_whole_or_not_at_all(
    shop: Workshop, compliance: Api, out: Path, monkeypatch: pytest.MonkeyPatch
):
    ask_and_confirm(shop, compliance, out)

    def die(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(installation, "_record_once", die)
        with pytest.raises(KeyboardInterrupt):
            off_board(shop, out)
    assert shop.propose()
