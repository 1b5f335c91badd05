"""The example's tools on a real PostgreSQL and a real folder, in good times and with each fault."""

from __future__ import annotations

import hashlib

import psycopg
import pytest

from counterfoil.execution.lease import LeaseOver
from counterfoil.work import NothingSent
from example import faults, shop, tools
from example.faults import Fault
from example.stage import document_of, refund_of, reservation_of


def test_setting_up_again_changes_nothing(place, stage):
    order = stage.order()
    shop.set_up(admin_url=place.admin_url, writer_url=place.writer_url, reader_url=place.reader_url)
    assert place.rows("orders", id=order.order_id)[0]["version"] == 1


def test_the_shop_belongs_to_a_role_that_cannot_sign_in(place):
    with psycopg.connect(place.admin_url) as connection:
        owners = connection.execute(
            "SELECT DISTINCT tableowner, rolcanlogin FROM pg_tables"
            " JOIN pg_roles ON rolname = tableowner WHERE schemaname = 'shop'"
        ).fetchall()
    assert owners == [("shop_owner", False)]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE shop.orders SET status = 'x'",
        "DELETE FROM shop.refunds",
        "INSERT INTO shop.audit (order_id, operation, actor, idempotency_key, trace_id) VALUES ('', '', '', '', '')",
        "SELECT * FROM shop.example_faults",
        "CREATE TABLE shop.mine ()",
    ],
)
def test_the_reader_cannot_write_and_cannot_see_the_planted_faults(place, statement):
    with (
        psycopg.connect(place.reader_url) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute(statement)


def test_the_writer_cannot_delete(place):
    with (
        psycopg.connect(place.writer_url) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute("DELETE FROM shop.refunds")


def _refund(place, work_for, order, key=None):
    work = work_for("issue_refund", refund_of(order), key=key)
    return tools.refund(place.shop, work), work


def test_a_refund_is_written_with_its_key_trace_and_audit(place, stage, work_for):
    order = stage.order()
    result, work = _refund(place, work_for, order)
    (row,) = place.rows("refunds", order_id=order.order_id)
    assert result.status == "success"
    assert result.evidence == f"refund/{row['id']}"
    assert row["amount"] == order.amount
    assert row["idempotency_key"] == work.idempotency_key
    assert place.rows("audit", trace_id=work.trace.trace_id)
    assert place.rows("orders", id=order.order_id)[0]["version"] == 2


def test_the_same_key_refunds_once(place, stage, work_for):
    order = stage.order()
    first, _ = _refund(place, work_for, order, key=f"k-{order.order_id}")
    second, _ = _refund(place, work_for, order, key=f"k-{order.order_id}")
    assert first.evidence == second.evidence
    assert len(place.rows("refunds", order_id=order.order_id)) == 1


def test_a_refund_without_effect_reports_success(place, stage, work_for):
    order = stage.order(fault=Fault.NO_EFFECT)
    result, work = _refund(place, work_for, order)
    assert result.status == "success"
    assert place.rows("refunds", order_id=order.order_id) == []
    assert place.rows("audit", trace_id=work.trace.trace_id) == []
    assert place.rows("orders", id=order.order_id)[0]["version"] == 1


def test_a_refund_of_the_wrong_amount_reports_success(place, stage, work_for):
    order = stage.order(fault=Fault.WRONG_AMOUNT)
    result, _ = _refund(place, work_for, order)
    assert result.status == "success"
    assert place.rows("refunds", order_id=order.order_id)[0]["amount"] == 10 * order.amount


def test_a_refund_can_be_written_twice_under_one_key(place, stage, work_for):
    order = stage.order(fault=Fault.DUPLICATE)
    result, work = _refund(place, work_for, order)
    assert result.status == "success"
    assert len(place.rows("refunds", idempotency_key=work.idempotency_key)) == 2


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"order_id": "EX-NONE"}, "ORDER_MISSING"),
        ({"currency": "USD"}, "OTHER_CURRENCY"),
        ({"amount": 10_000_000}, "AMOUNT_TOO_HIGH"),
    ],
)
def test_an_obviously_wrong_refund_is_refused_before_anything_is_sent(place, stage, work_for, change, code):
    work = work_for("issue_refund", refund_of(stage.order()) | change)
    with pytest.raises(NothingSent) as caught:
        tools.refund(place.shop, work)
    assert caught.value.code == code
    assert work.begun == []


