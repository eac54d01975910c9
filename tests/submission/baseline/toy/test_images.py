"""The generator: pictures that are the same everywhere, and differ as eyes, grades and cameras do."""

import hashlib

import numpy as np
import pytest

from submission.baseline.toy import images

DIGEST = "9df15db634d88be7e28228dcbcaf0983b0b267ff3898c2078a912cf54cec8c0a"


@pytest.fixture(scope="module")
def eyes() -> images.Subjects:
    return images.subjects(1, range(3000))


def test_pictures_are_those_of_every_machine(eyes: images.Subjects) -> None:
    few = eyes.take(np.arange(40))
    made = images.draw(few)
    assert made.shape == (40, 64, 64, 3)
    assert hashlib.sha256(made.tobytes()).hexdigest() == DIGEST


def test_a_picture_does_not_depend_on_its_company(eyes: images.Subjects) -> None:
    together = images.draw(eyes.take(np.arange(30)))
    alone = images.draw(eyes.take(np.array([17])))
    reordered = images.draw(eyes.take(np.arange(30)[::-1]))
    again = images.draw(images.subjects(1, [8]))  # rows 16 and 17
    np.testing.assert_array_equal(together[17], alone[0])
    np.testing.assert_array_equal(together, reordered[::-1])
    np.testing.assert_array_equal(together[16:18], again)


def test_another_seed_gives_other_pictures(eyes: images.Subjects) -> None:
    assert (images.draw(images.subjects(2, [1])) != images.draw(images.subjects(1, [1]))).mean() > 0.3


def test_sizes_show_the_same_eye() -> None:
    one = images.subjects(1, [4])
    small, large = (images.draw(one, size).mean((1, 2)) for size in (32, 96))
    np.testing.assert_allclose(small, large, rtol=0.1)


def test_the_population_is_as_described(eyes: images.Subjects) -> None:
    shares = np.bincount(eyes.label, minlength=4) / len(eyes)
    assert shares.min() > 0.15
    assert 0.015 < (eyes.label != eyes.grade).mean() < 0.045
    assert np.abs(eyes.label - eyes.grade).max() == 1
    assert 0.5 < np.corrcoef(eyes.grade[::2], eyes.grade[1::2])[0, 1] < 0.8
    for name in ("patient", "camera", "age", "sex"):
        own = getattr(eyes, name)
        np.testing.assert_array_equal(own[::2], own[1::2])
    ill = [(eyes.grade[eyes.camera == place] >= 2).mean() for place in range(4)]
    assert ill[3] > max(ill[:3]) + 0.1
    by_age = [(eyes.grade[eyes.age == place] >= 2).mean() for place in range(3)]
    assert by_age[0] < by_age[1] < by_age[2]


def test_lesions_rise_with_the_grade_and_drusen_with_age(eyes: images.Subjects) -> None:
    found = images.lesions(eyes)
    for kind in ("dots", "blots", "spots"):
        means = [found[kind][eyes.grade == grade].mean() for grade in range(4)]
        assert means == sorted(means)
        assert means[3] > 4
    assert found["dots"][eyes.grade == 0].max() == 1
    assert found["dots"][eyes.grade == 1].min() >= 3
    old = [found["drusen"][(eyes.age == age) & (eyes.grade == 0)].mean() for age in range(3)]
    assert old == sorted(old)
    assert abs(found["drusen"][eyes.grade == 0].mean() - found["drusen"][eyes.grade == 1].mean()) < 0.3


def test_grades_can_be_seen(eyes: images.Subjects) -> None:
    rows = np.concatenate([np.flatnonzero((eyes.grade == grade) & (eyes.camera == 0))[:25] for grade in range(4)])
    made = images.draw(eyes.take(rows)).astype(int).reshape(4, 25, -1, 3)
    blue = (made[..., 2] > 95).sum(-1).mean(1)  # bright spots, and the optic disc
    dark = ((made[..., 0] > 60) & (made[..., 0] < 125) & (made[..., 1] < 45)).sum(-1).mean(1)
    assert blue[3] > blue[2] > blue[1] - 3
    assert dark[3] > dark[2] > dark[0]


def test_the_optic_disc_lies_towards_the_nose(eyes: images.Subjects) -> None:
    few = eyes.take(np.flatnonzero(eyes.grade == 0)[:60])
    green = images.draw(few)[..., 1].astype(int)
    left, right = (green[:, :, part].max((1, 2)) for part in (slice(0, 24), slice(40, 64)))
    brighter = np.where(few.eye == 1, right > left, left > right)
    assert brighter.mean() > 0.95


def test_cameras_differ_in_colour(eyes: images.Subjects) -> None:
    healthy = eyes.take(np.flatnonzero((eyes.grade == 0) & (eyes.age == 0)))
    tints = []
    for place in range(len(images.CAMERAS)):
        made = images.draw(healthy.take(np.flatnonzero(healthy.camera == place)[:20])).mean((0, 1, 2))
        tints.append(made / made.sum())
    apart = [np.abs(a - b).max() for i, a in enumerate(tints) for b in tints[:i]]
    assert min(apart) > 0.02
