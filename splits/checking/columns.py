"""Columns that are not what they seem: patients that are none, and labels that the site gives away."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from splits.checking import words
from splits.checking.findings import MAX_SAMPLES, Finding, Level
from splits.checking.ids import base_name, stem
from splits.checking.parts import Layout
from splits.checking.roles import looks_like_uuids

FEWEST = 20  # rows from which a column is judged, and a site is
LARGE_SHARE = 0.05  # of the rows, by one patient
LARGE_ROWS = 100
PURE = 0.99
MOST_SITES = 200
TCGA_SAMPLE = r"^(TCGA-[A-Z0-9]{2}-[A-Z0-9]{4})-.+$"
WORD = re.compile(r"[a-z][a-z-]{2,}")


@dataclass(frozen=True)
class Patients:
    """The column as it can be used (null where a value is no patient) and what was seen; not ``usable``: not at all."""

    column: pl.Series
    usable: bool
    findings: tuple[Finding, ...]


def real_patients(frame: pl.DataFrame, shown: str) -> Patients:
    """The column ``patient`` of ``frame`` (beside ``image``, ``label``) without values that are no patient.

    ``shown`` is its name in the file. Seen through: one value throughout, placeholders, words of the label or of a
    disease, one value for a large share of the rows, one value a row, image names, sample barcodes of TCGA.
    """
    column, found = frame["patient"], list[Finding]()
    rows = len(column) - column.null_count()
    if not rows:
        return Patients(column, False, ())
    fake = _fake_values(frame)
    if fake.height:
        text = fake["patient"].head(MAX_SAMPLES).to_list()
        affected = int(fake["rows"].sum())
        listed = ", ".join(repr(value) for value in text)
        have = "has" if affected == 1 else "have"
        said = f"column {shown}: {affected:,} of {rows:,} rows {have} a word for a patient ({listed}); taken as unknown"
        found.append(
            _warned("patient-is-a-word", said, affected, text, "Leave the cell empty where no patient is known.")
        )
        column = frame.select(
            pl.when(~pl.col("patient").is_in(fake["patient"].implode())).then(pl.col("patient"))
        ).to_series()
    kept = len(column) - column.null_count()
    if not kept:
        return Patients(column, False, tuple(found))
    column, cut = _cut_samples(column, shown)
    found += cut
    distinct, most, second, top = _largest(column)
    if distinct == 1 and kept >= FEWEST:
        said = f"column {shown} has one value throughout ({top!r}): it tells no patients apart"
        return Patients(column, False, (*found, _warned("patient-constant", said, kept, [top], OTHER_COLUMN)))
    if most >= max(LARGE_ROWS, LARGE_SHARE * kept) and most >= 10 * second:
        said = f"column {shown}: {top!r} has {most:,} of {kept:,} rows, the next {second:,}: one patient, or many?"
        found.append(_warned("patient-large", said, most, [top], "Give unknown patients no id (an empty cell)."))
    return _like_images(frame.with_columns(patient=column), shown, kept, distinct, found)


OTHER_COLUMN = "Name the real column with --patient, a pattern of file names with --pattern, or a table with --map."


def _like_images(frame: pl.DataFrame, shown: str, rows: int, distinct: int, found: list[Finding]) -> Patients:
    """The verdict on ids that may be those of images."""
    column = frame["patient"]
    if looks_like_uuids(column) and words.key(shown) == "patientid":
        said = f"column {shown} holds UUIDs, one an image, as RSNA-2018 has: image ids under the name of patients"
        found.append(_warned("patient-is-image", said, distinct, column.drop_nulls().head(2).to_list(), OTHER_COLUMN))
    if "image" not in frame.columns or rows < FEWEST or distinct < rows:
        return Patients(column, True, tuple(found))
    same = frame.select(
        ((stem(pl.col("image")) == stem(pl.col("patient"))) | (pl.col("image") == pl.col("patient"))).all()
    )
    if same.item():
        said = f"column {shown} repeats the image name: it groups nothing"
        return Patients(column, False, (*found, _warned("patient-equals-image", said, rows, [], OTHER_COLUMN)))
    said = f"column {shown} has another value in each of {rows:,} rows: one image a patient, or an image id?"
    found.append(_warned("patient-unique", said, rows, column.drop_nulls().head(2).to_list(), OTHER_COLUMN))
    return Patients(column, True, tuple(found))


def _largest(column: pl.Series) -> tuple[int, int, int, str]:
    """The number of values, the rows of the most frequent and of the next, and the most frequent one."""
    ordered = np.sort(column.drop_nulls().hash().to_numpy())
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    lengths = np.diff(np.append(starts, len(ordered)))
    first = int(lengths.argmax())
    at = (column.hash() == int(ordered[starts[first]])).fill_null(False).arg_max()
    rest = np.delete(lengths, first)
    return len(starts), int(lengths[first]), int(rest.max()) if len(rest) else 0, str(column[at or 0])


def _fake_values(frame: pl.DataFrame) -> pl.DataFrame:
    """patient, rows: the values that are a placeholder or a word."""
    labels = frame["label"].drop_nulls().unique().head(1_000).to_list() if "label" in frame.columns else []
    said = {word for label in labels for word in (label.casefold(), *WORD.findall(label.casefold()))}
    said = {word for word in said if WORD.fullmatch(word)}
    fakes = sorted(words.NO_VALUE | words.NO_PATIENT | said)
    some = frame.select("patient").filter(pl.col("patient").str.to_lowercase().is_in(fakes))
    return some["patient"].value_counts(sort=True, name="rows")


def _cut_samples(column: pl.Series, shown: str) -> tuple[pl.Series, list[Finding]]:
    """Barcodes of TCGA samples cut to the patient's."""
    filled = column.drop_nulls()
    if not filled.head(100).str.contains(TCGA_SAMPLE).all() or not filled.str.contains(TCGA_SAMPLE).all():
        return column, []
    said = f"column {shown} holds barcodes of TCGA samples; the first 12 characters are the patient and are used"
    return column.str.slice(0, 12), [
        _warned("patient-is-sample", said, len(filled), filled.head(1).to_list(), "Keep TCGA-XX-XXXX alone.")
    ]


