"""axe finds nothing on any page, whoever opens it, in both themes, on any screen; nor has the browser a complaint."""

from __future__ import annotations

import pytest

from tests.browser.chromium import NoBrowser, axe, axe_findings
from tests.browser.conftest import SIZES, look_at
from tests.support.admissions import PAGES, ROLES
from tests.support.outside.recorded import keep_recording

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@pytest.fixture(scope="module")
def checker():
    try:
        return axe()
    except NoBrowser as reason:
        pytest.skip(f"accessibility tests: {reason}")


# Addresses that a form is sent to, that hand out a file or that only lead on, and a page that its own tests look at;
# in the last line pages that are newer than this list.
FORMS_FILES_AND_NEWER = """
    beside approvals-next approvals-looking list-export view-save view-remove approvals-batch
    approval-looking approval-shown approval-claim approval-release approval-assign approval-comment
    approval-ask approval-vote approval-challenge standing-approval standing-approval-propose
    standing-approval-answer standing-approval-resume standing-approval-stop standing-approval-revoke
    approval-time-boxed-pass emergency-review batch-turn
    case-claim case-assign case-release case-snooze case-wake case-reopen case-comment case-step case-resolve
    case-challenge case-confirm action-verify action-replay-bundle action-effect-receipt
    action-signed-receipts action-narrative-pdf case-narrative-pdf run-cancel incident-join incident-contain
    incident-comment incident-close incident-reopen incident-step incident-export agent-revoke recording-erase
    contract-rollback contract-answer contract-retire policy-rollback release-gates release-sign release-canary
    release-promote release-end
    metrics-export alert-rule-make alert-rule-change alert-rule-end system-answer system-stop
    price-set price-end cost-budget-set cost-budget-end
    system-resume export-start export-bundle hold-place hold-lift erasure-ask erasure-answer off-boarding-answer
    retention-propose retention-answer alarm-acknowledge integrity-check integrity-turn log-growth event-proof
    member-invite member-invite-again member-change member-answer member-remove member-link member-separate
    approver-key-answer key-create key-revoke delegation-end my-key-enrol my-key-stop my-absence my-absence-end
    my-delegation my-delegation-end notice-next notices-read notice-wishes notice-channels-set notice-again
    freeze-place freeze-lift system-connection executor-revoke verifier-policy action-case action-cancel start-override
    start-override-end
    target-read audit-objects event-export-start event-export-stop
    event-export-test notice-device-add notice-device-remove notice-channel-test
    system-register person-search-start person-search
    executor machine-key claim-read claim-receipt"""
NOT_LOOKED_AT = frozenset(FORMS_FILES_AND_NEWER.split())


@pytest.fixture
def paths(site):
    """Every page of a tenant with something on it, by the name of its address."""
    case, waiting = site.stage.case(count=2), site.stage.approval(site.stage.propose())
    action, incident = f"actions/{case.action_id}", f"incidents/{incident_of(site, case)}"
    recording = f"recordings/{keep_recording(site.stage.slug)}"
    member = site.stage.person("operator", name=f"other@{site.stage.slug}")
    release = release_of(site)
    return [
        ("home", ""),
        ("approvals", "approvals"),
        ("approval", f"approvals/{waiting.id}"),
        ("approval-edit", f"approvals/{waiting.id}/edit"),
        ("quality", "approvals/quality"),
        ("standing-approvals", "standing-approvals"),
        ("emergencies", "emergencies"),
        ("cases", "cases"),
        ("target", f"target?name={case.target}"),
        ("case", f"cases/{case.id}"),
        ("case", f"cases/{stray_of(site)}"),
        ("case-narrative", f"cases/{case.id}/narrative"),
        ("batches", "cases/batches"),
        ("batch", f"cases/batches/{batch_of(site, case)}"),
        ("incidents", "incidents"),
        ("incident-new", "incidents/new"),
        ("incident", incident),
        ("incident-review", f"{incident}/post-mortem"),
        ("freezes", "freezes"),
        ("runbooks", "runbooks"),
        ("help", "help"),
        ("glossary", "glossary"),
        ("search", "search?q=EX-"),
        ("actions", "actions"),
        ("claims", "claims"),
        ("claim", f"claims/{claim_of(site)}"),
        ("action", action),
        ("action-entry", f"{action}/entries/1"),
        ("action-trace", f"{action}/trace"),
        ("action-replay", f"{action}/replay"),
        ("action-narrative", f"{action}/narrative"),
        ("evidence", f"evidence/{evidence_of(site, case)}"),
        ("run", f"runs/{site.stage.stuck_run()}"),
        ("session", f"sessions/{session_of(site, case)}"),
        ("systems", "systems"),
        ("systems", "systems?pattern=databases"),
        ("installation", "installation"),
        ("agents", "agents?period=month"),
        ("agent", agent_of(site)),
        ("agent-stopped", stopped_agent_of(site)),
        ("calls", "calls"),
        ("hallucinations", "calls/hallucinations"),
        ("recordings", "recordings"),
        ("recording", recording),
        ("recorded-conversation", f"{recording}/1"),
        ("contracts", "contracts"),
        ("contract-new", "contracts/new"),
        ("contract", contract_of(site)),
        ("policies", "policies/"),
        ("policy", "policies/recovery/1"),
        ("policy-touched", "policies/recovery/1/touched"),
        ("releases", "releases"),
        ("release-draft", "releases/draft?kind=recovery"),
        ("release-draft", "releases/draft?kind=approval"),
        ("guides", "docs/"),
        ("guide", "docs/ledger"),
        ("release", release),
        ("metrics", "metrics/"),
        ("metric-actions", "metrics/actions"),
        ("costs", "costs"),
        ("prices", "costs/prices"),
        ("event", f"events/{waiting.id}/1"),
        ("audit", "audit"),
        ("sightings", "audit/sightings"),
        ("exports", "audit/exports"),
        ("holds", "audit/holds"),
        ("ledger", f"ledger?entry={index_of(site)}"),
        ("people", "people"),
        ("member", f"people/{member.id}"),
        ("me", "me"),
        ("notices", "notices"),
        ("notice-channels", "notices/channels"),
        ("event-export", "event-export"),
        ("executors", "executors"),
    ]


