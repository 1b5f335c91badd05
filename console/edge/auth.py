"""Authentication and authorization of API requests: machine keys and browser sessions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware
from django.utils import timezone
from ninja.security import HttpBearer
from ninja.security.base import AuthBase
from ninja.utils import contribute_operation_callback

from console.accounts import known_keys
from console.accounts import operations as accounts_operations
from console.accounts import queries as accounts_queries
from console.accounts.machine_keys import lacks_tenant, tenant_in
from console.accounts.sign_in.queries import lacks_second_factor
from console.accounts.sign_in.sessions import told_end
from console.edge import rate
from console.telemetry.logging_lines import add_log_facts
from ledger.catalogue.rules.moving import check_here
from ledger.db import tenancy
from ledger.record.operations import Actor
from ledger.record.rules.canonical import digest
from ledger.record.rules.refusals import Refused

if TYPE_CHECKING:
    from console.models import ApiKey, Membership, User

_ACTOR_KINDS = {"agent": "agent", "exec": "executor", "oper": "operator", "audit": "auditor"}


class NotAllowed(Refused):
    """This key or role is not allowed to do that."""

    code = "FORBIDDEN"
    status = 403


class NotSignedIn(Refused):
    """The key is missing, unknown, revoked or expired."""

    code = "UNAUTHENTICATED"
    status = 401


class CsrfFailed(Refused):
    """A write by a person's session needs the CSRF token of that session."""

    code = "CSRF_FAILED"
    status = 403


class SecondFactorNeeded(Refused):
    """Your role needs a second factor here before you may act: add an authenticator app or a passkey."""

    code = "SECOND_FACTOR_REQUIRED"
    status = 403


class TenantUnspecified(Refused):
    """You are a member of several tenants; name one in `X-Tenant`."""

    code = "TENANT_REQUIRED"
    status = 400


@dataclass(frozen=True)
class Caller:
    """A request's identity: `kind` is agent, exec, oper, audit or person; `actor` is its pseudonym in the record."""

    kind: str
    tenant_id: UUID
    actor: Actor
    name: str
    roles: frozenset[str] = field(default_factory=frozenset)
    user: Any = None
    scopes: tuple[str, ...] = ()

    def keep_to(self, what: str, names: Iterable[str] | None) -> list[str] | None:
        """Restrict `names` of tools or agents to the key's scopes; None means no restriction."""
        reach = {scope.partition(":")[2] for scope in self.scopes if scope.startswith(f"{what}:")}
        if not reach:
            return list(names) if names is not None else None
        return sorted(reach if names is None else reach & set(names))

    def require(self, what: str, names: Iterable[str]) -> None:
        """Refuse names outside the key's scopes."""
        kept = self.keep_to(what, names)
        beyond = set(names) - set(kept or ())
        if beyond:
            raise NotAllowed(f"This key is not for the {what} {sorted(beyond)[0]}.")


class Key(HttpBearer):
    """`Authorization: Bearer cf_…`, of the `kinds` that an operation admits; of none unless it names some."""

    openapi_bearerFormat = "cf_<agent|exec|oper|audit>_<tenant>_<secret>"
    openapi_description = (
        "A machine's key: cf_agent_…, cf_exec_…, cf_oper_… or cf_audit_…, followed by the tenant's id as 32 hexadecimal"
        " digits, an underscore and the secret of 43 characters."
    )

    def __init__(self, *kinds: str) -> None:
        super().__init__()
        self.kinds = kinds

    def __call__(self, request: HttpRequest) -> Caller | None:
        return _admit(super().__call__(request), self.kinds, request)

    def authenticate(self, request: HttpRequest, token: str) -> Caller | None:
        at = timezone.now()
        tenant_id = tenant_in(token)
        if tenant_id is None:
            if lacks_tenant(token):
                raise NotSignedIn(
                    "This key has the form of an earlier version, which names no tenant. Create another one."
                )
            return None
        key = _live_key(tenant_id, digest(token.encode()), at)
        if key is None:
            return None
        accounts_operations.record_key_use(key=key, at=at)
        return Caller(
            key.kind, key.tenant_id, Actor(_ACTOR_KINDS[key.kind], key.actor_id), key.name, scopes=tuple(key.scopes)
        )


def _live_key(tenant_id: UUID, key_hash: str, at: datetime) -> ApiKey | None:
    """The tenant's key with this hash, unless it is revoked or expired; its request is counted."""
    known = known_keys.recall_key(key_hash)
    if known is not None and known.key.expires_at and known.key.expires_at <= at:
        known = None
    # Read before the key: one that is revoked in between is read again.
    generation = rate.count_request(known.key.id, at=at) if known else rate.read_generation()
    if known is not None and generation == known.generation:
        return known.key
    key = accounts_queries.active_key(tenant_id, key_hash, at=at)
    if key is not None:
        if known is None:
            rate.count_request(key.id, at=at)
        if generation is not None:
            known_keys.remember_key(key_hash, key, generation)
    return key


