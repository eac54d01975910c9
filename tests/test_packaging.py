"""The distribution: names are ours alone, the door is light, no torch comes in."""

import re
import subprocess
import sys
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("mvc", "protocol", "submission", "scorer", "splits")


@pytest.mark.parametrize("name", PACKAGES)
def test_import_name_belongs_to_this_distribution_alone(name: str) -> None:
    assert set(packages_distributions()[name]) == {"mvc-kit"}


def loaded_by(statement: str) -> set[str]:
    """Top-level modules in a fresh interpreter after ``statement``."""
    code = f"{statement}\nimport sys; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(done.stdout.split())


def test_the_door_is_light() -> None:
    heavy = {"numpy", "polars", "pandera", "pyarrow", "duckdb", "sklearn", "scipy", "matplotlib", "pydantic", "torch"}
    assert loaded_by("import mvc") & heavy == set()
    assert loaded_by("import mvc.cli") & heavy == set()


def test_the_core_never_imports_torch() -> None:
    statement = "import mvc, scorer.submit, submission.demo, protocol.text; mvc.check, mvc.submit, mvc.metrics"
    assert loaded_by(statement) & {"torch", "torchvision", "open_clip", "transformers", "timm"} == set()


def test_core_dependencies_have_no_torch() -> None:
    core = [line for line in requires("mvc-kit") or [] if "extra ==" not in line]
    names = {re.split(r"[<>=!\[; ]", line)[0].lower() for line in core}
    assert {"duckdb", "pyarrow", "pandera", "pydantic", "scikit-learn"} <= names
    assert names & {"torch", "torchvision", "transformers", "ray"} == set()


def test_a_hidden_package_is_said_clearly(tmp_path: Path) -> None:
    (tmp_path / "scorer.py").write_text("raise SystemExit('a foreign scorer ran')\n")
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import mvc"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 1
    assert "the package scorer of the mvc kit is hidden by" in done.stderr


def test_every_python_file_stays_short() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > 450
    }
    assert long == {}
