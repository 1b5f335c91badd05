"""Leads the clients of an agent's user (git, npm, twine, kubectl, gh) to the HTTP gateway, and back.

1. The gateway itself says which hosts it stands before, and what it reads of each.
2. Only this user's own settings are changed, by parts that carry the gateway's address or a mark; `restore_clients`
   removes those parts and nothing else. Where something else has such a part's place, nothing at all is changed.
3. The gateway's token stands in files of mode 0600; it is good for the gateway and for nothing else.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import ssl
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Protocol
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from counterfoil.coding_agents.onboarding import NotDone, Places

_ASK_S: Final = 20
_BEGIN: Final = "# >>> counterfoil gateway: `counterfoil-agents offboard gateway` removes this"
_END: Final = "# <<< counterfoil gateway"


@dataclass(frozen=True, kw_only=True)
class GatedHost:
    """A host behind the gateway: its own address, what the gateway reads of it, and where it is at the gateway.

    `port`: the host's own port at the gateway, for clients that know no path.
    """

    name: str
    url: str
    reads: str
    at: str
    repositories: tuple[str, ...] = ()
    port: int | None = None

    @property
    def place(self) -> str:
        """The host's name, with its port where it has one."""
        return urlsplit(self.url).netloc

    @property
    def host_name(self) -> str:
        return urlsplit(self.url).hostname or ""


@dataclass(frozen=True, kw_only=True)
class GatewayPlace:
    """The gateway's address without a path, the file of its authority's certificate, and its hosts."""

    url: str
    ca: str
    hosts: tuple[GatedHost, ...]


def ask_hosts(gateway: str, token: str, ca: str) -> GatewayPlace:
    """The place of a gateway; only its host of that name where the address has a path. Raises `NotDone`."""
    parts = urlsplit(gateway)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
        raise NotDone("--gateway is an http or https address without a secret.")
    origin, only = f"{parts.scheme}://{parts.netloc}", parts.path.strip("/")
    try:
        trusted = ssl.create_default_context(cafile=ca or None) if parts.scheme == "https" else None
        asked = Request(f"{origin}/", headers={"Authorization": f"Bearer {token}"})
        with urlopen(asked, timeout=_ASK_S, context=trusted) as answer:
            told = json.loads(answer.read(1_000_000))["hosts"]
        found = [
            GatedHost(
                name=name,
                url=str(each["url"]),
                reads=str(each["reads"]),
                at=f"{origin}/{name}",
                repositories=tuple(map(str, each["repositories"])),
                port=each["port"],
            )
            for name, each in told.items()
            if only in ("", name)
        ]
    except HTTPError as fault:
        fault.close()
        why = "it does not know this token" if fault.code == 401 else f"it answered with {fault.code}"
        raise NotDone(f"The gateway did not say which hosts it has: {why}. Nothing was changed.") from fault
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as fault:
        why = str(getattr(fault, "reason", "")) or type(fault).__name__
        raise NotDone(f"The gateway did not say which hosts it has: {why}. Nothing was changed.") from fault
    if not found:
        raise NotDone(f"The gateway has no host {only}. Nothing was changed." if only else "The gateway has no hosts.")
    return GatewayPlace(url=origin, ca=ca, hosts=tuple(found))


class ClientSetting(Protocol):
    """One part of a client's settings that leads to the gateway."""

    def lines(self) -> list[str]:
        """The change in words, without the token."""
        ...

    def fault(self) -> str:
        """The reason why its place is taken by something else; empty if it is free."""
        ...

    def apply(self) -> None:
        """Make the change. Raises `NotDone`."""
        ...

    def undo(self) -> None:
        """Remove it; nothing happens where it is not there."""
        ...


@dataclass(frozen=True)
class GitSection:
    """A section of git's settings for this user, such as `url.ADDRESS/`, with its settings."""

    section: str
    settings: tuple[tuple[str, str], ...]

    def lines(self) -> list[str]:
        return [f"git config --global --add {self.section}.{name} '{value}'" for name, value in self.settings]

    def fault(self) -> str:
        for name in dict.fromkeys(name for name, _ in self.settings):
            if run_git("config", "--global", "--get-all", f"{self.section}.{name}").stdout:
                return f"git has the setting {self.section}.{name} already, which is not from here"
        return ""

    def apply(self) -> None:
        for name, value in self.settings:
            ran = run_git("config", "--global", "--add", f"{self.section}.{name}", value)
            if ran.returncode:
                raise NotDone(f"git took no setting: {ran.stderr.strip()[:200]}")

    def undo(self) -> None:
        run_git("config", "--global", "--remove-section", self.section)


