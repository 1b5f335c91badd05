"""Break-glass over HTTP: what was let through by one person alone, and the reviews that follow."""

from __future__ import annotations

from ninja import Router

from console.break_glass import verbs
from console.break_glass.lists import BREAK_GLASS
from console.verbs.verb import add_verbs
from console.web.list_page import add_lists

router = Router(tags=["Approvals"])


add_lists(router, __name__, BREAK_GLASS)


add_verbs(router, __name__, [verbs.REVIEW])
