"""Procurement: read a purchase order back from Tryton over JSON-RPC (R-CP-08).

    effects.<name>   match {field of purchase.purchase: expression}, and optionally
                     vendor, sku, amount, currency, terms (expressions: what was ordered, from whom),
                     states [state] in which an order counts as approved, approver (expression),
                     catalogue (true: vendor, items and prices must stand in the vendor catalogue),
                     budget {limit: expression, match {field: expression}}, tenant_field, target_field

A system has `url`, `database` and `company` (the name of the company whose orders these are). The
credential's user belongs to a group that may only read.

1. An order that this user is not shown looks like one that is not there. Absence is told only if the
   user works in the system's company and may read orders at all.
2. Orders and their lines are read one after the other. If an order changed in between, there is no answer
   yet: prices of one state are not compared with the total of another.
3. An order that was cancelled is not the effect: `rejected_purchase` when no other stands.
4. The budget is the register's own sum over approved orders; Tryton's purchasing has no other ledger.
5. Amounts are compared as decimals, and shown as text with every digit that the register has.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from reviews.checks import fetching, lookups
from reviews.checks.fetching import Site, SiteResponse
from reviews.checks.interface import CheckFailed, Consistency, ReadEffect, Reading, SystemAccess
from reviews.checks.limits import bounded_read
from reviews.readback.rules import shapes

MAX_ORDERS = 20
MAX_LINES = 500
MAX_COUNTED = 2000
APPROVED = ("confirmed", "processing", "done")
REJECTED = "cancelled"

_TEXTS = ("vendor", "sku", "amount", "currency", "terms", "approver")
_FIELD = shapes.name_schema(r"[a-z][a-z_]*(\.[a-z][a-z_]*)?", "a field of an order")
_ORDER = (
    "number", "reference", "state", "total_amount", "party.code", "party.rec_name", "currency.code",
    "company.rec_name", "payment_term.rec_name", "create_uid.login", "quoted_by.rec_name",
    "confirmed_by.rec_name", "_timestamp",
)  # fmt: skip
_TEXT = {"type": "string"}
_FIELDS: dict[str, Any] = {
    **dict.fromkeys(
        (
            *("id", "number", "reference", "state", "vendor", "vendor_name", "amount", "currency", "company"),
            *("terms", "requester", "quoted_by", "approver", "sku", "committed"),
        ),
        _TEXT,
    ),
    "skus": {"type": "array", "items": _TEXT},
    "approved": {"type": "boolean"},
}
_PASSING = ("ConcurrencyException", "OperationalError", "DatabaseOperationalError", "RateLimitException")

Bindings = Mapping[str, Mapping[str, Any]]
Row = dict[str, Any]


@dataclass
class PurchaseOrder:
    """One order with its lines, as the register has them."""

    row: Row
    lines: list[Row] = field(default_factory=list)

    @property
    def skus(self) -> list[str]:
        return list(dict.fromkeys(str(_field_of(line, "product.code") or "") for line in self.lines))


@dataclass
class FoundOrders:
    """The orders found for one effect, the amount that they take of the budget, and the indicators."""

    orders: list[PurchaseOrder]
    committed: Decimal | None
    indicators: set[str]


class ProcurementCheck(lookups.LookupCheck):
    """The check of pattern `procurement`."""

    pattern = "procurement"
    settings = {
        "database": shapes.member(shapes.TEXT, "Database"),
        "company": shapes.member(shapes.TEXT, "Company", "The name of the company whose orders these are."),
        **fetching.SITE,
    }
    required_settings = ("database", "company")
    fields = _FIELDS
    part = shapes.object_schema(
        {"match": shapes.map_schema(_FIELD)},
        {
            **dict.fromkeys(_TEXTS, shapes.EXPRESSION),
            "states": shapes.list_schema({"type": "string", "fault": "must be a state."}, "states", 1),
            "catalogue": shapes.TRUTH,
            "budget": shapes.object_schema({"limit": shapes.EXPRESSION, "match": shapes.map_schema(_FIELD)}, {}),
            **shapes.scope_schema(_FIELDS),
        },
    )
    needs = {
        "vendor": ("vendor",),
        "sku": ("sku", "skus"),
        "amount": ("amount",),
        "currency": ("currency",),
        "budget_allocation": ("budget",),
        "contract_terms": ("terms",),
        "requester_authority": ("approver", "requester"),
    }

    @bounded_read
    def read(
        self,
        *,
        system: SystemAccess,
        verification: Mapping[str, Any],
        bindings: Bindings,
        at: datetime,
        timeout_s: float,
    ) -> Reading:
        """The orders as the register has them now."""
        parts = lookups.lookup_effects(verification)
        with fetching.open_site(system, system.settings.get("url"), until=fetching.deadline_after(timeout_s)) as site:
            register = TrytonClient(site, system)
            sees = register.sees_its_company()
            looked = {name: _look_up(register, part, bindings) for name, part in parts.items()}
        return Reading(
            source=system.name,
            consistency=fetching.effective_consistency(system, *register.answers, at=at, own=Consistency.PRIMARY),
            freshness=f"orders as of {_latest(looked.values())}",
            observed_at=at,
            pointer="; ".join(f"purchase.purchase where {_describe(part)}" for part in parts.values()),
            effects=tuple(_effect(name, parts[name], one, sees=sees) for name, one in looked.items()),
            indicators=tuple(sorted({key for one in looked.values() for key in one.indicators})),
            raw={name: [_order_fields(order) for order in one.orders] for name, one in looked.items()},
        )


# The register


class TrytonClient:
    """Tryton's JSON-RPC, of which only reading methods are called."""

    def __init__(self, site: Site, system: SystemAccess) -> None:
        database = system.settings.get("database")
        if not isinstance(database, str) or not isinstance(system.settings.get("company"), str):
            raise CheckFailed("The system has no database and company.", retryable=False)
        self.site = site
        self.answers: list[SiteResponse] = []
        self.company = system.settings["company"]
        self.path = f"/{fetching.path_segment(database)}/rpc/"

    def sees_its_company(self) -> bool:
        """Return whether this user is shown the company's records (rule 1)."""
        said = self._call("model.res.user.get_preferences", True, {})
        return isinstance(said, dict) and said.get("company.rec_name") == self.company

    def orders(self, domain: list[Any]) -> list[PurchaseOrder]:
        """The orders of a domain with their lines, all of one state (rule 2)."""
        rows = self._read("purchase.purchase", domain, _ORDER, MAX_ORDERS)
        found = [PurchaseOrder(row, self._lines(row["id"])) for row in rows]
        again = self._read("purchase.purchase", domain, ("_timestamp",), MAX_ORDERS)
        if [(row["id"], row["_timestamp"]) for row in rows] != [(row["id"], row["_timestamp"]) for row in again]:
            raise CheckFailed("The order changed while it was read.", retryable=True)
        return found

    def total(self, domain: list[Any]) -> Decimal:
        """The sum over the orders of a domain."""
        rows = self._read("purchase.purchase", domain, ("total_amount",), MAX_COUNTED)
        return sum((_decimal(row["total_amount"]) for row in rows), Decimal(0))

    def catalogue(self, vendor: str, skus: Sequence[str]) -> dict[str, list[tuple[Decimal, Decimal]]]:
        """A vendor's prices of these items: (least quantity, unit price), smallest quantity first."""
        domain: list[Any] = [["party.code", "=", vendor], ["product.code", "in", list(skus)]]
        fields = ("product.code", "currency.code", "prices")
        offers = self._read("purchase.product_supplier", domain, fields, MAX_LINES)
        found: dict[str, list[tuple[Decimal, Decimal]]] = {}
        for offer in offers:
            of_offer: list[Any] = [["product_supplier", "=", offer["id"]]]
            prices = self._read("purchase.product_supplier.price", of_offer, ("quantity", "unit_price"), MAX_LINES)
            steps = [(_decimal(one["quantity"] or "0"), _decimal(one["unit_price"])) for one in prices]
            found.setdefault(str(_field_of(offer, "product.code")), []).extend(steps)
        return {sku: sorted(steps) for sku, steps in found.items()}

    def _lines(self, order: int) -> list[Row]:
        domain: list[Any] = [["purchase", "=", order], ["type", "=", "line"]]
        return self._read("purchase.line", domain, ("product.code", "quantity", "unit_price"), MAX_LINES)

    def _read(self, model: str, domain: list[Any], fields: Sequence[str], limit: int) -> list[Row]:
        rows = self._call(f"model.{model}.search_read", domain, 0, limit + 1, [["id", "ASC"]], list(fields), {})
        if not isinstance(rows, list) or not all(isinstance(row, dict) and "id" in row for row in rows):
            raise CheckFailed(f"Tryton did not answer with records of {model}.", retryable=True)
        if len(rows) > limit:
            raise CheckFailed(f"More than {limit} records of {model} answer to that.", retryable=False)
        return rows

    def _call(self, method: str, *params: Any) -> Any:
        # What was said to another question, a moment ago say, has another number.
        number = secrets.randbits(31)
        answer = self.site.ask("POST", self.path, document={"id": number, "method": method, "params": list(params)})
        self.answers.append(answer)
        if answer.status != 200:
            raise CheckFailed(f"{answer.url} answered {answer.status}.", retryable=True)
        said = _decode(answer.text)
        if not isinstance(said, dict) or ("result" in said) == ("error" in said) or said.get("id") != number:
            raise CheckFailed(f"{answer.url} did not answer as Tryton does.", retryable=True)
        if "error" in said:
            raise _refusal(method, said["error"])
        return said["result"]


