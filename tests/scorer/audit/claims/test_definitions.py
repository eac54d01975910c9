"""Definitions without bins against scikit-learn and plain formulas."""

import numpy as np
import pytest
from sklearn import metrics as sk

from scorer.audit.claims.calibration import CLASS_SUM, CLASSWISE, FINDINGS, POOLED, POSITIVE, TOP, TOP_SHARED
from scorer.audit.claims.definition import Definition, merged, numbers
from scorer.audit.claims.evaluating import Evaluated
from scorer.audit.claims.subject import subject_of
from scorer.audit.shapes import Floats, PredictionSet, Scale, Scaled
from scorer.metrics import ace_nixon, classwise_ece, ece, ece_top
from tests.scorer.audit.claims.sets import binary, made, multiclass


def values(one: PredictionSet, metric: str) -> dict[Definition, float]:
    """Every definition of ``metric`` with its value."""
    subject = subject_of(one)
    assert not isinstance(subject, str), subject
    found = Evaluated(subject).of(metric)
    assert not isinstance(found, str), found
    assert len(set(found.definitions)) == len(found.definitions) == len(found.values)
    return dict(zip(found.definitions, found.values.tolist(), strict=True))


def by_form(one: PredictionSet, metric: str) -> dict[str, float]:
    """The values by form, or by 'form, reading'."""
    return {key.words: value for key, value in values(one, metric).items()}


def _close(found: float, wanted: float) -> bool:
    return bool(found == pytest.approx(wanted, abs=1e-12))


def _classes(one: PredictionSet) -> tuple[Floats, np.ndarray]:
    assert one.p is not None
    assert one.y is not None
    return one.p, one.y


def test_readings_of_two_classes() -> None:
    """Positive class, top label and class-wise are the kit's, in equal-mass bins."""
    one = binary(200)
    p, y = _classes(one)
    found = values(one, "ece")
    rule = {key.rule for key in found if key.rule.startswith("equal-mass")}.pop()

    def of(reading: str) -> float:
        return found[Definition("mean gap weighted by bin size", reading, rule, "", 15)]

    assert _close(of(POSITIVE), ece(p[:, 0], y).value)
    assert _close(of(TOP), ece_top(p[:, 0], y).value)
    assert _close(of(CLASSWISE), classwise_ece(p[:, 0], y).value)


def test_readings_of_many_classes() -> None:
    """Top label (ties too) and class-wise are the kit's, and Nixon's ACE is among the ACE."""
    p, y = _classes(multiclass(200, 3))
    p = np.round(p, 1)
    one = made(p, y, kind="multiclass")
    found = values(one, "ece")
    rule = {key.rule for key in found if key.rule.startswith("equal-mass")}.pop()

    def at(reading: str, form: str = "mean gap weighted by bin size") -> Definition:
        return Definition(form, reading, rule, "", 15)

    assert _close(found[at(TOP_SHARED)], ece(p, y).value)
    assert not _close(found[at(TOP)], found[at(TOP_SHARED)])
    assert _close(found[at(CLASSWISE)], classwise_ece(p, y).value)
    assert _close(found[at(CLASS_SUM)], 3 * classwise_ece(p, y).value)
    nixon = values(one, "ace")[at(CLASSWISE, "plain mean of the gaps of non-empty bins")]
    assert _close(nixon, ace_nixon(p, y).value)


def test_findings_without_a_label_count_nowhere() -> None:
    """Mean over findings and all pooled, where -1 is no label."""
    rng = np.random.default_rng(5)
    p, y = rng.random((80, 3)), rng.integers(-1, 2, (80, 3))
    found = values(made(p, y, kind="multilabel"), "ece")
    rule = {key.rule for key in found if key.rule.startswith("equal-mass")}.pop()
    known = [y[:, k] >= 0 for k in range(3)]
    each = [ece(p[known[k], k], y[known[k], k]).value for k in range(3)]
    assert _close(found[Definition("mean gap weighted by bin size", FINDINGS, rule, "", 15)], float(np.mean(each)))
    pooled = ece(p[y >= 0], y[y >= 0]).value
    assert _close(found[Definition("mean gap weighted by bin size", POOLED, rule, "", 15)], pooled)


