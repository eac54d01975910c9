"""Prove that a published split is one's own, and hash the identifiers of other tables in the same way."""

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import ValidationError

from splits.errors import SplitError
from splits.hashing import hash_column, new_salt, salt_check, write_salt
from splits.making import make
from splits.metadata import image_column
from splits.plan import SplitRecord
from splits.reading import need_columns, read_table
from splits.sealing import Sealed, per_site_ids, seal
from splits.sources import Files, load
from splits.writing import salt_of, write_table


@dataclass(frozen=True)
class Check:
    """One thing that was compared: ``ok``, and what was seen."""

    name: str
    ok: bool
    saw: str


@dataclass(frozen=True)
class Proof:
    """The outcome of :func:`verify`: it holds when every check does."""

    checks: tuple[Check, ...]
    splits_sha256: str

    @property
    def holds(self) -> bool:
        """Whether all checks hold."""
        return all(check.ok for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        checks = [{"name": check.name, "ok": check.ok, "saw": check.saw} for check in self.checks]
        return {"holds": self.holds, "splits_sha256": self.splits_sha256, "checks": checks}


def read_record(path: Path) -> SplitRecord:
    """The ``split.json`` in ``path``; SplitError where it is none."""
    try:
        return SplitRecord.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise SplitError(
            f"{path}: no such file; mvc split make writes one beside splits.parquet (--record names it)"
        ) from None
    except OSError as error:
        raise SplitError(f"{path} can't be read ({error.strerror})") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise SplitError(f"{path} is no split record ({where}: {first['msg']})") from None


def verify(
    splits_file: Path,
    record: SplitRecord,
    files: Files,
    maps: Mapping[str, Path],
    salt_file: Path,
    progress: Callable[[str], None] = lambda step: None,
) -> Proof:
    """Make the split again from the metadata and the salt, and compare it with the published one.

    Each image, patient, site, label and split of the published file is compared with what the metadata, the salt and
    the plan in ``record`` give. Raises :class:`SplitError` for input that can't be read.
    """
    salt = salt_of(salt_file)
    table = read_table(splits_file)
    need_columns(table.frame, ("image_id", "patient_id", "split", "site"), splits_file)
    repeated = pl.all().exclude("image_id").cast(pl.Categorical)  # a number a text: half of the memory
    published, digest = table.frame.with_columns(repeated).sort("image_id"), table.sha256
    del table
    checks = [_same("salt", salt_check(salt) == record.salt_check, "the salt of this split", "another salt")]
    progress("reading the metadata")
    gathered, sources = load(record.plan, files, maps)
    same = {source.sha256 for source in sources} == {source.sha256 for source in record.sources}
    by_content = "other bytes than the files that the split was made from; what follows compares their content"
    checks.append(Check("metadata", True, "the files that the split was made from" if same else by_content))
    split = make(gathered, record.plan, progress)
    progress("hashing identifiers")
    checks += _compared(seal(split, record.plan, salt), published)
    checks.append(
        _same("digest", digest == record.splits_sha256, f"sha256 {digest}", f"sha256 {digest}, not the record's")
    )
    return Proof(tuple(checks), digest)


def _same(name: str, ok: bool, yes: str, no: str) -> Check:
    return Check(name, ok, yes if ok else no)


def _compared(ours: Sealed, published: pl.DataFrame) -> list[Check]:
    """Every column of every image of ``ours`` against ``published``, which is in order of ``image_id``."""
    found, same, columns = 0, Counter[str](), list[str]()
    for part in ours.parts():
        columns = [name for name in part.columns if name != "image_id"]
        first, last = part["image_id"][0], part["image_id"][-1]
        start = published["image_id"].search_sorted(first, side="left")
        end = published["image_id"].search_sorted(last, side="right")
        theirs = published[start:end].with_columns(pl.all().cast(pl.String)).unique("image_id")
        both = part.with_columns(pl.all().cast(pl.String)).join(theirs, on="image_id", suffix="_published")
        found += both.height
        for name in columns:
            if name in published.columns:
                same[name] += int(both[name].eq_missing(both[f"{name}_published"]).sum())
    total, own = published.height, len(ours.order)
    return [
        Check("images", found == total, f"{found} of {total} published images are hashes of images in the metadata"),
        Check("all images", found == own, f"{found} of {own} images of the metadata stand in the published file"),
        *(
            Check(name, same[name] == found > 0, f"the same in {same[name]} of {found} images")
            if name in published.columns
            else Check(name, False, "no such column in the published file")
            for name in columns
        ),
    ]


def salt_for(path: Path, record: Path | None, *, new: bool) -> tuple[bytes, bool]:
    """The salt in ``path`` (made and stored first where ``new``), and whether it was made.

    Raises :class:`SplitError` where it is not the salt of the split in ``record``, or ``path`` exists and ``new``.
    """
    if new:
        salt = new_salt()
        try:
            write_salt(path, salt)
        except FileExistsError as error:
            raise SplitError(str(error)) from None
        except OSError as error:
            raise SplitError(f"{path} can't be written ({error.strerror})") from None
    else:
        salt = salt_of(path)
    if record is not None and read_record(record).salt_check != salt_check(salt):
        raise SplitError(f"{path} holds another salt than the split of {record} was made with")
    return salt, new


def hash_table(
    path: Path,
    out: Path,
    salt: bytes,
    *,
    record: Path | None = None,
    namespace: str | None = None,
    image: str | None = None,
    patient: str | None = None,
    site: str | None = None,
    encoding: str = "utf-8",
) -> dict[str, int]:
    """Write ``path`` again with ``image_id`` and ``patient_id`` in place of the columns that hold names.

    Everything else stays as it is: a Parquet file keeps its types, a CSV the text of each cell but for blanks around
    it. Namespace, image and patient columns are those of the split in ``record`` unless they are named. Returns the
    number of distinct identifiers of each column.

    Raises :class:`SplitError` for columns that are missing or empty in a row, or an ``out`` that exists.
    """
    if os.path.lexists(out):
        raise SplitError(f"{out} exists; name a new file")
    table = read_table(path, encoding=encoding)
    texts, plan = table.frame, read_record(record).plan if record else None
    if plan is not None:
        namespace = plan.namespace
        image = image or next((name for name in [plan.columns.image] if name in texts.columns), None)
        patient = patient or next((name for name in [plan.columns.patient] if name in texts.columns), None)
        site = site or (plan.columns.site if plan.patients_per_site else None)
    image = image or image_column(texts, {patient, site}, str(path))
    columns = {"image": image} | ({"patient": patient} if patient else {})
    need_columns(texts, [*columns.values(), *([site] if site and patient else [])], path)
    if texts.height == 0:
        raise SplitError(f"{path} has a header and no row")
    if image == patient:
        raise SplitError(f"column {image!r} is named for images and patients; they need a column each")
    if site and patient and texts[site].null_count():
        raise SplitError(f"{path}: column {site!r} is empty in {texts[site].null_count()} rows; write the site of each")
    frame = _typed(path) if table.parquet else texts
    nested = [name for name, kind in frame.schema.items() if kind.is_nested() or kind == pl.Binary]
    if nested and out.suffix != ".parquet":
        raise SplitError(f"{path}: column {nested[0]!r} holds lists or bytes, which no CSV can; name a .parquet file")
    counts = {}
    for what, column in columns.items():
        named = f"{what}_id"
        if named in frame.columns and named != column:
            raise SplitError(f"{path} has a column {named!r} already; drop it, or name it with --{what}")
        names = texts[column]
        if names.null_count():
            raise SplitError(f"{path}: column {column!r} is empty in {names.null_count()} rows; a name can't be empty")
        if what == "patient" and site:
            ids = per_site_ids(texts[site], names, f"{namespace}/patient", salt)
        else:
            names = names.str.replace_all("\\", "/", literal=True) if what == "image" else names
            ids = hash_column(salt, f"{namespace}/{what}", names)
        counts[named] = ids.n_unique()
        place = frame.columns.index(column)
        frame = frame.drop(column).insert_column(place, ids.alias(named))
    _write_new(out, frame)
    return counts


def _typed(path: Path) -> pl.DataFrame:
    """A Parquet table with its types, its column names without outer blanks."""
    try:
        frame = pl.read_parquet(path)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of the reader, which a strange type brings about, is no Exception
        said = str(error).splitlines()[0][:200]
        raise SplitError(f"{path} can't be read with its types ({said}); save it as CSV, or drop the column") from None
    return frame.rename({name: name.strip() for name in frame.columns if name.strip()})


def _write_new(out: Path, frame: pl.DataFrame) -> None:
    """``frame`` in the new file ``out``, whole or not at all."""
    out.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=out.parent, prefix=".mvc-")
    os.close(handle)
    try:
        if out.suffix == ".parquet":
            write_table(Path(temporary), [frame])
        else:
            frame.write_csv(temporary)
        Path(temporary).chmod(0o644)
        if os.path.lexists(out):
            raise SplitError(f"{out} exists; name a new file")
        os.replace(temporary, out)
    finally:
        Path(temporary).unlink(missing_ok=True)
