"""Cases: what an operator sees before settling one, and which resolutions are taken."""

from __future__ import annotations

import re

import pytest

from tests.support.browser_users import visitor, words
from tests.support.settling import confirm_on_page, settle_on_page

WHY = {"reason": "The provider shows it.", "evidence": "Statement of 21 November, line 4"}


@pytest.mark.req("R-UI-05")
def test_the_queue_lists_open_cases_with_their_findings(stage):
    case = stage.case()
    page = visitor(stage, "operator").page("cases")
    said = words(page)
    assert str(case.id) in page
    told = "125.00 EUR too little No-op failure High-risk external Unassigned"
    for part in ("Refund order", told):
        assert part in said
    assert "Needs review" not in said


def test_the_queue_is_filtered_by_the_address(stage):
    nothing, wrong = stage.case(), stage.case(amount=1)
    operator = visitor(stage, "operator")
    page = operator.page("cases", discrepancy="VALUE_MISMATCH")
    assert str(wrong.id) in page
    assert str(nothing.id) not in page
    operator.post(f"cases/{nothing.id}/claim")
    assert str(nothing.id) in operator.page("cases", tab="mine")
    assert str(nothing.id) not in operator.page("cases", tab="free")
    assert operator.get("cases", tab="nonsense").status_code == 404
    assert "Filters in force" in operator.page("cases", discrepancy="VALUE_MISMATCH")
    # A filter that the list does not apply is not shown as one.
    assert "Filters in force" not in operator.page("cases", discrepancy="NONSENSE")


@pytest.mark.req("R-UI-06")
def test_five_accounts_are_shown_side_by_side_with_the_differences_marked(stage):
    case = stage.case(amount=99)
    page = visitor(stage, "operator").page(f"cases/{case.id}")
    said = words(page)
    for part in ("Expected", "Requested", "Tool reported", "System of record", "Confirmed", "1 of ", "differ"):
        assert part in said
    assert "differs: </span>99" in page
    assert "sa.amount == sr.amount" in said
    assert "Does not hold" in said
    for part in ("shop, primary", "LSN 0/1A2B", "shop.refunds where", "Timeline", "The tool answered", "RT-04"):
        assert part in said


def test_the_action_page_compares_request_and_reading_only_where_they_differ(stage):
    operator = visitor(stage, "operator")

    other = operator.page(f"actions/{stage.case(amount=99).action_id}")
    same = operator.page(f"actions/{stage.case(count=2).action_id}")

    table = words(other.split('data-part="differences"')[1].split("</table>")[0])
    assert "amount 12500 99 the system of record" in table
    assert 'data-part="differences"' not in same


def test_a_duplicate_effect_is_shown_as_a_difference(stage):
    said = words(visitor(stage, "operator").page(f"cases/{stage.case(count=2).id}"))
    assert "Duplicate side effect" in said
    assert "2 times" in said
    assert "Frozen: target" in said


def test_unreconciled_states_are_shown_as_pending(stage):
    page = visitor(stage, "operator").page(f"cases/{stage.case(amount=99).id}")
    believed = page.split('data-layer="Confirmed"')[1:]
    assert believed
    assert all("pending" in cell.split("</td>")[0] for cell in believed)


@pytest.mark.req("R-UI-07", "R-UI-09")
def test_only_the_allowed_resolutions_are_offered(stage):
    page = visitor(stage, "operator").page(f"cases/{stage.case().id}")
    for offered in ("VERIFY_AGAIN", "ATTEST_PRESENT", "ATTEST_ABSENT", "ABANDON"):
        assert f'value="{offered}"' in page
    for other in ("COMPENSATE", "FORWARD_RECOVER", "ROLL_BACK"):
        assert f'value="{other}"' not in page
    assert "un again" not in words(page)
    assert page.count('value="VERIFY_AGAIN"') == 1


@pytest.mark.req("R-UI-07")
def test_a_forged_resolution_is_refused(stage):
    case = stage.case()
    answer = settle_on_page(visitor(stage, "operator"), case.id, "COMPENSATE", **WHY)
    assert answer.status_code == 409
    assert stage.state(case.action_id) == "REVIEW_REQUIRED"