def test_two_class_scores_are_those_of_scikit_learn() -> None:
    """Ties included."""
    p, y = _classes(binary(150))
    p = np.round(p[:, 0], 2)
    one = made(p, y)
    decided = p >= 0.5
    from_half = "positive from p = 0.5 on"
    precision, recall, _ = sk.precision_recall_curve(y, p)
    assert _close(by_form(one, "auroc")["area under the ROC curve"], sk.roc_auc_score(y, p))
    assert _close(by_form(one, "auroc")["of the decisions p >= 0.5"], sk.balanced_accuracy_score(y, decided))
    assert _close(by_form(one, "auprc")["average precision"], sk.average_precision_score(y, p))
    trapezoid = by_form(one, "auprc")["trapezoids under the precision-recall points"]
    assert _close(trapezoid, sk.auc(recall, precision))
    assert _close(by_form(one, "brier")["mean squared error of P(positive)"], sk.brier_score_loss(y, p))
    assert _close(by_form(one, "accuracy")[f"share of right decisions, {from_half}"], sk.accuracy_score(y, decided))
    for average in ("macro", "weighted", "micro", "binary"):
        words = {
            "macro": "mean F1 over classes, undefined as 0",
            "weighted": "mean F1 by class size",
            "micro": "F1 of all classes pooled",
            "binary": "F1 of the positive class",
        }[average]
        assert _close(by_form(one, "f1")[f"{words}, {from_half}"], sk.f1_score(y, decided, average=average))
    positive = f"of the positive class, {from_half}"
    assert _close(by_form(one, "sensitivity")[f"sensitivity {positive}"], sk.recall_score(y, decided))
    assert _close(by_form(one, "specificity")[f"specificity {positive}"], sk.recall_score(1 - y, ~decided))
    assert _close(by_form(one, "precision")[f"precision {positive}"], sk.precision_score(y, decided))
    false, true, at = sk.roc_curve(y, p, drop_intermediate=False)
    best = int(np.argmax(true - false))
    youden = "of the positive class, at Youden's threshold of these rows"
    assert _close(by_form(one, "sensitivity")[f"sensitivity {youden}"], true[best])
    assert _close(by_form(one, "specificity")[f"specificity {youden}"], 1 - false[best])
    most = max(sk.accuracy_score(y, p >= cut) for cut in at)
    accurate = by_form(one, "accuracy")["share of right decisions, at the most accurate threshold of these rows"]
    assert _close(accurate, most)


def test_many_class_scores_are_those_of_scikit_learn() -> None:
    """AUROC's averages, F1's, kappa's weights and log loss."""
    one = multiclass(150, 4)
    p, y = _classes(one)
    said = p.argmax(axis=1)
    first = "likeliest class, the first of ties"
    found = by_form(one, "auroc")
    for words, multi, average in (
        ("macro: mean over classes, one against rest", "ovr", "macro"),
        ("mean by number of images of the class, one against rest", "ovr", "weighted"),
        ("micro: all classes pooled", "ovr", "micro"),
        ("one against one, mean over pairs (Hand and Till)", "ovo", "macro"),
        ("one against one, mean by size of the pair", "ovo", "weighted"),
    ):
        assert _close(found[words], sk.roc_auc_score(y, p, multi_class=multi, average=average)), words
    for words, weights in (("unweighted", None), ("linear weights", "linear"), ("quadratic weights", "quadratic")):
        wanted = sk.cohen_kappa_score(y, said, weights=weights)
        assert _close(by_form(one, "kappa")[f"Cohen's kappa, {words}, {first}"], wanted)
    for what, score in (("F1", sk.f1_score), ("sensitivity", sk.recall_score), ("precision", sk.precision_score)):
        found = by_form(one, what.lower())
        assert _close(found[f"mean {what} over classes, undefined as 0, {first}"], score(y, said, average="macro"))
        assert _close(found[f"mean {what} by class size, {first}"], score(y, said, average="weighted"))
    balanced = by_form(one, "balanced_accuracy")[f"mean recall over classes, {first}"]
    assert _close(balanced, sk.balanced_accuracy_score(y, said))
    assert _close(by_form(one, "nll")["nats, floor 1e-12"], sk.log_loss(y, p))
    assert _close(by_form(one, "nll")["bits, floor 1e-12"], sk.log_loss(y, p) / np.log(2))
    one_hot = np.eye(4)[y]
    assert _close(by_form(one, "brier")["sum over classes"], float(((p - one_hot) ** 2).sum(axis=1).mean()))
    assert _close(by_form(one, "brier")["root of: mean over classes"], float(np.sqrt(((p - one_hot) ** 2).mean())))


