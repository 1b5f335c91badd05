"""Pure tests, which need neither a server nor Django: `pytest tests/rules` reads `pytest.ini` here and no other."""

from __future__ import annotations

import tests.support.pure.hypothesis_profiles  # noqa: F401
