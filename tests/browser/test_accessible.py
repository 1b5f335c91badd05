"""axe finds nothing on any page, in light and in dark, at a desk and at twice the size."""

from __future__ import annotations

import pytest

from tests.browser.chromium import NoBrowser, axe, axe_findings

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@pytest.fixture(scope="module")
def checker():
    try:
        return axe()
    except NoBrowser as reason:
        pytest.skip(f"accessibility tests: {reason}")


@pytest.fixture
def paths(site):
    case, waiting = site.stage.case(count=2), site.stage.approval(site.stage.propose())
    action = f"actions/{case.action_id}"
    return [
        "",
        "approvals",
        f"approvals/{waiting.id}",
        f"approvals/{waiting.id}/edit",
        "cases",
        f"cases/{case.id}",
        f"cases/{stray_of(site)}",
        "incidents",
        "incidents/new",
        f"incidents/{incident_of(site, case)}",
        f"incidents/{incident_of(site, case)}/post-mortem",
        "freezes",
        "cases/batches",
        f"cases/batches/{batch_of(site, case)}",
        "runbooks",
        "actions",
        action,
        f"{action}/entries/1",
        f"runs/{site.stage.stuck_run()}",
        f"sessions/{session_of(site, case)}",
        "systems",
        "agents",
        "agents?period=month",
        *agents_of(site),
        "calls",
        "calls/hallucinations",
        *recordings_of(site),
        "contracts",
        *contracts_of(site),
        "policies/",
        "policies/recovery/1",
        "releases",
        "releases/draft?kind=recovery",
        release_of(site),
        f"{action}/narrative",
        f"events/{waiting.id}/1",
        "audit",
        "audit/sightings",
        "audit/exports",
        "audit/holds",
        f"ledger?entry={index_of(site)}",
    ]


def session_of(site, case):
    """A session whose gateway holds tools back."""
    from datetime import UTC, datetime

    from approvals.agents.operations import withheld_tools
    from approvals.agents.rules.relevance import WithheldReason, WithheldTool
    from approvals.sessions import queries as sessions_queries
    from ledger.actions.queries import actions
    from ledger.db import tenancy

    with tenancy(site.stage.tenant):
        action = actions.action(site.stage.tenant, case.action_id)
        session = sessions_queries.session(site.stage.tenant, action.session_id)
        withheld_tools.record_report(
            tenant_id=site.stage.tenant,
            session_id=session.id,
            key_actor=session.key_actor,
            withheld=[
                WithheldTool(WithheldReason.CHANGED, "shop.issue_refund", "schema differs from what was registered"),
                WithheldTool(WithheldReason.UNREGISTERED, "shop.wipe_everything_that_was_ever_sold_here"),
            ],
            at=datetime.now(UTC),
        )
        return session.id


def agents_of(site):
    """The page of an agent that is flagged."""
    from datetime import UTC, datetime

    from approvals.agents import queries as agents_queries
    from approvals.agents.operations import acceptance_watch
    from ledger.db import tenancy

    facts = {"phantom": 3, "calls": 100, "version": "1"}
    with tenancy(site.stage.tenant):
        name = agents_queries.agents(site.stage.tenant)[0].agent_id
        acceptance_watch.update_flags(
            tenant_id=site.stage.tenant, agent_id=name, flags={"PHANTOM_SHARE": facts}, at=datetime.now(UTC)
        )
    return [f"agents/{name}"]


def recordings_of(site):
    """The list of recordings, one of them and one of its conversations."""
    from tests.transcripts.imports import keep

    path = f"recordings/{keep(site.stage.slug)}"
    return ["recordings", path, f"{path}/1"]


def contracts_of(site):
    """The page of a contract, with what differs from itself."""
    from ledger.catalogue import queries as catalogue_queries
    from ledger.db import tenancy

    with tenancy(site.stage.tenant):
        row = catalogue_queries.contract_versions(site.stage.tenant, limit=1)[0]
    return [f"contracts/{row.name}/{row.version}?since={row.version}"]


