"""Filesystems: looks up a path under its root, without leaving it (R-CP-02).

    effects.<name>   path (expression), and optionally expect "present" or "absent",
                     sha256, size, mode (expressions: what the file should be),
                     machine (expression: the machine on whose disk it is)

The root is the system's; a contract may narrow it (`root`) and list `allow_extensions`. A system may
name a `marker` file that proves that the root is mounted, and `protected` folders whose contents no
action may remove.

1. The path is walked name by name from the open root, each folder opened by the folder before, so that
   nothing that changes meanwhile can lead elsewhere. Links are followed by hand and only inside the root;
   one that leaves it, like `..` above it, is `path_escapes_sandbox`.
2. What is reported about a file is asked of the opened file, not of its name; if it changed while it was
   read, there is no answer yet.
3. A root that is not there, or whose marker is missing, is an outage: nothing below it is "absent".
4. A file of another machine is not looked for on this one: no answer. A machine is told by the digest of its
   `/etc/machine-id`, or by the system's setting `machine`.
5. Only a local file system answers for what others wrote; a network one is UNDECLARED unless the system's
   settings say what it is.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from reviews.checks import lookups
from reviews.checks.interface import CheckFailed, Consistency, ReadEffect, Reading, SystemAccess
from reviews.checks.limits import bounded_read
from reviews.readback.rules import shapes

MAX_BYTES = 256 * 1024 * 1024
MAX_LINKS = 40

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_REMOTE = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ceph", "glusterfs", "lustre", "afs"})
_FIELDS = ("size", "sha256", "mode", "mtime", "kind", "path")


class PathEscape(Exception):
    """The path leads out of the root."""


@dataclass(frozen=True)
class PathState:
    """The object at a path: a file with its properties, something else, or nothing."""

    path: str
    exists: bool
    fields: Mapping[str, Any]


class FilesystemCheck(lookups.LookupCheck):
    """The check of pattern `filesystems`."""

    pattern = "filesystems"
    settings = {
        "root": shapes.member(shapes.TEXT, "Folder", "Nothing outside it is read. Or named by the credential."),
        "marker": shapes.member(shapes.TEXT, "File that shows that the folder is mounted"),
        "protected": shapes.member(shapes.NAMES, "Folders whose contents no action may remove", "One on each line."),
        "machine": shapes.member(
            shapes.TEXT, "Name of the machine", "Left out, the digest of its /etc/machine-id.", is_rare=True
        ),
        "consistency": shapes.CONSISTENCY,
    }
    part = shapes.object_schema(
        {"path": shapes.EXPRESSION},
        {**dict.fromkeys(("sha256", "size", "mode", "machine"), shapes.EXPRESSION), "expect": shapes.EXPECT},
    )
    fields = {**{name: {"type": "string"} for name in _FIELDS}, "size": {"type": "integer"}}
    needs = {
        "size_match": ("size",),
        "hash_match": ("sha256",),
        "permissions_correct": ("mode",),
    }

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
        """Read each effect's path; sizes and links are bounded, a local disk needs no timeout."""
        top, below = _root(system, verification)
        root = top.joinpath(*below)
        extensions = tuple(verification.get("allow_extensions", ()))
        effects, indicators, raw = [], set[str](), {}
        with ExitStack() as opened:
            base = _open_root(top, below, system, opened)
            for name, part in lookups.lookup_effects(verification).items():
                effect, fired = _effect(name, part, bindings, base, root, system, extensions)
                effects.append(effect)
                indicators |= fired
                raw[name] = dict(effect.fields)
            consistency = _consistency(base, system)
        return Reading(
            source=system.name,
            consistency=consistency,
            freshness=_freshness(effects),
            observed_at=at,
            pointer="; ".join(
                f"{part['path']} under the root of {system.name}"
                for part in lookups.lookup_effects(verification).values()
            ),
            effects=tuple(effects),
            indicators=tuple(sorted(indicators)),
            raw=raw,
        )


def _freshness(effects: list[ReadEffect]) -> str:
    return f"mtime {max((str(one.fields.get('mtime', 'none')) for one in effects), default='none')}"


