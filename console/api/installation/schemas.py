"""What the API answers about the installation."""

from __future__ import annotations

from typing import Any

from console.api.schemas import Answer


class Alive(Answer):
    status: str


class Missing(Answer):
    code: str
    detail: str


class Ready(Answer):
    ready: bool
    reasons: list[Missing]


class Jwks(Answer):
    keys: list[dict[str, Any]]
