"""Which definition of a metric reproduces a claimed value? Every usual one is tried, and the tries are counted."""

from scorer.audit.claims.claim import Claim, parse_claim
from scorer.audit.claims.results import ClaimSearch
from scorer.audit.claims.searching import search
from scorer.audit.claims.tables import read_claims

__all__ = ["Claim", "ClaimSearch", "parse_claim", "read_claims", "search"]
