"""Ways round the HTTP gateway: the credentials that lie beside it, and tries to reach its hosts without it.

1. A try is made by the client itself where it is there, with whatever credential it finds, and changes nothing: a push
   that is only prepared (`--dry-run`), a question about oneself (`whoami`), an upload with nothing in it.
2. A way is closed only if the host itself refused; open if the host took a credential; everything else is not known,
   with the reason. Silence is not known.
3. Credentials are named and never shown. They are removed only where a person agrees, entry by entry.
"""

from __future__ import annotations

import base64
import configparser
import hashlib
import json
import netrc
import os
import re
import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from counterfoil.coding_agents.behind_gateway import (
    GatedHost,
    change_outside_block,
    gh_folder,
    npm_file,
    read_text,
    replace_text,
    run_git,
    write_private,
)
from counterfoil.coding_agents.onboarding import NotDone, Places

_CONNECT_S: Final = 5
_TRY_S: Final = 30
_TOKEN_FILES: Final = (
    *(".git-credentials", ".config/git/credentials", ".netrc", ".config/glab-cli/config.yml"),
    *(".npmrc", ".pypirc", ".kube/config", ".docker/config.json"),
)
_VARIABLES: Final = (
    *("GITHUB_TOKEN", "GH_TOKEN", "GH_ENTERPRISE_TOKEN", "GITLAB_TOKEN", "GIT_ASKPASS", "SSH_ASKPASS"),
    *("NPM_TOKEN", "NODE_AUTH_TOKEN", "TWINE_PASSWORD", "UV_PUBLISH_TOKEN"),
)
_ALSO: Final = {"api.github.com": "github.com"}
"""A further name under which a host's clients keep its credentials."""
_PYPI: Final = {"pypi": "https://upload.pypi.org/legacy/", "testpypi": "https://test.pypi.org/legacy/"}
_NO_CREDENTIAL: Final = (
    *("could not read Username", "could not read Password", "Authentication failed", "HTTP Basic: Access denied"),
    *("returned error: 401", "returned error: 403"),
)


@dataclass(frozen=True)
class Credential:
    """A credential beside the gateway, in words; `without` makes the file's text without it, where that can be done."""

    line: str
    file: Path | None = None
    without: Callable[[str], str] | None = None


class WayState(StrEnum):
    """The results of a try (rule 2)."""

    CLOSED = "closed"
    OPEN = "OPEN"
    NOT_KNOWN = "not known"


@dataclass(frozen=True)
class TriedWay:
    """A try to reach a host without the gateway, with its result and the reason."""

    way: str
    state: WayState
    why: str


def find_credentials(
    host: GatedHost, places: Places, environment: Mapping[str, str] = os.environ
) -> Iterator[Credential]:
    """The credentials for a host that this user has, as far as they are looked for (rule 3)."""
    asked = f"protocol={urlsplit(host.url).scheme}\nhost={host.place}\n\n"
    if re.search(r"^password=.", run_git("credential", "fill", given=asked).stdout, re.M):
        yield Credential(f"git's credential helper has a password for {host.place}: `git credential reject` removes it")
    kubeconfigs = [Path(each) for each in environment.get("KUBECONFIG", "").split(os.pathsep) if each]
    listed = [places.home / name for name in _TOKEN_FILES]
    for file in dict.fromkeys((*listed, npm_file(places), gh_folder(places) / "hosts.yml", *kubeconfigs)):
        without = _ENTRIES.get(file.name)
        text = text_of(file)
        if without is not None and without(text, host) != text:
            cut = partial(change_outside_block, change=partial(_cut, without, host))
            yield Credential(f"{file} has a credential for {host.place}: remove that entry", file, cut)
        elif any(each in text for each in _names(host.place)):
            yield Credential(f"{file} names {host.place}: remove that entry")
    for file in sorted((places.home / ".ssh").glob("*")):
        if "PRIVATE KEY" in text_of(file):
            yield Credential(f"{file} is a private key: move it away, or have the host accept it for reading only")
    if environment.get("SSH_AUTH_SOCK"):
        yield Credential("SSH_AUTH_SOCK leads to an SSH agent: start the coding agent without it")
    for name in _VARIABLES:
        if environment.get(name):
            yield Credential(f"the variable {name} is set: start the coding agent without it")


