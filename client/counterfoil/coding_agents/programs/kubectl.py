"""`kubectl apply`, `scale` and `delete` of one object.

1. What the words mean is asked of kubectl and of the cluster itself, with the command's own connection, by commands
   that change nothing: `get`, and `create --dry-run=client` for what a file says.
2. One object at a time, so that each is approved and read back by itself; a selector, a folder and an address are
   refused.
3. Of the other commands, those that only read run. Every other one is said not to be recognised.
"""

from __future__ import annotations

import getopt
import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from counterfoil.coding_agents.shell import Effect, Program, Refusal

_KUBECTL_S: Final = 40
_CONNECTION: Final = frozenset(("-n", "--namespace", "--context", "--cluster", "--user", "--kubeconfig"))
_OPTIONS: Final = {
    "apply": (*("filename=", "validate=", "wait", "timeout=", "output="),),
    "scale": (*("replicas=", "timeout=", "output="),),
    "delete": (*("filename=", "wait=", "timeout=", "grace-period=", "ignore-not-found", "now", "output="),),
}
# fmt: off
_READS: Final = frozenset(
    (
        "api-resources", "api-versions", "cluster-info", "completion", "describe", "diff", "events", "explain", "get",
        "help", "logs", "options", "top", "version", "wait",
    )
)
# fmt: on
_READ_PAIRS: Final = frozenset(
    (
        *(("rollout", "status"), ("rollout", "history"), ("auth", "can-i"), ("auth", "whoami")),
        *(("config", "view"), ("config", "get-contexts"), ("config", "current-context")),
    )
)
_HOW: Final = (
    "Supported are `kubectl apply -f FILE`, `kubectl scale KIND/NAME --replicas=N` and `kubectl delete KIND/NAME`."
)


def _read(words: Sequence[str], folder: Path) -> Effect | None:
    verb, rest = _verb(words[1:])
    if verb in _READS or (verb, next((each for each in rest if not each.startswith("-")), "")) in _READ_PAIRS:
        return None
    if verb not in _OPTIONS:
        raise Refusal(
            f"Not recognised: what `kubectl {verb}` changes cannot be held for approval and read back. {_HOW}"
        )
    long = [*_OPTIONS[verb], *(each[2:] + "=" for each in _CONNECTION if each.startswith("--"))]
    try:
        options, names = getopt.gnu_getopt(rest, "f:n:o:", long)
    except getopt.GetoptError as fault:
        raise Refusal(
            f"Send `kubectl {verb}` without {fault.opt!r}: what it would change cannot be known in advance. {_HOW}"
        ) from fault
    given = {name: value for name, value in options if name not in _CONNECTION}
    files = [value for name, value in options if name in ("-f", "--filename")]
    if len(files) > 1 or bool(files) == bool(names) or (files and not (folder / files[0]).is_file()):
        raise Refusal(f"Name one object, or one existing file. {_HOW}")
    cluster = _Cluster([part for each in options if each[0] in _CONNECTION for part in each], folder)
    if verb == "apply":
        if not files:
            raise Refusal(f"Name one object, or one existing file. {_HOW}")
        found = cluster.ask("create", "--dry-run=client", "--validate=false", "-f", files[0])
        if found.get("kind") == "Secret":
            raise Refusal("A Secret cannot be proposed: its content would be recorded. A person can apply it.")
        found.get("metadata", {}).pop("creationTimestamp", None)
        found.pop("status", None)
        return Effect("kubectl_apply", {**_named(found, cluster), "manifest": json.dumps(found, sort_keys=True)})
    found = cluster.ask("get", *(("-f", files[0]) if files else names))
    if verb == "delete":
        return Effect("kubectl_delete", {**_named(found, cluster), "uid": str(found["metadata"]["uid"])})
    if not re.fullmatch(r"\d{1,5}", given.get("--replicas", "")):
        raise Refusal(f"Give the number of replicas with --replicas=N. {_HOW}")
    return Effect("kubectl_scale", {**_named(found, cluster), "replicas": int(given["--replicas"])})


KUBECTL: Final = Program(
    title="kubectl",
    mention=re.compile(r"\bkubectl\b"),
    is_command=lambda words: words[0] == "kubectl",
    read=_read,
)


def _verb(words: Sequence[str]) -> tuple[str, list[str]]:
    """The command, and its words with the connection's options that stood before it."""
    before = list[str]()
    for place, word in enumerate(words):
        is_value = bool(before) and before[-1] in _CONNECTION
        if not is_value and not word.startswith("-"):
            return word, [*before, *words[place + 1 :]]
        before.append(word)
    return "help", []


def _named(found: dict[str, Any], cluster: _Cluster) -> dict[str, Any]:
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
    """The cluster that a command would change, asked with the command's own connection."""

    def __init__(self, connection: Sequence[str], folder: Path) -> None:
        self._connection = connection
        self._folder = folder

    def uid(self) -> str:
        """What tells a cluster from others: the uid of its namespace `kube-system`."""
        return str(self.ask("get", "namespace", "kube-system")["metadata"]["uid"])

    def ask(self, *words: str) -> dict[str, Any]:
        """What kubectl answers, as a document."""
        try:
            said = subprocess.run(
                ["kubectl", *self._connection, *words, "-o", "json"],
                cwd=self._folder,
                capture_output=True,
                text=True,
                timeout=_KUBECTL_S,
                stdin=subprocess.DEVNULL,
            )
            found = json.loads(said.stdout) if not said.returncode else None
        except (OSError, subprocess.TimeoutExpired, ValueError) as fault:
            raise Refusal(f"kubectl could not say what this would change: {type(fault).__name__}.") from fault
        if not isinstance(found, dict):
            why = said.stderr.strip().splitlines() or ["no reason given"]
            raise Refusal(f"kubectl cannot say what this would change: {why[-1][:300]}")
        return found
