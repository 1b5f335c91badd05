"""The reader of git's smart HTTP protocol: fetches pass, a push is held.

1. A push is answered with 200 and a report whatever comes of it: after another status git prints "Everything
   up-to-date". What can be refused early is refused at `info/refs`, where git prints the text.
2. One ref a push, so that each is approved and read back by itself.
3. A push forward is one whose own commits lead back to the old one. The host compares the old one again, so that the
   proof still holds when it is used. Whatever is not proven is a forced push.
4. The same push later is known by repository, ref, old, new and options, not by its pack: git may pack the same
   commits differently. The first pack is the one that is sent.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from counterfoil.canonical import digest
from counterfoil.gateway.git_history import HostHistory
from counterfoil.gateway.git_lines import (
    NoPush,
    Push,
    Update,
    progress_line,
    read_push,
    read_report,
    refusal_report,
    unread_report,
)
from counterfoil.gateway.git_pack import PackedCommit, UnreadablePack, is_forward, read_commits
from counterfoil.gateway.held import HeldRequest
from counterfoil.gateway.reader import Head, Intent, Keeps, KeptBody, Passes, StoredContent, WaitEnd, WordedAnswer
from counterfoil.gateway.settings import HostSettings
from counterfoil.work import Failure, Result, failed, succeeded

_PATH: Final = re.compile(
    r"(?P<repository>[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)*)/"
    r"(?P<verb>info/refs|git-upload-pack|git-receive-pack|info/lfs/[A-Za-z0-9/._-]+)"
)
_REF: Final = re.compile(r"refs/(?:heads|tags)/[A-Za-z0-9._/-]{1,200}")
_FETCH_BYTES: Final = 64 << 20
_ASKED: Final = "application/x-git-receive-pack-request"
_REPORT: Final = "application/x-git-receive-pack-result"
_MOST_SUBJECTS: Final = 20
_MOST_OPTIONS: Final = 20
_UNCACHED: Final = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
_WORDS: Final = {
    WaitEnd.WAITS: "waits for approval, push again later: {}",
    WaitEnd.REFUSED: "{}",
    WaitEnd.UNKNOWN: "outcome unknown, the server is read back: {}",
}


class GitReader:
    """Reads pushes to the repositories of one host."""

    streams = True
    answers_upgrades = False

    def __init__(self, host: HostSettings) -> None:
        self._host = host
        self._history = HostHistory(host)
        folder = Path(str(files("counterfoil.gateway"))) / "contracts"
        found = [json.loads(file.read_text()) for file in sorted(folder.glob("git.*.json"))]
        self.tools: Mapping[str, Mapping[str, Any]] = {each["name"]: each for each in found}

    def admit(self, head: Head) -> Passes | Keeps | WordedAnswer:
        match = _PATH.fullmatch(head.path)
        if match is None:
            return _plain(403, "only git's smart protocol passes here")
        if not self._may_reach(match["repository"]):
            return _plain(404, "not a repository of this gateway")
        asked = (head.method, match["verb"], head.query)
        if asked in (
            ("GET", "info/refs", "service=git-upload-pack"),
            ("GET", "info/refs", "service=git-receive-pack"),
            ("POST", "git-upload-pack", ""),
        ):
            return Passes()
        if asked == ("POST", "git-receive-pack", ""):
            if head.header("content-type") != _ASKED:
                return _plain(415, "this is not a push")
            if head.header("content-encoding").lower() not in ("", "identity", "gzip", "x-gzip"):
                return _plain(415, "this coding of a body is not read here")
            return Keeps(self._host.most_bytes)
        if match["verb"].startswith("info/lfs/"):
            # The statuses after which git-lfs prints the message: no locks here, and an upload that is not taken.
            text = "Counterfoil: LFS objects do not pass this gateway; nothing was sent."
            body = json.dumps({"message": text}).encode()
            return WordedAnswer(501 if "locks" in match["verb"] else 422, body, "application/vnd.git-lfs+json")
        return _plain(403, "only git's smart protocol passes here (no WebDAV, no dumb HTTP)")

    def _may_reach(self, repository: str) -> bool:
        return any(
            repository == each or (each.endswith("/*") and repository.startswith(each[:-1])) or each == "*"
            for each in self._host.repositories
        )

    def read(self, head: Head, body: KeptBody) -> Intent | WordedAnswer:
        repository = head.path.removesuffix("/git-receive-pack")
        try:
            with open_body(body.file, head.header("content-encoding")) as file:
                push = read_push(file)
        except (NoPush, OSError, EOFError) as fault:
            return _report(unread_report(f"Counterfoil: the push cannot be read: {fault}"))
        if push is None:
            return _report(b"")
        shape = {"refs": [each.ref for each in push.updates], "sideband": push.sideband}
        if why := _refusal(push):
            return self.ended(shape, WaitEnd.REFUSED, why)
        (update,) = push.updates
        commits = self._commits(head, body, push)
        tool = _tool(update, push, commits)
        arguments = {
            "remote": f"{self._host.url}/{repository}",
            "repository": repository,
            "ref": update.ref,
            "old": update.old,
            **({} if update.deletes else {"commit": update.new}),
            "options": list(push.options),
            "brings": _describe_commits(commits, push),
            "loses": "nothing" if tool in _FORWARD else self._history.describe_losses(repository, update, commits),
            "request": {"method": "POST", "path": head.path, "sha256": body.sha256, "size": body.size},
        }
        key = {"host": self._host.url, "repository": repository, "update": [update.ref, update.old, update.new]}
        signed = {"signed_by": push.signed_by, "certificate": body.sha256} if push.signed_by else {}
        told = {"options": list(push.options), "atomic": "atomic" in push.capabilities}
        return Intent(tool, arguments, digest({**key, **told, **signed}), shape)

    def _commits(self, head: Head, body: KeptBody, push: Push) -> Mapping[str, PackedCommit]:
        if push.pack_at is None:
            return {}
        with suppress(UnreadablePack, OSError, EOFError), open_body(body.file, head.header("content-encoding")) as file:
            _skip(file, push.pack_at)
            return read_commits(file, long_hash=len(push.updates[0].new) == 64)
        return {}

    def stale(self, held: HeldRequest) -> str:
        # The host compares the old commit itself.
        return ""

    def progress(self, text: str) -> bytes:
        return progress_line(text and f"Counterfoil: {text}")

    def opening(self) -> WordedAnswer:
        return _report(b"")

    def ended(self, shape: Mapping[str, Any], ending: WaitEnd, text: str) -> WordedAnswer:
        refs, sideband = cast("list[str]", shape["refs"]), bool(shape["sideband"])
        return _report(refusal_report(refs, _WORDS[ending].format(text), sideband=sideband))

    def not_kept(self, head: Head, text: str) -> WordedAnswer:
        return _report(unread_report(f"Counterfoil: {text}"))

    def judge(self, held: HeldRequest, status: int, content_type: str, body: bytes) -> Result:
        (ref,) = held.shape["refs"]
        if status in (401, 403, 404, 413, 422):
            return failed(f"HTTP_{status}", f"The host answered the push with {status}.")
        try:
            if status != 200 or content_type != _REPORT:
                raise NoPush(f"it has status {status} and type {content_type[:80]}")
            report = read_report(body, sideband=bool(held.shape["sideband"]))
        except NoPush as fault:
            text = f"The host's answer is no report on the push: {fault}."
            return Result("timeout", error=Failure("NO_REPORT", text, "unknown"))
        if ref not in report:
            text = f"The host's report does not name {ref}."
            return Result("timeout", error=Failure("NO_REPORT", text, "unknown"))
        raw = {"report": {name: reason or "ok" for name, reason in report.items()}}
        if reason := report[ref]:
            return Result("failed", error=Failure("REF_REFUSED", f"The host refused {ref}: {reason}"[:500]), raw=raw)
        return succeeded(f"ok {ref}", raw=raw)

    def relay(self, held: HeldRequest, status: int, content_type: str, body: bytes) -> WordedAnswer:
        if status == 200 and content_type == _REPORT:
            return _report(body)
        return self.ended(held.shape, WaitEnd.REFUSED, f"the host answered {status}")


_FORWARD: Final = frozenset({"git.push", "git.push_with_options"})


def _tool(update: Update, push: Push, commits: Mapping[str, PackedCommit]) -> str:
    if update.deletes:
        return "git.delete_ref"
    forward = update.creates or (update.ref.startswith("refs/heads/") and is_forward(commits, update.old, update.new))
    if not forward:
        return "git.force_push"
    return "git.push_with_options" if push.options else "git.push"


def _refusal(push: Push) -> str:
    if len(push.updates) > 1:
        return "push one ref at a time, so that each is approved and read back by itself"
    (update,) = push.updates
    if not _REF.fullmatch(update.ref):
        return "only branches and tags with plain names pass this gateway"
    if update.deletes and update.creates:
        return "it moves nothing"
    if len(push.options) > _MOST_OPTIONS or any(len(each) > 500 for each in push.options):
        return "it has too many push options, or too long ones"
    return ""


def _describe_commits(commits: Mapping[str, PackedCommit], push: Push) -> str:
    if push.pack_at is None:
        return "no objects"
    named = [f"{name[:12]} {each.subject}" for name, each in commits.items()][:_MOST_SUBJECTS]
    more = [f"and {len(commits) - len(named)} more"] if len(commits) > len(named) else []
    head = f"{push.objects} objects, {len(commits)} commit{'' if len(commits) == 1 else 's'} read from the pack"
    return "\n".join([head, *named, *more])


def open_body(content: StoredContent, coding: str) -> BinaryIO:
    """Return a stored body, decompressed if it came compressed."""
    file = content.open("rb")
    return cast(BinaryIO, gzip.GzipFile(fileobj=file)) if coding.lower() in ("gzip", "x-gzip") else file


def _skip(file: BinaryIO, count: int) -> None:
    while count > 0 and (piece := file.read(min(count, 1 << 16))):
        count -= len(piece)


def _report(body: bytes) -> WordedAnswer:
    return WordedAnswer(200, body, _REPORT, _UNCACHED)


def _plain(status: int, text: str) -> WordedAnswer:
    return WordedAnswer(status, f"Counterfoil: {text}\n".encode(), "text/plain; charset=utf-8")


def bundle_head(file: BinaryIO) -> tuple[bytes, int]:
    """The lines that make a git bundle of a stored push, and where its pack begins in the body.

    Raises `NoPush` for a push that has no pack.
    """
    push = read_push(file)
    if push is None or push.pack_at is None:
        raise NoPush("it brings no objects")
    (update,) = push.updates
    long = len(update.new) == 64
    version = b"# v3 git bundle\n@object-format=sha256\n" if long else b"# v2 git bundle\n"
    needs = b"" if update.creates else f"-{update.old}\n".encode()
    return version + needs + f"{update.new} {update.ref}\n\n".encode(), push.pack_at
