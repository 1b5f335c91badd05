"""Deployments: the running artifact, read from the process manager, the instances and the registry (R-CP-07).

    effects.<name>   program, artifact (expressions: a group or process of supervisord, and the digest that
                     should run), and optionally regions [expression], replicas, repository, tag, approval
                     (expressions), max_error_permille, tenant_field, target_field

A system has `regions`: {name: {"orchestrator": address, "instances": {program: [address, or {"url",
"monitor"}]}}}, and may have `registry` (an OCI registry), `release` (default
/release.json: a JSON document with artifact, environment, approval_id), `health` (default /healthz),
`metrics` (a path of the monitor, in Prometheus' text form) and `requests_metric` (a counter with a `code`).

1. The process manager says what is up and since when; only an instance itself says which artifact it is.
   One that does not answer is not ready, and its artifact is not known: that is no "absent". If it runs
   as far as the manager knows, then the way to it may be broken as well: that is no answer. Nor does one
   that runs and does not say its artifact make a partial rollout.
2. Another artifact counts as a deployment if it is not the one from before, or if it was started after
   the execution began. If it is the one from before, started again, somebody rolled back.
3. The registry is asked by digest, and the digest is computed again over what it answers. Where there is
   a registry, the approval must stand in the manifest (annotation `org.counterfoil.approval`), which
   cannot be changed under the same digest.
4. While a process starts or stops, the effect is `pending`, and a mixture is not yet a partial rollout. The
   manager is asked again at the end: what was started or ended while the instances spoke is no answer yet.
5. Errors are counted since each instance started; supervisord knows no restart counts, so a crash loop is
   a process that it is starting again (BACKOFF), gave up on (FATAL), or that ended with an error.
6. A lookup that names regions has the others looked at as well: the artifact that runs there since this
   execution is an effect in the wrong place.

The credential is supervisord's, which knows no rights: only reading methods are called.
"""

from __future__ import annotations

import hashlib
import json
import re
import xmlrpc.client
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from math import isfinite
from typing import Any
from xml.parsers.expat import ExpatError

from prometheus_client.parser import text_string_to_metric_families

from reviews.checks import fetching, lookups
from reviews.checks.fetching import Site, SiteResponse
from reviews.checks.interface import CheckFailed, ReadEffect, Reading, SystemAccess
from reviews.checks.limits import bounded_read
from reviews.readback.rules import shapes

MAX_INSTANCES = 100
_RELEASE, _HEALTH = "/release.json", "/healthz"
_INSTANCE = {
    "anyOf": [shapes.TEXT, shapes.object_schema({"url": shapes.TEXT}, {"monitor": shapes.TEXT})],
    "fault": "must be an address, or an object with url and monitor.",
}
_PROGRAMS = {
    "type": "object",
    "additionalProperties": shapes.list_schema(_INSTANCE, "instances"),
    "fault": "must name the instances of each program.",
}
_REGIONS = {
    "type": "object",
    "minProperties": 1,
    "additionalProperties": shapes.object_schema({"orchestrator": shapes.TEXT}, {"instances": _PROGRAMS}),
    "fault": "must name at least one region with its orchestrator and instances.",
}
SLACK_S = 60
"""From here on the manager's clock is known to differ from ours; it says itself what time it is."""
APPROVAL = "org.counterfoil.approval"
MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, "
    "application/vnd.docker.distribution.manifest.v2+json, application/vnd.docker.distribution.manifest.list.v2+json"
)

_TEXTS = ("program", "artifact", "replicas", "repository", "tag", "approval")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_REPOSITORY = re.compile(r"[a-z0-9][a-z0-9._/-]*")
_MOVING = frozenset({"STARTING", "STOPPING"})
_CRASHED = frozenset({"BACKOFF", "FATAL"})
_SHUTTING_DOWN = 6
_KEYS = frozenset({"name", "group", "statename", "start", "now", "exitstatus"})
_TEXT, _NUMBER, _TRUTH = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
_FIELDS: dict[str, Any] = {
    **dict.fromkeys(("program", "artifact_sha", "environment", "rollout_stage", "approval_id"), _TEXT),
    **dict.fromkeys(("replicas", "ready", "healthy", "requests", "errors", "error_permille"), _NUMBER),
    **dict.fromkeys(("rolled_back", "registered"), _TRUTH),
    "regions": {"type": "array", "items": _TEXT},
    "elsewhere": {"type": "array", "items": _TEXT},
}

