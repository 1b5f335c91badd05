"""`terraform apply` (and `tofu apply`) of a saved plan.

1. A saved plan is what is proposed, since only that is what will run: `plan -out=FILE`, then `apply FILE`. Without one
   an apply plans again by itself, and is refused.
2. What the plan changes is asked of the program itself (`show -json`). Values that are sensitive or only known
   afterwards are left out: the record holds none of them, and none of them is compared.
3. Which state it changes is told by the lineage and serial in the plan, and by the place that `init` noted.
4. Of the other commands, those that only read and those that change nothing but this folder run. Every other one is
   said not to be recognised.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from counterfoil.coding_agents.asking import MOST_TEXT, ask, content, digest_and_size, is_inside
from counterfoil.coding_agents.options import changes_nothing, read_options
from counterfoil.coding_agents.program import Program
from counterfoil.coding_agents.shell import Command, Effect, Refusal, Script, project_of, without_secret

_ASK_S: Final = 60
_MOST_CHANGES: Final = 200
_MOST_TEXT: Final = 60_000
_LONG: Final = 1000
_ARGUMENTS: Final = ("TF_CLI_ARGS", "TF_CLI_ARGS_apply")
_HOW: Final = "Only a saved plan can be applied: `terraform plan -out=FILE`, then `terraform apply FILE`."


def _changes(command: Command, _: Script) -> bool:
    words = command.texts[1:]
    moves_state = "init" in words and any("migrate" in str(each) or "force" in str(each) for each in words)
    return moves_state or not changes_nothing(words, "terraform")


def _read(words: Sequence[str], folder: Path) -> Effect | None:
    given = read_options(words[1:], "terraform", up_to_operand=True)
    folder = folder / (given.text("chdir") or ".")
    verb, *rest = map(str, given.operands)
    if verb == "apply":
        return _apply_effect(words[0], rest, folder)
    if verb == "destroy":
        raise Refusal("Plan it first: `terraform plan -destroy -out=FILE`, then `terraform apply FILE`.")
    raise Refusal(f"Not recognised: what `{words[0]} {verb}` changes cannot be held for approval and read back. {_HOW}")


TERRAFORM: Final = Program(title="terraform", names=("terraform", "tofu"), changes=_changes, read=_read)


def _apply_effect(program: str, words: Sequence[str], folder: Path) -> Effect | None:
    # What stands in the environment, the program puts before the words of the command.
    words = [*shlex.split(" ".join(os.environ.get(name, "") for name in _ARGUMENTS)), *words]
    given = read_options(words, "terraform", "apply", how=_HOW)
    if "help" in given.options:
        return None
    if len(given.operands) != 1 or not (folder / str(given.operands[0])).is_file():
        raise Refusal(f"Without a saved plan nobody could approve what will run. {_HOW}")
    _refuse_own_providers(folder)
    return _plan_effect(program, str(given.operands[0]), folder)


def _refuse_own_providers(folder: Path) -> None:
    """A plan is read by its providers, programs that `init` put into the folder (unless they are links to a cache)."""
    tree = project_of(folder)
    kept = folder / os.environ.get("TF_DATA_DIR", ".terraform") / "providers"
    own = [each for each in kept.rglob("*") if each.is_file() and is_inside(tree, each.resolve())]
    if own:
        raise Refusal(
            f"Reading this plan would run {own[0].name}, a program inside the project. Set plugin_cache_dir in "
            "~/.terraformrc to a folder outside, and run `terraform init` again."
        )


def _plan_effect(program: str, plan: str, folder: Path) -> Effect | None:
    digest = digest_and_size(folder / plan)[0]
    found = _show_json(program, folder, "show", "-json", "-no-color", plan)
    if digest_and_size(folder / plan)[0] != digest:
        raise Refusal(f"{plan} changed while it was read. Send the command again.")
    changes = [*map(_change, filter(_is_change, found.get("resource_changes", ()))), *_output_changes(found)]
    drifted = sorted({str(each["address"]) for each in found.get("resource_drift", ())})
    if not found.get("applyable", changes or drifted):
        return None
    if len(changes) + len(drifted) > _MOST_CHANGES or len(json.dumps(changes)) > _MOST_TEXT:
        raise Refusal(f"The plan changes more than people can look at ({len(changes)}); plan less at a time.")
    tool = "terraform_destroy" if any(each["action"] in ("delete", "replace", "forget") for each in changes) else None
    return Effect(
        tool or "terraform_apply",
        {
            **_place(program, folder),
            **_prior_state(folder / plan),
            "plan_sha256": digest,
            "changes": changes,
            "count": len(changes),
            "drifted": drifted,
        },
    )


def _is_change(found: Mapping[str, Any]) -> bool:
    """True if a planned entry changes something; imports and moves alone do not."""
    other_place = "previous_address" in found or "importing" in found["change"]
    return found["mode"] == "managed" and (other_place or found["change"]["actions"] != ["no-op"])


def _change(found: Mapping[str, Any]) -> dict[str, Any]:
    change, actions = found["change"], found["change"]["actions"]
    action = "replace" if len(actions) > 1 else actions[0]
    if action == "no-op":
        action = "import" if "importing" in change else "move"
    deposed = f" (deposed {found['deposed']})" if "deposed" in found else ""
    before = change.get("before") or {}
    told = {"address": found["address"] + deposed, "action": action}
    if isinstance(before.get("id"), str) and action == "replace":
        told["was"] = before["id"]
    kept = {} if action in ("delete", "forget") else change.get("after") or {}
    return told | {"values": list(_values(kept, {} if action == "replace" else before, change))}


def _values(after: Mapping[str, Any], before: Mapping[str, Any], change: Mapping[str, Any]) -> Iterator[str]:
    """Yield each attribute that would change, as `name = JSON`, if it is known and not sensitive (rule 2)."""
    for name, value in sorted(after.items()):
        hidden = _holds_true(_part(change.get("after_unknown"), name)) or _holds_true(
            _part(change.get("after_sensitive"), name)
        )
        if not hidden and value is not None and before.get(name) != value:
            text = json.dumps(value, sort_keys=True, ensure_ascii=False)
            digest = f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
            yield f"{name} = {text if len(text) <= _LONG else digest}"


def _part(marks: Any, name: str) -> Any:
    return marks.get(name) if isinstance(marks, dict) else marks


def _holds_true(marks: Any) -> bool:
    if isinstance(marks, dict | list):
        return any(map(_holds_true, marks.values() if isinstance(marks, dict) else marks))
    return marks is True


def _output_changes(found: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for name, change in sorted(found.get("output_changes", {}).items()):
        action = change["actions"][0]
        if action != "no-op":
            known = {} if action == "delete" else {"value": change.get("after")}
            marks = {each: {"value": change.get(each)} for each in ("after_unknown", "after_sensitive")}
            # An output that goes takes nothing with it.
            told = "drop" if action == "delete" else action
            yield {"address": f"output.{name}", "action": told, "values": list(_values(known, {}, marks))}


def _prior_state(plan: Path) -> dict[str, Any]:
    """Lineage and serial of the state that the plan was made for; a state that is not there yet has none."""
    try:
        with zipfile.ZipFile(plan) as parts:
            if parts.getinfo("tfstate").file_size > MOST_TEXT * 64:
                raise Refusal(f"The state in {plan.name} is too large to be read.")
            state = json.loads(parts.read("tfstate"))
        return {"lineage": str(state["lineage"]) or "-", "serial": int(state["serial"])}
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as fault:
        raise Refusal(f"{plan.name} does not say which state it was made for: {type(fault).__name__}.") from fault


def _place(program: str, folder: Path) -> dict[str, str]:
    """The backend and the location of the state, as `init` noted them in this folder (rule 3)."""
    noted = folder / os.environ.get("TF_DATA_DIR", ".terraform") / "terraform.tfstate"
    try:
        backend: dict[str, Any] = json.loads(content(noted))["backend"] if noted.exists() else {"type": "local"}
        kind, settings = str(backend["type"]), dict(backend.get("config", {}))
    except (KeyError, ValueError, TypeError) as fault:
        raise Refusal(f"{noted.name} does not say where the state is stored: {type(fault).__name__}.") from fault
    if kind == "http":
        address = str(settings.get("address") or os.environ.get("TF_HTTP_ADDRESS", ""))
        return {"backend": kind, "place": without_secret(address).partition("?")[0]}
    workspace = _run_terraform(program, folder, "workspace", "show").strip()
    if kind == "pg":
        schema = settings.get("schema_name") or os.environ.get("PG_SCHEMA_NAME") or "terraform_remote_state"
        return {"backend": kind, "place": f"{schema}/{workspace}"}
    return {"backend": kind, "place": workspace}


def _show_json(program: str, folder: Path, *words: str) -> dict[str, Any]:
    try:
        found = json.loads(_run_terraform(program, folder, *words))
    except ValueError as fault:
        raise Refusal(f"{program} cannot say what this plan would change.") from fault
    if not isinstance(found, dict) or "resource_changes" not in found:
        raise Refusal(f"{words[-1]} is not a plan whose changes {program} can list.")
    return found


def _run_terraform(program: str, folder: Path, *words: str) -> str:
    own = dict.fromkeys((*(each for each in os.environ if each.startswith("TF_CLI_ARGS")), "TF_REATTACH_PROVIDERS"), "")
    said = ask(program, words, folder, seconds=_ASK_S, variables=("TF_CLI_CONFIG_FILE", "TF_PLUGIN"), settings=own)
    if said.returncode:
        why = " ".join(said.stderr.replace("│", " ").split()).partition("Error: ")[2]
        raise Refusal(f"{program} cannot say what this would change: {why[:300] or 'no reason given'}")
    return said.stdout
