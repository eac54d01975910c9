"""Folders in which files are made before they are moved: one's own, and those that killed programs left."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from submission.files import ASIDE, made_aside

ROOT = Path(__file__).resolve().parents[2]
HOLD = """
import sys
from pathlib import Path
from submission.files import made_aside
with made_aside(Path(sys.argv[1])) as made:
    (made / "half").write_text("x")
    print(made.name, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> subprocess.Popen[str]:
    """Another program that is making something in ``tmp_path``."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith(ASIDE)
    return process


def test_nothing_stays_when_all_went_well_or_not(tmp_path: Path) -> None:
    with made_aside(tmp_path) as made:
        (made / "file").write_text("x")
        (made / "file").replace(tmp_path / "file")
    with pytest.raises(FileNotFoundError), made_aside(tmp_path) as made:
        made.with_name("absent").replace(made / "half")
    assert os.listdir(tmp_path) == ["file"]


def test_what_a_killed_program_left_goes(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    holder.kill()
    holder.communicate(timeout=60)
    assert len(os.listdir(tmp_path)) == 1
    with made_aside(tmp_path) as made:
        assert os.listdir(tmp_path) == [made.name]
    assert os.listdir(tmp_path) == []


def test_what_a_living_program_makes_stays(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    with made_aside(tmp_path) as made:
        (other,) = set(os.listdir(tmp_path)) - {made.name}
        assert (tmp_path / other / "half").read_text() == "x"
    holder.communicate("", timeout=60)
    assert (holder.returncode, os.listdir(tmp_path)) == (0, [])


def test_links_and_files_of_that_name_are_left_alone(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    home.mkdir()
    elsewhere.mkdir()
    (elsewhere / "precious").write_text("x")
    (home / f"{ASIDE}link").symlink_to(elsewhere)
    (home / f"{ASIDE}file").write_text("x")
    with made_aside(home):
        pass
    assert sorted(os.listdir(home)) == [f"{ASIDE}file", f"{ASIDE}link"]
    assert (elsewhere / "precious").read_text() == "x"