Bindings = Mapping[str, Mapping[str, Any]]


@dataclass
class Instance:
    """One instance of the program, as it reports itself."""

    region: str
    healthy: bool
    release: Mapping[str, Any] | None
    counted: tuple[int, int] | None = None  # requests, errors

    @property
    def artifact(self) -> str | None:
        return None if self.release is None or "artifact" not in self.release else str(self.release["artifact"])


@dataclass
class Rollout:
    """Everything that was found of one effect."""

    wanted: Mapping[str, Any]
    regions: list[str]
    at: datetime
    processes: list[Mapping[str, Any]] = field(default_factory=list)
    instances: list[Instance] = field(default_factory=list)
    manifest: Mapping[str, Any] | None = None
    indicators: set[str] = field(default_factory=set)
    answers: list[SiteResponse] = field(default_factory=list)
    elsewhere: dict[str, bool | None] = field(default_factory=dict)  # region: started since the execution

    @property
    def moving(self) -> bool:
        return any(one["statename"] in _MOVING for one in self.processes)

    @property
    def crashed(self) -> bool:
        return any(one["statename"] in _CRASHED or _ended_badly(one) for one in self.processes)

    @property
    def ready(self) -> int:
        return sum(one["statename"] == "RUNNING" for one in self.processes)

    @property
    def with_artifact(self) -> list[Instance]:
        return [one for one in self.instances if one.artifact == self.wanted["artifact"]]

    @property
    def stage(self) -> str:
        """The progress of the wanted artifact: none, partial or complete; empty if an instance that runs does not say
        which artifact it is, and no other one is known to lack it.
        """
        if not self.with_artifact:
            return "none"
        if len(self.with_artifact) == len(self.instances):
            return "complete"
        has_another = any(one.artifact not in {None, self.wanted["artifact"]} for one in self.instances)
        return "partial" if has_another or self.ready < len(self.processes) else ""


class DeploymentCheck(lookups.LookupCheck):
    """The check of pattern `deployments`."""

    pattern = "deployments"
    settings = {
        "regions": shapes.member(
            _REGIONS, "Regions", 'As JSON: {"eu": {"orchestrator": address, "instances": {program: [address]}}}.'
        ),
        "registry": shapes.member(shapes.TEXT, "Address of the registry"),
        "release": shapes.member(
            shapes.TEXT, "Path of the release document", "Names artifact, environment and approval.", default=_RELEASE
        ),
        "health": shapes.member(shapes.TEXT, "Path of the health check", default=_HEALTH),
        "metrics": shapes.member(shapes.TEXT, "Path of the metrics", "In Prometheus' text form."),
        "requests_metric": shapes.member(shapes.TEXT, "Counter of requests", "One that has a label `code`."),
        **{name: each for name, each in fetching.SITE.items() if name != "url"},
    }
    required_settings = ("regions",)
    fields = _FIELDS
    part = shapes.object_schema(
        dict.fromkeys(("program", "artifact"), shapes.EXPRESSION),
        {
            **dict.fromkeys(("replicas", "repository", "tag", "approval"), shapes.EXPRESSION),
            "regions": shapes.list_schema(shapes.EXPRESSION, "expressions"),
            "max_error_permille": shapes.number_schema(0, 1000),
            **shapes.scope_schema(_FIELDS),
        },
        shapes.rule("/tag belongs to a repository: name it.", dependentRequired={"tag": ["repository"]}),
    )
    needs = {
        "environment": ("environment", "tenant_field"),
        "region": ("regions",),
        "error_rate": ("max_error_permille", "error_permille"),
        "approval_id": ("approval", "approval_id"),
    }

    @bounded_read
    def read(
        self,
        *,
        system: SystemAccess,
        verification: Mapping[str, Any],
        bindings: Bindings,
        at: datetime,
        timeout_s: float,
    ) -> Reading:
        """Read the running artifact in every requested region."""
        parts = lookups.lookup_effects(verification)
        until = fetching.deadline_after(timeout_s)
        looked = {name: _look_at_regions(system, part, bindings, until, at=at) for name, part in parts.items()}
        effects = tuple(_effect(name, parts[name], rollout, bindings) for name, rollout in looked.items())
        answers = [answer for rollout in looked.values() for answer in rollout.answers]
        return Reading(
            source=system.name,
            consistency=fetching.effective_consistency(system, *answers, at=at),
            freshness=_freshness(looked.values()),
            observed_at=at,
            pointer="; ".join(
                f"{part['program']} in {', '.join(looked[name].regions)}" for name, part in parts.items()
            ),
            effects=effects,
            indicators=tuple(sorted({key for rollout in looked.values() for key in rollout.indicators})),
            raw={name: _raw(rollout) for name, rollout in looked.items()},
        )


