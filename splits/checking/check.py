"""Check split and list files for leaks: reads, compares at every level, and gives one report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from splits.checking import columns, compare
from splits.checking.compare import Progress
from splits.checking.findings import MAX_SAMPLES, Finding, Level, Report, Source, in_order
from splits.checking.identity import reversible
from splits.checking.ids import patients_from, pattern_of, pattern_that_fits
from splits.checking.images import DISTANCE
from splits.checking.loading import Listing, load
from splits.checking.maps import mapped
from splits.checking.parts import GROUP, Rows, rows_of
from splits.checking.roles import Chosen, Roles, find_roles
from splits.checking.wording import BY_MAP
from splits.errors import SplitError


@dataclass(frozen=True)
class Options:
    """What a user can say beside the files.

    ``maps``: '' -> a table of images and patients; others are a data set's. ``names``: an official list whose names may
    be what was hashed; ``deep``: search long for such names.
    """

    chosen: Chosen = field(default_factory=Chosen)
    pattern: str = ""
    maps: Mapping[str, Path] = field(default_factory=dict)
    dataset: str = ""
    images: Path | None = None
    distance: int = DISTANCE
    workers: int = 0
    encoding: str = "utf-8"
    names: Path | None = None
    deep: bool = False


def check_splits(
    files: Sequence[str | Path], options: Options | None = None, progress: Progress | None = None
) -> Report:
    """Leaks between the splits that ``files`` list; a file is a path or 'NAME=path'.

    ``progress`` is told (step, done, all). Raises SplitError for files, columns or options that can't be used.
    """
    options = options or Options()
    told = progress or (lambda _step, _done, _all: None)
    if options.pattern:
        pattern_of(options.pattern)
    listings, roles, skipped = _read(files, options, told)
    told("splits", 0, 0)
    rows = rows_of(listings, roles)
    if not rows.layouts and options.images is None and not options.dataset:
        names = ", ".join(map(repr, listings[0].frame.columns[:12]))
        raise SplitError(
            f"{listings[0].path}: nothing says which split a row is in (columns {names}); name it with --split, "
            "give a file for each split, or give --images DIR to look for duplicates alone"
        )
    sources = [_source(listing, role) for listing, role in zip(listings, roles, strict=True)]
    del listings
    filled = [name for name in rows.frame.columns if rows.frame[name].null_count() < rows.frame.height]
    frame, patient_from, found = _with_patients(rows.frame.select(filled), roles, options)
    found += [Finding(Level.NOTE, "rows-left-out", note) for note in (*rows.notes, *skipped)]
    if not any(len(layout.names) > 1 for layout in rows.layouts):
        only = f"only one split is named ({', '.join(rows.sizes)})" if rows.sizes else "no split is named"
        found.append(Finding(Level.WARNING, "no-splits", f"{only}: what lies inside one list was looked at, no more"))
    frame, of_images = compare.with_images(frame, options.images, options.distance, options.workers, told)
    found += of_images
    told("comparing", 0, 0)
    compared, more = compare.compare(
        Rows(frame, rows.layouts, rows.sizes, rows.notes), patient_from, _site_name(roles), told
    )
    found += reversible(frame, options.names, options.deep, told, options.encoding)
    if rows.layouts and not set(frame.columns) & {"patient"} and not any(c.startswith(GROUP) for c in frame.columns):
        said = "no patient is known: images of one patient in two splits can't be seen"
        found.append(Finding(Level.WARNING, "no-patients", said, mend=columns.OTHER_COLUMN))
    missing = columns.without_patient(frame, rows.layouts)
    if not any(finding.code == "pattern-misses" for finding in found):
        found += missing
    return Report(tuple(sources), rows.sizes, rows.runs, compared, in_order([*found, *more]), _unknown(frame))


def _unknown(frame: pl.DataFrame) -> str:
    """Of how many rows no patient is known, in words."""
    count = frame["patient"].null_count() if "patient" in frame.columns else frame.height
    if count == frame.height:
        return "patients not known"
    return f"patients of {count:,} of {frame.height:,} rows not known" if count else ""


def _read(
    files: Sequence[str | Path], options: Options, told: Progress
) -> tuple[list[Listing], list[Roles], list[str]]:
    if not files:
        raise SplitError("no file is given")
    paths = [_named(file) for file in files]
    for number, (_, path) in enumerate(paths):
        if path.resolve() in [other.resolve() for _, other in paths[:number]]:
            raise SplitError(f"{path} is given twice; a list has nothing to share with itself")
    if options.dataset:
        return _of_dataset([path for _, path in paths], options)
    listings, skipped = [], []
    for number, (name, path) in enumerate(paths):
        told("reading", number, len(paths))
        try:
            listings.append(load(path, name=name, encoding=options.encoding))
        except SplitError as error:
            if "holds counts by split" not in str(error) or len(paths) == 1:
                raise
            skipped.append(str(error))
    if len(skipped) > 1:
        skipped = [f"{len(skipped)} files hold counts by split and no names of images, and are left out"]
    if not listings:
        raise SplitError(f"{paths[0][1]} and the others hold counts by split and no names of images")
    _all_named(listings, options.chosen)
    alone = len(listings) == 1
    return listings, [find_roles(listing, options.chosen, alone=alone) for listing in listings], skipped


def _named(file: str | Path) -> tuple[str, Path]:
    text = str(file)
    name, mark, rest = text.partition("=")
    if mark and name and "/" not in name and not Path(text).exists():
        return name, Path(rest)
    return "", Path(text)


def _all_named(listings: Sequence[Listing], chosen: Chosen) -> None:
    """A column that was named must be in one file at least."""
    there = {column for listing in listings for column in listing.frame.columns}
    singles = (chosen.image, chosen.patient, chosen.site, chosen.split, chosen.run)
    for column in (*singles, *chosen.group, *chosen.label, *chosen.fold):
        if column is not None and column not in there:
            raise SplitError(f"no file has a column {column!r}; there are {', '.join(map(repr, sorted(there)[:20]))}")


def _of_dataset(paths: Sequence[Path], options: Options) -> tuple[list[Listing], list[Roles], list[str]]:
    """The listing that the adapter of a public data set reads."""
    from splits.datasets import DATASETS
    from splits.datasets.common import readable

    if options.dataset not in DATASETS:
        raise SplitError(f"--dataset {options.dataset!r} is none of {', '.join(DATASETS)}")
    data = DATASETS[options.dataset]
    with readable(*paths[:1]):
        images = data.read(paths, {name: path for name, path in options.maps.items() if name})
    frame = images.frame
    labels = tuple(c for c in frame.columns if c == "label" or c.startswith("label_"))
    frame = frame.with_columns(pl.col(c).cast(pl.String) for c in labels)
    patient = "patient" if frame["patient"].null_count() < frame.height else ""
    listing = Listing(paths[0], frame, f"data set {data.key}", notes=images.notes)
    roles = Roles(
        image="image",
        patient=patient,
        group=("group",) if "group" in frame.columns else (),
        label=labels,
        site="site",
        split="published" if "published" in frame.columns else "",
    )
    return [listing], [roles], []


def _source(listing: Listing, roles: Roles) -> Source:
    return Source(str(listing.path), listing.frame.height, listing.form, roles.shown(), listing.notes)


def _site_name(roles: Sequence[Roles]) -> str:
    return next((f"column {role.site}" for role in roles if role.site), "the site")


def _with_patients(
    frame: pl.DataFrame, roles: Sequence[Roles], options: Options
) -> tuple[pl.DataFrame, str, list[Finding]]:
    """``frame`` with usable patients, where they come from and findings.

    They come from 'column', 'pattern' (given), 'names' (a known pattern that fits all), 'map' or '' (nowhere).
    """
    found: list[Finding] = []
    shown = next((role.patient for role in roles if role.patient), "patient")
    came = ""
    if "" in options.maps:
        if "image" not in frame.columns and "patient" in frame.columns:
            frame = frame.rename({"patient": "image"})
        if "image" not in frame.columns:
            raise SplitError("--map needs image names, and no column holds any; say which with --image")
        column, called, said = mapped(frame["image"], options.maps[""], options.encoding)
        found.append(Finding(Level.NOTE, "map-used", said))
        if called == "patient" and "patient" in frame.columns:
            frame, came = frame.with_columns(column.alias(GROUP + BY_MAP)), "column"  # both are compared
        elif called == "patient":
            frame, came, shown = frame.with_columns(patient=column), "map", "of the map"
        else:
            frame = frame.with_columns(column.alias(GROUP + called))
            came = "column" if "patient" in frame.columns else ""
    elif options.pattern:
        if "image" not in frame.columns:
            raise SplitError("--pattern needs image names, and no column holds any; say which with --image")
        # the user says that these are patients: equal ones are no accident of numbering
        frame, came = frame.with_columns(patient=patients_from(frame["image"], options.pattern)), "pattern"
        missed = frame["patient"].null_count()
        if missed == frame.height:
            raise SplitError(f"--pattern {options.pattern!r} fits none of the names, such as {frame['image'][0]!r}")
        if missed:
            fits = f"pattern {options.pattern} fits {frame.height - missed:,} of {frame.height:,} names"
            said = f"{fits}; the rest has no patient"
            found.append(Finding(Level.NOTE, "pattern-misses", said, count=missed))
        shown = f"of pattern {options.pattern}"
    elif "patient" in frame.columns:
        came = "column"
    if came:
        patients = columns.real_patients(frame, shown)
        found += patients.findings
        frame = frame.with_columns(patient=patients.column) if patients.usable else frame.drop("patient")
    if "patient" not in frame.columns and "image" in frame.columns:
        key = pattern_that_fits(frame["image"])
        if key:
            frame, came = frame.with_columns(patient=patients_from(frame["image"], key)), "names"
            found.append(
                Finding(Level.NOTE, "pattern-used", f"every name fits the pattern {key}: patients are taken from names")
            )
    for group in [c for c in frame.columns if c.startswith(GROUP)]:
        if columns.is_attribute(frame[group]):
            said = f"column {group.removeprefix(GROUP)} has few values and is no group of images; it is not compared"
            values = frame[group].drop_nulls().unique().sort().head(MAX_SAMPLES)
            found.append(Finding(Level.NOTE, "group-is-attribute", said, samples=tuple(values)))
            frame = frame.drop(group)
    return frame, came if "patient" in frame.columns else "", found
