"""What is not opened, archives with ill intent, and damaged bytes of every form."""

import bz2
import gzip
import io
import json
import os
import pickle
import random
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from scorer.audit.reading import archives, read
from scorer.audit.shapes import AuditError
from tests.splits.datasets.real import released
from tests.splits.test_sheets import xlsx

CSV = b"id,p\na,0.5\nb,0.25\n"


def packed(path: Path, members: dict[str, bytes]) -> Path:
    """A zip with these members."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


def said(path: Path, content: bytes | None = None) -> str:
    """What the refusal of ``path`` says."""
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(AuditError) as caught:
        read(path)
    text = str(caught.value)
    assert text.isprintable()
    assert path.name in text
    return text


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("name", ["p.pkl", "p.csv", "p"])
def test_pickles_of_any_protocol_are_refused_with_the_safe_way(tmp_path: Path, protocol: int, name: str) -> None:
    frame = {"id": ["a", "b"], "p": np.array([0.5, 0.25])}
    text = said(tmp_path / name, pickle.dumps(frame, protocol))
    assert "runs whatever code" in text
    assert "to_csv" in text
    assert "container" in text


def test_other_files_that_hold_code_are_refused(tmp_path: Path) -> None:
    torch = packed(tmp_path / "m.pth", {"archive/data.pkl": pickle.dumps([1]), "archive/version": b"3"})
    assert "weights_only" in said(torch)
    np.save(tmp_path / "o.npy", np.array([{"a": 1}]), allow_pickle=True)
    assert "Python objects" in said(tmp_path / "o.npy")
    np.savez(tmp_path / "o.npz", p=np.array([0.5]), o=np.array(["a", None], dtype=object))
    assert "'o' holds Python objects" in said(tmp_path / "o.npz")
    assert "pickle by its name" in said(tmp_path / "x.joblib", b"\x78\x9cabc")
    assert "write.csv" in said(tmp_path / "x.rds", gzip.compress(b"X\n\x00\x00\x00\x03abc"))
    assert "HDF5" in said(tmp_path / "x.mat", b"\x89HDF\r\n\x1a\n" + b"0" * 20)
    assert "to_csv" in said(tmp_path / "x.pkl.gz", gzip.compress(pickle.dumps([1])))


@pytest.mark.parametrize(
    ("name", "content", "wanted"),
    [
        ("p.pdf", b"%PDF-1.7", "a PDF"),
        ("p.csv", b"\n<!DOCTYPE html><html>", "a web page"),
        ("p.csv", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n", "git lfs pull"),
        ("p.csv", bz2.compress(CSV), "bzip2"),
        ("p.png", b"\x89PNG\r\n\x1a\n", "PNG image"),
        ("p.tex", b"% a table\n", "LaTeX"),
        ("p.csv", b"", "is empty"),
        ("p.csv", b"id,p\n", "no rows"),
        ("p.csv", b"id,id\na,b\n", "comes 2 times"),
        ("p.npy", b"id,p\n", "not of that form"),
        ("p.csv", CSV + b"\xff,0.5\n", "--encoding latin-1"),
        ("p\x1b[31m.csv", b"", "empty"),
    ],
)
def test_what_is_no_table_is_named(tmp_path: Path, name: str, content: bytes, wanted: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(AuditError, match=wanted) as caught:
        read(tmp_path / name)
    assert str(caught.value).isprintable()


def test_names_that_lead_nowhere(tmp_path: Path) -> None:
    assert "no such file" in said(tmp_path / "none.csv")
    (tmp_path / "folder").mkdir()
    assert "is a folder" in said(tmp_path / "folder")
    os.mkfifo(tmp_path / "pipe")
    assert "pipe or device" in said(tmp_path / "pipe")
    (tmp_path / "p.csv").write_bytes(CSV)
    with pytest.raises(AuditError, match="no text encoding"):
        read(tmp_path / "p.csv", encoding="klingon")


def test_a_word_that_looks_like_a_pickle_is_a_table(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_bytes(b"cancer\nyes\nno\n")
    assert read(tmp_path / "p.csv")[0].frame["cancer"].to_list() == ["yes", "no"]


def test_zips(tmp_path: Path) -> None:
    (alone,) = read(packed(tmp_path / "a.zip", {"x/p_seed4.csv": CSV}))
    assert alone.name == str(tmp_path / "a.zip")
    assert alone.facts["seed"] == "4"
    assert alone.path == tmp_path / "a.zip"
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(3))
    several = {"../../p.csv": CSV, "/q.npy": buffer.getvalue(), "README.md": b"x", "__MACOSX/._p.csv": b"\0"}
    text, array = read(packed(tmp_path / "b.zip", several))
    assert text.name.endswith("b.zip: ../../p.csv")
    assert array.form == "npy"
    assert "README.md" in text.notes[0]
    assert text.sha256 == alone.sha256
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.zip", "b.zip"]
    (gz,) = read(_written(tmp_path / "p.csv.gz", gzip.compress(CSV)))
    assert gz.frame.equals(alone.frame)
    assert gz.name.endswith("p.csv.gz")


def test_archives_with_ill_intent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = packed(tmp_path / "i.zip", {"p.csv": CSV}).read_bytes()
    assert "archive in an archive" in said(packed(tmp_path / "a.zip", {"b.zip": inner}))
    assert "inside gzip" in said(tmp_path / "c.gz", gzip.compress(gzip.compress(CSV)))
    assert "no files" in said(packed(tmp_path / "e.zip", {"x/": b""}))
    assert "pickle" in said(packed(tmp_path / "f.zip", {"p.pkl": pickle.dumps([1])}))
    monkeypatch.setattr("scorer.audit.reading.source.FREE_BYTES", 1 << 20)
    bomb = b"id,p\n" + b"0,0\n" * (1 << 20)
    assert "unpacks to far more" in said(packed(tmp_path / "g.zip", {"p.csv": bomb}))
    assert "unpacks to far more" in said(tmp_path / "p.csv.gz", gzip.compress(bomb))
    monkeypatch.setattr(archives, "MAX_MEMBERS", 2)
    assert "more than 2" in said(packed(tmp_path / "h.zip", {f"{n}.csv": CSV for n in range(3)}))


def test_an_array_that_claims_more_than_it_has(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f8", "fortran_order": False, "shape": (10**12, 8)})
    assert "cut off or damaged" in said(tmp_path / "p.npy", buffer.getvalue() + b"\0" * 64)


def test_the_released_pickle_is_refused() -> None:
    path = released("nyukat+mammography_metarepository", "reader_study/results.pkl")
    with pytest.raises(AuditError, match="a Python pickle"):
        read(path)


def _written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def _good(folder: Path) -> dict[str, bytes]:
    p = np.array([[0.25, 0.75], [0.5, 0.5]])
    parquet, npy, npz = io.BytesIO(), io.BytesIO(), io.BytesIO()
    pl.DataFrame({"id": ["a", "b"], "p": [0.5, 0.25], "probs": p.tolist()}).write_parquet(parquet)
    np.save(npy, p)
    np.savez_compressed(npz, probs=p, ids=np.array(["a", "b"]))
    document = {"predictions": [{"id": "a", "probs": [0.5, 0.5]}, {"id": "b", "probs": [0.25, 0.75]}]}
    return {
        "p.csv": CSV,
        "p.csv.gz": gzip.compress(CSV),
        "p.parquet": parquet.getvalue(),
        "p.npy": npy.getvalue(),
        "p.npz": npz.getvalue(),
        "p.json": json.dumps(document).encode(),
        "p.jsonl": b'{"id": 1, "p": 0.5}\n{"id": 2, "p": 0.25}\n',
        "p.zip": packed(folder / "p.zip", {"a.csv": CSV, "b.npy": npy.getvalue()}).read_bytes(),
        "p.xlsx": xlsx(folder / "p.xlsx", [["id", "p"], ["a", 0.25]]).read_bytes(),
    }


def test_damaged_bytes_give_a_table_or_words(tmp_path: Path) -> None:
    chance = random.Random(8)
    refused = 0
    good = _good(tmp_path)
    for name, content in good.items():
        assert read(_written(tmp_path / name, content))
        for turn in range(25):
            raw = bytearray(content[: chance.randrange(1, len(content))] if turn % 3 == 0 else content)
            for _ in range(chance.choice((0, 1, 4)) if turn % 3 == 0 else chance.choice((1, 2, 8))):
                raw[chance.randrange(len(raw))] = chance.randrange(256)
            try:
                loaded = read(_written(tmp_path / name, bytes(raw)))
            except AuditError:
                refused += 1
            else:
                assert all(one.frame.height and one.frame.width for one in loaded)
    assert 60 < refused < 25 * len(good)
