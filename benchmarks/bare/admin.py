"""Django's admin over the product's actions, as one writes it on the first day, and as one does when it has grown."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from benchmarks.bare.models import Action, BestAction
from ledger.db import tenancy
from ledger.record.queries import events as queries


@admin.register(Action)
class Actions(admin.ModelAdmin):  # type: ignore[type-arg]
    """The columns, the filters and the search that the Actions page has."""

    list_display = ("state", "target", "agent", "tool", "side_effect_class", "discrepancy", "changed_at")
    list_filter = ("state", "tool", "agent", "side_effect_class", "discrepancy", "changed_at")
    search_fields = ("target",)
    list_per_page = 50
    ordering = ("-id",)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        # Rows are hidden outside a tenant; and the page is rendered lazily, so it is rendered inside.
        with tenancy(queries.tenants()[0].id):
            page = super().changelist_view(request, extra_context)
            assert isinstance(page, TemplateResponse)
            return page.render()


class CappedCount(Paginator):  # type: ignore[type-arg]
    """Counts no further than a thousand."""

    MOST = 1_000

    @property
    def count(self) -> int:
        return len(self.object_list.values_list("pk")[: self.MOST])


@admin.register(BestAction)
class BestActions(Actions):
    """The admin without anything that scans the whole table."""

    list_filter = ()
    show_full_result_count = False
    paginator = CappedCount
