"""One day of a tenant: each call of the API at least once, by whoever makes it, and what came back."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from django.utils import timezone

from console.event_export.destinations import Destination
from console.handoffs.documents import HANDOFFS
from console.installation.off_boarding import request_off_boarding
from console.tasks import count_metrics, watch_alerts
from ledger.catalogue.rules.policies import default_policy
from ledger.db import tenancy
from reviews import tasks
from reviews.observations.rules import webhooks
from tests.support import exported, people, seals, settling
from tests.support.api_tenant import CONTRACTS, GOAL, PASSWORD, TOOLS, Clock, Workshop, document, result
from tests.support.callers import Api, pass_gates, person_for
from tests.support.outside.recorded import keep_recording
from tests.support.seals import seal_up
from tests.support.signing import actor_of, ask, cast, enrolled, wanted

FREEZE = {"scope": "tool", "value": "delete_document", "reason": "Something is wrong with it."}
SITUATION = {"triggers": ["NO_OP_FAILURE"], "side_effect_class": "LOW_RISK_INTERNAL", "reversibility": "REVERSIBLE"}
SECRET = "whsec_" + b64encode(b"a secret of at least 24 bytes").decode()
CALLERS = ("agent", "operator_key", "executor", "auditor", "reviewer", "operator")


@dataclass(frozen=True)
class Sent:
    """One call and its answer."""

    method: str
    path: str
    body: Any
    headers: dict[str, str]
    status: int
    kind: str
    content: bytes

    @property
    def text(self) -> str:
        """All that the caller said."""
        return f"{self.path} {json.dumps(self.body)} {self.headers}"


class Recorded:
    """A caller whose calls are kept."""

    def __init__(self, api: Api, sent: list[Sent]) -> None:
        self.api = api
        self.client = api.client
        self.headers = api.headers
        self.sent = sent

    def get(self, path: str, **headers: str) -> Any:
        return self._keep("GET", path, None, headers, self.api.get(path, **headers))

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self._keep("POST", path, body if body is not None else {}, headers, self.api.post(path, body, **headers))

    def release(self, kind: str, body: Any) -> Any:
        """Not kept: it prepares what a step needs."""
        return self.api.release(kind, body)

    def _keep(self, method: str, path: str, body: Any, headers: dict[str, str], answer: Any) -> Any:
        kind = answer["Content-Type"]
        self.sent.append(Sent(method, path, body, headers, answer.status_code, kind, answer.getvalue()))
        return answer


DESTINATIONS: Final = {
    "orchid": {"soc": Destination("webhook", "http://127.0.0.1:9/soc", ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",))}
}
"""Where nobody listens."""


def spend(shop: Workshop, clock: Clock) -> list[Sent]:
    """Everything that happened, in order."""
    sent: list[Sent] = []
    for name in CALLERS:
        setattr(shop, name, Recorded(getattr(shop, name), sent))
    register(shop)
    session = propose(shop)
    case = execute(shop, clock)
    look(shop, session, case)
    settle(shop, case)
    let_through(shop)
    agree(shop, clock, lambda api: Recorded(api, sent))
    tell(shop, lambda api: Recorded(api, sent))
    retain(shop, lambda api: Recorded(api, sent))
    people.administer(shop, lambda api: Recorded(api, sent))
    browse(shop)
    audit(shop)
    return sent


def register(shop: Workshop) -> None:
    shop.operator_key.get("/system-patterns/databases")
    shop.operator_key.post("/systems", {"name": "shop", "pattern": "databases"})
    answer_for(shop)
    wait_for_a_second_person(shop)
    shop.operator_key.post("/contracts", json.loads((CONTRACTS / "issue_refund.json").read_text()))
    shop.operator_key.post("/agents", {"agent_id": "temp", "version": "1", "tools": []})
    shop.operator_key.post("/agents/temp/revoke", {"reason": "It was a trial."})
    shop.operator_key.get("/agents/temp/revocation")
    release(shop)
    shop.register(executor_id="second")


def release(shop: Workshop) -> None:
    """A recovery policy on its way into force, and back; another one that is withdrawn; one in force, sent again."""
    shop.operator_key.post("/policies/approval", {"version": "1", "document": default_policy("approval")})
    for name in ("first", "second"):
        person = shop.person("administrator", name=f"{name}@releases")
        setattr(shop, name, type(shop.operator)(person, shop.operator.sent))
    people = [shop.first, shop.second]
    word = {"reason": "It was tried.", "password": PASSWORD}
    for version in ("2", "3"):
        draft = {"kind": "recovery", "version": version, "document": {"table": "built-in"}, "reason": "A try."}
        made = shop.operator_key.post("/releases", draft).json()["release_id"]
        shop.operator_key.post(f"/releases/{made}/gates")
        with tenancy(shop.tenant):
            pass_gates(shop.tenant, UUID(made), but="RG-02" if version == "2" else "RG-03")
        path = f"/releases/{made}"
        people[0].post(f"{path}/signatures", word | {"gate": "RG-02"})
        if version == "2":
            for each in people:
                each.post(f"{path}/promotion", word)
        else:
            people[0].post(f"{path}/canary", {"share": 10})
            people[0].post(f"{path}/end", {"reason": "It was a trial."})
        shop.operator.get(path)
    people[1].post("/policies/recovery/rollback", word | {"version": "1"})
    stricter = shop.operator_key.get("/contracts/write_document/1.0.0").json()["document"] | {"version": "0.9.1"}
    stricter["verification"]["predicates"].append("sa.size >= 0")
    made = shop.operator_key.post("/contracts/releases?reason=A+try.", stricter).json()["release_id"]
    with tenancy(shop.tenant):
        pass_gates(shop.tenant, UUID(made))
    for each in people:
        each.post(f"/releases/{made}/promotion", word)
    people[1].post("/contracts/write_document/1.0.0/rollback", word)
    spare = shop.operator_key.get(known_contract()).json()["document"] | {"name": "shred_document", "version": "1"}
    shop.operator_key.post("/contracts", spare)
    people[1].post("/contracts/shred_document/1/retirement", word)
    shop.operator.get("/releases")


def wait_for_a_second_person(shop: Workshop) -> None:
    """A weaker contract and a system that moves, both declined."""
    declined = {"confirm": False, "reason": "Nobody asked for it."}
    known = shop.operator_key.get(known_contract()).json()["document"]
    shop.operator_key.post("/contracts", known | {"version": "0.9.0", "transaction_boundary": "LOCAL_TRANSACTION"})
    shop.operator.post("/contracts/delete_document/0.9.0/answer", declined)
    shop.operator_key.post("/systems", {"name": "shop", "pattern": "databases", "settings": {"host": "127.0.0.2"}})
    shop.operator.post("/systems/shop/answer", declined)


def known_contract() -> str:
    """The address of a contract that the example has, in the version that it has."""
    document = json.loads((CONTRACTS / "delete_document.json").read_text())
    return f"/contracts/{document['name']}/{document['version']}"


def answer_for(shop: Workshop) -> None:
    """The systems' day: an address for webhooks, and a stop that did not last."""
    path = "/systems/shop/hooks"
    made = shop.operator_key.post(path, {"secret": SECRET}).json()
    hook = made["hook_id"]
    shop.operator_key.get(path)
    shop.operator_key.post(f"{path}/{hook}/rotate", {"secret": SECRET})
    shop.operator_key.post(made["path"].removeprefix("/api/v1"), {}, **signed())
    shop.operator_key.post(f"{path}/{hook}/revoke", {"reason": "It was a trial."})
    shop.operator.post("/systems/shop/stop-releasing", {"reason": "They migrate."})
    shop.operator.post("/systems/shop/resume-releasing", {"reason": "They are through."})


