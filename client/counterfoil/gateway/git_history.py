"""The commits that a forced push would remove, read from the host itself with the gateway's own credential.

The host's commits are asked for over git's protocol 2 (gitprotocol-v2), without their files where the host allows that,
and to a depth. They are read as they come and never lie on a disk.
"""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

import httpx

from counterfoil.gateway import git_pack
from counterfoil.gateway.credentials import CredentialUnusable, authorization
from counterfoil.gateway.git_lines import Update, pkt_line
from counterfoil.gateway.git_pack import PackedCommit, UnreadablePack, read_commits
from counterfoil.gateway.settings import HostSettings

_DEPTH: Final = 200
_SHOWN: Final = 20
_ASK_S: Final = 60.0
_REQUEST: Final = "application/x-git-upload-pack-request"
_LENGTH: Final = re.compile(rb"[0-9a-f]{4}")
_REF: Final = re.compile(rb"([0-9a-f]{40,64}) (\S+)(?: peeled:([0-9a-f]{40,64}))?")


class HistoryUnread(Exception):
    """The host gave no history; the message says why."""


class HostHistory:
    """The history of a host's repositories, as far as it is needed. Blocks."""

    def __init__(self, host: HostSettings) -> None:
        self._host = host

    def describe_losses(self, repository: str, update: Update, commits: Mapping[str, PackedCommit]) -> str:
        """The commits that `update.ref` would no longer contain, in lines; the reason if they cannot be determined."""
        try:
            return self._read_losses(repository, update, commits)
        except HistoryUnread as fault:
            return f"not known: {fault}"
        except (httpx.HTTPError, OSError, CredentialUnusable, UnreadablePack) as fault:
            return f"not known: {type(fault).__name__} while the host's history was read"

    def _read_losses(self, repository: str, update: Update, commits: Mapping[str, PackedCommit]) -> str:
        verify = ssl.create_default_context(cafile=self._host.ca_file) if self._host.ca_file else True
        headers = {"Git-Protocol": "version=2"}
        if header := authorization(self._host):
            headers["Authorization"] = header
        with httpx.Client(verify=verify, timeout=_ASK_S, trust_env=False, headers=headers) as http:
            remote = _Remote(http, f"{self._host.url}/{repository}", long_hash=len(update.old) == 64)
            named, commit = remote.find_ref(update.ref)
            if commit != update.old:
                if named == update.old:
                    return "a tag object that is replaced"
                raise HistoryUnread("the ref has moved since")
            there = remote.read_history(update.old)
        keeps = set() if update.deletes else git_pack.boundary(commits, update.new) & there.keys()
        kept = _reach(there, sorted(keeps))
        lost = {name: None for name in _reach(there, [update.old]) if name not in kept}
        lines = [f"{name[:7]} {there[name].subject}"[:200] for name in lost]
        cut = any(parent not in there for name in lost for parent in there[name].parents)
        counted = f"{'at least ' if cut else ''}{len(lines)} commit{'' if len(lines) == 1 else 's'}"
        where_else = " of this ref, which may be on others" if update.deletes else ""
        more = [f"and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
        return "\n".join([f"{counted}{where_else}", *lines[:_SHOWN], *more])


def _reach(there: Mapping[str, PackedCommit], begin: Sequence[str]) -> dict[str, None]:
    """The commits that can be reached from some, the nearest first."""
    found = dict.fromkeys(begin)
    for name in (todo := list(begin)):
        parents = [each for each in there[name].parents if each in there and each not in found]
        found |= dict.fromkeys(parents)
        todo += parents
    return found


class _Remote:
    """One repository of the host."""

    def __init__(self, http: httpx.Client, url: str, *, long_hash: bool) -> None:
        self._http = http
        self._url = url
        self._long_hash = long_hash
        self._until = time.monotonic() + _ASK_S
        offers = self._read_offers()
        self._features = offers.get("fetch", "").split()
        # Older hosts know no other format, and refuse a word that they did not offer.
        word = f"object-format={'sha256' if long_hash else 'sha1'}"
        self._format = [word] if "object-format" in offers or long_hash else []

    def _read_offers(self) -> Mapping[str, str]:
        """The words of protocol 2 that the host knows, each with its features."""
        with self._answer("GET", f"{self._url}/info/refs?service=git-upload-pack") as answer:
            lines = [line.decode("utf-8", "replace").rstrip("\n") for line in answer.lines()]
        if "version 2" not in lines:
            raise HistoryUnread("the host does not answer in git's protocol 2")
        told = (line.partition("=") for line in lines)
        return {name: value for name, _, value in told}

    def find_ref(self, ref: str) -> tuple[str, str]:
        """The object that a ref names, and the commit behind it; empty if the host names no such ref."""
        with self._ask("ls-refs", ["peel", f"ref-prefix {ref}"]) as answer:
            for line in answer.lines():
                match = _REF.fullmatch(line.rstrip(b"\n"))
                if match and match[2] == ref.encode():
                    named = match[1].decode()
                    return named, match[3].decode() if match[3] else named
        return "", ""

    def read_history(self, commit: str) -> Mapping[str, PackedCommit]:
        """The commits that lead to one, `_DEPTH` deep. Raises `UnreadablePack`."""
        without_files = ["filter tree:0"] if "filter" in self._features else []
        wanted = ["no-progress", "ofs-delta", f"want {commit}", f"deepen {_DEPTH}", *without_files, "done"]
        with self._ask("fetch", wanted) as answer:
            if b"packfile\n" in answer.lines():
                found = read_commits(_Packed(answer), long_hash=self._long_hash)
                if commit in found:
                    return found
        raise HistoryUnread("the host did not send it")

    def _ask(self, command: str, arguments: Sequence[str]) -> AbstractContextManager[_Answer]:
        head = [f"command={command}", *self._format]
        body = b"".join(pkt_line(f"{line}\n".encode()) for line in head) + b"0001"
        body += b"".join(pkt_line(f"{line}\n".encode()) for line in arguments) + b"0000"
        return self._answer("POST", f"{self._url}/git-upload-pack", content=body, headers={"Content-Type": _REQUEST})

    @contextmanager
    def _answer(self, method: str, url: str, **request: Any) -> Iterator[_Answer]:
        with self._http.stream(method, url, **request) as answer:
            if answer.status_code != 200:
                raise HistoryUnread(f"the host answered with {answer.status_code}")
            yield _Answer(answer.iter_bytes(), self._until)


class _Answer:
    """An answer of the host, as it comes: pkt-lines, and what follows them."""

    def __init__(self, pieces: Iterator[bytes], until: float) -> None:
        self._pieces = pieces
        self._until = until
        self._rest = b""

    def lines(self) -> Iterator[bytes]:
        """The pkt-lines to the end, without those that only separate."""
        while head := self._take(4):
            length = int(head, 16) if _LENGTH.fullmatch(head) else 3
            if length == 3:
                raise HistoryUnread("its answer is not in git's protocol")
            if length > 4:
                yield self._take(length - 4)

    def _take(self, count: int) -> bytes:
        """So many bytes; none at the end."""
        while len(self._rest) < count:
            if time.monotonic() > self._until:
                raise HistoryUnread(f"it took longer than {_ASK_S:.0f} seconds")
            piece = next(self._pieces, None)
            if piece is None:
                if self._rest:
                    raise HistoryUnread("its answer ends early")
                return b""
            self._rest += piece
        found, self._rest = self._rest[:count], self._rest[count:]
        return found


class _Packed:
    """The pack in an answer's first band."""

    def __init__(self, answer: _Answer) -> None:
        self._lines = answer.lines()

    def read(self, _: int, /) -> bytes:
        """The next piece, however many bytes it has; none at the end."""
        for line in self._lines:
            if line[:1] == b"\x01" and len(line) > 1:
                return line[1:]
            if line[:1] == b"\x03":
                raise HistoryUnread("the host broke off")
        return b""