def evidence_of(site, case):
    from ledger.db import tenancy
    from ledger.record.queries import evidence

    with tenancy(site.stage.tenant):
        return evidence.evidence_of(site.stage.tenant, case.action_id)[0].id


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


def stopped_agent_of(site):
    """The account of an agent that was stopped."""
    from datetime import UTC, datetime

    from approvals.agents.operations import agents
    from approvals.agents.rules.registry import RegistryEntry
    from ledger.db import tenancy
    from ledger.record import operations as ledger

    told = {"by": ledger.SYSTEM, "at": datetime.now(UTC)}
    entry = RegistryEntry(str(site.stage.tenant), "trainee", "1", ("issue_refund",), (), "", "first oper", told["at"])
    with tenancy(site.stage.tenant):
        agents.register_agent(tenant_id=site.stage.tenant, entry=entry, **told)
        agents.revoke_agent(tenant_id=site.stage.tenant, agent_id="trainee", reason="Its trial is over.", **told)
    return "agents/trainee/stopped"


def agent_of(site):
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
    return f"agents/{name}"


def contract_of(site):
    """The page of a contract, with what differs from itself."""
    from ledger.catalogue import queries as catalogue_queries
    from ledger.db import tenancy

    with tenancy(site.stage.tenant):
        row = catalogue_queries.contract_versions(site.stage.tenant, limit=1)[0]
    return f"contracts/{row.name}/{row.version}?since={row.version}"


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


def claim_of(site):
    """The claim of a night job that it refunded an order without the gate."""
    from datetime import UTC, datetime

    from ledger.db import tenancy
    from ledger.record import operations as ledger
    from reviews.claims import operations
    from reviews.claims.rules.claims import ClaimRequest

    lookup = {"table": "refunds", "where": {"key": "scope.idempotency_key"}, "fields": ["amount"]}
    claim = ClaimRequest(
        system="shop",
        effect="refund",
        said_by="a night job",
        operation="EX-9",
        expected={"amount": 1250},
        lookup=lookup,
    )
    with tenancy(site.stage.tenant):
        return operations.make_claim(
            tenant_id=site.stage.tenant, claim=claim, by=ledger.SYSTEM, at=datetime.now(UTC)
        ).id


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


# What a theme or a size can change; the rest follows from the page alone.
DRAWN = ["color-contrast", "target-size", "scrollable-region-focusable", "link-in-text-block"]
ACCOUNT = ["account", "account/password", "account/app"]
# Where people work; the others are looked at in every theme and at every size by the long test.
OFTEN = {"home", "approvals", "approval", "cases", "case", "actions", "action", "ledger", "metrics", "me"}


def test_every_page_is_checked(paths):
    """A new page without a row in `paths` fails."""
    assert set(PAGES) - NOT_LOOKED_AT == {name for name, _ in paths}


@pytest.mark.req("R-UI-26")
def test_axe_finds_no_fault_and_the_browser_reports_no_error(people, site, paths, checker):
    """In light at a desk, and where people work also in dark on a phone, by somebody who has every role."""
    person = visitor_with(people, checker)
    person.page.goto(f"{site.url}/sign-in")
    found = _violations(person.page)
    person.sign_in(*ROLES)
    addresses = [
        *((name, site.page(path)) for name, path in paths),
        *((each, f"{site.url}/{each}") for each in ACCOUNT),
    ]
    for name, address in addresses:
        look_at(person, "light", "wide")
        person.page.goto(address)
        found += _violations(person.page)
        if name in OFTEN:
            look_at(person, "dark", "phone")
            found += _violations(person.page, DRAWN)
    assert found == []


@pytest.mark.long
@pytest.mark.parametrize("role", ["", *ROLES])
def test_axe_finds_no_fault_for_each_role_at_every_size_in_both_themes(people, site, paths, checker, role):
    person, found = visitor_with(people, checker).sign_in(*([role] if role else [])), []
    for name, path in paths:
        if (role or "member") not in PAGES[name]:
            continue
        person.go(path)
        for size in SIZES:
            for look in ("light", "dark"):
                look_at(person, look, size)
                found += [f"{size}, {look}: {each}" for each in _violations(person.page)]
    assert found == []


def visitor_with(people, checker):
    person = people(bypass_csp=True, reduced_motion="reduce")
    person.page.add_init_script(checker)
    person.page.on("console", lambda message: person.complaints.append(message.text))
    return person


def _violations(page, rules=RULES):
    found = axe_findings(page, rules)
    if any(": target-size: " in each for each in found):
        # A bar that stays in sight covers a different part of the page at every place of the scroll: what it covers at
        # one place and not at another has its size.
        page.evaluate("window.scrollBy(0, 100)")
        kept = set(axe_findings(page, rules))
        found = [each for each in found if ": target-size: " not in each or each in kept]
    return found