def _root(system: SystemAccess, verification: Mapping[str, Any]) -> tuple[Path, tuple[str, ...]]:
    """The system's root, and the folders below it to which the contract narrows itself; never more."""
    given = system.credential.get("root") or system.settings.get("root")
    if not isinstance(given, str) or not os.path.isabs(given):
        raise CheckFailed("The system has no absolute root.", retryable=False)
    root, narrowed = Path(given), Path(given) / str(verification.get("root", ""))
    if ".." in narrowed.parts or not narrowed.is_relative_to(root):
        raise CheckFailed("The contract's root lies outside the system's.", retryable=False)
    return root, narrowed.relative_to(root).parts


def _open_root(root: Path, below: tuple[str, ...], system: SystemAccess, opened: ExitStack) -> int:
    try:
        # The root's own address is the administrator's: links on the way to it are theirs to make.
        base = os.open(root.resolve(strict=True), _FOLDER)
        opened.callback(os.close, base)
        marker = system.settings.get("marker")
        if marker is not None:
            os.stat(marker, dir_fd=base, follow_symlinks=False)
        for name in below:
            base = os.open(name, _FOLDER, dir_fd=base)
            opened.callback(os.close, base)
    except OSError as problem:
        raise CheckFailed(f"The root is not there: {problem.strerror}.", retryable=True) from None
    return base


def _effect(
    name: str,
    part: Mapping[str, Any],
    bindings: Mapping[str, Mapping[str, Any]],
    base: int,
    root: Path,
    system: SystemAccess,
    extensions: tuple[str, ...],
) -> tuple[ReadEffect, set[str]]:
    """One effect as found, and the indicators that fired over it."""
    if "machine" in part and str(lookups.fill_template(part["machine"], bindings)) != _machine(system):
        raise CheckFailed("The file is on another machine than the one that is read here.", retryable=False)
    asked = str(lookups.fill_template(part["path"], bindings))
    try:
        seen = _look(base, root, asked)
    except PathEscape:
        return ReadEffect(name=name, present=None), {"path_escapes_sandbox"}
    except OSError as problem:
        raise _check_failed(problem) from None
    fired = set(_indicators(part, seen, bindings, system, extensions))
    if part.get("expect") == "absent":
        gone = not seen.exists
        return ReadEffect(name=name, present=gone, count=int(gone), fields=seen.fields), fired
    return ReadEffect(name=name, present=seen.exists, count=int(seen.exists), fields=seen.fields), fired


def _machine(system: SystemAccess) -> str:
    """Return this machine's id, as the writer of a file gives it (rule 4)."""
    if "machine" in system.settings:
        return str(system.settings["machine"])
    try:
        own = Path("/etc/machine-id").read_bytes().strip()
    except OSError:
        raise CheckFailed("This machine has no /etc/machine-id to be told by.", retryable=False) from None
    return hashlib.sha256(b"counterfoil " + own).hexdigest()[:32]


def _indicators(
    part: Mapping[str, Any],
    seen: PathState,
    bindings: Mapping[str, Mapping[str, Any]],
    system: SystemAccess,
    extensions: tuple[str, ...],
) -> Iterator[str]:
    if extensions and PurePosixPath(seen.path).suffix not in extensions:
        yield "unauthorized_extension"
    if part.get("expect") == "absent":
        protected = map(PurePosixPath, system.settings.get("protected", ()))
        if not seen.exists and any(PurePosixPath(seen.path).is_relative_to(one) for one in protected):
            yield "destructive_operation_outside_policy"
        return
    if not seen.exists:
        yield "file_missing"
        return
    for field, indicator in (
        ("sha256", "hash_mismatch"),
        ("size", "hash_mismatch"),
        ("mode", "unexpected_permission_mode"),
    ):
        if field in part and str(lookups.fill_template(part[field], bindings)) != str(seen.fields.get(field)):
            yield indicator


def _check_failed(problem: OSError) -> CheckFailed:
    lasting = problem.errno in {errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.EINVAL}
    return CheckFailed(f"The path cannot be read: {problem.strerror}.", retryable=not lasting)


# Walking under the root


