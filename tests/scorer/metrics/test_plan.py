"""The set of metrics of each kind of task: names, classes and readings, in the order of the table."""

import numpy as np
import pytest

from scorer.metrics import Kind, plan_for


def names(kind: Kind) -> list[tuple[str, str | None, str | None]]:
    p, classes = np.full((4, 1 if kind == "binary" else 3), 0.25), ["no", "yes"] if kind == "binary" else list("abc")
    y = np.zeros((4, 3) if kind == "multilabel" else 4, dtype=np.int64)
    plan = plan_for(kind, classes, p, y, np.arange(4), 4)
    return [(one.metric, one.class_, one.reading) for one in plan.points()]


def test_names_of_the_metrics() -> None:
    positive, per_class = "positive class", "class-wise"
    assert names("binary") == [
        ("brier_binary", None, None),
        ("nll", None, None),
        ("accuracy", None, None),
        ("ece", None, positive),
        ("auroc", None, positive),
        ("classwise_ece", "no", per_class),
        ("classwise_ece", "yes", per_class),
        ("classwise_ece", None, per_class),
    ]
    assert names("multiclass") == [
        ("brier", None, None),
        ("nll", None, None),
        ("accuracy", None, None),
        ("ece", None, "top-label"),
        *((metric, k, per_class) for k in "abc" for metric in ("classwise_ece", "auroc")),
        ("classwise_ece", None, per_class),
        ("auroc_macro", None, per_class),
        ("auroc_macro_present", None, per_class),
    ]
    five = [("brier_binary", None), ("nll", None), ("accuracy", None), ("ece", positive), ("auroc", positive)]
    assert names("multilabel") == [
        *((metric, k, reading) for k in "abc" for metric, reading in five),
        *((metric + end, None, reading) for metric, reading in five for end in ("_macro", "_macro_present")),
    ]


@pytest.mark.parametrize(
    ("kind", "p", "y"),
    [
        ("binary", (4, 2), (4,)),
        ("multiclass", (4, 2), (4,)),
        ("multiclass", (4, 3), (4, 3)),
        ("multilabel", (4, 3), (4,)),
        ("multilabel", (4, 3), (3, 3)),
    ],
)
def test_shapes_that_do_not_fit(kind: Kind, p: tuple[int, ...], y: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        plan_for(kind, list("abc"), np.full(p, 0.25), np.zeros(y, dtype=np.int64), np.arange(4), 4)