def signed() -> dict[str, str]:
    """The headers of a webhook whose body is an empty object."""
    at = str(int(timezone.now().timestamp()))
    made = webhooks.signature(webhooks.decode_secret(SECRET), webhook_id="msg_1", timestamp=at, body=b"{}")
    return {"webhook-id": "msg_1", "webhook-timestamp": at, "webhook-signature": made}


def propose(shop: Workshop) -> str:
    session = str(shop.session()["session_id"])
    shop.agent.post(f"/sessions/{session}/ask-check", {"goal": GOAL})
    shop.agent.post(f"/sessions/{session}/surface", {"withheld": [{"tool": "purge", "fate": "unregistered"}]})
    shop.agent.post(f"/sessions/{session}/guard", {"message": "I have deleted old/one.md."})
    shop.agent.get(f"/sessions/{session}/guard")
    shop.agent.post(f"/sessions/{session}/close")
    shop.agent.post(f"/actions/{shop.propose(path='old/one.md')}/cancel", {"reason": "No longer wanted."})
    return session


def decide(shop: Workshop) -> None:
    """A call of another gateway, which is allowed, made, and its outcome."""
    session = shop.session()
    call = {"call_id": "decided", "tool": "write_document", "arguments": document("notes/decided.md", "Decided.")}
    start = {"executor_id": "runner", "wrapper_version": "1", "timeout_s": 20}
    bearer = shop.executor.headers["Authorization"]
    body = {"session_id": session["session_id"], "agent_id": "librarian", "start": start}
    body["call"] = call | {"pin_hash": session["pin"]["hash"]}

    def ask() -> Any:
        told = {"method": "POST", "url": "http://testserver/api/v1/decide", "at": timezone.now().timestamp()}
        proof = shop.key.proof(token=bearer.removeprefix("Bearer "), **told)
        return shop.agent.post("/decide", body, **{"Executor-Authorization": bearer, "Executor-DPoP": proof}).json()

    decided = ask()
    if decided["decision"] == "wait":
        shop.vote(shop.approval_of(decided["task_id"]))
        seal_up()
        decided = ask()
    assert decided["decision"] == "allow", decided
    (shop.root / "notes").mkdir(exist_ok=True)
    (shop.root / "notes" / "decided.md").write_text("Decided.")
    path = f"/decisions/{decided['decision_id']}/outcome?attempt={decided['started']['attempt']}"
    shop.executor.post(path, {"result": result(tool="write_document")})


