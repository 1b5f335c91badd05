"""A verification policy is released in the running example: gates over what really happened, a canary under live
traffic, promotion by two people, and the way back.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from example.stage import Sent
from ledger.catalogue.rules.releases import CanaryScope
from tests.journeys.ground import Caller, Ground

TOOL = "refund_small_amount"


def done(answer: Any) -> dict[str, Any]:
    assert answer.is_success, answer.text
    told: dict[str, Any] = answer.json()
    return told


def refunded(ground: Ground) -> Sent:
    sent = ground.send("small_refund")
    assert sent.tool == TOOL
    return sent


def judged_by(ground: Ground, sent: Sent) -> str:
    """The version that an action was verified by, once it is."""
    ground.wait_for(str(sent.action_id), "RECONCILED_SUCCESS")
    entry = ground.operator.get(f"/actions/{sent.action_id}")["entry"]
    return str(entry["policy_context"]["verification_policy_version"])


def test_a_release_decides_a_share_of_live_actions_then_all_and_after_a_rollback_none(busy_ground: Ground):
    ground = busy_ground
    before = ground.operator.get("/policies")["verification"]
    document = before["document"] | {"max_interval_s": 30}
    draft = {"kind": "verification", "version": "closer", "document": document, "reason": "Doubts wait too long."}
    path = f"/releases/{done(ground.operator.post('/releases', draft))['release_id']}"
    gates = done(ground.operator.post(f"{path}/gates"))
    assert gates["needs"] == ["RG-02", "RG-03"], gates["gates"]

    people: dict[str, Caller] = {role: ground.person(role) for role in ("administrator", "operator")}
    words = {role: {"reason": "I have read it.", "password": ground.password(role)} for role in people}
    admin = people["administrator"]
    done(admin.post(f"{path}/signatures", words["administrator"] | {"gate": "RG-02"}))
    canary = done(admin.post(f"{path}/canary", {"tools": [TOOL], "share": 50, "actions": 2}))["canary"]
    scope, tenant = CanaryScope.of(canary), UUID(ground.known["tenant"]["id"])

    sides: dict[bool, list[Sent]] = {True: [], False: []}
    while len(sides[True]) < 2 or not sides[False]:
        sent = refunded(ground)
        proposed = datetime.fromisoformat(ground.history(str(sent.action_id))[0]["at"])
        action_id = UUID(str(sent.action_id))
        sides[scope.covers(tenant_id=tenant, tool=TOOL, action_id=action_id, proposed_at=proposed)].append(sent)
    assert {judged_by(ground, each) for each in sides[True]} == {"closer"}
    assert {judged_by(ground, each) for each in sides[False]} == {before["version"]}
    told = done(ground.operator.post(f"{path}/gates"))
    assert (told["state"], told["needs"]) == ("READY", [])
    [passed] = (gate for gate in told["gates"] if gate["gate"] == "RG-03")
    assert passed["summary"].endswith("of 2 actions of the canary have ended, none of the figures is worse.")

    for role, person in people.items():
        assert ground.operator.get("/policies")["verification"]["version"] == before["version"]
        done(person.post(f"{path}/promotion", words[role]))
    after = refunded(ground)
    assert judged_by(ground, after) == "closer"

    back = words["operator"] | {"version": before["version"]}
    done(people["operator"].post("/policies/verification/rollback", back))
    assert judged_by(ground, refunded(ground)) == before["version"]
    assert judged_by(ground, after) == "closer", "what was decided under it keeps its name"
    assert ground.operator.get(path)["state"] == "ROLLED_BACK"
