"""Labels and splits brought to predictions by id, and what row order alone is worth."""

import numpy as np
import pytest

from scorer.audit.shapes import Level
from scorer.audit.understanding import order_test, parse_map
from scorer.audit.understanding.order import chance_level
from tests.scorer.audit.understanding.tables import finding_codes, ids, loaded, softmax, understood

RNG = np.random.default_rng(5)
N = 300
Y = RNG.integers(0, 2, N)
P = np.clip(0.3 + 0.4 * Y + RNG.normal(0, 0.2, N), 0.001, 0.999)


@pytest.mark.parametrize(
    ("left", "right", "how"),
    [
        ("im{:04d}", "im{:04d}", "the id:"),
        ("data/test/im{:04d}.png", "im{:04d}.png", "without folders:"),
        ("C:\\data\\im{:04d}.PNG", "x/im{:04d}.jpg", "suffix and case"),
    ],
)
def test_labels_come_by_id_whatever_their_order(left: str, right: str, how: str) -> None:
    order = RNG.permutation(N)
    names = np.array(ids(N, right))
    labels = loaded({"file": names[order], "grade": Y[order]}, "labels.csv")
    evidence = understood(loaded({"image": ids(N, left), "prob": P}), labels=labels)
    (one,) = evidence.sets
    assert one.y is not None
    np.testing.assert_array_equal(one.y, Y)
    assert not evidence.ordered
    (said,) = [found for found in evidence.findings if found.code == "labels-joined"]
    assert how in said.title
    assert said.level is Level.NOTE


def test_ids_without_labels_are_counted_both_ways_and_stay_without() -> None:
    labels = loaded({"image": [*ids(N)[20:], "x1", "x2"], "label": [*Y[20:].tolist(), 0, 0]}, "labels.csv")
    evidence = understood(loaded({"image": ids(N), "prob": P}), labels=labels)
    (one,) = evidence.sets
    assert one.y is not None
    assert (one.y[:20] == -1).all()
    np.testing.assert_array_equal(one.y[20:], Y[20:])
    (said,) = [found for found in evidence.findings if found.code == "labels-joined"]
    assert (said.level, said.count) == (Level.WARNING, 20)
    assert "2 ids of it have no prediction" in said.title
    assert "labels-missing" in finding_codes(evidence)


def test_an_id_with_two_labels_has_none() -> None:
    labels = loaded({"image": [*ids(N), "im0000", "im0001"], "label": [*Y.tolist(), 1 - Y[0], Y[1]]}, "labels.csv")
    evidence = understood(loaded({"image": ids(N), "prob": P}), labels=labels)
    (one,) = evidence.sets
    assert one.y is not None
    assert one.y[0] == -1
    assert one.y[1] == Y[1]
    (said,) = [found for found in evidence.findings if found.code == "labels-conflict"]
    assert said.samples == ("im0000",)


def test_labels_with_other_ids_are_not_joined_by_order() -> None:
    labels = loaded({"image": ids(N, "other{:04d}"), "label": Y}, "labels.csv")
    evidence = understood(loaded({"image": ids(N), "prob": P}), labels=labels)
    assert evidence.sets[0].y is None
    assert "labels-not-joined" in finding_codes(evidence)
    short = loaded({"label": Y[:-1]}, "labels.csv")
    evidence = understood(loaded({"prob": P}), labels=short)
    assert evidence.sets[0].y is None
    assert not evidence.ordered


def test_row_order_is_used_only_without_ids_and_is_tested() -> None:
    labels = loaded({"label": Y}, "labels.csv")
    evidence = understood(loaded({"prob": P}), labels=labels)
    assert evidence.ordered
    (said,) = [found for found in evidence.findings if found.code == "order-not-verified"]
    assert said.level is Level.NOTE
    shuffled = loaded({"label": RNG.permutation(Y)}, "labels.csv")
    evidence = understood(loaded({"prob": P}), labels=shuffled)
    (said,) = [found for found in evidence.findings if found.code == "order-not-verified"]
    assert said.level is Level.WARNING
    assert "the order is probably wrong" in said.title