def _decode(text: str) -> Any:
    try:
        return json.loads(text, parse_float=str, object_hook=_value)
    except (ValueError, RecursionError, KeyError, TypeError, ArithmeticError):
        raise CheckFailed("Tryton's answer is not whole.", retryable=True) from None


def _value(given: dict[str, Any]) -> Any:
    """A value in Tryton's own notation."""
    return Decimal(given["decimal"]) if given.get("__class__") == "Decimal" else given


def _refusal(method: str, error: Any) -> CheckFailed:
    kind = str(error[0]) if isinstance(error, list) and error else str(error)
    said = error[1] if isinstance(error, list) and len(error) > 1 else ""
    sentence = str(said[0]) if isinstance(said, list) and said else kind
    return CheckFailed(f"{method}: {sentence}"[:300], retryable=kind in _PASSING)


# What was found


def _look_up(register: TrytonClient, part: Mapping[str, Any], bindings: Bindings) -> FoundOrders:
    orders = register.orders(_domain(part["match"], bindings))
    committed = _committed_budget(register, part, bindings)
    return FoundOrders(orders, committed, set(_indicators(register, part, orders, committed, bindings)))


def _domain(match: Mapping[str, str], bindings: Bindings) -> list[Any]:
    return [[name, "=", lookups.fill_template(text, bindings)] for name, text in match.items()]


