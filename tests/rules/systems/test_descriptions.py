"""Descriptions of systems: what is valid, and what each that comes with the product is."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from reviews.systems.rules.description import BadDescription, parse_description
from reviews.systems.rules.formatting import format_description

FOLDER = Path(__file__).parents[3] / "reviews" / "systems"
FILES = sorted(FOLDER.glob("*.json"))
STRIPE = json.loads((FOLDER / "stripe_refunds.json").read_text())


def faults(document):
    with pytest.raises(BadDescription) as bad:
        parse_description(document)
    return {each["path"]: each["detail"] for each in bad.value.errors}


def changed(path, value):
    document = copy.deepcopy(STRIPE)
    *steps, last = path.split("/")[1:]
    found = document
    for step in steps:
        found = found[step]
    if value is None:
        del found[last]
    else:
        found[last] = value
    return document


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_shipped_description_is_valid_short_and_written_in_the_one_form(file):
    text = file.read_text()
    assert parse_description(json.loads(text)).name == file.stem
    assert len(text.splitlines()) <= 60
    assert text == format_description(json.loads(text)) + "\n"


def test_a_fault_of_the_shape_is_told_with_its_place():
    for path, value in {
        "/name": "Stripe",
        "/address": "http://api.stripe.com",
        "/authentication": {"by": "cookie"},
        "/gets/one/absent": {"status": 404},
        "/gets/list/paging": {"by": "luck"},
        "/fields/exists": "/exists",
        "/states/finished": ["succeeded"],
        "/cannot_prove": [],
        "/freshness/consistency": "PRIMARY",
    }.items():
        found = faults(changed(path, value))
        assert any(each.startswith(path.rpartition("/")[0] or "/") for each in found), (path, found)


@pytest.mark.parametrize(
    ("path", "value", "place", "says"),
    [
        ("/states/failed", ["pending"], "/states", "/states: `pending` is listed more than once."),
        ("/indicators/differs", "bounced", "/indicators/differs", "is no indicator of PARTIAL_APPLICATION"),
        ("/indicators/duplicate", "decline", "/indicators/duplicate", "is no indicator of DUPLICATE_SIDE_EFFECT."),
        ("/indicators/late", None, "/indicators", "what is pending for too long needs an indicator."),
        ("/fields/time", None, "/fields", "`time` is missing: nothing tells since when an object is pending."),
        ("/gets/one/path", "/v1/refunds", "/gets/one/path", "It does not name the object by its {id}."),
        ("/gets/list/path", "/v1/refunds/{id}", "/gets/list", "It names the object by its id"),
        ("/settings", {"account": "Account"}, "/settings/account", "No request uses it."),
        ("/gets/one/path", "/v1/{shop}/{id}", "", ""),
        ("/amount_in", None, "", "amount_in"),
    ],
)
def test_what_a_description_means_is_checked(path, value, place, says):
    document = changed(path, value)
    if not says:
        assert parse_description(document)
        return
    found = faults(document)
    assert place in found
    assert says in found[place]


def test_the_digest_follows_what_a_reading_depends_on_and_no_words():
    one = parse_description(STRIPE)
    for path, value in {"/title": "Refunds", "/cannot_prove": ["Much."], "/limits": {"reads_per_minute": 3}}.items():
        assert parse_description(changed(path, value)).digest == one.digest
    for path, value in {"/fields/id": "/number", "/states/terminal": ["done"], "/gets/list/at": "/refunds"}.items():
        assert parse_description(changed(path, value)).digest != one.digest
