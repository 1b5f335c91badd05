"""What a shell command would do, as far as this program knows it.

A command that names none of the programs below is not ours, and nothing is said about it: a script, an alias or another
program that does the same by itself is not seen. One that names a program in a form that cannot be told is refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from counterfoil.coding_agents.programs import files, gh, git, kubectl, mail, psql, terraform, twine
from counterfoil.coding_agents.shell import Effect, Program, Refusal, SystemReading, read_script, without_here_documents

PROGRAMS: Final[tuple[Program, ...]] = (
    git.PUSH,
    twine.UPLOAD,
    psql.PSQL,
    kubectl.KUBECTL,
    terraform.TERRAFORM,
    mail.SEND,
    gh.GH,
)


def read_command(command: str, folder: Path) -> Effect | None:
    """The effect of a command in a folder, None where this program has nothing to say about it; or `Refusal`."""
    try:
        script = read_script(mail.name_input(command))
    except ValueError as fault:
        for program in PROGRAMS:
            if program.mention.search(command):
                raise Refusal(
                    f"The command cannot be read: {fault}. Send `{program.title}` as a command of its own."
                ) from fault
        script = None
    for program in PROGRAMS:
        if script and any(map(program.is_run_by, script.commands)):
            return program.read(*program.sent_alone(script, folder))
    try:
        return files.read_files(read_script(without_here_documents(command)), folder)
    except ValueError:
        return None


def read_back(effect: Effect, folder: Path) -> SystemReading | None:
    """What the system shows after a command, asked with the user's own access; None where it cannot be read from here.

    Only a push names where it can be read: an index, a database and a cluster are read by the console.
    """
    return git.read_back(effect, folder) if "ref" in effect.arguments else None