def test_no_refund_begins_after_the_lease_has_expired(place, stage, work_for):
    order = stage.order()
    work = work_for("issue_refund", refund_of(order), for_s=0.0)
    with pytest.raises(LeaseOver):
        tools.refund(place.shop, work)
    assert place.rows("refunds", order_id=order.order_id) == []


def test_an_unreachable_shop_reports_that_nothing_was_sent(place, work_for):
    away = shop.Shop("postgresql://x@127.0.0.1:1/none", place.shop.valkey_url, place.shop.folder)
    with pytest.raises(NothingSent) as caught:
        tools.cancel_order(away, work_for("cancel_order", {"order_id": "EX-1"}))
    assert caught.value.code == "SHOP_UNREACHABLE"


def _notify(place, stage, work_for, fault=None):
    order = stage.order(fault=fault)
    payload = {**refund_of(order), "message": "On its way."}
    return tools.refund_and_notify(place.shop, work_for("refund_and_notify", payload)), order


def test_a_refund_with_a_notice_writes_both(place, stage, work_for):
    result, order = _notify(place, stage, work_for)
    assert result.status == "success"
    assert len(place.rows("refunds", order_id=order.order_id)) == 1
    assert place.rows("notices", order_id=order.order_id)[0]["body"] == "On its way."


def test_a_refund_whose_notice_is_lost_reports_success(place, stage, work_for):
    result, order = _notify(place, stage, work_for, Fault.ONLY_FIRST_EFFECT)
    assert result.status == "success"
    assert len(place.rows("refunds", order_id=order.order_id)) == 1
    assert place.rows("notices", order_id=order.order_id) == []


def _reserve(place, stage, work_for, fault=None, key=None):
    order = stage.order(fault=fault)
    work = work_for("reserve_stock", reservation_of(order), key=key)
    result = tools.reserve_stock(place.shop, work)
    return result, work, place.rows("reservations", order_id=order.order_id)


def _release(place, work_for, row, key=None):
    return tools.release_stock(place.shop, work_for("release_stock", {"reservation_id": row["id"]}, key=key))


def test_stock_is_reserved_once_per_key(place, stage, work_for):
    result, work, (row,) = _reserve(place, stage, work_for)
    assert result.evidence == f"reservation/{row['id']}"
    assert (row["sku"], row["quantity"], row["status"]) == (work.payload["sku"], work.payload["quantity"], "held")
    assert tools.reserve_stock(place.shop, work) == result
    assert len(place.rows("reservations", idempotency_key=work.idempotency_key)) == 1


def test_a_reservation_of_the_wrong_quantity_reports_success_and_can_be_released(place, stage, work_for):
    result, work, (row,) = _reserve(place, stage, work_for, Fault.WRONG_QUANTITY)
    assert (result.status, row["quantity"]) == ("success", 10 * work.payload["quantity"])
    for _ in range(2):
        assert _release(place, work_for, row, key=f"back-{row['id']}").status == "success"
    (after,) = place.rows("reservations", id=row["id"])
    assert (after["status"], after["released_at"] is not None) == ("released", True)
    assert len(place.rows("audit", idempotency_key=f"back-{row['id']}")) == 1


def test_a_release_that_is_lost_reports_success(place, stage, work_for):
    _, _, (row,) = _reserve(place, stage, work_for, Fault.KEEPS_RESERVATION)
    assert _release(place, work_for, row).status == "success"
    assert place.rows("reservations", id=row["id"])[0]["status"] == "held"


def test_a_missing_reservation_is_refused_before_anything_is_sent(place, work_for):
    with pytest.raises(NothingSent) as caught:
        _release(place, work_for, {"id": "RV-00000000"})
    assert caught.value.code == "RESERVATION_MISSING"