class _Walk:
    """A descent from an open root: the folders opened so far and their names (rule 1)."""

    def __init__(self, base: int, root: Path, opened: ExitStack) -> None:
        self.root = root
        self.opened = opened
        self.folders = [base]
        self.names: list[str] = []
        self.links = 0

    @property
    def here(self) -> int:
        return self.folders[-1]

    def ahead(self, path: str) -> list[str]:
        """Return the names of a path from here; an absolute path must start with the root, and returns to it."""
        if path.startswith("/"):
            if not PurePosixPath(path).is_relative_to(self.root):
                raise PathEscape
            path = str(PurePosixPath(path).relative_to(self.root))
            del self.folders[1:], self.names[:]
        return [name for name in path.split("/") if name not in {"", "."}]

    def up(self) -> None:
        if not self.names:
            raise PathEscape
        del self.folders[-1], self.names[-1]

    def down(self, name: str) -> None:
        folder = os.open(name, _FOLDER, dir_fd=self.here)
        self.opened.callback(os.close, folder)
        self.folders.append(folder)
        self.names.append(name)

    def behind(self, name: str) -> list[str]:
        """Return the names in a link's target."""
        self.links += 1
        if self.links > MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        return self.ahead(os.readlink(name, dir_fd=self.here))


def _look(base: int, root: Path, asked: str) -> PathState:
    """Look up a path under the open root."""
    if "\0" in asked:
        raise PathEscape
    with ExitStack() as opened:
        walk = _Walk(base, root, opened)
        names = walk.ahead(asked)
        while names:
            name = names.pop(0)
            if name == "..":
                walk.up()
                continue
            try:
                found = os.stat(name, dir_fd=walk.here, follow_symlinks=False)
            except FileNotFoundError:
                return _nothing([*walk.names, name, *names])
            if stat.S_ISLNK(found.st_mode):
                names = walk.behind(name) + names
            elif stat.S_ISDIR(found.st_mode):
                walk.down(name)
            else:
                path = [*walk.names, name]
                return _nothing([*path, *names]) if names else _thing("/".join(path), name, walk.here, found)
        return _folder(walk.names)


def _nothing(names: list[str]) -> PathState:
    """Return the state of a missing path; a path that would have left the root is still an escape."""
    depth = 0
    for name in names:
        depth += -1 if name == ".." else 1
        if depth < 0:
            raise PathEscape
    path = "/".join(names)
    return PathState(path, False, {"path": path})


def _folder(walked: list[str]) -> PathState:
    path = "/".join(walked)
    return PathState(path, True, {"path": path, "kind": "directory"})


def _thing(path: str, name: str, folder: int, found: os.stat_result) -> PathState:
    if not stat.S_ISREG(found.st_mode):
        return PathState(path, True, {"path": path, "kind": "special"})
    file = os.open(name, _FILE, dir_fd=folder)
    try:
        return _file(path, file, found)
    finally:
        os.close(file)


def _file(path: str, file: int, named: os.stat_result) -> PathState:
    """A file's properties, of the opened file and unchanged while it was read (rule 2)."""
    before = os.fstat(file)
    if (before.st_dev, before.st_ino) != (named.st_dev, named.st_ino):
        raise CheckFailed("The file was replaced while it was read.", retryable=True)
    if before.st_size > MAX_BYTES:
        raise CheckFailed(f"The file is larger than {MAX_BYTES} bytes.", retryable=False)
    digest = hashlib.sha256()
    while block := os.read(file, 1024 * 1024):
        digest.update(block)
    after = os.fstat(file)
    if _trace(before) != _trace(after):
        raise CheckFailed("The file changed while it was read.", retryable=True)
    fields = {
        "path": path,
        "kind": "file",
        "size": after.st_size,
        "sha256": digest.hexdigest(),
        "mode": f"{stat.S_IMODE(after.st_mode):04o}",
        "mtime": _format_time(after.st_mtime_ns),
    }
    return PathState(path, True, fields)


def _format_time(nanoseconds: int) -> str:
    whole, rest = divmod(nanoseconds, 10**9)
    return f"{datetime.fromtimestamp(whole, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09}Z"


def _trace(state: os.stat_result) -> tuple[int, int, int]:
    return state.st_size, state.st_mtime_ns, state.st_ctime_ns


def _consistency(base: int, system: SystemAccess) -> Consistency:
    declared = system.settings.get("consistency")
    if declared is not None:
        return Consistency(declared)
    kind = _kind_of_filesystem(base)
    remote = kind in _REMOTE or kind.startswith("fuse")
    return Consistency.UNDECLARED if remote else Consistency.PRIMARY


def _kind_of_filesystem(base: int) -> str:
    """Return the type of the file system of the root; empty if the platform does not report it."""
    device = os.fstat(base).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    with suppress(OSError):
        for line in Path("/proc/self/mountinfo").read_text().splitlines():
            parts = line.split(" - ")
            if parts[0].split()[2] == wanted:
                return parts[1].split()[0]
    return ""