def _cut(entries: Callable[[str, GatedHost], str], host: GatedHost, text: str) -> str:
    return entries(text, host)


def _cut_lines(pattern: str) -> Callable[[str, GatedHost], str]:
    """A cut of the lines that fit an expression, in which HOST stands for the host."""

    def cut(text: str, host: GatedHost) -> str:
        # git's own store writes the colon before a port encoded.
        names = "|".join(re.escape(each).replace(":", "(?::|%3[aA])") for each in _names(host.place))
        fits = re.compile(pattern.replace("HOST", f"(?:{names})"))
        return "".join(line for line in text.splitlines(keepends=True) if not fits.match(line))

    return cut


def _cut_netrc(text: str, host: GatedHost) -> str:
    """The text without the entries of the host; an entry reaches to the next one, wherever lines end."""
    names = "|".join(re.escape(each) for each in _names(host.host_name))
    begins = r"(?:\A|(?<=\s))"
    entry = rf"(?s){begins}machine\s+(?:{names})\s.*?(?={begins}(?:machine|default|macdef)\s|\Z)"
    return re.sub(entry, "", text)


def _names(name: str) -> list[str]:
    """The names under which a host's clients keep its credentials."""
    return [name, *([_ALSO[name]] if name in _ALSO else [])]


def _cut_pypirc(text: str, host: GatedHost) -> str:
    """The text without the sections whose repository is the host and that hold a password."""
    parts = re.split(r"(?m)^(?=\[)", text)
    return "".join(part for part in parts if not _is_password_for(part, host))


def _is_password_for(section: str, host: GatedHost) -> bool:
    name = re.match(r"\[([^\]]*)\]", section)
    address = re.search(r"(?m)^\s*repository\s*[=:]\s*(\S+)", section)
    repository = address[1] if address else _PYPI.get(name[1], "") if name else ""
    return urlsplit(repository).netloc == host.place and bool(re.search(r"(?m)^\s*password\s*[=:]", section))


_ENTRIES: Final[Mapping[str, Callable[[str, GatedHost], str]]] = {
    ".git-credentials": _cut_lines(r"https?://[^/]*@HOST(?:/|\s|$)"),
    "credentials": _cut_lines(r"https?://[^/]*@HOST(?:/|\s|$)"),
    ".netrc": _cut_netrc,
    ".npmrc": _cut_lines(r"\s*//HOST[/:].*:(?:_authToken|_auth|_password|username)\s*="),
    ".pypirc": _cut_pypirc,
}


def try_ways(host: GatedHost, places: Places, folder: Path) -> Iterator[TriedWay]:
    """Try to reach a host without the gateway, as the agent would from a folder (rules 1 and 2)."""
    if host.reads == "git":
        remotes = [each for each in _remotes(folder) if _leads_to(host, each)]
        yield _try_push(host, remotes, folder)
        yield _try_ssh(host, remotes, folder)
    elif host.reads == "npm":
        yield _try_npm(host, folder)
    elif host.reads == "pypi":
        yield from _try_uploads(host, places)
    elif host.reads == "kubernetes":
        yield from _try_kubectl(host)
    elif host.reads in ("github", "gitlab", "gitlab-graphql"):
        yield from _try_api(host, places)
    else:
        yield TriedWay(f"requests to {host.place}", WayState.NOT_KNOWN, "no client of this API is known here")


# git


def _remotes(folder: Path) -> list[str]:
    """The addresses of the folder's remotes, as they are written."""
    ran = _run(["git", "config", "--get-regexp", r"^remote\..*\.(push)?url$"], folder)
    return [line.partition(" ")[2] for line in ran.stdout.splitlines()] if ran is not None else []