def test_what_is_done_about_zeros_is_part_of_the_log_loss() -> None:
    """An event given probability 0: infinite, cut at a floor, or left out."""
    found = by_form(made([0.0, 0.5, 1.0], [1, 1, 1]), "nll")
    rest = np.log(2.0)
    assert found["nats, zeros never given or infinite"] == np.inf
    assert _close(found["nats, floor 1e-07"], (rest - np.log(1e-7)) / 3)
    assert _close(found["nats, floor 2.2e-16"], (rest - np.log(np.finfo(np.float64).eps)) / 3)
    assert _close(found["nats, log clamped at -100"], (rest + 100) / 3)
    assert _close(found["nats, rows of probability zero left out"], rest / 2)
    assert _close(found["nats, 1e-08 added"], -float(np.mean(np.log(np.array([0.0, 0.5, 1.0]) + 1e-8))))


def test_decisions_on_findings_are_means_or_pooled() -> None:
    """F1 of multilabel scores at one half."""
    rng = np.random.default_rng(8)
    p, y = rng.random((60, 3)), rng.integers(0, 2, (60, 3))
    found = by_form(made(p, y, kind="multilabel"), "f1")
    macro = found["F1 of the positive class, mean over findings, positive from p = 0.5 on"]
    micro = found["F1 of the positive class, all findings pooled, positive from p = 0.5 on"]
    assert _close(macro, sk.f1_score(y, p >= 0.5, average="macro"))
    assert _close(micro, sk.f1_score(y, p >= 0.5, average="micro"))


def test_scores_that_only_rank_have_an_auroc_and_no_ece() -> None:
    """Unbounded scores: ranks and thresholds of their own, and the reason for the rest."""
    ranks = Scaled(Scale.RANKS, False, True, "whole numbers 1 to n")
    subject = subject_of(made([3.0, -1.0, 2.0, 9.0], [1, 0, 0, 1], scale=ranks))
    assert not isinstance(subject, str)
    found = Evaluated(subject)
    assert not isinstance(found.of("auroc"), str)
    assert not isinstance(found.of("sensitivity"), str)
    assert "whole numbers 1 to n" in str(found.of("ece"))
    assert "whole numbers 1 to n" in str(found.of("nll"))


@pytest.mark.parametrize("metric", ["ece", "mce", "auroc", "auprc", "f1", "kappa", "nll", "brier", "sensitivity"])
@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel"])
def test_labels_of_one_class_leave_nothing_but_nan(metric: str, kind: str) -> None:
    """No warning, no error."""
    p = np.full((4, 3), 0.25) if kind != "binary" else np.full(4, 0.25)
    y = np.zeros((4, 3) if kind == "multilabel" else 4)
    assert values(made(p, y, kind=kind), metric)  # type: ignore[arg-type]


def test_definitions_merge_into_exactly_their_members() -> None:
    """Lines say no more than what matches."""
    many = [Definition("a", "r", "w", side, bins) for side in ("x", "y") for bins in (5, 6, 7, 9)]
    ((words, members),) = merged(many)
    assert set(members) == set(many)
    assert words == "a, r, 5-7 or 9 w bins, x or y"
    lines = merged([*many[:-1], Definition("b")])
    assert sorted(one for _, members in lines for one in members) == sorted([*many[:-1], Definition("b")])
    assert numbers([10]) == "10"
    assert numbers([21, 32, 33]) == "21, 32, 33"
    ((words, _),) = merged([Definition("a", "top"), Definition("a", "top, shared")])
    assert words == "a, top"
    ((words, _),) = merged([Definition("a", "class, first"), Definition("a", "class, last")])
    assert words == "a, class, first or last"
    assert numbers([15, 10]) == "10 or 15"