@pytest.mark.parametrize("missing", ["reason", "evidence", "resolution"])
def test_an_incomplete_resolution_is_refused(stage, missing):
    case = stage.case()
    fields = {"resolution": "ABANDON", **WHY} | {missing: ""}
    assert visitor(stage, "operator").post(f"cases/{case.id}/resolve", **fields).status_code == 422
    assert stage.state(case.action_id) == "REVIEW_REQUIRED"


def test_re_verification_needs_no_second_person(stage):
    case = stage.case()
    operator = visitor(stage, "operator")
    operator.post(f"cases/{case.id}/resolve", resolution="VERIFY_AGAIN", **WHY)
    assert stage.state(case.action_id) == "PENDING"
    said = words(operator.page("cases", tab="settled"))
    assert "The system of record will be read again. If the difference is still there, a new case opens." in said
    assert "Settled: read again Earlier: no-op failure" in said


@pytest.mark.req("R-UI-08")
def test_an_attestation_takes_two_people_and_is_reported_as_attested(stage):
    case = stage.case()
    operator, second = visitor(stage, "operator"), visitor(stage, "reviewer", name="second@orchid")
    settle_on_page(operator, case.id, "ATTEST_ABSENT", **WHY)
    assert stage.state(case.action_id) == "REVIEW_REQUIRED"
    assert "you cannot confirm your own proposal" in words(operator.page(f"cases/{case.id}"))
    assert operator.post(f"cases/{case.id}/confirm", answer="confirm").status_code == 403
    assert "Statement of 21 November" in second.page(f"cases/{case.id}")
    confirm_on_page(second, case.id)
    assert stage.state(case.action_id) == "FAILED"
    assert "A person has attested" in words(operator.page(f"actions/{case.action_id}"))
    settled = words(operator.page(f"cases/{case.id}"))
    assert "Attest that it did not happen by Operator, confirmed by Second," in settled


def test_the_second_person_can_return_a_proposal(stage):
    case = stage.case()
    operator, second = visitor(stage, "operator"), visitor(stage, "operator", name="second@orchid")
    settle_on_page(operator, case.id, "ABANDON", **WHY)
    second.post(f"cases/{case.id}/confirm", answer="decline")
    assert 'value="ABANDON"' in operator.page(f"cases/{case.id}")


def test_a_claim_shows_its_holder_and_can_be_released(stage):
    case = stage.case()
    operator, other = visitor(stage, "operator"), visitor(stage, "operator", name="other@orchid")
    operator.post(f"cases/{case.id}/claim")
    assert "Owned by Operator" in words(other.page(f"cases/{case.id}"))
    assert other.post(f"cases/{case.id}/claim").status_code == 409
    operator.post(f"cases/{case.id}/release")
    assert "Unassigned." in words(other.page(f"cases/{case.id}"))


def test_the_thread_keeps_the_comments(stage):
    case = stage.case()
    reviewer = visitor(stage, "reviewer")
    reviewer.post(f"cases/{case.id}/comments", text="I called the provider.\n<b>They confirm.</b>")
    page = reviewer.page(f"cases/{case.id}")
    assert "I called the provider.\n&lt;b&gt;They confirm.&lt;/b&gt;" in page
    assert reviewer.post(f"cases/{case.id}/comments", text="  ").status_code == 422


def test_a_settled_case_offers_no_resolution(stage):
    case = stage.case()
    operator = visitor(stage, "operator")
    operator.post(f"cases/{case.id}/resolve", resolution="VERIFY_AGAIN", **WHY)
    page = operator.page(f"cases/{case.id}")
    assert 'name="resolution"' not in page
    assert "Verify now" in words(page)
    assert str(case.id) in operator.page("cases", tab="settled")


@pytest.mark.parametrize(
    ("found", "damage"),
    [
        ({"count": 2}, "2 refunds exist; one of 125.00 EUR was approved."),
        ({"count": 2, "ids": (7, 8)}, "125.00 EUR too much: refund 7 and refund 8 exist, one of 125.00 was approved."),
        ({"amount": 99, "ids": (7,)}, "124.01 EUR too little: refund 7 is 0.99, 125.00 was approved."),
        ({"count": 0}, "125.00 EUR too little: no refund exists, 125.00 was approved."),
    ],
)
def test_a_case_begins_with_its_damage_and_one_next_step(stage, found, damage):
    page = visitor(stage, "operator").page(f"cases/{stage.case(**found).id}")
    head, step = re.split('data-part="damage"|data-part="next"', page.split('<div class="split')[0])[1:]
    assert damage in words(head)
    assert not re.search(r"RT-[0-9]|[0-9a-f]{8}-[0-9a-f]{4}", words(head))
    assert len(re.findall(r'class="button primary"', head + step)) == 1
    assert damage not in words(page.split('<div class="split')[1])


