"""`python -m tests.house`: the size and the shape of the product as one table."""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles

ROOT = Path(__file__).resolve().parent.parent
CORE = ("ledger", "approvals", "reviews", "console")
DISTRIBUTIONS = (
    "client/counterfoil",
    "tlog/counterfoil_tlog",
    "transcripts/counterfoil_transcripts",
    "witness/counterfoil_witness",
)
PACKAGES = (*CORE, *DISTRIBUTIONS)
SHORT = 5
SHARED = ("console/web/", "console/edge/", "console/accounts/", "console/verbs/")
"""Folders of the console that no subject owns: they know none."""
BELOW = ("console/models.py", "console/brokers/", "console/telemetry/")
Function = ast.FunctionDef | ast.AsyncFunctionDef
BY_HAND = {
    "a vote is bound to what was on the screen, and its proof to the vote": (
        "approvals.voting.operations.votes.cast_vote",
        "approvals.voting.operations.batch_votes.vote_batch",
        "approvals.voting.operations.challenges.create_vote_challenge",
    ),
    "an edit is previewed in parts of a page, field by field": (
        "approvals.requests.operations.edits.apply_edit",
        "approvals.requests.operations.edits.preview_edit",
    ),
    "a settlement is signed over the case as it was read": (
        "reviews.cases.operations.cases.confirm",
        "reviews.cases.operations.cases.resolve",
    ),
    "the page shows a secret once, or carries out a ceremony": (
        "console.accounts.members.operations.enrol_key",
        "console.accounts.members.operations.invite_member",
        "console.accounts.members.operations.renew_invitation",
    ),
    "a file is sent or fetched": (
        "ledger.catalogue.operations.registration.register_contract",
        "ledger.exports.operations.exports.record_fetch",
        "reviews.readback.operations.dry_runs.record_tries",
    ),
    "the page's form has other parts than the body: a chooser, days for moments, a field for each channel or freeze": (
        "approvals.voting.operations.delegations.add_absence",
        "approvals.voting.operations.delegations.add_delegation",
        "console.event_export.operations.start",
        "console.notifications.operations.set_mail_preferences",
        "console.notifications.operations.set_settings",
        "ledger.catalogue.operations.registration.place_freeze",
        "ledger.exports.operations.exports.request_export",
        "reviews.cases.operations.batches.start",
        "reviews.incidents.operations.close",
        "reviews.incidents.operations.link_subjects",
        "reviews.incidents.operations.open_for_cause",
    ),
    "the fields of the form depend on what it is about": ("approvals.standing.operations.agreement.propose",),
    "the page asks twice": ("approvals.agents.operations.agents.revoke_agent",),
    "the page says that it failed, the API answers so": ("console.event_export.sending.send_test",),
    "its body names a second member as its address names the first": (
        "console.accounts.members.operations.link_accounts",
    ),
    "the API looks whether its caller may see the action": (
        "reviews.cases.operations.cases.take_up",
        "reviews.verification.operations.verification.order_reading",
    ),
}
"""The writes that a page and the API each call by hand, by why they are not declared in `console/verbs`."""
CALLED_BESIDE = {
    "approvals.agents.operations.withheld_tools.newest_report",
    "approvals.execution.operations.release_check.stop_of_starts",
    "approvals.standing.operations.offers.standing_offers",
    "approvals.voting.operations.eligibility.load_context",
    "approvals.voting.operations.refusal_records.write_refusal_records",
    "approvals.voting.operations.votes.vote_coverage",
    "console.accounts.members.operations.person_of",
    "console.recordings.operations.retention_status",
    "ledger.exports.operations.exports.finished_bundle",
}
"""Functions of such modules that both call and that are no write of their own: reads, and the record of a refusal."""


