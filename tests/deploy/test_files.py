"""What stands in deploy/ holds together: every name that is used is declared, and systemd takes every unit."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from compose_spec import PyOptions
from django.conf import settings

from console.celery import app
from console.guides import guides
from console.local.installation import ROOT
from tests.deploy.units import UNITS, examples, known_settings, lines_of, moved, without_addresses

FILE = ROOT / "deploy" / "compose.yaml"
COMPOSE: dict[str, Any] = yaml.safe_load(FILE.read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
OURS = ("web", "worker", "bulk", "sequencer", "eraser", "beat")
ANALYZE = shutil.which("systemd-analyze")


def mounts(service: str) -> dict[str, str]:
    """Where each source is mounted in a service."""
    return {each.split(":")[0]: each.split(":")[1] for each in SERVICES[service].get("volumes", ())}


def test_every_variable_that_compose_needs_is_named_at_the_head_of_the_file():
    text = FILE.read_text()
    head = text[: text.index("x-counterfoil")]
    needed = set(re.findall(r"\$\{([A-Z_]+):\?\}", text))
    assert needed == {name for name in needed if re.search(rf"\b{name}\b", head)}
    assert {name for name in re.findall(r"\$\{([A-Z_]+):-", text) if name not in head} == set()


def test_every_dependency_and_volume_of_a_service_is_declared():
    for name, service in SERVICES.items():
        waits = service.get("depends_on", {})
        assert set(waits) <= set(SERVICES), name
        for other, how in waits.items():
            assert how["condition"] != "service_healthy" or "healthcheck" in SERVICES[other], (name, other)
        volumes = {source for source in mounts(name) if not source.startswith(".")}
        assert volumes <= set(COMPOSE["volumes"]), name


def test_the_eraser_and_the_sequencer_see_no_key_of_the_others():
    assert mounts("web")["./secrets"] == mounts("worker")["./secrets"] == "/secrets"
    for name in ("eraser", "sequencer"):
        assert "./secrets" not in mounts(name)
        assert f"./{name}" in mounts(name)


def test_forwarded_headers_are_trusted_only_from_the_gateway_of_the_network():
    """What the host sends to a published port comes from there; any other address would be an endless redirect."""
    [config] = COMPOSE["networks"]["default"]["ipam"]["config"]
    command = SERVICES["web"]["command"]
    assert f"--forwarded-allow-ips ${{PROXY_ADDRESS:-{config['gateway']}}}" in command
    assert config["gateway"].removesuffix(".1") == config["subnet"].removesuffix(".0/24")


def test_the_image_contains_every_folder_that_the_console_reads():
    copied = {
        line.split()[1] for line in (ROOT / "deploy" / "Dockerfile").read_text().splitlines() if line.startswith("COPY")
    }
    read = {
        Path(each).relative_to(settings.BASE_DIR).parts[0] for each in (*settings.TEMPLATES[0]["DIRS"], guides.FOLDER)
    }
    assert {*read, "console", "ledger", "approvals", "reviews"} <= set(copied)


def test_every_shell_command_ends_with_exec_so_that_the_server_gets_signals():
    """A shell that stays in front of a server swallows the signal, and the container is killed ten seconds later."""
    for name, service in SERVICES.items():
        command = service.get("command")
        if isinstance(command, list) and command[0] == "sh":
            assert re.search(r"(^|&& )exec [^|;]+$", command[2].strip()), name


def test_whatever_runs_all_day_has_a_health_check():
    checked = {name for name, service in SERVICES.items() if "healthcheck" in service}
    assert checked == {*OURS, "postgres", "valkey"}


@pytest.mark.parametrize("name", OURS)
def test_compose_and_systemd_run_the_same_command(name: str):
    command = SERVICES[name]["command"]
    contained = command.split() if isinstance(command, str) else command
    service = dict(lines_of(UNITS / f"counterfoil-{name}.service"))["ExecStart"].split()

    assert without_addresses(contained) == without_addresses(service)


def test_the_web_process_starts_with_nothing_but_what_its_unit_sets():
    """uvicorn loads the protocol first, and nobody tells it where Django's settings are."""
    words = dict(lines_of(UNITS / "counterfoil-web.service"))["ExecStart"].split()
    loaded = [words[words.index("--http") + 1], next(word for word in words if word.endswith(":application"))]
    code = "import sys\nfrom uvicorn.importer import import_from_string\n"
    code += "for name in sys.argv[1:]: import_from_string(name)"
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    done = subprocess.run(
        [sys.executable, "-c", code, *loaded], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_every_environment_file_of_a_unit_has_an_example_and_no_other_is_there():
    named = [value for file in UNITS.glob("*.service") for key, value in lines_of(file) if key == "EnvironmentFile"]
    assert {Path(value).name for value in named} == set(examples())
    assert {str(Path(value).parent) for value in named} == {"/etc/counterfoil"}


@pytest.mark.parametrize("name", sorted(examples()))
def test_every_setting_of_an_example_is_one_that_is_read(name: str):
    """Those of the witness are read by its unit."""
    unit = (UNITS / "counterfoil-witness.service").read_text() if name == "witness.env" else ""
    assert [each for each in examples()[name] if each not in known_settings() and f"${{{each}}}" not in unit] == []


def test_the_workers_listen_to_every_queue_together():
    words = [SERVICES[name]["command"].split() for name in ("worker", "bulk")]
    heard = [each[each.index("--queues") + 1].split(",") for each in words]
    assert sorted(heard[0] + heard[1]) == sorted(queue.name for queue in app.conf.task_queues)


def test_the_monthly_unit_can_be_started_again():
    timer = dict(lines_of(UNITS / "counterfoil-partitions.timer"))
    assert (timer["OnCalendar"], timer["Persistent"]) == ("monthly", "true")
    monthly = dict(lines_of(UNITS / "counterfoil-partitions.service"))
    assert monthly["ExecStart"].endswith("manage.py prepare_database")
    assert "RemainAfterExit" not in monthly


def filled(text: str) -> str:
    """The compose file with its variables in place, as compose reads it."""
    return re.sub(r"\$\{[A-Z_]+(?::-((?:[^{}]|\$\{[^}]*\})*)|:\?)\}", lambda found: filled(found[1] or "word"), text)


def test_the_compose_file_follows_the_specification_of_compose():
    options = PyOptions()
    options.apply_merge = True
    options.from_yaml(filled(FILE.read_text())).validate()
    with pytest.raises(ValueError, match="readonly"):
        options.from_yaml(filled(FILE.read_text().replace("read_only: true", "readonly: true")))


@pytest.mark.parametrize("file", sorted((ROOT / "deploy").glob("*Dockerfile")), ids=lambda file: file.name)
def test_a_linter_of_images_has_nothing_to_say(file: Path):
    linter = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([linter, "--no-color", file], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not installed (Debian's package systemd)")
def test_systemd_accepts_every_unit(tmp_path: Path):
    for file in UNITS.iterdir():
        if file.stem != "counterfoil-witness" or find_spec("counterfoil_witness"):
            # Envoy is no part of a checkout; any program stands for it.
            text = file.read_text().replace("/usr/local/bin/envoy", sys.executable)
            (tmp_path / file.name).write_text(moved(text, tmp_path))
    named = sorted(str(file) for file in tmp_path.iterdir())
    done = subprocess.run([str(ANALYZE), "verify", "--man=no", *named], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