def test_the_rule_and_the_ids_of_a_case_are_folded(stage):
    case = stage.case(amount=99)
    page = visitor(stage, "operator").page(f"cases/{case.id}")
    shown, details = page.split('data-part="details"')
    for code in ("RT-04", str(case.id), str(case.action_id)):
        assert code in words(details.split("</details>")[0])
        assert code not in words(shown.split('id="finding"')[1].split("<details")[0])


def test_re_verification_takes_one_click_without_a_reason(stage):
    operator, case = visitor(stage, "operator"), stage.case()
    page = operator.page(f"cases/{case.id}")
    form = page.split('data-part="verify-now"')[1].split("</form>")[0]
    assert "Verify now" in words(form)
    assert "<textarea" not in form
    sent = dict(re.findall(r'name="(resolution|reason|evidence|covers)" value="([^"]*)"', form))
    answer = operator.post(f"cases/{case.id}/resolve", **sent)
    assert answer.status_code == 302
    assert "Needs review" not in words(operator.page(f"actions/{case.action_id}")).split("Timeline")[0]


# What a case comes to, at a glance


def test_the_comparison_shows_the_ids_found_and_formats_amounts_as_money(stage):
    page = visitor(stage, "operator").page(f"cases/{stage.case(count=2, ids=(7001, 7002), amount=99).id}")
    table = words(page.split('data-part="layers"')[1].split("</table>")[0])
    assert "2 times id 7001 id 7002" in table
    assert "12500 125.00 EUR" in table
    assert "99 0.99 EUR" in table


def test_evidence_and_timeline_are_folded_below_the_comparison_with_a_summary(stage):
    page = visitor(stage, "operator").page(f"cases/{stage.case(amount=99).id}")
    comparison, evidence, timeline = (page.index(each) for each in ('id="layers"', "Evidence <", "Timeline <"))
    assert comparison < evidence < page.index('id="predicates"') < page.index('id="readbacks"') < timeline
    assert re.search(r"Evidence [0-9]+ checks, 1 does not hold; 1 readback", words(page))
    assert '<details class="fold" open' not in page


def test_lists_show_amounts_and_stakes_with_one_query_for_the_payloads(stage, monkeypatch):
    from ledger.record.queries import evidence

    stage.case(), stage.case()
    stage.propose(), stage.propose(), stage.propose()
    opened, open_many = [], evidence.open_evidence_many

    def count(tenant_id, pointers, **options):
        opened.append(len(pointers))
        return open_many(tenant_id, pointers, **options)

    monkeypatch.setattr(evidence, "open_evidence_many", count)
    person = visitor(stage, "operator", "reviewer")
    cases, approvals, actions = (words(person.page(path)) for path in ("cases", "approvals", "actions"))
    assert opened == [2, 2, 3, 5]
    assert "At stake on this page: 250.00 EUR too little" in cases
    told = "In your cases and those without an owner: 250.00 EUR too little."
    assert told in words(visitor(stage, "operator").page())
    assert "In your cases" not in words(visitor(stage, "reviewer").page())
    assert cases.count("125.00 EUR 125.00 EUR too little") == 2
    assert "At stake on this page: 375.00 EUR" in approvals
    assert actions.count("125.00 EUR") == 5


def test_a_settled_case_is_named_at_its_head_and_no_longer_counts_as_at_stake(stage):
    case = stage.case()
    settle_on_page(visitor(stage, "operator"), case.id, "ATTEST_ABSENT", **WHY)
    confirm_on_page(visitor(stage, "reviewer", name="second@orchid"), case.id)
    operator = visitor(stage, "operator")
    head = words(operator.page(f"cases/{case.id}").split('data-part="facts"')[1].split("</p>")[0])
    assert "Settled" in head
    listed = words(operator.page("cases", tab="settled"))
    assert "Settled: attested that it did not happen" in listed
    assert "At stake" not in listed