def execute(shop: Workshop, clock: Clock) -> dict[str, Any]:
    decide(shop)
    started = shop.started()
    shop.heartbeat(started)
    shop.observe(started)
    shop.operator_key.post(f"/actions/{started['action_id']}/verify")
    clock.forward(seconds=90)
    shop.read_back(started["action_id"], clock)
    case = shop.case_of(started["action_id"])
    assert case is not None
    take_up(shop, clock)
    return case


def take_up(shop: Workshop, clock: Clock) -> None:
    """An action that nothing can read back, and the case that an operator opens for it."""
    note = json.loads((CONTRACTS / "write_document.json").read_text())
    note |= {"name": "leave_note", "side_effect_class": "LOW_RISK_INTERNAL", "recovery": {}}
    for part in ("verification", "approval", "report", "claims", "next_tools"):
        note.pop(part, None)
    shop.operator_key.post("/contracts", note)
    shop.operator_key.post("/agents", {"agent_id": "clerk", "version": "1", "tools": ["leave_note"]})
    tools = [*TOOLS, "leave_note"]
    shop.executor.post("/executors", {"executor_id": "runner", "public_jwk": shop.key.public_jwk, "tools": tools})
    shop.executor.post("/executors/runner/kept", {"starts": []})
    session = shop.session(agent_id="clerk")
    call = {"call_id": "note", "tool": "leave_note", "arguments": document("notes/away.md", "Away.")}
    path = f"/sessions/{session['session_id']}/calls"
    answer = shop.agent.post(path, {"calls": [call | {"pin_hash": session["pin"]["hash"]}]}).json()
    action_id = answer["results"][0]["action_id"]
    started = shop.start(next(each for each in shop.claim() if each["action_id"] == action_id)).json()
    shop.observe(started, result=result(tool="leave_note", evidence=None))
    clock.forward(seconds=30)
    shop.read_back(action_id, clock)
    opened = shop.operator.post(f"/actions/{action_id}/case", {"reason": "The agent waits for it."})
    assert opened.status_code == 201, opened.content


