from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CLIENT = Path(__file__).parents[2] / "client"
FRAMEWORKS = ("langgraph", "langchain_core", "agents", "openai", "pydantic_ai", "pydantic", "mcp", "django", "crewai")
MODULES = sorted(
    ".".join(file.relative_to(CLIENT).with_suffix("").parts)
    for file in (CLIENT / "counterfoil").rglob("*.py")
    if file.stem != "__init__" and not {"adapters", "mcp"} & set(file.relative_to(CLIENT).parts)
)


def _imported_by(*modules):
    program = f"import sys; sys.path.insert(0, {str(CLIENT)!r}); import {', '.join(modules)}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_importing_the_library_imports_no_framework():
    assert "counterfoil.agent" in MODULES
    assert _imported_by(*MODULES, "counterfoil.adapters.offer").isdisjoint(FRAMEWORKS)