def test_the_order_of_classes_is_tested_by_accuracy_and_of_findings_by_auroc() -> None:
    c = RNG.integers(0, 4, N)
    z = RNG.normal(0, 1, (N, 4))
    z[np.arange(N), c] += 1.5
    table = {f"p_{k}": column for k, column in enumerate(softmax(z).T)}
    for labels, level in ((c, Level.NOTE), (RNG.permutation(c), Level.WARNING)):
        evidence = understood(loaded(table), labels=loaded({"label": labels}, "labels.csv"))
        said = order_test(evidence.sets[0])
        assert said.level is level
        assert "accuracy" in said.title
    y = RNG.integers(0, 2, (N, 3))
    scores = np.clip(0.4 + 0.2 * y + RNG.normal(0, 0.2, y.shape), 0.01, 0.99)
    columns = {f"prob_{name}": scores[:, k] for k, name in enumerate("ABC")}
    for rows, level in ((np.arange(N), Level.NOTE), (RNG.permutation(N), Level.WARNING)):
        truth = loaded({name: y[rows, k] for k, name in enumerate("ABC")}, "labels.csv")
        evidence = understood(loaded(columns), labels=truth, wishes=parse_map([], kind="multilabel"))
        said = order_test(evidence.sets[0])
        assert said.level is level
        assert "mean AUROC" in said.title


def test_the_formulas_agree_with_drawn_permutations() -> None:
    c = RNG.integers(0, 3, 60)
    z = RNG.normal(0, 1, (60, 3))
    z[np.arange(60), c] += 0.4
    (one,) = understood(loaded({"id": ids(60), "label": c} | dict(zip("012", softmax(z).T, strict=True)))).sets
    predicted = z.argmax(axis=1)
    drawn = np.array([(predicted == RNG.permutation(c)).mean() for _ in range(4_000)])
    expected = ((predicted == c).mean() - drawn.mean()) / drawn.std()
    found = float(order_test(one).title.split("z = ")[1].split(",")[0])
    assert found == pytest.approx(expected, abs=0.15)
    (one,) = understood(loaded({"id": ids(60), "label": Y[:60], "prob": np.round(P[:60], 1)})).sets
    ranks = np.array(
        [(np.round(P[:60], 1) < v).sum() + (np.round(P[:60], 1) == v).sum() / 2 for v in np.round(P[:60], 1)]
    )
    drawn = np.array([ranks[RNG.permutation(Y[:60]) == 1].sum() for _ in range(4_000)])
    expected = (ranks[Y[:60] == 1].sum() - drawn.mean()) / drawn.std()
    found = float(order_test(one).title.split("z = ")[1].split(",")[0])
    assert found == pytest.approx(expected, rel=0.05)


def test_scores_at_chance_level_are_noted_though_ids_joined_them() -> None:
    evidence = understood(loaded({"id": ids(N), "label": Y, "prob": RNG.random(N)}))
    assert chance_level(evidence.sets[0]) is not None
    assert "chance-level" in finding_codes(evidence)
    evidence = understood(loaded({"id": ids(N), "label": Y, "prob": P}))
    assert "chance-level" not in finding_codes(evidence)


def test_a_composite_id_is_joined_as_a_whole() -> None:
    pairs = {"case_id": np.arange(N) // 2, "side": ["L", "R"] * (N // 2)}
    order = RNG.permutation(N)
    labels = {name: np.asarray(values)[order] for name, values in pairs.items()} | {"label": Y[order]}
    evidence = understood(loaded(pairs | {"prob": P}), labels=loaded(labels, "labels.csv"))
    assert evidence.sets[0].y is not None
    np.testing.assert_array_equal(evidence.sets[0].y, Y)
