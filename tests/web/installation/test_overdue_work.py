"""Overdue work is listed with its reason, and may be had done now, which decides nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from approvals import tasks
from console.accounts.operations import prune_answers
from console.installation import queries
from ledger.db import execute
from ledger.record import operations as ledger
from reviews.readback.operations import claimed_batches, probes
from tests.support.api_tenant import Workshop
from tests.support.seals import as_sequencer


@pytest.fixture(autouse=True)
def nothing_due(shop: Workshop) -> None:
    """The tenant was set up when the first test of this process asked for it; what that left to be done is done."""
    tasks.lapse()


def put_off(shop: Workshop, by: str, *, table: str = "reviews_schedule") -> None:
    execute(f"UPDATE {table} SET due_at = due_at + $2::interval WHERE tenant_id = $1", shop.tenant, by)


def pending(shop: Workshop) -> str:
    """An action that is to be read back."""
    started = shop.started()
    assert shop.observe(started).status_code == 202
    return str(started["action_id"])


def stuck(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    code = 0
    try:
        call_command("stuck", "--json", *words)
    except SystemExit as end:
        code = int(end.code or 0)
    return code, json.loads(capsys.readouterr().out)


def of_kind(told: dict[str, Any], kind: str) -> list[tuple[str, str]]:
    return [(each["id"], each["reason"]) for each in told["items"] if each["kind"] == kind]


def test_nothing_is_overdue_at_first(shop: Workshop, capsys: pytest.CaptureFixture[str]):
    assert stuck(capsys) == (0, {"overdue": 0, "items": []})
    call_command("stuck")
    assert capsys.readouterr().out == "Nothing is overdue by more than 60 s.\n"


def test_a_reading_says_whether_nobody_took_it_a_worker_died_at_it_or_its_system_is_away(
    shop: Workshop, capsys: pytest.CaptureFixture[str]
):
    action_id = pending(shop)
    put_off(shop, "-1 hour")
    code, told = stuck(capsys)
    assert (code, of_kind(told, "reading")) == (1, [(action_id, "No worker has taken it.")])
    assert told["items"][0]["tenant"] == "orchid"
    assert 3500 < told["items"][0]["overdue_s"] < 3700
    execute("UPDATE reviews_schedule SET claim = gen_random_uuid(), claimed_until = now() - interval '1 minute'")
    assert of_kind(stuck(capsys)[1], "reading") == [(action_id, "A worker took it and did not finish.")]
    execute("UPDATE reviews_lane SET held_until = now() + interval '1 minute'")
    assert of_kind(stuck(capsys)[1], "reading")[0][1].startswith("Its system does not answer and is not asked before ")


def test_a_reading_that_a_worker_is_at_is_not_overdue_and_is_not_had_again(
    shop: Workshop, capsys: pytest.CaptureFixture[str]
):
    action_id = pending(shop)
    put_off(shop, "-1 hour")
    execute("UPDATE reviews_schedule SET claim = gen_random_uuid(), claimed_until = now() + interval '1 minute'")
    assert stuck(capsys)[1]["overdue"] == 0
    call_command("requeue", "orchid", action_id)
    assert "0 of 1 are due now." in capsys.readouterr().out


def test_leases_and_deadlines_are_listed_with_the_step_that_failed_and_are_never_brought_forward(
    shop: Workshop, capsys: pytest.CaptureFixture[str]
):
    started = shop.started()
    action_id = started["action_id"]
    execute("UPDATE approvals_due SET due_at = now() - interval '1 hour' WHERE what = 'lease'")
    ledger.record_failed_step(
        tenant_id=shop.tenant,
        subject_id=UUID(action_id),
        step="end what was due",
        problem=ValueError("x"),
        at=timezone.now(),
    )
    assert of_kind(stuck(capsys)[1], "lease") == [
        (
            action_id,
            "The lease has run out, and no worker has ended the execution. The last try to end what was due failed:"
            " ValueError",
        )
    ]
    execute("UPDATE approvals_due SET due_at = now() + interval '1 hour' WHERE what = 'lease'")
    call_command("requeue", "orchid", action_id)
    [(later,)] = execute("SELECT due_at > now() FROM approvals_due WHERE what = 'lease'")
    assert later is True


def test_a_reading_that_waits_is_had_now_and_its_outcome_is_what_the_target_shows(
    shop: Workshop, capsys: pytest.CaptureFixture[str]
):
    action_id = pending(shop)
    put_off(shop, "1 hour")
    before = shop.history(action_id)
    call_command("requeue", "orchid", action_id)
    assert "1 of 1 are due now." in capsys.readouterr().out
    assert execute("SELECT due_at <= now() + interval '1 second' FROM reviews_schedule") == [(True,)]
    assert shop.history(action_id) == before


def test_everything_that_is_overdue_is_had_now_by_one_word(shop: Workshop, capsys: pytest.CaptureFixture[str]):
    pending(shop)
    put_off(shop, "-1 hour")
    execute("UPDATE reviews_schedule SET claim = gen_random_uuid(), claimed_until = now() - interval '1 minute'")
    call_command("requeue", "--all")
    assert "1 of 1 are due now." in capsys.readouterr().out
    assert execute("SELECT claim FROM reviews_schedule") == [(None,)]
    at = timezone.now()
    assert len(queries.overdue_items(due_before=at - timedelta(minutes=1), at=at)) == 1


def test_work_of_a_tenant_that_is_held_for_a_move_waits_and_holds_up_nothing(
    shop: Workshop, capsys: pytest.CaptureFixture[str]
):
    pending(shop)
    shop.propose(path="old/two.md")
    for table in ("reviews_schedule", "approvals_due"):
        put_off(shop, "-1 hour", table=table)
    execute("UPDATE console_answeredwrite SET at = at - interval '9 days'")
    at, kept = timezone.now(), execute("SELECT count(*) FROM console_answeredwrite")
    with frozen_for_a_move(shop):
        assert claimed_batches.claim_batches(at=at, lanes=10) == []
        assert probes.probe_next_system(clock=timezone.now) is False
        assert tasks.lapse() == 0
        prune_answers(before=at - timedelta(days=7))
        assert execute("SELECT count(*) FROM console_answeredwrite") == kept
        assert stuck(capsys) == (0, {"overdue": 0, "items": []})
    assert len(claimed_batches.claim_batches(at=at, lanes=10)) == 1
    prune_answers(before=at - timedelta(days=7))
    assert execute("SELECT count(*) FROM console_answeredwrite") == [(0,)]


@contextmanager
def frozen_for_a_move(shop: Workshop) -> Iterator[None]:
    """Hold the tenant as a move does, from the directory."""
    change = "UPDATE ledger_tenant SET moving = $2 WHERE id = $1"
    with as_sequencer():
        execute(change, shop.tenant, "frozen")
    yield
    with as_sequencer():
        execute(change, shop.tenant, "")


@pytest.mark.parametrize("words", [[], ["orchid"], ["orchid", "--all"]])
def test_what_is_to_be_had_again_must_be_named(shop: Workshop, words: list[str]):
    with pytest.raises(CommandError, match="Name a tenant and ids as `stuck` lists them, or --all"):
        call_command("requeue", *words)


def test_the_status_has_the_checks_and_the_figures_of_one_look(shop: Workshop, capsys: pytest.CaptureFixture[str]):
    shop.started()
    with pytest.raises(SystemExit) as end:
        call_command("status", "--json")
    told = json.loads(capsys.readouterr().out)
    assert end.value.code == 1
    assert {"code": "DATABASE", "state": "ok", "detail": "It answers.", "see": "docs/runbooks.md#database"} in told[
        "checks"
    ]
    assert {"figure": "executions_running", "of": "", "value": 1} in told["figures"]
    with pytest.raises(SystemExit):
        call_command("status")
    out = capsys.readouterr().out
    assert "ok         DATABASE       It answers.\n" in out
    assert "           1  executions running\n" in out