@dataclass(frozen=True)
class Block:
    """Lines at the end of a file, between marks; `taken` finds what would contradict them in the rest of it."""

    file: Path
    content: tuple[str, ...]
    token: str
    taken: Callable[[str], str] = lambda _: ""

    def lines(self) -> list[str]:
        return [f"{self.file}: {line.replace(self.token, '…')}" for line in self.content]

    def fault(self) -> str:
        return self.taken(read_text(self.file))

    def apply(self) -> None:
        before = read_text(self.file)
        gap = "" if not before or before.endswith("\n") else "\n"
        block = "\n".join([_BEGIN, *self.content, _END, ""])
        self._replace(before + gap + block)

    def undo(self) -> None:
        text = read_text(self.file)
        rest = change_outside_block(text, change=lambda part: part, keep=False)
        if _BEGIN in rest:
            raise NotDone(f"{self.file} was changed since: remove the lines from {_BEGIN!r} on.")
        if rest != text:
            self._replace(rest) if rest else self.file.unlink()

    def _replace(self, text: str) -> None:
        file = self.file.resolve()
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_text(file, text)


@dataclass(frozen=True)
class KubectlContext:
    """A context of kubectl with a cluster and a user of its own, under one name; it becomes the present one."""

    name: str
    server: str
    ca: str
    token_file: Path
    kept: Path
    """File in which the context is kept that was the present one before."""

    def lines(self) -> list[str]:
        return [f"kubectl config: a context {self.name} for {self.server}, which becomes the present one"]

    def fault(self) -> str:
        names = {kind: _kubectl(f"get-{kind}").stdout.split() for kind in ("clusters", "users")}
        taken = [kind for kind, known in names.items() if self.name in known]
        return f"kubectl has {self.name} among its {taken[0]} already, which is not from here" if taken else ""

    def apply(self) -> None:
        write_private(self.kept, _kubectl("current-context").stdout.strip())
        trusted = [f"--certificate-authority={self.ca}"] if self.ca else []
        for words in (
            ("set-cluster", self.name, f"--server={self.server}", *trusted),
            # Not the token itself, which others could see on the command line.
            ("set", f"users.{self.name}.tokenFile", str(self.token_file)),
            ("set-context", self.name, f"--cluster={self.name}", f"--user={self.name}"),
            ("use-context", self.name),
        ):
            if (ran := _kubectl(*words)).returncode:
                raise NotDone(f"kubectl took no setting: {ran.stderr.strip()[:200]}")

    def undo(self) -> None:
        if not self.kept.exists():
            return
        if _kubectl("current-context").stdout.strip() == self.name:
            earlier = self.kept.read_text()
            _kubectl("use-context", earlier) if earlier else _kubectl("unset", "current-context")
        for kind in ("context", "cluster", "user"):
            _kubectl(f"delete-{kind}", self.name)
        self.kept.unlink()


def plan_changes(place: GatewayPlace, token: str, places: Places) -> tuple[list[ClientSetting], list[str]]:
    """The changes that lead each host's clients to the gateway, and in lines what is left to a person."""
    changes, notes = list[ClientSetting](), list[str]()
    gits = [host for host in place.hosts if host.reads == "git"]
    if gits:
        changes += _git_sections(place, gits, places)
    made = {"npm": _npm_block, "pypi": _twine_block, "kubernetes": _kubectl_context, "github": _gh_block}
    alone = dict[str, GatedHost]()
    for host in place.hosts:
        # npm and twine have one place for the registry that they change.
        first = host.reads not in ("npm", "pypi") or alone.setdefault(host.reads, host) is host
        if host.reads in made and first:
            change = made[host.reads](place, host, token, places)
            notes += [change] if isinstance(change, str) else _name_variables(place, host, places)
            changes += [] if isinstance(change, str) else [change]
        elif host.reads != "git":
            notes.append(
                f"{host.name}: lead its programs to {host.at} yourself, with the token in {token_file(places)}"
            )
    return changes, notes


