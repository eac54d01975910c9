"""Hash the identifiers of other tables, such as predictions, in the way of a split."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from splits.cells import NO_ID, image_name, spelled, to_hash
from splits.errors import SplitError
from splits.hashing import hash_column, new_salt, published_beside, salt_check, write_salt
from splits.left_names import Hidden, no_names_left, none_in_split, present, published_ids, refuse_names
from splits.metadata import image_column
from splits.proving import read_record
from splits.reading import need_columns, read_table
from splits.sealing import per_site_ids
from splits.writing import salt_of, write_table


@dataclass(frozen=True)
class Hashed:
    """How many distinct identifiers each column has, and how many of them are in the split (None where not known)."""

    counts: dict[str, int]
    in_split: dict[str, int] | None = None


@contextlib.contextmanager
def salt_for(path: Path, record: Path | None, out: Path, *, new: bool) -> Iterator[bytes]:
    """The salt in ``path`` for hashing into ``out``; where ``new`` it is made, and gone again if nothing is hashed.

    Raises :class:`SplitError` where it is not the salt of the split in ``record``, ``out`` exists, or a new one can't
    or shouldn't be stored in ``path``.
    """
    if os.path.lexists(out):
        raise SplitError(f"{out} exists; name a new file")
    if not new:
        salt = salt_of(path)
        if record is not None and read_record(record).salt_check != salt_check(salt):
            raise SplitError(f"{path} holds another salt than the split of {record} was made with")
        yield salt
        return
    if record is not None:
        raise SplitError(f"a new salt is not the one that the split of {record} was made with; leave --new-salt out")
    if beside := published_beside(path):
        raise SplitError(
            f"{path} would lie beside {beside}, in a folder to publish; a salt that others have hides nothing: "
            "name a file in a folder that you keep"
        )
    salt = new_salt()
    try:
        write_salt(path, salt)
    except FileExistsError as error:
        raise SplitError(str(error)) from None
    except OSError as error:
        raise SplitError(f"{path} can't be written ({error.strerror})") from None
    try:
        yield salt
    except BaseException:
        if not os.path.lexists(out):  # else the table is there already, and worth nothing without its salt
            path.unlink(missing_ok=True)
        raise


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
) -> Hashed:
    """Write ``path`` again with ``image_id`` and ``patient_id`` in place of the columns that hold names.

    Everything else stays as it is: a Parquet file keeps its types, a CSV the text of each cell but for blanks around
    it. Namespace, image and patient columns are those of the split in ``record`` unless they are named.

    Raises :class:`SplitError` for columns that are missing or empty in a row, an ``out`` that exists, a column that
    would stay readable and holds names of patients or images, and, with a splits.parquet beside ``record``, a table
    that names none of its images or none of its patients.
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
    kept = [name for name in frame.columns if name not in columns.values()]
    ids: dict[str, pl.Series] = {}
    for what, column in columns.items():
        named = f"{what}_id"
        if named in kept:
            raise SplitError(f"{path} has a column {named!r} already; drop it, or name it with --{what}")
        names = to_hash(texts[column], column, NO_ID if what == "patient" else (), table.rounded)
        if names.null_count():
            raise SplitError(f"{path}: column {column!r} is empty in {names.null_count()} rows; a name can't be empty")
        if what == "patient" and site:
            found = per_site_ids(spelled(texts[site]), names, f"{namespace}/patient", salt)
        else:
            names = names.to_frame().select(image_name(pl.all())).to_series() if what == "image" else names
            found = hash_column(salt, f"{namespace}/{what}", names)
        ids[what] = found.alias(named)
    refuse_names(kept, patient, path)
    published = published_ids(record) if record else None
    in_split = None
    if record is not None and plan is not None and published is not None:
        in_split = {f"{what}_id": present(found, published[f"{what}_id"]) for what, found in ids.items()}
        for what, column in columns.items():
            if in_split[f"{what}_id"] == 0 and not (what == "patient" and plan.unavailable):
                raise none_in_split(what, texts[column], path, record, plan)
    per_site = bool(site) or (plan is not None and plan.patients_per_site)
    sites = spelled(texts[site]) if site and site in texts.columns else None
    hidden = Hidden(salt, str(namespace), ids, published, per_site, sites)
    no_names_left(texts.select([name for name in kept if name in texts.columns]), hidden, path)
    counts = {f"{what}_id": found.n_unique() for what, found in ids.items()}
    replaced = {column: ids[what] for what, column in columns.items()}
    _write_new(out, pl.DataFrame([replaced.get(name, frame[name]) for name in frame.columns]))
    return Hashed(counts, in_split)


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
        os.umask(mask := os.umask(0o077))  # asked by setting it
        Path(temporary).chmod(0o666 & ~mask)
        if os.path.lexists(out):
            raise SplitError(f"{out} exists; name a new file")
        os.replace(temporary, out)
    finally:
        Path(temporary).unlink(missing_ok=True)
