"""Edits and requests for changes: another payload is another action, and its agent is told exactly what differs."""

from __future__ import annotations

import json
import re
from html import unescape
from uuid import UUID, uuid4

import pytest

from approvals.requests.queries import approvals
from ledger.actions.queries import actions
from ledger.db import tenancy
from ledger.record.queries import evidence
from tests.support.preparing import asked, prepared_contract, tick
from tests.support.refund_shop import ORDER, refund_contract

LESS = ORDER | {"amount": 1000}


@pytest.fixture
def ready(counter, secrets_dir):
    return counter.open(secrets_dir, refund_contract())


def edit(counter, approval, by=None, **changes):
    body = {"payload": LESS, "payload_hash": approval["payload_hash"], "reason": "They kept the shade."}
    return (by or counter.reviewer).post(f"/approvals/{approval['approval_id']}/edit", body | changes)


def edited(counter, **changes):
    """An action, its approval, and the answer to an edit of it."""
    action_id = counter.propose()
    approval = counter.approval_of(action_id)
    answer = edit(counter, approval, **changes)
    assert answer.status_code == 201, answer.content
    return action_id, approval, answer.json()


def as_told(counter, action_id):
    """What the agent sees of an action."""
    return counter.agent.get(f"/actions/{action_id}").json()


@pytest.mark.req("R-AP-16")
def test_an_edit_creates_a_new_action_and_leaves_the_original_unchanged_on_record(ready):
    action_id, approval, made = edited(ready)
    assert ready.state(action_id) == "FAILED"
    assert ready.state(made["action_id"]) == "VALIDATED"
    with tenancy(ready.tenant):
        old, new = (actions.action(ready.tenant, UUID(each)) for each in (action_id, made["action_id"]))
        assert (new.supersedes, new.agent, new.session_id) == (old.id, old.agent, old.session_id)
        assert old.payload_hash == approval["payload_hash"] != new.payload_hash == made["payload_hash"]
        assert b'"amount":1250' in evidence.open_evidence(ready.tenant, old.payload_pointer)
        assert approvals.approval(ready.tenant, UUID(approval["approval_id"])).state == "VOIDED"
        fresh = approvals.approval(ready.tenant, UUID(made["approval_id"]))
    assert (fresh.state, fresh.editor is not None, fresh.payload_hash) == ("REQUESTED", True, new.payload_hash)
    assert ready.vote(approval).json()["code"] == "ALREADY_DECIDED"


def test_the_agent_is_notified_of_the_changed_fields_and_that_a_reviewer_made_them(ready):
    action_id, _, made = edited(ready)
    told = as_told(ready, action_id)
    assert told["approval"]["superseded_by"] == made["action_id"]
    assert told["approval"]["more"]["changed"] == [{"path": "/amount", "label": "Amount", "old": "1250", "new": "1000"}]
    assert (told["approval"]["decision"], told["approval"]["more"]["by"]) == ("SUPERSEDED", "reviewer")
    assert told["approval"]["reason"] == "They kept the shade."
    assert "reviewer@orchid" not in str(told)
    assert as_told(ready, made["action_id"])["supersedes"] == action_id
    assert ready.report(action_id)["code"] == "NOT_EXECUTED"


def test_the_editor_cannot_approve_an_irreversible_action(ready):
    _, _, made = edited(ready)
    approval = ready.reviewer.get(f"/approvals/{made['approval_id']}").json()
    refused = ready.vote(approval)
    assert (refused.status_code, refused.json()["code"]) == (403, "NOT_INDEPENDENT")
    other = ready.person("reviewer", name="dana@orchid")
    assert ready.vote(approval, by=other).status_code == 201
    assert [order["action_id"] for order in ready.claim()] == [made["action_id"]]


@pytest.mark.parametrize(
    ("changes", "status", "code"),
    [
        ({"payload": ORDER | {"amount": "lots"}}, 422, "EDIT_REFUSED"),
        ({"payload": {"amount": 1}}, 422, "EDIT_REFUSED"),
        ({"payload": ORDER | {"extra": 1}}, 422, "EDIT_REFUSED"),
        ({"payload": ORDER}, 422, "NOTHING_CHANGED"),
        ({"reason": " "}, 422, "REASON_REQUIRED"),
        ({"payload_hash": "0" * 64}, 409, "PAYLOAD_CHANGED"),
    ],
)
def test_a_refused_edit_loses_nothing(ready, changes, status, code):
    action_id = ready.propose()
    approval = ready.approval_of(action_id)
    refused = edit(ready, approval, **changes)
    assert (refused.status_code, refused.json()["code"]) == (status, code)
    assert ready.state(action_id) == "VALIDATED"
    assert ready.vote(approval).status_code == 201


