"""Draws and replicates: what they must be, whatever numpy's version, the block size, the threads and the order of
files."""

from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from protocol.types import Kind
from scorer import bootstrap
from scorer.bootstrap import Draws, blocks, draws_for, left_out, replicates
from scorer.metrics import plan_for
from scorer.metrics.plan import Plan

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]
NAMES = {"binary": ("no", "yes"), "multiclass": ("a", "b", "c"), "multilabel": ("a", "b", "c")}
KINDS: list[Kind] = ["binary", "multiclass", "multilabel"]


class Images(NamedTuple):
    """One run's images; ties in the probabilities, patients with one image or several."""

    kind: Kind
    p: Floats
    y: NDArray[np.int64]
    patient: Rows
    patients: int

    def plan(self, rows: Rows | None = None) -> Plan:
        """The metrics of all images, or of ``rows``, repetitions allowed, each then a patient of its own."""
        if rows is None:
            p, y, patient, patients = self.p, self.y, self.patient, self.patients
        else:
            p, y, patient, patients = self.p[rows], self.y[rows], np.arange(len(rows)), len(rows)
        return plan_for(self.kind, NAMES[self.kind], p, y, patient, patients, thresholds=(0.2, 0.5), ordinal=True)


def images(kind: Kind, n: int = 60, patients: int = 13, seed: int = 0) -> Images:
    rng = np.random.default_rng(seed)
    if kind == "multiclass":
        raw = rng.integers(1, 9, (n, 3)).astype(np.float64)
        p, y = raw / raw.sum(axis=1, keepdims=True), rng.integers(0, 3, n)
    else:
        p = rng.integers(0, 21, (n, 1 if kind == "binary" else 3)) / 20
        y = rng.integers(0, 2, n) if kind == "binary" else rng.integers(-1, 2, (n, 3))
    patient = np.concatenate((np.arange(patients), rng.integers(0, patients, n - patients)))
    return Images(kind, p, y.astype(np.int64), patient, patients)


def same(a: Floats, b: Floats) -> bool:
    return a.shape == b.shape and a.tobytes() == b.tobytes()


def test_a_draw_takes_as_many_patients_as_there_are() -> None:
    weights = Draws(7, 13, 400).block(0, 400)
    assert weights.shape == (400, 13)
    assert weights.dtype == np.float64
    assert (weights.sum(axis=1) == 13).all()
    assert (weights == np.floor(weights)).all()


def test_draws_are_multinomial() -> None:
    weights = Draws(3, 50, 20_000).block(0, 20_000)
    # mean 1, variance 1 - 1/P, covariance -1/P; the bounds are five standard errors or more
    assert weights.mean(axis=0) == pytest.approx(np.ones(50), abs=0.04)
    assert weights.var(axis=0) == pytest.approx(np.full(50, 1 - 1 / 50), abs=0.07)
    assert np.cov(weights[:, 0], weights[:, 1])[0, 1] == pytest.approx(-1 / 50, abs=0.04)
    assert (weights == 0).mean() == pytest.approx((1 - 1 / 50) ** 50, abs=0.003)


@pytest.mark.parametrize("patients", [1, 2, 3, 4, 5, 8, 31])
def test_blocks_do_not_matter(patients: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draws = Draws(2**127 + 5, patients, 23)
    whole = draws.block(0, 23)
    assert (np.concatenate([draws.block(i, i + 1) for i in range(23)]) == whole).all()
    monkeypatch.setattr(bootstrap, "BLOCK", 4)
    spans = list(blocks(draws.resamples, draws.patients))
    assert spans == [(0, 4), (4, 8), (8, 12), (12, 16), (16, 20), (20, 23)]
    assert (np.concatenate([draws.block(*span) for span in spans]) == whole).all()


def test_blocks_are_bounded_in_draws_and_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "BLOCK", 5)
    monkeypatch.setattr(bootstrap, "BLOCK_BYTES", 8 * 100)
    assert list(blocks(7, 10)) == [(0, 5), (5, 7)]
    assert list(blocks(7, 33)) == [(0, 3), (3, 6), (6, 7)]
    assert list(blocks(2, 10**9)) == [(0, 1), (1, 2)]
    assert list(blocks(3, 0)) == [(0, 3)]
    assert list(blocks(0, 3)) == []


def test_draws_are_fixed_for_good() -> None:
    # published intervals hang on these: a change here needs a new edition
    assert draws_for("2026.1 abc", "test", "all", patients=5, resamples=3).block(0, 3).tolist() == [
        [2, 1, 1, 0, 1],
        [2, 0, 2, 1, 0],
        [2, 0, 2, 1, 0],
    ]


def test_every_slice_and_task_has_its_own_draws() -> None:
    named = [
        ("k", "test", "all"),
        ("k", "external", "all"),
        ("k", "test", "b"),
        ("k2", "test", "all"),
        ("kt", "est", "all"),
    ]
    keys = {draws_for(*names, patients=9, resamples=1).key for names in named}
    assert len(keys) == len(named)
    assert draws_for(*named[0], patients=9, resamples=1) == draws_for(*named[0], patients=9, resamples=1)


def test_fewer_resamples_are_the_first_of_more() -> None:
    few, many = (draws_for("k", "test", "all", patients=6, resamples=n) for n in (3, 50))
    assert (few.block(0, 3) == many.block(0, 50)[:3]).all()


