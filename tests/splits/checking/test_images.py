"""Contents and near duplicates of real image files."""

import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from scipy.ndimage import gaussian_filter

from splits.checking import Level, Options, check_splits, images
from splits.errors import SplitError


def scene(seed: int, size: int = 128) -> NDArray[np.uint8]:
    """A grey image of blurred noise inside a round field, as a fundus camera gives."""
    noise = gaussian_filter(np.random.default_rng(seed).normal(size=(size, size)), size / 20)
    noise = (noise - noise.min()) / (noise.max() - noise.min())
    rows, columns = np.mgrid[:size, :size] - size / 2
    inside = rows**2 + columns**2 < (0.47 * size) ** 2
    return np.asarray((noise * 180 + 40) * inside, dtype=np.uint8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("images")
    (place / "train").mkdir()
    for seed in range(30):
        Image.fromarray(scene(seed)).save(place / "train" / f"eye_{seed:03d}.png")
    Image.fromarray(scene(3)).resize((90, 90)).save(place / "small.jpg", quality=80)
    Image.fromarray(scene(4)).save(place / "same.png")
    Image.fromarray(scene(5).astype(np.uint16) * 16).save(place / "deep.png")
    Image.fromarray(np.zeros((32, 32), np.uint8)).save(place / "black.png")
    Image.fromarray(np.full((48, 48), 200, np.uint8)).save(place / "grey.png")
    (place / "broken.png").write_bytes(b"no image")
    (place / "cut.png").write_bytes((place / "same.png").read_bytes()[:300])
    return place


def table(folder: Path, rows: str) -> Path:
    path = folder.parent / "list.csv"
    path.write_text("image,label,split\n" + rows)
    return path


def test_equal_and_nearly_equal_images_across_splits(folder: Path) -> None:
    rows = "".join(f"train/eye_{k:03d}.png,{k % 2},train\n" for k in range(30))
    rows += "small.jpg,1,test\nsame.png,1,test\ndeep.png,1,test\nblack.png,0,train\ngrey.png,0,test\n"
    rows += "broken.png,0,test\ncut.png,0,test\nabsent.png,0,test\n"
    report = check_splits([table(folder, rows)], Options(images=folder, workers=1))
    by_code = {finding.code: finding for finding in report.findings}
    assert [leak.code for leak in report.leaks] == ["content-overlap", "near-duplicates"]
    assert by_code["content-overlap"].samples == ("train/eye_004.png ~ same.png",)
    assert by_code["near-duplicates"].count == 2
    assert by_code["near-duplicates"].samples == ("train/eye_003.png ~ small.jpg", "train/eye_005.png ~ deep.png")
    assert by_code["images-blank"].samples == ("black.png", "grey.png")
    assert by_code["images-undecodable"].samples == ("broken.png", "cut.png")
    assert by_code["images-missing"].samples == ("absent.png",)
    assert by_code["labels-disagree"].level is Level.WARNING  # same.png is 1, its copy eye_004 is 0


def test_copies_in_one_split_are_a_note(folder: Path) -> None:
    rows = "train/eye_004.png,0,train\nsame.png,0,train\ntrain/eye_001.png,0,test\n"
    report = check_splits([table(folder, rows)], Options(images=folder, workers=1))
    assert report.exit_code == 0
    assert {"content-groups", "near-duplicates-groups"} <= {finding.code for finding in report.findings}


def test_every_near_duplicate_is_in_the_document_and_five_on_the_terminal(folder: Path) -> None:
    copies = [f"copy_{k}.png" for k in range(7)]
    for k, name in enumerate(copies):
        Image.fromarray(scene(6)).resize((100 + k, 100 + k)).save(folder / name)
    Image.fromarray(scene(6)[:, ::-1]).save(folder / "mirror.png")
    rows = "train/eye_006.png,0,train\nmirror.png,0,test\n" + "".join(f"{name},0,test\n" for name in copies)
    report = check_splits([table(folder, rows)], Options(images=folder, workers=1))
    leak = next(leak for leak in report.leaks if leak.code == "near-duplicates")
    assert (leak.count, len(leak.samples)) == (7, 5)
    assert leak.title == "7 of 8 images of test look like images of train"
    assert leak.groups == ({"train": ("train/eye_006.png",), "test": tuple(copies)},)
    note = next(note for note in report.findings if note.code == "near-duplicates-groups")
    assert (note.count, note.title) == (8, "1 group of near duplicates: 8 images in all")
    assert "near-duplicate image (not: mirrored or turned copies)" in report.compared


def test_one_list_without_splits_can_be_looked_through(folder: Path) -> None:
    path = folder.parent / "one.csv"
    path.write_text("image\nsame.png\neye_004\nsmall.jpg\n")  # no folder, no suffix
    report = check_splits([path], Options(images=folder, workers=1))
    assert report.exit_code == 0
    assert report.last_line.startswith("MVC SPLITS CLEAN no splits to compare")
    assert "content-groups" in {finding.code for finding in report.findings}


def test_equal_names_with_other_bytes_are_settled(folder: Path) -> None:
    (folder / "b").mkdir(exist_ok=True)
    Image.fromarray(scene(99)).save(folder / "b" / "eye_001.png")
    rows = "train/eye_001.png,1,train\nb/eye_001.png,1,test\n"
    report = check_splits([table(folder, rows)], Options(images=folder, workers=1))
    assert report.exit_code == 0
    assert [finding.code for finding in report.of(Level.COLLISION)] == ["name-collision"]


def test_other_processes_find_the_same(folder: Path) -> None:
    paths = sorted(str(path) for path in folder.rglob("*.*")) * 2
    many = list(dict.fromkeys(paths))
    here = images.hash_files(many, workers=1)
    seen: list[tuple[int, int]] = []
    few, images.FEW = images.FEW, 1
    try:
        there = images.hash_files(many, workers=2, progress=lambda done, whole: seen.append((done, whole)))
    finally:
        images.FEW = few
    assert there.sha256 == here.sha256
    assert np.array_equal(there.phash, here.phash)
    assert np.array_equal(there.state, here.state)
    assert seen[-1] == (len(many), len(many))


def test_files_are_found_by_path_end_name_and_stem_and_nothing_outside(folder: Path) -> None:
    (folder / "c").mkdir(exist_ok=True)
    (folder / "c" / "same.png").write_bytes(b"x")
    names = [
        "train/eye_000.png",
        "data/x/eye_000.png",
        "eye_000",
        "same.png",
        "c\\same.png",
        "q/same.png",
        "../list.csv",
    ]
    found = images.locate(names, folder)
    (folder / "c" / "same.png").unlink()
    first = str(folder / "train" / "eye_000.png")
    assert found.paths == (first, first, first, str(folder / "same.png"), str(folder / "c" / "same.png"), "", "")
    assert found.ambiguous == ("q/same.png",)
    assert found.missing == ("../list.csv",)
    with pytest.raises(SplitError, match="is no folder"):
        images.locate(names, folder / "none")


@pytest.mark.parametrize("distance", [0, 1, 4, 9])
def test_near_pairs_are_those_of_a_search_through_all(distance: int) -> None:
    random = np.random.default_rng(distance)
    base = random.integers(0, 2**64, 40, dtype=np.uint64)
    codes = np.concatenate([base, base, base])
    for k in range(len(codes) - 10):  # up to twelve bits flipped
        for bit in random.choice(64, k % 13, replace=False):
            codes[k] ^= np.uint64(1) << np.uint64(bit)
    codes[:10] = base[-10:]
    second = np.where(np.arange(120) % 17 == 1, ~np.uint64(0), np.uint64(0))
    first, other = images.near_pairs(codes, second, distance)
    near = np.bitwise_count(codes[:, None] ^ codes[None, :]) <= distance
    near &= np.bitwise_count(second[:, None] ^ second[None, :]) <= distance + 4
    wanted = np.argwhere(np.triu(near, 1))
    assert sorted(zip(first.tolist(), other.tolist(), strict=True)) == [tuple(pair) for pair in wanted.tolist()]
    assert len(wanted) > 0


def test_alike_codes_are_compared_all_with_all() -> None:
    codes = np.uint64(1) << np.arange(50, dtype=np.uint64)  # equal in most parts
    first, _ = images.near_pairs(codes, np.zeros(50, np.uint64), 4)
    assert len(first) == 50 * 49 // 2


def test_too_many_pairs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "MOST_PAIRS", 100)
    codes = np.arange(64, dtype=np.uint64)
    with pytest.raises(SplitError, match="take a smaller one"):
        images.near_pairs(codes, codes * np.uint64(0), 6)


def test_without_the_libraries_the_mend_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "imagehash", None)
    with pytest.raises(SplitError, match=r"pip install 'mvc-kit\[data\]'"):
        check_splits([table(folder, "same.png,0,train\n")], Options(images=folder))
