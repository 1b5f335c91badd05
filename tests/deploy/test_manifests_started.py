"""Each command line of deploy/kubernetes for real: the containers of a pod as processes of this machine.

Mounted paths become folders below a temporary one, Secrets files in them, and addresses those of this run's servers.
What only a cluster has, its network and its rights, is not here.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

from console.local import processes, servers
from console.local.installation import DATABASE, KEYS_DATABASE, ROOT
from console.local.keys import ensure_keys, ensure_log_key
from tests.db.log.state_server import state_server
from tests.deploy.manifests import PROGRAMS, Pod, environment, needs_kubectl, pods, resources, words
from tests.deploy.units import WORD, on_this_machine

pytestmark = [pytest.mark.long, needs_kubectl]

PATIENCE_S = 120.0
LASTING = ("web", "worker", "bulk", "beat", "sequencer", "eraser", "witness")
SCHEDULED = ("partitions", "log-verification", "record-verification")


def with_folders(text: str, folders: dict[str, Path]) -> str:
    """The same with a folder of this machine in place of each mounted path."""
    paths = "|".join(map(re.escape, folders))
    return re.sub(rf"(?<![\w/-])({paths})(?![\w-])", lambda found: str(folders[found[1]]), text)


def put_files(folder: Path, files: dict[str, str]) -> None:
    """Put these files and no others into a folder, as the kubelet leaves 0400 in a pod with a group of its own."""
    for name in {file.name for file in folder.iterdir()} | set(files):
        if name not in files:
            (folder / name).unlink()
            continue
        draft = folder / f".{name}"
        draft.write_text(files[name])
        draft.chmod(0o440)
        draft.replace(folder / name)


@dataclass
class Started:
    """One pod of the node: its folders, its main process, and how to ask its probes."""

    node: Node
    pod: Pod
    log: Path
    ports: dict[str, int]
    volumes: dict[str, Path]
    child: processes.Child = field(init=False)

    def folders(self, container: dict[str, Any]) -> dict[str, Path]:
        """The folder of this machine for each mounted path."""
        return {each["mountPath"]: self.volumes[each["name"]] for each in container["volumeMounts"]}

    def moved(self, container: dict[str, Any], line: Sequence[str]) -> list[str]:
        """A command line with this machine's folders and ports in it."""
        return [self.placed(container, word) for word in line]

    def placed(self, container: dict[str, Any], text: str) -> str:
        """The same with a port or the folders of this machine in place of the pod's own."""
        return str(self.ports[text]) if text in self.ports else with_folders(text, self.folders(container))

    def variables(self, container: dict[str, Any]) -> dict[str, str]:
        """The environment of a container, with this machine's servers, ports and folders."""
        servers_here = {"postgres": self.node.postgres, "state": self.node.state, "broker": self.node.broker}
        told = {
            name: self.placed(container, on_this_machine(value, **servers_here))
            for name, value in environment(container, self.node.secrets).items()
        }
        own = {"PATH": f"{PROGRAMS}:/usr/bin:/bin", "HOSTNAME": socket.gethostname(), "PYTHONUNBUFFERED": "1"}
        return told | own

    def port(self, name: str) -> int:
        """This machine's port for one that the container names."""
        [number] = [each["containerPort"] for each in self.pod.container["ports"] if each["name"] == name]
        return self.ports[str(number)]

    def answer(self, port: str, path: str) -> str:
        """What it answers at a path of one of its ports; OSError if that is no success."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port(port)}{path}", timeout=6) as answer:
            return str(answer.read().decode())

    def run(self, container: dict[str, Any], line: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run a command in a container to its end."""
        told, line = self.variables(container), self.moved(container, line)
        return subprocess.run(line, cwd=ROOT, env=told, capture_output=True, text=True, timeout=PATIENCE_S)

    def probe(self, name: str) -> bool:
        """Ask as the kubelet does: by a command in the container, by HTTP or by a connection."""
        asked: dict[str, Any] = self.pod.container[name]
        try:
            if "exec" in asked:
                return self.run(self.pod.container, asked["exec"]["command"]).returncode == 0
            if "httpGet" in asked:
                return bool(self.answer(asked["httpGet"]["port"], asked["httpGet"]["path"]))
            socket.create_connection(("127.0.0.1", self.port(asked["tcpSocket"]["port"])), timeout=2).close()
        except (OSError, subprocess.TimeoutExpired):
            return False
        return True

    def await_probe(self, name: str) -> None:
        answered = processes.wait_until(lambda: not self.child.running() or self.probe(name), within_s=PATIENCE_S)
        assert self.child.running(), self.said()
        assert answered, f"{name}: {self.said()}"

    def said(self) -> str:
        return processes.tail_log(self.log, 30)

    def end(self) -> None:
        """End it as the kubelet does, within the time that the pod has for it."""
        self.child.process.send_signal(signal.SIGTERM)
        code = self.child.process.wait(self.pod.spec["terminationGracePeriodSeconds"])
        assert code in (0, -signal.SIGTERM), self.said()