def test_an_edit_that_is_not_json_is_a_clear_error(ready):
    approval = ready.approval_of(ready.propose())
    path = f"/api/v1/approvals/{approval['approval_id']}/edit"
    refused = ready.reviewer.client.post(
        path, b'{"payload": {', content_type="application/json", headers=ready.reviewer.headers
    )
    assert (refused.status_code, refused.json()["code"]) == (400, "NOT_JSON")


def test_a_preview_shows_the_changes_and_writes_nothing(ready):
    action_id = ready.propose()
    count = len(ready.history(action_id))
    approval = ready.approval_of(action_id)
    body = {"payload": LESS, "payload_hash": approval["payload_hash"]}
    seen = ready.reviewer.post(f"/approvals/{approval['approval_id']}/edit-preview", body)
    assert seen.status_code == 200
    assert seen.json()["changed"][0]["new"] == "1000"
    assert seen.json()["action_id"] is None
    assert len(ready.history(action_id)) == count


def test_only_reviewers_can_edit_and_only_undecided_requests(ready):
    action_id = ready.propose()
    approval = ready.approval_of(action_id)
    assert edit(ready, approval, by=ready.operator).status_code == 403
    assert edit(ready, approval, by=ready.agent).status_code == 403
    ready._made(ready.vote(approval))
    assert edit(ready, approval).json()["code"] == "ALREADY_DECIDED"


def test_an_edit_passes_after_the_agents_session_has_ended(ready):
    session = ready.session()
    call = {"call_id": "one", "tool": "refund_order", "arguments": ORDER, "pin_hash": session["pin"]["hash"]}
    answer = ready.agent.post(f"/sessions/{session['session_id']}/calls", {"calls": [call]}).json()["results"][0]
    assert ready.agent.post(f"/sessions/{session['session_id']}/close").status_code == 200
    assert edit(ready, ready.approval_of(answer["action_id"])).status_code == 201


def test_a_freeze_refuses_an_edit_as_it_refuses_a_call(ready):
    approval = ready.approval_of(ready.propose())
    ready.operator.post("/freezes", {"scope": "tool", "value": "refund_order", "reason": "Looking into it."})
    refused = edit(ready, approval)
    assert refused.json()["errors"][0]["code"] == "TARGET_FROZEN"


def test_an_edit_resets_the_votes(ready):
    """B21: what was voted on before the edit counts for nothing after it."""
    _, approval, made = edited(ready)
    fresh = ready.reviewer.get(f"/approvals/{made['approval_id']}").json()
    assert fresh["votes"] == []
    other = ready.person("reviewer", name="dana@orchid")
    stale = ready.vote(fresh | {"payload_hash": approval["payload_hash"]}, by=other)
    assert stale.json()["code"] == "PAYLOAD_CHANGED"


def test_the_target_of_an_edited_action_is_read_before_approval_is_requested(counter, secrets_dir, clock):
    counter.open(secrets_dir, prepared_contract())
    action_id = asked(counter, clock)
    made = edit(counter, counter.approval_of(action_id)).json()
    assert not counter.waiting(made["action_id"])
    tick(clock)
    assert counter.waiting(made["action_id"])


# What the agent expected of it

EXPECTED = ("sa.amount == 2050", "sa.effects.refund.amount == 2050", "sa.status == 'succeeded' && sa.id > 0")
DROPPED = [
    {"text": "sa.amount == 2050", "fields": ["amount"], "why": "It names `amount`, which was edited."},
    {"text": "sa.effects.refund.amount == 2050", "fields": ["amount"], "why": "It names `amount`, which was edited."},
]
EDITED = "Edited by {name}: amount 20.50 EUR → 18.00 EUR. Reason: They kept the shade."


