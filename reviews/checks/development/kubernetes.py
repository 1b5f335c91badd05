"""Kubernetes: read an object back from the API server of a cluster.

    effects.<name>   cluster, api_version, kind, namespace, object (expressions), and either manifest (expression: what
                     was applied, as JSON), replicas (expression), or expect "absent" with uid (expression: of the one
                     that is to be gone)

The system's settings: url, namespaces (those that may be read), ca_file; the credential: token of an account that may
only `get` these objects and the namespace `kube-system`.

1. Where a kind is found is asked of the server itself. The cluster is told by the uid of its namespace `kube-system`;
   another cluster than the one that was changed is no answer.
2. Not there is what the server says in its own form (`Status`, reason `NotFound`). One that is being deleted is still
   there; one with another uid is another object.
3. A manifest is compared field by field with the live object, as far as it says anything: `differing` counts the
   fields that are otherwise. What the server adds by itself does not count; quantities are compared as numbers.
4. `ready` is what the object's own status says. Whether what runs is healthy is another matter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from reviews.checks import fetching, lookups
from reviews.checks.interface import CheckFailed, ReadEffect, Reading, SystemAccess
from reviews.checks.limits import bounded_read
from reviews.readback.rules import shapes

_NAMES = ("cluster", "api_version", "kind", "namespace", "object")
_WANTED = ("manifest", "replicas", "uid")
_TEXT = {name: {"type": "string"} for name in ("object", "uid", "resource_version")}
_FIELDS: dict[str, Any] = _TEXT | {name: {"type": "integer"} for name in ("replicas", "ready", "differing")}
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?")
_UNITS = {"": Decimal(1), "m": Decimal("0.001")} | {
    unit + binary: Decimal((1024 if binary else 1000) ** power)
    for power, unit in enumerate("KMGTPE", 1)
    for binary in ("", "i")
}
_UNITS["k"] = _UNITS.pop("K")


class KubernetesCheck(lookups.LookupCheck):
    """The check of pattern `kubernetes`."""

    pattern = "kubernetes"
    settings = {**fetching.SITE, "namespaces": shapes.readable("Namespaces")}
    fields = _FIELDS
    part = shapes.thing_schema(
        _NAMES,
        ("manifest", "replicas"),
        shapes.rule(
            ": expect absent names the uid of the object that is to be gone.",
            if_=shapes.ABSENT,
            then={"required": ["uid"]},
            else_={"not": {"required": ["uid"]}},
        ),
        optional=("uid",),
    )

    @bounded_read
    def read(
        self,
        *,
        system: SystemAccess,
        verification: Mapping[str, Any],
        bindings: Mapping[str, Mapping[str, Any]],
        at: datetime,
        timeout_s: float,
    ) -> Reading:
        """Read each effect's object from the API server."""
        token = system.credential.get("token")
        headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        address = system.credential.get("url") or system.settings.get("url")
        effects, answers, described = list[ReadEffect](), list[fetching.SiteResponse](), list[str]()
        with fetching.open_site(system, address, until=fetching.deadline_after(timeout_s), headers=headers) as site:
            for name, part in lookups.lookup_effects(verification).items():
                asked = _fill_part(part, system, bindings)
                _check_cluster(site, asked["cluster"])
                answer = site.get(_path(site, asked))
                answers.append(answer)
                effects.append(_effect(name, asked, _object(answer)))
                described.append(f"{asked['kind']} {asked['object']} in {asked['namespace'] or 'the cluster'}")
        return Reading(
            source=system.name,
            consistency=fetching.effective_consistency(system, *answers, at=at),
            freshness="; ".join(f"resource version {each.fields.get('resource_version', 'none')}" for each in effects),
            observed_at=at,
            pointer="; ".join(described),
            effects=tuple(effects),
            raw={each.name: dict(each.fields) for each in effects},
        )


