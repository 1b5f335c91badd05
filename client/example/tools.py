"""The example's tools: their effects on the shop, and their planned faults.

Every tool looks first whether its idempotency key has left a mark already, refuses with
`NothingSent` what it can see to be wrong, and begins its effect inside `work.effect(...)`.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path
from typing import Any, LiteralString

import psycopg

from counterfoil.work import NothingSent, Result, Work, failed, succeeded
from example import faults
from example.environment import EXECUTOR_ID
from example.faults import Fault
from example.shop import STREAM, Connection, Shop
from example.stage import Sent, money

# One step for the server: either the event is in the stream and its key is marked, or neither.
_PUBLISH = """
local known = redis.call('GET', KEYS[2])
if known then return known end
local id = redis.call('XADD', KEYS[1], 'MAXLEN', '~', 100000, '*', unpack(ARGV))
redis.call('SET', KEYS[2], id, 'EX', 604800)
return id
"""


def refund(shop: Shop, work: Work) -> Result:
    """Refund money on an order (issue_refund, refund_small_amount)."""
    with _transaction(shop) as connection:
        known = _receipt(connection, work)
        if known:
            return succeeded(known, "refund")
        order = _refundable(connection, work)
        fault = faults.fault_of(connection, order["id"])
        if fault is Fault.DIES_BEFORE_WRITE:
            faults.die()
        with work.effect("refund"):
            receipt = _write_refund(connection, work, order, fault)
            if fault is Fault.NO_EFFECT:
                connection.rollback()
            connection.commit()
        if fault is Fault.DIES_AFTER_WRITE:
            faults.die()
        return succeeded(receipt, "refund")


def charge_again(shop: Shop, work: Work) -> Result:
    """Charge money of a refund again, up to what is left of it."""
    with _transaction(shop) as connection:
        known = _one(connection, "SELECT id FROM shop.charges WHERE idempotency_key = %s", work.idempotency_key)
        if known:
            return succeeded(f"charge/{known['id']}", "charge")
        refund_id, amount = work.payload["refund_id"], work.payload["amount"]
        found = _one(connection, "SELECT * FROM shop.refunds WHERE id = %s FOR UPDATE", refund_id)
        if found is None or found["currency"] != work.payload["currency"]:
            raise NothingSent("REFUND_MISSING", "There is no such refund in this currency.")
        charged = _one(
            connection, "SELECT coalesce(sum(amount), 0) AS total FROM shop.charges WHERE refund_id = %s", refund_id
        )
        assert charged is not None
        if amount > found["amount"] - charged["total"]:
            raise NothingSent("AMOUNT_TOO_HIGH", "The refund has less than that left to charge again.")
        with work.effect("charge"):
            row = _one(
                connection,
                "INSERT INTO shop.charges (refund_id, order_id, tenant, amount, currency, idempotency_key,"
                " actor, trace_id) VALUES (%s, %s, %s, %s, %s, %s, %s, %s) RETURNING id",
                *(refund_id, found["order_id"], found["tenant"], amount, found["currency"]),
                *(work.idempotency_key, EXECUTOR_ID, work.trace.trace_id),
            )
            connection.execute(
                "UPDATE shop.orders SET refunded = refunded - %s, version = version + 1,"
                " updated_by = %s, updated_at = now() WHERE id = %s",
                [amount, EXECUTOR_ID, found["order_id"]],
            )
            _mark(connection, work, found["order_id"])
            connection.commit()
        assert row is not None
        return succeeded(f"charge/{row['id']}", "charge")


def refund_and_notify(shop: Shop, work: Work) -> Result:
    """Refund money and write the customer a notice: two effects, two transactions."""
    first = refund(shop, work)
    with _transaction(shop) as connection:
        order = _order(connection, work)
        told = _one(
            connection,
            "SELECT id FROM shop.notices WHERE idempotency_key = %s",
            work.idempotency_key,
        )
        # The tool swallows the mail gateway's error, as tools do, and tells success.
        if not told and faults.fault_of(connection, order["id"]) is not Fault.ONLY_FIRST_EFFECT:
            with work.effect("notice"):
                _write_notice(connection, work, order)
                connection.commit()
    return succeeded(str(first.evidence), "refund", "notice")


def reserve_stock(shop: Shop, work: Work) -> Result:
    """Keep stock back for an order."""
    with _transaction(shop) as connection:
        known = _reservation(connection, "idempotency_key", work.idempotency_key)
        if known:
            return succeeded(f"reservation/{known['id']}", "reservation")
        order = _order(connection, work)
        fault = faults.fault_of(connection, order["id"])
        wrong = fault in (Fault.WRONG_QUANTITY, Fault.KEEPS_RESERVATION)
        with work.effect("reservation"):
            reservation_id = f"RV-{secrets.token_hex(4).upper()}"
            connection.execute(
                "INSERT INTO shop.reservations (id, order_id, tenant, sku, quantity, idempotency_key, actor, trace_id)"
                " VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
                [
                    *(reservation_id, order["id"], order["tenant"], work.payload["sku"]),
                    work.payload["quantity"] * (10 if wrong else 1),
                    *(work.idempotency_key, EXECUTOR_ID, work.trace.trace_id),
                ],
            )
            _mark(connection, work, order["id"])
            connection.commit()
        return succeeded(f"reservation/{reservation_id}", "reservation")


def release_stock(shop: Shop, work: Work) -> Result:
    """Release reserved stock; a released reservation stays released."""
    with _transaction(shop) as connection:
        held = _reservation(connection, "id", work.payload["reservation_id"])
        if held is None:
            raise NothingSent("RESERVATION_MISSING", "The reservation does not exist.")
        fault = faults.fault_of(connection, held["order_id"])
        with work.effect("release"):
            freed = connection.execute(
                "UPDATE shop.reservations SET status = 'released', actor = %s, released_at = now()"
                " WHERE id = %s AND status = 'held' RETURNING id",
                [EXECUTOR_ID, held["id"]],
            ).fetchone()
            if freed:
                _mark(connection, work, held["order_id"])
            if fault is Fault.KEEPS_RESERVATION:
                connection.rollback()
            connection.commit()
        return succeeded(f"reservation/{held['id']}/released", "release")


def set_order_status(shop: Shop, work: Work) -> Result:
    """Move an order to another status, only from the version that was read."""
    order_id = work.payload["order_id"]
    with _transaction(shop) as connection:
        order = _order(connection, work)
        if _marked(connection, work):
            return succeeded(f"order/{order_id}/version/{order['version']}", "status")
        if faults.fault_of(connection, order_id) is Fault.VERSION_MOVES:
            _clerk_puts_on_hold(shop, order_id)
        with work.effect("status"):
            moved = connection.execute(
                "UPDATE shop.orders SET status = %s, version = version + 1, updated_by = %s,"
                " updated_at = now() WHERE id = %s AND version = %s RETURNING version",
                [work.payload["status"], EXECUTOR_ID, order_id, work.payload["expected_version"]],
            ).fetchone()
            if moved is None:
                return failed("STALE_STATE_ERROR", "The order has another version by now.")
            _mark(connection, work, order_id)
            connection.commit()
        return succeeded(f"order/{order_id}/version/{moved['version']}", "status")


def cancel_order(shop: Shop, work: Work) -> Result:
    """Cancel an order that has not been shipped."""
    with _transaction(shop) as connection:
        order = _order(connection, work)
        if order["status"] in ("shipped", "delivered"):
            raise NothingSent("ALREADY_SHIPPED", "The parcel has left.")
        with work.effect("cancellation"):
            connection.execute(
                "UPDATE shop.orders SET status = 'cancelled', version = version + 1,"
                " updated_by = %s, updated_at = now() WHERE id = %s AND status <> 'cancelled'",
                [EXECUTOR_ID, order["id"]],
            )
            _mark(connection, work, order["id"])
            connection.commit()
        return succeeded(f"order/{order['id']}/cancelled", "cancellation")


def publish_order_event(shop: Shop, work: Work) -> Result:
    """Put an event into the stream that the mailer reads."""
    fields = {
        "order_id": work.payload["order_id"],
        "event": work.payload["event"],
        "idempotency_key": work.idempotency_key,
        "actor": EXECUTOR_ID,
        "trace_id": work.trace.trace_id,
    }
    pairs = [text for pair in fields.items() for text in pair]
    with shop.valkey() as valkey, work.effect("publish"):
        key = f"shop:published:{work.idempotency_key}"
        message = valkey.eval(_PUBLISH, 2, STREAM, key, *pairs)
    return succeeded(f"{STREAM}/{message}", "publish")


def write_document(shop: Shop, work: Work) -> Result:
    """Write a document completely, or not at all."""
    path = _inside(shop.folder, work.payload["path"])
    text = work.payload["text"].encode()
    if hashlib.sha256(text).hexdigest() != work.payload["sha256"]:
        raise NothingSent("HASH_MISMATCH", "The text does not have the SHA-256 that was given.")
    with work.effect("file"):
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{work.attempt}.draft")
        draft.write_bytes(text)
        draft.chmod(0o640)
        os.replace(draft, path)
    return succeeded(f"document/{work.payload['path']}", "file")


def delete_document(shop: Shop, work: Work) -> Result:
    """Delete a document for good."""
    path = _inside(shop.folder, work.payload["path"])
    with _transaction(shop) as connection:
        fault = faults.fault_of(connection, work.payload["path"])
    if not path.is_file():
        raise NothingSent("DOCUMENT_MISSING", "The document does not exist.")
    with work.effect("deletion"):
        if fault is not Fault.NO_EFFECT:
            path.unlink(missing_ok=True)
    return succeeded(f"document/{work.payload['path']}/deleted", "deletion")


def _transaction(shop: Shop) -> Connection:
    try:
        return shop.connect()
    except psycopg.OperationalError as fault:
        raise NothingSent("SHOP_UNREACHABLE", str(fault).strip()[:200]) from fault


def _one(connection: Connection, query: Any, *values: object) -> dict[str, Any] | None:
    return connection.execute(query, values).fetchone()


def _order(connection: Connection, work: Work) -> dict[str, Any]:
    order_id = work.payload["order_id"]
    order = _one(connection, "SELECT * FROM shop.orders WHERE id = %s", order_id)
    if order is None:
        raise NothingSent("ORDER_MISSING", f"There is no order {order_id}.")
    return order


def _refundable(connection: Connection, work: Work) -> dict[str, Any]:
    order = _order(connection, work)
    if work.payload["currency"] != order["currency"]:
        raise NothingSent("OTHER_CURRENCY", f"The order was paid in {order['currency']}.")
    if work.payload["amount"] > order["amount"] - order["refunded"]:
        raise NothingSent("AMOUNT_TOO_HIGH", "The order has less than that left to refund.")
    return order


def _reservation(connection: Connection, column: LiteralString, value: str) -> dict[str, Any] | None:
    return _one(connection, f"SELECT * FROM shop.reservations WHERE {column} = %s", value)


def _receipt(connection: Connection, work: Work) -> str | None:
    query = "SELECT id FROM shop.refunds WHERE idempotency_key = %s ORDER BY id LIMIT 1"
    row = _one(connection, query, work.idempotency_key)
    return f"refund/{row['id']}" if row else None


def _write_refund(connection: Connection, work: Work, order: dict[str, Any], fault: Fault | None) -> str:
    amount = work.payload["amount"] * (10 if fault is Fault.WRONG_AMOUNT else 1)
    for _ in range(2 if fault is Fault.DUPLICATE else 1):
        row = _one(
            connection,
            "INSERT INTO shop.refunds"
            " (order_id, tenant, amount, currency, status, idempotency_key, actor, trace_id)"
            " VALUES (%s, %s, %s, %s, 'succeeded', %s, %s, %s) RETURNING id",
            *(order["id"], order["tenant"], amount, order["currency"]),
            *(work.idempotency_key, EXECUTOR_ID, work.trace.trace_id),
        )
        connection.execute(
            "UPDATE shop.orders SET refunded = refunded + %s, version = version + 1,"
            " updated_by = %s, updated_at = now() WHERE id = %s",
            [amount, EXECUTOR_ID, order["id"]],
        )
        _mark(connection, work, order["id"])
    assert row is not None
    return f"refund/{row['id']}"


def _write_notice(connection: Connection, work: Work, order: dict[str, Any]) -> None:
    connection.execute(
        "INSERT INTO shop.notices"
        " (order_id, tenant, recipient, body, status, idempotency_key, actor, trace_id)"
        " VALUES (%s, %s, %s, %s, 'sent', %s, %s, %s)",
        [
            *(order["id"], order["tenant"], order["customer"], work.payload["message"]),
            *(work.idempotency_key, EXECUTOR_ID, work.trace.trace_id),
        ],
    )


def _marked(connection: Connection, work: Work) -> bool:
    query = "SELECT id FROM shop.audit WHERE idempotency_key = %s"
    return _one(connection, query, work.idempotency_key) is not None


def _mark(connection: Connection, work: Work, order_id: str) -> None:
    connection.execute(
        "INSERT INTO shop.audit (order_id, operation, actor, idempotency_key, trace_id) VALUES (%s, %s, %s, %s, %s)",
        [order_id, work.tool, EXECUTOR_ID, work.idempotency_key, work.trace.trace_id],
    )


def _clerk_puts_on_hold(shop: Shop, order_id: str) -> None:
    with shop.connect() as connection:
        connection.execute(
            "UPDATE shop.orders SET status = 'on_hold', version = version + 1,"
            " updated_by = 'clerk-ines', updated_at = now() WHERE id = %s",
            [order_id],
        )


def _inside(folder: Path, name: str) -> Path:
    root = folder.resolve()
    path = (root / name).resolve()
    if not path.is_relative_to(root) or path == root:
        raise NothingSent("PATH_OUTSIDE", "The path leads out of the folder.")
    return path


# What the scripted agent would like to tell its user: the same words at once and at the end, as a hasty model would.
#
# It sends neither. It asks the guard of the session first and says what comes back: at once that is the correction, and
# at the end its own words where the record bears them out by then.


def hasty(sent: Sent) -> str | None:
    """The message about a piece of work; None if the agent has nothing to say, or its call was malformed."""
    try:
        return _said(sent)
    except (KeyError, TypeError):
        return None


def _said(sent: Sent) -> str | None:
    given = sent.arguments
    match sent.tool:
        case "issue_refund" | "refund_small_amount":
            amount = money(given["amount"], given["currency"])
            return f"Thank you for waiting. I have refunded {amount} on order {given['order_id']}. Anything else?"
        case "delete_document":
            return f"The document {given['path']} is deleted. You can close the ticket."
        case "cancel_order":
            return f"Order {given['order_id']} is cancelled. Sorry to see it go."
        case "reserve_stock":
            return f"I have reserved {given['quantity']} of {given['sku']} for order {given['order_id']}."
    return None