def _leads_to(host: GatedHost, address: str) -> bool:
    if address.startswith(("https://", "http://")):
        return urlsplit(address).netloc.rpartition("@")[2] == host.place
    name = urlsplit(address).hostname if "://" in address else address.partition(":")[0].rpartition("@")[2]
    return name == host.host_name


def _push_address(host: GatedHost, remotes: Sequence[str]) -> str:
    """The address of a repository at the host: that of a remote as it is written, which may hold a credential."""
    for each in remotes:
        if each.startswith(("https://", "http://")):
            return each
    paths = [urlsplit(each).path if "://" in each else each.partition(":")[2] for each in remotes]
    named = [each for each in host.repositories if "*" not in each]
    return f"{host.url}/{[*paths, *named, 'counterfoil/validate.git'][0].lstrip('/')}"


def _try_push(host: GatedHost, remotes: Sequence[str], folder: Path) -> TriedWay:
    """Prepare a push straight to the host, with the folder's and the user's own settings of git."""
    url = _push_address(host, remotes)
    way = f"git push to {_without_secret(url)}"
    with tempfile.TemporaryDirectory() as scratch:
        place = folder
        if (ran := _run(["git", "rev-parse", "--verify", "--quiet", "HEAD"], folder)) is None:
            return TriedWay(way, WayState.NOT_KNOWN, "git is not installed here")
        if ran.returncode:
            place = Path(scratch)
            _run(["git", "init", "--quiet"], place)
            named = ["-c", "user.name=counterfoil", "-c", "user.email=validate@counterfoil.invalid"]
            _run(["git", *named, "commit", "--quiet", "--allow-empty", "--message", "empty"], place)
        # The longest beginning of an address wins, so that this one is not led to the gateway.
        given = os.environ.get("GIT_CONFIG_COUNT", "0")
        first = int(given) if given.isdigit() else 0
        straight = {"GIT_CONFIG_COUNT": str(first + 2)}
        for number, kind in enumerate(("insteadOf", "pushInsteadOf"), first):
            straight |= {f"GIT_CONFIG_KEY_{number}": f"url.{url}.{kind}", f"GIT_CONFIG_VALUE_{number}": url}
        ref = "HEAD:refs/heads/counterfoil-validate"
        words = ["push", "--dry-run", "--no-verify", "--recurse-submodules=no", url, ref]
        unasked = {"GIT_TERMINAL_PROMPT": "0", "SSH_ASKPASS": "", "GCM_INTERACTIVE": "never"}
        ran = _run(["git", *words], place, straight | unasked)
    if ran is None:
        return TriedWay(way, WayState.NOT_KNOWN, f"no answer within {_TRY_S} seconds")
    if ran.returncode == 0:
        return TriedWay(way, WayState.OPEN, "the host would take it")
    refused = any(each in ran.stderr for each in _NO_CREDENTIAL)
    return TriedWay(way, WayState.CLOSED if refused else WayState.NOT_KNOWN, _last_line(ran.stderr))


def _try_ssh(host: GatedHost, remotes: Sequence[str], folder: Path) -> TriedWay:
    """Sign in by SSH, with the keys and the SSH agent that git would use. No key of a host is believed or kept."""
    written = next((urlsplit(each) for each in remotes if each.startswith("ssh://")), None)
    user = (written.username if written else "") or "git"
    port = ["-p", str(written.port)] if written and written.port else []
    way = f"ssh {user}@{host.host_name}"
    configured = _run(["git", "config", "--get", "core.sshCommand"], folder)
    program = os.environ.get("GIT_SSH_COMMAND") or (configured.stdout.strip() if configured else "") or "ssh"
    options = {
        **{"BatchMode": "yes", "ConnectTimeout": str(_CONNECT_S), "ForwardAgent": "no", "PermitLocalCommand": "no"},
        **{"StrictHostKeyChecking": "no", "UserKnownHostsFile": os.devnull, "RemoteCommand": "none"},
        **{"ControlMaster": "no", "ControlPath": "none", "ClearAllForwardings": "yes"},
    }
    told = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    # As git runs it: the setting may be more than one word, and a shell reads it.
    words = ["sh", "-c", f'{program} "$@"', program, "-v", *told, *port, "-T", f"{user}@{host.host_name}"]
    ran = _run(words, folder)
    if ran is None:
        return TriedWay(way, WayState.NOT_KNOWN, f"no answer within {_TRY_S} seconds")
    if re.search(r"^Authenticated to ", ran.stderr, re.M):
        return TriedWay(way, WayState.OPEN, "the host takes a key of this user")
    refused = "Permission denied" in ran.stderr
    return TriedWay(way, WayState.CLOSED if refused else WayState.NOT_KNOWN, _last_line(ran.stderr))


