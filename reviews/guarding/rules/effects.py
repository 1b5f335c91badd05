"""The facts of a change: its arguments, with ids resolved to earlier readings, and the new values in its answer.

1. An argument that the target names already is left out. An id is followed by what any reading showed of it: name,
   price, last four digits, the options of a variant. Nothing else of that reading is repeated.
2. Anew is what the answer shows, and the last earlier answer about the same thing did not: a new row of a list, a
   changed value. Without such an earlier answer only money, states and payment methods are repeated, as they stand:
   what an answer holds need not come from this change, unless the thing itself is new.
3. A new row of payments is an effect with a direction, told in words: `paid back 331.00 EUR`. So is the difference of a
   price, of which the answer says only which way it goes: `price difference 16.63 to be paid back`.
4. An integer beside a currency counts its minor units, as everywhere in the record (`ledger.catalogue.rules.money`),
   unless the same answer has amounts with fractions. Without a currency a number stays as it is.
5. A status that says only that the call went well is no fact: the outcome's word says more. Nor are secrets, and the
   record's own marks (`updated_at`, `version`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from ledger.catalogue.rules.fields import is_mere_success
from ledger.catalogue.rules.money import MONEY, format_money, is_currency
from ledger.catalogue.rules.report_templates import as_text
from reviews.guarding.rules.once import once
from reviews.guarding.rules.records import PLAIN, Ground, Record, leaves

MOST_FACTS = 12
MOST_DETAILS = 7
LONGEST_DETAIL = 50
LONGEST_FACT = 80
DEPTH = 8
SHORTEST_NAME = 3
_TARGET_PARTS = re.compile(r"[/\s,]")
_WORDS = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])")
_ID = re.compile(r"(?:^|_)(?:ids?|number|no|code|sku|ref|reference)$|(?<=[a-z])Ids?$")
_TELLING = re.compile(
    r"name|title|label|brand|source|last_?(?:four|4|digits)|price|fare|options?|variant|colou?r|size|cabin|class|plan"
    r"|date|origin|destination|model|amount|type|kind|category",
    re.IGNORECASE,
)
_MONEY = re.compile(
    r"amount|price|total|cost|fee|fare|sum\b|paid|refund|charge|payment|difference|balance|credit|debit|cents|minor",
    re.IGNORECASE,
)
_STATES = re.compile(r"status|state$|method|difference|payment|refund|charge|balance", re.IGNORECASE)
_PAYMENTS = re.compile(r"payment|transaction|charge|refund|ledger|entries|billing", re.IGNORECASE)
_HIDDEN = re.compile(
    r"password|passwd|secret|token|api_?key|cvv|cvc|\bpin\b|ssn|signature|hash|etag|(?:updated|modified|created)_?(?:at|on|by)$"
    r"|timestamp|version|revision|request_id|trace",
    re.IGNORECASE,
)
_MINOR = re.compile(r"cents|minor")
_BACK = re.compile(r"refund|credit|reversal|reimburs|payout|return", re.IGNORECASE)
_OUT = re.compile(r"payment|charge|debit|purchase|sale|capture", re.IGNORECASE)
_MOVED = {1: "charged", -1: "paid back"}
_OWED = {1: "to be paid", -1: "to be paid back"}
_AMOUNT_NAMES = ("amount", "total", "value", "amount_cents", "amount_minor")


class Fact(NamedTuple):
    """One fact of a change: its name in words, its value, and what is known of that value; `shown` by the answer."""

    name: str
    value: str
    detail: str = ""
    shown: bool = False

    @property
    def text(self) -> str:
        """The value as the receipt has it, without its name."""
        return f"{self.value} ({self.detail})" if self.detail else self.value


@dataclass(frozen=True, slots=True)
class MoneyEffect:
    """An amount that a change moved or owes: `direction` 1 is paid by the customer, -1 paid back to them, 0 unknown."""

    amount: float
    direction: int
    methods: tuple[str, ...]
    words: str


class _Shown(NamedTuple):
    """A new value in an answer: the names on its path, the value, and the value before, if it had one."""

    path: tuple[str, ...]
    value: Any
    before: Any = None
    is_effect: bool = True


class Effects:
    """The facts of the changes of a record; the readings for an id are looked up once."""

    @classmethod
    def of(cls, ground: Ground) -> Effects:
        """Return the facts of a session's record, computed once."""
        made = ground.derived.get("effects")
        if not isinstance(made, cls):
            made = ground.derived["effects"] = cls(ground)
        return made

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._anew: dict[str, tuple[_Shown, ...]] = {}
        self._money: dict[str, tuple[MoneyEffect, ...]] = {}
        self._read: dict[str, Mapping[str, Any]] = {}

    def facts_of(self, record: Record) -> tuple[tuple[Fact, ...], int]:
        """Return at most `MOST_FACTS` facts of a change, those of its answer first, and the number left out."""
        asked = list(self._asked_facts(record)) if record.state is not None or record.arguments else []
        shown = list(self._shown_facts(record)) if _tells(record) else []
        kept = shown[:MOST_FACTS]
        room = MOST_FACTS - len(kept)
        return (*asked[:room], *kept), len(asked) + len(shown) - len(kept) - min(room, len(asked))

    def money_of(self, record: Record) -> tuple[MoneyEffect, ...]:
        """The amounts that a change moved or owes (rule 3)."""
        if record.action_id not in self._money:
            self._money[record.action_id] = self._find_money(record)
        return self._money[record.action_id]

    def _find_money(self, record: Record) -> tuple[MoneyEffect, ...]:
        if not _tells(record):
            return ()
        methods = tuple(str(value) for name, value in _named_leaves(record.arguments) if _is_method(name))
        found = []
        for path, value, _, is_effect in self._news(record):
            if isinstance(value, Mapping):
                amount = _amount_of(value)
                if amount is not None and amount[0] and is_effect:
                    own = tuple(str(each) for name, each in value.items() if _is_method(str(name)))
                    way = _direction(value, amount[0])
                    found.append(MoneyEffect(abs(amount[0]), way, own or methods, _MOVED.get(way, "")))
            elif _is_difference(path) and (number := _number(value)):
                way = 1 if number > 0 else -1
                found.append(MoneyEffect(abs(number), way, methods, _OWED[way]))
        return tuple(found)

    def methods_of(self, record: Record) -> frozenset[str]:
        """Return the ids of payment methods that a change was asked to use or shows that it used."""
        asked = (str(value) for name, value in _named_leaves(record.arguments) if _is_method(name))
        shown = (str(one) for each in self._news(record) for name, one in _pairs(each) if _is_method(name))
        return frozenset(each for each in (*asked, *shown) if any(map(str.isdigit, each)))

    def read_of(self, name: str) -> Mapping[str, Any]:
        """The values read of an id that identify it to a person."""
        found = self._read.get(name)
        if found is None:
            found = self._read[name] = self._describe_id(name)
        return found

    def _asked_facts(self, record: Record) -> Iterator[Fact]:
        target = {record.target, record.target.partition("/")[2], *_TARGET_PARTS.split(record.target)}
        for path, value in _paths(record.arguments):
            name = path[-1] if path else ""
            if _is_hidden(name) or str(value) in target or value == "" or _is_told_with_amount(name, path, record):
                continue
            yield self._fact(_title(path), value, name, record.arguments, is_asked=True)

    def _shown_facts(self, record: Record) -> Iterator[Fact]:
        known = {str(value) for _, value in _paths(record.arguments)} | {record.target.partition("/")[2]}
        compared = {each.name.rpartition(".")[2] for each in record.fields if each.same is False}
        answer = record.answer
        for path, value, before, is_effect in self._news(record):
            name = path[-1] if path else ""
            if isinstance(value, Mapping):
                yield from self._row(path, value, answer, is_effect=is_effect)
                continue
            if _is_hidden(name) or name in compared or value == "" or str(value) in known:
                continue
            if before is None and is_mere_success(name, value):
                continue
            if _is_difference(path) and (number := _number(value)):
                owed = _OWED[1 if number > 0 else -1]
                yield Fact(_title(path), f"{_money(abs(number), name, answer)} {owed}", "", shown=True)
                continue
            fact = self._fact(_title(path), value, name, answer)
            was = f"before {_short(before)}" if before is not None and not fact.detail else fact.detail
            yield fact._replace(detail=was, shown=True)

    def _row(
        self, path: tuple[str, ...], row: Mapping[str, Any], answer: Mapping[str, Any], *, is_effect: bool
    ) -> Iterator[Fact]:
        """Yield the fact of a new row: a payment with its direction and method, anything else by its id and
        its name.
        """
        amount = _amount_of(row)
        if amount is not None and amount[0] and (_PAYMENTS.search(" ".join(path)) or _BACK.search(_kind(row))):
            direction = _direction(row, amount[0]) if is_effect else 0
            name = _MOVED.get(direction, _kind(row) or _title(path))
            method = next((str(each) for key, each in row.items() if _is_method(str(key))), "")
            money = _money(abs(amount[0]), amount[1], {**answer, **row})
            yield Fact(name, f"{money} by {method}" if method else money, _brief(self.read_of(method)), shown=True)
            return
        ids = {str(name): str(value) for name, value in row.items() if _is_id(str(name)) and _is_plain(value)}
        single = f"{path[-1].removesuffix('s')}_id" if path else "id"
        own = ids.get(single) or ids.get("id") or next(iter(ids.values()), "")
        detail = _brief(_describe(row) or self.read_of(own))
        if own or detail:
            yield Fact(_title(path), own or detail, detail if own else "", shown=True)

    def _fact(self, title: str, value: Any, name: str, beside: Mapping[str, Any], *, is_asked: bool = False) -> Fact:
        if _is_money(name) and (number := _number(value)) is not None:
            return Fact(title, _money(number, name, beside, is_text=isinstance(value, str)))
        return Fact(title, _short(value), _brief(self.read_of(str(value))))

    def _news(self, record: Record) -> tuple[_Shown, ...]:
        if record.action_id not in self._anew:
            self._anew[record.action_id] = tuple(self._find_news(record))
        return self._anew[record.action_id]

    def _find_news(self, record: Record) -> Iterator[_Shown]:
        answer, ids = _core_of(record)
        if not answer or "answer" in record.answer:
            yield from self._of_reading(record)
            return
        before = self._earlier_answer(record, answer, ids)
        is_effect = before is not None or self._is_new_thing(record, ids)
        for each in _differences(answer, before, ()):
            if before is not None or any(map(_is_state, each.path)) or _is_money(each.path[-1]):
                yield each._replace(is_effect=is_effect)
        yield from self._of_reading(record)

    def _of_reading(self, record: Record) -> Iterator[_Shown]:
        """Money and states that only the system of record shows."""
        known = {str(value) for value in leaves(record.answer)}
        for path, value in _paths(record.reading):
            if path and (_is_state(path[-1]) or _is_money(path[-1])) and str(value) not in known:
                yield _Shown(path, value)

    def _earlier_answer(self, record: Record, answer: Mapping[str, Any], ids: list[str]) -> Mapping[str, Any] | None:
        """The last earlier answer about the same thing: one that shares the id by which the call named it."""
        asked = set(map(str, leaves(record.arguments)))
        named = [each for each in ids if each in record.target] or [each for each in ids if each in asked]
        place = self._places.get(id(record), 0)
        if named:
            # Of several ids the first is the thing's own; those after it say whose it is.
            earlier = [each for each in self._answers_by_id.get(named[0], ()) if each < place]
            return _core_of(self._ground.records[earlier[-1]])[0] if earlier else None
        for each in reversed(self._ground.records[:place]):
            core = _core_of(each)[0]
            if core and _is_about(each, record, core, answer):
                return core
        return None

    @once
    def _places(self) -> Mapping[int, int]:
        return {id(each): place for place, each in enumerate(self._ground.records)}

    @once
    def _answers_by_id(self) -> Mapping[str, list[int]]:
        """The places of the answers that have an id of their own, by each of their ids."""
        found: dict[str, list[int]] = defaultdict(list)
        for place, each in enumerate(self._ground.records):
            for name in dict.fromkeys(_core_of(each)[1]):
                found[name].append(place)
        return found

    def _is_new_thing(self, record: Record, ids: list[str]) -> bool:
        """Return whether a change made the thing that its answer shows: nobody named its id before."""
        asked = set(map(str, leaves(record.arguments)))
        return any(each not in asked and each not in record.target for each in ids[:1])

    def _describe_id(self, name: str) -> Mapping[str, Any]:
        """The values of every object that has an id or stands under it, the first reading of each."""
        found: dict[str, Any] = {}
        for record in self._ground.records:
            told: dict[str, Any] = {}
            for thing in _things_in(record).get(name, ()):
                told = {**_describe(thing), **told}
            found = {**told, **found} if told else found
        return found