@dataclass
class Node:
    """A node of a cluster, as far as processes of one machine are one."""

    folder: Path
    postgres: int
    state: int
    broker: int
    secrets: dict[str, dict[str, str]]
    children: list[processes.Child] = field(default_factory=list)

    def volume(self, pod: str, volume: dict[str, Any]) -> Path:
        """The folder of a volume, with what Kubernetes puts into it."""
        shared = volume.get("persistentVolumeClaim")
        folder = self.folder / str(shared["claimName"]) if shared else self.folder / pod / str(volume["name"])
        folder.mkdir(parents=True, exist_ok=True)
        files: dict[str, str] = {}
        if "configMap" in volume:
            [found] = [
                each for each in resources("ConfigMap") if each["metadata"]["name"] == volume["configMap"]["name"]
            ]
            files = found["data"]
        for source in volume.get("projected", {}).get("sources", ()):
            files |= self.secrets[source["secret"]["name"]]
        if "secret" in volume:
            files |= self.secrets[volume["secret"]["secretName"]]
        if files:
            put_files(folder, files)
        return folder

    def prepare(self, component: str, name: str = "") -> Started:
        """Make the volumes of a pod and run what comes before its main container."""
        pod, name = pods()[component], name or component
        volumes = {each: self.volume(name, volume) for each, volume in pod.volumes.items()}
        ports = {str(each["containerPort"]): servers.free_port() for each in pod.container.get("ports", ())}
        made = Started(self, pod, self.folder / f"{name}.log", ports, volumes)
        for container in pod.spec.get("initContainers", ()):
            done = made.run(container, words(container, made.variables(container)))
            assert done.returncode == 0, done.stderr
        return made

    def start(self, component: str, name: str = "") -> Started:
        """Run the containers of a pod: the first to its end, the main one as a child."""
        made = self.prepare(component, name)
        told = made.variables(made.pod.container)
        line = made.moved(made.pod.container, words(made.pod.container, told))
        program = processes.Program(name=component, argv=line, log=made.log, environment=told)
        made.child = processes.spawn(program)
        self.children.append(made.child)
        return made

    def execute(self, component: str, *line: str) -> subprocess.CompletedProcess[str]:
        """Run another command in a pod, as `kubectl exec` does."""
        made = self.prepare(component, f"{component}-executing")
        return made.run(made.pod.container, line)

    def finish(self, component: str) -> None:
        """Run a job to its end, which is success."""
        job = self.start(component)
        assert job.child.process.wait(PATIENCE_S) == 0, job.said()


def pgpass(**passwords: str) -> dict[str, str]:
    return {"pgpass": "".join(f"*:*:*:{role}:{password}\n" for role, password in passwords.items())}


@pytest.fixture(scope="module")
def state() -> Iterator[servers.Postgres]:
    """The server of the signer state."""
    with state_server() as server:
        server.ask(f"CREATE ROLE signer LOGIN PASSWORD '{WORD}'")
        server.ask("CREATE DATABASE signer OWNER signer")
        yield server.postgres


@pytest.fixture(scope="module")
def node(
    cluster: servers.Postgres,
    state: servers.Postgres,
    broker: servers.Valkey,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Node]:
    folder = tmp_path_factory.mktemp("node")
    ensure_keys(folder / "made")
    ensure_log_key(folder / "made")
    made = {each.name: each.read_text() for each in (folder / "made").iterdir() if each.is_file()}
    word = cluster.passwords
    secrets = {
        "counterfoil-keys": {name: text for name, text in made.items() if name != "log_key.pem"},
        "counterfoil-log-key": {"log_key.pem": made["log_key.pem"]},
        "counterfoil-broker": {"REDIS_URL": broker.url(60)},
        "counterfoil-database-app": pgpass(counterfoil_app=word.app),
        "counterfoil-database-owner": pgpass(counterfoil_owner=word.owner),
        "counterfoil-database-sequencer": pgpass(counterfoil_sequencer=word.sequencer, signer=WORD),
        "counterfoil-database-eraser": pgpass(counterfoil_eraser=word.eraser),
    }
    for name in (DATABASE, KEYS_DATABASE):
        cluster.make_database(name)
    started = Node(folder, cluster.port, state.port, broker.port, secrets)
    try:
        started.finish("prepare")
        first = started.execute("web", "python", "manage.py", "bootstrap", "--tenant", "acme", "--messages", "hold")
        assert first.returncode == 0, first.stderr
        yield started
    finally:
        processes.stop_children(started.children)
        with psycopg.connect(cluster.url(servers.SUPERUSER, "postgres"), autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)")