def look(shop: Workshop, session: str, case: dict[str, Any]) -> None:
    for path in ("/agents", "/agents/librarian", "/contracts", known_contract(), "/policies"):
        shop.operator_key.get(path)
    for path in ("/systems", "/freezes", "/state-machine", "/livez", "/readyz", "/statusz", "/jwks.json", "/metrics"):
        shop.operator_key.get(path)
    for path in ("", "/history", "/report"):
        for reader in (shop.agent, shop.operator_key, shop.auditor, shop.reviewer):
            reader.get(f"/actions/{case['action_id']}{path}")
    for reader in (shop.operator_key, shop.auditor, shop.reviewer):
        reader.get(f"/actions/{case['action_id']}/runs")
        reader.get(f"/actions/{case['action_id']}/effect-receipt")
        reader.get(f"/actions/{case['action_id']}/signed-receipts")
        reader.get(f"/actions/{case['action_id']}/trace")
        reader.get(f"/actions/{case['action_id']}/replay?recovery_policy=1")
        reader.get(f"/replay-bundles/{case['action_id']}")
    for path in ("", "/context", "/summary"):
        shop.agent.get(f"/sessions/{session}{path}")
    shop.auditor.get("/actions")
    shop.executor.get("/executions/ready?tools=delete_document")
    measure(shop, case)
    talk(shop)
    change(shop)
    sign(shop)
    approval = shop.reviewer.get("/approvals?state=CONSUMED").json()["items"][0]["approval_id"]
    shop.reviewer.get(f"/approvals/{approval}")
    shop.reviewer.get("/approvals/quality")
    shop.operator.get(f"/reviews/{case['case_id']}")


def measure(shop: Workshop, case: dict[str, Any]) -> None:
    """The figures, and the actions behind one of them."""
    told = {"told": "In the chat: it is done.", "reason": "The document was still there."}
    shop.operator_key.post(f"/actions/{case['action_id']}/false-success", told)
    count_metrics()
    thresholds = {"raise_at": 1000, "clear_at": 500, "least_cases": 1, "hold_min": 0}
    rule = shop.operator_key.post("/alert-rules", {"metric": "M-17", "window_h": 24} | thresholds).json()
    path = f"/alert-rules/{rule['alert_rule_id']}"
    shop.operator_key.post(f"{path}/change", thresholds | {"clear_at": 200})
    watch_alerts()
    for read in ("/alert-rules", "/alerts?open=true"):
        shop.operator_key.get(read)
    shop.operator_key.post(f"{path}/end", {"reason": "Another rule watches it."})
    cost(shop)
    handoffs = [f"/handoffs/telemetry{rest}" for rest in ("/schema", "/rows.csv", "/rows.jsonl")]
    handoffs += [f"/handoffs/{name}" for name in HANDOFFS]
    for path in ("/handoffs", *handoffs, "/metrics/summary", "/metrics/summary.csv"):
        shop.operator_key.get(path)
    stretch = "from=2026-01-01T00:00:00Z&to=2036-01-01T00:00:00Z"
    shop.operator_key.get(f"/metrics/actions?count=executed&{stretch}")


def cost(shop: Workshop) -> None:
    """What things cost, and what they may cost."""
    session = shop.session()["session_id"]
    price = {"kind": "model_call", "amount": "0.02", "currency": "EUR", "payer": "Library"}
    shop.operator_key.post("/prices", price)
    shop.operator_key.post("/cost-budgets", {"amount": "50", "currency": "EUR"})
    usage = {"model": "large-1", "calls": 3, "input_tokens": 1200}
    shop.agent.post(f"/sessions/{session}/model-usage", usage)
    for read in ("/costs", "/prices", "/cost-budgets"):
        shop.operator_key.get(read)
    ended = shop.operator_key.post("/prices", price | {"kind": "reading"}).json()["price_id"]
    shop.operator_key.post(f"/prices/{ended}/end", {"reason": "Readings are free."})
    other = shop.operator_key.post("/cost-budgets", {"amount": "5", "currency": "USD"}).json()["budget_id"]
    shop.operator_key.post(f"/cost-budgets/{other}/end", {"reason": "Nothing is priced in it."})


