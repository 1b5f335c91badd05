"""Examples per property: a few with `pytest tests/rules`, more in `make test`, many in `make test-long`.

How long one takes says nothing on a busy machine.
"""

from __future__ import annotations

import hypothesis

hypothesis.settings.register_profile("quick", max_examples=10, deadline=None)
hypothesis.settings.register_profile("bounded", max_examples=30, deadline=None)
hypothesis.settings.register_profile("whole", max_examples=300, deadline=None)
hypothesis.settings.load_profile("bounded")
