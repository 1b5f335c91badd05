"""The rules of this house that no linter knows: where things may stand, and how long they may be.

Each test reads the source and names every place that breaks its rule. An exception is written down here, with its
reason, or it is not one.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from ledger.record.rules.refusals import Refused
from tests import house

ROOT = Path(__file__).resolve().parent.parent
DOMAINS = ("ledger", "approvals", "reviews")
PRODUCT = (*DOMAINS, "console")
FOLDERS = tuple(path.partition("/")[0] for path in house.DISTRIBUTIONS)
PURE = (*DOMAINS, "tlog/counterfoil_tlog")
LONGEST = 60
RIDDLES = {
    *("till", "since", "before", "after", "under", "over", "of", "at", "by", "for_", "with_", "to", "on", "around"),
    *("beside", "apart", "together", "first", "above", "below", "between", "within", "behind", "upon"),
    *("told", "shown", "said", "given", "taken", "known", "seen", "made", "kept", "held", "found", "begun", "written"),
    *("sent", "met", "lost", "drawn", "hidden", "left", "spent", "bound", "built", "spoken", "stood", "owed", "gone"),
}
# What users of the client write, what Django's templates read, and nouns.
PLAIN = {"succeeded", "failed", "gated", "unwinding", "undelivered"}
# Template tags read as words in a page; the offline verifier is a second implementation on purpose; the names of ways
# to sign in stand in the API's document.
OWN_WORDS = (
    "console/templatetags/",
    "ledger/verify_bundle.py",
    "console/edge/auth.py",
)
# How a docstring does not begin, and what a private function is not called.
CLAUSE = re.compile(r"(What|Whether|How|Where|Who|Whose|Why|Of|When|Which|Whatever|Whoever)\b")
PARTICIPLE = re.compile(rf"_([a-z]+ed|{'|'.join(sorted(RIDDLES))}|asked|meant|brought|chosen)")
MOST_MODULES = 24
MOST_MODULES_AT_A_ROOT = 10

WRITES = {
    *("save", "create", "update", "delete", "get_or_create", "update_or_create", "bulk_create", "bulk_update"),
    *("create_user", "create_superuser", "set_password", "raw", "asave", "acreate", "aupdate", "adelete"),
}
CLOCKS = (
    "timezone.now",
    "datetime.now",
    "datetime.utcnow",
    "datetime.today",
    "date.today",
    "time.time",
    "time.time_ns",
)
CHANCE = ("uuid4", "uuid1", "uuid.uuid7", "os.urandom", "token_bytes", "token_hex", "token_urlsafe", "random.random")
EDGES = (
    *("/views.py", "/views/", "_views.py", "/routes.py", "/routes/"),
    *("console/edge/", "/management/commands/", "/tasks.py"),
)
MORE_EDGES = {
    "console/web/list_page.py": "the edge of every declared list: reads the clock once per call of the API",
    "console/verbs/verb.py": "the edge of every declared write: reads the clock once per call of the API",
    "console/cases/schemas.py": "the edge of a snooze: its page asks for hours from now",
    "console/actions/envelope.py": "the answer about one action: how long ago it was read",
    "console/accounts/sign_in/sessions.py": "the edge of signing in: whether a session has run out",
    "console/accounts/step_up.py": "the edge of signing in: how long ago somebody showed who they are",
    "console/telemetry/health.py": "the edge of health: compares this process's clock with the database's",
    "console/accounts/sign_in/single_sign_on.py": "the edge of single sign-on: reads the clock once per sign-in",
    "console/sessions/session_stream.py": "the edge of an agent's updates: the same",
}
BANNED_NAMES = {
    "utils",
    "util",
    "helpers",
    "helper",
    "common",
    "misc",
    "base",
    "services",
    "service",
    "managers",
    "signals",
}


@dataclass(frozen=True)
class File:
    """One source file of ours, walked once."""

    path: str
    tree: ast.Module
    nodes: tuple[ast.AST, ...]
    calls: tuple[tuple[ast.Call, str], ...]

    def classes(self) -> Iterator[ast.ClassDef]:
        yield from (node for node in self.nodes if isinstance(node, ast.ClassDef))

    def at(self, node: ast.stmt | ast.expr) -> str:
        return f"{self.path}:{node.lineno}"


def read(file: Path) -> File:
    tree = ast.parse(file.read_text())
    nodes = tuple(ast.walk(tree))
    calls = tuple((node, ast.unparse(node.func)) for node in nodes if isinstance(node, ast.Call))
    return File(str(file.relative_to(ROOT)), tree, nodes, calls)


def source(*tops: str) -> tuple[File, ...]:
    """Every Python file under these folders but migrations, which are history."""
    return tuple(file for top in tops for file in parsed(top))


@cache
def parsed(top: str) -> tuple[File, ...]:
    files = [file for file in sorted((ROOT / top).rglob("*.py")) if "migrations" not in file.parts]
    assert files
    return tuple(read(file) for file in files)


def in_room(path: str, *rooms: str) -> bool:
    """Whether a file is one of these rooms of a package, or inside a folder of that name."""
    if "rules" in rooms and path.startswith("tlog/") and not path.endswith("/__main__.py"):
        return True
    return any(path.endswith(f"/{room}.py") or f"/{room}/" in path for room in rooms)


# Where things may stand


def test_no_folder_has_too_many_modules():
    heaps = [
        f"{folder.relative_to(ROOT)}: {count}"
        for top in (*PRODUCT, *house.DISTRIBUTIONS, "tests")
        for folder in [ROOT / top, *(ROOT / top).rglob("*/")]
        if folder.name != "migrations"
        if (count := sum(file.name != "__init__.py" for file in folder.glob("*.py")))
        > (MOST_MODULES_AT_A_ROOT if folder == ROOT / top else MOST_MODULES)
    ]
    assert heaps == []


def test_pages_and_api_of_a_subject_import_each_other_only_through_shared_modules():
    assert house.upward_imports(house.product()) == []


def test_only_operations_write_through_the_models():
    wrong = [
        file.at(call)
        for file in source(*PRODUCT)
        if not in_room(file.path, "operations")
        for call, name in file.calls
        if (name.rpartition(".")[2] in WRITES and (".objects" in name or name.endswith((".save", "bulk_create"))))
        or name == "insert"
    ]
    assert wrong == []


def test_only_queries_and_operations_access_the_tables():
    wrong = [
        f"{file.path}:{node.lineno}"
        for file in source(*PRODUCT)
        if not in_room(file.path, "queries", "operations")
        for node in file.nodes
        if isinstance(node, ast.Attribute) and node.attr == "objects"
    ]
    assert wrong == []


@pytest.mark.req("R-CX-10")
def test_only_the_edges_read_the_clock():
    wrong = [
        file.at(call)
        for file in source(*PRODUCT)
        if not any(edge in file.path for edge in EDGES) and file.path not in MORE_EDGES
        for call, name in file.calls
        if name.endswith(CLOCKS)
    ]
    assert wrong == []


EVERY_TENANT = {
    "approvals/execution/operations/grant_keys.py": "a key that a person rotates is announced in every tenant",
    "console/installation/doctor.py": "a command that looks at every tenant",
    "console/installation/queries.py": "a command that lists what waits, with the names of tenants",
    "console/management/commands/cells.py": "a command that places the tenants of an installation at a cell",
    "console/management/commands/rebuild_metrics.py": "a command, for every tenant that it is not told to leave out",
    "console/management/commands/replay.py": "a command, for every tenant that it is not told to leave out",
    "console/management/commands/rotate.py": "a command that changes a key under which every tenant has something",
    "console/management/commands/tenant.py": "a command that lists the tenants",
    "ledger/catalogue/operations/installation.py": "a command has it recorded in every tenant",
    "ledger/management/commands/log.py": "a command about every log",
    "ledger/management/commands/prune.py": "a command that takes months away, of which every tenant has a part",
    "ledger/management/commands/sequencer.py": "a new leader compares every log once with what was signed of it",
    "ledger/management/commands/verify_ledger.py": "a command, for every tenant that it is not told to leave out",
}
"""What goes through all tenants, and why. No periodic task does, or a thousand idle ones would cost what a thousand at
work do (`ledger.record.queries.work`)."""


def test_nothing_goes_through_all_tenants_but_what_is_listed():
    found = {
        file.path
        for file in source(*PRODUCT)
        for call, name in file.calls
        if name.endswith(".tenants") or name == "tenants" or name.endswith("Tenant.objects.all")
    }
    assert found == EVERY_TENANT.keys()


def test_every_listed_exception_still_exists():
    assert [path for path in MORE_EDGES if not (ROOT / path).exists()] == []


@pytest.mark.req("R-CX-10")
def test_no_rule_uses_the_time_or_randomness():
    wrong = [
        file.at(call)
        for file in source(*PURE)
        if in_room(file.path, "rules")
        for call, name in file.calls
        if name.endswith((*CLOCKS, *CHANCE)) or name.startswith(("random.", "secrets.", "time.")) or name == "open"
    ]
    assert wrong == []


def test_nothing_takes_session_locks():
    """Behind a pooler in transaction mode such a lock stays with a server that nobody can name (docs/deploy.md)."""
    files = [path for app in PRODUCT for path in (ROOT / app).rglob("*") if path.suffix in (".py", ".sql")]
    found = {
        str(path.relative_to(ROOT)) for path in files if re.search(r"pg_(try_)?advisory_(un)?lock", path.read_text())
    }
    assert found == set()


def test_no_signals_are_imported():
    wrong = [
        f"{file.path}:{node.lineno}"
        for file in source(*PRODUCT)
        for node in file.nodes
        if isinstance(node, ast.Import | ast.ImportFrom) and "signals" in ast.unparse(node)
    ]
    assert wrong == []


def test_models_contain_only_columns_and_constraints():
    methods = [
        f"{file.at(node)} {model.name}.{node.name}"
        for file in source(*PRODUCT)
        if file.path.endswith("/models.py")
        for model in file.classes()
        for node in model.body
        if isinstance(node, ast.FunctionDef) and node.name != "__str__"
    ]
    assert methods == []


def test_no_model_has_a_manager_or_a_save_method():
    wrong = [
        f"{file.at(node)} {node.name}"
        for file in source(*PRODUCT)
        for node in file.classes()
        if any(ast.unparse(base).endswith(("Manager", "QuerySet")) for base in node.bases)
        or any(isinstance(part, ast.FunctionDef) and part.name in ("save", "delete") for part in node.body)
    ]
    assert wrong == []


# Names, lengths, words


def test_no_file_has_a_meaningless_name():
    files = [file.relative_to(ROOT) for top in (*PRODUCT, *FOLDERS, "tests") for file in (ROOT / top).rglob("*.py")]
    assert {part.removesuffix(".py") for file in files for part in file.parts} & BANNED_NAMES == set()


def test_no_public_name_is_a_bare_participle_or_preposition():
    wrong = [
        f"{file.at(node)} {node.name}"
        for file in source(*PRODUCT, *house.DISTRIBUTIONS)
        if not file.path.startswith(OWN_WORDS)
        for node in file.tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.name in RIDDLES or re.fullmatch(r"[a-z]+(ed|ing)", node.name))
        and node.name not in PLAIN
    ]
    assert wrong == []


def functions(*tops: str) -> Iterator[tuple[File, ast.FunctionDef | ast.AsyncFunctionDef]]:
    yield from (
        (file, node)
        for file in source(*tops)
        for node in file.nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def test_docstrings_of_functions_begin_as_an_instruction_or_a_definition():
    clauses = [
        f"{file.at(node)} {node.name}"
        for file, node in functions(*PRODUCT, *house.DISTRIBUTIONS)
        if CLAUSE.match(ast.get_docstring(node) or "")
    ]
    assert clauses == []


def test_private_functions_are_named_by_a_verb_or_a_noun():
    participles = [
        f"{file.at(node)} {node.name}"
        for file, node in functions(*PRODUCT, *house.DISTRIBUTIONS)
        if PARTICIPLE.fullmatch(node.name)
    ]
    assert participles == []


def test_no_class_name_appears_twice_in_a_package():
    classes = [
        (file.path.partition("/")[0], node.name)
        for file in source(*PRODUCT, *house.DISTRIBUTIONS)
        if not file.path.startswith(OWN_WORDS)
        for node in file.tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and node.name != "Command"
    ]
    assert [name for name, times in Counter(classes).items() if times > 1] == []


def test_every_package_file_is_empty():
    packages = [file for top in (*PRODUCT, *FOLDERS, "tests") for file in (ROOT / top).rglob("__init__.py")]
    assert [str(file.relative_to(ROOT)) for file in packages if file.read_text() != ""] == []
    assert len(packages) > 10


def test_every_folder_of_modules_is_a_package():
    folders = {file.parent for top in PRODUCT for file in (ROOT / top).rglob("*.py")}
    assert [str(folder.relative_to(ROOT)) for folder in folders if not (folder / "__init__.py").exists()] == []


def test_no_function_is_longer_than_the_limit():
    long = [
        f"{file.at(node)} {node.name}: {length}"
        for file in source(*PRODUCT, *FOLDERS)
        for node in file.nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (length := (node.end_lineno or 0) - node.lineno + 1) > LONGEST
    ]
    assert long == []


def test_every_public_rule_has_a_docstring():
    silent = [
        f"{file.at(node)} {node.name}"
        for file in source(*PURE)
        if in_room(file.path, "rules")
        for node in file.tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
    ]
    assert silent == []


def test_every_module_of_rules_has_a_docstring():
    silent = [
        file.path
        for file in source(*PURE)
        if in_room(file.path, "rules") and file.tree.body and not ast.get_docstring(file.tree)
    ]
    assert silent == []


def refusals(kind: type[Refused] = Refused) -> Iterator[type[Refused]]:
    for each in kind.__subclasses__():
        yield each
        yield from refusals(each)


def own_refusals() -> list[type[Refused]]:
    for file in source(*PRODUCT, "tlog/counterfoil_tlog"):
        if in_room(file.path, "rules", "operations", "api") and not file.path.endswith("__init__.py"):
            import_module(file.path.removeprefix("tlog/").removesuffix(".py").replace("/", "."))
    return [each for each in refusals() if each.__module__.split(".")[0] in (*PRODUCT, "counterfoil_tlog")]


SHARED_CODES = {
    # A replayed proof is put on record by the edge, a wrong grant by the start.
    "GRANT_INVALID",
    # Who may not vote is refused as a person (403), who cannot be assigned as a value (422).
    "NOT_ELIGIBLE",
    # A form shows each beside another field.
    "NOT_REGISTERED",
    # A path that is not a tile's is answered as any other path at which there is nothing.
    "NOT_FOUND",
}


def test_each_refusal_code_belongs_to_one_class():
    codes = Counter(each.code for each in own_refusals())
    assert {code for code, count in codes.items() if count > 1} == SHARED_CODES


def test_every_refusal_has_a_sentence_and_a_code():
    ours = own_refusals()
    assert len(ours) > 20
    wrong = [
        each.__qualname__
        for each in ours
        if not (each.__doc__ or "").strip().endswith(".")
        or not each.code.replace("_", "").isalnum()
        or not each.code.isupper()
        or not 400 <= each.status < 600
    ]
    assert wrong == []


def test_no_refusal_is_named_error_or_exception():
    assert [each.__qualname__ for each in refusals() if each.__name__.endswith(("Error", "Exception"))] == []


# Purity, shown by running it


@pytest.mark.parametrize("domain", DOMAINS)
def test_rules_import_neither_framework_nor_server(domain):
    modules = [
        file.path.removesuffix(".py").replace("/", ".")
        for file in source(domain)
        if "/rules/" in file.path and not file.path.endswith("__init__.py")
    ]
    text = f"import sys, {', '.join(modules)}; print(*sorted(n for n in sys.modules if '.' not in n))"
    ran = subprocess.run([sys.executable, "-c", text], cwd=ROOT, env={}, capture_output=True, text=True, check=True)
    assert modules
    assert set(ran.stdout.split()) & {"django", "celery", "psycopg", "redis", "ninja", "pydantic", "console"} == set()


@pytest.mark.req("R-CX-05")
def test_the_project_depends_on_the_required_libraries():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = {re.match("[a-z0-9-]+", each)[0] for each in project["dependencies"]}
    assert {"django", "django-htmx", "celery", "redis", "psycopg"} <= named
    assert project["requires-python"] == ">=3.11"


@pytest.mark.req("R-CX-06")
def test_the_top_level_contains_only_the_given_names():
    given = {"manage.py", "console", "ledger", "reviews", "approvals", "templates", "tests", "pyproject.toml"}
    beside = {"README.md", "CHANGELOG.md", "Makefile", "uv.lock", "docs", "deploy", "benchmarks", *FOLDERS, "LICENSE"}
    tracked = subprocess.run(
        ["git", "ls-tree", "--name-only", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert given <= set(tracked)
    assert {name for name in tracked if not name.startswith(".")} - given <= beside | {"SECURITY.md", "CONTRIBUTING.md"}


# Words


def test_the_glossary_names_every_table_once():
    """One meaning a word, and no table without a word in docs/architecture.md."""
    text = (ROOT / "docs/architecture.md").read_text().split("\n## Words\n")[1]
    firsts = [row.split("|")[1].strip() for row in text.splitlines() if row.startswith("| ")]
    words = [word for first in firsts if first != "word" for word in first.split(", ")]
    tables = {
        re.sub(r"(?<=[a-z])(?=[A-Z])", " ", node.name).lower()
        for app in PRODUCT
        for node in ast.parse((ROOT / app / "models.py").read_text()).body
        if isinstance(node, ast.ClassDef)
    }
    assert [word for word, count in Counter(words).items() if count > 1] == []
    assert sorted(tables - set(words)) == []


def test_every_write_that_is_exposed_twice_by_hand_has_its_reason():
    listed = [name for names in house.BY_HAND.values() for name in names]
    assert sorted(listed) == sorted(house.called_by_hand(house.product()))
    assert len(listed) <= 30
