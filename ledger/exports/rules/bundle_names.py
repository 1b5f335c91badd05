"""File names of bundles: the tenant, the content, and the request time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9.]+")
LONGEST_PART: Final = 48


def bundle_name(slug: str, wanted: Mapping[str, Any], *, asked_at: datetime) -> str:
    """Return `orchid-agent-support-from-2026-11-01-asked-20261124-0432.zip`; `everything` if nothing restricts it."""
    parts = [_part(f"{name} {value}") for name, value in sorted((wanted.get("filters") or {}).items())]
    parts += [_part(f"{name} {str(wanted[name])[:10]}") for name in ("from", "to") if wanted.get(name) is not None]
    if wanted.get("payloads") is False:
        parts.append("without-payloads")
    what = "-".join(parts) or "everything"
    return f"{slug}-{what[:120].strip('-')}-asked-{asked_at.astimezone(UTC):%Y%m%d-%H%M}.zip"


def _part(text: str) -> str:
    return _UNSAFE.sub("-", text).strip("-.")[:LONGEST_PART]
