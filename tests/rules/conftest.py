"""Pure tests, which need neither a server nor Django: `pytest tests/rules` reads `pytest.ini` here and no other.

What reads the whole tree or computes for seconds is marked `whole` and runs with the whole suite.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import hypothesis
import pytest

import tests.support.pure.hypothesis_profiles  # noqa: F401

# Compiled tests are kept, whatever an image says: rewriting their assertions costs as much as running them.
sys.dont_write_bytecode = False


def pytest_configure(config: pytest.Config) -> None:
    """Explore less where the rules alone are asked; the whole suite explores more."""
    if config.inipath == Path(__file__).with_name("pytest.ini"):
        hypothesis.settings.load_profile("quick")


def pytest_collection_finish() -> None:
    """Keep the garbage collector from walking through everything that was collected."""
    gc.freeze()
