"""How long an imported recording is kept: the retention policy runs it out, a hold keeps it, both are on record."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

import pytest
from django.core.management import call_command

from console import tasks
from console.models import RecordedMessage, RecordedWord
from ledger.db import tenancy
from ledger.record.queries import events
from tests.support.api_tenant import PASSWORD
from tests.support.browser_users import Visitor, words
from tests.support.erasing import erase_here
from tests.transcripts.imports import keep


@pytest.fixture
def carol(shop):
    return shop.person("compliance", name="carol@orchid")


@pytest.fixture
def dora(shop):
    return shop.person("compliance", name="dora@orchid")


@pytest.fixture
def old(shop, clock):
    """A recording that was imported four hundred days ago."""
    clock.forward(days=-400)
    kept = keep(shop.slug)
    clock.forward(days=400)
    return kept


@pytest.fixture
def reader(shop):
    return Visitor(shop.person("compliance", name="reader@orchid").client, shop.slug)


def agree(carol, dora, **policy):
    proposed = carol.post("/retention", policy).json()["retention_id"]
    assert dora.post(f"/retention/{proposed}/confirm", {"password": PASSWORD}).json()["state"] == "ACTIVE"
    return proposed


def texts(shop):
    with tenancy(shop.tenant):
        said = RecordedMessage.objects.filter(tenant_id=shop.tenant).values_list("text", flat=True)
        found = RecordedWord.objects.filter(tenant_id=shop.tenant).values_list("word", flat=True)
        return [*said, *found]


@pytest.mark.req("R-LE-21")
def test_a_standing_policy_erases_an_expired_recording_and_keeps_a_younger_one(shop, old, carol, dora, reader, run):
    young = keep(shop.slug, [{"role": "user", "content": "I am young."}])
    assert tasks.retain() == 0
    policy = agree(carol, dora, standing=True)
    assert (tasks.retain(), tasks.retain()) == (1, 0)

    [row] = carol.get("/erasures").json()["items"]
    assert (row["state"], row["retention_id"], row["confirmed_by"]) == ("CONFIRMED", policy, None)
    assert erase_here(run, shop.tenant, UUID(row["erasure_id"])) == 1
    assert {each for each in texts(shop) if each} == {"I am young.", "i", "am", "young", *labels()}
    assert carol.get(f"/recordings/{old}").json()["code"] == "ERASED"
    assert carol.get(f"/recordings/{young}").status_code == 200
    gone = reader.get(f"recordings/{old}")
    assert gone.status_code == 410
    assert "The retention policy in force" in words(gone.content.decode())
    with tenancy(shop.tenant):
        told = [event.kind for event, _, _ in events.history(shop.tenant, UUID(row["erasure_id"]))]
    assert told == ["erasure_requested", "erasure_confirmed", "erased", "erasure_done"]
    call_command("verify_ledger", verbosity=0)


def labels():
    return {"talk-1", "talk", "1"}


def test_the_eraser_checks_the_age_of_a_recording_itself(shop, carol, dora, clock, run):
    keep(shop.slug)
    agree(carol, dora, standing=True)
    clock.forward(days=400)
    assert tasks.retain() == 1
    clock.forward(days=-400)
    [row] = carol.get("/erasures").json()["items"]
    assert erase_here(run, shop.tenant, UUID(row["erasure_id"])) == 0
    assert any(texts(shop))


@pytest.mark.req("R-LE-21")
@pytest.mark.parametrize("late", [False, True], ids=["before it is asked for", "before it is erased"])
@pytest.mark.parametrize("scope", ["recording", "all"])
def test_a_hold_keeps_an_expired_recording(shop, old, carol, dora, run, scope, late):
    def asked():
        return tasks.retain(), [each["erasure_id"] for each in carol.get("/erasures").json()["items"]]

    agree(carol, dora, standing=True)
    waiting = asked()[1] if late else []
    hold = {"scope": scope, "value": old if scope == "recording" else "", "reason": "A dispute."}
    held = carol.post("/holds", hold).json()["hold_id"]
    assert carol.get(f"/recordings/{old}").json()["retention"]["holds"] == [held]
    if late:
        assert erase_here(run, shop.tenant, UUID(waiting[0])) == 0
        assert carol.get(f"/erasures/{waiting[0]}").json()["state"] == "REFUSED"
    else:
        assert asked() == (0, [])
    assert any(texts(shop))

    carol.post(f"/holds/{held}/lift", {"reason": "Settled."})
    made, known = asked()
    assert (made, len(known)) == (1, len(waiting) + 1)
    assert erase_here(run, shop.tenant, UUID(known[0])) == 1
    assert not any(texts(shop))


def test_a_hold_on_another_recording_has_no_effect(shop, old, carol, dora):
    agree(carol, dora, standing=True)
    other = keep(shop.slug, [{"role": "user", "content": "Another one."}])
    carol.post("/holds", {"scope": "recording", "value": other, "reason": "A dispute."})
    assert tasks.retain() == 1
    assert carol.post("/holds", {"scope": "recording", "reason": "A dispute."}).status_code == 422


def test_the_page_and_the_api_show_how_long_a_recording_is_kept_and_what_follows(shop, old, carol, dora, reader):
    def page():
        return words(reader.page(f"recordings/{old}"))

    told = carol.get(f"/recordings/{old}").json()
    assert (told["retention"]["payload_days"], told["retention"]["standing"]) == (395, False)
    until = datetime.fromisoformat(told["retention"]["kept_until"])
    assert until - datetime.fromisoformat(told["imported_at"]) == timedelta(days=395)
    assert "Retention expired on" in page()
    assert "another person confirms" in page()
    assert "retention expired" in words(reader.page("recordings"))

    agree(carol, dora, standing=True, payload_days=500)
    assert "then its texts are erased under the retention policy" in page()
    assert "retention expired" not in words(reader.page("recordings"))
    agree(carol, dora, standing=True)
    assert "The retention policy erases it." in page()
    assert reader.post("audit/holds/place", scope="recording", value=old, reason="A court asked.").status_code == 302
    assert "On hold." in page()
    assert f'href="/t/{shop.slug}/recordings/{old}"' in reader.page("audit/holds")
    assert "once no hold covers it" in page()
    assert tasks.retain() == 0


def test_only_compliance_sees_the_link_to_place_a_hold(shop, old):
    page = Visitor(shop.person("reviewer", name="r@orchid").client, shop.slug).page(f"recordings/{old}")
    assert '<h2 id="kept">Retention</h2>' in page
    assert "Place hold" not in page