@pytest.fixture(scope="module")
def sequencers(node: Node) -> list[Started]:
    """As many as the manifest has."""
    started = [node.start("sequencer", f"sequencer-{number}") for number in range(pods()["sequencer"].replicas or 1)]
    for each in started:
        each.await_probe("startupProbe")
    return started


def test_one_of_the_sequencers_leads_and_another_takes_over(node: Node, sequencers: list[Started]):
    def leaders() -> list[Started]:
        return [each for each in sequencers if "now the leader" in each.log.read_text()]

    assert processes.wait_until(lambda: len(leaders()) == 1, within_s=PATIENCE_S)
    [first] = leaders()
    first.end()
    assert processes.wait_until(lambda: len(leaders()) == 2, within_s=PATIENCE_S)
    [left] = [each for each in sequencers if each.child.running()]
    left.await_probe("livenessProbe")


@pytest.mark.parametrize("component", [name for name in LASTING if name != "sequencer"])
def test_a_process_answers_its_probes_and_ends_in_its_time(node: Node, sequencers: list[Started], component: str):
    started = node.start(component)
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        if probe in started.pod.container:
            started.await_probe(probe)
    if component == "web":
        [metric] = [each["spec"]["metrics"][0] for each in scaled_by("External")]
        assert f"\n{metric['external']['metric']['name']} 0" in started.answer("metrics", "/metrics/installation")
    started.end()


def scaled_by(kind: str) -> list[dict[str, Any]]:
    """The autoscalers that go by a kind of metric."""
    scalers = resources("HorizontalPodAutoscaler")
    return [each for each in scalers if each["spec"]["metrics"][0]["type"] == kind]


@pytest.mark.parametrize("component", SCHEDULED)
def test_a_scheduled_job_ends_with_success(node: Node, component: str):
    node.finish(component)


def test_a_process_that_hangs_is_not_alive(node: Node):
    beat = node.start("beat", "beat-that-hangs")
    beat.await_probe("livenessProbe")
    os.kill(beat.child.process.pid, signal.SIGSTOP)
    os.utime(beat.volumes["tmp"] / "alive", (0, 0))
    assert not beat.probe("livenessProbe")
    os.kill(beat.child.process.pid, signal.SIGCONT)
    beat.await_probe("livenessProbe")
    beat.end()


def test_each_process_has_its_files_closed_to_all_others_and_no_key_of_another(node: Node):
    keys = node.secrets["counterfoil-keys"]
    for component in ("web", "eraser", "beat"):
        own = node.prepare(component, f"{component}-looked-at").volumes["keys"] / "own"
        assert own.stat().st_mode & 0o077 == 0
        assert {file.stat().st_mode & 0o777 for file in own.rglob("*") if file.is_file()} <= {0o400, 0o600}
        kept = {file.name for file in own.iterdir() if file.is_file() and keys.get(file.name) == file.read_text()}
        assert kept == (set(keys) if component == "web" else set())
    looked = node.execute("web", "python", "manage.py", "doctor")
    in_order = {line.split()[1] for line in looked.stdout.splitlines() if line.startswith("ok")}
    assert {"FOLDERS", "ROLES", "RIGHTS", "KEY_RIGHTS"} <= in_order, looked.stdout + looked.stderr


def test_the_key_of_the_log_is_rotated_and_retired_as_the_page_says(node: Node, sequencers: list[Started]):
    page = (ROOT / "docs" / "kubernetes.md").read_text()
    [retire] = re.findall(r"sh -c '([^']+)'", page)
    ensure_log_key(node.folder / "next")
    following = (node.folder / "next" / "log_key.pem").read_text()
    before = node.secrets["counterfoil-log-key"]["log_key.pem"]
    assert "log_key.before.pem" in page

    def give(files: dict[str, str]) -> None:
        """Change the Secret; sequencers that run read their keys again by themselves."""
        node.secrets["counterfoil-log-key"] = files
        for each in sequencers:
            put_files(each.volumes["log-key"], files)

    give({"log_key.pem": following, "log_key.before.pem": before})
    rotated = node.execute("sequencer", "python", "manage.py", "log", "rotate-key")
    assert "A new key signs the log." in rotated.stdout, rotated.stderr
    retired = node.execute("sequencer", "sh", "-c", retire)
    assert "The old key no longer signs the log." in retired.stdout, retired.stderr
    give({"log_key.pem": following})
    node.finish("log-verification")


def test_every_pod_is_run_by_a_test():
    assert {*LASTING, *SCHEDULED, "prepare"} == set(pods())
