"""Decide if a shell command has an effect that is held, and which.

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
from collections.abc import Iterator, Sequence
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
_PROSE, _PROSE_OPTIONS, _SHELLS, _RUNNERS, _TAKES_OPERAND, _READS_COMMANDS, _SHELL_VALUES = (
    frozenset(_SHELL[name].split())
    for name in ("prose", "prose_options", "shells", "runners", "take_operand", "reads_commands", "shell_values")
)
_SCRIPT_WORDS: Final = frozenset(("eval", "trap", "alias", "hash"))
_KNOWN: Final = _PROSE | (_SHELLS - {"."}) | _RUNNERS | PROGRAMS.keys() | files.WRITERS.keys() | _SCRIPT_WORDS
_REQUESTS: Final = table("requests")
_RUNS, _EVALUATES, _RUN_VARIABLES = (re.compile(_SHELL[name]) for name in ("runs", "evaluates", "run_variables"))
_REPLACED: Final = re.compile(r"(?:-I|-i|--replace=)(.+)", re.S)
_NO_PROGRAM: Final = re.compile(r"[\d.]+[smhd]?|run|exec|x")
"""Words that stand between a program that runs others and the one that it runs."""
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
    """Refuse text that is passed to a program which may run it, if it names a guarded program and its verb."""
    if name := mentions(text):
        raise _send_alone(PROGRAMS[name.partition("-")[0]])


def read_command(command: str, folder: Path) -> Effect | None:
    """The effect of a command in a folder, None if it is not held; raises `Refusal`."""
    script = read_script(command, frozenset({folder}))
    commands = list(_each_command(script))
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
    """Read the system after a command, with the user's own access; return None if it cannot be read from here.

    Only a push names where it can be read: an index, a database and a cluster are read by the console.
    """
    return git.read_back(effect, folder) if "ref" in effect.arguments else None


def _program_of(command: Command) -> Program | None:
    if re.fullmatch(r"python[\d.]*", command.name):
        return twine.UPLOAD
    return PROGRAMS.get("git" if command.name.startswith("git-") else command.name)


def _is_own_name(command: Command) -> bool:
    """Return True if a command names the same program that the hook itself would run."""
    text, name = command.words[0].text, command.name
    return text in (name, shutil.which(name), f"/usr/sbin/{name}") and not name.startswith("git-")


def _each_command(script: Script, depth: int = 0) -> Iterator[Command]:
    """Every simple command that a script runs or passes on (rule 2); `Refusal` if one cannot be determined."""
    if _EVALUATES.search(script.text):
        _refuse_mention(script.text)
    for command in script.commands:
        for variable, word in command.assigned:
            if command.words or _RUN_VARIABLES.fullmatch(variable):
                _refuse_mention(word.code)
        yield command
        if command.words:
            yield from _handed_on(command, script, depth)


def _handed_on(command: Command, script: Script, depth: int) -> Iterator[Command]:
    """The commands inside the words of a command that runs other commands."""
    name = command.name
    if name in ("", "{}") or (command.words[0].text is None and mentions(script.text)) or depth > _DEEPEST:
        raise Refusal(_WRITE_OUT)
    if name in _PROSE:
        if _RUNS.match(text := " ".join(word.code for word in command.words)):
            _refuse_mention(text)
    elif name in _SHELLS | _SCRIPT_WORDS:
        for word in _scripts_in(command, script):
            # A script that stands in a file is not seen; one that nobody can read is not plain.
            if not word.code and not word.plain:
                raise Refusal(_WRITE_OUT)
            inner = read_script(word.code, command.folders, script.variables)
            yield from _each_command(replace(inner, text=f"{script.text}\n{word.code}"), depth + 1)
    elif name in _RUNNERS:
        yield from (_run_by_find if name == "find" else _run_by)(command, script, depth)
    elif name not in PROGRAMS and not name.startswith("git-"):
        yield from _named_by(command, script)


def _scripts_in(command: Command, script: Script) -> Iterator[ShellWord]:
    """Return the scripts that words of a shell, or of one of its commands, refer to."""
    words = [word for word in command.words[1:] if word.text not in ("--", "-", "", "-p", "-l")]
    if command.name in _SHELLS:
        yield from _script_of(command, script)
    elif command.name == "eval" and words:
        code = "" if any(not word.code for word in words) else " ".join(word.code for word in words)
        yield ShellWord((), False, code)
    elif command.name == "trap":
        yield from words[:1]
    else:
        for text in (word.code.partition("=")[2] or word.code for word in words):
            if text.partition(" ")[0].rpartition("/")[2] in PROGRAMS:
                raise Refusal(_WRITE_OUT)
            yield ShellWord((), True, text)


def _script_of(command: Command, script: Script) -> Sequence[ShellWord]:
    """The script passed to a shell in its words or on its input; None if it is in a file."""
    words, letters = list(command.words[1:]), ""
    while words and re.match(r"[-+].", words[0].code):
        option = words.pop(0)
        if option.text is None:
            return [UNTOLD]
        if option.text in _SHELL_VALUES or re.fullmatch(r"[-+]\w*[oO]", option.text):
            words = words[1:]
        letters += "" if option.text.startswith("--") else option.text
    if "c" in letters and command.name not in ("source", "."):
        return words[:1]
    from_input = "s" in letters or not words or words[0].text in ("-", "/dev/stdin")
    if from_input and command.fed is not None:
        return [command.fed]
    file = (command.inputs if from_input else words)[:1]
    # A script that the same command wrote is no other program's.
    told = all(word.text not in (None, "/dev/fd/63") and not _is_written_by(script, word.code) for word in file)
    return [] if told else [UNTOLD]


def _is_written_by(script: Script, file: str) -> bool:
    """True if a script may write the file that it then runs."""
    name, commands = file.rpartition("/")[2], script.commands
    written = [word for command in commands for word in command.targets]
    written += [word for command in commands if command.name in ("tee", "dd") for word in command.words[1:]]
    is_named_twice = script.text.count(name) > 1
    return any(word.code.endswith(name) for word in written) or (is_named_twice and bool(mentions(script.text)))


def _run_by(command: Command, script: Script, depth: int) -> Iterator[Command]:
    """Return the commands that may be run through a program that runs another one, and scripts among its words."""
    name, words, folders = command.name, list(command.words), command.folders
    if name in ("xargs", "parallel"):
        words = [*_with_gaps(words), UNTOLD]
        _refuse_mention(command.fed.code if command.fed else "")
    if name in ("env", "sudo", "doas") and any(re.match(r"-C|--chdir|-D", word.code) for word in words):
        folders = frozenset({None})
    scripts = next((text for names, text in _SHELL["scripts"].items() if name in names.split()), r"(?!)")
    is_awaited, is_found = True, False
    for place, (before, word) in enumerate(pairwise(words), 1):
        # A variable for `env` is no program either.
        is_option = bool(re.match(r"-|\w+=", word.code))
        takes_this = place == 1 and name in _TAKES_OPERAND
        is_value = bool(re.fullmatch(r"-[A-Za-z]|--[a-z-]+", before.code))
        if found := re.fullmatch(scripts, f"{before.code} {word.code}", re.S):
            # `env -S` divides words at these (\x01 is a carriage return here), and has escapes of its own.
            if name == "env" and re.search(r"[\\\x01\f\v]", found[1]):
                raise Refusal(_WRITE_OUT)
            inner = Command((ShellWord(("eval",), True, "eval"), ShellWord((), False, found[1])), folders=folders)
            yield from _handed_on(inner, script, depth + 1)
        # Behind a program that is not known, only one of these is looked for, as in its words elsewhere.
        elif word.last_name in (_KNOWN if is_awaited else PROGRAMS) and not is_option:
            inner = replace(command.from_word(0), words=tuple(words[place:]), folders=folders)
            yield inner
            yield from _handed_on(inner, script, depth + 1)
            # It may be the value of an option, or what is taken before the command, which comes later then.
            if not is_value and not takes_this:
                return
            is_found = True
        elif word is UNTOLD and name == "xargs":
            # Without a program it prints.
            return
        elif word.text is None and not is_option and (mentions(script.text) or (is_awaited and not is_found)):
            raise Refusal(_WRITE_OUT)
        else:
            _refuse_mention(word.code)
            is_awaited &= is_option or is_value or takes_this or bool(_NO_PROGRAM.fullmatch(word.code))


def _with_gaps(words: Sequence[ShellWord]) -> list[ShellWord]:
    """The words of `xargs`, with the parts that it takes from its input left open."""
    marks = {"{}"} | {after.code for word, after in pairwise(words) if word.text == "-I"}
    marks |= {found[1] for word in words if (found := _REPLACED.fullmatch(word.code))}
    filled = [*words[:1]]
    for before, word in pairwise(words):
        for mark in marks if before.text != "-I" else ():
            word = _fill_mark(word, mark, "${1}")
        filled.append(word)
    return filled


def _run_by_find(command: Command, script: Script, depth: int) -> Iterator[Command]:
    """The commands of `find -exec`, about a file somewhere below the folders that it begins in."""
    words = command.words
    begin = next((at for at, word in enumerate(words) if at and re.match(r"[-(!]", word.code)), len(words))
    roots = words[1:begin] or [ShellWord((".",), True, ".")]
    below = f"{roots[0].text}/_" if len(roots) == 1 and re.fullmatch(r"[\w./-]+", str(roots[0].text)) else "${1}"
    for place, word in enumerate(words):
        if word.text in ("-exec", "-execdir", "-ok", "-okdir"):
            end = next((at for at in range(place, len(words)) if words[at].text in (";", "+")), len(words))
            run = list[ShellWord]()
            for each in words[place + 1 : end]:
                filled = _fill_mark(each, "{}", "${1}" if ".." in each.code else below)
                run += roots if each.text == "{}" else [filled]
            inner = replace(command, words=tuple(run), assigned=(), targets=())
            yield inner
            yield from _handed_on(inner, script, depth + 1) if run else ()


def _fill_mark(word: ShellWord, mark: str, text: str) -> ShellWord:
    """Replace a placeholder in a word or script, as xargs and find do; `${1}` represents unknown text."""
    if mark not in word.code:
        return word
    values = () if "$" in text else tuple(value.replace(mark, text) for value in word.values)
    return ShellWord(values, False, word.code.replace(mark, text))


def _named_by(command: Command, script: Script) -> Iterator[Command]:
    """Return the guarded programs that an unknown program names among its words (rule 2)."""
    text = " ".join(word.code for word in command.words)
    if re.match(_REQUESTS["sends"], text) and all(re.search(_REQUESTS[part], text) for part in ("where", "about")):
        raise Refusal(f"Not recognised: what this request of {command.name} changes cannot be held. Use gh or twine.")
    if command.name in _READS_COMMANDS and command.fed is not None:
        _refuse_mention(script.text)
    for place, (before, word) in enumerate(pairwise(command.words), 1):
        option, is_joined, _ = word.code.partition("=")
        if (option if is_joined else before.code) in _PROSE_OPTIONS:
            continue
        if word.last_name in PROGRAMS and word.text is not None:
            yield replace(command.from_word(place), folders=frozenset())
        else:
            _refuse_mention(word.code)
    _refuse_mention(command.fed.code if command.fed else "")
    if "/" in command.words[0].code and _is_written_by(script, command.words[0].code):
        raise Refusal(_WRITE_OUT)
