"""Exports on the Audit page: asked for, watched, fetched once they are ready; who did what stays on record."""

from __future__ import annotations

import io
import zipfile

import pytest

from console import tasks
from ledger.verify_bundle import Verdict
from tests.support import exported
from tests.support.browser_users import visitor, words
from tests.support.seals import seal_up


@pytest.fixture
def auditor(stage, settings, tmp_path):
    settings.COUNTERFOIL_EXPORTS = tmp_path / "exports"
    return visitor(stage, "compliance")


def made():
    seal_up()
    while tasks.work_exports():
        seal_up()


@pytest.mark.req("R-UI-14", "R-HO-12")
def test_a_bundle_is_requested_made_and_downloaded_with_every_step_recorded(stage, auditor):
    action_id = stage.done()
    seal_up()
    assert "No exports yet" in auditor.page("audit/exports")
    auditor.post("audit/exports/start", action=str(action_id), format="jsonl", payloads="on")
    said = words(auditor.page("audit/exports"))
    assert f"action {action_id}; with payloads and evidence; JSON lines" in said
    assert "In progress" in said
    made()
    tasks.tell_people()
    assert "Your export is ready requested" in words(auditor.page("notices"))
    page = auditor.page("audit/exports")
    assert "Ready" in words(page)
    path = page.split('/bundle"')[0].rsplit("/t/orchid/", 1)[1] + "/bundle"
    answer = auditor.get(path)
    data = b"".join(answer.streaming_content)
    assert zipfile.ZipFile(io.BytesIO(data)).testzip() is None
    name = answer["Content-Disposition"].split('"')[1]
    assert name.startswith(f"orchid-action-{action_id}-asked-2")
    policy = auditor.get("ledger/verifier-policy")
    assert policy["Content-Disposition"] == 'attachment; filename="orchid-verifier-policy.txt"'
    assert exported.judged(data, policy.content).worst is Verdict.VERIFIED
    assert "downloaded by Compliance" in words(auditor.page("audit/exports"))
    for kind in ("export_requested", "export_fetched"):
        assert auditor.page("audit", kind=kind).count("<tr data-item") == 1


def test_an_export_of_a_month_names_its_bounds_in_words_with_their_zone(auditor):
    auditor.post("audit/exports/start", since="2026-11-01", until="2026-11-30", format="jsonl", payloads="on")
    said = words(auditor.page("audit/exports"))
    assert "from 2026-11-01 00:00 UTC, until 2026-12-01 00:00 UTC; with payloads and evidence; JSON lines" in said


def test_a_narrative_links_to_the_export_of_its_action(stage, auditor):
    action_id = stage.done()
    seal_up()
    link = f"/t/orchid/audit/exports?action={action_id}"
    assert link in auditor.page(f"actions/{action_id}/narrative")
    assert f'value="{action_id}"' in auditor.client.get(link).content.decode()
    assert link not in visitor(stage, "reviewer").page(f"actions/{action_id}/narrative")


def test_only_compliance_can_request_and_download_exports(stage, auditor):
    stage.propose()
    administrator = visitor(stage, "administrator")
    assert "Create export" not in administrator.page("audit/exports")
    assert administrator.post("audit/exports/start", format="jsonl").status_code == 403
    for role in ("reviewer", "operator"):
        assert visitor(stage, role).get("audit/exports").status_code == 403


def test_a_meaningless_request_is_refused_with_a_message(stage, auditor):
    answer = auditor.post("audit/exports/start", action="rubbish", format="jsonl")
    assert answer.status_code == 422
    assert "This names no action." in words(answer.content.decode())
    assert "No exports yet" in auditor.page("audit/exports")