def _fill_part(
    part: Mapping[str, Any], system: SystemAccess, bindings: Mapping[str, Mapping[str, Any]]
) -> dict[str, str]:
    names = [name for name in (*_NAMES, *_WANTED) if name in part]
    found = {name: str(lookups.fill_template(part[name], bindings)) for name in names}
    lookups.refuse_unlisted(found["namespace"], system.settings.get("namespaces"), "namespaces")
    return found


def _check_cluster(site: fetching.Site, wanted: str) -> None:
    found = (_object(site.get("/api/v1/namespaces/kube-system")) or {}).get("metadata", {}).get("uid")
    if found != wanted:
        raise CheckFailed(f"This is the cluster {found}; the command ran on {wanted}.", retryable=False)


def _path(site: fetching.Site, asked: Mapping[str, str]) -> str:
    """The path of the object, by the server's own list of resources (rule 1)."""
    group, _, version = asked["api_version"].rpartition("/")
    top = "/".join(["", "apis" if group else "api", *([fetching.path_segment(group)] if group else [])])
    top += f"/{fetching.path_segment(version)}"
    served = site.get(top).document().get("resources") or []
    kinds = [each for each in served if each.get("kind") == asked["kind"] and "/" not in str(each.get("name"))]
    if not kinds:
        raise CheckFailed(f"The server knows no {asked['kind']} of {asked['api_version']}.", retryable=False)
    if kinds[0].get("namespaced"):
        top += f"/namespaces/{fetching.path_segment(asked['namespace'])}"
    return f"{top}/{fetching.path_segment(kinds[0]['name'])}/{fetching.path_segment(asked['object'])}"


def _object(answer: fetching.SiteResponse) -> dict[str, Any] | None:
    """Return the object in an answer; None if the server itself reports that it does not exist (rule 2)."""
    document = answer.document()
    if answer.status == 200 and isinstance(document.get("metadata"), dict) and document.get("kind") != "Status":
        return document
    if answer.status == 404 and (document.get("kind"), document.get("reason")) == ("Status", "NotFound"):
        return None
    raise CheckFailed(f"{answer.url} answered {answer.status} and no object.", retryable=True)


def _effect(name: str, asked: Mapping[str, str], found: Mapping[str, Any] | None) -> ReadEffect:
    about = (found or {}).get("metadata", {})
    if "uid" in asked:
        gone = found is None or about.get("uid") != asked["uid"]
        return ReadEffect(name=name, present=gone, count=int(gone), fields=_object_fields(asked, found))
    return ReadEffect(
        name=name, present=found is not None, count=int(found is not None), fields=_object_fields(asked, found)
    )


def _object_fields(asked: Mapping[str, str], found: Mapping[str, Any] | None) -> dict[str, Any]:
    if found is None:
        return {"object": asked["object"]}
    about, status = found["metadata"], found.get("status") or {}
    fields = {
        "object": asked["object"],
        "uid": str(about.get("uid", "")),
        "resource_version": str(about.get("resourceVersion", "")),
        "replicas": (found.get("spec") or {}).get("replicas"),
        "ready": status.get("readyReplicas", 0) if "replicas" in status else None,
    }
    if "manifest" in asked:
        fields["differing"] = sum(1 for _ in differences(json.loads(asked["manifest"]), found))
    return {key: value for key, value in fields.items() if value is not None}


def differences(wanted: Any, found: Any, path: str = "") -> Iterator[str]:
    """Return the paths at which an object differs from a manifest (rule 3)."""
    if path in ("/status", "/metadata/creationTimestamp"):
        return
    if isinstance(wanted, dict) and isinstance(found, dict):
        for name, value in wanted.items():
            if value is not None and value != {}:
                yield from differences(value, found.get(name), f"{path}/{name}")
    elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        for place, (one, other) in enumerate(zip(wanted, found, strict=True)):
            yield from differences(one, other, f"{path}/{place}")
    elif wanted != found and (_number(wanted) is None or _number(wanted) != _number(found)):
        yield path


def _number(value: Any) -> Decimal | None:
    matched = _QUANTITY.fullmatch(str(value)) if isinstance(value, str | int) and not isinstance(value, bool) else None
    return Decimal(matched[1]) * _UNITS[matched[2] or ""] if matched else None
