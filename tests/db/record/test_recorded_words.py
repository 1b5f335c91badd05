"""The search in recorded conversations at size: the index of words finds them, from behind the fence."""

from __future__ import annotations

from uuid import UUID

import psycopg
import pytest
from django.db import connection

from console.recordings import queries as recordings_queries
from console.recordings.queries import ConversationQuery, RecordingQuery
from ledger.db import tenancy

TENANT, OTHER = UUID(int=201), UUID(int=202)
RECORDINGS, TALKS = 20, 1000
MANY = UUID("019f0000-0000-7000-8000-000000000001")

# Twenty recordings of a thousand conversations, all with two usual words; a rare one in every five-hundredth.
FILL = """
SET session_replication_role = replica;
INSERT INTO console_recording (tenant_id, id, file_name, digest, size, trust, version, contracts, conversations,
        messages, calls, with_findings, false_claims, faults, totals, unread, at)
    SELECT tenant, ('019f0000-0000-7000-8000-' || lpad(r::text, 12, '0'))::uuid, 'file', r::text, 1, 'answers', 1, '',
        %(talks)s, %(talks)s, 0, 0, 0, 0, '{}', '[]', now()
    FROM generate_series(1, %(recordings)s) r, unnest(%(tenants)s::uuid[]) tenant;
INSERT INTO console_recordedconversation (tenant_id, recording_id, number, label, path, format, messages, calls,
        false_claims, severity, tools_known, kinds, codes, findings, unread)
    SELECT r.tenant_id, r.id, n, 'talk', '', 'openai-chat', 1, 0, 0, n %% 7, true, '[]', '[]', '[]', '[]'
    FROM console_recording r, generate_series(1, %(talks)s) n;
INSERT INTO console_recordedword (tenant_id, recording_id, number, word, conversations)
    SELECT r.tenant_id, r.id, n, 'word' || n, ARRAY[n] FROM console_recording r, generate_series(1, %(talks)s) n
    UNION ALL SELECT r.tenant_id, r.id, %(talks)s + 1, 'parrot', ARRAY[500, 1000] FROM console_recording r
    UNION ALL SELECT r.tenant_id, r.id, %(talks)s + 2, 'usual', ARRAY(SELECT generate_series(1, %(talks)s))
        FROM console_recording r;
SET session_replication_role = origin;
ANALYZE console_recording, console_recordedconversation, console_recordedword;
"""


@pytest.fixture(scope="module")
def recorded(module_db, run) -> None:
    told = {"tenants": [TENANT, OTHER], "recordings": RECORDINGS, "talks": TALKS}
    url = run.postgres.url("counterfoil_bootstrap", module_db.name)
    with psycopg.connect(url, autocommit=True, cursor_factory=psycopg.ClientCursor) as superuser:
        superuser.execute(FILL, told)


def explained(rows):
    """What a query found, how many index rows of words it read, and the names of the indexes it used."""
    with connection.cursor() as cursor:
        statement, values = rows.query.sql_with_params()
        cursor.execute("EXPLAIN (ANALYZE, FORMAT JSON, TIMING OFF) " + statement, values)
        plan = cursor.fetchone()[0][0]["Plan"]
    return plan["Actual Rows"], list(nodes(plan))


def nodes(plan):
    yield plan
    for each in plan.get("Plans", []):
        yield from nodes(each)


def read_words(plan):
    """Rows of the table of words that were read."""
    found = [each for each in plan if each.get("Relation Name") == "console_recordedword"]
    assert found
    assert "Seq Scan" not in {each["Node Type"] for each in found}
    read = [each["Actual Rows"] + each.get("Rows Removed by Filter", 0) for each in found]
    return sum(int(count * each["Actual Loops"]) for count, each in zip(read, found, strict=True))


def indexes(plan):
    return {each["Index Name"] for each in plan if "Index Name" in each}


@pytest.mark.parametrize(
    ("text", "found", "most"),
    [
        ("parrot", 2, 1),
        ("PARR", 2, 1),
        ("parrot usual", 2, 2),
        ("usual word7", 111, TALKS + 3),
        ("word77 parrot", 0, 12),
        ("usual", TALKS, 1),
        ("nobody said this", 0, 3),
    ],
)
def test_words_of_a_recording_are_found_by_an_index(recorded, text, found, most):
    with tenancy(TENANT):
        rows = recordings_queries.RecordedConversation.objects.filter(
            recordings_queries._narrow(TENANT, MANY, ConversationQuery(words=text))
        )
        count, plan = explained(rows)
    assert count == found
    assert "recorded_words" in indexes(plan)
    assert read_words(plan) <= most


@pytest.mark.parametrize(("text", "found", "most"), [("parrot", 20, 20), ("parrot word5", 20, 3000), ("never", 0, 0)])
def test_recordings_are_found_by_the_word_index(recorded, text, found, most):
    with tenancy(TENANT):
        rows = recordings_queries.Recording.objects.filter(
            recordings_queries._sought(TENANT, RecordingQuery(words=text))
        )
        count, plan = explained(rows)
    assert count == found
    assert "recorded_words" in indexes(plan)
    assert read_words(plan) <= most


def test_a_search_finds_only_recordings_of_its_tenant(recorded):
    with tenancy(OTHER):
        assert recordings_queries.recordings(TENANT, RecordingQuery(words="parrot"), limit=5) == []
        assert recordings_queries.conversations(TENANT, MANY, ConversationQuery(words="parrot"), limit=5).rows == []
        assert len(recordings_queries.recordings(OTHER, RecordingQuery(words="parrot"), limit=50)) == RECORDINGS
