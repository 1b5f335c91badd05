"""The steps from an empty console to the first verified action, and which of them the record shows as done."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, LiteralString

from django.conf import settings
from django.urls import reverse

from console.accounts import queries as directory
from console.home.first_programs import first_programs
from ledger.db import execute

if TYPE_CHECKING:
    from console.edge.http import TenantRequest

_MARKS: Final[LiteralString] = """
    SELECT EXISTS (SELECT FROM ledger_action WHERE tenant_id = $1 AND phase = 'RECONCILED_SUCCESS'),
           (SELECT array_agg(DISTINCT kind) FROM console_apikey WHERE tenant_id = $1 AND revoked_at IS NULL),
           EXISTS (SELECT FROM ledger_system WHERE tenant_id = $1),
           EXISTS (SELECT FROM ledger_contractversion c JOIN ledger_subject s ON s.tenant_id = $1 AND s.id = c.id
               WHERE c.tenant_id = $1 AND s.state = 'REGISTERED'),
           EXISTS (SELECT FROM ledger_system s JOIN ledger_event e ON e.tenant_id = $1 AND e.subject_id = s.id
               WHERE s.tenant_id = $1 AND e.kind = 'connection_tested'),
           EXISTS (SELECT FROM approvals_agent WHERE tenant_id = $1),
           EXISTS (SELECT FROM approvals_call WHERE tenant_id = $1),
           EXISTS (SELECT FROM reviews_run WHERE tenant_id = $1)
"""


@dataclass(frozen=True, kw_only=True)
class SetupStep:
    """One step: whether the record shows it as done, its page, and its command."""

    word: str
    text: str
    is_done: bool
    href: str = ""
    link: str = ""
    command: str = ""
    keeps_command: bool = False
    programs: list[tuple[str, str]] = field(default_factory=list)


def first_tool_guide(request: TenantRequest) -> dict[str, Any] | None:
    """The steps for an administrator, or who can take them for others; None after the first verified action, or if
    hidden.
    """
    if request.user.hides_guide:
        return None
    [(verified, kinds, system, contract, tested, agent, call, judged)] = execute(_MARKS, request.tenant.id)
    if verified:
        return None
    if "administrator" not in request.caller.roles:
        return {"administrators": _administrators(request), "steps": []}
    done = [{"oper", "agent", "exec"} <= set(kinds or ()), system, contract, tested, agent, call, judged]
    steps = [SetupStep(is_done=is_done, **step) for step, is_done in zip(_steps(request), done, strict=True)]
    left = next((step for step in steps if not step.is_done), None)
    return {"steps": steps, "next": left, "left": sum(not step.is_done for step in steps)}


def _administrators(request: TenantRequest) -> list[str]:
    found = directory.members(request.tenant.id)
    called = directory.names_of(request.tenant.id)
    return sorted(called[each.actor_id] for each in found if each.is_administrator and each.joined_at)


def _keys_text(slug: str) -> dict[str, Any]:
    """The way to the operator's key: from the file of first sign-ins where this machine has it."""
    text = "One each for the operator's commands below (oper), the agent (agent) and the executor (exec)."
    file = Path(settings.COUNTERFOIL_SECRETS_DIR) / f"sign-in-{slug}.json"
    if not file.is_file():
        return {"text": f"{text} The command that created the tenant, manage.py bootstrap, printed the first ones."}
    keys = {"OPERATOR_KEY": "oper", "AGENT_KEY": "agent", "EXECUTOR_KEY": "exec"}
    read = "python3 -c \"import json, sys; print(json.load(open(sys.argv[1]))['keys'][sys.argv[2]])\""
    command = "; ".join(f"export {name}=$({read} {shlex.quote(str(file))} {kind})" for name, kind in keys.items())
    return {
        "text": f"{text} The first ones are in {file} on the console's machine.",
        "command": command,
        "keeps_command": True,
    }


def _steps(request: TenantRequest) -> list[dict[str, Any]]:
    slug, api = request.tenant.slug, request.build_absolute_uri("/api/v1")
    pages = {name: reverse(name, args=[slug]) for name in ("people", "systems", "contract-new", "agents", "calls")}
    return [
        {
            "word": "Make the keys",
            **_keys_text(slug),
            "href": f"{pages['people']}#machines",
            "link": "People and keys",
        },
        {
            "word": "Register the system of record",
            "text": "Where the effect is read back. Its credential is a file beside the keys; the page names it.",
            "href": f"{pages['systems']}#register",
            "link": "Register a system",
            "command": _post(
                api,
                "systems",
                '{"name": "documents", "pattern": "filesystems", "settings": {"root": "/srv/documents"}}',
            ),
        },
        {
            "word": "Register the tool's contract",
            "text": "What it takes, what it changes, and how that is verified.",
            "href": f"{pages['contract-new']}?start=example",
            "link": "Register a contract",
            "command": _post(api, "contracts", "@contract.json"),
        },
        {
            "word": "Test the connection",
            "text": "One reading of the system through the contract's own check. It changes nothing.",
            "href": pages["systems"],
            "link": "Systems",
        },
        {
            "word": "Register the agent",
            "text": "Which tools it may call.",
            "href": pages["agents"],
            "link": "Agents",
            "command": _post(api, "agents", '{"agent_id": "librarian", "version": "1", "tools": ["delete_document"]}'),
        },
        {
            "word": "See the first call",
            "text": "The agent opens a session and proposes; an executor claims and starts what was approved."
            " Install the client library (pip install counterfoil-client) and run both programs.",
            "href": pages["calls"],
            "link": "Calls",
            "programs": first_programs(request.tenant.id, request.build_absolute_uri("/").rstrip("/")),
        },
        {
            "word": "See the first verdict",
            "text": "The system is read back by itself, and what it shows is compared with what was asked.",
            "href": reverse("actions", args=[slug]),
            "link": "Actions",
        },
    ]


def _post(api: str, path: str, body: str) -> str:
    headers = "-H \"Authorization: Bearer $OPERATOR_KEY\" -H 'Content-Type: application/json'"
    return f"curl -X POST {api}/{path} {headers} -d '{body}'"
