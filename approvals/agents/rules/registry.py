"""The capability registry: an agent may do what an operator registered, never what the agent claims.

1. An entry is sealed with HMAC-SHA-256 under a key outside the database, so that whoever edits a row cannot seal it
   again (R-CR-05, C-55). Every lookup recomputes the seal.
2. No entry and a revoked entry are refused alike (R-CR-07, R-CR-08).
3. A lookup may name a maximum age; an entry that is as old or older is refused (R-CR-06).
4. The session's contract holds registered tools only, and only those for which a contract exists. Asking for a tool or
   output tag beyond that fails the negotiation (R-CR-03, R-CR-09, R-CR-10).
5. At most `DISCLOSURE_CAP` tools are disclosed. Of more, those nearest to the intent are (`relevance`), and the answer
   says how many were withheld and why (R-MC-20).
6. For a tool, the entry may name a version or a range of versions (`ledger.catalogue.rules.versions`); without one, a
   weaker version does not reach the agent.
7. What is taken away does not come back. A revocation ends every session from before it, and with it what these
   sessions had accepted; a registration that takes a tool away or narrows its versions takes it from every session from
   before it, also if a later registration names it again. `refusal_to_act` decides it for a call, a vote, a claim and a
   start alike.
8. A registration that would be cut, that names tools without a contract, or that holds names which a model takes for
   each other is linted: it stands, with findings that name the fix.
"""

from __future__ import annotations

import difflib
import hashlib
import hmac
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from approvals.agents.rules import relevance
from approvals.agents.rules.relevance import ToolText
from ledger.catalogue.rules.lint import LintFinding
from ledger.catalogue.rules.versions import covers
from ledger.record.rules.canonical import canonical
from ledger.record.rules.refusals import Refused

DISCLOSURE_CAP = 30
_DOMAIN = b"counterfoil registry entry 1\x00"
LIKE = 0.92
"""From how much likeness on two names are taken for each other."""
MOST_LIKE = 10


class AgentNotRegistered(Refused):
    """The agent is not registered, or was revoked."""

    code = "AGENT_NOT_REGISTERED"
    status = 403


class RegistryFingerprintMismatch(Refused):
    """The registry entry differs from the one that was sealed."""

    code = "REGISTRY_FINGERPRINT_MISMATCH"
    status = 403


class RegistryEntryStale(Refused):
    """The registry entry is older than the caller accepts."""

    code = "REGISTRY_ENTRY_STALE"


class CapabilityNotRegistered(Refused):
    """A requested capability is not registered for this agent."""

    code = "CAPABILITY_NOT_REGISTERED"
    status = 403


class OutputTagNotNegotiated(Refused):
    """This output has a tag that the session did not negotiate."""

    code = "OUTPUT_TAG_NOT_NEGOTIATED"
    status = 403


@dataclass(frozen=True)
class RegistryEntry:
    """One registration of an agent: who approved which tools and tags, and when."""

    tenant: str
    agent_id: str
    version: str
    tools: tuple[str, ...]
    output_tags: tuple[str, ...]
    model_tier: str
    registered_by: str
    registered_at: datetime
    versions: Mapping[str, str] = field(default_factory=dict)
    """For some of the tools, the version or the range of versions that is vouched for."""
    acts_elsewhere: bool = False
    """The agent also has tools that change something and do not pass the console."""


Withdrawals = Mapping[str, Sequence[tuple[int, str | None]]]
"""For a tool, by which events of the agent's record it was taken away (None) or narrowed to a range of versions."""


@dataclass(frozen=True)
class AgentStanding:
    """The present standing of an agent: its registration in force, and the tools that it lost over time (rule 7)."""

    entry: RegistryEntry
    revoked: bool
    sessions_since: int
    withdrawn: Withdrawals


def refusal_to_act(standing: AgentStanding, *, opened_at: int, tool: str, version: str) -> Refused | None:
    """The refusal of an act with this version of a tool, in a session that was opened at this event of the agent's
    record; None if the agent may still have it done.
    """
    if standing.revoked:
        return AgentNotRegistered("The agent was revoked.")
    if opened_at < standing.sessions_since:
        return AgentNotRegistered(
            "The agent was revoked after this session was opened; its registration since then does not bring it back."
        )
    ranges = [kept for since, kept in standing.withdrawn.get(tool, ()) if since > opened_at]
    if tool not in standing.entry.tools or None in ranges:
        return CapabilityNotRegistered(f"`{tool}` was taken from this agent.")
    ranges.append(standing.entry.versions.get(tool) or "*")
    if not all(covers(kept, version) for kept in ranges if kept is not None):
        return CapabilityNotRegistered(f"Version {version} of `{tool}` was taken from this agent.")
    return None


def withdraw(before: RegistryEntry, after: RegistryEntry, lost: Withdrawals, *, seq: int) -> Withdrawals:
    """Add what an agent loses when the registration `after` (this event of its record) follows `before`."""
    found = {tool: list(each) for tool, each in lost.items()}
    for tool in before.tools:
        kept = after.versions.get(tool)
        if tool not in after.tools:
            # Whoever is refused by an earlier loss is refused by this one as well.
            found[tool] = [(seq, None)]
        elif kept and kept != before.versions.get(tool):
            found.setdefault(tool, []).append((seq, kept))
    return found


