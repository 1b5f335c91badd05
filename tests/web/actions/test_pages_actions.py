"""Actions: how states look, how millions of rows are searched, and what one action's page tells."""

from __future__ import annotations

import pytest

from ledger.record.rules.outcomes import WORDS, Outcome
from tests.support import builders
from tests.support.browser_users import visitor, words
from tests.support.standings import EXAMPLES


@pytest.mark.req("R-UI-10")
def test_only_a_success_that_a_reading_settled_looks_like_success(db):
    """And nothing but an execution that failed looks red."""
    from console.templatetags.console import outcome_badge

    looks = {outcome: outcome_badge(EXAMPLES[outcome]) for outcome in Outcome}
    assert [each for each, badge in looks.items() if 'data-family="true"' in badge] == [Outcome.VERIFIED]
    assert [each for each, badge in looks.items() if 'data-family="false"' in badge] == [Outcome.FAILED]
    assert 'data-family="unknown"' in looks[Outcome.CONTRADICTED]


def test_every_outcome_has_its_word_and_a_shape_of_its_family(db):
    from console.templatetags.console import outcome_badge

    for outcome in Outcome:
        badge = outcome_badge(EXAMPLES[outcome])
        assert WORDS[outcome] in badge
        family = badge.split('data-family="')[1].split('"')[0]
        assert f"#state-{family}" in badge


def propose_many(stage, count):
    from ledger.db import tenancy

    with tenancy(stage.tenant):
        return [builders.propose(stage.tenant, view={"target": f"order/N-{each:03d}"}).id for each in range(count)]


@pytest.mark.req("R-UI-12")
def test_pages_of_the_list_go_on_where_the_last_one_ended(stage):
    propose_many(stage, 60)
    operator = visitor(stage, "operator")
    first = operator.page("actions")
    assert first.count("<tr data-item") == 50
    older = first.split('rel="next"')[0].rsplit('href="', 1)[1].split('"')[0].replace("&amp;", "&")
    second = operator.client.get(older).content.decode()
    assert second.count("<tr data-item") == 10
    assert "Back to the newest" in second
    assert not set(_ids(first)) & set(_ids(second))


def _ids(page):
    return [part.split('"')[0] for part in page.split('<tr data-item data-part="')[1:]]


def test_the_list_never_counts_the_table(stage, django_assert_max_num_queries):
    propose_many(stage, 5)
    operator = visitor(stage, "operator")
    operator.page("actions")
    with django_assert_max_num_queries(20) as seen:
        operator.page("actions")
    assert not [query for query in seen.captured_queries if "COUNT(" in query["sql"].upper()]


@pytest.mark.req("R-UI-12")
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"outcome": "NEEDS_REVIEW"}, True),
        ({"outcome": "UNKNOWN"}, False),
        ({"discrepancy": "NO_OP_FAILURE"}, True),
        ({"tool": "issue_refund", "agent": "support"}, True),
        ({"side_effect_class": "READ_ONLY"}, False),
        ({"q": "order/EX-"}, True),
        ({"since": "2026-01-01"}, True),
        ({"until": "2020-01-01"}, False),
    ],
)
def test_the_address_holds_the_filters(stage, query, found):
    case = stage.case()
    page = visitor(stage, "compliance").page("actions", **query)
    assert (str(case.action_id) in page) is found
    assert found or "No action matches" in page


def test_an_id_in_the_search_leads_to_its_action(stage):
    case = stage.case()
    answer = visitor(stage, "operator").get("actions", q=str(case.action_id))
    assert answer["Location"] == f"/t/orchid/actions/{case.action_id}"


@pytest.mark.req("R-UI-13")
def test_the_page_tells_three_axes_one_headline_and_the_record(stage):
    action_id = stage.done()
    page = visitor(stage, "compliance").page(f"actions/{action_id}")
    said = words(page)
    for part in (
        "Verified",
        "Done, and confirmed in the system of record.",
        "Authorization Approved Reviewer",
        "Execution Reported success (unverified) runner, attempt 1",
        "Verification Confirmed shop, primary",
        "level 3 of 4",
        "Missing: trace evidence, append-only ledger.",
        "not yet sealed",
        "Proposed",
        "Reconciled",
        "Readback",
        "Observation",
    ):
        assert part in said, part


