"""Understanding of released tables: what each column is, on which scale scores are, whose labels belong to them."""

from scorer.audit.understanding.flow import understand
from scorer.audit.understanding.order import order_test
from scorer.audit.understanding.wishes import Wishes, parse_map

__all__ = ["Wishes", "order_test", "parse_map", "understand"]