class BrowserSession(AuthBase):
    """A person's browser session; a write also needs the CSRF token, and `X-Tenant` names the tenant."""

    openapi_type = "apiKey"
    openapi_in = "cookie"
    openapi_name = "sessionid"

    def __init__(self, *kinds: str) -> None:
        super().__init__()
        self.kinds = kinds

    def __call__(self, request: HttpRequest) -> Caller | None:
        request.admission = self  # type: ignore[attr-defined]
        return _admit(self.identify(request), self.kinds, request)

    def identify(self, request: HttpRequest) -> Caller | None:
        if not request.user.is_authenticated:
            if why := told_end(request):
                raise NotSignedIn(why)
            return None
        if not _csrf_holds(request):
            raise CsrfFailed
        places = accounts_queries.memberships_and_moves(request.user)
        wanted = request.headers.get("X-Tenant")
        if wanted is None and len(places) > 1:
            raise TenantUnspecified
        for place, moving, move in places:
            if wanted in (None, str(place.tenant_id)):
                check_here(moving, move)
                return person_caller(request.user, place)
        return None


def require_second_factor(request: HttpRequest, caller: Caller) -> None:
    """Refuse a write of a person whose role needs a second factor that the account has not; reading stays open."""
    writes = caller.kind == "person" and request.method not in ("GET", "HEAD", "OPTIONS")
    if writes and lacks_second_factor(caller.user, caller.roles):
        raise SecondFactorNeeded


def person_caller(user: User, place: Membership) -> Caller:
    """The caller that a signed-in person is in one tenant."""
    name = user.get_full_name() or user.get_username()
    return Caller("person", place.tenant_id, Actor("person", place.actor_id), name, roles_of(place), user)


def roles_of(place: Membership) -> frozenset[str]:
    """The roles of a membership."""
    return frozenset(role for role in accounts_operations.ROLES if getattr(place, f"is_{role}"))


def _csrf_holds(request: HttpRequest) -> bool:
    if request.method in ("GET", "HEAD", "OPTIONS"):
        return True
    # Read first: looking for the token in a form would use the body up.
    _ = request.body
    return CsrfViewMiddleware(lambda _: None).process_view(request, lambda: None, (), {}) is None  # type: ignore[arg-type, return-value]


def sign_in_nobody(answer: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware for requests without a cookie: no session is looked for."""

    def with_nobody(request: HttpRequest) -> HttpResponse:
        request.user = AnonymousUser()
        return answer(request)

    return with_nobody


def second_executor(request: HttpRequest) -> tuple[Caller, str]:
    """The executor that a request of an agent names besides, by its key in `Executor-Authorization`; and that key."""
    scheme, _, token = request.headers.get("Executor-Authorization", "").partition(" ")
    executor = Key("exec").authenticate(request, token) if scheme.lower() == "bearer" else None
    if executor is None:
        raise NotSignedIn("The executor's key in Executor-Authorization is missing, unknown, revoked or expired.")
    if executor.kind != "exec" or executor.tenant_id != caller_of(request).tenant_id:
        raise NotAllowed("The key in Executor-Authorization is not an executor key of this tenant.")
    return executor, token


def readmit(request: Any) -> None:
    """Check again that this person may make this call, as was checked before reading it."""
    request.user.refresh_from_db(fields=["is_active"])
    request.auth = request.admission(request) if request.user.is_active else None
    if request.auth is None:
        raise NotSignedIn


def copy_annotations(view: Callable[..., Any], wrapper: Callable[..., Any]) -> Callable[..., Any]:
    """The wrapper with the view's own types: they are text, and mean something only in the view's module."""
    wrapper.__signature__ = inspect.signature(view, eval_str=True)  # type: ignore[attr-defined]
    return wrapper


_CALLERS = {
    "agent": "agent keys",
    "exec": "executor keys",
    "oper": "operator keys",
    "audit": "auditor keys",
    "person": "people",
}


def caller_of(request: HttpRequest) -> Caller:
    """The caller of a request, whom the API's authentication has put there."""
    caller: Caller = request.auth  # type: ignore[attr-defined]
    return caller


def admits(*kinds: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Only these callers: kinds of keys (agent, exec, oper, audit), `person`, or roles of people.

    It is asked with who is calling, before anything of the request is read: whoever may not is told so, whatever the
    body. An operation that names nobody admits nobody (R-UI-20).
    """

    def around(view: Callable[..., Any]) -> Callable[..., Any]:
        contribute_operation_callback(view, partial(_close_to_others, kinds))
        return view

    return around


def _close_to_others(kinds: tuple[str, ...], operation: Any) -> None:
    """Put the check before the operation, and the admitted callers into the OpenAPI document."""
    operation.auth_param = operation.auth_callbacks = [Key(*kinds), BrowserSession(*kinds)]
    operation.by_alias = True
    operation.description = f"For {', '.join(_CALLERS.get(kind, f'people as {kind}') for kind in kinds)}."


def _admit(caller: Caller | None, kinds: tuple[str, ...], request: HttpRequest) -> Caller | None:
    if caller is not None:
        add_log_facts(tenant_id=str(caller.tenant_id))
        require_second_factor(request, caller)
    if caller is None or caller.kind in kinds or caller.roles & frozenset(kinds):
        return caller
    if caller.kind == "agent" and request.method != "GET":
        _note_refused(caller, request.path)
    raise NotAllowed


def _note_refused(caller: Caller, path: str) -> None:
    """Record an agent's attempt of a write that only others may make, in its own transaction."""
    with tenancy(caller.tenant_id):
        accounts_operations.note_refused_write(
            tenant_id=caller.tenant_id, by=caller.actor, path=path, at=timezone.now()
        )