@dataclass(frozen=True)
class Disclosure:
    """The tools of a session, in the order of the registry; `withheld` are those that the cap left out."""

    tools: tuple[str, ...]
    output_tags: tuple[str, ...]
    withheld: tuple[str, ...] = ()

    @property
    def warning(self) -> str:
        """The warning that tools were withheld, and the remedy; empty if none were."""
        if not self.withheld:
            return ""
        offered = len(self.tools) + len(self.withheld)
        return (
            f"{len(self.tools)} of {offered} tools are disclosed, those nearest to the intent: more make a model invent"
            " calls. Name the tools that the session needs, or say its intent more exactly."
        )


def fingerprint(entry: RegistryEntry, *, key: bytes) -> str:
    """The seal of an entry (rule 1), hex."""
    if len(key) < 32:
        raise ValueError("a registry key has at least 32 bytes")
    sealed: dict[str, object] = {
        "tenant": entry.tenant,
        "agent_id": entry.agent_id,
        "version": entry.version,
        "tools": list(entry.tools),
        "output_tags": list(entry.output_tags),
        "model_tier": entry.model_tier,
        "registered_by": entry.registered_by,
        "registered_at": entry.registered_at.astimezone(UTC).isoformat(timespec="microseconds"),
    }
    if entry.versions:
        sealed["versions"] = dict(entry.versions)
    if entry.acts_elsewhere:
        sealed["acts_elsewhere"] = True
    return hmac.new(key, _DOMAIN + canonical(sealed), hashlib.sha256).hexdigest()


def is_sealed(entry: RegistryEntry, *, seal: str, keys: Iterable[bytes]) -> bool:
    """Return whether the entry matches its seal, by one of these keys."""
    said = seal.encode("utf-8", "replace")
    return any(hmac.compare_digest(fingerprint(entry, key=key).encode(), said) for key in keys)


def verify_entry(
    entry: RegistryEntry | None,
    *,
    seal: str,
    revoked: bool,
    keys: Iterable[bytes],
    at: datetime,
    max_age_s: int | None = None,
) -> RegistryEntry:
    """The entry, if a handshake may rest on it (rules 1 to 3)."""
    if entry is None or revoked:
        raise AgentNotRegistered
    if not is_sealed(entry, seal=seal, keys=keys):
        raise RegistryFingerprintMismatch
    if max_age_s is not None and at - entry.registered_at >= timedelta(seconds=max_age_s):
        raise RegistryEntryStale
    return entry


def negotiate(
    entry: RegistryEntry,
    *,
    contracts: Mapping[str, ToolText],
    tools: Collection[str] | None = None,
    output_tags: Collection[str] = (),
    intent: str = "",
    cap: int = DISCLOSURE_CAP,
) -> Disclosure:
    """The tools disclosed to a session (rules 4, 5). `contracts` holds each tool that has a contract."""
    available = [name for name in dict.fromkeys(entry.tools) if name in contracts]
    _check_registered(tools or (), available, "tools")
    _check_registered(output_tags, entry.output_tags, "output_tags")
    chosen = available if tools is None else [name for name in available if name in set(tools)]
    kept = chosen if len(chosen) <= cap else relevance.nearest_tools(intent, contracts, among=chosen, most=cap)
    tags = entry.output_tags if not output_tags else tuple(tag for tag in entry.output_tags if tag in set(output_tags))
    withheld = tuple(name for name in chosen if name not in set(kept))
    return Disclosure(tuple(kept), tags, withheld)


def findings(tools: Collection[str], *, contracts: Collection[str], cap: int = DISCLOSURE_CAP) -> list[LintFinding]:
    """Lint findings of a registration (rule 7)."""
    names, known = list(dict.fromkeys(tools)), set(contracts)
    found = [
        LintFinding(
            "NO_CONTRACT",
            f"/tools/{place}",
            f"No contract is registered for `{name}`, so no session is shown it.",
            "Register its contract, or leave it out.",
        )
        for place, name in enumerate(names)
        if name not in known
    ]
    if len(names) > cap:
        found.append(
            LintFinding(
                "TOO_MANY_TOOLS",
                "/tools",
                f"{len(names)} tools are registered, and a session is shown {cap}.",
                "Register an agent for each kind of work, or let each session name its tools or its intent.",
            )
        )
    return found + [_like(names, pair) for pair in _alike(names)[:MOST_LIKE]]


def _alike(names: list[str]) -> list[tuple[str, str]]:
    """Yield pairs of names so similar that a model confuses them."""
    folded = sorted({name.lower().replace("-", "_").replace(".", "_"): name for name in names}.items())
    matcher = difflib.SequenceMatcher(autojunk=False)
    pairs = []
    for place, (one, first) in enumerate(folded):
        matcher.set_seq2(one)
        for other, second in folded[place + 1 : place + 50]:
            matcher.set_seq1(other)
            if matcher.real_quick_ratio() >= LIKE and matcher.quick_ratio() >= LIKE and matcher.ratio() >= LIKE:
                pairs.append((first, second))
    return pairs


def _like(names: list[str], pair: tuple[str, str]) -> LintFinding:
    first, second = pair
    return LintFinding(
        "LIKE_NAMES",
        f"/tools/{names.index(second)}",
        f"`{first}` and `{second}` are easily taken for each other.",
        "Rename one, and say in both descriptions which is for what.",
    )


def _check_registered(wanted: Collection[str], registered: Collection[str], path: str) -> None:
    errors = [
        {"path": f"/{path}", "code": CapabilityNotRegistered.code, "detail": f"{name[:128]} is not registered."}
        for name in wanted
        if name not in registered
    ]
    if errors:
        raise CapabilityNotRegistered(errors=errors)
