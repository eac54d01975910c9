"""What holds for every data set that the kit names."""

import re
from pathlib import Path

import pytest

from protocol.task import Task
from splits.datasets import DATASETS, DataSet
from splits.errors import SplitError

NINE = (
    "aptos-2019", "eyepacs", "messidor", "messidor-2", "kather", "pannuke", "digestpath", "covidx", "rsna-2018",
)  # fmt: skip
every = pytest.mark.parametrize("data_set", DATASETS.values(), ids=list(DATASETS))


def test_the_nine_sets_of_the_benchmark_and_the_others_are_there() -> None:
    assert tuple(DATASETS)[:9] == NINE
    assert {"nih-cxr14", "chexpert", "camelyon17-wilds", "ham10000", "isic-2019", "pathmnist"} <= set(DATASETS)
    assert len(DATASETS) == 28


@every
def test_classes_make_a_task(data_set: DataSet) -> None:
    """A task can be declared with the classes as they are, each has a prompt, and none is misspelled."""
    task = Task(edition="e", name=data_set.key, kind=data_set.kind, classes=data_set.classes, ordinal=data_set.ordinal)
    assert len(task.classes) == len(data_set.prompt_classes)
    assert all(prompt.strip() == prompt != "" for prompt in data_set.prompt_classes)
    assert "dibetic" not in " ".join(data_set.prompt_classes).casefold()


@every
def test_facts_are_stated(data_set: DataSet) -> None:
    assert re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", data_set.key)
    assert DATASETS[data_set.key] is data_set
    for fact in (data_set.title, data_set.modality, data_set.licence, data_set.files):
        assert fact.strip() == fact != ""
    assert "https://" in data_set.source
    assert all(re.match(r"10\.\d{4,}/\S+$|no DOI", part) for part in data_set.citation.split("; ")[:1])
    assert data_set.limits
    # Either the unit is more than the image, or the reason why no patient is known is said.
    assert (data_set.unit == "image") == bool(data_set.unavailable)


@every
def test_an_empty_folder_is_refused_and_not_with_a_traceback(data_set: DataSet, tmp_path: Path) -> None:
    with pytest.raises(SplitError):
        data_set.read([tmp_path], {})
    with pytest.raises(SplitError):
        data_set.read([tmp_path / "absent.csv"], {})
