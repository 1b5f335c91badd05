"""Ledger: what the header says of the seal, checkpoints and proofs, what is not anchored, and alarms."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from approvals.execution import queries as execution_queries
from ledger.db import tenancy
from ledger.log.operations import sequencer
from tests.support.browser_users import visitor, words
from tests.support.seals import as_sequencer, seal_up


def head(stage):
    from ledger.log.queries import log

    with tenancy(stage.tenant):
        return log.current_log(stage.tenant)


def test_without_a_log_the_page_says_so(stage):
    said = words(visitor(stage, "reviewer").page("ledger"))
    assert "No log has been opened yet" in said
    assert "unsequenced" in said
    assert "no checkpoint" in words(visitor(stage, "reviewer").page())


@pytest.mark.req("R-UI-13")
def test_the_page_shows_the_signed_checkpoint_and_the_key(stage):
    stage.done()
    seal_up()
    page = visitor(stage, "reviewer").page("ledger")
    newest = head(stage)
    assert newest.note.decode() in page.replace("&#x27;", "'")
    assert f"{newest.origin}+" in page
    said = words(page)
    assert f"Entries {newest.size} Signed {newest.size} Unsequenced 0" in said
    assert "last checkpoint" in words(visitor(stage, "reviewer").page())


def test_a_log_without_witnesses_is_never_called_anchored(stage):
    """L21: without a witness the page says that it is not anchored; there is no green."""
    stage.done()
    seal_up()
    page = visitor(stage, "compliance").page("ledger")
    assert "Not anchored. No external witness has signed or timestamped a checkpoint" in words(page)
    anchors = page.split('data-part="anchors"')[1].split("</section>")[0]
    assert 'data-kind="unknown"' in anchors
    assert 'data-outcome="true"' not in anchors


def test_entries_after_the_newest_anchor_are_counted(stage):
    from ledger.models import Anchor
    from ledger.record.operations import new_id

    stage.propose()
    seal_up()
    at, size = datetime.now(UTC), head(stage).size
    with tenancy(stage.tenant):
        Anchor.objects.create(
            tenant_id=stage.tenant, id=new_id(at), log=1, size=size, kind="witness", name="witness.example/1",
            evidence=b"line", at=at,
        )  # fmt: skip
    stage.propose()
    seal_up()
    said = words(visitor(stage, "compliance").page("ledger"))
    after = head(stage).size - size
    assert f"witness.example/1: up to {size}" in said
    assert f"{after} entries after that are not anchored" in said


def test_one_witness_of_a_quorum_of_two_does_not_suffice(stage, settings, tmp_path):
    """L21: the page says not anchored, and who does not answer, however much the other one signed."""
    from counterfoil_tlog import notes, witness_policy
    from ledger.models import Anchor, AnchorSchedule
    from ledger.record.operations import new_id
    from tests.support.outside.witnesses import SomeLog

    keys = {
        name: notes.vkey(f"{name}.example", SomeLog().key.public_key(), notes.COSIGNATURE) for name in ("one", "two")
    }
    lines = "".join(f"witness {name} {key} http://127.0.0.1:1\n" for name, key in keys.items())
    settings.COUNTERFOIL_WITNESSES = witness_policy.read(f"{lines}group both all one two\nquorum both\n".encode())
    stage.done()
    seal_up()
    at, size = datetime.now(UTC), head(stage).size
    wrong = {"two": {"since": (at - timedelta(hours=2)).isoformat(), "text": "No answer: ConnectError."}}
    with tenancy(stage.tenant):
        for name in ("one", "two"):
            if name == "two":
                alone = visitor(stage, "compliance").page("ledger")
            Anchor.objects.create(
                tenant_id=stage.tenant, id=new_id(at), log=1, size=size, kind="witness", name=name, evidence=b"line",
                at=at,
            )  # fmt: skip
            AnchorSchedule.objects.update_or_create(
                tenant_id=stage.tenant, log=1, kind="witness", defaults={"due_at": at, "faults": wrong}
            )
            wrong = {}
    said = words(alone)
    assert f"one: up to {size}" in said
    assert "Not anchored. No checkpoint of this log has been signed by as many witnesses" in said
    assert "two has not vouched for this log for 2 h" in said
    assert "No answer: ConnectError." in said
    assert "none</span>" in alone.split('data-part="standing"')[1].split("</dl>")[0]
    both = words(visitor(stage, "compliance").page("ledger"))
    assert f"External witnesses up to {size}" in both
    assert "has not vouched" not in both


# Proofs


@pytest.mark.req("R-LE-02")
def test_an_entry_is_proved_by_index_hash_or_address(stage):
    from ledger.log.queries import proofs
    from ledger.record.queries import events

    action_id = stage.done()
    seal_up()
    reader = visitor(stage, "reviewer")
    with tenancy(stage.tenant):
        found = proofs.leaf_at(stage.tenant, 1, 7)
        event = events.event(stage.tenant, action_id, 1)
    for asked in ("7", found.hash.hex(), f"http://console.test/t/orchid/events/{found.subject_id}/{found.seq}"):
        page = reader.page("ledger", entry=asked)
        assert 'data-holds="yes"' in page, asked
        assert "Entry 7:" in words(page)
    assert "Entry" in words(reader.page("ledger", entry=bytes(event.entry_hash).hex()))
    for nothing in ("999999", "0" * 64, "rubbish", f"events/{action_id}/99"):
        assert "This log has no entry with this index." in words(reader.page("ledger", entry=nothing)), nothing


@pytest.mark.req("R-LE-02")
def test_the_page_proves_that_one_checkpoint_continues_another(stage):
    stage.propose()
    seal_up()
    old = head(stage).size
    stage.done()
    seal_up()
    reader = visitor(stage, "reviewer")
    page = reader.page("ledger", **{"from": str(old)})
    assert 'data-holds="yes"' in page
    assert f"begins with those {old}." in words(page)
    assert "No checkpoint of that size was kept" in words(reader.page("ledger", **{"from": str(old - 1)}))
    assert "Sizes are between" in words(reader.page("ledger", **{"from": "99999"}))
    assert "A size is a number" in words(reader.page("ledger", **{"from": "-1"}))


def test_a_changed_event_has_no_valid_proof(stage, monkeypatch):
    from ledger.log.queries import log
    from ledger.record.queries import events

    action_id = stage.propose()
    seal_up()
    real = events.event_with_detail

    def changed(*asked):
        row, entry, detail = real(*asked)
        row.entry_hash = b"\x00" * 32
        return row, entry, detail

    monkeypatch.setattr(events, "event_with_detail", changed)
    with tenancy(stage.tenant):
        place = log.event_position(stage.tenant, action_id, 1)
    page = visitor(stage, "compliance").page("ledger", entry=str(place.index))
    assert 'data-holds="no"' in page
    assert "Invalid." in words(page)


def test_a_browser_gets_everything_needed_to_verify_an_event(stage):
    """The answer is checked here with the rules alone: nothing of it is trusted but the key."""
    from counterfoil_tlog import checkpoint, notes
    from counterfoil_tlog.merkle import leaf_hash, verify_inclusion

    action_id = stage.propose()
    reader = visitor(stage, "reviewer")
    unsealed = reader.get(f"events/{action_id}/1/proof")
    assert (unsealed.status_code, unsealed.json()["code"]) == (409, "NOT_SIGNED")
    seal_up()
    told = reader.get(f"events/{action_id}/1/proof").json()
    note = notes.parse(told["checkpoint"].encode())
    notes.verify_signatures(note, [notes.read_vkey(key) for key in told["keys"]])
    point = checkpoint.parse(note.text)
    verify_inclusion(
        leaf=leaf_hash(told["envelope"].encode()),
        index=told["index"],
        size=point.size,
        proof=[bytes.fromhex(each) for each in told["hashes"]],
        root=point.root,
    )
    page = reader.page(f"actions/{action_id}")
    assert f'data-proof="/t/orchid/events/{action_id}/' in page
    assert re.search(r"In the log no\. \d+", words(page))
    assert reader.get("ledger/1/growth/1/2").json()["hashes"]
    assert reader.get("ledger/1/growth/1/999999").status_code == 404
    assert reader.get("ledger/9/growth/1/2").status_code == 404


# The header


def test_the_header_shows_how_long_nothing_was_sealed(stage, monkeypatch):
    from console.ledger import log_status
    from ledger.log.queries import log

    stage.propose()
    seal_up()
    at = datetime.now(UTC)
    assert 'class="seal" href' in visitor(stage, "reviewer").page()
    monkeypatch.setattr(log.LogStanding, "lag", log.Lag(waiting=7, oldest_s=40.0, unsigned_s=None))
    page = visitor(stage, "reviewer").page()
    assert 'class="seal" data-wrong' in page
    assert "log signed up to 40 s ago" in words(page)
    monkeypatch.setattr(log.LogStanding, "lag", log.Lag(waiting=0, oldest_s=None, unsigned_s=None))
    with tenancy(stage.tenant):
        assert not log_status.log_status(stage.tenant, at=at).is_wrong
        silent = log_status.log_status(stage.tenant, at=at + timedelta(minutes=3))
    assert silent.is_wrong
    assert "has not reported since then" in silent.why


# Alarms


def raised(stage, kind="LOG_DAMAGED"):
    from ledger.log.operations import logs
    from ledger.log.queries import log

    at = datetime.now(UTC)
    logs.raise_alarm(tenant_id=stage.tenant, kind=kind, detail="Event 3 has another hash.", at=at)
    with tenancy(stage.tenant):
        return log.alarms(stage.tenant)[0].id


@pytest.mark.req("R-LE-02")
def test_a_tamper_alarm_comes_first_on_every_page(stage):
    stage.propose()
    seal_up()
    assert "Tamper alarm" not in visitor(stage, "reviewer").page()
    raised(stage)
    for role in ("reviewer", "operator", "compliance", "administrator"):
        for path in ("", "actions", "ledger"):
            page = visitor(stage, role).page(path)
            body = page.split('<main id="main"')[1]
            assert words(body).index("Tamper alarm: Stored data differs from what was recorded.") < 60
    assert "Event 3 has another hash." in words(visitor(stage, "reviewer").page("ledger"))


@pytest.mark.req("R-LE-21")
def test_an_alarm_is_resolved_with_a_finding(stage):
    from ledger.record.queries import events

    stage.propose()
    seal_up()
    alarm = raised(stage)
    path = f"ledger/alarms/{alarm}/acknowledge"
    assert visitor(stage, "operator").post(path, reason="It is fine.").status_code == 403
    auditor = visitor(stage, "compliance")
    auditor.post(path, reason="")
    assert "Tamper alarm" in auditor.page()
    auditor.post(path, reason="A disk was changed; restored from the backup of Monday.")
    assert "Tamper alarm" not in auditor.page()
    assert "Resolved Stored data differs from what was recorded" in words(auditor.page("ledger"))
    with tenancy(stage.tenant):
        event, _, detail = events.history(stage.tenant, head(stage).id)[-1]
    assert (event.kind, event.actor_id) == ("alarm_acknowledged", stage.person("compliance").actor_id)
    assert detail["reason"] == "A disk was changed; restored from the backup of Monday."
    assert auditor.post(path, reason="Again.").status_code == 404


# Integrity checks


@pytest.mark.req("R-LE-02", "R-LE-21")
def test_an_integrity_check_is_started_from_the_page(stage):
    from console import tasks

    stage.done()
    seal_up()
    auditor = visitor(stage, "compliance")
    assert "Run integrity check" in auditor.page("ledger")
    assert "Run integrity check" not in visitor(stage, "reviewer").page("ledger")
    assert visitor(stage, "operator").post("ledger/checks").status_code == 403
    auditor.post("ledger/checks")
    page = auditor.page("ledger")
    assert "Under way, started by Compliance" in words(page)
    assert "<progress" in page
    assert auditor.post("ledger/checks").status_code == 409
    turn = page.split("/checks/")[1].split("/turn")[0]
    auditor.post(f"ledger/checks/{turn}/turn", to="pause")
    assert "Resume" in auditor.page("ledger")
    assert tasks.check_integrity() == 0
    auditor.post(f"ledger/checks/{turn}/turn", to="resume")
    assert auditor.post(f"ledger/checks/{turn}/turn", to="elsewhere").status_code == 404
    seal_up()
    assert tasks.check_integrity() > 1
    said = words(auditor.page("ledger"))
    assert "Everything holds" in said
    assert re.search(r"\d+ subjects, \d+ events, \d+ pieces of evidence, \d+ leaves", said)


def test_the_page_explains_why_nothing_starts_and_lets_an_operator_allow_some_tools(stage):
    stage.done()
    seal_up()
    operator = visitor(stage, "operator")
    assert 'data-part="starts"' not in operator.page("ledger")
    with as_sequencer():
        sequencer.stop_log(tenant_id=stage.tenant, code="HISTORY_FORKED")
    page = operator.page("ledger")
    assert "Nothing starts on this record" in words(page)
    assert "The log of this record is stopped (HISTORY_FORKED), so nothing starts. LOG_STOPPED" in words(page)
    assert "Let them start" not in visitor(stage, "reviewer").page("ledger")
    wish = {"tools": "issue_refund", "minutes": "30", "reason": "Customers wait."}
    assert visitor(stage, "reviewer").post("ledger/overrides", **wish).status_code == 403
    operator.post("ledger/overrides", **wish | {"reason": ""})
    assert "name the tools, how long, and why" in words(operator.page("ledger"))
    operator.post("ledger/overrides", **wish)
    allowed = words(operator.page("ledger"))
    assert "Actions of issue_refund start until the allowance ends" in allowed
    assert "Allowed issue_refund Customers wait. Ends" in allowed
    [override] = overrides_in_force(stage)
    operator.post(f"ledger/overrides/{override.id}/end", reason="No more.")
    ended = words(operator.page("ledger"))
    assert "Nothing of these tools starts on this record any more" in ended
    assert overrides_in_force(stage) == []


def overrides_in_force(stage):
    with tenancy(stage.tenant):
        return execution_queries.overrides_in_force(stage.tenant, at=datetime.now(UTC))