def _field_of(row: Mapping[str, Any], path: str) -> Any:
    """Return a field of a linked record, as "party.code"."""
    name, _, rest = path.partition(".")
    if not rest:
        return row.get(name)
    there = row.get(f"{name}.")
    return there.get(rest) if isinstance(there, dict) else None


def _decimal(value: Any) -> Decimal:
    try:
        return value if isinstance(value, Decimal) else Decimal(str(value))
    except InvalidOperation:
        raise CheckFailed(f"{value!r} is no amount.", retryable=False) from None


def _standing(orders: list[PurchaseOrder]) -> list[PurchaseOrder]:
    return [order for order in orders if order.row["state"] != REJECTED]


def _effect(name: str, part: Mapping[str, Any], looked: FoundOrders, *, sees: bool) -> ReadEffect:
    standing = _standing(looked.orders)
    shown = [_order_fields(order, part.get("states", APPROVED)) for order in standing or looked.orders[:1]]
    spent = {} if looked.committed is None else {"committed": f"{looked.committed:f}"}
    return ReadEffect(
        name=name,
        # What this user is not shown is not told apart from what is not there (rule 1).
        present=True if standing else False if sees else None,
        count=len(standing),
        fields={**(shown[0] if shown else {}), **spent},
        scope=lookups.scope_of(part, shown if standing else ()),
    )


