"""Witness policies: which logs are trusted and which witnesses must have cosigned a head (C2SP tlog-policy).

    log <vkey> [<url>]                        each listed log is accepted; the key's name is its origin
    witness <name> <vkey> [<url>]
    group <name> all|any|<k> <name>…          witnesses and groups defined above, each in at most one group
    quorum none|<name>                        exactly one line

Rules:

1. A line is one of these, or a comment that begins with #, or empty. Items are separated by spaces and tabs.
2. Octets above 127 may stand in names, addresses and comments, and mean themselves.
3. A head holds under a policy when one of its logs signed it and its cosignatures satisfy the quorum. A signature of
   a known key that is not good refuses the head, whatever else it carries.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from counterfoil_tlog import checkpoint, notes
from counterfoil_tlog.checkpoint import CheckpointBody
from counterfoil_tlog.cosignature import verify_cosignatures
from counterfoil_tlog.notes import COSIGNATURE, ED25519, BadVerifierKey, UntrustedNote, Verifier, read_vkey
from counterfoil_tlog.refusals import Refused

LARGEST_POLICY = 2**16
_FORBIDDEN = re.compile(b"[\x00-\x08\x0b-\x1f\x7f]")
_THRESHOLD = re.compile("[1-9][0-9]{0,3}")


class BadWitnessPolicy(Refused):
    """This is not a policy file."""

    code = "BAD_WITNESS_POLICY"
    status = 422


class TrustedLog(NamedTuple):
    """A log that the policy accepts."""

    key: Verifier
    url: str | None = None


class Witness(NamedTuple):
    """A witness, under the name that the policy gives it."""

    name: str
    key: Verifier
    url: str | None = None


class Group(NamedTuple):
    """Witnesses and groups of which at least `needed` must have seen a head."""

    name: str
    needed: int
    members: tuple[str, ...]


class WitnessPolicy(NamedTuple):
    """The trusted logs and witnesses, and the quorum; `quorum` is None if no witness is required."""

    logs: tuple[TrustedLog, ...]
    witnesses: tuple[Witness, ...]
    groups: tuple[Group, ...]
    quorum: str | None


class CheckpointStatus(NamedTuple):
    """A head that a log signed: the witnesses that cosigned it, the times, and whether the quorum is met."""

    head: CheckpointBody
    cosigned: Mapping[str, int]
    satisfied: bool


class _Draft:
    """The policy read so far; every name must be defined above the line that uses it."""

    def __init__(self) -> None:
        self.logs: list[TrustedLog] = []
        self.witnesses: list[Witness] = []
        self.groups: list[Group] = []
        self.quorums: list[str | None] = []
        self.names: set[str] = set()
        self.members: set[str] = set()

    def log(self, vkey: str, *url: str) -> None:
        key = _key(vkey, ED25519)
        if len(url) > 1 or any(each.key.public_key == key.public_key for each in self.logs):
            raise BadWitnessPolicy
        self.logs.append(TrustedLog(key, *url))

    def witness(self, name: str, vkey: str, *url: str) -> None:
        key = _key(vkey, COSIGNATURE)
        if len(url) > 1 or any(each.key.public_key == key.public_key for each in self.witnesses):
            raise BadWitnessPolicy
        self._define(name)
        self.witnesses.append(Witness(name, key, *url))

    def group(self, name: str, threshold: str, *members: str) -> None:
        repeated = len(set(members)) != len(members) or not self.members.isdisjoint(members)
        if not members or repeated or not self.names.issuperset(members):
            raise BadWitnessPolicy
        self.members.update(members)
        self._define(name)
        self.groups.append(Group(name, _required_members(threshold, len(members)), members))

    def quorum(self, name: str) -> None:
        if self.quorums or (name != "none" and name not in self.names):
            raise BadWitnessPolicy
        self.quorums.append(None if name == "none" else name)

    def _define(self, name: str) -> None:
        if name == "none" or name in self.names:
            raise BadWitnessPolicy
        self.names.add(name)


def read(data: bytes) -> WitnessPolicy:
    """Read a policy from the text of a file (rules 1 and 2)."""
    if len(data) > LARGEST_POLICY or _FORBIDDEN.search(data):
        raise BadWitnessPolicy
    draft = _Draft()
    kinds: dict[str, Callable[..., None]] = {
        "log": draft.log,
        "witness": draft.witness,
        "group": draft.group,
        "quorum": draft.quorum,
    }
    # Octets that are no UTF-8 come back as themselves, so that two names are equal when their octets are.
    for number, line in enumerate(data.decode("utf-8", "surrogateescape").split("\n"), start=1):
        items = [each for each in re.split("[ \t]+", line) if each]
        if not items or items[0].startswith("#"):
            continue
        try:
            kinds[items[0]](*items[1:])
        except (KeyError, TypeError, BadWitnessPolicy, BadVerifierKey):
            raise BadWitnessPolicy(f"Line {number} of the policy file is wrong or in the wrong place.") from None
    if len(draft.quorums) != 1:
        raise BadWitnessPolicy("A policy file has exactly one quorum line.")
    return WitnessPolicy(tuple(draft.logs), tuple(draft.witnesses), tuple(draft.groups), draft.quorums[0])


def is_satisfied(policy: WitnessPolicy, cosigned: Collection[str]) -> bool:
    """Return whether the witnesses of these names are enough (rule 3)."""
    if policy.quorum is None:
        return True
    seen = {each.name for each in policy.witnesses} & set(cosigned)
    # Groups stand in the order of their definition, so each one's members were decided before it.
    for group in policy.groups:
        if sum(member in seen for member in group.members) >= group.needed:
            seen.add(group.name)
    return policy.quorum in seen


def evaluate_checkpoint(policy: WitnessPolicy, data: bytes) -> CheckpointStatus:
    """Evaluate a signed checkpoint under a policy (rule 3); refuse one that none of its logs signed."""
    note = notes.parse(data)
    head = checkpoint.parse(note.text)
    keys = [each.key for each in policy.logs if each.key.name == head.origin]
    if not keys:
        raise UntrustedNote("The policy knows no log of this origin.")
    notes.verify_signatures(note, keys)
    names = {each.key: each.name for each in policy.witnesses}
    cosigned = {names[each.by]: each.seconds for each in verify_cosignatures(note, names)}
    return CheckpointStatus(head, cosigned, is_satisfied(policy, cosigned))


def _key(text: str, kind: int) -> Verifier:
    try:
        key = read_vkey(text)
    except UnicodeEncodeError:
        raise BadWitnessPolicy from None
    if key.kind != kind:
        raise BadWitnessPolicy
    return key


def _required_members(threshold: str, members: int) -> int:
    if threshold in ("all", "any"):
        return members if threshold == "all" else 1
    if _THRESHOLD.fullmatch(threshold) is None or int(threshold) > members:
        raise BadWitnessPolicy
    return int(threshold)


def write(log_keys: Iterable[str], witnesses: WitnessPolicy | None) -> str:
    """Write a policy file that trusts these verifier keys of logs and has the same requirements as `witnesses`."""
    lines = [f"log {key}" for key in log_keys]
    if witnesses is None or witnesses.quorum is None:
        return "\n".join([*lines, "quorum none", ""])
    lines += [f"witness {each.name} {notes.write_vkey(each.key)}" for each in witnesses.witnesses]
    lines += [f"group {each.name} {each.needed} {' '.join(each.members)}" for each in witnesses.groups]
    return "\n".join([*lines, f"quorum {witnesses.quorum}", ""])
