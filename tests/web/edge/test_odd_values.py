"""Every parameter of every page and operation, with values that nobody should send: no fault.

The names come from the URL table, from what the pages ask for while they answer, and from the OpenAPI document; which
odd values an address gets is decided by its name. The bounded suite sends a few to each address,
`make test-long` more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pytest

from console.edge.form_pages import find_page
from tests.support.admissions import OPERATIONS, PAGES, PAGES_ABOUT_ONESELF, PEOPLE, PUBLIC_PAGES
from tests.support.callers import Api
from tests.support.odd_values import Turns, names_asked, paths_in, query, quoted, with_value
from tests.support.probes import FORM, Day, Operation, filled, names_in, operations, pages, probe


@dataclass(frozen=True)
class Amount:
    """How much is sent to one address.

    `packed` are requests in which everything that an address takes is odd at once. `shares` are forms of which a third
    of the fields is odd, so that the rest is taken and read. What stands in an address is odd one by one, with `alone`
    values for each: a filter that is no form of ours may be read only where all others are right. `parts` are values
    for each part of a path. Of an address's parameters and a body's members every `stride`-th is odd by itself.
    """

    packed: int
    shares: int
    alone: int
    parts: int
    stride: int


A_FEW = Amount(packed=1, shares=1, alone=1, parts=2, stride=6)
MORE = Amount(packed=2, shares=3, alone=3, parts=4, stride=1)
AMOUNTS = pytest.mark.parametrize(
    "amount", [pytest.param(A_FEW, id="a few"), pytest.param(MORE, id="more", marks=pytest.mark.long)]
)
THIRDS = 3
# Ids that a route lets through and that nothing has.
NO_ID, LAST_ID = "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"
# Says 503 as long as nothing seals the log, and takes no parameter.
READY = {"readyz", "statusz"}
"""They answer 503 where something of the installation is missing, as in a test."""


@pytest.fixture(scope="module")
def called(day: Day) -> dict[str, Operation]:
    return {each.name: each for each in operations(day)}


@pytest.fixture(scope="module")
def routes() -> dict[str, str]:
    return {str(page.name): route for route, page in pages()}


class Sender:
    """Sends requests to one address, and keeps those that ended in a fault of ours."""

    def __init__(self, caller: Api, name: str) -> None:
        self.caller = caller
        self.turns = Turns(name)
        self.faults: list[str] = []

    def send(self, method: str, path: str, body: Any = None, *, form: str | None = None, **headers: str) -> Any:
        answer = probe(self.caller, method, path, body, form=form, **headers)
        if answer.status_code >= 500:
            fault = getattr(answer, "exc_info", None)
            said = f"{method} {path[:300]} {headers} {(body if form is None else form)!r:.300}"
            self.faults.append(f"{answer.status_code} {fault and fault[1]!r}: {said}")
        return answer


@AMOUNTS
@pytest.mark.parametrize("name", sorted({*PAGES, *PUBLIC_PAGES, *PAGES_ABOUT_ONESELF} - READY))
def test_no_unusual_value_makes_a_page_fail(day: Day, routes: dict[str, str], name: str, amount: Amount):
    sender, route = Sender(day.own["everything"], name), routes[name]
    plain = day.parts | {"provider_id": "x", "pk": "1", "token": "x"}
    for part, values in odd_parts(route, sender.turns).items():
        for method, text in zip(("GET", "POST") * 2, values[: amount.parts], strict=False):
            sender.send(method, filled(route, plain | {part: quoted(text)}), form=query(FORM))
    for method in ("GET", "POST"):
        send_odd_parameters(sender, method, filled(route, plain), amount)
    assert not sender.faults, "\n".join(sender.faults)


def odd_parts(route: str, turns: Turns) -> dict[str, tuple[str, ...]]:
    """Odd values for each part of a path: of ids only those that its route lets through."""
    texts = {name: ("\0", *(turns.some_text() for _ in range(3))) for name in names_in(route)}
    return texts | dict.fromkeys(re.findall(r"<uuid:(\w+)>", route), (NO_ID, LAST_ID))


def send_odd_parameters(sender: Sender, method: str, address: str, amount: Amount) -> None:
    """Odd values for every name that the page asks for, in its address or its form, and that it then asks for."""
    with names_asked() as asked:
        answer = send_parameters(sender, method, address, FORM if method == "POST" else {})
        if answer.status_code == 405 or answer.headers.get("Location") == find_page(address) != address:
            return
        for _ in range(amount.packed):
            names = sorted(asked - {"csrfmiddlewaretoken"})
            odd = {name: sender.turns.text() for name in names}
            send_parameters(sender, method, address, odd, **odd_headers(sender.turns))
    names = sorted(asked - {"csrfmiddlewaretoken"})
    if method == "POST":
        shares = [names[turn::THIRDS] for turn in range(amount.shares)]
    else:
        shares = [[name] for name in names[:: amount.stride]] * amount.alone
    for share in filter(None, shares):
        odd = {name: sender.turns.some_text() for name in share}
        rest = FORM if method == "POST" else {}
        send_parameters(sender, method, address, rest | odd, **{"HX-Request": "true"})


def send_parameters(sender: Sender, method: str, address: str, said: dict[str, str], **headers: str) -> Any:
    if method == "GET":
        return sender.send("GET", f"{address}?{query(said)}", **headers)
    return sender.send("POST", address, form=query(said), **headers)


def odd_headers(turns: Turns) -> dict[str, str]:
    """What a browser says by itself."""
    names = ("Referer", "HX-Current-URL", "HX-Target", "Accept-Language", "Accept", "If-None-Match", "Range")
    return {"HX-Request": "true"} | {name: turns.header() for name in names}


@AMOUNTS
@pytest.mark.parametrize("name", sorted(OPERATIONS.keys() - {f"installation_{name}" for name in READY}))
def test_no_unusual_value_makes_an_operation_fail(day: Day, called: dict[str, Operation], name: str, amount: Amount):
    operation = called[name]
    sender = Sender(someone(day, OPERATIONS[name]), name)
    send_odd_addresses(sender, operation, amount)
    if operation.sent.method == "POST":
        send_odd_bodies(sender, operation, amount)
    assert not sender.faults, "\n".join(sender.faults)


def someone(day: Day, allowed: frozenset[str]) -> Api:
    """Somebody of the tenant who may: a person with every role where people may, else a key."""
    return day.own["everything"] if not allowed or allowed & set(PEOPLE) else day.own[min(allowed)]


def send_odd_addresses(sender: Sender, operation: Operation, amount: Amount) -> None:
    """Every parameter of the path, of the query and of the headers."""
    sent, turns = operation.sent, sender.turns
    path = f"/api/v1{sent.path}"
    bare, _, said = path.partition("?")
    queried = [name for name, where in parameters(operation) if where == "query"]
    for _ in range(amount.packed if queried else 0):
        sender.send(sent.method, f"{bare}?{query({name: turns.text() for name in queried})}", sent.body, **sent.headers)
    for name in queried:
        kept = "&".join(part for part in said.split("&") if part and not part.startswith(f"{name}="))
        for _ in range(amount.packed):
            sender.send(sent.method, f"{bare}?{kept}&{query({name: turns.text()})}", sent.body, **sent.headers)
    for name, where in parameters(operation):
        for _ in range(amount.packed):
            if where == "path":
                sender.send(sent.method, path_with(operation, name, turns.some_text()), sent.body, **sent.headers)
            elif where == "header":
                sender.send(sent.method, path, sent.body, **sent.headers | {name: turns.header()})


def parameters(operation: Operation) -> list[tuple[str, str]]:
    """The parameters of an operation, and where each of them stands."""
    found = []
    for each in operation.described["parameters"]:
        # A parameter that many operations share is a header; its name in the document has no hyphens.
        shared = each.get("$ref", "").rpartition("/")[2]
        found.append((HEADERS.get(shared, shared), "header") if shared else (each["name"], each["in"]))
    return found


HEADERS = {"IdempotencyKey": "Idempotency-Key", "XTenant": "X-Tenant"} | {
    f"webhook{part}": f"webhook-{part}" for part in ("id", "timestamp", "signature")
}


def path_with(operation: Operation, name: str, text: str) -> str:
    """The address of the day's call with another value for one part of its path."""
    given = operation.template.split("/")
    parts = f"/api/v1{operation.sent.path}".partition("?")[0].split("/", len(given) - 1)
    parts[given.index(f"{{{name}}}")] = quoted(text)
    return "/".join(parts)


def send_odd_bodies(sender: Sender, operation: Operation, amount: Amount) -> None:
    """The day's body with each of its parts odd and with each member that it left out, all members odd, and no JSON."""
    sent, turns = operation.sent, sender.turns
    path = f"/api/v1{sent.path}"
    for _ in range(amount.packed):
        sender.send("POST", path, turns.broken(), **sent.headers)
        if operation.members:
            sender.send("POST", path, {name: turns.value() for name in operation.members}, **sent.headers)
    members = [(name,) for name in operation.members] if isinstance(sent.body, dict) else []
    for place in list(dict.fromkeys([*members, *paths_in(sent.body)]))[:: amount.stride]:
        sender.send("POST", path, with_value(sent.body, place, turns.value()), **sent.headers)
