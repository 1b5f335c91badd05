"""The requests to described systems: where they go, what they carry, and what is never made part of one."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from urllib.parse import parse_qsl, urlsplit

import pytest

from reviews.checks import described
from reviews.checks.catalogue import check_for
from reviews.checks.interface import CheckFailed, SystemAccess
from reviews.systems.descriptions import shipped_descriptions
from tests.support.outside.described_systems import served


def look(fake, part, *, settings=None, credential=None, scope=None, **arguments):
    given = {"url": fake.url, **fake.data.get("settings", {}), **(settings or {})}
    access = {"url": fake.url, **fake.data["credential"], **(credential or {})}
    return check_for(fake.name).read(
        system=SystemAccess("shop", fake.name, given, access, shipped_descriptions()[fake.name].digest),
        verification={"lookup": {"effects": {"it": part}}},
        bindings={"sr": fake.data["arguments"] | {"key": "K-7"} | arguments, "scope": scope or {}},
        at=datetime.now(UTC),
        timeout_s=10,
    )


def refused(fake, part, **more):
    with pytest.raises(CheckFailed) as failed:
        look(fake, part, **more)
    return failed.value


@pytest.mark.parametrize("name", ["stripe_refunds", "shopify_refunds", "paypal_refunds", "zendesk_tickets"])
def test_no_secret_leaves_this_machine_without_tls(name):
    with served(name) as fake:
        fake.url = "http://shop.example.org"
        told = refused(fake, fake.data["by_id"], id="1")
    assert (told.reason, told.retryable) == (
        "shop.example.org is asked without TLS, so no secret is sent to it.",
        False,
    )
    assert fake.asked == []


@pytest.mark.parametrize("name", ["stripe_refunds", "shopify_refunds", "paypal_refunds", "zendesk_tickets"])
def test_a_credential_without_its_secret_is_told(name):
    with served(name) as fake:
        missing = dict.fromkeys(fake.data["credential"], "")
        told = refused(fake, fake.data["by_id"], id="1", credential=missing)
        assert told.reason.startswith("The credential for the system shop has no `")
        assert fake.asked == []


@pytest.mark.parametrize("value", ['ED" OR project = "HR', "ED^state=1", "two words", "", "ED%22"])
@pytest.mark.parametrize(("name", "parameter"), [("jira_issues", "project"), ("servicenow_incidents", "caller")])
def test_a_value_that_is_no_word_is_never_made_part_of_a_query(name, parameter, value):
    with served(name) as fake:
        told = refused(fake, fake.data["by_match"], **{parameter: value})
        assert not told.retryable
        assert fake.asked == []


@pytest.mark.parametrize("value", ["a/../b", "..", "x?limit=0", "x#y", "é z"])
def test_a_value_stays_one_segment_of_a_path(value):
    with served("zendesk_tickets") as fake:
        with suppress(CheckFailed):
            look(fake, fake.data["by_id"], id=value)
        for _, path in fake.asked:
            assert urlsplit(path).path.count("/") == 4
            assert urlsplit(path).query == ""


@pytest.mark.parametrize(
    "address", ["https://elsewhere.example/admin/x", "//elsewhere.example/x", "http://127.0.0.1:1/admin/x"]
)
def test_a_link_to_another_host_is_not_followed(address):
    with served("twilio_messages") as fake:
        fake.data["list"]["next_page_uri"] = address
        told = refused(fake, fake.data["by_match"])
    assert told.reason == f"{address!r} leads away from this system."
    assert not told.retryable
    assert len(fake.asked) == 1


def test_an_access_token_is_used_until_it_ends_and_fetched_again_after_it_was_refused(monkeypatch):
    with served("paypal_refunds") as fake:
        fake.add("K-7")

        def tokens():
            return sum(path == "/v1/oauth2/token" for _, path in fake.asked)

        for _ in range(3):
            assert look(fake, fake.data["by_match"]).effects[0].present
        assert tokens() == 1
        fake.data["signed"], known = {"authorization": "Bearer another"}, fake.data["signed"]
        assert refused(fake, fake.data["by_match"]).retryable
        fake.data["signed"] = known
        assert look(fake, fake.data["by_match"]).effects[0].present
        assert tokens() == 2
        ahead = described.time.monotonic() + 31_668
        monkeypatch.setattr(described.time, "monotonic", lambda: ahead)
        key = next(reversed(described._TOKENS))
        assert described._TOKENS[key][1] < ahead


@pytest.mark.parametrize("answer", ["{}", '{"access_token": ""}', '{"access_token": 7}', "[]", "<html>"])
def test_an_answer_without_an_access_token_is_no_reading(answer):
    with served("salesforce_cases") as fake:
        fake.data["token"]["path"], path = "/elsewhere", fake.data["token"]["path"]
        fake.fail(200, answer)
        assert refused(fake, fake.data["by_id"], id="1").retryable
        assert [each for _, each in fake.asked] == [path]


def test_the_time_of_the_execution_narrows_a_list_that_can_be_narrowed():
    with served("freshdesk_tickets") as fake:
        look(fake, fake.data["by_match"], scope={"executed_at": "2026-03-02T09:00:00Z"})
        look(fake, fake.data["by_match"])
        asked = [dict(parse_qsl(urlsplit(path).query)) for _, path in fake.asked]
    assert [each.get("updated_since") for each in asked] == ["2026-03-02T08:55:00Z", None]


def test_a_state_that_the_installation_has_added_counts_as_there():
    with served("freshdesk_tickets") as fake:
        fake.add("K-7", **{"/status": 6})
        assert look(fake, fake.data["by_match"]).effects[0].present is None
        effect = look(fake, fake.data["by_match"], settings={"other_states": ["6"]}).effects[0]
        assert (effect.present, effect.fields["state_kind"]) == (True, "other")
        fake.objects.clear()
        fake.add("K-7", **{"/status": 5})
        shown = look(fake, fake.data["by_match"], settings={"other_states": ["5"]}).effects[0]
        assert shown.fields["state_kind"] == "terminal"


@pytest.mark.parametrize(("known", "exists"), [("ch_1NirD82eZvKYlo2CIvbtLWuY", True), ("ch_another", False)])
def test_the_target_is_read_with_its_operations(known, exists):
    with served("stripe_refunds") as fake:
        fake.data["known_target"] = known
        assert look(fake, fake.data["by_match"]).target == {"exists": exists, "count": int(exists)}
        assert look(fake, fake.data["by_id"], id="re_1").target is None


def test_an_object_that_answers_under_another_id_is_no_reading():
    with served("zendesk_tickets") as fake:
        made = fake.add("K-7")
        fake.fail(200, '{"ticket": {"id": 1, "status": "open"}}')
        assert refused(fake, fake.data["by_id"], id=str(made["id"])).reason.endswith("answered with another ticket.")


def test_evidence_keeps_the_described_fields_and_no_others():
    with served("zendesk_tickets") as fake:
        fake.add("K-7")
        (kept,) = look(fake, fake.data["by_match"]).raw["it"]["objects"]
    assert kept["subject"] == "Help, my printer is on fire!"
    assert not kept.keys() & {"description", "satisfaction_rating", "custom_fields"}
