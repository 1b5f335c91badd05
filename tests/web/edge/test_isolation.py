"""What one tenant cannot use of another's where it is named in a body or kept in a file.

That no address answers anything of another tenant is asked of all of them in test_every_address.py.
"""

from __future__ import annotations

import json

import pytest

from console.recordings.queries import recordings
from ledger.db import tenancy
from tests.support.api_tenant import GOAL, Workshop, workshop
from tests.support.callers import person_for
from tests.support.outside.recorded import keep_recording

ROLES = ("reviewer", "operator", "compliance", "administrator")


@pytest.mark.req("R-CX-03", "R-TG-01")
def test_a_call_cannot_depend_on_an_action_of_another_tenant(shop: Workshop):
    foreign = shop.propose()
    other = workshop("willow").set_up()
    for field in ("depends_on", "acknowledges"):
        told = json.dumps(other.call(**{field: [foreign]})).replace(foreign, "")
        assert str(shop.tenant) not in told
        assert GOAL not in told
    assert other.call(depends_on=[foreign])["result"]["error"]["code"] == "UNRESOLVED_DEPENDENCY"


@pytest.mark.req("R-CX-03")
def test_a_grant_is_not_valid_in_another_tenant(shop: Workshop):
    order = shop.claimed()
    other = workshop("willow").set_up()
    other.key = shop.key
    other.register()
    theirs = other.approved()
    refusals = {order["action_id"]: (404, "NOT_FOUND"), theirs: (403, "GRANT_INVALID")}
    for action_id, refusal in refusals.items():
        answer = other.start({"action_id": action_id, "grant": order["grant"]})
        assert (answer.status_code, answer.json()["code"]) == refusal
    assert shop.start(order).status_code == 201


@pytest.mark.req("R-CX-03")
def test_a_recording_is_visible_only_in_its_tenant(shop: Workshop):
    keep_recording("orchid", name="orchids-own.jsonl")
    other = workshop("willow")
    with tenancy(shop.tenant):
        [row] = recordings(shop.tenant, limit=2)
    stranger = person_for(other.tenant, *ROLES, name="everything@willow")
    for slug in ("willow", shop.slug):
        for path in (f"{row.id}", f"{row.id}/1", f"{row.id}?words=reservation"):
            answer = stranger.client.get(f"/t/{slug}/recordings/{path}")
            assert answer.status_code == 404
            assert b"ABC123" not in answer.content
        asked = {"legal_basis": "x", "reason": "y"}
        assert stranger.client.post(f"/t/{slug}/recordings/{row.id}/erase", asked).status_code == 404
    assert b"orchids-own" not in stranger.client.get("/t/willow/recordings").content
    with tenancy(other.tenant):
        assert recordings(shop.tenant, limit=2) == []
