"""Prove that a published split is one's own."""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import ValidationError

from protocol.findings import plain
from splits.errors import SplitError
from splits.files import no_pipe
from splits.hashing import salt_check
from splits.making import make
from splits.plan import Source, SplitRecord
from splits.reading import Table, need_columns, read_table
from splits.sealing import Sealed, seal
from splits.sources import Files, load, settled
from splits.writing import SHOTS_FILE, SPLITS_FILE, hashed_shots, record_of, salt_of, write_table

# Fields of split.json that have a check of their own, or that another machine may have otherwise.
CHECKED_APART = ("software", "sources", "salt_check", "splits_sha256", "few_shot_sha256")


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
        no_pipe(path, "the record")
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

    Each row and column of the published file, of few_shot.parquet beside it and the fields of ``record`` are compared
    with what the metadata, the salt and the plan in ``record`` give. The same rows in another order or format are the
    same split. Not compared: the software, and the names and roles of the sources. The digests of the sources are
    compared, and other ones are said but don't fail where the content gives the same split; another number of sources
    fails. The plan is taken from ``record``: an option in it that has no effect on these data could as well have been
    another, and that can't be told. Raises :class:`SplitError` for input that can't be read.
    """
    salt = salt_of(salt_file)
    table = read_table(splits_file)
    need_columns(table.frame, ("image_id", "patient_id", "split", "site"), splits_file)
    repeated = pl.all().exclude("image_id").cast(pl.Categorical)  # a number a text: half of the memory
    published, digest = table.frame.with_columns(repeated).sort("image_id"), table.sha256
    names = _names(table)
    del table
    checks = [_same("salt", salt_check(salt) == record.salt_check, "the salt of this split", "another salt")]
    progress("reading the metadata")
    gathered, sources = load(record.plan, files, maps)
    checks.append(_metadata(record.sources, sources))
    plan = settled(record.plan, gathered)
    split = make(gathered, plan, progress)
    progress("hashing identifiers")
    sealed = seal(split, plan, salt)
    content = _compared(sealed, published, names)
    checks += content
    with tempfile.TemporaryDirectory(prefix="mvc-") as folder:
        own = Path(folder)
        shots = None if split.few_shot is None else hashed_shots(split.few_shot, plan, salt)
        if shots is not None:
            write_table(own / SHOTS_FILE, [shots])
        if digest != record.splits_sha256 and all(check.ok for check in content):
            progress("writing the table again")
            write_table(own / SPLITS_FILE, sealed.parts())  # whether the record or the file has the other bytes
        else:
            (own / SPLITS_FILE).symlink_to(splits_file.resolve())
        again = record_of(split, plan, sources, salt, own)
    checks += _shots(shots, splits_file.parent / SHOTS_FILE, record, again)
    checks.append(_record(record, again))
    checks.append(_digest(digest, record, again, all(check.ok for check in content)))
    return Proof(tuple(checks), digest)


def _same(name: str, ok: bool, yes: str, no: str) -> Check:
    return Check(name, ok, yes if ok else no)


def _metadata(theirs: Sequence[Source], ours: Sequence[Source]) -> Check:
    """Whether the files are those that the split was made from; other bytes may have the same content."""
    if len(theirs) != len(ours):
        return Check("metadata", False, f"{len(ours)} files (or folders), but the record has {len(theirs)} as sources")
    if sorted(one.sha256 for one in theirs) == sorted(one.sha256 for one in ours):
        return Check("metadata", True, "the files that the split was made from")
    by_content = "other bytes than the files that the split was made from; what follows compares their content"
    return Check("metadata", True, by_content)


def _names(table: Table) -> list[str]:
    """All columns of a published file, those too that hold no plain values and are not read."""
    if not table.parquet:
        return table.frame.columns
    from pyarrow import parquet

    called = (name.strip() for name in parquet.read_schema(table.path).names)
    return [*table.frame.columns, *(name for name in called if name and name not in table.frame.columns)]


def _compared(ours: Sealed, published: pl.DataFrame, names: Sequence[str]) -> list[Check]:
    """Every column of every image of ``ours`` against ``published``, which is in order of ``image_id``.

    ``names`` are all columns that the published file has.
    """
    found, same, columns = 0, Counter[str](), list[str]()
    for part in ours.parts():
        columns = [name for name in part.columns if name != "image_id"]
        first, last = part["image_id"][0], part["image_id"][-1]
        start = published["image_id"].search_sorted(first, side="left")
        end = published["image_id"].search_sorted(last, side="right")
        theirs = published[start:end].with_columns(pl.all().cast(pl.String)).unique("image_id")
        both = _texts(part).join(_texts(theirs, part.schema), on="image_id", suffix="_published")
        found += both.height
        for name in columns:
            if name in published.columns:
                same[name] += int(both[name].eq_missing(both[f"{name}_published"]).sum())
    total, own = published.height, len(ours.order)
    further = sorted(set(names) - {"image_id", *columns})
    return [
        Check("images", found == total, f"{found} of {total} published images are hashes of images in the metadata"),
        Check("all images", found == own, f"{found} of {own} images of the metadata stand in the published file"),
        _same("columns", not further, "those of this split", f"{_listed(further)} {_are(further)} not of this split"),
        *(
            Check(name, same[name] == found > 0, f"the same in {same[name]} of {found} images")
            if name in published.columns
            else Check(name, False, "no such column in the published file")
            for name in columns
        ),
    ]


def _texts(frame: pl.DataFrame, kinds: Mapping[str, Any] | None = None) -> pl.DataFrame:
    """``frame`` as text; a column that ``kinds`` has as whole numbers is compared by value: '1.0' is 1."""
    whole = [name for name in frame.columns if kinds is not None and name in kinds and kinds[name].is_integer()]
    return frame.with_columns(pl.all().cast(pl.String)).with_columns(
        pl.col(name).str.replace(r"^(-?\d+)\.0+$", "$1") for name in whole
    )


def _shots(ours: pl.DataFrame | None, path: Path, record: SplitRecord, again: SplitRecord) -> list[Check]:
    """few_shot.parquet beside the published file, row by row, and its digest in the record."""
    name, stated = "few_shot", record.few_shot_sha256
    if not path.exists():
        if ours is None and stated is None:
            return []
        kept = f"there is no {SHOTS_FILE} beside it to compare; the record has "
        return [_same(name, stated == again.few_shot_sha256, f"{kept}its digest", f"{kept}another digest")]
    if ours is None:
        return [Check(name, False, f"{SHOTS_FILE} is none of this split, which has no such draw")]
    table = read_table(path)
    need_columns(table.frame, ours.columns, path)
    further = sorted(set(_names(table)) - set(ours.columns))
    if further:
        return [Check(name, False, f"column {_listed(further)} of {SHOTS_FILE} {_are(further)} not of this split")]
    theirs, own = _texts(table.frame.select(ours.columns), ours.schema), _texts(ours)
    found = theirs.unique().join(own, on=own.columns, how="semi").height
    if not found == own.height == theirs.height:
        saw = f"{found} of {own.height} rows of the draw are among the {theirs.height} of {SHOTS_FILE}"
        return [Check(name, False, saw)]
    known = stated in (table.sha256, again.few_shot_sha256)
    saw = f"the same {found} rows" + ("" if stated == table.sha256 else ", other bytes")
    return [_same(name, known, saw, f"the same {found} rows, but the record has another digest of them")]


def _record(record: SplitRecord, again: SplitRecord) -> Check:
    """Every other field of the record, and of its plan, against the one that was made again."""
    theirs, ours = record.model_dump(exclude={*CHECKED_APART}), again.model_dump(exclude={*CHECKED_APART})
    wrong = [f"plan.{name}" for name, value in ours["plan"].items() if theirs["plan"][name] != value]
    wrong += [name for name, value in ours.items() if name != "plan" and theirs[name] != value]
    if record.plan.columns.patient is not None and record.plan.unit != "patient":
        return Check("record", False, f"plan.unit is {record.plan.unit!r}, but the plan names a column of patients")
    if not wrong:
        return Check("record", True, "counts, classes, notes and all else follow from the metadata and the plan")
    first = wrong[0].rpartition(".")
    there, here = (one["plan"][first[2]] if first[0] else one[first[2]] for one in (theirs, ours))
    return Check(
        "record", False, f"{_listed(wrong)} {_are(wrong)} not what the split gives ({_difference(there, here)})"
    )


def _difference(there: Any, here: Any) -> str:
    """What a field holds and what it should; of a list the first entry that differs."""
    if isinstance(there, tuple) and isinstance(here, tuple):
        place = next((i for i, pair in enumerate(zip(there, here, strict=False)) if pair[0] != pair[1]), None)
        if place is None:
            return f"{len(there)} in the record, {len(here)} wanted"
        there, here = there[place], here[place]
    return f"{plain(str(there), 120)!r} in the record, wanted {plain(str(here), 120)!r}"


def _digest(digest: str, record: SplitRecord, again: SplitRecord, same: bool) -> Check:
    """The digest of the published file; other bytes are the same split where every row is the same."""
    if digest == record.splits_sha256:
        return Check("digest", True, f"sha256 {digest}")
    if not same:
        return Check("digest", False, f"sha256 {digest}, not the record's")
    if again.splits_sha256 == record.splits_sha256:
        return Check("digest", True, f"sha256 {digest}: other bytes than the record's, the same rows")
    return Check(
        "digest",
        False,
        f"sha256 {digest}: the same rows, but the record's {record.splits_sha256} is neither this file's nor that of "
        f"the file as it is written here ({again.splits_sha256}); compare the file that was published",
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(plain(name, 60) for name in names)


def _are(names: Sequence[str]) -> str:
    return "are" if len(names) > 1 else "is"
