"""Forms of the shell at random, around a forced push and a write outside: bash carries out what is let through."""

from __future__ import annotations

import contextlib
import os
import random
import shlex
import subprocess
from time import time_ns

import pytest

from counterfoil.coding_agents.commands import read_command
from counterfoil.coding_agents.shell import Refusal
from tests.client.coding_agents.scratch import FORMS, opened
from tests.support.outside.git_server import git

PUSH, WRITE = "{git} {push} --force origin HEAD:main", "echo x > @outside/victim.txt"
CONFIG = '[core]\n\trepositoryformatversion = 0\n\tbare = false\n[remote "origin"]\n\turl = ../remote.git\n'
NOISE = (*"'\"\\`$#;&|(){}<>!\n ~*?[]=", "$(", "<<E\n", "\nE\n", "#'", "${x:-", "\\\n", "$'", "esac", "]]", "\r")
ROUNDS = int(os.environ.get("COUNTERFOIL_FUZZ", "3000"))


def lines(name):
    return [line.replace("⏎", "\n") for line in (FORMS / f"{name}.txt").read_text().splitlines()]


SPELLINGS, AROUND = lines("fuzz_spellings"), lines("fuzz_around")
"""Ways to write a word {0} that begins with {1} and ends with {2}; text around a command {0}, quoted {1}."""


def written(chance):
    """A command at random."""
    text = chance.choice((PUSH, PUSH, WRITE))
    for word, begins, ends in (("git", "g", "it"), ("push", "pu", "sh")):
        spelling = chance.choice(SPELLINGS) if chance.random() < 0.5 else "{0}"
        text = text.replace(f"{{{word}}}", spelling.format(word, begins, ends))
    for _ in range(chance.choice((1, 1, 2, 3))):
        text = chance.choice(AROUND).format(text, shlex.quote(text))
    for _ in range(chance.choice((0, 0, 0, 1, 2, 3))):
        place = chance.randrange(len(text) + 1)
        text = text[:place] + chance.choice(NOISE) + text[place + chance.choice((0, 0, 1)) :]
    return text


def is_let_through(text, project):
    try:
        return read_command(text, project) is None
    except Refusal:
        return False


def carry_out(text, project):
    """Have bash run a command, and put back what a later one would otherwise run or be told by."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(["bash", "-c", text], cwd=project, capture_output=True, stdin=subprocess.DEVNULL, timeout=20)
    (project / ".git/config").write_text(CONFIG)
    for file in project.glob("z.*"):
        file.unlink()


@pytest.mark.long
def test_random_commands_that_pass_neither_move_a_ref_nor_write_outside_the_project(monkeypatch):
    seed = int(os.environ.get("COUNTERFOIL_FUZZ_SEED", time_ns()))
    chance, ran, wrong = random.Random(seed), 0, []
    print(f"seed {seed}")  # noqa: T201
    monkeypatch.setenv("W", "push")
    with opened(monkeypatch) as scratch:
        main = git(scratch.remote, "rev-parse", "main")
        for _ in range(ROUNDS):
            text = scratch.fill(written(chance))
            if not is_let_through(text, scratch.project):
                continue
            ran += 1
            before = scratch.refs(), scratch.files_outside()
            carry_out(text, scratch.project)
            if (scratch.refs(), scratch.files_outside()) != before:
                wrong.append(text)
                git(scratch.remote, "update-ref", "refs/heads/main", main)
                (scratch.outside / "victim.txt").write_text("kept\n")
    print(f"{ran} of {ROUNDS} let through", *map(repr, wrong), sep="\n")  # noqa: T201
    assert ran > ROUNDS / 50
    assert wrong == [], f"seed {seed}"