def talk(shop: Workshop) -> None:
    """Somebody looks after an approval, and asks the agent before deciding."""
    action = shop.propose(path="old/three.md")
    path = f"/approvals/{shop.approval_of(action)['approval_id']}"
    for step in ("claim", "release"):
        shop.reviewer.post(f"{path}/{step}")
    shop.operator.post(f"{path}/assign")
    shop.operator.post(f"{path}/comments", {"text": "Whose file is this?"})
    question = shop.reviewer.post(f"{path}/questions", {"text": "Does anybody link to it?"}).json()["line_id"]
    shop.agent.get(f"/actions/{action}")
    shop.agent.post(f"/actions/{action}/answers", {"question_id": question, "text": "No page links to it."})
    shop.reviewer.get(f"{path}/thread")
    shop.reviewer.get("/approvals?risk=LOW&sort=oldest")
    shop.reviewer.get("/inbox")
    vote_on_two(shop)
    shop.agent.post(f"/actions/{action}/cancel", {"reason": "No longer wanted."})


def change(shop: Workshop) -> None:
    """A reviewer edits what was asked for, after a look at what that would change."""
    approval = shop.approval_of(shop.propose(path="old/five.md"))
    body = {
        "payload": {"path": "old/six.md", "reason": "It is out of date."},
        "payload_hash": approval["payload_hash"],
        "reason": "Five is still in use.",
    }
    path = f"/approvals/{approval['approval_id']}/edit"
    shop.reviewer.post(f"{path}-preview", {name: body[name] for name in ("payload", "payload_hash")})
    made = shop.reviewer.post(path, body).json()
    shop.agent.get(f"/actions/{made['supersedes']}")
    shop.agent.post(f"/actions/{made['action_id']}/cancel", {"reason": "No longer wanted."})


def let_through(shop: Workshop) -> None:
    """An emergency: one operator alone, and a reviewer who looks at it afterwards."""
    rule = {"enabled": True, "step_up": "C", "reviewers": 1}
    shop.operator_key.release("approval", {"version": "glass", "document": {"break_glass": rule}})
    approval = shop.approval_of(shop.propose(path="old/burning.md"))
    shop.vote(approval, shop.operator, verdict="break_glass", reason="It is on fire.")
    used = shop.operator.get("/emergencies").json()["items"][0]["emergency_id"]
    shop.reviewer.post(f"/emergencies/{used}/reviews", {"finding": "justified", "reason": "It was."})


def agree(shop: Workshop, clock: Clock, watched: Callable[[Api], Any]) -> None:
    """Three deletions are approved and verified; two people agree to a standing approval, pause it, let it go on, end
    it; one of them gives a time-boxed pass.
    """
    boxes = {"most_minutes": 30, "most_count": 5}
    document = {"standing_approvals": {"after": 3, "irreversible": True, "time_boxes": boxes}}
    shop.operator_key.release("approval", {"version": "standing", "document": document})
    known = {each["name"]: each for each in shop.operator_key.get("/systems").json()["items"]}
    root = Path(known["documents"]["settings"]["root"])
    for number in range(3):
        (root / "old").mkdir(exist_ok=True)
        (root / "old" / f"standing-{number}.md").write_text("Nobody reads it.")
        started = shop.started(path=f"old/standing-{number}.md")
        (root / "old" / f"standing-{number}.md").unlink()
        shop.observe(started)
        clock.forward(seconds=60)
        shop.read_back(started["action_id"], clock)
    second = watched(person_for(shop.tenant, "reviewer", name=f"stan@{shop.slug}"))
    offer = shop.reviewer.get("/standing-approvals/offers").json()["items"][0]
    word = {"reason": "It is the same each day.", "password": PASSWORD}
    ends_at = (timezone.now() + timedelta(days=3)).isoformat()
    wanted = {"shape_digest": offer["shape_digest"], "count": 2, "ends_at": ends_at}
    made = shop.reviewer.post("/standing-approvals", wanted | word).json()
    path = f"/standing-approvals/{made['standing_approval_id']}"
    second.post(f"{path}/answer", {"agree": True} | word)
    (root / "old" / "standing-0.md").write_text("Somebody put it back.")
    shop.propose(path="old/standing-0.md")
    assert shop.reviewer.get(path).json()["used_count"] == 1
    second.post(f"{path}/pause", {"reason": "I want to look at it again."})
    second.post(f"{path}/resume", word)
    shop.reviewer.post(f"{path}/answer", {"agree": True} | word)
    shop.reviewer.get("/standing-approvals")
    second.post(f"{path}/end", {"reason": "The folder is empty."})
    give_time_boxed_pass(shop, second)