# Registries


def _try_npm(host: GatedHost, folder: Path) -> TriedWay:
    way = f"npm at {host.url}"
    if shutil.which("npm") is None:
        return TriedWay(way, WayState.NOT_KNOWN, "npm is not installed here")
    ran = _run(["npm", "whoami", "--registry", f"{host.url}/", "--no-update-notifier"], folder)
    if ran is None:
        return TriedWay(way, WayState.NOT_KNOWN, f"no answer within {_TRY_S} seconds")
    if ran.returncode == 0:
        return TriedWay(way, WayState.OPEN, f"npm is signed in as {ran.stdout.strip()[:100]}")
    code = re.search(r"code (E\w+)", ran.stderr)
    if code and code[1] == "ENEEDAUTH":
        return _without_credential(way, f"{host.url}/-/whoami", "npm has no credential for it")
    closed = code is not None and code[1] in ("E401", "E403")
    return TriedWay(way, WayState.CLOSED if closed else WayState.NOT_KNOWN, code[1] if code else _last_line(ran.stderr))


def _try_uploads(host: GatedHost, places: Places) -> Iterator[TriedWay]:
    """Send uploads with nothing in them, which no index can take, with each credential that twine would find."""
    mark = "counterfoil"
    body = f'--{mark}\r\nContent-Disposition: form-data; name=":action"\r\n\r\nfile_upload\r\n--{mark}--\r\n'.encode()
    kind = {"Content-Type": f"multipart/form-data; boundary={mark}"}
    found = _twine_credentials(host, places)
    for where, header in found:
        answered = _ask("POST", f"{host.url}/", {**kind, "Authorization": header}, body)
        yield _judge(f"an empty upload to {host.url} with {where}", answered, taken=(200, 400, 409, 422))
    if not found:
        answered = _ask("POST", f"{host.url}/", kind, body)
        yield _judge(f"an empty upload to {host.url} without a credential", answered, taken=(200, 400, 409, 422))


def _twine_credentials(host: GatedHost, places: Places) -> list[tuple[str, str]]:
    found = []
    if password := os.environ.get("TWINE_PASSWORD"):
        found.append(("TWINE_PASSWORD", _basic(os.environ.get("TWINE_USERNAME") or "__token__", password)))
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(text_of(places.home / ".pypirc"))
    except configparser.Error:
        return found
    for name in parser.sections():
        told = parser[name]
        repository = told.get("repository") or _PYPI.get(name, "")
        if urlsplit(repository).netloc == host.place and told.get("password"):
            found.append((f"[{name}] of ~/.pypirc", _basic(told.get("username") or "__token__", told["password"])))
    return found


# Clusters