def test_a_refund_is_charged_again_once_per_key_and_never_more_than_it_was(place, stage, work_for):
    order = stage.order(fault=Fault.DUPLICATE)
    tools.refund(place.shop, work_for("refund_small_amount", refund_of(order)))
    _, row = place.rows("refunds", order_id=order.order_id)
    payload = {"refund_id": row["id"], "amount": row["amount"], "currency": "EUR"}
    work = work_for("charge_again", payload)
    assert tools.charge_again(place.shop, work) == tools.charge_again(place.shop, work)
    (charge,) = place.rows("charges", order_id=order.order_id)
    assert (charge["refund_id"], charge["amount"]) == (row["id"], row["amount"])
    assert place.rows("orders", id=order.order_id)[0]["refunded"] == order.amount
    for wrong, code in (({"amount": 1}, "AMOUNT_TOO_HIGH"), ({"refund_id": 10**9}, "REFUND_MISSING")):
        with pytest.raises(NothingSent) as caught:
            tools.charge_again(place.shop, work_for("charge_again", payload | wrong))
        assert caught.value.code == code


def _set_status(place, work_for, order):
    payload = {"order_id": order.order_id, "status": "packed", "expected_version": order.version}
    return tools.set_order_status(place.shop, work_for("set_order_status", payload))


def test_a_status_is_changed_from_the_version_that_was_read(place, stage, work_for):
    order = stage.order()
    assert _set_status(place, work_for, order).status == "success"
    (row,) = place.rows("orders", id=order.order_id)
    assert (row["status"], row["version"]) == ("packed", 2)


def test_a_status_change_is_refused_when_the_version_moved_in_between(place, stage, work_for):
    order = stage.order(fault=Fault.VERSION_MOVES)
    result = _set_status(place, work_for, order)
    assert result.status == "failed"
    assert result.error.code == "STALE_STATE_ERROR"
    assert result.error.phase == "after_send"
    (row,) = place.rows("orders", id=order.order_id)
    assert (row["status"], row["updated_by"]) == ("on_hold", "clerk-ines")


def test_an_order_is_cancelled_once(place, stage, work_for):
    order = stage.order()
    payload = {"order_id": order.order_id, "reason": "out_of_stock"}
    tools.cancel_order(place.shop, work_for("cancel_order", payload))
    tools.cancel_order(place.shop, work_for("cancel_order", payload))
    (row,) = place.rows("orders", id=order.order_id)
    assert (row["status"], row["version"]) == ("cancelled", 2)


def test_a_document_is_really_deleted(place, stage, work_for):
    path = stage.document()
    result = tools.delete_document(place.shop, work_for("delete_document", {"path": path}))
    assert result.status == "success"
    assert not (place.shop.folder / path).exists()


def test_a_document_can_remain_although_its_deletion_is_reported(place, stage, work_for):
    path = stage.document(fault=Fault.NO_EFFECT)
    result = tools.delete_document(place.shop, work_for("delete_document", {"path": path}))
    assert result.status == "success"
    assert (place.shop.folder / path).exists()


def test_a_document_is_written_completely(place, work_for):
    work = work_for("write_document", document_of("a/b.md", "Grüße\n"))
    tools.write_document(place.shop, work)
    data = (place.shop.folder / "a/b.md").read_bytes()
    assert hashlib.sha256(data).hexdigest() == work.payload["sha256"]
    assert [path.name for path in (place.shop.folder / "a").iterdir()] == ["b.md"]


def test_a_text_with_another_hash_is_not_written(place, work_for):
    payload = document_of("a.md", "one") | {"text": "two"}
    with pytest.raises(NothingSent):
        tools.write_document(place.shop, work_for("write_document", payload))
    assert list(place.shop.folder.iterdir()) == []


@pytest.mark.parametrize("path", ["../secret.md", "/etc/passwd", ".", "a/../../x.md", "link/x.md"])
def test_a_path_outside_the_folder_is_refused(place, work_for, tmp_path, path):
    (place.shop.folder / "link").symlink_to(tmp_path)
    (tmp_path / "x.md").write_text("keep")
    with pytest.raises(NothingSent):
        tools.delete_document(place.shop, work_for("delete_document", {"path": path}))
    assert (tmp_path / "x.md").exists()


def test_a_planted_fault_affects_one_target_and_replaces_the_earlier_one(place):
    with place.shop.connect() as connection:
        faults.ask_for(connection, "EX-A", Fault.NO_EFFECT)
        faults.ask_for(connection, "EX-A", Fault.DUPLICATE)
        assert faults.fault_of(connection, "EX-A") is Fault.DUPLICATE
        assert faults.fault_of(connection, "EX-B") is None
        connection.rollback()