def _tells(record: Record) -> bool:
    """Return True if the answer of a change reports a result: it was not refused and did not fail."""
    return record.state is not None and record.outcome not in ("FAILED", "BLOCKED") and record.state != "FAILED"


def _is_told_with_amount(name: str, path: tuple[str, ...], record: Record) -> bool:
    """Return whether an argument is the currency of an amount beside it."""
    return name in ("currency", "currency_code") and len(path) == 1 and any(map(_is_money, record.arguments))


def _core_of(record: Record) -> tuple[Mapping[str, Any], list[str]]:
    """The object that an answer is about, and its ids."""
    found = record.derived.get("core")
    if found is None:
        core = _core(record.answer)
        found = record.derived["core"] = (core, _own_ids(core))
    return found


def _core(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object in a single wrapper, or the answer."""
    for _ in range(3):
        inner = [value for value in answer.values() if isinstance(value, dict | Mapping)] if len(answer) <= 3 else []
        if len(inner) != 1 or _own_ids(answer):
            break
        answer = inner[0]
    return answer


def _own_ids(answer: Mapping[str, Any]) -> list[str]:
    named = ((str(name), value) for name, value in answer.items() if _is_plain(value) and value != "")
    return [str(value) for name, value in named if _is_id(name) and not _is_method(name)]


def _is_about(one: Record, other: Record, core: Mapping[str, Any], answer: Mapping[str, Any]) -> bool:
    """Return True if two answers without an id are about one thing: their calls have the same name and the answers the
    same form.
    """
    named = {str(each) for each in leaves(one.arguments)} & {str(each) for each in leaves(other.arguments)}
    same = (bool(other.target) and one.target == other.target) or any(map(_is_name, named))
    return same and len(set(core) & set(answer)) * 2 > len(answer)


def _is_name(value: str) -> bool:
    """Return True if a text can be the name of a thing: it has a digit, and is neither short nor prose."""
    return len(value) > SHORTEST_NAME and any(map(str.isdigit, value)) and " " not in value


def _differences(after: Any, before: Any, path: tuple[str, ...]) -> Iterator[_Shown]:
    """Yield the values that one shows and another does not, the rows of lists as wholes (rule 2)."""
    if len(path) > DEPTH:
        return
    if isinstance(after, dict | Mapping):
        known = before if isinstance(before, Mapping) else {}
        for name, value in after.items():
            if name not in known or known[name] != value:
                yield from _differences(value, known.get(name), (*path, str(name)))
    elif isinstance(after, list | tuple):
        rest = list(before) if isinstance(before, list | tuple) else []
        for each in after:
            if each in rest:
                rest.remove(each)
            elif isinstance(each, Mapping | str | int | float):
                yield _Shown(path, each)
    elif after is not None:
        yield _Shown(path, after, before if _is_plain(before) else None)


def _things_in(record: Record) -> Mapping[str, list[Mapping[str, Any]]]:
    """The objects in the answer and the reading of a record by the ids that they have or stand under."""
    found = record.derived.get("things")
    if found is None:
        found = record.derived["things"] = defaultdict(list)
        _collect_things(record.answer, None, found, DEPTH)
        _collect_things(record.reading, None, found, DEPTH)
    return found


def _collect_things(value: Any, key: Any, found: dict[str, list[Mapping[str, Any]]], depth: int) -> None:
    if isinstance(value, dict | Mapping):
        names = {} if key is None else {str(key): None}
        for name, each in value.items():
            if isinstance(each, PLAIN):
                if _is_own_id(str(name)):
                    names[str(each)] = None
            elif depth and each:
                _collect_things(each, name, found, depth - 1)
        for one in names:
            found[one].append(value)
    elif isinstance(value, list) and depth:
        for each in value:
            _collect_things(each, None, found, depth - 1)


def _describe(value: Mapping[str, Any]) -> dict[str, Any]:
    """The values that identify an object to a person (rule 1)."""
    told: dict[str, Any] = {}
    for name, each in value.items():
        label = str(name)
        if isinstance(each, Mapping) and label.lower() in ("options", "name", "variant", "attributes"):
            told.update({str(inner): one for inner, one in each.items() if _is_plain(one)})
        elif _is_telling(label) and _is_short(each):
            told[label] = each
    return told


@lru_cache(maxsize=4096)
def _is_telling(name: str) -> bool:
    return _TELLING.search(name) is not None and not _is_id(name) and not _is_hidden(name)


def _is_short(value: Any) -> bool:
    return _is_plain(value) and not isinstance(value, bool) and 0 < len(str(value)) <= LONGEST_DETAIL


def _brief(told: Mapping[str, Any]) -> str:
    values = list(dict.fromkeys(as_text(each) for each in list(told.values())[:MOST_DETAILS]))
    return ", ".join(each.replace("_", " ") for each in values if each)


def _paths(value: Any) -> list[tuple[tuple[str, ...], Any]]:
    """The plain values in nested ones, each with the names on the way to it."""
    found: list[tuple[tuple[str, ...], Any]] = []
    _add_paths(value, (), found)
    return found


def _add_paths(value: Any, path: tuple[str, ...], found: list[tuple[tuple[str, ...], Any]]) -> None:
    if isinstance(value, PLAIN):
        found.append((path, value))
    elif isinstance(value, dict | Mapping):
        for name, each in value.items() if len(path) < DEPTH else ():
            _add_paths(each, (*path, str(name)), found)
    elif isinstance(value, list | tuple):
        for each in value if len(path) < DEPTH else ():
            _add_paths(each, path, found)
    elif value is not None:
        found.append((path, value))


def _named_leaves(value: Any) -> Iterator[tuple[str, Any]]:
    yield from ((path[-1] if path else "", each) for path, each in _paths(value))


def _pairs(shown: _Shown) -> Iterable[tuple[str, Any]]:
    if isinstance(shown.value, Mapping):
        return [(str(name), each) for name, each in shown.value.items() if _is_plain(each)]
    return [(shown.path[-1] if shown.path else "", shown.value)]


def _is_plain(value: Any) -> bool:
    return isinstance(value, PLAIN)


@lru_cache(maxsize=4096)
def _is_id(name: str) -> bool:
    return _ID.search(name) is not None and not name.lower().startswith(("zip", "postal", "status", "error"))


@lru_cache(maxsize=4096)
def _is_hidden(name: str) -> bool:
    return _HIDDEN.search(name) is not None


@lru_cache(maxsize=4096)
def _is_money(name: str) -> bool:
    return _MONEY.search(name) is not None


@lru_cache(maxsize=4096)
def _is_state(name: str) -> bool:
    return _STATES.search(name) is not None


@lru_cache(maxsize=4096)
def _is_own_id(name: str) -> bool:
    return _is_id(name) and not _is_method(name)


@lru_cache(maxsize=4096)
def _is_method(name: str) -> bool:
    return re.search(r"method|payment_?id|payment_?source|card_?id|account_?id", name, re.IGNORECASE) is not None


def _is_difference(path: tuple[str, ...]) -> bool:
    """Return whether a field is by how much a price changed."""
    words = set(" ".join(path[-1:]).lower().replace("_", " ").split())
    return bool(words & {"difference", "diff"}) and bool(words & (MONEY | {"fare"}))


def _amount_of(row: Mapping[str, Any]) -> tuple[float, str] | None:
    for name in _AMOUNT_NAMES:
        if (number := _number(row.get(name))) is not None:
            return number, name
    return None


def _kind(row: Mapping[str, Any]) -> str:
    return next((str(row[name]) for name in ("transaction_type", "type", "kind", "direction") if row.get(name)), "")


def _direction(row: Mapping[str, Any], amount: float) -> int:
    kind = _kind(row)
    if amount < 0 or _BACK.search(kind):
        return -1
    named = " ".join(map(str, row))
    return 1 if _OUT.search(kind) or (not kind and _OUT.search(named)) else 0


def _number(value: Any) -> float | int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return value
    if isinstance(value, str) and re.fullmatch(r"[-+]?\d{1,15}(?:\.\d{1,4})?", value):
        return float(value)
    return None


def _money(number: float, name: str, beside: Mapping[str, Any], *, is_text: bool = False) -> str:
    """An amount as people read it (rule 4)."""
    currency = next((each for each in (beside.get("currency"), beside.get("currency_code")) if is_currency(each)), "")
    code = f" {str(currency).upper()}" if currency else ""
    if isinstance(number, int) and not is_text and (currency or _MINOR.search(name)):
        if not currency:
            return f"{number / 100:.2f}"
        if not any(isinstance(each, float) and not each.is_integer() for each in leaves(beside)):
            return format_money(number, str(currency).upper())
    return f"{number}{code}" if isinstance(number, int) else f"{number:.2f}{code}"


@lru_cache(maxsize=4096)
def _title(path: tuple[str, ...]) -> str:
    """Return the name of a field in words; a nested field's name includes its parent's."""
    names = [each for each in path if each.lower() not in ("result", "data", "response", "evidence", "effects")][-2:]
    words = [word for each in names for word in _WORDS.split(each) if word]
    return " ".join(dict.fromkeys(words)).lower() if words else "value"


def _short(value: Any) -> str:
    text = as_text(value)
    return text if len(text) <= LONGEST_FACT else text[: LONGEST_FACT - 1] + "\u2026"