def release_of(site):
    """The page of a release on canary."""
    from datetime import UTC, datetime

    from ledger.catalogue import queries as catalogue_queries
    from ledger.catalogue.operations import releases
    from ledger.catalogue.rules.policies import default_policy
    from ledger.catalogue.rules.releases import CanaryScope
    from ledger.db import tenancy
    from ledger.record.operations import SYSTEM
    from tests.support.callers import drafted

    tenant, at = site.stage.tenant, datetime.now(UTC)
    document = default_policy("verification") | {"version": "2", "repeat_limit": 5}
    with tenancy(tenant):
        row = catalogue_queries.open_release(tenant, "verification", "2")
        row = row or drafted(tenant, "verification", "2", document, at=at, but="RG-03")
        if row.state == "CHECKED":
            releases.start_canary(
                tenant_id=tenant, release_id=row.id, scope=CanaryScope(share=10, since=at), by=SYSTEM, at=at
            )
    return f"releases/{row.id}"


def index_of(site):
    """An entry of the log, with an alarm standing, a check under way, a hold and a request to erase."""
    from datetime import UTC, datetime
    from uuid import UUID

    from ledger.db import tenancy
    from ledger.exports.operations import exports
    from ledger.log.operations import logs
    from ledger.record.operations import Actor
    from ledger.retention.operations import retention
    from ledger.retention.rules.retention import HoldScope
    from ledger.verification import operations as verification_operations
    from tests.support.seals import seal_up

    tenant, at = site.stage.tenant, datetime.now(UTC)
    by = Actor("person", UUID(int=7))
    with tenancy(tenant):
        verification_operations.start_check(tenant_id=tenant, by=by, at=at)
        exports.request_export(tenant_id=tenant, wanted={}, by=by, at=at)
        retention.place_hold(tenant_id=tenant, scope=HoldScope.ALL, value="", reason="A court.", by=by, at=at)
    seal_up()
    logs.raise_alarm(tenant_id=tenant, kind="LOG_DAMAGED", detail="Event 3 has another hash.", at=at)
    return 3


def stray_of(site):
    """The case of an effect that nobody gated."""
    from datetime import UTC, datetime

    from ledger.catalogue.operations import registration
    from ledger.db import tenancy
    from ledger.record import operations as ledger
    from reviews import queries
    from reviews.observations.operations import ungated_effects
    from reviews.observations.rules.ungated_effects import Change

    at, tenant = datetime.now(UTC), site.stage.tenant
    shown = {"id": 17, "operation": "refund", "actor": "clerk-ines"}
    change = Change(place="17", at=at, operation="refund", actor="clerk-ines", target="order/EX-1", shown=shown)
    with tenancy(tenant):
        system = registration.register_system(
            tenant_id=tenant, name="desk", pattern="databases", settings={}, actor=ledger.SYSTEM, at=at
        )
        ungated_effects.open_ungated_case(tenant, system, change, at=at)
        return next(each.id for each in queries.cases(tenant) if each.action_id is None)


def incident_of(site, case):
    from ledger.db import tenancy
    from reviews import queries

    with tenancy(site.stage.tenant):
        return queries.incidents_of(site.stage.tenant, case.id)[0].id


def batch_of(site, case):
    from datetime import UTC, datetime

    from ledger.db import tenancy
    from ledger.record import operations as ledger
    from reviews.cases.operations import batches
    from reviews.cases.rules.batches import BatchKind

    by = ledger.Actor("person", site.stage.person("operator").actor_id)
    order = {"kind": BatchKind.COMMENT, "wanted": {"text": "Look at the statement."}, "selected": [case.id]}
    with tenancy(site.stage.tenant):
        return batches.start(tenant_id=site.stage.tenant, by=by, at=datetime.now(UTC), **order).id


@pytest.mark.parametrize(("look", "size"), [("light", (1440, 900)), ("dark", (640, 450))])
def test_axe_finds_nothing(people, site, paths, checker, look, size):
    person = people(bypass_csp=True, color_scheme=look, reduced_motion="reduce")
    person.page.set_viewport_size({"width": size[0], "height": size[1]})
    person.page.add_init_script(checker)
    person.page.goto(f"{site.url}/sign-in")
    found = _violations(person.page)
    person.sign_in("operator", "reviewer", "compliance")
    for path in paths:
        person.go(path)
        found += _violations(person.page)
    assert found == []


def _violations(page):
    found = axe_findings(page, RULES)
    if any(": target-size: " in each for each in found):
        # A bar that stays in sight covers a different part of the page at every place of the scroll: what it covers at
        # one place and not at another has its size.
        page.evaluate("window.scrollBy(0, 100)")
        kept = set(axe_findings(page, RULES))
        found = [each for each in found if ": target-size: " not in each or each in kept]
    return found
