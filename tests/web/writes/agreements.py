"""The writes about standing approvals, releases, contracts and systems: most take a proof, many another person."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.utils import timezone

from ledger.db import tenancy
from tests.support.api_tenant import PASSWORD
from tests.support.api_tour import known_contract
from tests.support.callers import pass_gates
from tests.support.probes import Day
from tests.web.writes.write import Ids, Write, post

WORD = {"reason": "It is the same each day."}
PROVEN = WORD | {"password": PASSWORD}
BOX = WORD | {"minutes": 15, "count": 2}


def _standing(day: Day, *steps: str) -> Ids:
    """A standing approval that somebody with every role proposed, after these steps by a reviewer."""
    offer = day.own["reviewer"].get("/standing-approvals/offers").json()["items"][0]
    ends_at = (timezone.now() + timedelta(days=3)).isoformat()
    wanted = {"shape_digest": offer["shape_digest"], "count": 2, "ends_at": ends_at}
    ids = post(day, "/standing-approvals", wanted | PROVEN, "standing_approval_id")
    for step in steps:
        body = {"answer": PROVEN | {"agree": True}, "pause": WORD}[step]
        post(day, f"/standing-approvals/{ids['standing_approval_id']}/{step}", body, "state", day.own["reviewer"])
    return ids


def _request(day: Day) -> Ids:
    """A request that waits for a vote."""
    return {"approval_id": str(day.shop.approval_of(day.shop.propose(path="old/boxed.md"))["approval_id"])}


def _time_box(day: Day) -> Ids:
    """A time-boxed pass that a reviewer gave from a request."""
    path = f"/approvals/{_request(day)['approval_id']}/time-boxed-pass"
    return post(day, path, BOX | PROVEN, "standing_approval_id", day.own["reviewer"])


def _of_standing(step: str, event: str, said: str, *steps: str, **given: Any) -> Write:
    page = "stop" if step in ("pause", "end") else step
    to = {"pause": {"to": "pause"}, "end": {"to": "end"}, "answer": {"to": "agree"}}.get(step, {})
    return Write(
        operation=f"standing_approvals_{step}",
        path=f"/standing-approvals/{{standing_approval_id}}/{step}",
        page=f"standing-approval-{page}",
        events=(f"standing_approval_{event}",),
        said=said,
        begin=lambda day: _standing(day, *steps),
        body=WORD | given,
        form=WORD | to,
        faults=(to, to | {"reason": "r" * 4001}),
    )


STOPPED = "Stopped. Each call needs approval again."
RESUMED = "Proposed. It resumes once another person agrees."
STANDING_APPROVALS = (
    _of_standing("answer", "agreed", "In force: matching calls pass within the budget.", agree=True),
    _of_standing("resume", "resume_proposed", RESUMED, "answer", "pause"),
    _of_standing("pause", "paused", STOPPED, "answer"),
    _of_standing("end", "ended", STOPPED),
    Write(
        operation="standing_approvals_give_time_boxed_pass",
        path="/approvals/{approval_id}/time-boxed-pass",
        page="approval-time-boxed-pass",
        events=("time_boxed_pass_given",),
        said="Such calls pass without a vote now. This request still waits for a decision.",
        begin=_request,
        body=BOX,
        form=BOX,
        faults=({}, BOX | {"minutes": "61"}, BOX | {"count": "x"}, BOX | {"reason": "r" * 4001}),
        makes=True,
    ),
    Write(
        operation="standing_approvals_revoke_time_boxed_pass",
        path="/standing-approvals/{standing_approval_id}/revoke",
        page="standing-approval-revoke",
        events=("time_boxed_pass_revoked",),
        said="Revoked. Each call needs approval again.",
        begin=_time_box,
        body=WORD,
        form=WORD,
        faults=({"reason": "r" * 4001},),
    ),
)


def _release(day: Day, *, red: str = "", promoted: bool = False) -> Ids:
    """A draft of the recovery policy by a machine, with gates that passed but `red`."""
    draft = {"kind": "recovery", "version": "9", "document": {"table": "built-in"}, "reason": "A try."}
    ids = post(day, "/releases", draft, "release_id", day.shop.operator_key)
    with tenancy(day.shop.tenant):
        pass_gates(day.shop.tenant, UUID(ids["release_id"]), but=red)
    if promoted:
        post(day, f"/releases/{ids['release_id']}/promotion", PROVEN, "state")
    return ids


PAGES = {"signatures": "sign", "promotion": "promote"}


def _of_release(
    step: str, page: str, events: tuple[str, ...], said: str, begin: Callable[[Day], Ids], **given: Any
) -> Write:
    too_long = {"reason": "r" * 4001}
    return Write(
        operation=f"releases_{step}",
        path=f"/releases/{{release_id}}/{page}",
        page=f"release-{PAGES.get(page, page)}",
        events=events,
        said=said,
        begin=begin,
        body=given,
        form=given,
        faults=({}, given | too_long)
        if "reason" in given
        else ({}, {"share": "0", "actions": "x", "tools": "a," * 200}),
    )


CANARY = {"share": 10, "actions": 5}
RELEASES = (
    _of_release(
        "sign",
        "signatures",
        ("release_gate_signed",),
        "You signed RG-02 (Predicate diff review).",
        lambda day: _release(day, red="RG-02"),
        gate="RG-02",
        **WORD,
    ),
    _of_release(
        "start_canary",
        "canary",
        ("release_canary_started", "policy_canary_started"),
        "Canary started: it decides actions proposed from now on.",
        lambda day: _release(day, red="RG-03"),
        **CANARY,
    ),
    _of_release(
        "promote",
        "promotion",
        ("policy_superseded", "release_promoted", "policy_activated"),
        "It is in force.",
        lambda day: _release(day, promoted=True),
        **WORD,
    ),
    _of_release("end", "end", ("release_withdrawn",), "Withdrawn.", _release, **WORD),
)


def _weaker_contract(day: Day) -> Ids:
    known = day.shop.operator_key.get(known_contract()).json()["document"]
    weaker = known | {"version": "0.8.0", "transaction_boundary": "LOCAL_TRANSACTION"}
    post(day, "/contracts", weaker, "state")
    return _contract("delete_document", "0.8.0")


def _contract(name: str, version: str) -> Ids:
    return {"name": name, "version": version, "contract_name": name, "contract_version": version}


def _replaced_contract(day: Day) -> Ids:
    """The version before one that changed what is verified."""
    stricter = day.shop.operator_key.get("/contracts/write_document/1.0.0").json()["document"] | {"version": "1.1.0"}
    stricter["verification"]["predicates"].append("sa.size >= 0")
    day.shop.operator_key.api.release_contract(stricter)
    return _contract("write_document", "1.0.0")


def _spare_contract(day: Day) -> Ids:
    known = day.shop.operator_key.get(known_contract()).json()["document"]
    post(day, "/contracts", known | {"name": "spare_document", "version": "1"}, "state")
    return _contract("spare_document", "1")


CONTRACTS = (
    Write(
        operation="registry_answer_contract",
        path="/contracts/{name}/{version}/answer",
        page="contract-answer",
        events=("contract_confirmed",),
        said="Confirmed. It applies to agents registered for this version or its range.",
        begin=_weaker_contract,
        body=WORD | {"confirm": True},
        form=WORD | {"to": "confirm"},
        faults=({}, {"to": "confirm"}, {"to": "decline", "reason": "r" * 4001}, {"to": "perhaps", **WORD}),
    ),
    Write(
        operation="registry_retire_contract",
        path="/contracts/{name}/{version}/retirement",
        page="contract-retire",
        events=("contract_retired",),
        said="Retired: 1. Nothing new is proposed under it.",
        begin=_spare_contract,
        body=WORD,
        form=WORD,
        faults=({}, {"reason": "r" * 4001}, WORD | {"ends_tool": "no"}),
    ),
    Write(
        operation="releases_roll_back_contract",
        path="/contracts/{name}/{version}/rollback",
        page="contract-rollback",
        events=("contract_rolled_back",),
        said="Rolled back. Version 1.0.0 is the newest in force.",
        begin=_replaced_contract,
        body=WORD,
        form=WORD,
        faults=({}, {"reason": "r" * 4001}),
    ),
)


def _moved_system(day: Day) -> Ids:
    post(day, "/systems", {"name": "shop", "pattern": "databases", "settings": {"host": "127.0.0.3"}}, "name")
    return _system(day)


def _system(day: Day) -> Ids:
    systems = day.shop.operator_key.get("/systems").json()["items"]
    return {"name": "shop", "system_id": next(each["system_id"] for each in systems if each["name"] == "shop")}


def _stopped_system(day: Day) -> Ids:
    post(day, "/systems/shop/stop-releasing", WORD, "name", day.own["operator"])
    return _system(day)


SYSTEMS = (
    Write(
        operation="systems_answer_system",
        path="/systems/{name}/answer",
        page="system-answer",
        events=("system_change_confirmed",),
        said="Confirmed. The new settings of shop apply.",
        begin=_moved_system,
        body=WORD | {"confirm": True},
        form=WORD | {"to": "confirm"},
        faults=({}, {"to": "confirm"}, {"to": "decline", "reason": "r" * 4001}),
    ),
    Write(
        operation="systems_register_system",
        path="/systems",
        page="system-register",
        events=("system_registered",),
        said="files is registered. Put its credential where its panel says, then test the connection.",
        body={"name": "files", "pattern": "filesystems", "settings": {"root": "/srv/files"}},
        form={"name": "files", "pattern": "filesystems", "settings": '{"root": "/srv/files"}'},
        faults=({}, {"name": "files", "pattern": "filesystems", "settings": "[]"}),
    ),
    Write(
        operation="systems_stop_releasing",
        path="/systems/{name}/stop-releasing",
        page="system-stop",
        events=("releasing_stopped",),
        said="Irreversible actions on shop are paused.",
        begin=_system,
        body=WORD,
        form=WORD,
        faults=({},),
    ),
    Write(
        operation="systems_resume_releasing",
        path="/systems/{name}/resume-releasing",
        page="system-resume",
        events=("releasing_resumed",),
        said="Actions on shop are resumed, provided that it answers.",
        begin=_stopped_system,
        body=WORD,
        form=WORD,
        faults=({},),
    ),
)
