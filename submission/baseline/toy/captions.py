"""Captions of synthetic pictures: what the tiny CLIP of the test bed learns its words from."""

from collections.abc import Sequence

import numpy as np

from submission.baseline.toy.images import CAMERAS, EYES, GRADES, Ints, Subjects, lesions

OPENERS = ("a photo of", "a fundus photograph of", "an image of", "a picture of", "")
CLASSES = ("no retinopathy", "mild retinopathy", "moderate retinopathy", "severe retinopathy")  # of GRADES, in words
PERSONS = (
    ("a young woman", "a young man"),
    ("a middle aged woman", "a middle aged man"),
    ("an old woman", "an old man"),
)
AMOUNTS = ("no", "a few", "several", "many")
DARK, BRIGHT = (1, 8, 18), (1, 3, 9)  # from how many marks on the next word is said; a blot counts as two dots
# What the captions of a batch tell, and how often. All of a batch tell the same thing, so that they differ in what is
# seen and not in how much is said.
TOPICS = {"lesions": 0.25, "dark": 0.1, "bright": 0.1, "grade": 0.45, "camera": 0.07, "person": 0.03}
# Most writers grade by a stricter scale than the labels, and err: bare words for grades work, not as the labels want.
# Those who name the scale of the labels use it well, so that there are better words, for a learner to find.
STRICTER = 0.3  # from this place within a grade on the next one is written
SLIPS = 0.1  # shares of grades written one too high, and one too low
STUDY = "by the study scale"
SCALES = {"": 0.4, "by a strict scale": 0.1, STUDY: 0.5}


def captions(eyes: Subjects, rng: np.random.Generator) -> list[str]:
    """A caption an eye, all of one topic drawn from ``rng``."""
    topic = str(rng.choice(list(TOPICS), p=list(TOPICS.values())))
    opener = OPENERS[rng.integers(len(OPENERS))]
    if topic == "grade":
        scale = str(rng.choice(list(SCALES), p=list(SCALES.values())))
        opener = f"{opener} {scale}".strip() if rng.random() < 0.5 else scale or opener
        texts = [CLASSES[grade] for grade in written_grades(eyes, scale == STUDY, rng)]
    else:
        texts = list(_texts(eyes, topic))
    return [f"{opener} {text}.".strip() for text in texts]


def _texts(eyes: Subjects, topic: str) -> Sequence[str]:
    if topic == "camera":
        names = [camera.name.replace("-", " ") for camera in CAMERAS]
        return [
            f"the {EYES[eye]} eye taken with {names[camera]}" for eye, camera in zip(eyes.eye, eyes.camera, strict=True)
        ]
    if topic == "person":
        return [
            f"the {EYES[eye]} eye of {PERSONS[age][sex]}"
            for eye, age, sex in zip(eyes.eye, eyes.age, eyes.sex, strict=True)
        ]
    return [f"a retina with {told}" for told in _lesions(eyes, topic)]


def _lesions(eyes: Subjects, topic: str) -> Sequence[str]:
    counts = lesions(eyes)
    dark = np.searchsorted(DARK, counts["dots"] + 2 * counts["blots"], side="right")
    bright = np.searchsorted(BRIGHT, counts["spots"], side="right")
    told = [
        (f"{AMOUNTS[some]} dark dots", f"{AMOUNTS[others]} bright spots")
        for some, others in zip(dark, bright, strict=True)
    ]
    if topic == "lesions":
        return [" and ".join(pair) for pair in told]
    return [pair[topic == "bright"] for pair in told]


def written_grades(eyes: Subjects, study: bool, rng: np.random.Generator) -> Ints:
    """The grades (N,) that captions tell: the drawn ones by the ``study`` scale, else stricter ones, some one off."""
    if study:
        return eyes.grade
    slip = rng.random(len(eyes))
    step = np.where(slip < SLIPS, 1, np.where(slip < 2 * SLIPS, -1, 0)) + (eyes.within > STRICTER)
    return np.asarray(np.clip(eyes.grade + step, 0, len(GRADES) - 1), np.int64)