def expecting(counter, *expected, goal="Refund 20.50 EUR to order EX-1001.", **arguments):
    """An action whose agent expects something of its effect."""
    session = counter.session(goal=goal)
    body = {
        "call_id": uuid4().hex,
        "tool": "refund_order",
        "arguments": ORDER | {"amount": 2050} | arguments,
        "pin_hash": session["pin"]["hash"],
        "intended_outcome": {"expected_predicates": list(expected)},
    }
    answer = counter.agent.post(f"/sessions/{session['session_id']}/calls", {"calls": [body]}).json()["results"][0]
    assert answer["state"] == "VALIDATED", answer
    return answer["action_id"]


def page_of(counter, approval_id, by=None):
    return unescape((by or counter.reviewer).client.get(f"/t/{counter.slug}/approvals/{approval_id}").content.decode())


def test_an_edited_amount_is_executed_and_verified_without_a_mismatch(ready, clock):
    action_id = expecting(ready, *EXPECTED)
    made = edit(ready, ready.approval_of(action_id), payload=ORDER | {"amount": 1800}).json()
    assert made["expectations_dropped"] == DROPPED
    assert made["expectations_kept"] == [EXPECTED[2]]
    other = ready.person("reviewer", name="dana@orchid")
    approval = ready.reviewer.get(f"/approvals/{made['approval_id']}").json()
    assert ready.vote(approval, by=other).status_code == 201
    (order,) = ready.claim()
    started = ready.start(order).json()
    ready.till.refund(started["idempotency_key"], amount=1800)
    ready.tell(started)
    clock.forward(seconds=90)
    assert ready.read_back(made["action_id"], clock) == "RECONCILED_SUCCESS", ready.history(made["action_id"])
    assert ready.report(made["action_id"])["text"] == "Done, and confirmed in the system of record."
    assert ready.case_of(made["action_id"]) is None


def test_dropped_expectations_are_recorded_and_the_agent_is_told_the_reason(ready):
    action_id = expecting(ready, *EXPECTED)
    made = edit(ready, ready.approval_of(action_id), payload=ORDER | {"amount": 1800}).json()
    first = ready.history(made["action_id"])[0]
    assert first["detail"]["edit"] == {"reason": "They kept the shade.", "expectations_dropped": DROPPED}
    own = refund_contract()["verification"]["predicates"]
    assert first["entry"]["intended_outcome"]["expected_predicates"] == [*own, EXPECTED[2]]
    assert ready.history(action_id)[-1]["detail"]["expectations_dropped"] == DROPPED
    assert as_told(ready, action_id)["approval"]["more"]["expectations_dropped"] == DROPPED


def test_the_preview_lists_the_dropped_and_the_remaining_expectations(ready):
    approval = ready.approval_of(expecting(ready, *EXPECTED))
    body = {"payload": ORDER | {"amount": 1800}, "payload_hash": approval["payload_hash"]}
    told = ready.reviewer.post(f"/approvals/{approval['approval_id']}/edit-preview", body).json()
    assert (told["expectations_dropped"], told["expectations_kept"]) == (DROPPED, [EXPECTED[2]])
    shown = unescape(form_of(ready, approval, payload=json.dumps(ORDER | {"amount": 1800})).content.decode())
    assert "Checks by the agent that no longer apply:" in shown
    assert "It names `amount`, which was edited." in shown
    assert "Checks by the agent that still apply:" in shown
    assert f'<li class="mono">{EXPECTED[2]}</li>' in shown


def test_the_new_request_names_editor_changes_and_reason_without_flagging_a_contradiction(ready):
    ada = ready.person("reviewer", name="ada@orchid")
    approval = ready.approval_of(expecting(ready, *EXPECTED))
    made = edit(ready, approval, by=ada, payload=ORDER | {"amount": 1800}).json()
    text = EDITED.format(name="Ada")
    other = ready.person("reviewer", name="dana@orchid")
    shown = page_of(ready, made["approval_id"], by=other)
    assert f"<p>{text}</p>" in shown
    assert shown.index(text) < shown.index('data-part="payload"')
    assert "Checks by the agent that no longer apply:" in shown
    assert "The agent's words contradict the payload" not in shown
    told = other.get(f"/approvals/{made['approval_id']}").json()
    assert told["contradictions"] == []
    assert told["edit"]["text"] == text
    assert told["edit"]["expectations_dropped"] == DROPPED


