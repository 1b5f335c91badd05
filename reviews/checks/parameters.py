"""What each pattern's parameters need of a contract, so that one that is not checked is said not to be (R-CP-15).

A parameter is checked where the lookup names what it is about, or a predicate compares the field that shows it. Those
that a check always looks at (that the thing is there, where it is) are not listed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

NEEDS: dict[str, dict[str, tuple[str, ...]]] = {
    "databases": {
        "tenant_id_match": ("tenant_column",),
        "actor_id_match": ("actor_column",),
        "row_version_advanced": ("version_column",),
        "changed_fields_satisfied": ("equals", "fields", "present_if"),
        "audit_log_has_trace_id": ("audit",),
    },
    "filesystems": {
        "size_match": ("size",),
        "hash_match": ("sha256",),
        "permissions_correct": ("mode",),
    },
    "email": {
        "recipient_match": ("to", "recipients"),
        "sender_match": ("sender",),
        "subject_body_hash_match": ("subject", "body_sha256"),
    },
    "calendar": {
        "organizer": ("organizer",),
        "timezone": ("timezone",),
        "start_end_time": ("start", "end", "starts_at", "ends_at"),
        "attendees": ("attendees",),
        "recurrence": ("recurrence",),
        "conferencing_link": ("conference",),
        "reminders": ("reminders",),
        "event_status": ("status",),
    },
    "payments": {
        "idempotency_key": ("match",),
        "amount": ("amount",),
        "currency": ("currency",),
        "account": ("account",),
        "status": ("status", "state"),
        "authorization_capture_refund_state": ("state", "status", "amount_refunded"),
        "ledger_entry": ("ledger",),
    },
    "crm_ticketing": {
        "tenant_or_account": ("tenant_field",),
        "field_changes": ("set", "fields"),
        "assignee": ("assignee",),
        "status": ("status",),
        "comments": ("comment", "comments"),
        "actor_id": ("actor", "creator"),
        "workflow_id": ("workflow", "workflow_id"),
    },
    "deployments": {
        "environment": ("environment", "tenant_field"),
        "region": ("regions",),
        "error_rate": ("max_error_permille", "error_permille"),
        "approval_id": ("approval", "approval_id"),
    },
    "procurement": {
        "vendor": ("vendor",),
        "sku": ("sku", "skus"),
        "amount": ("amount",),
        "currency": ("currency",),
        "budget_allocation": ("budget",),
        "contract_terms": ("terms",),
        "requester_authority": ("approver", "requester"),
    },
    "browser_automation": {
        "stable_url": ("url",),
        "expected_dom_element": ("element",),
        "submitted_values": ("confirmation", "shown", "text"),
        "downloaded_file_hash": ("download",),
        "no_error_banner": ("error",),
    },
    "security_infrastructure": {
        "granted_removed_scopes": ("granted", "removed", "document"),
        "policy_diff": ("document", "granted", "removed"),
        "approval_id": ("audit",),
        "actor_id": ("actor", "actors"),
        "audit_entry": ("audit",),
    },
    "queues_events": {
        "consumer_group": ("group",),
        "processing_status": ("group", "dead_letter"),
        "resulting_state": ("downstream",),
    },
    "vector_search": {
        "embedding_version": ("embedding_version",),
        "index_version": ("retrieval",),
        "corpus_snapshot": ("corpus_column",),
        "permission_scope": ("permission_scope", "hidden_from"),
        "retrieval_eligibility": ("retrieval",),
    },
}

_WORD = re.compile(r"\.\s*([A-Za-z_]\w*)")


def unchecked_parameters(pattern: str, verification: Mapping[str, Any]) -> dict[str, str]:
    """The pattern's parameters that this contract does not ask about, each with the reason."""
    named = set(_names(verification.get("lookup", {})))
    for text in verification.get("predicates", ()):
        named |= set(_WORD.findall(str(text)))
    return {
        parameter: f"The contract neither looks for it nor compares it ({', '.join(words)})."
        for parameter, words in NEEDS.get(pattern, {}).items()
        if named.isdisjoint(words)
    }


def _names(value: Any) -> Iterator[str]:
    """Every name in a lookup, at any depth."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield str(name)
            yield from _names(part)
    elif isinstance(value, list):
        for part in value:
            yield from _names(part)
