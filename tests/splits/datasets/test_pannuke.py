"""PanNuke: labels from counted nuclei, folds, and arrays that are not what they should be."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from splits.datasets.pannuke import PANNUKE
from splits.errors import SplitError


def mask(nuclei: dict[int, int]) -> NDArray[np.float64]:
    """(16, 16, 6): ``nuclei`` of each channel as single pixels with their own numbers; channel 5 is 1 where nothing "
    "is."""
    made = np.zeros((256, 6))
    place = 0
    for channel, count in nuclei.items():
        for number in range(count):
            made[place, channel] = 7 * number + 1
            place += 1
    made[place:, 5] = 1
    return made.reshape(16, 16, 6)


def fold(root: Path, number: int, tissues: list[str], masks: list[NDArray[np.float64]] | None) -> None:
    types = root / f"Fold {number}" / "images" / f"fold{number}"
    types.mkdir(parents=True)
    np.save(types / "types.npy", np.array(tissues))
    if masks is not None:
        beside = root / f"Fold {number}" / "masks" / f"fold{number}"
        beside.mkdir(parents=True)
        np.save(beside / "masks.npy", np.stack(masks))


def test_labels_from_counts_of_nuclei(tmp_path: Path) -> None:
    fold(
        tmp_path,
        1,
        ["Breast", "Breast", "Bile-duct", "Colon", "Skin", "Skin"],
        [
            mask({0: 10}),  # malignant
            mask({1: 3, 4: 2}),  # benign
            mask({0: 9}),  # too few
            mask({0: 10, 1: 23}),  # 10 of 34 with the background: under 30 %
            mask({}),  # no nucleus
            mask({0: 10, 1: 22}),  # 10 of 33: over 30 %
        ],
    )
    fold(tmp_path, 2, ["Adrenal_gland"], None)
    images = PANNUKE.read([tmp_path], {})
    assert images.frame.to_dict(as_series=False) == {
        "image": [*(f"fold1_{number:06d}" for number in range(6)), "fold2_000000"],
        "patient": [None] * 7,
        "site": ["pannuke"] * 7,
        "label": [1, 0, None, None, None, 1, None],
        "published": ["fold1"] * 6 + ["fold2"],
        "tissue": ["Breast", "Breast", "Bile-duct", "Colon", "Skin", "Skin", "Adrenal_gland"],
    }
    assert images.notes == (
        "fold1: 6 images, 1 without a nucleus and 2 with too few neoplastic nuclei have no label",
        "fold2: 1 images, no masks.npy, so no label: benign and malignant are derived from the masks",
    )
    assert images.unit == "image"
    assert "neither slide nor patient" in images.unavailable


def test_the_rule_is_that_of_the_scripts(tmp_path: Path) -> None:
    """Against the counts as the published rule states them: distinct values of a channel, less one."""
    draw = np.random.default_rng(5)
    masks = []
    for _ in range(40):
        counts = {0: int(draw.choice([0, 0, 5, 10, 12, 20])), 1: int(draw.integers(0, 40)), 4: int(draw.integers(0, 9))}
        masks.append(mask(counts))
    fold(tmp_path, 3, ["Liver"] * 40, masks)
    distinct = np.array([[len(np.unique(one[..., channel])) - 1 for channel in range(6)] for one in masks])
    tumour, every = distinct[:, 0], distinct.sum(axis=1)
    wanted = [
        1 if tumour[i] >= 10 and tumour[i] / every[i] > 0.3 else 0 if tumour[i] == 0 and distinct[i, :5].sum() else None
        for i in range(40)
    ]
    assert {0, 1, None} == set(wanted)
    assert PANNUKE.read([tmp_path], {}).frame["label"].to_list() == wanted


def test_single_files(tmp_path: Path) -> None:
    fold(tmp_path, 1, ["Breast"], [mask({1: 1})])
    files = [tmp_path / "Fold 1/masks/fold1/masks.npy", tmp_path / "Fold 1/images/fold1/types.npy"]
    assert PANNUKE.read(files, {}).frame.select("image", "label").rows() == [("fold1_000000", 0)]
    with pytest.raises(SplitError, match=r"no types\.npy of fold1"):
        PANNUKE.read([files[0], *_second(tmp_path)], {})


def _second(root: Path) -> list[Path]:
    fold(root, 2, ["Breast"], None)
    return [root / "Fold 2/images/fold2/types.npy"]


def test_arrays_that_are_refused(tmp_path: Path) -> None:
    class Opened:
        def __reduce__(self) -> tuple[object, ...]:
            return (Path.touch, (tmp_path / "opened",))

    types = tmp_path / "fold1" / "types.npy"
    types.parent.mkdir()
    masks = types.parent / "masks.npy"

    def refused(said: str) -> None:
        with pytest.raises(SplitError, match=said):
            PANNUKE.read([tmp_path], {})

    refused(r"there is no types\.npy")
    np.save(types, np.array([Opened()], dtype=object), allow_pickle=True)
    refused("no plain NumPy array")
    assert not (tmp_path / "opened").exists()
    types.write_bytes(b"not an array")
    refused("no plain NumPy array")
    np.savez(tmp_path / "archive.npz", types=np.array(["Breast"]))
    types.write_bytes((tmp_path / "archive.npz").read_bytes())
    refused("no plain NumPy array")
    np.save(types, np.array(["\ud800"]))
    refused("holds what is no text")
    np.save(types, np.array(["Breast"]))
    types.write_bytes(types.read_bytes()[:-4] + b"\xff\xff\xff\x7f")
    refused("holds what is no text")
    np.save(types, np.zeros(3))
    refused("wanted one text an image")
    np.save(types, np.array(["Breast", "Colon"]))
    np.save(masks, np.zeros((3, 16, 16, 6)))
    refused(r"wanted numbers of shape \(2, height, width, 6\)")
    np.save(masks, np.full((2, 16, 16, 6), np.nan))
    refused("image 0: a value is no number of a nucleus")
    np.save(tmp_path / "types.npy", np.array(["Breast"]))
    with pytest.raises(SplitError, match="are both fold1"):
        PANNUKE.read([tmp_path / "fold1", tmp_path / "fold1"], {})
    with pytest.raises(SplitError, match=r"wanted types\.npy and masks\.npy"):
        PANNUKE.read([tmp_path / "list.csv"], {})