def without_patient(frame: pl.DataFrame, layouts: Sequence[Layout]) -> list[Finding]:
    """A warning where rows of a split have no patient, though others have: they are compared by their names alone."""
    if "patient" not in frame.columns or not frame["patient"].null_count() or not layouts:
        return []
    layout = layouts[0]
    counts = frame.group_by(layout.part).agg(rows=pl.len(), lost=pl.col("patient").is_null().sum())
    counts = counts.drop_nulls().filter(pl.col("lost") > 0).with_columns(share=pl.col("lost") / pl.col("rows"))
    of = counts.sort("share", layout.part, descending=True).rows()
    if not of:
        return []
    said = [f"{lost:,} of {rows:,} rows of {layout.names[part]}" for part, rows, lost, _ in of]
    more = f" (and {', '.join(said[1:4])})" if said[1:] else ""
    verb = "has" if of[0][2] == 1 else "have"
    title = f"{said[0]}{more} {verb} no patient: they are compared by name alone"
    names, count = tuple(layout.names[row[0]] for row in of), sum(row[2] for row in of)
    mend = "Fill in the patients; without them images of one patient in two splits can't be seen."
    return [Finding(Level.WARNING, "patient-missing", title, names, count, mend=mend)]


def _warned(code: str, title: str, count: int, samples: Sequence[str], mend: str) -> Finding:
    return Finding(Level.WARNING, code, title, count=count, samples=tuple(samples), mend=mend)