# One reading


def _look_at_regions(
    system: SystemAccess, part: Mapping[str, Any], bindings: Bindings, until: float, *, at: datetime
) -> Rollout:
    known = system.settings.get("regions")
    if not isinstance(known, dict) or not known:
        raise CheckFailed("The system has no regions.", retryable=False)
    wanted = {name: str(lookups.fill_template(part[name], bindings)) for name in _TEXTS if name in part}
    regions = [str(lookups.fill_template(text, bindings)) for text in part.get("regions", ())] or list(known)
    rollout = Rollout(wanted, regions, at=at)
    for region in regions:
        if region not in known:
            raise CheckFailed(f"The system has no region {region}.", retryable=False)
        found = _processes(system, known[region], wanted["program"], until, rollout)
        given = known[region].get("instances", {}).get(wanted["program"], [])
        rollout.processes += found
        rollout.instances += [_instance(system, region, one, found, until, rollout) for one in given[:MAX_INSTANCES]]
    for region in sorted(set(known) - set(regions)):
        _look_aside(system, region, known[region], until, rollout, bindings)
    if "repository" in part:
        _registry(system, rollout, until)
    again = [one for region in regions for one in _processes(system, known[region], wanted["program"], until, rollout)]
    # What keeps ending, or is on its way, keeps changing, and is told as that.
    restless = rollout.crashed or rollout.moving
    if not restless and list(map(_trace, again)) != list(map(_trace, rollout.processes)):
        raise CheckFailed("A process changed while its instances were asked.", retryable=True)
    rollout.indicators |= set(_indicators(part, rollout, bindings))
    return rollout


