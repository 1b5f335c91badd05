"""No page sends a statement more because its list has more rows, or because the record has more of everything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ledger.actions.queries import actions
from ledger.catalogue.operations import registration
from ledger.catalogue.rules import contract as contracts
from ledger.db import tenancy
from ledger.record.operations import SYSTEM
from reviews.incidents import operations as incidents
from reviews.incidents.rules.incidents import IncidentKind, Severity
from tests.support.browser_users import Visitor, visitor
from tests.support.probes import executed, traced
from tests.support.scenes import CONTRACTS, Stage, now

LISTS = """
    home approvals approvals?tab=approved approvals?tab=decided cases cases?tab=settled incidents freezes actions
    actions?sort=agent actions?outcome=NEEDS_REVIEW agents executors contracts policies/ releases metrics/ systems
    calls calls/hallucinations recordings audit audit?agent=support audit/sightings audit/exports audit/holds ledger
    people notices standing-approvals emergencies approvals/quality search?q=order event-export
    actions.csv?columns=amount agents.csv api-keys.csv approvals.csv approvals.csv?tab=decided audit.csv call-rates.csv
    calls.csv cases.csv?columns=amount contracts.csv emergencies.csv executors.csv exports.csv freezes.csv
    incidents.csv notices.csv passkeys.csv delegations.csv holds.csv erasures.csv people.csv recordings.csv
    releases.csv sightings.csv standing.csv systems.csv
"""
EACH_TIME = 2


def grow(stage: Stage, count: int, start: int) -> None:
    """So many more of each: a case, an action that was verified, a request that waits, a freeze, a lifted one, an
    incident and a tool.
    """
    document = json.loads((CONTRACTS / "issue_refund.json").read_text())
    for place in range(start, start + count):
        case = stage.case()
        stage.done()
        stage.propose(order_id=f"EX-W{place:03d}")
        with tenancy(stage.tenant):
            registration.place_freeze(
                tenant_id=stage.tenant, scope="target", value=f"order/F-{place}", reason="x", actor=SYSTEM, at=now()
            )
            lifted = registration.place_freeze(
                tenant_id=stage.tenant, scope="target", value=f"order/L-{place}", reason="x", actor=SYSTEM, at=now()
            )
            registration.lift_freeze(tenant_id=stage.tenant, freeze_id=lifted.id, reason="over", actor=SYSTEM, at=now())
            incidents.open_for_cause(
                tenant_id=stage.tenant,
                title=f"Down {place}",
                kind=IncidentKind.OPERATIONS,
                severity=Severity(2),
                about=f"system:{place}",
                actions=[case.action_id],
                note="x",
                by=SYSTEM,
                at=now(),
            )
            tool = contracts.validate(document | {"name": f"tool_{place}"}, compile_predicate=lambda text: None)
            registration.register_contract(tenant_id=stage.tenant, contract=tool, actor=SYSTEM, at=now())


def addresses(stage: Stage, case: Any, done: Any, waits: Any) -> dict[str, str]:
    """Every list, and one page of each kind about one thing."""
    found = {each: each.removeprefix("home") for each in LISTS.split()}
    with tenancy(stage.tenant):
        row = actions.action(stage.tenant, done)
    return found | {
        "action": f"actions/{done}",
        "action in question": f"actions/{case.action_id}",
        "approval": f"approvals/{stage.approval(waits).id}",
        "case": f"cases/{case.id}",
        "session": f"sessions/{row.session_id}",
        "run": f"runs/{row.run_id}",
        "event": f"events/{done}/1",
        "narrative": f"actions/{done}/narrative",
        "trace": f"actions/{done}/trace",
        "target": f"target?name={row.target}",
        "agent": "agents/support",
        "contract": f"contracts/{row.tool}/{row.tool_version}",
        "policy": "policies/verification/1",
        "new contract": "contracts/new",
    }


def sent(person: Visitor, pages: dict[str, str], folder: Path) -> dict[str, int]:
    """The statements of each page, once it has filled what a process keeps."""
    counts = {}
    for name, path in pages.items():
        person.page(path)
        with traced(folder / "sent"):
            person.page(path)
        counts[name] = executed(folder / "sent")
    return counts


def test_no_page_sends_more_statements_for_twice_as_much_data(stage: Stage, settings: Any, tmp_path: Path):
    settings.COUNTERFOIL_FRAME_KEPT_S = 0
    person = visitor(stage, "reviewer", "operator", "compliance", "administrator", name=f"all@{stage.slug}")
    case, done, waits = stage.case(), stage.done(), stage.propose(order_id="EX-WAITS")
    pages = addresses(stage, case, done, waits)
    grow(stage, EACH_TIME, 0)
    # The access log names what was looked at: each kind of it is there before anything is counted.
    for path in pages.values():
        person.page(path)
    few = sent(person, pages, tmp_path)
    grow(stage, EACH_TIME, EACH_TIME)
    many = sent(person, pages, tmp_path)
    assert {name: (few[name], many[name]) for name in pages if many[name] > few[name]} == {}
