"""Response schemas of the installation."""

from __future__ import annotations

from typing import Any, Literal

from console.edge.schemas import Answer


class Alive(Answer):
    status: str


class Missing(Answer):
    code: str
    detail: str


class Ready(Answer):
    ready: bool
    reasons: list[Missing]


class InstallationCheck(Answer):
    code: str
    state: Literal["in_order", "failed", "unknown"]
    detail: str
    runbook: str


class InstallationStatus(Answer):
    in_order: bool
    checks: list[InstallationCheck]


class Jwks(Answer):
    keys: list[dict[str, Any]]
