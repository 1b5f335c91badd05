"""Forty situations of tickets, deployments, mail and access rights, told of a claim that was not gated."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ledger.db import tenancy
from ledger.models import System
from reviews.checks.catalogue import check_for
from reviews.systems.descriptions import shipped_descriptions
from tests.support.outside import described_systems
from tests.web.claims import imap_server, machines
from tests.web.claims.desk import Desk
from tests.web.claims.forty_situations import DONE, SITUATIONS, Situation

PATTERNS = {"tickets": "zendesk_tickets", "access rights": "okta_members"}


@pytest.fixture
def place(desk: Desk, situation: Situation, secrets_dir: Path) -> Iterator[Any]:
    """The system of this situation, registered, and its description tried where it is described."""
    with ExitStack() as ending:
        if situation.kind == "deployments":
            made: Any = {name: ending.enter_context(machines.running_machine()) for name in ("eu", "us")}
            regions = {name: {"orchestrator": at.url, "instances": {"shop": [at.url]}} for name, at in made.items()}
            pattern, settings, credential = (
                "deployments",
                {"regions": regions},
                {"addresses": [at.url for at in made.values()]},
            )
        elif situation.kind == "mail":
            made = ending.enter_context(imap_server.served())
            settings = {"host": "127.0.0.1", "port": made.port, "tls": "none", "records_everything": True}
            settings |= {"reports": "Reports", "quarantine": ["Quarantine"]}
            pattern, credential = "email", {"user": "ann", "password": imap_server.PASSWORD}
            credential |= {"host": "127.0.0.1", "port": made.port}
        else:
            pattern = PATTERNS[situation.kind]
            made = ending.enter_context(described_systems.served(pattern))
            settings, credential = {"url": made.url}, {"url": made.url, **made.data["credential"]}
        name = situation.claim["system"]
        (secrets_dir / "systems" / desk.shop.slug / f"{name}.json").write_text(json.dumps(credential))
        body = {"name": name, "pattern": pattern, "settings": settings}
        answer = desk.shop.operator_key.post("/systems", body)
        assert answer.status_code == 201, answer.content
        if pattern in shipped_descriptions():
            with tenancy(desk.shop.tenant):
                System.objects.filter(name=name).update(tried=shipped_descriptions()[pattern].digest)
        yield made


def test_there_are_forty_situations_ten_of_each_kind():
    assert set(Counter(each.kind for each in SITUATIONS).values()) == {10}
    assert len({each.name for each in SITUATIONS}) == 40
    assert Counter(each.kind for each in SITUATIONS if each.outcome != DONE).most_common()[-1][1] >= 7


@pytest.mark.parametrize("target", ["", "user/00ub0oNGTSWTBKOLGLNR", "order/7"])
def test_no_membership_is_located_without_the_group_that_it_is_in(target: str):
    located = {"kind": "membership", "operation": "00ub0oNGTSWTBKOLGLNR", "settings": {}}
    assert check_for("okta_members").locate(target=target, **located) is None
    assert check_for("okta_members").locate(target="group/00g1", **located) == {
        "match": {"id": '"00ub0oNGTSWTBKOLGLNR"'},
        "of": {"group": '"00g1"'},
    }


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda each: f"{each.kind}: {each.name}".replace(" ", "-"))
def test_it_is_safe_to_claim_only_while_the_system_shows_it(desk: Desk, situation: Situation, place: Any):
    began = datetime.now(UTC)
    situation.bring_about(place)
    located = {"operation": None, "target": None, "done_at": began.isoformat()} | dict(situation.claim)
    claim_id = desk.claim(**located)
    readings = [desk.read(claim_id)]
    if situation.then is not None:
        situation.then(place)
        assert desk.shop.operator_key.post(f"/claims/{claim_id}/verify").status_code == 200
    readings += [desk.read(claim_id, seconds=seconds) for seconds in (6, 20)]
    first, last = situation.outcomes
    told = [(each["outcome"], each["sentence"]) for each in readings]
    assert [each["outcome"] for each in readings] == [first, last, last], told
    for each in readings:
        assert each["safe_to_claim"] is (each["outcome"] == DONE)
        assert each["sentence"].startswith("Safe to claim: " if each["outcome"] == DONE else "Not safe to claim")
    assert situation.says in readings[-1]["sentence"]