def _name_variables(place: GatewayPlace, host: GatedHost, places: Places) -> list[str]:
    """The variables that a host's client needs beside its settings, in lines."""
    roots = roots_file(places)
    if host.reads == "github":
        return [f"gh: start the agent with GH_HOST={_own_place(place, host)} and SSL_CERT_FILE={roots}"]
    overrides = [name for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE") if os.environ.get(name)]
    if host.reads == "pypi" and place.ca and overrides:
        return [f"twine: start the agent with {overrides[0]}={roots}, or without that variable"]
    return []


def _git_sections(place: GatewayPlace, hosts: Sequence[GatedHost], places: Places) -> Iterator[ClientSetting]:
    for host in hosts:
        name = host.host_name
        rewritten = (f"{host.url}/", f"git@{name}:", f"ssh://git@{name}/")
        yield GitSection(f"url.{host.at}/", tuple(("insteadOf", each) for each in rewritten))
    token = shlex.quote(str(token_file(places)))
    helper = f'!f() {{ test "$1" = get && echo username=agent && echo password=$(cat {token}); }}; f'
    trusted = (("sslCAInfo", place.ca),) if place.ca else ()
    yield GitSection(f"http.{place.url}", (("lowSpeedLimit", "0"), *trusted))
    # An empty helper before it takes the others away for this address.
    yield GitSection(f"credential.{place.url}", (("helper", ""), ("helper", helper)))


def _npm_block(place: GatewayPlace, host: GatedHost, token: str, places: Places) -> ClientSetting:
    address = host.at.partition(":")[2]
    trusted = [f"cafile={place.ca}"] if place.ca else []
    return Block(npm_file(places), (f"registry={host.at}/", f"{address}/:_authToken={token}", *trusted), token)


def _twine_block(place: GatewayPlace, host: GatedHost, token: str, places: Places) -> ClientSetting:
    trusted = [f"ca_cert = {place.ca}"] if place.ca else []
    content = ("[pypi]", f"repository = {host.at}/", "username = __token__", f"password = {token}", *trusted)
    return Block(places.home / ".pypirc", content, token, _pypi_section)


def _pypi_section(text: str) -> str:
    there = any(line.strip() == "[pypi]" for line in text.splitlines())
    return "~/.pypirc has a section [pypi] already, which is not from here" if there else ""


def _kubectl_context(place: GatewayPlace, host: GatedHost, _: str, places: Places) -> ClientSetting | str:
    if not place.url.startswith("https:"):
        return f"kubectl: not led to {host.name}: it sends a token over https alone (gateway.tls_names)"
    if shutil.which("kubectl") is None:
        return f"kubectl: not led to {host.name}: it is not installed here"
    name = f"counterfoil-{host.name}"
    return KubectlContext(name, host.at, place.ca, token_file(places), _folder(places) / f"{name}.earlier")


def _gh_block(place: GatewayPlace, host: GatedHost, token: str, places: Places) -> ClientSetting | str:
    if not place.url.startswith("https:") or host.port is None:
        return f"gh: not led to {host.name}: it needs a port of the host's own over TLS (hosts.{host.name}.listen)"
    own = _own_place(place, host)
    content = (f"{own}:", "    user: agent", f"    oauth_token: {token}", "    git_protocol: https")
    return Block(gh_folder(places) / "hosts.yml", content, token)


def _own_place(place: GatewayPlace, host: GatedHost) -> str:
    return f"{urlsplit(place.url).hostname}:{host.port}"


def npm_file(places: Places) -> Path:
    """npm's settings of this user."""
    return Path(os.environ.get("NPM_CONFIG_USERCONFIG") or places.home / ".npmrc")


def gh_folder(places: Places) -> Path:
    """The folder of gh's settings of this user."""
    config = Path(os.environ.get("XDG_CONFIG_HOME") or places.home / ".config")
    return Path(os.environ.get("GH_CONFIG_DIR") or config / "gh")


def lead_clients(place: GatewayPlace, token: str, places: Places) -> tuple[list[str], list[str]]:
    """Make the changes (rules 2 and 3); return them in lines, and what is left to a person."""
    known = read_place(places)
    if known is not None and known.url != place.url:
        raise NotDone(f"This user is led to {known.url} already; run `counterfoil-agents offboard gateway` first.")
    if known is not None:
        restore_clients(places)
        others = tuple(each for each in known.hosts if each.name not in {one.name for one in place.hosts})
        place = GatewayPlace(url=place.url, ca=place.ca, hosts=(*others, *place.hosts))
    changes, notes = plan_changes(place, token, places)
    if faults := [fault for each in changes if (fault := each.fault())]:
        raise NotDone(f"{'; '.join(faults)}. No client was led to the gateway.")
    folder = _folder(places)
    folder.mkdir(parents=True, mode=0o700, exist_ok=True)
    write_private(token_file(places), token)
    write_private(folder / "place.json", json.dumps(asdict(place)))
    _write_roots(place, places)
    try:
        for change in changes:
            change.apply()
    except (NotDone, OSError):
        restore_clients(places)
        raise
    return [line for each in changes for line in each.lines()], notes


def _write_roots(place: GatewayPlace, places: Places) -> None:
    """The system's roots with the gateway's authority, for programs that know one file of them."""
    if place.ca:
        system = ssl.get_default_verify_paths().cafile
        texts = [Path(each).read_text() for each in (system, place.ca) if each]
        roots_file(places).write_text("\n".join(texts))


def read_place(places: Places) -> GatewayPlace | None:
    """The place that this user's clients are led to; None if they are not."""
    try:
        told = json.loads((_folder(places) / "place.json").read_text())
    except FileNotFoundError:
        return None
    if "gateway" in told:
        # An earlier version led one host of git alone.
        parts = urlsplit(told["gateway"])
        host = GatedHost(name=parts.path.strip("/"), url=told["host"], reads="git", at=told["gateway"])
        return GatewayPlace(url=f"{parts.scheme}://{parts.netloc}", ca="", hosts=(host,))
    hosts = tuple(GatedHost(**each | {"repositories": tuple(each["repositories"])}) for each in told["hosts"])
    return GatewayPlace(url=told["url"], ca=told["ca"], hosts=hosts)


def restore_clients(places: Places) -> list[str]:
    """Remove the changes and the token; return what was done in lines."""
    place = read_place(places)
    if place is None:
        raise NotDone("No client was led to a gateway from here.")
    changes, _ = plan_changes(place, "…", places)
    for change in changes:
        change.undo()
    shutil.rmtree(_folder(places))
    return [f"{each.name}: {each.url} no longer leads to {place.url}." for each in place.hosts]


def ask_gateway(place: GatewayPlace, places: Places) -> str:
    """Ask the gateway with the stored token, and git hosts through git's own settings; return the fault, if any."""
    try:
        ask_hosts(place.url, token_file(places).read_text().strip(), place.ca)
    except (NotDone, OSError) as fault:
        return f"the gateway does not answer as one: {fault}"
    for host in place.hosts:
        if host.reads != "git":
            continue
        ran = run_git("ls-remote", f"{host.url}/counterfoil/validate.git")
        # The gateway's own refusal, or where it may pass the host's.
        if "not a repository of this gateway" not in ran.stderr and "not found" not in ran.stderr and ran.returncode:
            lines = ran.stderr.strip().splitlines()
            return f"git does not reach it: {lines[-1][:200] if lines else 'no reason given'}"
    return ""


def token_file(places: Places) -> Path:
    """The file with this agent's token of the gateway."""
    return _folder(places) / "token"


def roots_file(places: Places) -> Path:
    """The file with the system's roots and the gateway's authority."""
    return _folder(places) / "roots.pem"


def _folder(places: Places) -> Path:
    return places.state / "gateway"


def run_git(*words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run git as this user, without a question to a person. Raises `NotDone`."""
    unasked = {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "true",
        "SSH_ASKPASS": "true",
        "GCM_INTERACTIVE": "never",
    }
    return _run(["git", *words], given=given, variables=unasked)


def _kubectl(*words: str) -> subprocess.CompletedProcess[str]:
    return _run(["kubectl", "config", *words])


def _run(
    words: Sequence[str], *, given: str = "", variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            words,
            cwd=Path.home(),
            env=os.environ | dict(variables or {}),
            input=given,
            capture_output=True,
            text=True,
            timeout=_ASK_S,
        )
    except (OSError, subprocess.TimeoutExpired) as fault:
        raise NotDone(f"{words[0]} could not be asked: {type(fault).__name__}.") from fault


def read_text(file: Path) -> str:
    """The text of a file, with bytes that are no UTF-8 escaped; empty if there is none."""
    try:
        return file.read_bytes().decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return ""


def change_outside_block(text: str, *, change: Callable[[str], str], keep: bool = True) -> str:
    """ClientSetting a file's text before and after the part that leads to the gateway, which stays or goes."""
    before, begin, rest = text.partition(_BEGIN)
    inside, end, after = rest.partition(f"{_END}\n")
    if not end:
        return change(text)
    return change(before) + (f"{begin}{inside}{end}" if keep else "") + change(after)


def replace_text(file: Path, text: str) -> None:
    """Replace a file in one step; its user alone reads it afterwards. Bytes that are no UTF-8 stay as they were."""
    fresh = file.with_name(f".{file.name}.counterfoil")
    write_private(fresh, text)
    fresh.replace(file)


def write_private(path: Path, content: str) -> None:
    """Write a file that its user alone reads."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, 0o600)
        file.write(content.encode("utf-8", "surrogateescape"))
