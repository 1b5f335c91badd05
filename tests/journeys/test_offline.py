"""A stranger checks what the live example left behind: one file, one bundle, their own policy, and no console."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import venv
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

import httpx
import pytest

from console.local.installation import ROOT
from counterfoil_tlog import notes
from ledger.log.signer_state import read_keys
from tests.journeys.ground import Ground

NEEDED = ("cryptography", "cffi", "pycparser")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an auditor: an empty virtual environment that holds `cryptography`, and the verifier's one file."""
    folder = tmp_path_factory.mktemp("stranger")
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    for name in NEEDED:
        for file in Distribution.from_name(name).files or ():
            source = Path(str(file.locate()))
            if ".." not in file.parts and "__pycache__" not in file.parts:
                (packages / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, packages / file)
    shutil.copyfile(ROOT / "ledger" / "verify_bundle.py", folder / "verify_bundle.py")
    return folder


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(folder / "venv" / "bin" / "python"), "-I", *words]
    return subprocess.run(command, cwd=folder, env={}, capture_output=True, text=True, check=False)


def verified(folder: Path, bundle: bytes, *options: str) -> tuple[int, str, dict[str, Any]]:
    (folder / "bundle.zip").write_bytes(bundle)
    words = ("verify_bundle.py", "bundle.zip", "--policy", "policy", "--json", "report.json", *options)
    ran = run(folder, *words)
    assert ran.stderr == ""
    return ran.returncode, ran.stdout, json.loads((folder / "report.json").read_text())


def exported(ground: Ground, http: httpx.Client, **wanted: Any) -> bytes:
    """A bundle as compliance asks for it, made by the console's own worker."""
    asked = http.post("/api/v1/exports", json=wanted)
    assert asked.status_code == 202, asked.text
    path = f"/api/v1/exports/{asked.json()['export_id']}"
    ground.until(lambda: http.get(path).json()["state"] != "REQUESTED", lambda: http.get(path).json())
    answer = http.get(f"{path}/bundle")
    assert answer.status_code == 200, (answer.text, http.get(path).json())
    return answer.content


@pytest.mark.req("R-HO-12", "R-UI-14")
def test_a_bundle_of_the_live_example_is_verified_in_an_empty_environment(busy_ground: Ground, stranger: Path):
    """P11: the bundle, the verifier and the auditor's own policy are enough; nothing of the console is needed."""
    assert run(stranger, "-c", "import django").returncode != 0
    assert run(stranger, "-c", "import cryptography").returncode == 0
    ground, http = busy_ground, busy_ground.machine("audit").http
    gated = str(ground.send("clean_refund").action_id)
    ground.approve(gated)
    for action_id in (gated, str(ground.send("small_refund").action_id)):
        ground.wait_for(action_id, "RECONCILED_SUCCESS")
    kept = http.get("/api/v1/ledger/checkpoint").content
    origin = kept.split(b"\n")[0].decode()
    secrets = Path(ground.stack.sealing["COUNTERFOIL_SECRETS_DIR"])
    public = read_keys(secrets / "log_key.pem").current.public_key()
    (stranger / "policy").write_text(f"log {notes.vkey(origin, public)}\nquorum none\n")
    (stranger / "old").write_bytes(kept)
    whole = exported(ground, http)
    code, said, report = verified(stranger, whole, "--checkpoint", "old")
    assert (code, said.splitlines()[-1]) == (0, "verified"), said
    assert report["counts"]["starts"] >= 2
    assert report["counts"]["votes"] >= 1
    assert report["counts"]["events"] == report["range"][1]
    assert report["range"][1] <= report["size"], "the checkpoint may already hold what happened after the request"
    assert report["request_is_in_range"]
    part = exported(ground, http, **{"from": 5, "to": 25, "filters": {"subject_kind": "contract"}})
    code, said, report = verified(stranger, part)
    assert (code, report["range"]) == (0, [5, 25]), said
    assert report["counts"]["withheld"] > 0
    damaged = bytearray(whole)
    damaged[len(damaged) // 2] ^= 1
    code, said, _ = verified(stranger, bytes(damaged))
    assert code == 40, said
    assert sys.executable not in said
