"""The product's settings, with passwords hashed at once: the tests sign people in hundreds of times."""

from __future__ import annotations

from console.settings import *  # noqa: F403

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
