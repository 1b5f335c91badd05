"""Payments: find a charge, payment or refund at the processor and in the books, over the Stripe API (R-CP-05).

    effects.<name>   kind ("charge", "payment_intent" or "refund"), id (expression) or match {field: expression},
                     and optionally of {"charge", "payment_intent" or "customer": expression},
                     amount, currency (expressions), fields [field], settle_within_s,
                     tenant_field, target_field
    ledger           table, where {column: expression}, amount_column, currency_column: our own books

Fields may be nested: `metadata.idempotency_key`. The system's settings: url, api_version, account (a connected
one), ledger (where the books are: a PostgreSQL, as for `databases`); the credential: token (a restricted key that
may only read), ledger_url.

1. Everything is read from lists and objects, which show each write at once; the search interface lags and is
   never asked. A list is walked to its end; one that is longer than we walk proves nothing.
2. The tool writes its idempotency key into the metadata, where `match` finds it: also twice, when the processor's
   own protection failed or had expired.
3. Only what moves money counts: a declined charge, or a payment that was never confirmed, is no effect. A refund
   that failed was one, and is `settlement_failure`. A status that is not known here, and an amount or a currency that
   is compared and not shown, tell nothing.
4. Pending at the processor is pending here; after `settle_within_s` it is `pending_beyond_sla`.
5. A refund's charge is read with it: refunds that exceed it are `refund_mismatch`.
6. Freshness is the newest creation time and the processor's request id.

Spoken with httpx: the processor's own library is many times the size of this file's needs, retries by itself and
can write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from reviews.checks import fetching, lookups
from reviews.checks.databases import DatabaseCheck
from reviews.checks.fetching import Site, SiteResponse
from reviews.checks.interface import CheckFailed, ReadEffect, Reading, SystemAccess
from reviews.checks.limits import bounded_read
from reviews.checks.postgres import COLUMN, TABLE
from reviews.readback.rules import shapes

PAGE = 100
MAX_PAGES = 20
SLACK = timedelta(minutes=5)
SETTLE_WITHIN_S = 86_400

_KINDS = {"charge": "charges", "payment_intent": "payment_intents", "refund": "refunds"}
_PREFIXES = {"ch": "charge", "pi": "payment_intent", "re": "refund"}
_PARENTS = frozenset({"charge", "payment_intent", "customer"})
_FIELD = shapes.name_schema(r"[a-z][a-z0-9_]*(\.[A-Za-z0-9_]+){0,3}", "a field's name")
_STRINGS = ("id", "status", "state", "currency", "created_at", "charge", "payment_intent", "customer", "account",
            "failure_code")  # fmt: skip
_NOTHING_MOVED = {
    "charge": frozenset({"failed"}),
    "refund": frozenset({"canceled"}),
    "payment_intent": frozenset({"canceled", "requires_payment_method", "requires_confirmation", "requires_action"}),
}
_PENDING = frozenset({"pending", "processing", "requires_action"})
_MOVED = {
    "charge": frozenset({"succeeded"}),
    "refund": frozenset({"succeeded", "failed"}),
    "payment_intent": frozenset({"succeeded", "requires_capture"}),
}

Bindings = Mapping[str, Mapping[str, Any]]
Thing = Mapping[str, Any]


@dataclass
class FoundPayment:
    """The processor's records of one effect."""

    kind: str
    things: list[Thing] = field(default_factory=list)
    whole: bool = True
    charge: Thing | None = None
    answers: list[SiteResponse] = field(default_factory=list)

    @property
    def moved(self) -> list[Thing]:
        return [one for one in self.things if one.get("status") in _MOVED[self.kind] | _PENDING - self._nothing]

    @property
    def is_unclear(self) -> bool:
        """True if it cannot be told of one of them whether it moves money."""
        return any(one.get("status") not in _MOVED[self.kind] | _PENDING | self._nothing for one in self.things)

    @property
    def _nothing(self) -> frozenset[str]:
        return _NOTHING_MOVED[self.kind]


