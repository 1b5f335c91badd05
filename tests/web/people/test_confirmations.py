"""One confirmation by a second person: each kind of proposal is answered by the same rule."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from console import tasks
from console.accounts.members import operations as people
from console.accounts.operations import create_key
from console.models import ApiKey, Message
from console.web.confirmations import KINDS
from ledger.db import tenancy
from ledger.models import Event
from ledger.people.rules.confirmation import TERMS, Answer, Proof
from ledger.record.operations import SYSTEM, Actor
from tests.support import admissions
from tests.support.api_tenant import Clock
from tests.support.browser_users import visitor
from tests.web.people.proposals import PROOF, PROPOSALS

ROLES = ("reviewer", "operator", "compliance", "administrator")
# A settlement is confirmed by a signed statement, a standing approval by two votes, and the use of break-glass by as
# many reviews as the policy says: tests/web/cases/test_signed_settlements.py, tests/web/approvals. An off-boarding is
# proposed by a command: tests/web/installation/test_tenants.py.
OF_THEIR_OWN = {
    "case": "case-confirm",
    "standing": "standing-approval-answer",
    "emergency": "emergency-review",
    "off_boarding": "off-boarding-answer",
}


class Scene:
    """Somebody who proposes, their second account, and another person; all may do everything."""

    def __init__(self, stage: Any) -> None:
        self.stage = stage
        self.places = {name: stage.person(*ROLES, name=f"{name}@orchid") for name in ("asker", "alias", "second")}
        linked = [self.places[name].id for name in ("asker", "alias")]
        with tenancy(stage.tenant):
            people.link_accounts(tenant_id=stage.tenant, member_ids=linked, by=SYSTEM, at=datetime.now(UTC))
        self.places["asker"].refresh_from_db()

    def propose(self, kind: str) -> None:
        self.kind, self.path = kind, PROPOSALS[kind].propose(self.stage, self.places["asker"])

    def post(self, name: str, end: str, body: dict[str, Any]) -> Any:
        person = visitor(self.stage, *ROLES, name=f"{name}@orchid")
        return person.client.post(f"/api/v1/{self.path}/{end}", body, "application/json")

    def confirm(self, name: str, **changes: Any) -> Any:
        """The answer to a confirmation with everything that it may need, but for these changes."""
        end, body = PROPOSALS[self.kind].confirm
        proof = PROOF if TERMS[self.kind].proof is Proof.FRESH else {}
        return self.post(name, end, {k: v for k, v in {**body, **proof, **changes}.items() if v is not None})


@pytest.fixture
def scene(stage: Any) -> Scene:
    return Scene(stage)


def refused(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


@pytest.mark.parametrize("kind", PROPOSALS)
def test_another_person_needs_proof_and_reason_to_confirm_and_the_proposer_cannot(scene: Scene, kind: str):
    scene.propose(kind)
    for name in ("asker", "alias"):
        assert refused(scene.confirm(name)) == (403, "SECOND_PERSON_NEEDED"), name
    terms = TERMS[kind]
    if terms.proof is Proof.FRESH:
        assert refused(scene.confirm("second", password=None)) == (403, "STEP_UP_REQUIRED")
        assert refused(scene.confirm("second", password="wrong")) == (403, "STEP_UP_REQUIRED")
    if Answer.CONFIRM in terms.reasons:
        assert refused(scene.confirm("second", reason=" ")) == (422, "REASON_REQUIRED")
    assert scene.confirm("second").status_code == 200
    assert scene.confirm("second").status_code == 409


@pytest.mark.parametrize("kind", ["contract", "system"])
def test_the_maker_of_a_key_cannot_confirm_its_proposal(scene: Scene, kind: str):
    """They hold its secret, so that they could propose by it and confirm by hand."""
    asker = Actor("person", scene.places["asker"].actor_id)
    create_key(tenant_id=scene.stage.tenant, kind="oper", name="pipeline", by=asker, at=datetime.now(UTC))
    key = ApiKey.objects.get(tenant_id=scene.stage.tenant, name="pipeline")
    scene.kind, scene.path = kind, PROPOSALS[kind].propose(scene.stage, key)
    for name in ("asker", "alias"):
        assert refused(scene.confirm(name)) == (403, "SECOND_PERSON_NEEDED"), name
        waits = visitor(scene.stage, *ROLES, name=f"{name}@orchid").client.get("/api/v1/inbox").json()["items"]
        assert "confirmation" not in {each["kind"] for each in waits}
    for _ in range(3):
        tasks.tell_people()
    with tenancy(scene.stage.tenant):
        told = set(Message.objects.filter(kind=f"{kind}_waits").values_list("actor_id", flat=True))
    assert told == {scene.places["second"].actor_id}
    assert scene.confirm("second").status_code == 200


STOPS = [(kind, stop) for kind, proposal in PROPOSALS.items() for stop in proposal.stops]


@pytest.mark.parametrize(("kind", "stop"), STOPS)
def test_a_declined_or_withdrawn_proposal_cannot_be_confirmed(scene: Scene, kind: str, stop: str):
    scene.propose(kind)
    end, body = PROPOSALS[kind].stops[stop]
    if Answer(stop) in TERMS[kind].reasons:
        assert refused(scene.post("second", end, body | {"reason": " "})) == (422, "REASON_REQUIRED")
    apart = TERMS[kind].withdrawn_apart and stop == Answer.DECLINE
    if apart:
        assert refused(scene.post("asker", end, body)) == (403, "SECOND_PERSON_NEEDED")
    stopped = scene.post("second" if apart else "asker", end, body)
    assert stopped.status_code == 200, "whoever proposed it takes it back without a proof"
    assert scene.confirm("second").status_code == 409


@pytest.mark.parametrize("kind", [kind for kind in PROPOSALS if TERMS[kind].lives])
def test_an_expired_proposal_is_ended_by_the_console(scene: Scene, kind: str, clock: Clock):
    scene.propose(kind)
    clock.forward(days=30)
    assert refused(scene.confirm("second")) == (409, "PROPOSAL_EXPIRED")
    assert tasks.end_expired_proposals() == 1
    assert tasks.end_expired_proposals() == 0
    assert scene.confirm("second").status_code == 409
    with tenancy(scene.stage.tenant):
        event = Event.objects.filter(tenant_id=scene.stage.tenant).latest("recorded_at")
    assert (event.actor_kind, event.actor_id) == ("system", SYSTEM.id)


@pytest.mark.parametrize("kind", [kind for kind in PROPOSALS if TERMS[kind].lives])
def test_an_open_proposal_within_its_time_is_not_ended(scene: Scene, kind: str, clock: Clock):
    scene.propose(kind)
    clock.forward(days=29)
    assert tasks.end_expired_proposals() == 0
    assert scene.confirm("second").status_code == 200


def test_the_pages_of_proposals_admit_the_roles_of_their_terms():
    pages = {kind: proposal.page for kind, proposal in PROPOSALS.items()} | OF_THEIR_OWN
    assert set(pages) == set(TERMS) == set(KINDS)
    assert {kind: admissions.PAGES[page] for kind, page in pages.items()} == {
        kind: terms.roles for kind, terms in TERMS.items()
    }
