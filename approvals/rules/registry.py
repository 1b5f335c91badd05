"""The capability registry: what an agent may do is what an operator committed, never what the agent says.

1. An entry is sealed with HMAC-SHA-256 under a key outside the database, so that whoever edits a row cannot seal it
   again (R-CR-05, C-55). Every lookup recomputes the seal.
2. No entry and a revoked entry are refused alike (R-CR-07, R-CR-08).
3. A lookup may name a maximum age; an entry that is as old or older is refused (R-CR-06).
4. The session's contract holds registered tools only, and only those for which a contract exists. Asking for a tool or
   output tag beyond that fails the negotiation (R-CR-03, R-CR-09, R-CR-10).
5. At most `DISCLOSURE_CAP` tools are disclosed, chosen by the words of the intent when there are more (R-MC-20).
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ledger.rules.canonical import canonical
from ledger.rules.refusals import Refused

DISCLOSURE_CAP = 30
_DOMAIN = b"counterfoil registry entry 1\x00"
_WORD = re.compile(r"[^\W_]+")


class AgentNotRegistered(Refused):
    """The agent is not registered, or was revoked."""

    code = "AGENT_NOT_REGISTERED"
    status = 403


class RegistryFingerprintMismatch(Refused):
    """The registry entry is not the one that was sealed."""

    code = "REGISTRY_FINGERPRINT_MISMATCH"
    status = 403


class RegistryEntryStale(Refused):
    """The registry entry is older than the caller accepts."""

    code = "REGISTRY_ENTRY_STALE"


class CapabilityNotRegistered(Refused):
    """A wanted capability is not registered for this agent."""

    code = "CAPABILITY_NOT_REGISTERED"
    status = 403


@dataclass(frozen=True)
class Entry:
    """One registration of an agent: who vouched for which tools and tags, and when."""

    tenant: str
    agent_id: str
    version: str
    tools: tuple[str, ...]
    output_tags: tuple[str, ...]
    model_tier: str
    registered_by: str
    registered_at: datetime


@dataclass(frozen=True)
class Disclosure:
    """The tools of a session, in the order of the registry; `withheld` counts what the cap left out."""

    tools: tuple[str, ...]
    output_tags: tuple[str, ...]
    withheld: int


def fingerprint(entry: Entry, *, key: bytes) -> str:
    """The seal of an entry (rule 1), hex."""
    if len(key) < 32:
        raise ValueError("a registry key has at least 32 bytes")
    sealed = {
        "tenant": entry.tenant,
        "agent_id": entry.agent_id,
        "version": entry.version,
        "tools": list(entry.tools),
        "output_tags": list(entry.output_tags),
        "model_tier": entry.model_tier,
        "registered_by": entry.registered_by,
        "registered_at": entry.registered_at.astimezone(UTC).isoformat(timespec="microseconds"),
    }
    return hmac.new(key, _DOMAIN + canonical(sealed), hashlib.sha256).hexdigest()


def is_sealed(entry: Entry, *, seal: str, key: bytes) -> bool:
    """Whether the entry is the one that was sealed."""
    return hmac.compare_digest(fingerprint(entry, key=key).encode(), seal.encode("utf-8", "replace"))


def admit(
    entry: Entry | None, *, seal: str, revoked: bool, key: bytes, at: datetime, max_age_s: int | None = None
) -> Entry:
    """The entry, if a handshake may rest on it (rules 1 to 3)."""
    if entry is None or revoked:
        raise AgentNotRegistered
    if not is_sealed(entry, seal=seal, key=key):
        raise RegistryFingerprintMismatch
    if max_age_s is not None and at - entry.registered_at >= timedelta(seconds=max_age_s):
        raise RegistryEntryStale
    return entry


def negotiate(
    entry: Entry,
    *,
    contracts: Mapping[str, str],
    tools: Collection[str] | None = None,
    output_tags: Collection[str] = (),
    intent: str = "",
    cap: int = DISCLOSURE_CAP,
) -> Disclosure:
    """What a session gets (rules 4, 5). `contracts` maps each tool that has a contract to its description."""
    available = [name for name in dict.fromkeys(entry.tools) if name in contracts]
    _covered(tools or (), available, "tools")
    _covered(output_tags, entry.output_tags, "output_tags")
    chosen = available if tools is None else [name for name in available if name in set(tools)]
    if len(chosen) > cap:
        nearest = sorted(chosen, key=lambda name: -_overlap(intent, f"{name} {contracts[name]}"))[:cap]
        kept = [name for name in chosen if name in set(nearest)]
    else:
        kept = chosen
    tags = entry.output_tags if not output_tags else tuple(tag for tag in entry.output_tags if tag in set(output_tags))
    return Disclosure(tuple(kept), tags, len(chosen) - len(kept))


def _covered(wanted: Collection[str], registered: Collection[str], path: str) -> None:
    errors = [
        {"path": f"/{path}", "code": CapabilityNotRegistered.code, "detail": f"{name[:128]} is not registered."}
        for name in wanted
        if name not in registered
    ]
    if errors:
        raise CapabilityNotRegistered(errors=errors)


def _overlap(intent: str, text: str) -> int:
    return len(set(_WORD.findall(intent.lower())) & set(_WORD.findall(text.lower())))
