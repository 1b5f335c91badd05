"""A write, declared once: the form and the POST of a page, the route of the API, and its part of the OpenAPI document.

Both call the operation alike, by name: `tenant_id`, `by` and `at`, the ids of the address, the members of the body, and
what came of the proof. A declaration whose names are not those of its operation does not import.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Generic, TypeVar
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.views.decorators.http import require_POST
from ninja import Router

from console.accounts.operations import ROLES
from console.accounts.step_up import is_proven, redirect_to_reauthentication
from console.edge.auth import Caller, admits, caller_of
from console.edge.http import TenantRequest, in_tenant, redirect_back, undo_if_refused
from console.edge.schemas import Answer, Ask, Body
from console.edge.transaction import run_once
from console.verbs.form import BodyForm, form_class, proof_in
from ledger.record.operations import Actor
from ledger.record.rules.refusals import NotFound, ProofNeeded, Refused

R = TypeVar("R")
A = TypeVar("A", bound=Answer)
Ids = Mapping[str, Any]
"""The parts of an address, by name."""
SECRETS: Final = frozenset({"password", "otp"})
NOTHING: Final = Body()


@dataclass(frozen=True)
class Proof:
    """A proof of identity. `check` verifies request, password and code; the operation gets the result as `fact`, and
    decides if it suffices.
    """

    fact: str
    check: Callable[[Any, str | None, str | None], object]


FRESH: Final = Proof("is_proven", is_proven)
"""A sign-in of the last minutes, the password or a one-time code."""


@dataclass(frozen=True, kw_only=True)
class Verb(Generic[R, A]):
    """One write. `name` is its part of the operation id, `path` its address in the API, `summary` its document.

    `roles` are those that may, kinds of keys among them. `done` is shown on the page afterwards, `incomplete` above the
    page where a form was not valid. `told` makes the answer of the result and the ids where it is not the row that the
    operation returns. `part` is the type of the parts of its address. A write without a `body` has an empty form, and
    `asks` are its own words for members of a body that others share, `form_base` the class of a form that asks for a
    member in several fields.
    """

    name: str
    path: str
    operation: Callable[..., R]
    body: type[Body] = Body
    roles: tuple[str, ...]
    answer: type[A]
    summary: str
    done: str | Callable[[R], str]
    status: int = 200
    proof: Proof | None = None
    incomplete: str = ""
    told: Callable[[R, Ids], A] | None = None
    part: type = UUID
    asks: Mapping[str, Ask] = field(default_factory=dict)
    form_base: type[BodyForm] = BodyForm
    operation_id: str | None = None

    def __post_init__(self) -> None:
        given = {"tenant_id", "by", "at", *self.ids, *self._members}
        given |= {self.proof.fact} if self.proof else set()
        wanted = inspect.signature(self.operation).parameters.values()
        missing = {each.name for each in wanted if each.default is each.empty} - given
        unknown = given - {each.name for each in wanted}
        if missing or unknown:
            raise TypeError(f"{self.name}: its operation lacks {sorted(missing)} and does not take {sorted(unknown)}.")

    @property
    def ids(self) -> tuple[str, ...]:
        """The names of the parts of its address."""
        return tuple(re.findall(r"{(\w+)}", self.path))

    @property
    def _members(self) -> frozenset[str]:
        return frozenset(self.body.model_fields) - SECRETS

    @cached_property
    def form(self) -> type[BodyForm]:
        """The form of its body."""
        return form_class(self.body, self.asks, self.form_base)

    def carry_out(self, request: Any, tenant_id: UUID, by: Actor, at: Any, ids: Ids, body: Body) -> R:
        """Call the operation, inside the transaction of the request."""
        proven = {self.proof.fact: self.proof.check(request, *proof_in(body))} if self.proof else {}
        members = {name: getattr(body, name) for name in self._members}
        return self.operation(tenant_id=tenant_id, by=by, at=at, **ids, **members, **proven)

    def answer_of(self, result: R, ids: Ids) -> A:
        """Make the answer of the API."""
        return self.answer.of(result) if self.told is None else self.told(result, ids)

    def sentence(self, result: R) -> str:
        """Return the sentence that the page shows afterwards."""
        return self.done if isinstance(self.done, str) else self.done(result)


AnyVerb = Verb[Any, Any]


Rendered = Callable[..., HttpResponse]
"""The page of a subject with forms that were not accepted: of the request, `forms` by verb, `status`, and the ids."""
Home = Callable[[TenantRequest, Ids, Any], str]
"""The address that follows a write, by its ids and its result; None where it was not made."""


def page_of(
    verb: AnyVerb | Mapping[str, AnyVerb],
    *,
    home: Home,
    render: Rendered | None = None,
    keeps: bool = False,
    api_ids: Callable[..., Ids] = lambda request, **ids: ids,
) -> Callable[..., HttpResponseBase]:
    """Return the view that handles a verb from a page; with several verbs, `to` in the form selects one.

    With `render` a form that was not accepted is shown again with what was entered; forms in rows of a list have none.
    Where it `keeps`, so is one whose write was refused. `api_ids` gives the ids of the API where the page has others.
    """
    verbs = {"": verb} if isinstance(verb, Verb) else verb
    (roles,) = {each.roles for each in verbs.values()}

    def post(request: TenantRequest, /, **ids: Any) -> HttpResponse:
        chosen = verbs.get("" if "" in verbs else request.POST.get("to", ""))
        if chosen is None:
            raise Http404
        form, status, known = chosen.form(request.POST), 422, api_ids(request, **ids)
        if form.is_valid():
            try:
                result = _write_from_page(request, chosen, known, form.body)
            except Refused as refusal:
                if not keeps or refusal.status == NotFound.status:
                    return _redirect_to_proof(request, form.body, refusal)
                form.show_refusal(refusal)
                status = refusal.status
            else:
                return redirect_back(request, home(request, ids, result))
        elif chosen.incomplete:
            messages.error(request, chosen.incomplete)
        if render is None:
            return redirect_back(request, home(request, ids, None))
        return render(request, forms={chosen.name: form}, status=status, **ids)

    return in_tenant(*_roles_of_people(roles))(require_POST(post))


def _write_from_page(request: TenantRequest, verb: AnyVerb, ids: Ids, body: Body) -> Any:
    with undo_if_refused(request):
        result = verb.carry_out(request, request.tenant.id, request.caller.actor, request.as_of, ids, body)
    if said := verb.sentence(result):
        messages.success(request, said)
    return result


def _redirect_to_proof(request: TenantRequest, body: Body, refusal: Refused) -> HttpResponse:
    """Lead whoever gave no proof to where they can, since some have no password here; raise any other refusal."""
    if not isinstance(refusal, ProofNeeded) or any(proof_in(body)):
        raise refusal
    return redirect_to_reauthentication(request)


def _roles_of_people(roles: tuple[str, ...]) -> list[str]:
    """The roles among the callers that a verb names; none where every member may."""
    return [] if "person" in roles else [role for role in roles if role in ROLES]


def add_verbs(router: Router, module: str, verbs: Iterable[AnyVerb]) -> None:
    """Add the API routes of these verbs to those of a module, which names them."""
    for verb in verbs:
        route = _route_of(verb)
        route.__module__ = module
        admits(*verb.roles)(route)
        response = {verb.status: verb.answer}
        router.post(verb.path, summary=verb.summary, response=response, operation_id=verb.operation_id)(route)


def _route_of(verb: AnyVerb) -> Callable[..., Any]:
    def route(request: HttpRequest, *, body: Body = NOTHING, **ids: Any) -> HttpResponse | None:
        caller: Caller = caller_of(request)

        def write() -> Answer:
            result = verb.carry_out(request, caller.tenant_id, caller.actor, timezone.now(), ids, body)
            answer: Answer = verb.answer_of(result, ids)
            return answer

        return run_once(request, write, status=verb.status)

    body = {"body": verb.body} if verb.body.model_fields else {}
    declare_signature(route, verb.name, verb.answer, **dict.fromkeys(verb.ids, verb.part), **body)
    route.verb = verb  # type: ignore[attr-defined]
    return route


def declare_signature(view: Callable[..., Any], name: str, answer: Any, /, **given: Any) -> None:
    """Give a view the signature from which ninja reads its input and its answer."""
    kinds = {"request": HttpRequest, **given}
    typed = [inspect.Parameter(each, inspect.Parameter.KEYWORD_ONLY, annotation=kind) for each, kind in kinds.items()]
    view.__name__ = name
    view.__signature__ = inspect.Signature(typed, return_annotation=answer)  # type: ignore[attr-defined]
