"""The examples of docs/transcripts.md are run, and print what the page says."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

from counterfoil_transcripts.reading.formats.detect import FORMATS, row_of

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "transcripts.md").read_text()
BLOCK = re.compile(r"```(\w+)(?: file=(\S+))?\n(.*?)```", re.DOTALL)


def test_the_five_minute_guide_prints_the_output_on_the_page(tmp_path):
    printed = ""
    for kind, name, text in BLOCK.findall(GUIDE):
        if name:
            whole = json.loads(text)
            (tmp_path / name).write_text(json.dumps(whole) if name.endswith("l") else text)
        elif kind == "shell":
            command = [sys.executable, "-m", "counterfoil_transcripts", *shlex.split(text)[1:]]
            ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
            printed = ran.stdout
        elif kind == "text":
            assert [line for line in text.splitlines() if line not in printed.splitlines()] == []
    assert printed
    assert json.loads((tmp_path / "report.json").read_bytes())["totals"]["categories"]["phantom"] == 1
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")


def test_the_tables_of_the_guide_are_those_that_the_readers_go_by():
    rows = [row for one in FORMATS for row in (row_of(one).recognition, row_of(one).fields)]

    assert [row for row in rows if row not in GUIDE.splitlines()] == []
    assert len([line for line in GUIDE.splitlines() if line.startswith("| `") and line in rows]) == len(rows)
