"""Rules need no server; how long one example takes says nothing on a busy machine."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("rules", deadline=None)
settings.load_profile("rules")
