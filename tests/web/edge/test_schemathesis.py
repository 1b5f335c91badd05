"""The whole document sent by schemathesis to the real server, by each kind of key and by a person.

It sends what fits the document and what breaks it. Nothing makes a fault, and every answer is one that the document
describes. Each run prints a row: who asked, and how many operations, requests, faults and answers not as described.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Stack
from tests.support.api_tenant import Workshop, workshop
from tests.support.callers import Api

pytestmark = pytest.mark.long
# So many random requests of each operation, beside those that each boundary of its schema gives.
EXAMPLES = 5
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,"
    "response_schema_conformance,unsupported_method,allow_header_conformance"
)

# Only the web process runs here, so what a sequencer and a worker should have done is late.
NOT_READY_IS_NO_FAULT = """
[[operations]]
include-path = "/api/v1/readyz"
checks.not_a_server_error.enabled = false
"""


@pytest.mark.parametrize("kind", ["agent", "exec", "oper", "audit", "person"])
def test_the_document_describes_every_answer_and_no_request_causes_an_internal_error(
    stack: Stack, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
):
    stack.environment["COUNTERFOIL_RATE_PER_S"] = "0"
    shop = workshop("orchid").set_up()
    person = shop.person("reviewer", "operator", "compliance", "administrator", name="everything@orchid")
    keys = {"agent": shop.agent, "exec": shop.executor, "oper": shop.operator_key, "audit": shop.auditor}
    (tmp_path / "schemathesis.toml").write_text(NOT_READY_IS_NO_FAULT)
    (tmp_path / "openapi.json").write_text(json.dumps(document_of(shop)))
    stack.start("web")
    ran, told = run_schemathesis(stack.url, headers_of(keys.get(kind, person)), tmp_path)
    with capsys.disabled():
        sys.stdout.write(f"\n{row_of(kind, told)}\n")
    assert ran.returncode == 0, f"{ran.stdout[-20_000:]}\n{stack.log('web')}"
    assert told["operations"]["tested"] == told["operations"]["total"] > 100
    assert accepted_requests(told) > 10
    assert "Traceback" not in (stack.folder / "web.log").read_text()


def document_of(shop: Workshop) -> dict[str, Any]:
    """The document without two headers that have tests of their own.

    With made-up ones nearly every write would be refused: as the repeat of another one, or as from no member.
    """
    document: dict[str, Any] = shop.agent.get("/openapi.json").json()
    for methods in document["paths"].values():
        for operation in methods.values():
            references = [each.get("$ref", "").rpartition("/")[2] for each in operation["parameters"]]
            operation["parameters"] = [
                each
                for each, name in zip(operation["parameters"], references, strict=True)
                if name not in ("IdempotencyKey", "XTenant")
            ]
    return document


def headers_of(caller: Api) -> dict[str, str]:
    """How a caller says who it is; a person's session comes with its CSRF token."""
    if caller.headers:
        return caller.headers
    token = "c" * 32
    session = caller.client.cookies["sessionid"].value
    return {"Cookie": f"sessionid={session}; csrftoken={token}", "X-CSRFToken": token}


def run_schemathesis(
    url: str, headers: dict[str, str], folder: Path
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """Its run over the document in the folder, and its report."""
    given = [part for name, value in headers.items() for part in ("--header", f"{name}: {value}")]
    report = folder / "report.json"
    ran = subprocess.run(
        [
            *(str(Path(sys.executable).parent / "st"), "run", "openapi.json", "--url", url),
            *("--phases", "examples,coverage,fuzzing", "--max-examples", str(EXAMPLES), "--checks", CHECKS),
            *("--seed", "14", "--generation-database", "none", "--generation-with-security-parameters", "false"),
            *("--request-timeout", "60", "--no-shrink", "--suppress-health-check", "all", "--warnings", "off"),
            *("--report", "json", "--report-json-path", str(report), "--no-color", *given),
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    return ran, json.loads(report.read_text()) if report.exists() else {}


def accepted_requests(told: dict[str, Any]) -> int:
    """How many requests were carried out, of operations that took some."""
    return sum(phase["accepted"] for phases in told["valid_rates"].values() for phase in phases.values())


def row_of(kind: str, told: dict[str, Any]) -> str:
    """One row of the table, out of a report."""
    faults = sum(each["count"] for each in told["failures"] if each["type"] == "ServerError")
    others = [f"{each['title']}: {each['count']}" for each in told["failures"] if each["type"] != "ServerError"]
    sent = f"{told['test_cases']['generated']} requests, {accepted_requests(told)} accepted"
    return (
        f"{kind:6} | {told['operations']['tested']} operations | {sent}"
        f" | {faults} with 5xx | {', '.join(others) or 'none'} not as described"
    )
