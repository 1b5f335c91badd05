"""Seals the secrets of second factors anew, under another key of the installation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from allauth.mfa.models import Authenticator
from django.db import transaction

from console.accounts.sign_in import adapters

PORTION: Final = 500
_SEALED: Final = ("secret", "seed", "migrated_codes")


def reseal_factors(*, keys: Sequence[bytes]) -> int:
    """Seal the secrets of all second factors under the first of `keys`; return how many were under another one."""
    changed, after = 0, 0
    while page := _factors_behind(after):
        with transaction.atomic():
            for factor in Authenticator.objects.select_for_update().filter(id__in=page):
                data = {name: _reseal(each, keys) if name in _SEALED else each for name, each in factor.data.items()}
                if data != factor.data:
                    Authenticator.objects.filter(id=factor.id).update(data=data)
                    changed += 1
        after = page[-1]
    return changed


def _factors_behind(after: int) -> list[int]:
    return list(Authenticator.objects.filter(id__gt=after).order_by("id").values_list("id", flat=True)[:PORTION])


def _reseal(value: Any, keys: Sequence[bytes]) -> Any:
    return [adapters.reseal(each, keys) for each in value] if isinstance(value, list) else adapters.reseal(value, keys)
