"""The catalogue of `counterfoil-agents`: each command with its tools, how it is read back, and what that does not
prove.

The class and the reversibility of a tool are its contract's. The sentences here are those of the table in
docs/coding-agents.md, which a test compares.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from counterfoil.coding_agents.onboarding import sorted_contracts


@dataclass(frozen=True, kw_only=True)
class KnownCommand:
    """One row: a command as a person would name it, and the tools that it is held as."""

    command: str
    tools: tuple[str, ...]
    read_back: str
    not_proved: str


COMMANDS: Final = (
    KnownCommand(
        command="git push",
        tools=("git_push", "git_force_push", "git_delete_ref"),
        read_back="the ref, in the server's own list",
        not_proved="that a commit on top of ours holds ours",
    ),
    KnownCommand(
        command="twine upload",
        tools=("package_publish",),
        read_back="that the index lists the file with that digest, not yanked",
        not_proved="who uploaded it; what mirrors show",
    ),
    KnownCommand(
        command="psql: DELETE, UPDATE, INSERT",
        tools=("psql_delete_rows", "psql_update_rows", "psql_insert_rows"),
        read_back="each row by its key: gone, or with the values that the database said beforehand",
        not_proved="rows that came to match between the question and the statement; what triggers do elsewhere",
    ),
    KnownCommand(
        command="kubectl apply -f FILE, scale, delete",
        tools=("kubectl_apply", "kubectl_scale", "kubectl_delete"),
        read_back=(
            "the object over the cluster's API: each field that the manifest names, its replicas, or that this very "
            "object is gone"
        ),
        not_proved="that what it describes runs: pods, health; what controllers make of it",
    ),
    KnownCommand(
        command="gh pr merge NUMBER --match-head-commit COMMIT",
        tools=("forge_merge",),
        read_back="over the forge's API: merged, with which head, and that the base branch holds the merged commit",
        not_proved=(
            "that a squash or a rebase holds what was reviewed; what a merge sets off: deployments, closed issues"
        ),
    ),
    KnownCommand(
        command="gh release create TAG --verify-tag [FILES]",
        tools=("forge_release",),
        read_back="over the forge's API: published, its tag's commit, each file by its digest and no other, prerelease",
        not_proved="title and notes; whether it is the latest; what a release sets off",
    ),
    KnownCommand(
        command="terraform apply PLANFILE",
        tools=("terraform_apply", "terraform_destroy"),
        read_back=(
            "the state, from its backend: lineage, serial, each object that the plan names, with the values that it "
            "says"
        ),
        not_proved=(
            "that the objects themselves are so: a state is what terraform recorded, or whoever else may write it; "
            "values that are sensitive or known only afterwards"
        ),
    ),
    KnownCommand(
        command="msmtp -t < FILE, sendmail -t < FILE",
        tools=("email_send",),
        read_back="the message in the mailbox of the system `mail`: its id, sender, recipients, subject and text, once",
        not_proved="that it reached or was read by each recipient, unless that mailbox is theirs",
    ),
    KnownCommand(
        command="a file outside the project, by the client's file tool, cp FILE PATH or rm PATH",
        tools=("file_write", "file_remove"),
        read_back="path, SHA-256 and size, on this machine; or that it is gone",
        not_proved="owner and mode; what a program does that reads it",
    ),
    KnownCommand(
        command="psql: CREATE, ALTER TABLE, DROP",
        tools=("psql_change_schema",),
        read_back="the catalogue: there or gone, a column's type",
        not_proved=("the rest of a definition: defaults, constraints, a view's query; length and precision of a type"),
    ),
)


def describe_commands() -> list[dict[str, Any]]:
    """Each command with its tools and the main facts of their contracts."""
    contracts = {each["name"]: each for each in (json.loads(file.read_text()) for file in sorted_contracts())}
    return [asdict(each) | {"tools": [_catalogue_row(contracts[name]) for name in each.tools]} for each in COMMANDS]


def _catalogue_row(contract: Mapping[str, Any]) -> dict[str, str]:
    return {
        "name": contract["name"],
        "class": contract["side_effect_class"],
        "reversibility": contract["reversibility"],
        "check": contract["verification"]["pattern"],
        "system": contract["verification"]["system"],
    }
