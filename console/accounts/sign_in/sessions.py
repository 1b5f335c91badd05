"""A browser's session and whose it is: two statements of every request, prepared, and past the ORM's compiler."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib.auth.backends import ModelBackend
from django.contrib.sessions.backends.db import SessionStore as StoredSessions
from django.contrib.sessions.models import Session
from django.utils import timezone

from console.models import User
from ledger.db import fetch_one


class SessionStore(StoredSessions):
    """Django's sessions in the database."""

    def _get_session_from_db(self) -> Any:
        found = fetch_one(Session, "session_key = $1 AND expire_date > $2", self.session_key, timezone.now())
        if found is None:
            self._session_key = None
        return found


class PasswordBackend(ModelBackend):
    """Django's accounts with passwords."""

    def get_user(self, user_id: UUID) -> User | None:
        user = fetch_one(User, "id = $1", user_id)
        return user if user is not None and self.user_can_authenticate(user) else None
