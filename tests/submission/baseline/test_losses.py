import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from submission.baseline import losses
from submission.baseline.config import LossConfig, LossName
from submission.baseline.errors import BaselineError
from submission.baseline.losses import Criterion

# three images, three classes: margins (1, 3), (-1, 1), (2, 2)
LOGITS = torch.tensor([[3.0, 2.0, 0.0], [1.0, 0.0, -1.0], [0.0, 0.0, 2.0]])
LABELS = torch.tensor([0, 1, 2])
NAMES: tuple[LossName, ...] = tuple(losses.DEFAULTS)
FORMULAS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "ce": lambda z, y, zs: losses.ce(z, y),
    "label-smoothing": lambda z, y, zs: losses.label_smoothing(z, y),
    "label-smoothing-others": lambda z, y, zs: losses.label_smoothing_others(z, y),
    "mdca": lambda z, y, zs: losses.mdca(z, y),
    "mbls": lambda z, y, zs: losses.mbls(z, 1.0),
    "eccv-zs": losses.eccv_zs,
    "eccv-penalty": lambda z, y, zs: losses.eccv_penalty(z, zs),
    "margin": lambda z, y, zs: losses.margin(z, y),
    "mcm": lambda z, y, zs: losses.mcm(z, y),
}


def drawn(seed: int, rows: int, classes: int, scale: float = 3.0) -> tuple[Tensor, Tensor, Tensor]:
    """Logits, labels and zero-shot logits, float64."""
    stream = torch.Generator().manual_seed(seed)
    z = torch.randn(rows, classes, generator=stream, dtype=torch.float64) * scale
    zs = torch.randn(rows, classes, generator=stream, dtype=torch.float64)
    return z, torch.randint(classes, (rows,), generator=stream), zs


def test_mcm_is_that_of_the_paper() -> None:
    # mean of 1, 3, -1, 1, 2, 2 is 8 / 6; their squares sum to 20
    mean, variance = 8 / 6, 20 / 6 - (8 / 6) ** 2
    assert losses.mcm(LOGITS, LABELS).item() == pytest.approx(-0.1 * mean + 0.01 * variance, abs=1e-6)
    assert losses.mcm(LOGITS, LABELS, 1.0, 0.0).item() == pytest.approx(-mean, abs=1e-6)
    assert losses.mcm(LOGITS, LABELS, 0.0, 1.0).item() == pytest.approx(variance, abs=1e-6)
    assert Criterion(LossConfig(name="mcm"), 3)(LOGITS, LABELS, LOGITS).item() == pytest.approx(
        functional.cross_entropy(LOGITS, LABELS).item() - 0.1 * mean + 0.01 * variance, abs=1e-6
    )


def test_margin_is_to_the_hardest_wrong_class() -> None:
    # 1, -1, 2: mean 2 / 3, squares sum to 6
    mean, variance = 2 / 3, 2 - (2 / 3) ** 2
    assert losses.hardest_margins(LOGITS, LABELS).tolist() == [1.0, -1.0, 2.0]
    assert losses.margin(LOGITS, LABELS).item() == pytest.approx(-0.1 * mean + 0.01 * variance, abs=1e-6)


@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(2, 7))
@settings(max_examples=40, deadline=None)
def test_variance_of_mcm_is_between_and_within_rows(seed: int, rows: int, classes: int) -> None:
    z, y, _ = drawn(seed, rows, classes)
    pairs = torch.stack([torch.stack([z[i, y[i]] - z[i, k] for k in range(classes) if k != y[i]]) for i in range(rows)])
    between = pairs.mean(1).var(correction=0)
    within = pairs.var(dim=1, correction=0).mean()
    mean, variance = losses.moments(*losses.pair_margins(z, y))
    assert mean.item() == pytest.approx(pairs.mean().item(), abs=1e-12)
    assert variance.item() == pytest.approx((between + within).item(), rel=1e-12, abs=1e-12)
    if classes == 2:
        assert within.item() == 0
        assert losses.mcm(z, y).item() == pytest.approx(losses.margin(z, y).item(), abs=1e-14)


def test_margin_and_mcm_differ_from_three_classes_on() -> None:
    assert losses.mcm(LOGITS, LABELS).item() != pytest.approx(losses.margin(LOGITS, LABELS).item(), abs=1e-3)


def test_variance_is_centred() -> None:
    z = LOGITS + torch.tensor([[1000.0, 0.0, 0.0]] * 3)
    margins = torch.tensor([1001.0, 1003.0, -1001.0, 1.0, -998.0, 2.0], dtype=torch.float64)
    found = losses.moments(*losses.pair_margins(z, LABELS))[1].item()
    assert found == pytest.approx(margins.var(correction=0).item(), rel=1e-6)


def test_label_smoothing_has_two_conventions() -> None:
    z, y = torch.tensor([[2.0, 0.0]]), torch.tensor([0])
    log_p = z.log_softmax(1)[0]
    mixed = losses.label_smoothing(z, y, 0.1).item()
    others = losses.label_smoothing_others(z, y, 0.1).item()
    assert mixed == pytest.approx((-0.95 * log_p[0] - 0.05 * log_p[1]).item(), abs=1e-6)
    assert others == pytest.approx((-0.9 * log_p[0] - 0.1 * log_p[1]).item(), abs=1e-6)