def test_a_contradiction_by_the_agent_itself_is_kept_on_the_edited_request(ready):
    """Only what the reviewer wrote is no contradiction of the agent's."""
    goal = "Refund 20.50 EUR to order EX-1002."
    made = edit(ready, ready.approval_of(expecting(ready, goal=goal)), payload=ORDER | {"amount": 1800}).json()
    told = ready.reviewer.get(f"/approvals/{made['approval_id']}").json()
    assert [each["text"] for each in told["contradictions"]] == ["The agent said EX-1002, the payload says EX-1001."]


def test_an_edit_of_an_edit_drops_more_and_names_its_own_editor(ready):
    kept = "sa.currency == 'EUR'"
    action_id = expecting(ready, "sa.amount == 2050", kept)
    first = edit(ready, ready.approval_of(action_id), payload=ORDER | {"amount": 1800}).json()
    assert first["expectations_kept"] == [kept]
    other = ready.person("reviewer", name="dana@orchid")
    again = edit(
        ready,
        ready.reviewer.get(f"/approvals/{first['approval_id']}").json(),
        by=other,
        payload=ORDER | {"amount": 1800, "currency": "USD"},
        reason="The account is in dollars.",
    ).json()
    assert [each["text"] for each in again["expectations_dropped"]] == [kept]
    told = ready.reviewer.get(f"/approvals/{again['approval_id']}").json()
    assert told["edit"]["text"] == "Edited by Dana: currency EUR → USD. Reason: The account is in dollars."
    assert told["contradictions"] == []


def test_an_edit_that_contradicts_another_expectation_is_refused_and_names_it(ready):
    action_id = expecting(ready, "sa.amount == 2050", "sa.currency == 'USD'")
    approval = ready.approval_of(action_id)
    refused = edit(ready, approval, payload=ORDER | {"amount": 1800})
    said = "The agent expects `sa.currency == 'USD'`, and the edited payload contradicts it."
    assert (refused.status_code, refused.json()["code"]) == (422, "EDIT_REFUSED")
    assert refused.json()["detail"] == f"{said} The request stands as it was."
    assert [(each["code"], each["detail"]) for each in refused.json()["errors"]] == [("EXPECTATION_CONTRADICTED", said)]
    shown = unescape(form_of(ready, approval, payload=json.dumps(ORDER | {"amount": 1800})).content.decode())
    assert said in shown
    assert ready.state(action_id) == "VALIDATED"
    both = edit(ready, approval, payload=ORDER | {"amount": 1800, "currency": "USD"})
    assert both.status_code == 201


# Request changes


def again(counter, supersedes, **arguments):
    session = counter.session()
    body = {
        "call_id": uuid4().hex,
        "tool": "refund_order",
        "arguments": ORDER | arguments,
        "pin_hash": session["pin"]["hash"],
        "supersedes": supersedes,
    }
    answer = counter.agent.post(f"/sessions/{session['session_id']}/calls", {"calls": [body]})
    return answer.json()["results"][0]


def test_the_agent_reads_the_requested_changes_verbatim_and_links_its_next_call(ready):
    action_id = ready.propose()
    words = "Refund 10.00 EUR; they kept the shade."
    ready._made(ready.vote(ready.approval_of(action_id), verdict="request_changes", reason=words))
    told = as_told(ready, action_id)["approval"]
    assert (told["decision"], told["reason"]) == ("CHANGES_REQUESTED", words)
    assert "`supersedes`" in told["next"]["text"]
    answer = again(ready, action_id, amount=1000)
    assert answer["accepted"] is True
    assert as_told(ready, answer["action_id"])["supersedes"] == action_id
    assert as_told(ready, action_id)["approval"]["superseded_by"] == answer["action_id"]


@pytest.mark.parametrize("named", ["open", "foreign", "nonsense"])
def test_a_call_can_supersede_only_an_ended_action_of_the_same_key(ready, named):
    names = {"open": lambda: ready.propose(), "foreign": lambda: str(uuid4()), "nonsense": lambda: "the last one"}
    answer = again(ready, names[named](), amount=1000)
    assert (answer["accepted"], answer["result"]["error"]["code"]) == (False, "UNRESOLVED_DEPENDENCY")


# The page


def form_of(counter, approval, **changes):
    path = f"/t/{counter.slug}/approvals/{approval['approval_id']}/edit"
    body = {"payload": json.dumps(LESS), "payload_hash": approval["payload_hash"], "reason": "They kept the shade."}
    return counter.reviewer.client.post(path, body | changes)