class PaymentCheck(lookups.LookupCheck):
    """The check of pattern `payments`."""

    pattern = "payments"
    settings = {
        **fetching.SITE,
        "api_version": shapes.member(shapes.TEXT, "Version of the API", "Left out, the account's own."),
        "account": shapes.member(shapes.TEXT, "Connected account"),
        "operation_field": shapes.member(
            _FIELD,
            "Field of the operation",
            "Where your tools write the key of an operation, so that a claim finds it.",
        ),
        "ledger": shapes.member(
            shapes.object_schema({}, DatabaseCheck.settings), "Your own books", "A PostgreSQL with the entries."
        ),
    }
    part = shapes.object_schema(
        {"kind": {"enum": list(_KINDS), "fault": f"is one of {', '.join(_KINDS)}."}},
        {
            **dict.fromkeys(("id", "amount", "currency"), shapes.EXPRESSION),
            "match": shapes.map_schema(_FIELD),
            "of": shapes.map_schema(shapes.one_of(sorted(_PARENTS))),
            "fields": shapes.fields_schema(_FIELD),
            "settle_within_s": shapes.number_schema(1),
            **dict.fromkeys(("tenant_field", "target_field"), _FIELD),
        },
        shapes.either("id", "match"),
    )
    beside = {"ledger": shapes.object_schema({**TABLE, "amount_column": COLUMN}, {"currency_column": COLUMN})}
    needs = {
        "idempotency_key": ("match",),
        "amount": ("amount",),
        "currency": ("currency",),
        "account": ("account",),
        "status": ("status", "state"),
        "authorization_capture_refund_state": ("state", "status", "amount_refunded"),
        "ledger_entry": ("ledger",),
    }

    def fields_of(self, part: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of a payment, amounts in the currency's smallest unit."""
        declared: dict[str, Any] = {_key(name): {} for name in part.get("fields", ())}
        text = {name: {"type": "string"} for name in _STRINGS}
        amounts = {name: {"type": "integer"} for name in ("amount", "amount_refunded")}
        return {**declared, **text, **amounts, "livemode": {"type": "boolean"}, "metadata": {"type": "object"}}

    def fields_beside(self, lookup: Mapping[str, Any]) -> dict[str, Any]:
        """Our own books, and the payment that a refund belongs to."""
        found: dict[str, Any] = {}
        if "ledger" in lookup:
            booked: dict[str, Any] = {name: {} for name in ("exists", "count", "amount", "currency")}
            found["ledger"] = {"type": "object", "properties": booked}
        if any(part.get("kind") == "refund" for part in lookup.get("effects", {}).values()):
            found["target"] = {"type": "object"}
        return found

    def locate(self, *, kind: str, operation: str, target: str, settings: Mapping[str, Any]) -> dict[str, Any] | None:
        """The lookup of a claim: the processor's own id of the object, or the key of an operation that it carries.

        A target that it is not compared with is not passed over.
        """
        prefix, _, rest = operation.partition("_")
        parent, _, number = target.partition("/")
        of = {parent: lookups.literal(number)} if parent in _PARENTS and number else {}
        if target and not of and number != operation:
            return None
        if rest and prefix in _PREFIXES:
            compared = {"target_field": parent} if of and number != operation else {}
            return {"kind": _PREFIXES[prefix], "id": lookups.literal(operation), **compared}
        if operation and "operation_field" in settings:
            match = {str(settings["operation_field"]): lookups.literal(operation)}
        elif not operation and of and kind == "refund":
            match = of
        else:
            return None
        return {"kind": kind or "refund", "match": match, **({"of": of} if of else {})}

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
        """Read the processor and, if the lookup names them, our own books."""
        lookup = verification.get("lookup", {})
        parts = {name: _fill_part(part, bindings) for name, part in lookups.lookup_effects(verification).items()}
        with _site(system, timeout_s) as site:
            found = {name: _look_up(site, part, bindings, at=at) for name, part in parts.items()}
        booked = _read_books(system, lookup, bindings, at=at, timeout_s=timeout_s)
        effects = tuple(_effect(name, parts[name], one, system) for name, one in found.items())
        indicators = {key for name, one in found.items() for key in _indicators(parts[name], one, at=at)}
        if booked is not None and effects and _diverges(effects[0], booked):
            indicators.add("provider_local_ledger_divergence")
        answers = [answer for one in found.values() for answer in one.answers]
        return Reading(
            source=system.name,
            consistency=fetching.effective_consistency(system, *answers, at=at),
            freshness=_freshness(found),
            observed_at=at,
            pointer="; ".join(_describe(part) for part in lookups.lookup_effects(verification).values()),
            effects=effects,
            target=_target(parts, found),
            context={} if booked is None else {"ledger": booked},
            indicators=tuple(sorted(indicators)),
            raw={name: {"things": [_evidence_of(thing) for thing in one.things]} for name, one in found.items()},
        )


# At registration


def _key(name: str) -> str:
    return name.replace(".", "_")


def _entry(part: Mapping[str, Any]) -> dict[str, Any]:
    """The books as a lookup of `databases`."""
    columns = [part[name] for name in ("amount_column", "currency_column") if name in part]
    return {"fields": columns, **{name: part[name] for name in ("table", "where") if name in part}}


# One reading


def _site(system: SystemAccess, timeout_s: float) -> Site:
    headers = {"Authorization": f"Bearer {system.credential.get('token', '')}"}
    for setting, header in (("api_version", "Stripe-Version"), ("account", "Stripe-Account")):
        if setting in system.settings:
            headers[header] = str(system.settings[setting])
    address = system.credential.get("url") or system.settings.get("url")
    return fetching.open_site(system, address, until=fetching.deadline_after(timeout_s), headers=headers)


def _fill_part(part: Mapping[str, Any], bindings: Bindings) -> dict[str, Any]:
    """The part with its expressions replaced by their values."""
    found = dict(part)
    for name in ("id", "amount", "currency"):
        if name in part:
            found[name] = str(lookups.fill_template(part[name], bindings))
    for name in ("match", "of"):
        found[name] = {one: str(lookups.fill_template(text, bindings)) for one, text in part.get(name, {}).items()}
    if "" in (*found["match"].values(), *found["of"].values()):
        raise CheckFailed("The lookup's value is empty, and would find everything.", retryable=False)
    return found


def _look_up(site: Site, part: Mapping[str, Any], bindings: Bindings, *, at: datetime) -> FoundPayment:
    found = FoundPayment(part["kind"])
    if "id" in part:
        thing = _one(site, _KINDS[part["kind"]], part["id"], found)
        found.things = [] if thing is None else [thing]
    else:
        found.things = _list_objects(site, part, _first_second(bindings, at=at), found)
    charge = part["of"].get("charge") or next((str(one["charge"]) for one in found.things if one.get("charge")), None)
    if part["kind"] == "refund" and charge is not None:
        found.charge = _one(site, "charges", charge, found) or {}
    return found


def _one(site: Site, place: str, number: str, payment: FoundPayment) -> Thing | None:
    answer = site.get(f"/v1/{place}/{fetching.path_segment(number)}")
    payment.answers.append(answer)
    return _object(answer)


def _object(answer: SiteResponse) -> dict[str, Any] | None:
    """Return the object in the processor's answer; None if the processor reports that there is none."""
    said = answer.document()
    if answer.status == 200 and "object" in said:
        return said
    detail = said.get("error")
    if answer.status == 404 and isinstance(detail, dict):
        return None
    message = detail.get("message", "") if isinstance(detail, dict) else ""
    sentence = f"The processor answered {answer.status}: {str(message)[:200]}"
    # What is no object and no error of the processor comes from something else.
    raise CheckFailed(sentence, retryable=not isinstance(detail, dict))


def _list_objects(site: Site, part: Mapping[str, Any], since: int, payment: FoundPayment) -> list[Thing]:
    """Return the objects with all these fields; `whole` is True if all candidates were seen."""
    params = {"limit": str(PAGE), **part["of"]}
    if not part["of"] and since:
        params["created[gt]"] = str(since)
    things: list[Thing] = []
    for _ in range(MAX_PAGES):
        answer = site.get(f"/v1/{_KINDS[part['kind']]}", params=params)
        payment.answers.append(answer)
        said = _object(answer)
        if said is None:
            # What the payment should belong to is not there, so neither is the payment.
            return things
        if not isinstance(said.get("data"), list) or not isinstance(said.get("has_more"), bool):
            raise CheckFailed("The processor did not answer with a list.", retryable=True)
        page = [one for one in said["data"] if isinstance(one, dict)]
        things += [
            one for one in page if all(str(_field_at(one, name)) == value for name, value in part["match"].items())
        ]
        if not said.get("has_more") or not page:
            return things
        params["starting_after"] = str(page[-1].get("id"))
    payment.whole = False
    return things


def _first_second(bindings: Bindings, *, at: datetime) -> int:
    """The second after which the object was made; without a time of execution, none."""
    try:
        executed_at = datetime.fromisoformat(str(bindings.get("scope", {}).get("executed_at")))
    except ValueError:
        return 0
    return 0 if executed_at.tzinfo is None else int((min(executed_at, at) - SLACK).timestamp())


def _field_at(thing: Thing, name: str) -> Any:
    """Return a field, which may be nested; a linked object is represented by its id."""
    found: Any = thing
    for key in name.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found.get("id") if isinstance(found, Mapping) and "object" in found else found


def _effect(name: str, part: Mapping[str, Any], payment: FoundPayment, system: SystemAccess) -> ReadEffect:
    moved = payment.moved
    kinds = {kind: part[f"{kind}_field"] for kind in ("tenant", "target") if f"{kind}_field" in part}
    hidden = [
        each for each in ("amount", "currency") if each in part and any(one.get(each) in (None, "") for one in moved)
    ]
    if len(moved) < 2 and (payment.is_unclear or hidden):
        return ReadEffect(name=name, present=None)
    if not moved:
        fields = _fields(part, payment.things[0], payment, system) if payment.things else {}
        return ReadEffect(name=name, present=False if payment.whole else None, fields=fields)
    return ReadEffect(
        name=name,
        present=True,
        count=len(moved),
        fields=_fields(part, moved[0], payment, system),
        pending=moved[0].get("status") in _PENDING,
        scope={kind: tuple(dict.fromkeys(_text(_field_at(one, at)) for one in moved)) for kind, at in kinds.items()},
    )


def _text(value: Any) -> str | None:
    return None if value is None or value == "" else str(value)


def _fields(part: Mapping[str, Any], thing: Thing, payment: FoundPayment, system: SystemAccess) -> dict[str, Any]:
    """The fields of one object; an amount, a currency or a refund's customer that is not shown is left out."""
    declared = {_key(name): lookups.to_json_value(_field_at(thing, name)) for name in part.get("fields", ())}
    links = {name: _text(_field_at(thing, name)) or "" for name in ("charge", "payment_intent", "customer")}
    if payment.kind == "refund" and not links["customer"]:
        # A refund names its charge, and that names the customer.
        links["customer"] = _text(_field_at(payment.charge or {}, "customer")) or ""
        links = {name: value for name, value in links.items() if value or name != "customer"}
    money = {name: lookups.to_json_value(thing[name]) for name in ("amount", "amount_refunded") if name in thing}
    money |= {"currency": str(thing["currency"]).upper()} if thing.get("currency") else {}
    return {
        **declared,
        **links,
        "id": str(thing.get("id", "")),
        "status": str(thing.get("status", "")),
        "state": _state(part["kind"], thing),
        **money,
        "account": _text(_field_at(thing, "transfer_data.destination")) or str(system.settings.get("account", "")),
        "created_at": _created_at(thing),
        "failure_code": _text(thing.get("failure_code") or thing.get("failure_reason")) or "",
        "livemode": bool(thing.get("livemode")),
        "metadata": lookups.to_json_value(thing.get("metadata") or {}),
    }


def _state(kind: str, thing: Thing) -> str:
    """Return authorised, captured or refunded."""
    status = str(thing.get("status", ""))
    if kind != "charge" or status != "succeeded":
        return "authorized" if status == "requires_capture" else status
    if thing.get("refunded"):
        return "refunded"
    if thing.get("amount_refunded"):
        return "partially_refunded"
    return "captured" if thing.get("captured") else "authorized"


def _created_at(thing: Thing) -> str:
    created = thing.get("created")
    return f"{datetime.fromtimestamp(created, UTC):%Y-%m-%dT%H:%M:%SZ}" if isinstance(created, int) else ""


def _indicators(part: Mapping[str, Any], payment: FoundPayment, *, at: datetime) -> Iterator[str]:
    if len(payment.moved) > 1:
        yield "duplicate_charge"
    for thing in payment.things:
        yield from _payment_indicators(part, thing, at=at)
    if payment.charge and int(payment.charge.get("amount_refunded") or 0) > int(payment.charge.get("amount") or 0):
        yield "refund_mismatch"


def _payment_indicators(part: Mapping[str, Any], thing: Thing, *, at: datetime) -> Iterator[str]:
    status, kind = str(thing.get("status", "")), part["kind"]
    if (kind == "charge" and status == "failed") or (kind == "payment_intent" and thing.get("last_payment_error")):
        yield "decline"
    if (kind == "refund" and status == "failed") or thing.get("failure_balance_transaction"):
        yield "settlement_failure"
    if _differs(part, thing):
        yield "refund_mismatch" if kind == "refund" else "amount_mismatch"
    within = timedelta(seconds=part.get("settle_within_s", SETTLE_WITHIN_S))
    created = thing.get("created")
    if status in _PENDING and isinstance(created, int) and at - datetime.fromtimestamp(created, UTC) > within:
        yield "pending_beyond_sla"


def _differs(part: Mapping[str, Any], thing: Thing) -> bool:
    amount, currency = part.get("amount"), part.get("currency")
    shown_amount, shown_currency = thing.get("amount"), thing.get("currency")
    elsewhere = any(_text(_field_at(thing, name)) not in {value, None} for name, value in part["of"].items())
    return (
        (None not in (amount, shown_amount) and amount != str(shown_amount))
        or (currency is not None and bool(shown_currency) and currency.lower() != str(shown_currency).lower())
        or elsewhere
    )


def _target(parts: Mapping[str, Mapping[str, Any]], found: Mapping[str, FoundPayment]) -> dict[str, Any] | None:
    """The charge that a refund is of."""
    charge = next((one.charge for one in found.values() if one.charge is not None), None)
    if charge is None:
        return None
    if not charge:
        return {"exists": False, "count": 0}
    names = ("id", "status", "amount", "amount_refunded", "currency", "refunded", "captured")
    return {**{name: lookups.to_json_value(charge.get(name)) for name in names}, "exists": True, "count": 1}


def _freshness(found: Mapping[str, FoundPayment]) -> str:
    newest = max((_created_at(thing) for one in found.values() for thing in one.things), default="")
    asked = [answer.headers.get("request-id", "") for one in found.values() for answer in one.answers]
    return f"created {newest or 'none'}, request {next((one for one in reversed(asked) if one), 'unnamed')}"[:200]


def _evidence_of(thing: Thing) -> dict[str, Any]:
    """The fields kept as evidence: none about cards or people."""
    names = ("id", "object", "status", "amount", "amount_refunded", "currency", "created", "livemode", "charge",
             "payment_intent", "customer", "metadata", "failure_code", "failure_reason")  # fmt: skip
    return {name: lookups.to_json_value(thing[name]) for name in names if name in thing}


def _describe(part: Mapping[str, Any]) -> str:
    where = {"id": part["id"]} if "id" in part else {**part.get("of", {}), **part.get("match", {})}
    return f"{_KINDS[part['kind']]} where {' and '.join(f'{name} = {text}' for name, text in where.items())}"


# Our own books


def _read_books(
    system: SystemAccess, lookup: Mapping[str, Any], bindings: Bindings, *, at: datetime, timeout_s: float
) -> dict[str, Any] | None:
    """Read our own books as `databases` does; return None if the lookup names none."""
    part = lookup.get("ledger")
    if part is None:
        return None
    books = SystemAccess(
        f"{system.name} ledger",
        "databases",
        system.settings.get("ledger", {}),
        {"url": system.credential["ledger_url"]} if "ledger_url" in system.credential else {},
    )
    reading = DatabaseCheck().read(
        system=books,
        verification={"lookup": {"effects": {"entry": _entry(part)}}},
        bindings=bindings,
        at=at,
        timeout_s=timeout_s,
    )
    if not reading.is_strong:
        raise CheckFailed("The books were read from a replica, which settles nothing.", retryable=True)
    entry = reading.effect("entry")
    shown = {
        name: entry.fields.get(part[f"{name}_column"]) for name in ("amount", "currency") if f"{name}_column" in part
    }
    return {**shown, "exists": bool(entry.present), "count": entry.count}


def _diverges(effect: ReadEffect, booked: Mapping[str, Any]) -> bool:
    """Return whether the books disagree; a pending payment need not be in them yet."""
    if effect.pending or effect.present is None:
        return False
    if not effect.present:
        return bool(booked["exists"])
    shown = effect.fields
    other = "amount" in shown and str(booked.get("amount")).lstrip("-") != str(shown["amount"])
    currency = "currency" in shown and str(booked.get("currency", shown["currency"])).upper() != shown["currency"]
    return booked["count"] != effect.count or other or currency
