"""The product's settings, with passwords hashed at once: the tests sign people in hundreds of times.

And counters that are counted for each page: tests change what is behind a page without its forms.
"""

from __future__ import annotations

from console.settings import *  # noqa: F403

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
COUNTERFOIL_FRAME_KEPT_S = 0
