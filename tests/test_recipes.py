"""The recipes of CONTRIBUTING.md, carried out to the letter in a copy of the tree."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GUIDE = (ROOT / "CONTRIBUTING.md").read_text()
BLOCK = re.compile(
    r"`(?P<path>[\w/]+\.\w+)`(?:,\s+before\s+`(?P<before>[^`\n]+)`)?:\n\n   ```\w+\n(?P<text>.*?)   ```\n", re.DOTALL
)


def recipe(title: str) -> str:
    found = re.search(rf"^### {re.escape(title)}\n(.*?)^##", GUIDE, re.DOTALL | re.MULTILINE)
    assert found, title
    return found[1]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The tree as it stands, with its compiled modules, which are good for files of the same time."""
    for name in (
        "approvals",
        "client",
        "console",
        "ledger",
        "reviews",
        "templates",
        "tests",
        "tlog",
        "transcripts",
        "witness",
    ):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ("pyproject.toml", "manage.py"):
        shutil.copy2(ROOT / name, tmp_path)
    return tmp_path


def follow(steps: str, tree: Path) -> int:
    """Put each block where its step says, and say how many there were."""
    blocks = list(BLOCK.finditer(steps))
    for block in blocks:
        file, text = tree / block["path"], re.sub("^   ", "", block["text"], flags=re.MULTILINE)
        if block["before"] is None:
            assert not file.exists(), f"{block['path']} is there already"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        else:
            lines = file.read_text().splitlines(keepends=True)
            (place,) = [number for number, line in enumerate(lines) if block["before"] in line]
            file.write_text("".join([*lines[:place], text, *lines[place:]]))
    return len(blocks)


def run(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run tests in a tree, which start servers of their own: what this session has told of its own is not handed on."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "TMPDIR", "LANG")}
    return subprocess.run(command, cwd=tree, env=kept, capture_output=True, text=True, check=False)


def carry_out(title: str, tree: Path, expected_blocks: int) -> None:
    ran = run(tree, *followed(title, tree, expected_blocks))
    assert ran.returncode == 0, ran.stdout[-3000:]


def followed(title: str, tree: Path, expected_blocks: int) -> list[str]:
    """Follow a recipe in a tree; the tests by which it is shown."""
    steps = recipe(title)
    assert follow(steps, tree) == expected_blocks, title
    shown_by = re.search(r"Shown by\s+(.*?)\.\n", steps, re.DOTALL)
    assert shown_by, title
    return re.findall(r"`(tests/\S+)`", shown_by[1])


SHORT_RECIPES = {
    "A row of the recovery table": 3,
    "A check of another pattern": 5,
    "A column of a list": 3,
    "A kind of event": 2,
    "A field of a proposal": 6,
}


def test_the_recipes_can_be_followed(copy: Path):
    """All in one tree, whose tests start servers and load the product once."""
    shown_by = [test for title, blocks in SHORT_RECIPES.items() for test in followed(title, copy, blocks)]
    ran = run(copy, *shown_by)
    assert ran.returncode == 0, ran.stdout[-3000:]


@pytest.mark.long
def test_the_recipe_of_a_page_can_be_followed(copy: Path):
    carry_out("A page", copy, 8)


@pytest.mark.long
def test_the_recipe_of_a_list_can_be_followed(copy: Path):
    carry_out("A list on a page, as CSV and in the API", copy, 15)


@pytest.mark.long
def test_the_recipe_of_a_column_of_a_table_can_be_followed(copy: Path):
    steps = recipe("A column of a table")
    assert follow(steps, copy) == 2
    (command,) = re.findall(r"`(DJANGO_SETTINGS_MODULE=\S+ python manage.py makemigrations .*?)`", steps)
    subprocess.run(["bash", "-ec", command.replace(" python ", f" {sys.executable} ")], cwd=copy, check=True)
    ran = run(copy, "tests/db/execution/test_executor_sites.py")
    assert ran.returncode == 0, ran.stdout[-3000:]


@pytest.mark.long
def test_the_recipe_of_a_write_can_be_followed(copy: Path):
    assert follow(recipe("A kind of event"), copy) == 2
    carry_out("A write on a page and in the API", copy, 9)


def test_an_omitted_step_of_a_recipe_fails_its_test(copy: Path):
    """The copy is what is tested, and the named test is what holds the recipe's steps together."""
    steps = recipe("A field of a proposal")
    assert follow(steps[steps.index("2. Read") :], copy) == 5
    ran = run(copy, "tests/web/gate/test_call_schema.py")
    assert ran.returncode == 1
    assert "FAILED tests/web/gate/test_call_schema.py::test_the_document_accepts_exactly" in ran.stdout
