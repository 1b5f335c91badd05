"""The example's executor: the shop's tools behind the client library's loop."""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from types import FrameType

import psycopg

from counterfoil.canonical import digest
from counterfoil.execution.seen import RecordBehind
from counterfoil.executor import Executor, Handler, Order
from counterfoil.proof import read_claims
from example import environment, faults, shop, tools
from example.faults import Fault
from example.shop import Shop

# How long one attempt may take. Short, so that a crash in the example is settled while one watches; a machine with
# much else to do is given longer by COUNTERFOIL_EXAMPLE_TIMEOUT_S.
TIMEOUT_S = 5

TOOLS = {
    "issue_refund": tools.refund,
    "refund_small_amount": tools.refund,
    "refund_and_notify": tools.refund_and_notify,
    "reserve_stock": tools.reserve_stock,
    "release_stock": tools.release_stock,
    "charge_again": tools.charge_again,
    "set_order_status": tools.set_order_status,
    "cancel_order": tools.cancel_order,
    "publish_order_event": tools.publish_order_event,
    "write_document": tools.write_document,
    "delete_document": tools.delete_document,
}


def run() -> None:
    """Execute the example's orders until stopped."""
    executor = make(shop.from_environment())

    def end(_number: int, _frame: FrameType | None) -> None:
        executor.stop()
        # Between orders there is nothing to finish; inside one, the loop ends after its report.
        if executor.is_waiting:
            raise SystemExit(0)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    try:
        executor.run()
    except RecordBehind as behind:
        print(behind, file=sys.stderr)
        raise SystemExit(behind.exit_code) from behind


def make(place: Shop) -> Executor:
    """The executor for a shop, with the key kept in COUNTERFOIL_EXAMPLE_STATE."""
    handlers: dict[str, Handler] = {name: partial(tool, place) for name, tool in TOOLS.items()}
    return Executor(
        url=environment.setting("COUNTERFOIL_URL"),
        key=environment.setting("COUNTERFOIL_EXECUTOR_KEY"),
        executor_id=environment.EXECUTOR_ID,
        key_file=environment.folder("COUNTERFOIL_EXAMPLE_STATE") / "executor.jwk",
        handlers=handlers,
        timeout_s=environment.seconds("COUNTERFOIL_EXAMPLE_TIMEOUT_S", TIMEOUT_S),
        # Where the console is reached another way than by its public address, which its grants name.
        issuer=os.environ.get("COUNTERFOIL_ISSUER") or None,
        own_hash=partial(own_hash, place),
    )


def own_hash(place: Shop, order: Order) -> str | None:
    """The payload hash that this executor presents: None, unless it is configured to present a wrong one."""
    claimed = str(read_claims(order.grant).get("payload", {}).get("hash", ""))
    try:
        with place.connect() as connection:
            fault = faults.fault_of(connection, claimed)
    except psycopg.OperationalError:
        # The shop is away: the tool will find out and say so; a start needs no hash of ours.
        return None
    return digest({"another": "payload"}) if fault is Fault.OTHER_PAYLOAD else None
