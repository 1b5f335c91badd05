"""The commits that a forced push would remove, read from the host itself with the gateway's own credential.

The host's commits are fetched without their files where it allows that, by git in a scratch repository, to a depth. The
credential goes to git in its environment, never on a command line.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from counterfoil.gateway import git_pack
from counterfoil.gateway.credentials import CredentialUnusable, authorization
from counterfoil.gateway.git_lines import Update
from counterfoil.gateway.git_pack import PackedCommit
from counterfoil.gateway.settings import HostSettings

_DEPTH: Final = 200
_SHOWN: Final = 20
_FETCH_S: Final = 60


class HostHistory:
    """The history of a host's repositories, as far as it is needed; fetched below `scratch`."""

    def __init__(self, host: HostSettings, scratch: Path | None) -> None:
        self._host = host
        self._scratch = scratch

    def describe_losses(self, repository: str, update: Update, commits: Mapping[str, PackedCommit]) -> str:
        """The commits that `update.ref` would no longer contain, in lines; the reason if they cannot be determined."""
        try:
            with tempfile.TemporaryDirectory(prefix="history-", dir=self._scratch) as folder:
                return self._read_losses(Path(folder), repository, update, commits)
        except (OSError, subprocess.SubprocessError, CredentialUnusable) as fault:
            return f"not known: {type(fault).__name__} while the host's history was read"

    def _read_losses(self, folder: Path, repository: str, update: Update, commits: Mapping[str, PackedCommit]) -> str:
        self._git(
            folder, "init", "--quiet", "--bare", f"--object-format={'sha256' if len(update.old) == 64 else 'sha1'}"
        )
        where = f"{self._host.url}/{repository}"
        refspec = f"+{update.ref}:refs/old"
        fetched = self._git(
            folder, "fetch", "--quiet", "--no-tags", "--filter=tree:0", f"--depth={_DEPTH}", where, refspec
        )
        if fetched.returncode:
            return "not known: the host's history could not be fetched"
        if self._git(folder, "rev-parse", "refs/old^0").stdout.strip() != update.old:
            named = self._git(folder, "rev-parse", "refs/old").stdout.strip()
            return "not known: the ref has moved since" if named != update.old else "a tag object that is replaced"
        keeps = [] if update.deletes else sorted(git_pack.boundary(commits, update.new))
        known = [each for each in keeps if not self._git(folder, "cat-file", "-e", f"{each}^{{commit}}").returncode]
        listed = self._git(folder, "log", "--format=%h %s", update.old, *(f"^{each}" for each in known))
        if listed.returncode:
            return "not known: the host's history could not be read"
        lines = [line[:200] for line in listed.stdout.splitlines()]
        shallow = (folder / "shallow").exists() and not known
        counted = f"{'at least ' if shallow else ''}{len(lines)} commit{'' if len(lines) == 1 else 's'}"
        where_else = " of this ref, which may be on others" if update.deletes else ""
        more = [f"and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
        return "\n".join([f"{counted}{where_else}", *lines[:_SHOWN], *more])

    def _git(self, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
        told = {
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ALLOW_PROTOCOL": "http:https",
            "GIT_NO_LAZY_FETCH": "1",
            "HOME": str(folder),
            "PATH": os.environ.get("PATH", os.defpath),
            **self._settings(words),
        }
        return subprocess.run(
            ["git", *words], cwd=folder, env=told, capture_output=True, text=True, errors="replace", timeout=_FETCH_S
        )

    def _settings(self, words: tuple[str, ...]) -> dict[str, str]:
        if words[0] != "fetch":
            return {}
        settings = {"http.followRedirects": "false", "gc.auto": "0"}
        if header := authorization(self._host):
            settings["http.extraHeader"] = f"Authorization: {header}"
        if self._host.ca_file:
            settings["http.sslCAInfo"] = self._host.ca_file
        found = {"GIT_CONFIG_COUNT": str(len(settings))}
        for number, (name, value) in enumerate(settings.items()):
            found |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
        return found