@pytest.mark.parametrize("smooth", [losses.label_smoothing, losses.label_smoothing_others])
def test_label_smoothing_of_nothing_is_cross_entropy(smooth: Callable[[Tensor, Tensor, float], Tensor]) -> None:
    assert smooth(LOGITS, LABELS, 0.0).item() == pytest.approx(losses.ce(LOGITS, LABELS).item(), abs=1e-6)


def test_mdca_compares_frequencies_of_the_batch() -> None:
    z = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]]).log()
    # mean probabilities .3, .45, .25 against 1, 0, 0
    assert losses.mdca(z, torch.tensor([0, 0])).item() == pytest.approx((0.7 + 0.45 + 0.25) / 3, abs=1e-6)
    # and against .5, .5, 0
    assert losses.mdca(z, torch.tensor([0, 1])).item() == pytest.approx((0.2 + 0.05 + 0.25) / 3, abs=1e-6)


def test_mdca_knows_one_class_in_a_batch() -> None:
    z = torch.tensor([[9.0, 0.0, 0.0], [9.0, 0.0, 0.0]], requires_grad=True)
    value = losses.mdca(z, torch.tensor([0, 0]))
    (gradient,) = torch.autograd.grad(value, z)
    assert 0 < value.item() < 1e-3
    assert gradient.isfinite().all()
    assert Criterion(LossConfig(name="mdca"), 3).terms(z, torch.tensor([0, 0]), z)["present"].item() == pytest.approx(
        1 / 3
    )


def test_mbls_counts_every_entry() -> None:
    # gaps 0 1 3, 0 1 2, 2 2 0; beyond 1: 2, 1, 1 + 1
    assert losses.mbls(LOGITS, 1.0).item() == pytest.approx(5 / 9, abs=1e-6)


def test_mbls_within_the_margin_does_nothing() -> None:
    z = LOGITS.clone().requires_grad_()
    criterion = Criterion(LossConfig(name="mbls"), 3)
    value = criterion(z, LABELS, LOGITS)
    (gradient,) = torch.autograd.grad(value, z)
    (plain,) = torch.autograd.grad(losses.ce(z, LABELS), z)
    assert value.item() == losses.ce(LOGITS, LABELS).item()
    assert torch.equal(gradient, plain)
    assert criterion.terms(LOGITS, LABELS, LOGITS)["active"].item() == 0
    assert criterion.terms(LOGITS * 4, LABELS, LOGITS)["active"].item() == pytest.approx(1 / 9)


def test_eccv_zs_stretches_to_the_zero_shot_range() -> None:
    zero_shot = torch.tensor([[20.0, 22.0, 21.0]])
    stretched = torch.tensor([[22.0, 20 + 2 * 2 / 3, 20.0]])
    found = losses.eccv_zs(LOGITS[:1], LABELS[:1], zero_shot)
    assert found.item() == pytest.approx(functional.cross_entropy(stretched, LABELS[:1]).item(), abs=1e-6)


def test_eccv_zs_of_equal_logits_is_finite() -> None:
    z = torch.full((2, 3), 4.0, requires_grad=True)
    zero_shot = torch.tensor([[20.0, 22.0, 21.0]] * 2)
    value = losses.eccv_zs(z, torch.tensor([0, 2]), zero_shot)
    (gradient,) = torch.autograd.grad(value, z)
    assert value.item() == pytest.approx(math.log(3), abs=1e-6)
    assert gradient.isfinite().all()
    assert gradient[0, 0] < 0 < gradient[0, 1]
    assert Criterion(LossConfig(name="eccv-zs"), 3).terms(z, torch.tensor([0, 2]), zero_shot)["equal"].item() == 1


def test_eccv_zs_has_no_gradient_with_two_classes() -> None:
    z, y, zs = drawn(0, 8, 2)
    z.requires_grad_()
    (gradient,) = torch.autograd.grad(losses.eccv_zs(z, y, zs), z)
    assert gradient.abs().max() < 1e-14
    z, y, zs = drawn(0, 8, 3)
    z.requires_grad_()
    (gradient,) = torch.autograd.grad(losses.eccv_zs(z, y, zs), z)
    assert gradient.abs().max() > 1e-3


def test_eccv_zs_is_refused_with_two_classes() -> None:
    with pytest.raises(BaselineError, match=r"zero gradient.*choose another loss"):
        Criterion(LossConfig(name="eccv-zs"), 2)


def test_eccv_penalty_is_how_far_logits_leave_the_range() -> None:
    zero_shot = torch.tensor([[1.0, 2.0, 1.5]])
    # 3, 2, 0 against 1 to 2: one above by 1, one below by 1
    assert losses.eccv_penalty(LOGITS[:1], zero_shot).item() == pytest.approx(2 / 3, abs=1e-6)
    found = Criterion(LossConfig(name="eccv-penalty"), 3).terms(LOGITS[:1], LABELS[:1], zero_shot)
    assert found["regulariser"].item() == pytest.approx(10 * 2 / 3, abs=1e-5)
    assert found["outside"].item() == pytest.approx(2 / 3)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("classes", [2, 3, 5])
