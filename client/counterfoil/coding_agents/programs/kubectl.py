"""`kubectl apply`, `scale` and `delete` of one object.

1. What the words mean is asked of kubectl and of the cluster itself, with the command's own connection, by commands
   that change nothing: `get`, and `create --dry-run=client` for what a file says.
2. One object at a time, so that each is approved and read back by itself; a selector, a folder and an address are
   refused.
3. Of the other commands, those that only read run. Every other one is said not to be recognised.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from counterfoil.coding_agents.asking import ask_document, content
from counterfoil.coding_agents.options import Given, changes_nothing, read_options
from counterfoil.coding_agents.program import Program
from counterfoil.coding_agents.shell import Command, Effect, Refusal, Script

_OWN_OPTIONS: Final = frozenset(
    ("filename", "output", "timeout", "wait", "validate", "replicas", "grace-period", "ignore-not-found", "now")
)
_VERBS: Final = ("apply", "scale", "delete")
_CONNECTION: Final = frozenset(("namespace", "context", "cluster", "user"))
_HOW: Final = (
    "Supported are `kubectl apply -f FILE`, `kubectl scale KIND/NAME --replicas=N` and `kubectl delete KIND/NAME`."
)


def _changes(command: Command, _: Script) -> bool:
    return not changes_nothing(command.texts[1:], "kubectl")


def _read(words: Sequence[str], folder: Path) -> Effect | None:
    before = read_options(words[1:], "kubectl", up_to_operand=True)
    verb, *rest = map(str, before.operands)
    if verb not in _VERBS:
        raise Refusal(
            f"Not recognised: what `kubectl {verb}` changes cannot be held for approval and read back. {_HOW}"
        )
    given = _options([*words[1 : -len(rest) - 1], *rest], verb)
    names = [str(each) for each in given.operands]
    files = [str(value) for name, value in given.pairs if name == "filename"]
    # kubectl takes an address where a file could have the same name.
    if len(files) > 1 or bool(files) == bool(names) or any("://" in each for each in files):
        raise Refusal(f"Name one object, or one existing file. {_HOW}")
    if files:
        content(folder / files[0])
    cluster = _Cluster([f"--{name}={value}" for name, value in given.pairs if name in _CONNECTION], folder)
    if verb == "apply":
        if not files:
            raise Refusal(f"Name one object, or one existing file. {_HOW}")
        found = cluster.ask("create", "--dry-run=client", "--validate=false", "-f", files[0])
        if found.get("kind") == "Secret":
            raise Refusal("A Secret cannot be proposed: its content would be recorded. A person can apply it.")
        found.get("metadata", {}).pop("creationTimestamp", None)
        found.pop("status", None)
        return Effect(
            "kubectl_apply", {**_object_arguments(found, cluster), "manifest": json.dumps(found, sort_keys=True)}
        )
    found = cluster.ask("get", *(("-f", files[0]) if files else names))
    if verb == "delete":
        return Effect("kubectl_delete", {**_object_arguments(found, cluster), "uid": str(found["metadata"]["uid"])})
    if not re.fullmatch(r"\d{1,5}", given.text("replicas")):
        raise Refusal(f"Give the number of replicas with --replicas=N. {_HOW}")
    return Effect("kubectl_scale", {**_object_arguments(found, cluster), "replicas": int(given.text("replicas"))})


def _options(words: Sequence[str | None], verb: str) -> Given:
    given = read_options(words, "kubectl", verb, how=_HOW)
    if unknown := sorted(given.options.keys() - _CONNECTION - _OWN_OPTIONS):
        raise Refusal(
            f"Send `kubectl {verb}` without --{unknown[0]}: the cluster must be one of your own settings. {_HOW}"
        )
    return given


KUBECTL: Final = Program(title="kubectl", names=("kubectl",), changes=_changes, read=_read)


def _object_arguments(found: dict[str, Any], cluster: _Cluster) -> dict[str, Any]:
    about = found.get("metadata", {})
    if found.get("kind") == "List" or "items" in found or not about.get("name"):
        raise Refusal("Change one object at a time, so that each is approved and read back by itself.")
    return {
        "cluster": cluster.uid(),
        "api_version": found["apiVersion"],
        "kind": found["kind"],
        "namespace": about.get("namespace") or "-",
        "object": about["name"],
    }


class _Cluster:
    """The cluster that a command would change, queried with the command's own connection."""

    def __init__(self, connection: Sequence[str], folder: Path) -> None:
        self._connection = connection
        self._folder = folder

    def uid(self) -> str:
        """The identity of a cluster: the uid of its namespace `kube-system`."""
        return str(self.ask("get", "namespace", "kube-system")["metadata"]["uid"])

    def ask(self, *words: str) -> dict[str, Any]:
        """Run kubectl and parse its answer."""
        asked = [*self._connection, *words, "-o", "json"]
        return dict(ask_document("kubectl", asked, self._folder, variables=("KUBE",)))
