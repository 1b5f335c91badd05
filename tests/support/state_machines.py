"""State machines whose examples leave nothing behind, and what a process must forget when rows are rolled back."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from inspect import signature
from typing import Any

from django.db import transaction
from hypothesis.stateful import RuleBasedStateMachine

from tests.support.seals import new_signer_state


@contextmanager
def clean_memory() -> Iterator[None]:
    """Neither this process nor the signer of its log knows of what was rolled back before."""
    for kept in _kept_of_tenants(len(sys.modules)):
        kept.cache_clear()
    with new_signer_state():
        yield


@lru_cache(maxsize=1)
def _kept_of_tenants(_modules: int) -> list[Any]:
    """What a process of the product keeps of a tenant because it never changes: it does, where it is rolled back."""
    product = [
        module
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] in ("console", "approvals", "reviews", "ledger")
    ]
    kept = {id(each): each for module in product for each in vars(module).values() if hasattr(each, "cache_clear")}
    return [each for each in kept.values() if "tenant_id" in signature(each).parameters]


class RolledBackMachine(RuleBasedStateMachine):
    """A machine whose example is rolled back at its end, so that the same steps do the same again.

    Otherwise an open request, a lock-out after wrong passwords or a lease of one example would change what is possible
    in the next, and Hypothesis could neither repeat nor shorten a failure.
    """

    def __init__(self) -> None:
        super().__init__()
        self.example = ExitStack()
        self.example.enter_context(clean_memory())
        self.example.enter_context(transaction.atomic())

    def check_at_end(self) -> None:
        """What must hold when an example ends."""

    def teardown(self) -> None:
        with self.example:
            try:
                self.check_at_end()
            finally:
                transaction.set_rollback(True)
