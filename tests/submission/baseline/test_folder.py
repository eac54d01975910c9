"""The folder of a run: other inputs are refused, foreign files stay, a finished bundle is never lost."""

import json
from pathlib import Path

import pytest

from submission.baseline.errors import BaselineError
from submission.baseline.folder import BUNDLE, RUN_FILE, SEEDS, VIEWS, claim, only_one, put

INPUTS = {"configuration": "a", "images": "b", "processor": "1 cpu thread"}


def trained(out: Path) -> Path:
    """Something that a run has come to."""
    path = out / SEEDS / "1" / "log.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("{}\n")
    return path


def bundle(folder: Path, text: str = "numbers", record: str = "team: ours") -> Path:
    folder.mkdir(parents=True)
    (folder / "submission.yaml").write_text(record)
    (folder / "predictions.parquet").write_text(text)
    (folder / "declaration.lock").write_text(f"a time: {folder}")
    return folder


def test_what_a_killed_run_can_leave_is_not_strange(tmp_path: Path) -> None:
    (tmp_path / f".{RUN_FILE}.x7s").touch()  # killed while run.json was written
    (tmp_path / ".mvc-aside-abc").mkdir()
    (tmp_path / VIEWS).mkdir()
    (tmp_path / "features" / "a").mkdir(parents=True)
    digest = claim(tmp_path, INPUTS, False, tmp_path / "features" / "a")
    assert claim(tmp_path, INPUTS, False) == digest
    assert json.loads((tmp_path / RUN_FILE).read_text()) == INPUTS


@pytest.mark.parametrize("force", [False, True])
def test_files_of_something_else_are_never_touched(tmp_path: Path, force: bool) -> None:
    mine = bundle(tmp_path / BUNDLE)
    with pytest.raises(BaselineError, match="holds files of something else, such as bundle; name a new folder"):
        claim(tmp_path, INPUTS, force)
    assert (mine / "predictions.parquet").exists()
    assert not (tmp_path / RUN_FILE).exists()


@pytest.mark.parametrize("damage", [None, "{", "[]", '{"images": 3}'])
def test_other_inputs_are_refused_until_forced(tmp_path: Path, damage: str | None) -> None:
    claim(tmp_path, INPUTS, False)
    other = {**INPUTS, "processor": "2 cpu threads"}
    claim(tmp_path, other, False)  # nothing was trained: nothing is lost
    claim(tmp_path, INPUTS, False)
    log = trained(tmp_path)
    if damage is not None:
        (tmp_path / RUN_FILE).write_text(damage)
    said = r"\(processor\).* it ran on 1 cpu thread, this one on 2 cpu threads: see --device and --threads"
    with pytest.raises(BaselineError, match=said if damage is None else "holds a run with other inputs"):
        claim(tmp_path, other, False)
    assert log.exists()
    claim(tmp_path, other, True)
    assert not log.exists()


def test_an_untouched_bundle_gives_way_to_a_new_one(tmp_path: Path) -> None:
    assert put(tmp_path, bundle(tmp_path / "aside" / "one")) == ()
    lock = (tmp_path / BUNDLE / "declaration.lock").read_text()
    assert put(tmp_path, bundle(tmp_path / "aside" / "two")) == ()
    assert (tmp_path / BUNDLE / "declaration.lock").read_text() == lock  # the same numbers: declared once
    assert put(tmp_path, bundle(tmp_path / "aside" / "three", "others")) == ()
    assert (tmp_path / BUNDLE / "predictions.parquet").read_text() == "others"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["aside", BUNDLE, "bundle.json"]


def test_a_bundle_of_another_record_is_kept_with_its_declaration(tmp_path: Path) -> None:
    put(tmp_path, bundle(tmp_path / "aside" / "one"))
    lock = (tmp_path / BUNDLE / "declaration.lock").read_text()
    (said,) = put(tmp_path, bundle(tmp_path / "aside" / "two", record="team: theirs"))
    assert said.endswith(f"is declared with another submission.yaml; it is kept as {tmp_path / 'bundle-1'}")
    assert (tmp_path / "bundle-1" / "declaration.lock").read_text() == lock
    assert (tmp_path / BUNDLE / "submission.yaml").read_text() == "team: theirs"
    assert put(tmp_path, bundle(tmp_path / "aside" / "three", record="team: theirs")) == ()
    put(tmp_path, bundle(tmp_path / "aside" / "four"))
    assert (tmp_path / "bundle-2" / "submission.yaml").read_text() == "team: theirs"


def test_a_bundle_that_was_filled_in_or_submitted_is_kept(tmp_path: Path) -> None:
    put(tmp_path, bundle(tmp_path / "aside" / "one"))
    (tmp_path / BUNDLE / "results").mkdir()
    (tmp_path / BUNDLE / "results" / "scorecard.json").write_text("{}")
    (said,) = put(tmp_path, bundle(tmp_path / "aside" / "two"))
    assert "it stays as it is" in said
    assert (tmp_path / BUNDLE / "results" / "scorecard.json").exists()
    (said,) = put(tmp_path, bundle(tmp_path / "aside" / "three", "others"))
    assert said.endswith(f"it is kept as {tmp_path / 'bundle-1'}")
    assert (tmp_path / "bundle-1" / "results" / "scorecard.json").exists()
    assert (tmp_path / BUNDLE / "predictions.parquet").read_text() == "others"


def test_a_kill_between_the_bundle_and_its_digests_costs_nothing(tmp_path: Path) -> None:
    put(tmp_path, bundle(tmp_path / "aside" / "one"))
    (tmp_path / "bundle.json").unlink()
    assert put(tmp_path, bundle(tmp_path / "aside" / "two")) == ()
    assert (tmp_path / "bundle.json").exists()


def test_a_link_in_the_place_of_the_bundle_is_kept(tmp_path: Path) -> None:
    (tmp_path / BUNDLE).symlink_to(bundle(tmp_path / "elsewhere"))
    put(tmp_path, bundle(tmp_path / "aside" / "one"))
    assert (tmp_path / "bundle-1").is_symlink()
    assert not (tmp_path / BUNDLE).is_symlink()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "out").touch()
    with pytest.raises(BaselineError, match="is a file; name a folder"), only_one(tmp_path / "out"):
        pass