def test_gradients(name: LossName, classes: int) -> None:
    z, y, zs = drawn(classes, 4, classes)
    z.requires_grad_()
    assert torch.autograd.gradcheck(lambda logits: FORMULAS[name](logits, y, zs), (z,))
    if (name, classes) != ("eccv-zs", 2):
        criterion = Criterion(LossConfig(name=name), classes)
        assert torch.autograd.gradcheck(lambda logits: criterion(logits, y, zs), (z,))


@given(st.sampled_from(NAMES), st.integers(0, 10_000), st.integers(1, 8), st.integers(2, 6))
@settings(max_examples=80, deadline=None)
def test_order_of_rows_and_classes_does_not_matter(name: str, seed: int, rows: int, classes: int) -> None:
    z, y, zs = drawn(seed, rows, classes)
    stream = torch.Generator().manual_seed(seed + 1)
    row, column = torch.randperm(rows, generator=stream), torch.randperm(classes, generator=stream)
    place = torch.empty_like(column)
    place[column] = torch.arange(classes)
    formula = FORMULAS[name]
    moved = formula(z[row][:, column], place[y[row]], zs[row][:, column])
    assert moved.item() == pytest.approx(formula(z, y, zs).item(), rel=1e-12, abs=1e-12)


@given(st.sampled_from(NAMES), st.integers(0, 10_000), st.integers(1, 8), st.integers(2, 6))
@settings(max_examples=80, deadline=None)
def test_a_constant_a_row_does_not_matter(name: str, seed: int, rows: int, classes: int) -> None:
    z, y, zs = drawn(seed, rows, classes)
    shift = torch.randn(rows, 1, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    own = shift if name == "eccv-penalty" else 0 * shift  # which compares the levels of the two
    moved = FORMULAS[name](z + shift, y, zs + own)
    assert moved.item() == pytest.approx(FORMULAS[name](z, y, zs).item(), rel=1e-9, abs=1e-9)


def test_the_penalty_alone_depends_on_the_level() -> None:
    z, _, zs = drawn(1, 4, 3)
    assert losses.eccv_penalty(z + 5, zs).item() > losses.eccv_penalty(z, zs).item() + 1


@pytest.mark.parametrize("name", NAMES)
def test_half_precision_is_worked_on_in_full(name: LossName) -> None:
    z, y, zs = drawn(3, 4, 3)
    half = FORMULAS[name](z.bfloat16(), y, zs.bfloat16())
    assert half.dtype == torch.float32
    assert half.item() == pytest.approx(
        FORMULAS[name](z.bfloat16().double(), y, zs.bfloat16().double()).item(), rel=1e-5
    )


@pytest.mark.parametrize("name", NAMES)
def test_terms_add_up(name: LossName) -> None:
    z, y, zs = drawn(7, 6, 4)
    criterion = Criterion(LossConfig(name=name), 4)
    terms = criterion.terms(z, y, zs)
    assert (terms["supervised"] + terms["regulariser"]).item() == pytest.approx(criterion(z, y, zs).item(), abs=1e-12)
    assert all(value.shape == () and not value.requires_grad for value in terms.values())


def test_zero_shot_logits_take_no_gradient() -> None:
    z, y, zs = drawn(2, 3, 3)
    zs.requires_grad_()
    for name in ("eccv-zs", "eccv-penalty"):
        assert not FORMULAS[name](z, y, zs).requires_grad


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (LossConfig(name="ce", alpha=0.1), "ce: alpha is set, but it has no settings"),
        (LossConfig(name="mdca", margin=3.0), "mdca: margin is set, but it has beta"),
        (LossConfig(name="label-smoothing", alpha=1.0), r"alpha is 1; it must lie in \[0, 1\)"),
    ],
)
def test_settings_that_a_loss_does_not_have(config: LossConfig, said: str) -> None:
    with pytest.raises(BaselineError, match=said):
        Criterion(config, 3)


def test_one_class_is_refused() -> None:
    with pytest.raises(BaselineError, match="two or more"):
        Criterion(LossConfig(), 1)


def test_words_hold_the_settings() -> None:
    assert (
        "0.2 * mean + 0.05 * population variance" in Criterion(LossConfig(name="mcm", alpha=0.2, beta=0.05), 3).words()
    )
    for name in NAMES:
        told = Criterion(LossConfig(name=name), 3).words()
        assert "{" not in told
        assert all(f"{value:g}" in told for value in losses.DEFAULTS[name].values())


def test_a_weight_of_zero_leaves_cross_entropy() -> None:
    for config in (LossConfig(name="mcm", alpha=0, beta=0), LossConfig(name="mdca", beta=0)):
        assert Criterion(config, 3)(LOGITS, LABELS, LOGITS).item() == losses.ce(LOGITS, LABELS).item()
