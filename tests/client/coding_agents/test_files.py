"""Files outside the project: what is held, passed over and refused, in the clients' own forms."""

from __future__ import annotations

import hashlib
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from counterfoil.coding_agents.commands import read_command
from counterfoil.coding_agents.hooks import read_call
from counterfoil.coding_agents.programs.files import machine
from counterfoil.coding_agents.shell import Effect, Refusal


@pytest.fixture
def project(monkeypatch):
    # Not where pytest's folders may be: in memory, under /dev, where nothing is judged.
    with TemporaryDirectory() as folder:
        place = Path(folder).resolve()
        monkeypatch.setenv("HOME", str(place / "home"))
        monkeypatch.setenv("TMPDIR", str(place / "scratch"))
        for name in ("home", "scratch", "app/.git", "app/src", "etc"):
            (place / name).mkdir(parents=True)
        (place / "etc/app.conf").write_text("old")
        (place / "app/app.conf").write_text("new")
        yield place / "app"


def written(path, content=b"new"):
    about = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
    return Effect("file_write", {"machine": machine(), "path": str(path)[1:], **about})


def test_a_copy_and_a_removal_outside_the_project_are_proposed_with_path_and_digest(project):
    etc = project.parent / "etc"
    assert read_command("cp app.conf ../etc/app.conf", project) == written(etc / "app.conf")
    assert read_command("cp -f app.conf ../etc", project) == written(etc / "app.conf")
    removed = Effect("file_remove", {"machine": machine(), "path": str(etc / "app.conf")[1:]})
    assert read_command(f"rm -f {etc}/app.conf", project) == removed


CLIENTS = [
    ("claude-code", "Write", {"file_path": "{path}", "content": "new"}),
    ("gemini", "write_file", {"file_path": "{path}", "content": "new"}),
    ("copilot", "create", '{"path": "{path}", "file_text": "new"}'),
]


def call(client, tool, given, path, project):
    fill = {name: value.replace("{path}", str(path)) for name, value in given.items()} if isinstance(given, dict) else (
        given.replace("{path}", str(path))
    )  # fmt: skip
    names = ("toolName", "toolArgs") if client == "copilot" else ("tool_name", "tool_input")
    return read_call(client, {"session_id": "s", "cwd": str(project), names[0]: tool, names[1]: fill})


@pytest.mark.parametrize(("client", "tool", "given"), CLIENTS)
def test_a_file_tool_that_writes_a_whole_file_outside_is_proposed_in_each_clients_form(project, client, tool, given):
    target = project.parent / "etc/new.conf"
    assert call(client, tool, given, target, project).effect() == written(target)
    assert call(client, tool, given, project / "src/new.py", project).effect() is None
    assert call(client, tool, given, project.parent / "scratch/notes", project).effect() is None


@pytest.mark.parametrize(
    "name", [".claude/settings.local.json", ".mcp.json", ".cursor/hooks.json", ".codex/hooks.json"]
)
def test_settings_of_a_client_in_the_project_are_held_like_a_file_outside(project, name):
    assert call(*CLIENTS[0], project / name, project).effect() == written(project / name)
    with pytest.raises(Refusal, match="only in part"):
        call("claude-code", "Edit", {"file_path": "{path}", "old_string": "a"}, project / name, project).effect()


def test_a_link_in_the_project_is_judged_by_where_it_leads(project):
    (project / "link").symlink_to("../etc/app.conf")
    (project / "dangling").symlink_to("../etc/not-yet")
    for name in ("link", "dangling"):
        with pytest.raises(Refusal, match="is a link; write to the file it points to"):
            call(*CLIENTS[0], project / name, project).effect()


def patch(*lines):
    return {"command": "\n".join(("*** Begin Patch", *lines, "*** End Patch"))}


@pytest.mark.parametrize("verb", ["Add File", "Update File", "Delete File", "Move to"])
def test_a_patch_of_codex_is_refused_where_one_of_its_files_is_outside(project, verb):
    inside, outside = "*** Update File: src/app.py", f"*** {verb}: ../etc/app.conf"
    assert call("codex", "apply_patch", patch(inside, "+x"), "", project).effect() is None
    with pytest.raises(Refusal, match=r"This would change \.\./etc/app\.conf, outside the project"):
        call("codex", "apply_patch", patch(inside, "+x", outside, "+x"), "", project).effect()
    with pytest.raises(Refusal, match=r"This would change \.codex/hooks\.json"):
        call("codex", "apply_patch", patch(f"*** {verb}: .codex/hooks.json", "+x"), "", project).effect()


def test_two_files_are_two_calls(project):
    one, two = (call(*CLIENTS[0], project.parent / name, project) for name in ("etc/a", "etc/b"))
    assert one.key != two.key


@pytest.mark.parametrize(
    ("client", "tool", "given"),
    [
        ("claude-code", "Edit", {"file_path": "{path}", "old_string": "old", "new_string": "new"}),
        ("claude-code", "NotebookEdit", {"notebook_path": "{path}", "new_source": "1"}),
        ("gemini", "replace", {"file_path": "{path}", "old_string": "old", "new_string": "new"}),
        ("copilot", "edit", '{"path": "{path}", "old_str": "old", "new_str": "new"}'),
    ],
)
def test_an_edit_of_part_of_a_file_outside_is_refused_with_the_form_to_use(project, client, tool, given):
    with pytest.raises(
        Refusal, match=r"This would change .*, outside the project, only in part\. Outside the project only"
    ):
        call(client, tool, given, project.parent / "etc/app.conf", project).effect()
    assert call(client, tool, given, project / "app.conf", project).effect() is None


@pytest.mark.parametrize(
    "command",
    [
        "echo x > src/x.txt",
        "for f in src/a.py src/b.py; do sed -i s/a/b/ $f; done",
        "OUT=build; rm -rf ${OUT}/x",
        "echo x > $TMPDIR/x",
        "make 2>&1 | tee build.log > /dev/null",
        "cat ../etc/app.conf",
        "cp ../etc/app.conf .",
        "rm -rf build src/*.pyc",
        "cat > notes.md <<EOF\nit's said: rm /etc/passwd > /etc/x\nEOF",
        "grep -r '>' /etc",
        "sed -n 1p ../etc/app.conf",
    ],
)
def test_a_command_that_only_reads_or_stays_inside_the_project_is_not_held(project, command):
    assert read_command(command, project) is None


@pytest.mark.parametrize(
    "command",
    [
        "echo x > ../etc/app.conf",
        "echo x >> ~/.bashrc",
        "cat > ../etc/app.conf <<EOF\nit's new\nEOF",
        "cd ../etc && echo x > app.conf",
        "echo x | sudo tee /etc/hosts",
        "sed -i s/a/b/ ../etc/app.conf",
        "mv app.conf ../etc/",
        "rm -rf ../etc",
        "rm ../etc/app.conf ../etc/other",
        "cp -r src ../etc",
        "cp app.conf ../etc/app.conf && true",
        "dd if=app.conf of=../etc/app.conf",
        "chmod 777 ../etc/app.conf",
        'echo x > "$SOMEWHERE/x"',
        "for f in src/a.py /etc/hosts; do sed -i s/a/b/ $f; done",
        "rm ../etc/*.conf",
        "cp nowhere ../etc/x",
    ],
)
def test_a_write_outside_the_project_in_an_unknown_form_is_refused(project, command):
    with pytest.raises(Refusal, match=r"Outside the project only two|cannot be read"):
        read_command(command, project)


def test_a_removal_of_a_missing_file_is_not_proposed(project):
    with pytest.raises(Refusal, match="does not exist"):
        read_command("rm ../etc/none", project)