def compared(page: str) -> tuple[list[str], dict[str, list[str]]]:
    """The columns of the comparison with their sources, and for each field its five cells."""
    table = page.split('data-part="layers"')[1].split("</table>")[0]
    head, body = table.split("</thead>")
    rows = {}
    for row in body.split("<tr>")[1:]:
        cells = [words(f"<td{cell}").strip() for cell in row.split("<td")[1:]]
        rows[words(row.split("</th>")[0]).strip()] = cells
    return [words(f"<b>{column}").strip() for column in head.split("<b>")[1:]], rows


@pytest.mark.req("R-OB-15")
def test_the_page_of_an_action_compares_the_five_states_each_with_its_source(stage):
    action_id = stage.propose()
    columns, rows = compared(visitor(stage, "operator").page(f"actions/{action_id}"))
    assert columns == [
        "Expected by the contract's checks",
        "Requested stored payload",
        "Tool reported unverified",
        "System of record not read",
        "Confirmed after reconciliation",
    ]
    assert rows["amount"][1].startswith("12500")
    assert rows["amount"][3:] == ["not read", "pending"]

    stage.approve(action_id)
    stage.execute(action_id)
    _, rows = compared(visitor(stage, "operator").page(f"actions/{action_id}"))
    assert rows["amount"][3:] == ["not read", "pending"], "the tool's word changes no other column"

    assert stage.read(action_id) == "RECONCILED_SUCCESS"
    columns, rows = compared(visitor(stage, "operator").page(f"actions/{action_id}"))
    assert columns[3] == "System of record shop, primary"
    assert [cell.startswith("12500") for cell in rows["amount"]] == [True, True, False, True, True]
    assert [cell.startswith("once") for cell in rows["refund"]] == [True, False, True, True, True]


@pytest.mark.req("R-OB-15")
def test_what_the_system_shows_otherwise_differs_and_is_not_believed(stage):
    case = stage.case(amount=99)
    for path in (f"actions/{case.action_id}", f"cases/{case.id}"):
        _, rows = compared(visitor(stage, "operator").page(path))
        amount = rows["amount"]
        assert amount[3].startswith("differs: 99"), path
        assert not amount[4].startswith("99"), path


def test_approved_never_hides_that_it_failed(stage):
    case = stage.case()
    said = words(visitor(stage, "operator").page(f"actions/{case.action_id}"))
    assert "Authorization Approved" in said
    assert "Verification Nothing changed" in said
    assert "Needs review." in said


def test_raw_output_is_for_compliance(stage):
    from ledger.db import tenancy
    from ledger.record.queries import evidence

    action_id = stage.done()
    with tenancy(stage.tenant):
        raw = next(each.id for each in evidence.evidence_of(stage.tenant, action_id) if each.purpose == "raw_output")
    assert "raw answer of the tool" not in visitor(stage, "operator").page(f"evidence/{raw}")
    assert "Only compliance can open raw tool output." in words(visitor(stage, "operator").page(f"evidence/{raw}"))
    assert "raw answer of the tool" in visitor(stage, "compliance").page(f"evidence/{raw}")


@pytest.mark.req("R-CP-14")
def test_the_evidence_of_a_reading_answers_an_auditor_s_five_questions(stage):
    from ledger.db import tenancy
    from ledger.record.queries import evidence

    action_id = stage.done()
    with tenancy(stage.tenant):
        found = next(each.id for each in evidence.evidence_of(stage.tenant, action_id) if each.purpose == "readback")
    page = words(visitor(stage, "compliance").page(f"evidence/{found}"))
    for question in ("What operation", "Where target", "By whom agent", "Under which authority contract"):
        assert question in page
    assert "How proved readings shop, PRIMARY" in page


def test_each_entry_shows_its_envelope_as_hashed(stage):
    action_id = stage.propose()
    operator = visitor(stage, "operator")
    page = operator.page(f"actions/{action_id}/entries/2")
    assert "Envelope, as hashed" in page
    assert "&quot;seq&quot;:2" in page
    assert operator.get(f"actions/{action_id}/entries/99").status_code == 404


def test_the_system_is_read_again_on_request(stage):
    action_id = stage.propose()
    stage.approve(action_id)
    stage.execute(action_id)
    operator = visitor(stage, "operator")
    assert "Re-verify" in operator.page(f"actions/{action_id}")
    assert operator.post(f"actions/{action_id}/verify").status_code == 302
    assert "Re-verify" not in visitor(stage, "reviewer").page(f"actions/{action_id}")
