"""The receipt in a bundle: verified under the key of its task's host, or why it can't be believed."""

from protocol.hosting import Receipt
from submission.bundle import Bundle


def receipt_of(bundle: Bundle) -> Receipt | str | None:
    """The verified receipt of ``bundle``, None without one, or in words why it can't be believed.

    Whether it is the receipt of this lock is for MVC604 to say.
    """
    if bundle.receipt is None or bundle.task is None:
        return None
    if bundle.task.host_key is None:
        return "the task names no host key, so no receipt can be verified"
    from scorer.signing import SignatureError, opened_receipt  # cryptography is loaded only where something is signed

    try:
        return opened_receipt(bundle.receipt, bundle.task.host_key)
    except SignatureError as error:
        return str(error)


def declared_words(bundle: Bundle) -> str:
    """How an accepted bundle was declared, in words: by its team alone, or before a host."""
    receipt = receipt_of(bundle)
    if not isinstance(receipt, Receipt):
        return "self-declared"
    return f"receipt dated {receipt.received_at}, filing {receipt.filing} of this team for this task"