def give_time_boxed_pass(shop: Workshop, reviewer: Any) -> None:
    """A reviewer alone lets deletions in a folder through for a quarter of an hour, one passes, and it is revoked."""
    approval = shop.approval_of(shop.propose(path="old/boxed-1.md"))["approval_id"]
    wanted = {"minutes": 15, "count": 2, "reason": "The folder is emptied now.", "password": PASSWORD}
    made = reviewer.post(f"/approvals/{approval}/time-boxed-pass", wanted).json()
    shop.propose(path="old/boxed-2.md")
    path = f"/standing-approvals/{made['standing_approval_id']}"
    assert shop.reviewer.get(path).json()["used_count"] == 1
    reviewer.post(f"{path}/revoke", {"reason": "It is done."})


def sign(shop: Workshop) -> None:
    """Somebody signs a vote with a passkey."""
    one = enrolled(shop.tenant, actor_of(shop.tenant, shop.reviewer))
    approval = shop.approval_of(shop.propose(path="old/four.md"))
    against = {"verdict": "reject", "reason": "Somebody links to it."}
    challenge = ask(shop.reviewer, approval, **against).json()
    cast(shop.reviewer, approval, challenge, one.answer(wanted(challenge)), **against)


def vote_on_two(shop: Workshop) -> None:
    """Notes are asked for by policy and of low risk: two of them are voted on at once."""
    document = {
        "version": "2",
        "require": [{"tool": "write_document"}],
        "batch": {"most": 10, "side_effect_classes": ["EPHEMERAL_WRITE"]},
    }
    shop.operator_key.release("approval", {"version": "2", "document": document})
    asked = [shop.approval_of(shop.propose("write_document")) for _ in range(2)]
    items = [
        {name: each[name] for name in ("approval_id", "payload_hash", "rendering_digest")}
        | {"without_reading": each["target_unread"]}
        for each in asked
    ]
    shop.reviewer.post("/votes", {"verdict": "approve", "items": items, "password": PASSWORD})


def settle(shop: Workshop, case: dict[str, Any]) -> None:
    path = f"/reviews/{case['case_id']}"
    evidence = {"action_id": case["action_id"], "text": "The file is still there."}
    pointer = shop.operator.post("/evidence", evidence).json()["pointer"]
    for step in ("claim", "release"):
        shop.operator.post(f"{path}/{step}")
    shop.operator.post(f"{path}/comments", {"text": "I asked the owner."})
    owner = shop.operator.post(f"{path}/claim").json()["claimed_by"]
    shop.operator.post(f"{path}/assign", {"to": owner})
    sleep = {"until": (timezone.now() + timedelta(hours=4)).isoformat(), "reason": "The owner is asleep."}
    shop.operator.post(f"{path}/snooze", sleep)
    shop.operator.post(f"{path}/wake")
    word = {"resolution": "ATTEST_ABSENT", "reason": "I looked.", "evidence": [pointer]}
    enrolled(shop.tenant, actor_of(shop.tenant, shop.operator))
    shop.operator.post(f"{path}/challenges", word | {"covers": settling.screen(shop.operator, case["case_id"])})
    settling.settle(shop.operator, case["case_id"], **word)
    settling.confirm(shop.reviewer, case["case_id"])
    shop.operator.post(f"{path}/reopen", {"reason": "The file is back."})
    incident(shop, case)
    claim(shop)
    batch = shop.operator.post("/batches", {"kind": "CLAIM", "cases": [case["case_id"]]}).json()["batch_id"]
    shop.operator.get(f"/batches/{batch}")
    for step in ("pause", "resume", "cancel"):
        shop.operator.post(f"/batches/{batch}/{step}")
    run = shop.auditor.get(f"/actions/{case['action_id']}").json()["entry"]["workflow_run_id"]
    shop.agent.get(f"/runs/{run}")
    shop.operator_key.post(f"/runs/{run}/cancel", {"reason": "It is no longer wanted."})
    shop.operator_key.post("/recovery/decide", SITUATION)
    shop.operator_key.post("/policies/recovery/simulation", {"version": "1"})
    shop.reviewer.get("/recovery/strategies")
    freeze = shop.operator.post("/freezes", FREEZE).json()["freeze_id"]
    shop.operator.get("/freezes")
    shop.operator.post(f"/freezes/{freeze}/lift", {"reason": "It is mended."})
    shop.operator.get("/ledger/standing")
    wish = {"tools": ["write_document"], "minutes": 5, "reason": "The shop is closed otherwise."}
    override = shop.operator.post("/ledger/overrides", wish).json().get("id", case["case_id"])
    shop.operator.post(f"/ledger/overrides/{override}/end", {"reason": "Enough."})


