"""The schemas of the record are named by version and digest, and nothing is written under another one."""

from __future__ import annotations

import hashlib
from importlib import resources
from typing import Any

import jsonschema_rs
import orjson
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from ledger.catalogue.rules.policies import BadPolicy, check_policy, default_policy
from ledger.record.rules import record_schemas
from ledger.record.rules.record_schemas import BUILT_IN, OBSERVATION, SchemaNotReleased, check_schemas
from reviews.observations.rules.observe import ReportedStatus, parse_result

OTHER = {"version": 3, "digest": "0" * 64}


@pytest.mark.req("R-RG-10")
@pytest.mark.parametrize("name", BUILT_IN)
def test_a_carried_schema_is_the_one_that_its_digest_names(name: str):
    """Whoever changes the file without a new version stops the program from writing."""
    file = resources.files("ledger.record.rules").joinpath(f"{name}.schema.json").read_bytes()
    assert hashlib.sha256(rfc8785.dumps(orjson.loads(file))).hexdigest() == BUILT_IN[name]["digest"]


@pytest.mark.req("R-RG-10")
@pytest.mark.parametrize("name", BUILT_IN)
def test_nothing_is_written_under_a_schema_that_is_not_in_force(name: str, monkeypatch: pytest.MonkeyPatch):
    check_schemas(None)
    check_schemas(default_policy("verification")["schemas"])
    with pytest.raises(SchemaNotReleased, match=f"version 3 of the schema {name}"):
        check_schemas({name: OTHER})
    monkeypatch.setitem(record_schemas.WRITABLE, name, [OTHER])
    check_schemas({name: OTHER})
    for in_force in (None, BUILT_IN):
        with pytest.raises(SchemaNotReleased, match=f"of the schema {name}"):
            check_schemas(in_force)


@pytest.mark.req("R-RG-10")
def test_a_draft_names_only_schemas_that_the_program_writes():
    document = default_policy("verification")
    check_policy("verification", document)
    with pytest.raises(BadPolicy) as refused:
        check_policy("verification", document | {"schemas": {"ledger_entry": OTHER}})
    assert [each["path"] for each in refused.value.errors] == ["/schemas/ledger_entry"]
    for wrong in ({"entry": OTHER}, {"observation": {"version": 1}}, {"observation": 1}, []):
        with pytest.raises(BadPolicy):
            check_policy("verification", document | {"schemas": wrong})


_TEXT = st.none() | st.text(max_size=3) | st.integers()
_ANSWERS = st.fixed_dictionaries(
    {
        "result": st.none()
        | st.text(max_size=3)
        | st.fixed_dictionaries(
            {},
            optional={
                "status": st.sampled_from([*map(str, ReportedStatus), "done", ""]) | st.none(),
                "error": st.none()
                | st.text(max_size=3)
                | st.dictionaries(st.sampled_from(["code", "message", "phase", "x"]), _TEXT),
                "side_effects": st.none() | st.lists(st.integers(), max_size=2) | st.text(max_size=2),
            },
        )
    },
    optional={"sub_results": st.none() | st.lists(st.integers(), max_size=2) | st.integers()},
)
_FITS = jsonschema_rs.Draft202012Validator(dict(OBSERVATION.document))


@pytest.mark.req("R-RG-10", "R-OB-01")
@given(_ANSWERS)
def test_an_answer_is_malformed_exactly_where_it_does_not_fit_the_schema_or_contradicts_itself(answer: dict[str, Any]):
    seen = parse_result(answer["result"], tool="t", sub_results=answer.get("sub_results"))
    if not _FITS.is_valid(answer):
        assert seen.status is ReportedStatus.MALFORMED
    elif seen.status is ReportedStatus.MALFORMED:
        assert seen.fault == "The result says success and carries an error."
