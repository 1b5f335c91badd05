"""A contract is registered from the page: checked first, each fault beside its line, and nothing typed is lost."""

from __future__ import annotations

import json
from html import unescape
from typing import Any

from django.core.files.uploadedfile import SimpleUploadedFile

from console.contracts.document_places import line_of, line_of_each_part
from console.contracts.registration import SKELETON
from ledger.catalogue import queries
from ledger.db import tenancy
from tests.support.api_tenant import Workshop, contract
from tests.support.browser_users import Visitor, words

TOOL = "delete_document"


def administrator(shop: Workshop) -> Visitor:
    return Visitor(shop.person("administrator").client, shop.slug)


def send(person: Visitor, text: str, **fields: Any) -> Any:
    return person.post("contracts/new", document=text, **fields)


def typed(answer: Any) -> str:
    """What stands in the field for the document."""
    page = answer.content.decode()
    return unescape(page.partition("<textarea")[2].partition(">")[2].partition("</textarea>")[0]).strip("\r\n")


def digest_checked(answer: Any) -> str:
    """What the page sends along to register what it has checked."""
    return str(answer.content.decode().partition('name="checked" value="')[2].partition('"')[0])


def changed(**parts: Any) -> str:
    return json.dumps(json.loads(SKELETON) | parts, indent=2)


def test_a_first_version_is_checked_and_then_registered(shop: Workshop):
    person = administrator(shop)
    assert "Register a contract" in words(person.page("contracts"))
    text = changed(name="shred_document", verification=json.loads(SKELETON)["verification"] | {"system": "vault"})
    checked = send(person, text)
    said = words(checked.content.decode())
    assert "Valid, with 1 finding" in said
    assert "No system `vault` is registered, so nothing that this tool does can be read back." in said
    assert "UNREGISTERED_SYSTEM at /verification/system" in said
    assert typed(checked) == text
    with tenancy(shop.tenant):
        assert queries.contract_version(shop.tenant, "shred_document", "1.0.0") is None
    done = send(person, text, checked=digest_checked(checked))
    assert (done.status_code, done["Location"]) == (302, f"/t/{shop.slug}/contracts/shred_document/1.0.0")
    assert "Registered." in words(person.page("contracts/shred_document/1.0.0"))


def test_a_fault_is_shown_beside_its_line_and_the_typed_text_is_kept(shop: Workshop):
    person = administrator(shop)
    text = SKELETON.replace('"predicates": ["sa.exists"]', '"predicates": ["sa.nothing == 1"]').replace(
        '"operation_kind": "delete",', '"operation_kind": "delete",\n  "colour": "red",'
    )
    answer = send(person, text)
    said = words(answer.content.decode())
    assert answer.status_code == 422
    assert "Not registered: 1 error to correct" in said
    assert "Unknown field: colour. Line 20 UNKNOWN_FIELD at /colour" in said
    assert typed(answer) == text.strip("\n")
    answer = send(person, text.replace('"colour": "red",', ""))
    said, line = words(answer.content.decode()), 26
    assert text.split("\n")[line - 1].strip().startswith('"predicates"')
    assert f"Line {line} BAD_PREDICATE at /verification/predicates/0" in said
    broken = send(person, SKELETON.replace('"version": "1.0.0",', '"version": "1.0.0"'))
    assert "Line 4" in words(broken.content.decode())
    assert "This is not JSON from here on" in words(broken.content.decode())
    assert "Paste the contract document, or choose its file." in words(send(person, "").content.decode())


def test_a_file_replaces_the_typed_text_and_a_changed_text_is_checked_again(shop: Workshop):
    person = administrator(shop)
    text = changed(name="shred_document")
    answer = person.client.post(
        f"/t/{shop.slug}/contracts/new",
        {"document": "{}", "file": SimpleUploadedFile("contract.json", text.encode(), "application/json")},
    )
    assert typed(answer) == text
    other = send(person, changed(name="burn_document"), checked=digest_checked(answer))
    assert "nothing is stored yet" in words(other.content.decode()).lower()
    with tenancy(shop.tenant):
        assert queries.contract_version(shop.tenant, "burn_document", "1.0.0") is None


def test_an_existing_or_differently_verifying_version_links_to_the_next_step(shop: Workshop):
    person = administrator(shop)
    taken = json.dumps(contract(TOOL) | {"description": contract(TOOL)["description"] + " Ask first."}, indent=1)
    refused = send(person, taken, checked=digest_checked(send(person, taken)))
    assert refused.status_code == 409
    assert (
        "This version is already registered with a different document; register the change as a new version."
        in words(refused.content.decode())
    )
    other = json.dumps(contract(TOOL) | {"version": "1.1.0", "stale_errors": ["GONE"]}, indent=1)
    answer = send(person, other)
    assert "so it takes effect through a release: six gates and two people" in words(answer.content.decode())
    draft = {"kind": "contract", "tool": TOOL, "version": "1.1.0", "document": typed(answer), "reason": "It was seen."}
    assert person.post("releases/draft", **draft).status_code == 302
    [made] = shop.operator_key.get("/releases").json()["items"]
    assert (made["tool"], made["version"], made["state"]) == (TOOL, "1.1.0", "DRAFT")


def test_the_example_on_the_page_is_valid_and_shown_to_operators_and_administrators(shop: Workshop):
    person = administrator(shop)
    assert typed(person.get("contracts/new", start="example")) == SKELETON.strip("\n")
    assert "Valid" in words(send(person, SKELETON.replace("delete_", "drop_")).content.decode())
    reviewer = Visitor(shop.person("reviewer", name="rea@contracts").client, shop.slug)
    assert reviewer.get("contracts/new").status_code == 403
    assert "Register a contract" not in words(reviewer.page("contracts"))


def test_each_part_of_a_document_has_its_line_number():
    text = '{\n "a": [1,\n  {"b/c": "x\\"}"}, []],\n "d": {}\n}\n'
    lines = line_of_each_part(text)
    assert lines == {"": 1, "/a": 2, "/a/0": 2, "/a/1": 3, "/a/1/b/c": 3, "/a/2": 3, "/d": 4}
    assert line_of("/a/1/missing", lines) == 3
    assert line_of("/nowhere", lines) == 1
