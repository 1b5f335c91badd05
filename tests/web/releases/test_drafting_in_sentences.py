"""An approval or autonomy policy drafted by picking conditions: what each button makes of the typed document."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import pytest

from approvals.policy.rules.policy_facts import VARIABLES, compile_condition
from console.models import Membership
from console.policies.conditions import FIELDS, condition_sentence, read_comparisons, write_condition
from ledger.catalogue import queries
from ledger.db import tenancy
from tests.support.api_tenant import Workshop
from tests.support.browser_users import Visitor, words
from tests.web.releases.test_call_gates import asking
from tests.web.releases.test_release_pages import visitor

HELD = {"name": "large", "when": "amount.minor > 50000", "outcome": "hold", "hours": {"from": "08:00", "to": "18:00"}}


def sent(person: Visitor, step: str, document: Any, status: int = 200, *, kind: str = "approval", **fields: Any) -> str:
    """The page that answers one button of the draft page."""
    text = document if isinstance(document, str) else json.dumps(document)
    answer = person.post("releases/draft", kind=kind, document=text, do=step, **fields)
    page = str(answer.content.decode())
    assert answer.status_code == status, words(page)
    return page


def document_on(page: str) -> Any:
    found = re.search(r'<textarea name="document"[^>]*>(.*?)</textarea>', page, re.DOTALL)
    assert found is not None
    return json.loads(unescape(found[1]))


def picked(**changes: Any) -> dict[str, Any]:
    fields = {"name": "large", "outcome": "hold", "field0": "amount.minor", "comparison0": ">", "value0": "50,000"}
    return {f"rule-{name}": value for name, value in (fields | changes).items()}


@pytest.mark.parametrize("kind", ["approval", "autonomy"])
def test_the_folded_form_of_a_rule_does_not_keep_a_browser_from_sending_the_draft(shop: Workshop, kind: str):
    page = visitor(shop).page(f"releases/draft?kind={kind}")
    (name,) = re.findall(r'<input[^>]* name="rule-name"[^>]*>', page)
    assert "required" not in name
    assert re.search(r'<input[^>]* name="version"[^>]* required', page)


def test_a_picked_rule_is_written_into_the_document_and_read_back_into_the_same_form(shop: Workshop):
    ada = visitor(shop)
    more = {"field1": "target.kind", "comparison1": "==", "value1": 'or"der', "group": "finance", "count": "2"}
    page = sent(ada, "rule", {"rules": [HELD | {"name": "old"}]}, **picked(**more))
    rule = {
        "name": "large",
        "outcome": "hold",
        "when": 'amount.minor > 50000 && target.kind == "or\\"der"',
        "thresholds": [{"count": 2, "group": "finance"}],
    }
    assert document_on(page) == {"rules": [HELD | {"name": "old"}, rule]}
    assert (
        "“large”: if the amount in the smallest unit of its currency is more than 50,000 and the kind of target is"
        ' “or"der”, approval is required: 2 approvals from the group finance.'
    ) in words(page)
    edited = sent(ada, "edit:1", document_on(page))
    assert 'name="rule-value1" value="or&quot;der"' in edited
    assert '<input type="hidden" name="rule-place" value="1"' in edited


def test_a_changed_rule_keeps_what_the_form_does_not_show_and_loses_what_its_outcome_cannot_ask(shop: Workshop):
    ada = visitor(shop)
    changed = document_on(sent(ada, "rule", {"rules": [HELD]}, **picked(place="0", value0="70000")))
    assert changed["rules"] == [HELD | {"when": "amount.minor > 70000"}]
    refused = document_on(sent(ada, "rule", {"rules": [HELD]}, **picked(place="0", outcome="refuse", reason="No.")))
    assert refused["rules"] == [{"name": "large", "when": "amount.minor > 50000", "outcome": "refuse", "reason": "No."}]


def test_rules_are_moved_and_removed_and_a_rule_that_is_gone_is_not_found(shop: Workshop):
    ada = visitor(shop)
    rules = [{"name": name, "outcome": "hold"} for name in ("a", "b", "c")]
    moved = document_on(sent(ada, "earlier:2", {"rules": rules}))
    assert [each["name"] for each in moved["rules"]] == ["a", "c", "b"]
    left = document_on(sent(ada, "remove:0", moved))
    assert [each["name"] for each in left["rules"]] == ["c", "b"]
    sent(ada, "remove:7", left, status=404)


def test_what_lies_outside_an_autonomy_policy_is_picked_and_keeps_its_scope(shop: Workshop):
    ada, limited = visitor(shop), {"name": "small", "tools": ["issue_refund"], "when": "amount.minor > 100"}
    wanted = {"rule-name": "late", "rule-field0": "now.hour", "rule-comparison0": ">=", "rule-value0": "18"}
    page = sent(ada, "rule", {"outside": [limited]}, kind="autonomy", **wanted, **{"rule-reason": "Too late."})
    late = {"name": "late", "when": "now.hour >= 18", "reason": "Too late."}
    assert document_on(page) == {"outside": [limited, late]}
    said = words(page)
    assert "late if the hour (UTC) is at least 18, the call is refused" in said
    assert "small for calls of issue_refund if the amount in the smallest unit of its currency is more than 100" in said
    edited = sent(ada, "edit:0", document_on(page), kind="autonomy")
    assert 'name="rule-value0" value="100"' in edited
    changed = {"rule-place": "0", "rule-name": "small", "rule-field0": "amount.minor", "rule-comparison0": ">"}
    after = document_on(sent(ada, "rule", document_on(page), kind="autonomy", **changed, **{"rule-value0": "200"}))
    assert after["outside"] == [limited | {"when": "amount.minor > 200"}, late]
    assert document_on(sent(ada, "remove:0", after, kind="autonomy")) == {"outside": [late]}


def test_an_autonomy_policy_gets_no_entry_that_every_call_would_match(shop: Workshop):
    page = sent(visitor(shop), "rule", {"outside": []}, status=422, kind="autonomy", **{"rule-name": "all"})
    assert "Pick at least one condition: without any, every call lies outside." in words(page)
    assert document_on(page) == {"outside": []}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"value0": "many"}, "Enter a whole number."),
        ({"field0": "contract.mutating", "comparison0": ">", "value0": "true"}, "A yes or no can only be compared by"),
        ({"field0": "contract.mutating", "comparison0": "==", "value0": "maybe"}, "Enter true or false."),
        ({"comparison0": "startsWith", "value0": "5"}, "Only text begins with something."),
        ({"field0": "target.kind", "comparison0": "==", "value0": ""}, "Enter a value."),
        ({"group": "finance"}, "A group needs a number, and a number a group."),
        ({"name": ""}, "This field is required."),
    ],
)
def test_what_cannot_be_a_rule_is_refused_beside_its_field_and_the_document_stays(
    shop: Workshop, changes: dict[str, str], said: str
):
    page = sent(visitor(shop), "rule", {"rules": [HELD]}, status=422, **picked(**changes))
    assert said in words(page)
    assert document_on(page) == {"rules": [HELD]}


def test_a_preview_shows_the_changes_and_the_calls_of_the_last_30_days_and_stores_nothing(shop: Workshop):
    asking(shop)
    ada = visitor(shop)
    page = words(sent(ada, "preview", {"decide_within_s": 60}))
    assert (
        "Of 2 calls decided by the policies in this period, 2 would have been decided differently: 2 would have been"
        " let through and were held, none of which later proved wrong."
    ) in page
    assert "now: A request expires if it is not decided within 1 minute" in page
    with tenancy(shop.tenant):
        assert [each.version for each in queries.releases(shop.tenant, limit=10)] == ["2"]


def test_a_fault_of_a_draft_stands_at_its_line_with_what_is_allowed(shop: Workshop):
    text = '{\n "rules": [\n  {"name": "a",\n   "outcome": "held"}\n ]\n}'
    page = sent(visitor(shop), "preview", text)
    assert "1 error to correct" in words(page)
    assert 'data-line="4">Line 4</a>' in page
    assert '"held" is not one of "auto", "hold" or "refuse"' in words(page)


@pytest.mark.parametrize("step", ["rule", "edit:0", "remove:0", "earlier:0", "preview"])
@pytest.mark.parametrize(
    "rules",
    ["all", [1], [{"name": "a", "outcome": "hold", "when": 5}], [{"name": "a", "outcome": "hold", "thresholds": {}}]],
)
def test_rules_are_picked_only_in_a_document_that_is_a_policy_and_a_broken_one_stays_as_typed(
    shop: Workshop, step: str, rules: Any
):
    status = 200 if step == "preview" else 422
    page = sent(visitor(shop), step, {"rules": rules}, status=status, **picked())
    assert "to correct" in words(page)
    assert document_on(page) == {"rules": rules}


def test_a_release_that_one_person_can_never_finish_says_so_from_the_draft_on(shop: Workshop):
    ada = visitor(shop, name="ada@alone")
    with tenancy(shop.tenant):
        others = Membership.objects.filter(tenant_id=shop.tenant).exclude(user__username="ada@alone")
        others.update(is_operator=False, is_administrator=False)
    said = (
        "This release cannot take effect yet: two people must promote it, and there is only one person who is an"
        " operator or administrator. Invite another one first."
    )
    assert said in words(ada.page("releases/draft", kind="approval"))
    fields = {"kind": "approval", "version": "2", "document": '{"decide_within_s": 60}', "reason": "Shorter."}
    path = ada.post("releases/draft", **fields)["Location"].removeprefix(f"/t/{shop.slug}/")
    assert said in words(ada.page(path))
    visitor(shop, "operator", name="ben@alone")
    assert "cannot take effect yet" not in words(ada.page(path))


def test_every_field_of_a_condition_has_words_of_its_own():
    known = {f"{variable}.{name}" for variable, schema in VARIABLES.items() if schema for name in schema["properties"]}
    assert set(FIELDS) == known
    assert len(set(FIELDS.values())) == len(FIELDS)


@pytest.mark.parametrize(
    "text",
    [
        "amount.minor > 5 || amount.minor < 2",
        "!contract.mutating",
        'target.name == "a && b"',
        "amount.minor > 5 && args.lines.exists(l, l > 2)",
        "amount.minor > args.limit",
        'target.name == "a\\z"',
    ],
)
def test_a_condition_that_no_comparison_expresses_stays_as_it_is_written(text: str):
    assert read_comparisons(text) is None
    assert condition_sentence(text) == text


@pytest.mark.parametrize(
    ("further", "written"),
    [
        ("contract.pivot || now.hour > 18", "(contract.pivot || now.hour > 18)"),
        ("contract.pivot ? now.hour > 18 : true", "(contract.pivot ? now.hour > 18 : true)"),
        ("now.hour > 18", "now.hour > 18"),
    ],
)
def test_picked_comparisons_mean_the_same_with_a_further_expression_behind_them(further: str, written: str):
    comparisons = read_comparisons('amount.minor >= 5 && target.resource.startsWith("order/")')
    assert comparisons is not None
    text = write_condition(comparisons, further)
    assert text == f'amount.minor >= 5 && target.resource.startsWith("order/") && {written}'
    compile_condition(text)
