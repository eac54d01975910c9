"""What takes its time and depends on no bundle, done while the decoding process works: tables, imports, kernels."""

from splits import attack


def for_rules() -> None:
    """What the rules need: the table of plain digests, and the libraries with which calibrators are fitted again."""
    import scipy.optimize
    import scipy.stats  # noqa: F401
    import sklearn.isotonic  # noqa: F401

    import scorer.verify.calibrators  # noqa: F401

    attack.prepare()


def for_scores() -> None:
    """What the rules and the scores need; one kernel is run, since the first takes as long as all others."""
    import numpy as np

    import scorer.disclosure
    import scorer.outputs  # noqa: F401
    from scorer.metrics.kernels import count

    count(np.zeros(1, dtype=np.uint64), 1, np.zeros((1, 1)))
    for_rules()
