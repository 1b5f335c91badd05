"""Search: what a person types, from the header and the palette, finds what it names, and nothing of anybody else."""

from __future__ import annotations

from uuid import UUID

import psycopg
import pytest

from approvals.sessions import queries as sessions
from approvals.voting.queries import votes
from console.search import operations, queries, rules
from ledger import keystore
from ledger.actions.queries import actions
from ledger.db import execute, tenancy
from ledger.people.rules.statements import confirmation_code
from tests.support.browser_users import visitor, words

TENANT, OTHER = UUID(int=311), UUID(int=312)


def fill(stage):
    with tenancy(stage.tenant):
        while operations.update_search(tenant_id=stage.tenant):
            pass


def found(person, text):
    """What the page says that it found, without its form."""
    return words(person.page("search", q=text).split('id="found"')[1].split("</main>")[0])


@pytest.mark.req("R-UI-12")
def test_an_action_is_found_by_any_of_its_identifiers(stage):
    action_id = stage.propose(order_id="EX-4217", amount=2050)
    stage.approve(action_id)
    fill(stage)
    with tenancy(stage.tenant):
        action = actions.action(stage.tenant, action_id)
        [vote] = votes.votes_of(stage.tenant, action.approval_id)
    operator = visitor(stage, "operator")
    title = "Refund 20.50 EUR to order EX-4217"
    code = confirmation_code(bytes(vote.statement))
    assert str(action_id)[:13] != action.payload_hash[:13]
    for text in ("ex-42", "20.50", "20.5 eur", "EUR 20.50", action.payload_hash[:8], code.lower()):
        assert title in found(operator, text), text
    assert f"Action {action_id}" in found(operator, str(action_id)[:13])
    assert f"Session {action.session_id}" in found(operator, str(action.session_id)[:13])
    assert "1 result for “20.50”. " in found(operator, "20.50")
    assert "Nothing found for 20.51" in found(operator, "20.51")
    answer = operator.get("search", q=str(action_id))
    assert (answer.status_code, answer.url) == (302, f"/t/{stage.slug}/actions/{action_id}")


def test_tools_agents_and_people_are_found_by_name_and_people_only_by_those_who_may_see_them(stage):
    reviewer, operator = visitor(stage, "reviewer"), visitor(stage, "operator")
    assert "Tool issue_refund" in found(operator, "refund")
    assert "Agent support" in found(operator, "suppo")
    assert "Person Operator" in found(reviewer, "operator@")
    assert "Nothing found for operator@" in found(operator, "operator@")


def test_a_tool_or_an_agent_is_found_with_its_newest_actions_and_sessions_each_kind_in_its_group(stage):
    action_id = stage.propose(order_id="EX-4219", amount=2050)
    operator = visitor(stage, "operator")
    said = found(operator, "issue_ref")
    assert said.index("Tools Tool issue_refund") < said.index("Refund 20.50 EUR to order EX-4219")
    assert "Targets" not in said
    with tenancy(stage.tenant):
        action = actions.action(stage.tenant, action_id)
        goal = sessions.session(stage.tenant, action.session_id).goal
    said = found(operator, "suppo")
    assert f"Sessions Session {goal} support" in said
    assert said.index("Agents Agent support") < said.index("Sessions") < said.index("Actions")


def test_a_code_is_found_with_its_words_and_leads_to_its_meaning(stage):
    operator = visitor(stage, "operator")
    assert "Codes Code RT-12 " in found(operator, "rt-12")
    assert "Code VALUE_MISMATCH Value mismatch" in found(operator, "value_mis")
    page = operator.page("search", q="value mismatch")
    assert f'href="/t/{stage.slug}/glossary#value-mismatch"' in page
    assert 'id="value-mismatch"' in operator.page("glossary")
    assert "Code M-01 " in found(operator, "M-01")
    assert "Nothing found for zz-99" in found(operator, "zz-99")


def test_the_palette_lists_the_pages_that_this_person_may_open(stage):
    def offered(role, text):
        asked = {"HX-Request": "true", "HX-Target": "palette-found"}
        return words(
            visitor(stage, role).client.get(f"/t/{stage.slug}/search", {"q": text}, headers=asked).content.decode()
        )

    assert "Audit" in offered("compliance", "aud")
    assert offered("operator", "aud").strip() == "Nothing found for aud"
    assert "Approvals" in offered("operator", "")
    assert "Freezes" in offered("operator", "free")


def test_the_search_index_contains_no_plain_words_of_a_sealed_payload(stage):
    stage.propose(order_id="EX-4218", amount=2050)
    fill(stage)
    with tenancy(stage.tenant):
        kept = " ".join(term for (term,) in execute("SELECT term FROM console_searchterm"))
    assert "k:" in kept
    assert "20.5" not in kept
    assert "EX-4218" not in kept


@pytest.fixture
def grown(module_db, run):
    url = run.postgres.url("counterfoil_bootstrap", module_db.name)
    with psycopg.connect(url, autocommit=True, cursor_factory=psycopg.ClientCursor) as connection:
        connection.execute("SET session_replication_role = replica")
        for table in ("console_searchterm", "ledger_subject"):
            connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)")
        yield connection


MORE = """
INSERT INTO ledger_subject (tenant_id, id, kind, state, seq, head, created_at, updated_at)
    SELECT t, ledger_uuid_from(to_timestamp(1790000000 + n)), 'action', 'PENDING', 1, '', now(), now()
    FROM unnest(ARRAY[%(tenant)s, %(other)s]::uuid[]) t, generate_series(%(first)s::int, %(last)s::int) n;
INSERT INTO console_searchterm (tenant_id, action_id, number, term)
    SELECT tenant_id, id, 0, 'h:' || md5(id::text) || md5(tenant_id::text) FROM ledger_subject s
    WHERE tenant_id IN (%(tenant)s, %(other)s) ON CONFLICT DO NOTHING;
"""


def test_a_search_reads_no_more_of_a_larger_record_and_nothing_of_another_tenant(grown):
    seen = []
    for first, last in ((1, 500), (501, 3000), (3001, 15_000)):
        grown.execute(MORE, {"tenant": TENANT, "other": OTHER, "first": first, "last": last})
        with tenancy(TENANT):
            [(own, term)] = execute("SELECT action_id, term FROM console_searchterm ORDER BY action_id DESC LIMIT 1")
            ids = rules.id_range(own.hex[:20])
            asked = rules.asked_terms(TENANT, keystore.key_encryption_key(), "20.50 EUR")
            statements = (
                (queries._SUBJECTS, (TENANT, *ids, 10)),
                (queries._TERMS, (TENANT, asked, term[:14], term[:14] + rules.LAST, 10)),
            )
            blocks = 0
            for statement, values in statements:
                [(plan,)] = execute("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + statement, *values)
                blocks += plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"]
            assert [row[0] for row in execute(queries._TERMS, *statements[1][1])] == [own]
            assert own in [row[0] for row in execute(queries._SUBJECTS, *statements[0][1])]
        with tenancy(OTHER):
            assert execute(queries._TERMS, *statements[1][1]) == []
            assert execute(queries._SUBJECTS, *statements[0][1]) == []
        seen.append(blocks)
    assert max(seen) < 60, seen
