"""Whether a shell command changes something that is held, and what.

1. A command that changes something known is proposed only where it stands alone and plain (`shell`): what stands around
   it may change what it does. Otherwise it is refused, with how to send it.
2. A program is looked for in everything that a shell may run: in scripts handed to shells, behind programs that run
   others, behind any program that is not known to only read its words. Where only the shell could tell the program,
   its verb or its script, the command is refused.
3. Prose is let through: words of programs that print, search or write down, messages, comments, here-documents.
   A script in a file, and a program that does the same by itself, are not seen.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Final

from counterfoil.coding_agents.options import table
from counterfoil.coding_agents.program import Program, mentions
from counterfoil.coding_agents.programs import files, gh, git, kubectl, mail, psql, terraform, twine
from counterfoil.coding_agents.shell import (
    UNTOLD,
    Command,
    Effect,
    Refusal,
    Script,
    ShellWord,
    SystemReading,
    read_script,
)

PROGRAMS: Final = {
    name: program
    for program in (git.PUSH, twine.UPLOAD, psql.PSQL, kubectl.KUBECTL, terraform.TERRAFORM, mail.SEND, gh.GH)
    for name in program.names
}
_SHELL: Final = table("shell")
_PROSE: Final = frozenset(_SHELL["prose"].split())
_PROSE_OPTIONS: Final = frozenset(_SHELL["prose_options"].split())
_SHELLS: Final = frozenset(_SHELL["shells"].split())
_RUNNERS: Final = frozenset(_SHELL["runners"].split())
_READS_COMMANDS: Final = frozenset(_SHELL["reads_commands"].split())
_RUN_VARIABLES: Final = re.compile(_SHELL["run_variables"])
_KNOWN: Final = (
    _PROSE | _SHELLS | _RUNNERS | PROGRAMS.keys() | table("writers").keys() | {"eval", "trap", "source", "."}
)
_REPLACED: Final = re.compile(r"(?:-I|-i|--replace=)(.+)", re.S)
_AFTER_C: Final = re.compile(r"(?:-\w*c|--command|--session-command) (.+)", re.S)
_SCRIPT_AFTER: Final = {
    **dict.fromkeys(("script", "su", "runuser", "flock", "setpriv"), _AFTER_C),
    **dict.fromkeys(("watch", "parallel"), re.compile(r"\S+ (.*\s.*)", re.S)),
    "env": re.compile(r"(?:\S+ -\w*S|\S+ --split-string=|-\w*S |--split-string )(.+)", re.S),
}
"""How the words of a program that runs others name a script: the word before, a space, and the word."""
_STANDARD_INPUT: Final = frozenset(("-", "/dev/stdin", "/dev/fd/63"))
_DEEPEST: Final = 6
_WRITE_OUT: Final = (
    "Not plain: which program or script this would run is known only to the shell. Write out the program and its verb, "
    "and send what must be held as a command of its own."
)


def _send_alone(program: Program) -> Refusal:
    return Refusal(
        f"Send `{program.title}` as a command of its own, without other commands, variables, patterns or "
        "redirections: what surrounds it may change what it does." + (f" {program.how}" if program.how else "")
    )


def _refuse_mention(text: str) -> None:
    """Refuse text that is handed to a program which may run it, where it names a guarded program and its verb."""
    if name := mentions(text):
        raise _send_alone(PROGRAMS[name.partition("-")[0]])


def read_command(command: str, folder: Path) -> Effect | None:
    """The effect of a command in a folder, None where this program has nothing to say about it; or `Refusal`."""
    script = read_script(command, frozenset({folder}))
    commands = list(each_command(script))
    for found in commands:
        program = _program_of(found)
        if program is None or not program.changes(found, script):
            continue
        if script.alone is not None and found is script.alone and _is_own_name(found):
            (folder,) = (each for each in found.folders if each is not None)
            words = [word for word in found.texts if word is not None]
            redirected = [part for word in found.inputs for part in ("<", str(word.text))]
            if not redirected or program is mail.SEND:
                return program.read([*words, *redirected], folder)
        raise _send_alone(program)
    return files.read_files(script, commands, folder)


def read_back(effect: Effect, folder: Path) -> SystemReading | None:
    """What the system shows after a command, asked with the user's own access; None where it cannot be read from here.

    Only a push names where it can be read: an index, a database and a cluster are read by the console.
    """
    return git.read_back(effect, folder) if "ref" in effect.arguments else None


def _program_of(command: Command) -> Program | None:
    name = command.words[0].last_name if command.words else None
    if name and re.fullmatch(r"python[\d.]*", name):
        return twine.UPLOAD
    return PROGRAMS.get("git" if name and name.startswith("git-") else name or "")


def _is_own_name(command: Command) -> bool:
    """Whether a program is named as what is asked about it here is: by its name, or by where that name leads."""
    text = str(command.words[0].text)
    name = text.rpartition("/")[2]
    return text in (name, shutil.which(name), f"/usr/sbin/{name}") and not name.startswith("git-")


def each_command(script: Script, depth: int = 0) -> Iterator[Command]:
    """Every simple command that a script runs or hands on (rule 2); `Refusal` where one cannot be told."""
    for command in script.commands:
        yield command
        yield from _handed_on(command, script, depth)


def _handed_on(command: Command, script: Script, depth: int) -> Iterator[Command]:
    for variable, word in command.assigned:
        if command.words or _RUN_VARIABLES.fullmatch(variable):
            _refuse_mention(word.code)
    if not command.words:
        return
    first = command.words[0]
    name = first.last_name
    if name is None or (first.text is None and mentions(script.text)) or depth > _DEEPEST or name == "{}":
        raise Refusal(_WRITE_OUT)
    yield from _handed_on_by(name, command, script, depth)


def _handed_on_by(name: str, command: Command, script: Script, depth: int) -> Iterator[Command]:
    if name in _PROSE:
        if any(word.code.startswith(tuple(_SHELL["runs"])) for word in command.words):
            _refuse_mention(" ".join(word.code for word in command.words))
    elif name in _SHELLS | {"source", "."}:
        yield from _nested(_script_of(command, name, script), command, script, depth)
    elif name in ("eval", "trap"):
        words = [word for word in command.words[1:] if word.text not in ("--", "-", "", "-p", "-l")]
        texts = [word.code for word in words]
        yield from _nested(" ".join(texts if name == "eval" else texts[:1]), command, script, depth)
    elif name == "alias":
        for text in filter(None, (word.code.partition("=")[2] for word in command.words[1:])):
            if text.partition(" ")[0] in PROGRAMS:
                raise Refusal(_WRITE_OUT)
            yield from _nested(text, command, script, depth)
    elif name in _RUNNERS:
        yield from _run_by(command, name, script, depth)
    elif name not in PROGRAMS and not name.startswith("git-"):
        yield from _named_by(command, script)


def _nested(text: str | None, command: Command, script: Script, depth: int) -> Iterator[Command]:
    """The commands of a script that is handed to a shell; None is one that nobody can read."""
    if text is None:
        raise Refusal(_WRITE_OUT)
    inner = read_script(text, command.folders, script.variables)
    yield from each_command(replace(inner, text=f"{script.text}\n{text}"), depth + 1)


def _script_of(command: Command, name: str, script: Script) -> str | None:
    """The script that a shell is handed in its words or on its input; empty where it stands in a file."""
    words, takes_text = list(command.words[1:]), False
    while words and (words[0].code.startswith(("-", "+")) and words[0].code != "-"):
        option = words.pop(0)
        if option.text is None:
            return None
        if option.text in _SHELL["shell_values"] or re.fullmatch(r"[-+]\w*[oO]", option.text):
            words = words[1:]
        letters = "" if option.text.startswith("--") else option.text
        takes_text = takes_text or "c" in letters
        if "s" in letters and not takes_text:
            words = []
    if takes_text and name not in ("source", "."):
        return words[0].code if words else ""
    if words and (words[0].text is None or words[0].text in _STANDARD_INPUT):
        return command.fed.code or None if words[0].text in ("-", "/dev/stdin") and command.fed else None
    if not words:
        return "" if command.fed is None else command.fed.code or None
    # A script that the same command wrote is no other program's.
    return None if _is_written_by(script, str(words[0].text).rpartition("/")[2]) else ""


def _is_written_by(script: Script, file: str) -> bool:
    """Whether a script may write the file that it then runs."""
    commands = script.commands
    written = any(word.code.endswith(file) for command in commands for word in command.targets)
    written = written or any(
        word.code.endswith(file)
        for command in commands
        if command.words and command.words[0].last_name in ("tee", "dd")
        for word in command.words[1:]
    )
    return written or (script.text.count(file) > 1 and bool(mentions(script.text)))


def _run_by(command: Command, name: str, script: Script, depth: int) -> Iterator[Command]:
    """The command behind a program that runs another one, and scripts among its words."""
    words = list(command.words)
    if name == "find":
        yield from _run_by_find(command, script, depth)
        return
    if name in ("xargs", "parallel"):
        marks = {"{}"} | {after.code for word, after in pairwise(words) if word.text == "-I"}
        marks |= {found[1] for word in words if (found := _REPLACED.fullmatch(word.code))}
        words = [UNTOLD if any(each in word.code for each in marks) else word for word in words]
        words.append(UNTOLD)
    takes_value = _SHELL["runner_values"].get(name, "").split()
    folders = command.folders
    if any(word.code.startswith(("-C", "--chdir", "-D")) for word in words[1:]) and name in ("env", "sudo", "doas"):
        folders = frozenset({None})
    place = 1
    while place < len(words):
        word = words[place]
        if word.text in takes_value and word.text not in ("-S", "-c"):
            place += 2
            continue
        script_after = _SCRIPT_AFTER.get(name)
        if script_after and (found := script_after.fullmatch(f"{words[place - 1].code} {word.code}")):
            yield from _nested(found[1], command, script, depth)
        elif word.last_name in _KNOWN and not word.code.startswith("-"):
            inner = replace(command.from_word(0), words=tuple(words[place:]), folders=folders)
            yield inner
            yield from _handed_on(inner, script, depth + 1)
            return
        elif word.text is None and not word.code.startswith("-") and place + 1 < len(words):
            following = words[place + 1]
            if following.last_name not in _KNOWN and not re.match(r"[-\d]", following.code):
                raise Refusal(_WRITE_OUT)
        else:
            _refuse_mention(word.code)
        place += 1


def _run_by_find(command: Command, script: Script, depth: int) -> Iterator[Command]:
    texts = command.texts
    begin = next((place for place, text in enumerate(texts) if place and text and text[0] in "-(!"), len(texts))
    roots = command.words[1:begin] or (ShellWord((".",), True, "."),)
    for place, text in enumerate(texts):
        if text in ("-exec", "-execdir", "-ok", "-okdir") and place + 1 < len(texts):
            end = next((at for at in range(place, len(texts)) if texts[at] in (";", "+")), len(texts))
            words = [
                one for word in command.words[place + 1 : end] for one in (roots if word.text == "{}" else (word,))
            ]
            inner = replace(command, words=tuple(words), assigned=(), targets=())
            yield inner
            yield from _handed_on(inner, script, depth + 1)


def _named_by(command: Command, script: Script) -> Iterator[Command]:
    """The guarded programs that an unknown program names among its words (rule 2)."""
    if command.words[0].text in _READS_COMMANDS and command.fed is not None:
        _refuse_mention(script.text)
    for place, word in enumerate(command.words[1:], 1):
        option, is_joined, _ = word.code.partition("=")
        if (option if is_joined else command.words[place - 1].code) in _PROSE_OPTIONS:
            continue
        if word.last_name in PROGRAMS and word.text is not None:
            yield replace(command.from_word(place), is_sure=False)
        else:
            _refuse_mention(word.code)
    _refuse_mention(command.fed.code if command.fed is not None else "")
    text = command.words[0].text or ""
    if "/" in text and _is_written_by(script, text.rpartition("/")[2]):
        raise Refusal(_WRITE_OUT)