@dataclass(frozen=True)
class Module:
    """One module of the product, read once."""

    path: Path
    lines: int
    tree: ast.Module

    def functions(self) -> Iterator[Function]:
        yield from (node for node in ast.walk(self.tree) if isinstance(node, Function))

    def names(self) -> Iterator[str]:
        """Every name that is used, as a variable, an attribute or an import."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Name):
                yield node.id
            elif isinstance(node, ast.Attribute):
                yield node.attr


def product() -> list[Module]:
    """Every module with something in it, but migrations."""
    files = [
        file
        for package in PACKAGES
        for file in sorted((ROOT / package).rglob("*.py"))
        if "migrations" not in file.parts and file.name != "__init__.py"
    ]
    return [Module(file, text.count("\n"), ast.parse(text)) for file in files for text in [file.read_text()]]


def migration_lines() -> int:
    """Lines of migrations and of the SQL that they load."""
    files = [
        file
        for package in PACKAGES
        for pattern in ("migrations/*.py", "sql/*.sql")
        for file in (ROOT / package).glob(pattern)
    ]
    return sum(file.read_text().count("\n") for file in files)


def length(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def share_with_one_caller(modules: list[Module]) -> float:
    """The share of functions that are named once outside their definition and have at most five lines."""
    used = Counter(name for module in modules for name in module.names())
    functions = [function for module in modules for function in module.functions()]
    return sum(used[each.name] == 1 and length(each) <= SHORT for each in functions) / len(functions)


def share_with_one_caller_by_unique_names(modules: list[Module]) -> float:
    """The same share of the functions whose name no other function has: each use is then of this one."""
    used = Counter(name for module in modules for name in module.names())
    defined = Counter(function.name for module in modules for function in module.functions())
    unique = [function for module in modules for function in module.functions() if defined[function.name] == 1]
    return sum(used[each.name] == 1 and length(each) <= SHORT for each in unique) / len(unique)


def refusal_classes(modules: list[Module]) -> list[ast.ClassDef]:
    """Every class with which something is refused: those that derive from `Refused`, at any distance."""
    classes = {node.name: node for module in modules for node in module.tree.body if isinstance(node, ast.ClassDef)}
    kinds = {"Refused"}
    while more := {
        name
        for name, node in classes.items()
        if name not in kinds and any(ast.unparse(base).rpartition(".")[2] in kinds for base in node.bases)
    }:
        kinds |= more
    return [classes[name] for name in sorted(kinds - {"Refused"}) if name in classes]


def second_person_codes(modules: list[Module]) -> set[str]:
    """The wire codes that say that somebody else has to do it."""
    return {
        str(part.value.value)
        for each in refusal_classes(modules)
        for part in each.body
        if isinstance(part, ast.Assign)
        and isinstance(part.value, ast.Constant)
        and _names_second_person(part.value.value)
    }


def _names_second_person(code: object) -> bool:
    return isinstance(code, str) and ("SECOND_PERSON" in code or "SAME_PERSON" in code)


def operations_called(modules: list[Module], of: Callable[[str], bool]) -> set[str]:
    """The functions of `operations` modules that the modules of one surface name."""
    called = set()
    for module in modules:
        if not of(module.path.relative_to(ROOT).as_posix()):
            continue
        known: dict[str, str] = {}
        for node in ast.walk(module.tree):
            if (
                isinstance(node, ast.ImportFrom)
                and node.module
                and "operations" in f"{node.module}.{node.names[0].name}"
            ):
                for name in node.names:
                    known[name.asname or name.name] = f"{node.module}.{name.name}"
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in known:
                called.add(f"{known[node.value.id]}.{node.attr}")
            elif isinstance(node, ast.Name) and node.id in known:
                called.add(known[node.id])
    functions = {
        f"{'.'.join(module.path.relative_to(ROOT).with_suffix('').parts)}.{node.name}"
        for module in modules
        for node in module.tree.body
        if isinstance(node, Function)
    }
    return called & functions


def called_by_hand(modules: list[Module]) -> set[str]:
    """The writes that pages and API both call, each with its own input, proof and answer."""
    both = operations_called(modules, _is_page) & operations_called(modules, _is_api)
    return both - CALLED_BESIDE


def writes_on_the_surface() -> tuple[int, int]:
    """Addresses of pages that take a POST alone, and operations of the API that write, from the snapshots."""
    pages = json.loads((ROOT / "tests/snapshots/pages.json").read_text())
    document = json.loads((ROOT / "tests/snapshots/openapi.json").read_text())
    writing = [method for methods in document["paths"].values() for method in methods if method != "get"]
    return sum(page["methods"] == "POST" for page in pages.values()), len(writing)


def any_parameters(modules: list[Module]) -> int:
    """Parameters of public functions whose type is `Any`."""
    return sum(
        isinstance(argument.annotation, ast.Name) and argument.annotation.id == "Any"
        for module in modules
        for function in module.functions()
        if not function.name.startswith("_")
        for argument in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    )


def duplicate_classes(modules: list[Module]) -> int:
    """Public class names that stand more than once in a package; every command of Django is a `Command`."""
    names = Counter(
        (module.path.relative_to(ROOT).parts[0], node.name)
        for module in modules
        for node in module.tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and node.name != "Command"
    )
    return sum(count > 1 for count in names.values())


def _is_page(path: str) -> bool:
    return (path.startswith("console/") and path.endswith(("/views.py", "_views.py"))) or "/views/" in path


def _is_api(path: str) -> bool:
    return (path.startswith("console/") and path.endswith("/routes.py")) or "/routes/" in path


def upward_imports(modules: list[Module]) -> list[str]:
    """Imports of a page by an API, of an API by a page, and of a subject by what all subjects share."""
    paths = {".".join(module.path.relative_to(ROOT).with_suffix("").parts): module for module in modules}
    found = []
    for module in modules:
        importer = module.path.relative_to(ROOT).as_posix()
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.ImportFrom) or not node.module or not node.module.startswith("console."):
                continue
            for name in node.names:
                full = f"{node.module}.{name.name}"
                imported = (full if full in paths else node.module).replace(".", "/") + ".py"
                crossing = (_is_page(importer) and _is_api(imported)) or (_is_api(importer) and _is_page(imported))
                shared = importer.startswith(SHARED) and not imported.startswith((*SHARED, *BELOW))
                if crossing or shared:
                    found.append(f"{importer}:{node.lineno} imports {imported}")
    return found


def table() -> list[tuple[str, str]]:
    """(figure, value), in the order in which they are printed."""
    modules = product()
    core = [module for module in modules if module.path.relative_to(ROOT).parts[0] in CORE]
    folders = Counter(module.path.parent for module in modules)
    fullest, most = folders.most_common(1)[0]
    lengths = [length(function) for module in modules for function in module.functions()]
    pages, routes = writes_on_the_surface()
    return [
        ("fullest folder", f"{most} ({fullest.relative_to(ROOT)})"),
        ("modules of the core", f"{len(core):,}"),
        ("lines of the core", f"{sum(each.lines for each in core):,} + {migration_lines():,} in migrations and SQL"),
        ("modules of the distributions", f"{len(modules) - len(core):,}"),
        ("lines of the distributions", f"{sum(each.lines for each in modules if each not in core):,}"),
        ("functions", f"{len(lengths):,}"),
        ("functions with one caller and at most five lines", f"{share_with_one_caller(modules):.0%}"),
        ("the same, of functions with a name of their own", f"{share_with_one_caller_by_unique_names(modules):.0%}"),
        ("p90 of the length of functions", f"{quantiles(lengths, n=10)[8]:.0f}"),
        ("parameters of public functions that are Any", f"{any_parameters(modules):,}"),
        ("class names twice in a package", f"{duplicate_classes(modules):,}"),
        ("refusal classes", f"{len(refusal_classes(modules)):,}"),
        ("wire codes for a second person", " ".join(sorted(second_person_codes(modules)))),
        ("writing addresses of pages; writing operations of the API", f"{pages}; {routes}"),
        ("writes that pages and API both call by hand", f"{len(called_by_hand(modules))}"),
        ("imports upwards between pages, API and edge", f"{len(upward_imports(modules))}"),
    ]


if __name__ == "__main__":
    for figure, value in table():
        print(f"{figure:<58} {value}")  # noqa: T201
