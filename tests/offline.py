"""The product's settings with throwaway keys and servers that are never called.

For what only reads the code: type checking, `makemigrations --check`, `check --deploy`, template checks.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from console.local.keys import ensure_keys

with tempfile.TemporaryDirectory(prefix="counterfoil-offline-") as folder:
    ensure_keys(Path(folder))
    os.environ["COUNTERFOIL_SECRETS_DIR"] = folder
    os.environ["COUNTERFOIL_PUBLIC_URL"] = "https://console.example.org"
    os.environ["DATABASE_URL"] = "postgresql://app:none@127.0.0.1:1/none"
    os.environ["REDIS_URL"] = "redis://127.0.0.1:1/0"
    os.environ.pop("DATABASE_OWNER_URL", None)
    from console.settings import *  # noqa: F403
