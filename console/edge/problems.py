"""Errors as RFC 9457 problems: never a stack trace, never a 5xx for bad input."""

from __future__ import annotations

import logging
from typing import Any

import orjson
from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.db import DataError, IntegrityError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.http.multipartparser import MultiPartParserError
from django.template.loader import get_template
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError
from psycopg.errors import ObjectInUse, ObjectNotInPrerequisiteState, UniqueViolation

from console.edge.auth import NotSignedIn
from console.telemetry import health
from ledger.catalogue.rules.moving import MOVED, refusal_while_moving
from ledger.record.operations import clear_origin_cache
from ledger.record.rules.refusals import RateExceeded, Refused, TenantMoving, UnderMaintenance

log = logging.getLogger(__name__)
UNAVAILABLE_FOR_S = 2
"""The `Retry-After` of an answer that a database was not there for."""


def problem_response(
    status: int,
    code: str,
    detail: str,
    *,
    hint: str | None = None,
    errors: list[dict[str, Any]] | None = None,
) -> HttpResponse:
    """One problem document."""
    body: dict[str, Any] = {
        "type": f"urn:counterfoil:problem:{code.lower()}",
        "title": code.replace("_", " ").capitalize(),
        "status": status,
        "code": code,
        "detail": detail,
    }
    if hint:
        body["hint"] = hint
    if errors:
        body["errors"] = errors
    response = HttpResponse(orjson.dumps(body), status=status, content_type="application/problem+json")
    if status == 401:
        response["WWW-Authenticate"] = 'Bearer realm="counterfoil"'
    return response


def refusal_response(request: HttpRequest, refusal: Refused) -> HttpResponse:
    """The response to a refusal, in the words of the rule."""
    response = problem_response(refusal.status, refusal.code, refusal.detail, hint=refusal.hint, errors=refusal.errors)
    if isinstance(refusal, RateExceeded | TenantMoving | UnderMaintenance):
        response["Retry-After"] = str(refusal.retry_after_s)
    elif refusal.status == 503:
        response["Retry-After"] = str(UNAVAILABLE_FOR_S)
    return response


def method_not_allowed(request: HttpRequest, *allowed: str) -> HttpResponse:
    """The address is right and the method is not."""
    response = problem_response(405, "METHOD_NOT_ALLOWED", f"{request.method} is not allowed at this address.")
    response["Allow"] = ", ".join(allowed)
    return response


def install_handlers(api: NinjaAPI) -> None:
    """Answer every exception of `api` with a problem."""
    api.add_exception_handler(Refused, refusal_response)  # type: ignore[arg-type]
    api.add_exception_handler(AuthenticationError, lambda r, _: refusal_response(r, NotSignedIn()))
    api.add_exception_handler(ValidationError, _invalid_input)  # type: ignore[arg-type]
    api.add_exception_handler(HttpError, _http)  # type: ignore[arg-type]
    api.add_exception_handler(Http404, lambda r, _: problem_response(404, "NOT_FOUND", "Not found."))
    api.add_exception_handler(RequestDataTooBig, _too_big)  # type: ignore[arg-type]
    api.add_exception_handler(MultiPartParserError, _unreadable)  # type: ignore[arg-type]
    api.add_exception_handler(SuspiciousOperation, _unreadable)  # type: ignore[arg-type]
    api.add_exception_handler(DataError, _not_storable)  # type: ignore[arg-type]
    api.add_exception_handler(IntegrityError, _conflict)  # type: ignore[arg-type]
    api.add_exception_handler(Exception, fault_response)  # type: ignore[arg-type]


def _invalid_input(request: HttpRequest, error: ValidationError) -> HttpResponse:
    if all(fault["loc"][:1] == ("path",) for fault in error.errors):
        return problem_response(404, "NOT_FOUND", "Not found.")
    errors = [
        {
            "path": "/" + "/".join(str(part) for part in fault["loc"] if part != "body"),
            "code": str(fault["type"]).upper(),
            "detail": fault["msg"],
        }
        for fault in error.errors
    ]
    return problem_response(422, "INVALID", "The request does not match its schema.", errors=errors)


def _http(request: HttpRequest, error: HttpError) -> HttpResponse:
    # A body that our parser refused reaches us wrapped; what the parser said is the better answer.
    if isinstance(error.__context__, Refused):
        return refusal_response(request, error.__context__)
    return problem_response(error.status_code, f"HTTP_{error.status_code}", str(error))


def _too_big(request: HttpRequest, error: Exception) -> HttpResponse:
    return problem_response(413, "TOO_LARGE", "The body is larger than 1 MiB.")


def _unreadable(request: HttpRequest, error: Exception) -> HttpResponse:
    # A form without a boundary, with too many fields, or broken off: Django could not take it apart.
    return problem_response(400, "UNREADABLE_FORM", "The form cannot be read; nothing was done.")


def _not_storable(request: HttpRequest, error: Exception) -> HttpResponse:
    # The character U+0000, say, or a number beyond every column: the database knows best what it cannot hold.
    log.warning("a value could not be stored: %s", error)
    return problem_response(422, "NOT_STORABLE", "A value cannot be stored: it is too large or not valid text.")


def _conflict(request: HttpRequest, error: Exception) -> HttpResponse:
    # Two writers of the same thing at the same moment: the database let one through, and this one did nothing.
    if not isinstance(error.__cause__, UniqueViolation):
        return fault_response(request, error)
    log.warning("two writes met: %s", error)
    return problem_response(409, "CONFLICT", "Another write was made at the same moment; nothing was done. Try again.")


def moving_refusal(error: BaseException | None) -> Refused | None:
    """The refusal of a write that the database held, since its tenant is being moved (ledger/sql/moves.sql)."""
    cause = error.__cause__ if isinstance(error, OperationalError) else None
    if not isinstance(cause, ObjectInUse):
        return None
    words = (cause.diag.message_primary or "").split()
    return refusal_while_moving(words[-1] if words else MOVED, {"address": cause.diag.message_hint or ""})


def moving_page(refusal: Refused) -> HttpResponse:
    """The page of a tenant that is on its way to another installation, or there."""
    page = get_template("moving.html").render({"refusal": refusal})
    response = HttpResponse(page, status=refusal.status)
    if isinstance(refusal, TenantMoving):
        response["Retry-After"] = str(refusal.retry_after_s)
    return response


def unavailability(error: BaseException | None) -> str:
    """The sentence for a temporary error, such as an unreachable database; empty for any other."""
    if not isinstance(error, OperationalError):
        return ""
    if isinstance(error.__cause__, ObjectNotInPrerequisiteState):
        log.warning("a write was for the log before a restore: %s", error)
        clear_origin_cache()
        return "The record was just declared restored; nothing was done. Try again."
    log.error("a database did not answer", exc_info=error)
    health.note_database_error(error)
    return "A database is unavailable; nothing was done. Try again."


def fault_response(request: HttpRequest, error: BaseException | None) -> HttpResponse:
    """The response to an uncaught error: 503 for a temporary one, else 500."""
    if refusal := moving_refusal(error):
        return refusal_response(request, refusal)
    detail = unavailability(error)
    if detail:
        response = problem_response(503, "UNAVAILABLE", detail)
        response["Retry-After"] = str(UNAVAILABLE_FOR_S)
        return response
    # Our own mistake: the transaction is rolled back, so nothing was done; the trace stays in our log.
    log.error("a fault of ours", exc_info=error)
    return problem_response(500, "FAULT", "Server error; nothing was done.")