def _order_fields(order: PurchaseOrder, approved: Sequence[str] = APPROVED) -> dict[str, Any]:
    row = order.row
    found = {
        "id": str(row["id"]),
        "number": row["number"],
        "reference": row["reference"],
        "state": row["state"],
        "vendor": _field_of(row, "party.code"),
        "vendor_name": _field_of(row, "party.rec_name"),
        "amount": f"{_decimal(row['total_amount']):f}",
        "currency": _field_of(row, "currency.code"),
        "company": _field_of(row, "company.rec_name"),
        "terms": _field_of(row, "payment_term.rec_name"),
        "requester": _field_of(row, "create_uid.login"),
        "quoted_by": _field_of(row, "quoted_by.rec_name"),
        "approver": _field_of(row, "confirmed_by.rec_name"),
        "sku": order.skus[0] if order.skus else None,
    }
    # What the register leaves empty has no key: a predicate over it is undecidable, not false.
    known = {name: str(value) for name, value in found.items() if value is not None}
    return {**known, "skus": order.skus, "approved": row["state"] in approved}


def _committed_budget(register: TrytonClient, part: Mapping[str, Any], bindings: Bindings) -> Decimal | None:
    """The amount that approved orders have taken of the budget."""
    if "budget" not in part:
        return None
    approved = ["state", "in", list(part.get("states", APPROVED))]
    return register.total([*_domain(part["budget"]["match"], bindings), approved])


def _indicators(
    register: TrytonClient,
    part: Mapping[str, Any],
    orders: list[PurchaseOrder],
    committed: Decimal | None,
    bindings: Bindings,
) -> Iterator[str]:
    wanted = {name: lookups.fill_template(part[name], bindings) for name in _TEXTS if name in part}
    standing = _standing(orders)
    if orders and not standing:
        yield "rejected_purchase"
    if len(standing) > 1:
        yield "duplicate_po"
    for order in standing:
        yield from _differences(order, part, wanted)
        if part.get("catalogue", False):
            yield from _against_catalogue(order, register)
    if committed is not None and committed > _decimal(lookups.fill_template(part["budget"]["limit"], bindings)):
        yield "budget_breach"


def _differences(order: PurchaseOrder, part: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[str]:
    found = _order_fields(order, part.get("states", APPROVED))
    if not found["approved"] or ("approver" in wanted and found.get("approver") != str(wanted["approver"])):
        yield "approval_missing"
    if "vendor" in wanted and found.get("vendor") != str(wanted["vendor"]):
        yield "unauthorized_vendor_or_sku"
    if "sku" in wanted and order.skus != [str(wanted["sku"])]:
        yield "unauthorized_vendor_or_sku"
    if "amount" in wanted and _decimal(order.row["total_amount"]) != _decimal(wanted["amount"]):
        yield "price_mismatch"
    if any(name in wanted and found.get(name) != str(wanted[name]) for name in ("currency", "terms")):
        yield "price_mismatch"


def _against_catalogue(order: PurchaseOrder, register: TrytonClient) -> Iterator[str]:
    offers = register.catalogue(str(_field_of(order.row, "party.code") or ""), order.skus)
    for line in order.lines:
        steps = offers.get(str(_field_of(line, "product.code") or ""))
        if steps is None:
            yield "unauthorized_vendor_or_sku"
            continue
        quantity = _decimal(line["quantity"] or "0")
        prices = [price for least, price in steps if least <= quantity]
        if prices and _decimal(line["unit_price"]) != prices[-1]:
            yield "price_mismatch"


def _latest(looked: Iterable[FoundOrders]) -> str:
    times = [str(order.row["_timestamp"]) for one in looked for order in one.orders]
    return max(times, key=_decimal, default="none")


def _describe(part: Mapping[str, Any]) -> str:
    return " and ".join(f"{name} = {text}" for name, text in part["match"].items())