def browse(shop: Workshop) -> None:
    """Somebody imports recorded conversations, and three who may look do."""
    recording = f"/recordings/{keep_recording(shop.slug)}"
    for reader in (shop.operator_key, shop.auditor, shop.reviewer):
        reader.get("/recordings?q=cancelled&blocked=true")
        for path in ("", "/conversations?order=file", "/conversations/1"):
            reader.get(f"{recording}{path}")


def audit(shop: Workshop) -> None:
    """Somebody looks whether the log is what it says it is, and takes a part of it along."""
    seals.seal_up()
    for path in ("checkpoint", "tile/0/000.p/3", "tile/entries/000.p/3", "events?from=2"):
        shop.auditor.get(f"/ledger/{path}")
    shop.auditor.get("/ledger/proof/inclusion?index=2")
    shop.auditor.get("/ledger/proof/consistency?from=1")
    export = shop.auditor.post("/exports", {"from": 1, "to": 9}).json()["export_id"]
    shop.auditor.get("/exports")
    exported.make(shop.tenant, UUID(export))
    for path in ("", "/bundle"):
        shop.auditor.get(f"/exports/{export}{path}")


def is_of(path: str, template: str) -> bool:
    """Whether a path is one of an address of the OpenAPI document."""
    given, wanted = f"/api/v1{path.partition('?')[0]}".split("/"), template.split("/")
    if wanted[-1] == "{place}":
        # The place of a tile has slashes of its own.
        given = [*given[: len(wanted) - 1], "/".join(given[len(wanted) - 1 :])]
    return len(given) == len(wanted) and all(
        part == form or form.startswith("{") for part, form in zip(given, wanted, strict=True)
    )


def incident(shop: Workshop, case: dict[str, Any]) -> None:
    body = {"title": "Deletions that do not delete", "kind": "operations", "reason": "Two in a day."}
    path = f"/incidents/{shop.operator.post('/incidents', body).json()['incident_id']}"
    shop.operator.post(f"{path}/link", {"cases": [case["case_id"]]})
    shop.operator.post(f"{path}/comments", {"text": "The volume is read-only."})
    shop.operator.get("/incidents")
    shop.operator_key.get(path)
    shop.operator.post(f"{path}/close", {"note": "The volume is writable again."})
    shop.operator.post(f"{path}/reopen", {"reason": "It is not."})


def claim(shop: Workshop) -> None:
    """A claim of somebody who did not ask the gate, read by the workers and once more."""
    body = {
        "system": "documents",
        "effect": "deletion",
        "lookup": {"path": "'policies/returns.md'", "expect": "absent"},
        "said_by": "a night job",
        "settle_s": 0,
        "wait_s": 0,
    }
    path = f"/claims/{shop.operator_key.post('/verify', body).json()['claim_id']}"
    tasks.verify_due()
    shop.operator_key.post("/verify", body)
    for each in (path, "/claims", f"{path}/receipt"):
        shop.operator_key.get(each)
    shop.operator_key.post(f"{path}/verify")


