"""A project with links that lead out of it, the remote repository that it pushes to, and a folder beside it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.support.outside.git_server import QUIET, commit, git

FORMS = Path(__file__).parent / "forms"


@dataclass(frozen=True)
class Scratch:
    """The places, and what they look like now."""

    project: Path
    remote: Path
    outside: Path

    def fill(self, form: str) -> str:
        """A line of a table of forms, as a command."""
        places = {"@project": self.project, "@remote": self.remote, "@outside": self.outside, "⏎": "\n"}
        for word, place in places.items():
            form = form.replace(word, str(place))
        return form

    def refs(self) -> str:
        """What the remote's refs name."""
        return git(self.remote, "for-each-ref")

    def files_outside(self) -> dict[str, tuple[int, bytes]]:
        """The files outside, each with its mode and content."""
        found = (each for each in sorted(self.outside.rglob("*")) if each.is_file() and not each.is_symlink())
        return {str(each): (each.stat().st_mode, each.read_bytes()) for each in found}


@cache
def _made() -> TemporaryDirectory[str]:
    """The places as they begin, to be copied: where `main` of the project is one commit off the remote's."""
    # Not where pytest's folders may be: in memory, under /dev, where no write is judged.
    kept = TemporaryDirectory(ignore_cleanup_errors=True)
    root = Path(kept.name)
    for name in ("home", "scratch", "out"):
        (root / name).mkdir()
    git(root, "init", "-q", "--bare", "-b", "main", "remote.git")
    git(root, "init", "-q", "-b", "main", "app")
    project = root / "app"
    git(project, "remote", "add", "origin", "../remote.git")
    for name in ("a", "note.txt", "x.diff", "sub/b"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text("text\n")
    for name in ("victim.txt", "victim2.txt"):
        (root / "out" / name).write_text("kept\n")
    (project / "h").symlink_to("../out/victim.txt")
    (project / "d").symlink_to("../out")
    commit(project, "first")
    git(project, "push", "-q", "origin", "main")
    git(project, "push", "-q", "origin", f"{commit(project, 'second')}:main")
    commit(project, "another second", "--amend")
    return kept


@contextmanager
def opened(patch: pytest.MonkeyPatch) -> Iterator[Scratch]:
    """A copy of these places, with a home folder and a folder for temporary files beside them."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        root = Path(folder).resolve() / "places"
        shutil.copytree(_made().name, root, symlinks=True)
        for name, value in {**QUIET, "HOME": str(root / "home"), "TMPDIR": str(root / "scratch")}.items():
            patch.setenv(name, value)
        yield Scratch(root / "app", root / "remote.git", root / "out")


def forms(name: str) -> list[tuple[str, str]]:
    """The lines of a table, each with its kind; the first of each kind is its example."""
    found, kind = [], ""
    for line in (FORMS / f"{name}.txt").read_text().splitlines():
        if line.startswith("## "):
            kind = line[3:]
        else:
            found.append((kind, line))
    return found