def _try_kubectl(host: GatedHost) -> Iterator[TriedWay]:
    """Ask the cluster for its versions of the API, with each context of kubectl that leads to it, and without one."""
    way = f"kubectl at {host.url}"
    shown = _run(["kubectl", "config", "view", "--output=json"], Path.home())
    if shown is None or shown.returncode:
        yield TriedWay(way, WayState.NOT_KNOWN, "kubectl is not installed, or cannot read its settings")
        return
    settings = json.loads(shown.stdout)
    clusters = {
        each["name"]
        for each in settings.get("clusters") or ()
        if each["cluster"].get("server", "").rstrip("/") == host.url
    }
    contexts = [each["name"] for each in settings.get("contexts") or () if each["context"].get("cluster") in clusters]
    if not contexts:
        yield _without_credential(
            f"GET {host.url}/api", f"{host.url}/api", "no context of kubectl leads to it", verify=False
        )
    for context in contexts:
        name = f"{way} with the context {context}"
        ran = _run(
            ["kubectl", "--context", context, f"--request-timeout={_CONNECT_S}s", "get", "--raw", "/api"], Path.home()
        )
        if ran is None:
            yield TriedWay(name, WayState.NOT_KNOWN, f"no answer within {_TRY_S} seconds")
        elif ran.returncode == 0:
            yield TriedWay(name, WayState.OPEN, "the cluster answers it")
        elif "Unauthorized" in ran.stderr or "must be logged in" in ran.stderr or "system:anonymous" in ran.stderr:
            yield TriedWay(name, WayState.CLOSED, _last_line(ran.stderr))
        elif "Forbidden" in ran.stderr:
            yield TriedWay(name, WayState.OPEN, f"the cluster knows this user: {_last_line(ran.stderr)}")
        else:
            yield TriedWay(name, WayState.NOT_KNOWN, _last_line(ran.stderr))


# REST


def _try_api(host: GatedHost, places: Places) -> Iterator[TriedWay]:
    """Ask an API for the user of each credential that its clients would find; without one, for its refusal."""
    address = f"{host.url}/user" if host.reads != "gitlab-graphql" else f"{host.url}/v4/user"
    found = list(_api_credentials(host, places))
    for where, header in found:
        yield _judge(f"GET {address} with {where}", _ask("GET", address, {"Authorization": header}), taken=(200,))
    if not found:
        yield _without_credential(f"GET {address}", address, "no credential was found")


def _api_credentials(host: GatedHost, places: Places) -> Iterator[tuple[str, str]]:
    names = ("GITHUB_TOKEN", "GH_TOKEN", "GH_ENTERPRISE_TOKEN") if host.reads == "github" else ("GITLAB_TOKEN",)
    for name in names:
        if token := os.environ.get(name):
            yield f"the variable {name}", f"Bearer {token}"
    known_as = _ALSO.get(host.place, host.place)
    if host.reads == "github":
        ran = _run(["gh", "auth", "token", "--hostname", known_as], Path.home())
        if ran is not None and ran.returncode == 0 and ran.stdout.strip():
            yield "the token of gh", f"Bearer {ran.stdout.strip()}"
    filled = run_git("credential", "fill", given=f"protocol={urlsplit(host.url).scheme}\nhost={known_as}\n\n").stdout
    if password := re.search(r"^password=(.+)$", filled, re.M):
        yield "the password of git", f"Bearer {password[1]}"
    try:
        entry = netrc.netrc(str(places.home / ".netrc")).authenticators(host.host_name)
    except (OSError, netrc.NetrcParseError):
        entry = None
    if entry and entry[2]:
        yield "the entry of ~/.netrc", _basic(entry[0] or "", entry[2])


def _without_credential(way: str, address: str, why: str, *, verify: bool = True) -> TriedWay:
    """Ask without a credential, so that the host's own refusal closes the way; an answer opens none."""
    tried = _judge(f"{way} without a credential", _ask("GET", address, {}, verify=verify), taken=())
    return TriedWay(tried.way, tried.state, f"{why}; {tried.why}")


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


