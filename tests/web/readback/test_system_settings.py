"""The settings of a system: one schema for each pattern, which the API checks and the form asks for."""

from __future__ import annotations

import inspect
import json
import re
from html import unescape

import pytest
from jsonschema_rs import Draft202012Validator

from ledger.catalogue import queries as catalogue_queries
from ledger.db import tenancy
from reviews.checks.catalogue import PATTERNS, check_for
from reviews.checks.settings import BadSettings, check_settings, settings_schema
from tests.support.browser_users import visitor, words

READS = re.compile(r'settings(?:\.get\(|\[)"(\w+)"')
BY_FIELD = {
    "name": "journal",
    "pattern": "email",
    "settings/host": "imap.example.org",
    "settings/port": "1993",
    "settings/tls": "starttls",
    "settings/records_everything": "true",
    "settings/mailboxes": "INBOX\r\n\r\n Sent ",
    "settings/limits/concurrency": "2",
}
AS_JSON = {
    "host": "imap.example.org",
    "port": 1993,
    "tls": "starttls",
    "records_everything": True,
    "mailboxes": ["INBOX", "Sent"],
    "limits": {"concurrency": 2},
}


def settings_of(stage, name):
    with tenancy(stage.tenant):
        row = catalogue_queries.system(stage.tenant, name)
    return row and row.settings


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_declares_every_setting_that_its_check_reads(pattern):
    read = set(READS.findall(inspect.getsource(inspect.getmodule(type(check_for(pattern))))))
    assert read <= settings_schema(pattern)["properties"].keys()


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_form_of_a_pattern_has_a_field_with_a_hint_for_every_setting(stage, pattern):
    page = unescape(visitor(stage, "operator").page("systems", pattern=pattern))
    for name, described in settings_schema(pattern)["properties"].items():
        for part in described.get("properties", {"": None}):
            path = f"settings/{name}/{part}".rstrip("/")
            assert re.search(rf'<(?:input|select|textarea)[^>]* name="{path}"', page), path
        assert described["title"] in page
        assert described.get("description", "") in page
    assert "No secret belongs in this form." in page


def test_the_patterns_are_offered_in_words(stage):
    said = words(visitor(stage, "operator").page("systems"))
    assert "Tickets and CRM" in said
    assert "Queues and events" in said
    assert "npm" in said


@pytest.mark.parametrize("pattern", ["procurement", "deployments"])
def test_the_form_says_which_settings_are_required(stage, pattern):
    said = words(visitor(stage, "operator").page("systems", pattern=pattern))
    for name in settings_schema(pattern)["required"]:
        assert f"{settings_schema(pattern)['properties'][name]['title']} required" in said


def test_a_system_is_registered_from_its_fields(stage):
    operator = visitor(stage, "operator")
    assert operator.post("systems/register", **BY_FIELD).status_code == 302
    assert settings_of(stage, "journal") == AS_JSON


def test_a_refusal_stands_beside_its_field_and_keeps_what_was_entered(stage):
    given = BY_FIELD | {"settings/port": "99999", "settings/limits/concurrency": "0"}
    answer = visitor(stage, "operator").post("systems/register", **given)
    page = answer.content.decode()
    assert answer.status_code == 422
    assert re.search(
        r'name="settings/limits/concurrency"[^>]*>.{0,120}<p class="error"[^>]*>concurrency must be a whole number from'
        r" 1 to 64\.",
        page,
        re.DOTALL,
    )
    for kept in ('value="imap.example.org"', 'value="99999"', "INBOX", 'value="journal"'):
        assert kept in page
    assert settings_of(stage, "journal") is None


def test_each_setting_that_does_not_fit_is_named_at_its_field(stage):
    given = BY_FIELD | {"settings/port": "99999"}
    page = words(visitor(stage, "operator").post("systems/register", **given).content.decode())
    assert "port must be a whole number from 1 to 65535." in page
    given = BY_FIELD | {"settings/port": "many"}
    answer = visitor(stage, "operator").post("systems/register", **given)
    assert "Enter a whole number." in words(answer.content.decode())


def test_a_setting_stands_in_its_field_or_in_the_json_and_both_are_put_together(stage):
    operator = visitor(stage, "operator")
    again = operator.post("systems/register", **BY_FIELD, settings='{"port": 1993}')
    assert "This also stands in the settings as JSON." in again.content.decode()
    added = operator.post("systems/register", **BY_FIELD, settings='{"dry_run": "required"}')
    assert added.status_code == 302
    assert settings_of(stage, "journal") == AS_JSON | {"dry_run": "required"}


def test_a_change_begins_with_the_settings_in_force(stage):
    operator = visitor(stage, "operator")
    operator.post("systems/register", **BY_FIELD)
    page = operator.page("systems", change="journal")
    assert "Change journal" in words(page)
    for kept in ('value="1993"', '<option value="starttls" selected>', "INBOX\nSent", 'name="pattern" value="email"'):
        assert kept in page
    assert 'href="?change=journal#register"' in page


@pytest.mark.parametrize(
    ("pattern", "given", "path", "said"),
    [
        ("databases", {"tabels": ["orders"]}, "/settings/tabels", "unknown field `tabels`"),
        ("databases", {"password": "secret"}, "/settings/password", "unknown field `password`"),
        ("databases", {"tables": "orders"}, "/settings/tables", "tables must be a list of names."),
        ("procurement", {"database": "tr"}, "/settings/company", "company must be a text."),
        ("email", {"tls": "yes"}, "/settings/tls", "tls must be one of implicit, starttls, none."),
        ("git", {"consistency": "FRESH"}, "/settings/consistency", "must be one of PRIMARY"),
    ],
)
def test_settings_that_the_check_would_pass_over_are_refused(pattern, given, path, said):
    with pytest.raises(BadSettings) as refusal:
        check_settings(pattern, given)
    assert refusal.value.errors[0]["path"] == path
    assert said in refusal.value.errors[0]["detail"]


def test_the_api_hands_out_the_schema_by_which_it_refuses(shop):
    schema = shop.operator_key.get("/system-patterns/email").json()
    assert schema["credential"]["host"] == "imap.example.org"
    validator = Draft202012Validator(schema["settings"])
    assert validator.is_valid(AS_JSON)
    assert not validator.is_valid({"tls": "yes"})
    body = {"name": "journal", "pattern": "email"}
    refused = shop.operator_key.post("/systems", body | {"settings": {"tls": "yes"}})
    assert (refused.status_code, refused.json()["code"]) == (422, "BAD_SETTINGS")
    assert shop.operator_key.post("/systems", body | {"settings": AS_JSON}).status_code == 201
    assert shop.operator_key.get("/system-patterns/crystal_balls").json()["code"] == "NO_CHECK"


def test_a_check_of_a_package_that_declares_no_settings_takes_any(monkeypatch):
    from reviews.checks import settings as checked
    from reviews.checks.lookups import LookupCheck

    class Flags(LookupCheck):
        pattern = "feature_flags"

        def read(self, **_):
            raise NotImplementedError

    monkeypatch.setattr(checked, "check_for", lambda _: Flags())
    monkeypatch.setattr(checked, "change_log", lambda _: None)
    check_settings("feature_flags", {"url": "https://flags.example.org", "anything": json.loads("[1]")})
    with pytest.raises(BadSettings):
        check_settings("feature_flags", {"dry_run": "never"})
