"""Routes git of an agent's user through the HTTP gateway, and looks for other ways to reach the host.

1. Only this user's own git settings are changed, in sections that carry the gateway's address; `restore_git` removes
   those sections and nothing else. Where a setting of such a name is there already, nothing is done.
2. The gateway's token stands in a file of mode 0600; it is good for the gateway and for nothing else.
3. Other credentials are named and never removed: whose they are, and what else they are for, is not known here. Their
   contents are not shown. What is not found may be there all the same.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from counterfoil.coding_agents.onboarding import NotDone, Places

_ASK_S: Final = 20
_TOKEN_FILES: Final = (
    ".git-credentials",
    ".config/git/credentials",
    ".netrc",
    ".config/gh/hosts.yml",
    ".config/glab-cli/config.yml",
    ".npmrc",
    ".pypirc",
    ".kube/config",
    ".docker/config.json",
)
_VARIABLES: Final = (
    *("GITHUB_TOKEN", "GH_TOKEN", "GH_ENTERPRISE_TOKEN", "GITLAB_TOKEN", "GIT_ASKPASS", "SSH_ASKPASS"),
    *("NPM_TOKEN", "NODE_AUTH_TOKEN", "TWINE_PASSWORD", "UV_PUBLISH_TOKEN"),
)
_KUBECONFIG: Final = "KUBECONFIG"


@dataclass(frozen=True, kw_only=True)
class GatewayPlace:
    """The gateway's address for a host, like http://127.0.0.1:8611/forge, and the host's own, like https://git.example.org."""

    gateway: str
    host: str

    @property
    def origin(self) -> str:
        """The gateway without the name of a host."""
        parts = urlsplit(self.gateway)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def host_name(self) -> str:
        return urlsplit(self.host).hostname or ""

    @property
    def rewritten(self) -> tuple[str, ...]:
        """The beginnings of addresses that lead to the gateway instead."""
        name = self.host_name
        return (f"{self.host}/", f"git@{name}:", f"ssh://git@{name}/")


def read_place(gateway: str, host: str) -> GatewayPlace:
    """Parse the place from two addresses. Raises `NotDone`."""
    for name, given in (("--gateway", gateway), ("--for", host)):
        parts = urlsplit(given)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
            raise NotDone(f"{name} is an http or https address without a secret.")
    return GatewayPlace(gateway=gateway.rstrip("/"), host=host.rstrip("/"))


def plan_settings(place: GatewayPlace, places: Places) -> list[tuple[str, str]]:
    """The settings of git that lead to the gateway, each with its value."""
    token = shlex.quote(str(_folder(places) / "token"))
    helper = f'!f() {{ test "$1" = get && echo username=agent && echo password=$(cat {token}); }}; f'
    return [
        *((f"url.{place.gateway}/.insteadOf", each) for each in place.rewritten),
        (f"http.{place.origin}.lowSpeedLimit", "0"),
        # An empty helper before it takes the others away for this address.
        (f"credential.{place.origin}.helper", ""),
        (f"credential.{place.origin}.helper", helper),
    ]


def lead_git(place: GatewayPlace, token: str, places: Places) -> list[str]:
    """Write the settings and the token (rules 1 and 2); return the changes in lines."""
    settings = plan_settings(place, places)
    folder = _folder(places)
    if known := read_settings(places):
        if known != place:
            raise NotDone(f"git leads to {known.gateway} already; run `counterfoil-agents offboard gateway` first.")
        restore_git(places)
    for name in dict.fromkeys(name for name, _ in settings):
        if _git("config", "--global", "--get-all", name).stdout:
            raise NotDone(f"git has the setting {name} already, which is not from here. Nothing was changed.")
    folder.mkdir(parents=True, mode=0o700, exist_ok=True)
    _write_private(folder / "token", token)
    _write_private(folder / "place.json", json.dumps(asdict(place)))
    for name, value in settings:
        if (ran := _git("config", "--global", "--add", name, value)).returncode:
            restore_git(places)
            raise NotDone(f"git took no setting: {ran.stderr.strip()[:200]}")
    return [f"git of this user: {each} now leads to {place.gateway}/" for each in place.rewritten]


def read_settings(places: Places) -> GatewayPlace | None:
    """The place that git is configured for; None if it is not."""
    try:
        return GatewayPlace(**json.loads((_folder(places) / "place.json").read_text()))
    except FileNotFoundError:
        return None


def restore_git(places: Places) -> str:
    """Remove the settings and the token; return the change in a sentence."""
    place = read_settings(places)
    if place is None:
        raise NotDone("git was not led to a gateway from here.")
    for section in (f"url.{place.gateway}/", f"http.{place.origin}", f"credential.{place.origin}"):
        _git("config", "--global", "--remove-section", section)
    for name in ("token", "place.json"):
        (_folder(places) / name).unlink(missing_ok=True)
    return f"git of this user no longer leads to {place.gateway}/."


def find_other_ways(place: GatewayPlace, places: Places, environment: Mapping[str, str] = os.environ) -> Iterator[str]:
    """Other ways to the host that this user has, each in a line (rule 3)."""
    asked = f"protocol={urlsplit(place.host).scheme}\nhost={urlsplit(place.host).netloc}\n\n"
    if re.search(r"^password=.", _git("credential", "fill", given=asked).stdout, re.M):
        yield f"git's credential helper has a password for {place.host_name}: `git credential reject` removes it"
    kubeconfigs = [Path(each) for each in environment.get(_KUBECONFIG, "").split(os.pathsep) if each]
    for file in (*(places.home / name for name in _TOKEN_FILES), *kubeconfigs):
        if place.host_name in _text_of(file):
            yield f"{file} names {place.host_name}: remove that entry"
    keys = [file for file in sorted((places.home / ".ssh").glob("*")) if "PRIVATE KEY" in _text_of(file)]
    for file in keys:
        yield f"{file} is a private key: move it away, or have the host accept it for reading only"
    if environment.get("SSH_AUTH_SOCK"):
        yield "SSH_AUTH_SOCK leads to an SSH agent: start the coding agent without it"
    for name in _VARIABLES:
        if environment.get(name):
            yield f"the variable {name} is set: start the coding agent without it"


def try_the_gateway(place: GatewayPlace) -> str:
    """Send a request to the gateway through git's own settings; return the fault, empty if it answers."""
    ran = _git("ls-remote", "--exit-code", f"{place.gateway}/counterfoil/validate.git")
    if "not a repository of this gateway" in ran.stderr or ran.returncode in (0, 2):
        return ""
    lines = ran.stderr.strip().splitlines()
    return f"the gateway does not answer as one: {lines[-1][:200] if lines else 'no reason given'}"


def _folder(places: Places) -> Path:
    return places.state / "gateway"


def _git(*words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    unasked = {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "true",
        "SSH_ASKPASS": "true",
        "GCM_INTERACTIVE": "never",
    }
    try:
        return subprocess.run(
            ["git", *words],
            cwd=Path.home(),
            env=os.environ | unasked,
            input=given,
            capture_output=True,
            text=True,
            timeout=_ASK_S,
        )
    except (OSError, subprocess.TimeoutExpired) as fault:
        raise NotDone(f"git could not be asked: {type(fault).__name__}.") from fault


def _text_of(file: Path) -> str:
    """The beginning of a regular file; empty if it cannot be read."""
    try:
        return file.read_bytes()[:1_000_000].decode("utf-8", "replace") if file.is_file() else ""
    except OSError:
        return ""


def _write_private(path: Path, content: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(content)
