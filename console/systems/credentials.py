"""The form of each pattern's credential, as an example that names its own address; every secret in it is made up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from reviews.checks.catalogue import described_system
from reviews.systems.rules.examples import credential_example

_PASSWORD: Final = "the password of a read-only user"
_DATABASE: Final = {
    "host": "db.example.org",
    "port": 5432,
    "dbname": "shop",
    "user": "reader",
    "password": _PASSWORD,
    "sslmode": "verify-full",
}


def _site(address: str) -> dict[str, Any]:
    return {"url": address, "user": "reader", "password": _PASSWORD}


EXAMPLES: Final[Mapping[str, Mapping[str, Any]]] = {
    "browser_automation": _site("https://app.example.org"),
    "calendar": _site("https://calendar.example.org/dav"),
    "crm_ticketing": _site("https://tracker.example.org/support"),
    "database_changes": _DATABASE,
    "databases": _DATABASE,
    "deployments": {
        "addresses": ["https://manager.example.org:9001", "https://registry.example.org", "https://app.example.org"],
        "user": "reader",
        "password": _PASSWORD,
        "registry": {"user": "reader", "password": "the registry's password, if required"},
    },
    "email": {"host": "imap.example.org", "port": 993, "user": "journal", "password": _PASSWORD},
    "filesystems": {"root": "/srv/documents"},
    "forge": {"url": "https://api.github.com", "token": "a token that may only read these repositories"},
    "git": _site("https://git.example.org"),
    "kubernetes": {
        "url": "https://cluster.example.org:6443",
        "token": "the token of an account with read access to these objects only",
    },
    "npm": {"url": "https://registry.example.org", "token": "a token that may only read, where reading needs one"},
    "packages": _site("https://index.example.org/simple"),
    "payments": {"url": "https://api.stripe.com", "token": "a restricted read-only key"},
    "procurement": _site("https://erp.example.org"),
    "queues_events": {"url": "rediss://reader:the-password@queue.example.org:6379/0"},
    "security_infrastructure": {"url": "https://vault.example.org:8200", "token": "a token with a read-only policy"},
    "terraform": _site("https://git.example.org/api/v4/projects/7/terraform/state"),
    "vector_search": _DATABASE,
}


def example_credential(pattern: str) -> Mapping[str, Any] | None:
    """The example of a pattern's credential; None for a pattern of a package, which documents its own."""
    described = described_system(pattern)
    return EXAMPLES.get(pattern) if described is None else credential_example(described)
