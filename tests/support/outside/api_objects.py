"""The API server of a cluster as its owner reaches it, beside every gateway."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Any

import httpx


@dataclass(frozen=True)
class Api:
    """An API server: its address, a token that may do everything, and its certificate where it has one of its own."""

    url: str
    token: str
    ca_file: str = ""

    def _ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        verify = ssl.create_default_context(cafile=self.ca_file) if self.ca_file else True
        with httpx.Client(verify=verify, headers={"Authorization": f"Bearer {self.token}"}, timeout=30) as client:
            return client.request(method, f"{self.url}/{path}", **options)

    def find(self, path: str) -> dict[str, Any] | None:
        """The object at a path, or None."""
        answer = self._ask("GET", path)
        found: dict[str, Any] = answer.json()
        assert answer.status_code in (200, 404), found
        return found if answer.status_code == 200 else None

    def post(self, path: str, document: dict[str, Any]) -> None:
        answer = self._ask("POST", path, json=document)
        assert answer.status_code == 201, answer.text

    def patch(self, path: str, document: dict[str, Any]) -> None:
        headers = {"Content-Type": "application/merge-patch+json"}
        answer = self._ask("PATCH", path, json=document, headers=headers)
        assert answer.status_code == 200, answer.text