def is_attribute(column: pl.Series) -> bool:
    """Whether a group column has so few values that it describes images and groups none (left, right)."""
    filled = column.drop_nulls()
    return len(filled) >= FEWEST and filled.n_unique() <= max(2, min(20, len(filled) // 50))


def labels_by_site(frame: pl.DataFrame, layout: Layout | None, shown: str) -> tuple[Finding, ...]:
    """Splits in which the site gives a label away: ``frame`` has ``label``, ``site``.

    Where no site is known, the style of the file names stands for it and the finding is a note.
    """
    if "label" not in frame.columns:
        return ()
    by_name = "site" not in frame.columns or frame["site"].null_count() == frame.height
    if by_name:
        if "image" not in frame.columns:
            return ()
        frame = frame.with_columns(site=_style(pl.col("image")))
        shown = "the style of file names"
    part = pl.lit(0, pl.UInt16) if layout is None else pl.col(layout.part)
    known = frame.filter(pl.col("label").is_not_null() & pl.col("site").is_not_null())
    counts = known.group_by(part.alias("part"), "site", "label").agg(rows=pl.len())
    if counts["site"].n_unique() > MOST_SITES:
        return ()
    said = {
        code: told
        for code in counts["part"].drop_nulls().unique().sort(descending=True)
        if (told := _told(counts, code, by_name))
    }
    if not said:
        return ()
    names = tuple(layout.names[code] for code in said) if layout else ()
    # the last split is the one that is evaluated
    also = f" (and in {', '.join(names[1:4])})" if names[1:] else ""
    where = f"in {names[0]}{also}, " if names else ""
    rows = int(counts.filter(pl.col("part") == next(iter(said)))["rows"].sum())
    title = f"{where}{shown} tells the label: {next(iter(said.values()))}"
    mend = (
        "A model can learn the source in place of the disease: judge it inside each site; take sites with all classes."
    )
    weight = Level.NOTE if by_name else Level.WARNING
    return (Finding(weight, "label-is-site", title, names, rows, mend=mend),)


def _style(name: pl.Expr) -> pl.Expr:
    """The form of a file name: 'uuid', 'hex', or its letters before the first digit, and its suffix."""
    base = base_name(name)
    suffix = base.str.extract(r"(\.[A-Za-z.]+)$").fill_null("").str.to_lowercase()
    kind = (
        pl.when(base.str.contains(r"(?i)^[0-9a-f]{8}-[0-9a-f]{4}-"))
        .then(pl.lit("uuid"))
        .when(base.str.contains(r"(?i)^[0-9a-f]{10,}"))
        .then(pl.lit("hex"))
        .otherwise(base.str.extract(r"^([^\d.]*)").fill_null("").str.to_lowercase() + "*")
    )
    return kind + suffix


def _told(counts: pl.DataFrame, code: int, by_name: bool) -> str:
    """The labels that come from sites of their own in one split, in words; '' where none does.

    A label is told by the site when each site of note has it in at least 99 % or at most 1 % of its rows, both
    occur, and at least 99 % of its rows lie at the former.
    """
    table = counts.filter(pl.col("part") == code).pivot("label", index="site", values="rows").fill_null(0)
    if table.height < 2 or table.width < 3:
        return ""
    sizes = table.drop("site").to_numpy().astype(np.float64)
    sites, labels = table["site"].to_list(), table.columns[1:]
    whole = sizes.sum(axis=1)
    large = whole >= FEWEST
    share = sizes / whole[:, None]
    said, named = [], 0
    for k in np.argsort(-sizes.sum(axis=0)):
        own, free = large & (share[:, k] >= PURE), large & (share[:, k] <= 1 - PURE)
        rows = sizes[:, k].sum()
        if not own.any() or not free.any() or (own | free).sum() < large.sum() or sizes[own, k].sum() < PURE * rows:
            continue
        homes = [sites[i] for i in np.flatnonzero(own)]
        named += all(_holds(site, labels[k]) for site in homes)
        some = ", ".join(homes[:3]) + (f" and {len(homes) - 3} more" if len(homes) > 3 else "")
        said.append(f"{int(sizes[own, k].sum()):,} of {int(rows):,} {labels[k]!r} are of {some}")
    if len(said) == 1:
        said[0] += ", which has no other label"
    if by_name and said and named * 2 >= len(said):
        return ""  # names that are made from the label: ADI-....tif
    return "; ".join(said[:4])


def _holds(style: str, label: str) -> bool:
    said = words.key(label)
    pieces = [words.key(style.split("*")[0]), *re.split(r"[^a-z]+", style)]
    return any(piece in said or said in piece for piece in pieces if len(piece) > 1 and said)