def _trace(process: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(process[key] for key in ("group", "name", "statename", "start", "exitstatus"))


def _look_aside(
    system: SystemAccess, region: str, known: Mapping[str, Any], until: float, rollout: Rollout, bindings: Bindings
) -> None:
    """Record whether the artifact runs in a region that was not requested (rule 6)."""
    program = rollout.wanted["program"]
    found = _processes(system, known, program, until, rollout)
    given = known.get("instances", {}).get(program, [])
    there = [_instance(system, region, one, found, until, rollout) for one in given[:MAX_INSTANCES]]
    if any(one.artifact == rollout.wanted["artifact"] for one in there):
        rollout.elsewhere[region] = _was_restarted(found, bindings, at=rollout.at)


def _processes(
    system: SystemAccess, region: Mapping[str, Any], program: str, until: float, rollout: Rollout
) -> list[Mapping[str, Any]]:
    """Return the processes of a program from its process manager."""
    question = xmlrpc.client.dumps((), "supervisor.getAllProcessInfo").encode()
    with fetching.open_site(system, region.get("orchestrator"), until=until) as site:
        answer = site.ask("POST", "/RPC2", content=question, headers={"Content-Type": "text/xml"})
    rollout.answers.append(answer)
    if answer.status != 200:
        raise CheckFailed(f"{answer.url} answered {answer.status}.", retryable=True)
    try:
        (found,), _ = xmlrpc.client.loads(answer.content, use_builtin_types=True)
    except xmlrpc.client.Fault as fault:
        raise CheckFailed(f"supervisord: {fault.faultString}", retryable=fault.faultCode == _SHUTTING_DOWN) from None
    except (ExpatError, xmlrpc.client.Error, ValueError, TypeError):
        raise CheckFailed("supervisord did not answer in XML-RPC.", retryable=True) from None
    if not isinstance(found, list) or not all(isinstance(one, dict) and set(one) >= _KEYS for one in found):
        raise CheckFailed("supervisord did not answer with its processes.", retryable=True)
    return [one for one in found if program in {one["group"], one["name"], f"{one['group']}:{one['name']}"}]


def _instance(
    system: SystemAccess,
    region: str,
    given: Any,
    processes: list[Mapping[str, Any]],
    until: float,
    rollout: Rollout,
) -> Instance:
    address = given.get("url") if isinstance(given, dict) else given
    monitor = given.get("monitor", address) if isinstance(given, dict) else address
    runs = bool(processes) and all(one["statename"] == "RUNNING" for one in processes)
    health = _ask_instance(system, monitor, system.settings.get("health", _HEALTH), until, runs=runs)
    release = _ask_instance(system, address, system.settings.get("release", _RELEASE), until, runs=runs)
    counted = None
    if "metrics" in system.settings:
        counted = _request_counts(system, _ask_instance(system, monitor, system.settings["metrics"], until, runs=runs))
    rollout.answers += [one for one in (health, release) if one is not None]
    return Instance(region, health is not None and health.status in {200, 204}, _release(release), counted)


def _ask_instance(system: SystemAccess, address: Any, path: str, until: float, *, runs: bool) -> SiteResponse | None:
    """Return the instance's answer, of any status; None if it gives none, like an instance that does not run
    (rule 1).
    """
    # An instance is what is being judged: it gets no credential.
    with Site(address, until=until, ca_file=system.settings.get("ca_file")) as site:
        try:
            return site.visit(path).whole()
        except CheckFailed:
            if runs:
                raise
            return None


def _release(answer: SiteResponse | None) -> Mapping[str, Any] | None:
    if answer is None or answer.status != 200:
        return None
    try:
        found = answer.json()
    except CheckFailed:
        return None
    return found if isinstance(found, dict) else None


def _request_counts(system: SystemAccess, answer: SiteResponse | None) -> tuple[int, int] | None:
    """Return the requests and the failed requests since the instance started; None if the page cannot be read."""
    if answer is None or answer.status != 200:
        return None
    wanted = system.settings.get("requests_metric")
    try:
        families = list(text_string_to_metric_families(answer.text))
    except ValueError:
        return None
    samples = [one for family in families for one in family.samples if one.name == wanted and isfinite(one.value)]
    failed = (sample.value for sample in samples if sample.labels.get("code", "").startswith("5"))
    return int(sum(sample.value for sample in samples)), int(sum(failed))


def _registry(system: SystemAccess, rollout: Rollout, until: float) -> None:
    """Return the artifact's manifest by its digest, and the digest that the tag points to (rule 3)."""
    repository, artifact = rollout.wanted["repository"], rollout.wanted["artifact"]
    if not _REPOSITORY.fullmatch(repository) or not _DIGEST.fullmatch(artifact):
        raise CheckFailed(f"{repository}@{artifact} is no artifact of a registry.", retryable=False)
    auth = system.credential.get("registry") or {}
    name = (str(auth["user"]), str(auth.get("password", ""))) if "user" in auth else None
    with Site(system.settings.get("registry"), until=until, auth=name, ca_file=system.settings.get("ca_file")) as site:
        answer = site.get(f"/v2/{repository}/manifests/{artifact}", Accept=MANIFESTS)
        rollout.answers.append(answer)
        if answer.status == 200:
            rollout.manifest = _manifest(answer, artifact)
        elif _is_unknown(answer):
            rollout.indicators.add("wrong_sha")
        else:
            raise CheckFailed(f"{answer.url} answered {answer.status}.", retryable=True)
        if "tag" in rollout.wanted and _digest_of_tag(site, repository, rollout.wanted["tag"]) != artifact:
            rollout.indicators.add("wrong_sha")


def _manifest(answer: SiteResponse, artifact: str) -> Mapping[str, Any]:
    if f"sha256:{hashlib.sha256(answer.content).hexdigest()}" != artifact:
        raise CheckFailed("The registry's manifest is not the one of its digest.", retryable=True)
    found = answer.json()
    return found if isinstance(found, dict) else {}


def _digest_of_tag(site: Site, repository: str, tag: str) -> str | None:
    answer = site.get(f"/v2/{repository}/manifests/{fetching.path_segment(tag)}", Accept=MANIFESTS)
    if answer.status != 200 and not _is_unknown(answer):
        raise CheckFailed(f"{answer.url} answered {answer.status}.", retryable=True)
    return f"sha256:{hashlib.sha256(answer.whole().content).hexdigest()}" if answer.status == 200 else None


def _is_unknown(answer: SiteResponse) -> bool:
    """Return True if the registry itself reports that it has no such thing; a gateway's 404 does not count."""
    return answer.status == 404 and isinstance(answer.document().get("errors"), list)


# What it means


def _indicators(part: Mapping[str, Any], rollout: Rollout, bindings: Bindings) -> Iterator[str]:
    if rollout.crashed:
        yield "crash_loop"
    if rollout.processes and not rollout.moving and not _is_ready(rollout):
        yield "failed_readiness"
    if rollout.stage == "partial" and not rollout.moving:
        yield "partial_region_rollout"
    requests, errors = _errors(rollout)
    if "max_error_permille" in part and errors * 1000 > part["max_error_permille"] * requests:
        yield "error_budget_burn"


def _ended_badly(process: Mapping[str, Any]) -> bool:
    return bool(process["statename"] == "EXITED" and process["exitstatus"] != 0)


def _is_ready(rollout: Rollout) -> bool:
    needed = int(rollout.wanted.get("replicas", len(rollout.processes)))
    healthy = sum(one.healthy for one in rollout.instances)
    return rollout.ready >= needed and healthy == len(rollout.instances)


def _errors(rollout: Rollout) -> tuple[int, int]:
    counted = [one.counted for one in rollout.instances if one.counted is not None]
    return sum(one[0] for one in counted), sum(one[1] for one in counted)


def _effect(name: str, part: Mapping[str, Any], rollout: Rollout, bindings: Bindings) -> ReadEffect:
    before = bindings.get("pre", {}).get("effects", {}).get(name, {})
    present = _is_there(rollout, before, bindings)
    fields = _fields(part, rollout)
    fields["rolled_back"] = "rollback_triggered" in rollout.indicators
    if present and "approval" in rollout.wanted and fields.get("approval_id") != rollout.wanted["approval"]:
        rollout.indicators.add("missing_deployment_approval")
    return ReadEffect(
        name=name,
        present=present,
        count=int(bool(present)),
        fields=fields,
        pending=bool(present) and rollout.moving,
        scope=lookups.scope_of(part, [fields] if present else ()),
        strayed=_unrequested_regions(rollout, before),
    )


def _unrequested_regions(rollout: Rollout, before: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the regions that were not requested and have run the artifact since this execution."""
    known = before.get("elsewhere")
    if known is not None:
        return tuple(region for region in rollout.elsewhere if region not in known)
    return tuple(region for region, since in rollout.elsewhere.items() if since)


def _is_there(rollout: Rollout, before: Mapping[str, Any], bindings: Bindings) -> bool | None:
    """Return True if something was deployed: the wanted artifact, or another one in its place (rule 2)."""
    if rollout.with_artifact:
        return True if rollout.stage else None
    running = {one.artifact for one in rollout.instances}
    if not rollout.processes:
        return False
    restarted = _was_restarted(rollout.processes, bindings, at=rollout.at)
    if rollout.moving and not rollout.crashed:
        # What it will be is not said yet.
        return None
    if None in running or not running:
        # Whatever was started and does not stay up says nothing of itself any more; it was started all the same.
        return True if restarted and rollout.crashed else None
    was = before.get("artifact_sha")
    if was is not None and running == {was}:
        if not restarted:
            return False
        rollout.indicators.add("rollback_triggered")
    elif was is None and restarted is False:
        return False
    rollout.indicators.add("wrong_sha")
    return True


def _was_restarted(processes: list[Mapping[str, Any]], bindings: Bindings, *, at: datetime) -> bool | None:
    """Return True if a process was started since the execution began; None if that time is unknown."""
    try:
        began = datetime.fromisoformat(str(bindings.get("scope", {}).get("executed_at")))
    except ValueError:
        return None
    if began.tzinfo is None:
        return None
    return any(one["start"] + _clock_error_s(one, at=at) >= int(began.timestamp()) for one in processes)


def _clock_error_s(process: Mapping[str, Any], *, at: datetime) -> int:
    """Return the error of the manager's clock in seconds, if it is more than a reading may take."""
    seconds = int(at.timestamp()) - int(process["now"])
    return seconds if abs(seconds) > SLACK_S else 0


def _fields(part: Mapping[str, Any], rollout: Rollout) -> dict[str, Any]:
    requests, errors = _errors(rollout)
    fields = {
        "program": rollout.wanted["program"],
        "rollout_stage": rollout.stage or None,
        "regions": sorted({one.region for one in rollout.with_artifact}),
        "replicas": len(rollout.processes),
        "ready": rollout.ready,
        "healthy": sum(one.healthy for one in rollout.instances),
        "artifact_sha": _same(one.artifact for one in rollout.instances),
        "environment": _same(
            None if one.release is None else one.release.get("environment") for one in rollout.instances
        ),
        "approval_id": _approval(part, rollout),
        "elsewhere": sorted(rollout.elsewhere),
    }
    if requests:
        fields |= {"requests": requests, "errors": errors, "error_permille": errors * 1000 // requests}
    if "repository" in part:
        fields["registered"] = rollout.manifest is not None
    # What is not known, or not the same everywhere, has no key: a predicate over it is undecidable.
    return {key: value for key, value in fields.items() if value is not None}


def _same(values: Iterable[Any]) -> str | None:
    found = set(map(json.dumps, values))
    only = json.loads(found.pop()) if len(found) == 1 else None
    return None if only is None else str(only)


def _approval(part: Mapping[str, Any], rollout: Rollout) -> str | None:
    if "repository" in part:
        noted = (rollout.manifest or {}).get("annotations") or {}
        said = noted.get(APPROVAL)
        return None if said is None else str(said)
    return _same(None if one.release is None else one.release.get("approval_id") for one in rollout.with_artifact)


def _freshness(rollouts: Iterable[Rollout]) -> str:
    processes = [one for rollout in rollouts for one in rollout.processes]
    now, started = (max((one[key] for one in processes), default="none") for key in ("now", "start"))
    return f"manager's time {now}, last start {started}"


def _raw(rollout: Rollout) -> dict[str, Any]:
    keys = ("name", "group", "statename", "start", "exitstatus", "spawnerr")
    return {
        "processes": [{key: one.get(key) for key in keys} for one in rollout.processes],
        "instances": [
            {"region": one.region, "healthy": one.healthy, "artifact": one.artifact} for one in rollout.instances
        ],
    }