def _ask(
    method: str, address: str, headers: Mapping[str, str], body: bytes | None = None, *, verify: bool = True
) -> int | str:
    """The status of the host's own answer, or the reason why there is none. Redirects are not followed.

    Without `verify` any certificate is taken: for a cluster of a private authority, and with no credential.
    """
    asked = Request(address, data=body, headers={**headers, "User-Agent": "counterfoil-agents"}, method=method)
    try:
        context = ssl.create_default_context(cafile=os.environ.get("SSL_CERT_FILE") or None)
        if not verify:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with build_opener(_NoRedirect, HTTPSHandler(context=context)).open(asked, timeout=_TRY_S) as answer:
            return int(answer.status)
    except HTTPError as fault:
        with fault:
            return fault.code
    except (OSError, ValueError) as fault:
        return str(getattr(fault, "reason", fault)) or type(fault).__name__


def _judge(way: str, answered: int | str, *, taken: Sequence[int]) -> TriedWay:
    if isinstance(answered, str):
        return TriedWay(way, WayState.NOT_KNOWN, answered)
    if answered in (401, 403):
        return TriedWay(way, WayState.CLOSED, f"the host answered with {answered}")
    state = WayState.OPEN if answered in taken else WayState.NOT_KNOWN
    return TriedWay(way, state, f"the host answered with {answered}")


def text_of(file: Path) -> str:
    """A regular file's beginning as text, without the part that leads to the gateway; empty if it cannot be read."""
    try:
        text = file.read_bytes()[:1_000_000].decode("utf-8", "replace") if file.is_file() else ""
    except OSError:
        return ""
    return change_outside_block(text, change=lambda part: part, keep=False)


def _basic(user: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode('ascii')}"


def _last_line(text: str) -> str:
    said = (line.strip() for line in text.splitlines())
    lines = [line for line in said if line and not line.startswith(("Warning:", "debug1:", "OpenSSH_"))]
    named = next(
        (line for line in reversed(lines) if "fatal" in line or "error" in line.lower() or "denied" in line), ""
    )
    return _without_secret(named or (lines[-1] if lines else "no reason given"))[:200]


def _without_secret(text: str) -> str:
    """A text without the users and passwords of addresses."""
    return re.sub(r"(?<=://)[^/@\s]*@", "", text)


def _run(
    words: Sequence[str], folder: Path, variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str] | None:
    """Run a program of the agent's own; None if it is not there or does not end."""
    try:
        return subprocess.run(
            words,
            cwd=folder,
            env={**os.environ, "LC_ALL": "C", **(variables or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TRY_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


# Taking credentials away


def remove_credentials(chosen: Sequence[Credential], into: Path) -> list[str]:
    """Move the entries of credentials into a file of a person's choice; return the changes in lines (rule 3)."""
    kept = _read_removed(into)
    lines = []
    for file in dict.fromkeys(each.file for each in chosen if each.file is not None):
        before = after = read_text(file)
        for each in chosen:
            if each.file == file and each.without is not None:
                after = each.without(after)
        kept.append({"file": str(file), "before": before, "after": hashlib.sha256(_bytes(after)).hexdigest()})
        # Kept before it is gone.
        write_private(into, json.dumps(kept))
        replace_text(file.resolve(), after)
        lines.append(f"{file}: the entry was moved to {into}. Take that file out of the agent's reach.")
    return lines


def put_back(into: Path) -> list[str]:
    """Write the files back from which entries were moved, where nobody changed them since; return that in lines."""
    kept, left, lines = _read_removed(into), list[dict[str, str]](), list[str]()
    for each in reversed(kept):
        file = Path(each["file"])
        if hashlib.sha256(_bytes(read_text(file))).hexdigest() == each["after"]:
            replace_text(file.resolve(), each["before"])
            lines.append(f"{file} is again as it was.")
        else:
            left.insert(0, each)
            lines.append(f"{file} was changed since and is left alone; its earlier content is in {into}.")
    write_private(into, json.dumps(left)) if left else into.unlink(missing_ok=True)
    return lines


def _read_removed(into: Path) -> list[dict[str, str]]:
    try:
        found = json.loads(into.read_text())
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as fault:
        raise NotDone(f"{into} is not a file of moved entries; nothing was moved.") from fault
    if not isinstance(found, list):
        raise NotDone(f"{into} is not a file of moved entries; nothing was moved.")
    return found


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
