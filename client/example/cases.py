"""The cases of the example: scripted work, each with its intended end.

A case prepares its own order or document, so that it can be sent again and again. Its goal text
starts with "Example:", so that nobody takes it for a customer's. `ends` says in words what a person
will see; it is documentation, and nothing reads it to decide anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from counterfoil.agent import Call
from example.faults import Fault
from example.stage import Sent, Stage, document_of, money, refund_of, reservation_of


@dataclass(frozen=True)
class Case:
    """One kind of work and its end."""

    name: str
    title: str
    ends: str
    play: Callable[[Stage, Case], Sent]
    fault: Fault | None = None

    @property
    def label(self) -> str:
        """How the goal of this case begins."""
        return f"Example: {self.title}."


def _refund(stage: Stage, case: Case) -> Sent:
    order = stage.order(fault=case.fault)
    target = f"order/{order.order_id}"
    return stage.send(
        case=case.name,
        goal=f"{case.label} Refund {money(order.amount, order.currency)} on {target}.",
        tool=stage.refund_tool,
        arguments=refund_of(order),
        target=target,
        outcome=[f"sa.amount == {order.amount}"],
    )


def _approved_refund(stage: Stage, case: Case) -> Sent:
    return _refund(replace(stage, approved=True), case)


def _delete(stage: Stage, case: Case) -> Sent:
    path = stage.document(fault=case.fault)
    return stage.send(
        case=case.name,
        goal=f"{case.label} Delete the outdated draft {path}.",
        tool="delete_document",
        arguments={"path": path, "reason": "The draft is outdated."},
        target=f"document/{path}",
    )


def _refund_and_notify(stage: Stage, case: Case) -> Sent:
    order = stage.order(fault=case.fault)
    said = money(order.amount, order.currency)
    arguments = {key: value for key, value in refund_of(order).items() if key != "reason"}
    return stage.send(
        case=case.name,
        goal=f"{case.label} Refund {said} on order/{order.order_id} and tell the customer.",
        tool="refund_and_notify",
        arguments=arguments | {"message": f"We have sent {said} back to you."},
        target=f"order/{order.order_id}",
    )


def _publish(stage: Stage, case: Case) -> Sent:
    order = stage.order(fault=case.fault)
    return stage.send(
        case=case.name,
        goal=f"{case.label} Tell the mailer that order/{order.order_id} was packed.",
        tool="publish_order_event",
        arguments={"order_id": order.order_id, "event": "packed"},
        target=f"order/{order.order_id}",
    )


def _status(stage: Stage, case: Case) -> Sent:
    order = stage.order(fault=case.fault)
    return _set_status(stage, case, order.order_id, {"status": "packed"})


def _reserve(stage: Stage, case: Case) -> Sent:
    order = stage.order(fault=case.fault)
    arguments = reservation_of(order)
    pieces = f"{arguments['quantity']} of {arguments['sku']}"
    return stage.send(
        case=case.name,
        goal=f"{case.label} Reserve {pieces} for order/{order.order_id}.",
        tool="reserve_stock",
        arguments=arguments,
        target=f"stock/{arguments['sku']}",
    )


def _pack(stage: Stage, case: Case) -> Sent:
    order = stage.order(fault=case.fault)
    packed = f"order/{order.order_id}"
    first = {"order_id": order.order_id, "sku": "DESK-3", "quantity": 1}
    second = {"order_id": order.order_id, "sku": "CHAIR-17", "quantity": 4}
    status = {"order_id": order.order_id, "status": "packed", "expected_version": order.version}
    return stage.send_run(
        case=case.name,
        goal=f"{case.label} Reserve a desk and four chairs for {packed} and mark it as packed: all of it or nothing.",
        calls=[
            Call("reserve_stock", first, target_resource="stock/DESK-3"),
            Call("reserve_stock", second, target_resource="stock/CHAIR-17"),
            Call("set_order_status", status, target_resource=packed),
        ],
    )


def _invented(stage: Stage, case: Case) -> Sent:
    return _set_status(stage, case, stage.order().order_id, {"status": "teleported"})


def _set_status(stage: Stage, case: Case, order_id: str, change: dict[str, Any]) -> Sent:
    return stage.send(
        case=case.name,
        goal=f"{case.label} Mark order/{order_id} as {change['status']}.",
        tool="set_order_status",
        arguments={"order_id": order_id, "expected_version": 1, **change},
        target=f"order/{order_id}",
    )


def _renamed(stage: Stage, case: Case) -> Sent:
    order = stage.order()
    arguments = refund_of(order)
    arguments["order"] = arguments.pop("order_id")
    return stage.send(
        case=case.name,
        goal=f"{case.label} Refund order/{order.order_id}.",
        tool=stage.refund_tool,
        arguments=arguments,
    )


def _phantom(stage: Stage, case: Case) -> Sent:
    order = stage.order()
    return stage.send(
        case=case.name,
        goal=f"{case.label} Send the customer of order/{order.order_id} a voucher.",
        tool="issue_voucher",
        arguments={"order_id": order.order_id, "amount": 500},
    )


def _undisclosed(stage: Stage, case: Case) -> Sent:
    path = stage.document()
    return stage.send(
        case=case.name,
        goal=f"{case.label} Look after the status of today's orders.",
        tool="delete_document",
        arguments={"path": path, "reason": "It is in the way."},
        tools=["set_order_status"],
    )


def _drifted(stage: Stage, case: Case) -> Sent:
    order = stage.order()
    said = money(order.amount, order.currency)
    return stage.send(
        case=case.name,
        goal=f"{case.label} Refund {said} on order/{order.order_id}.",
        tool=stage.refund_tool,
        arguments=refund_of(order),
        restated=f"{case.label} Refund every order of this customer.",
    )


def _cancel(stage: Stage, case: Case) -> Sent:
    order = stage.order()
    return stage.send(
        case=case.name,
        goal=f"{case.label} Cancel order/{order.order_id} before the parcel leaves.",
        tool="cancel_order",
        arguments={"order_id": order.order_id, "reason": "customer_request"},
        target=f"order/{order.order_id}",
    )


def _other_payload(stage: Stage, case: Case) -> Sent:
    order = stage.order()
    arguments = refund_of(order)
    stage.fail_payload(arguments)
    return stage.send(
        case=case.name,
        goal=f"{case.label} Refund {money(order.amount, 'EUR')} on order/{order.order_id}.",
        tool=stage.refund_tool,
        arguments=arguments,
        target=f"order/{order.order_id}",
    )


def _write(stage: Stage, case: Case) -> Sent:
    path = stage.document().replace("drafts/note", "drafts/reply")
    return stage.send(
        case=case.name,
        goal=f"{case.label} Keep a reply to a customer as {path}.",
        tool="write_document",
        arguments=document_of(path, "Thank you for waiting. Your parcel is on its way. Ines\n"),
        target=f"document/{path}",
    )


def _letters(stage: Stage, case: Case) -> Sent:
    steps = [_letter(stage, case) for _ in range(3)]
    for each in steps[:-1]:
        stage.sessions.pop(each.session_id, None)
    return replace(steps[-1], steps=tuple(each.action_id for each in steps if each.action_id))


def _letter(stage: Stage, case: Case) -> Sent:
    path = stage.document().replace("drafts/note", "letters/delay")
    return stage.send(
        case=case.name,
        goal=f"{case.label} Write to a customer that the parcel is late: {path}.",
        tool="write_document",
        arguments=document_of(path, "Your parcel is late. We are sorry. Ines\n"),
        target=f"document/{path}",
    )


_TRUE = "reconciled: the shop shows what was asked for"
_CASE = "a case is open"

TABLE = (
    Case("clean_refund", "clean refund, approved", _TRUE, _approved_refund),
    Case("document_delete", "document delete, waits for approval", _TRUE, _delete),
    Case("letters", "three letters, decided together", _TRUE, _letters),
    Case(
        "no_effect",
        "tool says success, row unchanged",
        f"NO_OP_FAILURE by RT-04; {_CASE}",
        _refund,
        Fault.NO_EFFECT,
    ),
    Case(
        "wrong_amount",
        "refund of the wrong amount",
        f"VALUE_MISMATCH by RT-04; {_CASE}",
        _refund,
        Fault.WRONG_AMOUNT,
    ),
    Case(
        "duplicate",
        "refund written twice",
        f"DUPLICATE_SIDE_EFFECT by RT-12; the order is frozen, {_CASE} with an incident",
        _refund,
        Fault.DUPLICATE,
    ),
    Case(
        "wrong_quantity",
        "reservation of the wrong quantity",
        "VALUE_MISMATCH by RT-03; it is released by an action of its own and read back: compensated",
        _reserve,
        Fault.WRONG_QUANTITY,
    ),
    Case(
        "release_lost",
        "the same, and the release changes nothing",
        f"COMPENSATION_FAILED by RT-50; held, {_CASE}",
        _reserve,
        Fault.KEEPS_RESERVATION,
    ),
    Case(
        "run_taken_back",
        "third step of a run fails",
        "failed with STALE_STATE by RT-11; both reservations before it are released, the last one first",
        _pack,
        Fault.VERSION_MOVES,
    ),
    Case(
        "dies_after_write",
        "executor dies after the write",
        f"unknown, then {_TRUE}",
        _refund,
        Fault.DIES_AFTER_WRITE,
    ),
    Case(
        "dies_before_write",
        "executor dies before the write",
        "unknown, then failed once the late-effect horizon has passed",
        _refund,
        Fault.DIES_BEFORE_WRITE,
    ),
    Case(
        "one_of_two_effects",
        "two effects wanted, one happens",
        f"PARTIAL_APPLICATION; {_CASE}",
        _refund_and_notify,
        Fault.ONLY_FIRST_EFFECT,
    ),
    Case(
        "late_consumer",
        "consumer is late",
        f"PROPAGATION_DELAY for several polls, then {_TRUE}",
        _publish,
        Fault.LATE_CONSUMER,
    ),
    Case(
        "version_moved",
        "target's version moved",
        "the tool refuses; failed with STALE_STATE by RT-11",
        _status,
        Fault.VERSION_MOVES,
    ),
    Case("phantom_tool", "phantom tool", "refused: PHANTOM_TOOL", _phantom),
    Case("undisclosed_tool", "undisclosed tool", "refused: UNDISCLOSED_TOOL", _undisclosed),
    Case("drifted_goal", "drifted goal", "refused: ASK_DRIFT", _drifted),
    Case("invented_value", "invented enum value", "failed: ARGUMENT_HALLUCINATION", _invented),
    Case("renamed_parameter", "renamed parameter", "failed: SCHEMA_DRIFT", _renamed),
    Case("approval_runs_out", "approval runs out", "failed: APPROVAL_EXPIRED", _cancel),
    Case(
        "other_payload",
        "executor presents another payload",
        f"the start is refused by RT-21; {_CASE} with a security event",
        _other_payload,
    ),
)

ORDINARY = (
    Case("small_refund", "small refund", _TRUE, _refund),
    Case("order_status", "order status", _TRUE, _status),
    Case("order_event", "order event", _TRUE, _publish),
    Case("stock_reserved", "stock reserved", _TRUE, _reserve),
    Case("document_write", "document write", _TRUE, _write),
    Case("refund_with_notice", "refund with a notice", _TRUE, _refund_and_notify),
)

EXTRA = (
    Case(
        "dead_letter",
        "message given up by the mailer",
        f"PARTIAL_APPLICATION; {_CASE}",
        _publish,
        Fault.DEAD_LETTER,
    ),
    Case(
        "document_not_deleted",
        "tool says deleted, document still there",
        f"NO_OP_FAILURE; {_CASE}",
        _delete,
        Fault.NO_EFFECT,
    ),
)

BY_NAME = {case.name: case for case in (*TABLE, *ORDINARY, *EXTRA)}
