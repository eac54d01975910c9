"""Memory: of the machine, of the container, or as set; and that decoding and DuckDB keep to it."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from mvc.cli import app
from scorer.machine import MemoryLimitError, memory
from scorer.warehouse import Warehouse


def group(root: Path, name: str, text: str) -> None:
    """A control group's file below ``root``."""
    path = root / "sys/fs/cgroup" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_the_smallest_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MVC_MEMORY", raising=False)
    machine = memory(tmp_path)
    assert machine > 1 << 30
    group(tmp_path, "memory.max", "max\n")
    assert memory(tmp_path) == machine
    group(tmp_path, "memory.max", "2147483648\n")
    assert memory(tmp_path) == 2 << 30
    group(tmp_path, "memory/memory.limit_in_bytes", "1610612736\n")
    assert memory(tmp_path) == 3 << 29
    group(tmp_path, "memory/memory.limit_in_bytes", "9223372036854771712\n")  # the first version's way to say: none
    assert memory(tmp_path) == 2 << 30
    monkeypatch.setenv("MVC_MEMORY", "1100m")
    assert memory(tmp_path) == 1100 << 20
    group(tmp_path, "memory.max", "536870912\n")
    with pytest.raises(MemoryLimitError, match="512 MiB of memory are too little"):
        memory(tmp_path)


@pytest.mark.parametrize(
    ("text", "size"),
    [("4g", 4 << 30), ("1500MB", 1500 << 20), ("2000000k", 2_000_000 << 10), (" 1200000000 ", 1_200_000_000)],
)
def test_sizes(text: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MVC_MEMORY", text)
    assert memory(tmp_path) == min(size, memory(tmp_path))
    assert memory(tmp_path) <= size


@pytest.mark.parametrize("text", ["much", "-1", "0", "1.5g", "4t", "1e9", "64m"])
def test_no_size_is_wrong_usage(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MVC_MEMORY", text)
    with pytest.raises(MemoryLimitError, match=r"such as 4g|too little"):
        memory()
    done = CliRunner().invoke(app, ["check", "anything"])
    assert done.exit_code == 2
    assert "memory" in done.stderr
    assert CliRunner().invoke(app, ["rules"]).exit_code == 0


def test_duckdb_keeps_to_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MVC_MEMORY", "1g")
    with Warehouse(tmp_path) as warehouse:
        ((limit,),) = warehouse.sql("SELECT current_setting('memory_limit')")
    assert limit == "512.0 MiB"