def test_the_page_lists_unexpected_values_before_the_edit_is_submitted(ready):
    action_id = ready.propose()
    approval = ready.approval_of(action_id)
    path = f"/t/{ready.slug}/approvals/{approval['approval_id']}"
    assert f'href="{path}/edit"' in ready.reviewer.client.get(path).content.decode()
    assert "No changes yet." in ready.reviewer.client.get(f"{path}/edit").content.decode()
    seen = form_of(ready, approval).content.decode()
    assert '<h2 id="differences">Changes</h2><span class="note">the agent will be notified</span>' in seen
    assert "Refund 12.50 EUR to order EX-1001" in seen
    assert "Refund 10.00 EUR to order EX-1001, 2.50 EUR less" in seen
    assert '<td>1250<br><span class="sub">12.50 EUR</span></td>' in seen
    assert '<td><strong>1000</strong><br><span class="sub">10.00 EUR</span></td>' in seen
    assert ready.state(action_id) == "VALIDATED"
    made = form_of(ready, approval, make="yes")
    assert made.status_code == 302
    assert ready.state(action_id) == "FAILED"
    shown = ready.reviewer.client.get(made["Location"]).content.decode()
    assert "replaced by this one" in shown


@pytest.mark.parametrize(
    ("payload", "status", "told"),
    [
        ('{"amount": ', 400, "The text is not JSON"),
        (json.dumps(LESS | {"amount": -1}), 422, "/amount"),
        (json.dumps(ORDER), 422, "The edited payload is identical to the original."),
    ],
)
def test_values_refused_by_the_gate_stay_in_the_form(ready, payload, status, told):
    action_id = ready.propose()
    answer = form_of(ready, ready.approval_of(action_id), payload=payload, make="yes")
    shown = answer.content.decode()
    assert (answer.status_code, told in shown) == (status, True)
    assert "They kept the shade." in shown
    assert ready.state(action_id) == "VALIDATED"


# The form that the contract's schema makes


def typed(approval, **changes):
    """What a browser sends of the form: each argument in an input of its own."""
    held = {
        "argument:text:order_id": "EX-1001",
        "argument:integer:amount": "1000",
        "argument:choice:currency": "EUR",
        "payload_hash": approval["payload_hash"],
        "reason": "They kept the shade.",
    }
    return held | {f"argument:{name}": value for name, value in changes.items()}


def page_for(counter, approval):
    return f"/t/{counter.slug}/approvals/{approval['approval_id']}/edit"


def test_the_inputs_and_the_json_editor_give_the_same_bytes(ready):
    approval = ready.approval_of(ready.propose())
    shown = ready.reviewer.client.get(page_for(ready, approval)).content.decode()
    assert 'name="argument:integer:amount" value="1250"' in shown
    assert '<option value="EUR" selected>EUR</option>' in shown
    assert "At least 1." in shown
    assert "Form: ^EX-[0-9]{4}$" in shown
    by_inputs = ready.reviewer.client.post(page_for(ready, approval), typed(approval))
    by_json = form_of(ready, approval)
    hashes = [
        re.search(r'name="previewed" value="([0-9a-f]{64})"', each.content.decode()) for each in (by_inputs, by_json)
    ]
    assert hashes[0][1] == hashes[1][1]
    made = ready.reviewer.client.post(
        page_for(ready, approval), typed(approval) | {"make": "yes", "previewed": hashes[0][1]}
    )
    assert made.status_code == 302
    with tenancy(ready.tenant):
        assert approvals.approval(ready.tenant, UUID(made["Location"].split("/")[-1])).payload_hash == hashes[0][1]


def test_arguments_survive_switching_between_inputs_and_json(ready):
    approval = ready.approval_of(ready.propose())
    path = page_for(ready, approval)
    as_json = unescape(ready.reviewer.client.post(path, typed(approval) | {"show": "json"}).content.decode())
    assert '"amount": 1000' in as_json
    assert "They kept the shade." in as_json
    assert "Refund 10.00 EUR to order EX-1001, 2.50 EUR less" in as_json
    body = {"payload": json.dumps(LESS | {"note": ["a", None]}), "payload_hash": approval["payload_hash"]}
    back = unescape(ready.reviewer.client.post(path, body | {"show": "fields"}).content.decode())
    assert 'name="argument:integer:amount" value="1000"' in back
    assert 'name="argument:json:note"' in back
    assert '[\n  "a",\n  null\n]' in back
    assert "All arguments together are a JSON object." in unescape(
        ready.reviewer.client.post(path, body | {"payload": "[]", "show": "fields"}).content.decode()
    )


