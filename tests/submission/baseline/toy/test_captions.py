"""Captions: keyed, of one topic a batch, with words for grades that err."""

import numpy as np
import pytest

from submission.baseline.toy import images
from submission.baseline.toy.captions import CLASSES, STUDY, captions, written_grades


@pytest.fixture(scope="module")
def eyes() -> images.Subjects:
    return images.subjects(1, np.arange(1000) + images.MOST_PATIENTS)


def drawn(eyes: images.Subjects, batches: int) -> list[list[str]]:
    few = eyes.take(np.arange(64))
    return [captions(few, np.random.default_rng([1, batch])) for batch in range(batches)]


def test_a_generator_gives_the_same_captions_again(eyes: images.Subjects) -> None:
    assert drawn(eyes, 5) == drawn(eyes, 5)


def test_everything_is_told_at_times_and_grades_in_a_part_only(eyes: images.Subjects) -> None:
    batches = drawn(eyes, 300)
    every = [text for batch in batches for text in batch]
    for words in ("left eye", "right eye", "camera d", "old woman", "young man", "many bright spots", "no dark dots"):
        assert any(words in text for text in every), words
    graded = np.mean([any("retinopathy" in text for text in batch) for batch in batches])
    assert 0.35 < graded < 0.55
    assert all(text.endswith(".") and not text.startswith(" ") and "  " not in text for text in every)


def test_a_batch_tells_of_one_thing(eyes: images.Subjects) -> None:
    for batch in drawn(eyes, 60):
        marks = {(" eye" in text, "retinopathy" in text, "dots" in text, "spots" in text) for text in batch}
        assert len(marks) == 1


def test_written_grades_err_but_for_the_study_scale(eyes: images.Subjects) -> None:
    rng = np.random.default_rng(1)
    np.testing.assert_array_equal(written_grades(eyes, True, rng), eyes.grade)
    written = written_grades(eyes, False, rng)
    assert 0.35 < (written == eyes.grade).mean() < 0.65
    assert (written > eyes.grade).mean() > 3 * (written < eyes.grade).mean()


def test_captions_use_the_words_of_the_classes(eyes: images.Subjects) -> None:
    texts = [text for batch in drawn(eyes, 100) for text in batch if STUDY in text]
    assert texts
    assert all(any(name in text for name in CLASSES) for text in texts)