def tell(shop: Workshop, watched: Callable[[Api], Any]) -> None:
    """What people are told, how they want it, and a message that a machine did not take."""
    administrator = watched(person_for(shop.tenant, "administrator", name=f"nora@{shop.slug}"))
    notice = undeliverable(shop)
    for path in ("", "/wishes"):
        shop.reviewer.get(f"/notices{path}")
    shop.reviewer.post("/notices/read", {})
    waiting = shop.approval_of(shop.propose(path="old/three.md"))["approval_id"]
    shop.reviewer.post(f"/approvals/{waiting}/attention", {"visible_s": 3, "opened": ["payload"]})
    shop.reviewer.post("/notices/wishes", {"email": {"LOW": "off"}, "quiet_from": "22:00", "quiet_until": "06:00"})
    administrator.get("/notices/channels")
    administrator.post("/notices/channels", {"digest_min": 60})
    administrator.get("/notices/undelivered")
    administrator.post(f"/notices/undelivered/{notice}/again")
    administrator.get("/event-destinations")
    for step, body in (("test", None), ("start", {"start": "now"}), ("stop", {"reason": "The desk moved."})):
        administrator.post(f"/event-destinations/soc/{step}", body)


def undeliverable(shop: Workshop) -> str:
    """A message that was given up."""
    from console.models import Notice
    from ledger.record.operations import new_id

    at = timezone.now()
    with tenancy(shop.tenant):
        row = Notice.objects.create(
            tenant_id=shop.tenant,
            id=new_id(at),
            topic="approval",
            channel="webhook",
            kind="voided",
            about_id=shop.tenant,
            raised_at=at,
            due_at=at,
            attempts=30,
            given_up_at=at,
            fault="HTTP 503",
        )
    return str(row.id)


def retain(shop: Workshop, watched: Callable[[Api], Any]) -> None:
    """Compliance's day: what is kept and for how long, and one action that somebody wants forgotten.

    `watched` makes of each of the two people a caller whose calls are looked at.
    """
    one, other = (
        watched(person_for(shop.tenant, "compliance", name=f"{name}@{shop.slug}")) for name in ("carol", "dora")
    )
    action = shop.propose(path="old/two.md")
    shop.agent.post(f"/actions/{action}/cancel", {"reason": "No longer wanted."})
    body = {"actions": [action], "legal_basis": "Art. 17(1)(a) GDPR", "reason": "The person asked for it."}
    for step in ("refuse", "withdraw"):
        path = f"/erasures/{one.post('/erasures', body).json()['erasure_id']}"
        other.post(f"{path}/{step}", {"reason": "Not yet."})
    path = f"/erasures/{one.post('/erasures', body).json()['erasure_id']}"
    other.post(f"{path}/confirm", {"password": PASSWORD})
    for reader in (one, shop.auditor):
        reader.get("/erasures")
        reader.get(path)
    hold = {"scope": "target", "value": "policies/returns.md", "reason": "A dispute."}
    held = one.post("/holds", hold).json()["hold_id"]
    one.get("/holds")
    one.post(f"/holds/{held}/lift", {"reason": "It is settled."})
    days = {"payload_days": 200, "envelope_days": 2000}
    proposed = one.post("/retention", days).json()["retention_id"]
    one.post(f"/retention/{proposed}/withdraw", {"reason": "Too short."})
    proposed = one.post("/retention", days | {"payload_days": 400}).json()["retention_id"]
    other.post(f"/retention/{proposed}/confirm", {"password": PASSWORD})
    one.get("/retention")
    asked = request_off_boarding(shop.tenant, reason="The contract has ended.", at=timezone.now())
    one.post(f"/off-boarding/{asked.id}/confirm", {"password": PASSWORD})
    one.post(f"/off-boarding/{asked.id}/refuse", {"reason": "It was renewed."})
