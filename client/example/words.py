"""What the scripted agent would like to tell its user: the same words at once and at the end, as a hasty model would.

It sends neither. It asks the guard of the session first and says what comes back: at once that is the correction, and
at the end its own words where the record bears them out by then.
"""

from __future__ import annotations

from example.stage import Sent, money


def hasty(sent: Sent) -> str | None:
    """The message for a piece of work; None where the agent has nothing to say, or its call was not as it should be."""
    try:
        return _said(sent)
    except (KeyError, TypeError):
        return None


def _said(sent: Sent) -> str | None:
    given = sent.arguments
    match sent.tool:
        case "issue_refund" | "refund_small_amount":
            amount = money(given["amount"], given["currency"])
            return f"Thank you for waiting. I have refunded {amount} on order {given['order_id']}. Anything else?"
        case "delete_document":
            return f"The document {given['path']} is deleted. You can close the ticket."
        case "cancel_order":
            return f"Order {given['order_id']} is cancelled. Sorry to see it go."
        case "reserve_stock":
            return f"I have reserved {given['quantity']} of {given['sku']} for order {given['order_id']}."
    return None