def test_no_patients_and_bad_counts() -> None:
    assert draws_for("k", "test", "all", patients=0, resamples=4).block(0, 4).shape == (4, 0)
    for patients, resamples in ((3, 0), (-1, 5)):
        with pytest.raises(ValueError, match="resamples"):
            draws_for("k", "test", "all", patients=patients, resamples=resamples)


@pytest.mark.parametrize("kind", KINDS)
def test_a_replicate_is_the_metric_of_the_drawn_patients_rows(kind: Kind) -> None:
    given = images(kind)
    plan, draws = given.plan(), Draws(11, given.patients, 12)
    found = replicates([plan], draws)[0]
    for own, taken in zip(found, draws.block(0, 12).astype(int), strict=True):
        rows = [np.flatnonzero(given.patient == i) for i in range(given.patients) for _ in range(taken[i])]
        assert_recomputed(plan, own, given.plan(np.concatenate(rows)))


@pytest.mark.parametrize("kind", KINDS)
def test_left_out_is_the_metric_without_the_patients_rows(kind: Kind) -> None:
    given = images(kind)
    plan = given.plan()
    found = left_out([plan], given.patients)
    assert found.shape == (1, given.patients, len(plan.headings))
    for i, own in enumerate(found[0]):
        assert_recomputed(plan, own, given.plan(np.flatnonzero(given.patient != i)))


def assert_recomputed(plan: Plan, own: Floats, again: Plan) -> None:
    """Values ``own`` of ``plan`` in a resample are those of ``again``, the plan of its rows.

    A mean over present classes keeps the classes of the whole set: it is undefined where the resample lacks one.
    """
    points = again.points()
    assert [heading.metric for heading in plan.headings] == [point.metric for point in points]
    for heading, value, point in zip(plan.headings, own, points, strict=True):
        if np.isnan(value) and heading.metric.endswith("_present"):
            continue
        rounding = 1e-7 if heading.costly else 1e-11
        assert value == pytest.approx(point.value, abs=rounding, rel=rounding, nan_ok=True), heading


@pytest.mark.parametrize("kind", KINDS)
def test_neither_threads_nor_blocks_change_a_bit(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    given = images(kind)
    draws = Draws(5, given.patients, 41)

    def made(workers: int | None) -> tuple[Floats, Floats]:
        plans = [given.plan(), given.plan()]  # anew, so that threads begin with plans that nothing has touched
        return (
            replicates(plans, draws, costly=20, workers=workers),
            left_out(plans, given.patients, workers=workers),
        )

    whole = made(1)
    monkeypatch.setattr(bootstrap, "BLOCK", 3)
    for workers in (1, 2, 5, None):
        for found, wanted in zip(made(workers), whole, strict=True):
            assert same(found, wanted)


def test_plans_are_evaluated_side_by_side() -> None:
    one, other = images("binary", seed=0), images("binary", seed=1)._replace(patient=images("binary", seed=0).patient)
    draws = Draws(5, one.patients, 30)
    both = replicates([one.plan(), other.plan()], draws)
    assert both.shape == (2, 30, len(one.plan().headings))
    assert same(both[:1], replicates([one.plan()], draws))
    assert same(both[1:], replicates([other.plan()], draws))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("costly", [0, 1, 7, 8, 30])
def test_costly_metrics_stop_after_their_draws(kind: Kind, costly: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "BLOCK", 4)
    given = images(kind, n=40, patients=9)
    plan, draws = given.plan(), Draws(5, given.patients, 30)
    whole, found = replicates([plan], draws, costly=30), replicates([plan], draws, costly=costly)
    mask = plan.costly
    names = {
        heading.metric.removesuffix("_present").removesuffix("_macro") for heading in plan.headings if heading.costly
    }
    assert names == {"citl", "cal_intercept", "cal_slope", "ici", "e50", "e90", "emax", "smooth_ece"}
    assert same(found[..., ~mask], whole[..., ~mask])
    assert same(found[:, :costly, mask], whole[:, :costly, mask])
    assert np.isnan(found[:, costly:, mask]).all()


@pytest.mark.parametrize("kind", KINDS)
def test_no_patients_give_no_values(kind: Kind) -> None:
    empty = images(kind)
    none = np.empty(0, dtype=np.intp)
    plan = empty.plan(none)
    found = replicates([plan], Draws(5, 0, 6))
    assert found.shape == (1, 6, len(plan.headings))
    assert np.isnan(found).all()
    assert left_out([plan], 0).shape == (1, 0, len(plan.headings))


def test_many_patients_are_left_out_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    p, y, patient = rng.random(30), rng.integers(0, 2, 30), np.arange(30) % 10
    plan = plan_for("binary", ("no", "yes"), p[:, None], y, patient, 10, families=("proper", "logistic"))
    monkeypatch.setattr(bootstrap, "GROUPS", 5)
    monkeypatch.setattr(bootstrap, "COSTLY_GROUPS", 2)
    found = bootstrap.left_out([plan], 10)[0]
    assert found.shape == (5, len(plan.headings))
    for groups, costly in ((5, False), (2, True)):
        for group in range(groups):
            weights = (np.arange(10) % groups != group).astype(np.float64)[None, :]
            wanted = plan.evaluate(weights)[0][0]
            mask = plan.costly == costly
            assert found[group, mask] == pytest.approx(wanted[mask], abs=1e-9)
    assert np.isnan(found[2:, plan.costly]).all()