def test_the_preview_is_updated_while_typing_and_refuses_nothing(ready):
    action_id = ready.propose()
    approval = ready.approval_of(action_id)

    def live(**changes):
        answer = ready.reviewer.client.post(
            page_for(ready, approval), typed(approval, **changes) | {"reason": ""}, headers={"HX-Request": "true"}
        )
        assert answer.status_code == 200
        assert b"data-refused" not in answer.content
        return unescape(answer.content.decode())

    assert "Refund 10.00 EUR to order EX-1001, 2.50 EUR less" in live()
    assert "Refund 99.00 EUR to order EX-1001, 86.50 EUR more" in live(**{"integer:amount": "9900"})
    assert "Enter a whole number." in live(**{"integer:amount": "lots"})
    assert "/amount" in live(**{"integer:amount": "0"})
    assert "Replace request" not in live(**{"integer:amount": "0"})
    assert ready.state(action_id) == "VALIDATED"


def test_an_edit_other_than_the_previewed_one_is_refused(ready):
    action_id = ready.propose()
    approval = ready.approval_of(action_id)
    sent = typed(approval) | {"make": "yes", "previewed": "0" * 64}
    answer = ready.reviewer.client.post(page_for(ready, approval), sent)
    assert answer.status_code == 409
    assert "The arguments changed after the preview." in answer.content.decode()
    assert "Refund 10.00 EUR to order EX-1001, 2.50 EUR less" in answer.content.decode()
    assert ready.state(action_id) == "VALIDATED"


def test_a_refused_argument_leads_to_its_input_and_keeps_what_was_typed(ready):
    approval = ready.approval_of(ready.propose())
    answer = ready.reviewer.client.post(
        page_for(ready, approval), typed(approval, **{"integer:amount": "-5"}) | {"make": "yes"}
    )
    shown = answer.content.decode()
    assert answer.status_code == 422
    assert 'data-field="argument:integer:amount">/amount</a>' in shown
    assert 'value="-5"' in shown
    assert "They kept the shade." in shown


# Who could approve it

NOBODY = "Nobody would be left to approve it."


def test_an_edit_that_leaves_no_eligible_approver_is_reported_beforehand(ready):
    approval = ready.approval_of(ready.propose())
    path = page_for(ready, approval)
    assert NOBODY in ready.reviewer.client.get(path).content.decode()
    assert NOBODY in ready.reviewer.client.post(path, typed(approval)).content.decode()
    body = {"payload": LESS, "payload_hash": approval["payload_hash"]}
    assert ready.reviewer.post(f"/approvals/{approval['approval_id']}/edit-preview", body).json()["leaves_nobody"]
    ready.person("reviewer", name="dana@orchid")
    assert NOBODY not in ready.reviewer.client.get(path).content.decode()
    shown = ready.reviewer.client.post(path, typed(approval)).content.decode()
    assert NOBODY not in shown
    assert "Eligible to approve it: Dana." in shown
    assert not ready.reviewer.post(f"/approvals/{approval['approval_id']}/edit-preview", body).json()["leaves_nobody"]


def test_the_new_amount_decides_who_may_approve_an_edit(ready):
    """Two of finance for large amounts: one other reviewer is enough for a small edit and not for a large one."""
    rule = {"name": "large", "when": "amount.minor > 100000", "outcome": "hold"}
    wanted = {"thresholds": [{"group": "reviewers", "count": 2}]}
    ready.operator_key.release("approval", {"version": "large", "document": {"rules": [rule | wanted]}})
    ready.person("reviewer", name="dana@orchid")
    approval = ready.approval_of(ready.propose())
    path = page_for(ready, approval)
    assert NOBODY not in ready.reviewer.client.post(path, typed(approval)).content.decode()
    assert NOBODY in ready.reviewer.client.post(path, typed(approval, **{"integer:amount": "200000"})).content.decode()
