"""A table that says whose an image is: RSNA-2018 -> NIH, ISIC image -> lesion, slide -> case."""

from pathlib import Path

import polars as pl

from splits.checking import words
from splits.checking.ids import base_name, patients_from, pattern_that_fits, stem
from splits.checking.loading import load
from splits.checking.roles import Chosen, find_roles
from splits.errors import SplitError


def mapped(images: pl.Series, path: Path, encoding: str = "utf-8") -> tuple[pl.Series, str, str]:
    """The patient (or group) of each image by the table in ``path``, null where it has none; its name; a sentence.

    Two columns are image and patient; of more, those are taken that are named so. An image is found by its name
    as written, else by its base name, else without suffix. Patients that are themselves file names of a known
    pattern (NIH) are read as such. Raises SplitError where no image is found or one image has two patients.
    """
    frame = load(path, encoding=encoding).frame
    names, roles_patient = list(frame.columns), False
    if len(names) == 2:
        image, patient = names
    else:
        roles = find_roles(load(path, encoding=encoding), Chosen())
        image, patient = roles.image, roles.patient or (*roles.group, roles.hash)[0]
        roles_patient = bool(roles.patient)
    if not image or not patient:
        raise SplitError(
            f"--map {path} has the columns {', '.join(map(repr, names[:12]))}; wanted two: image and patient"
        )
    table = frame.select(image=pl.col(image), patient=pl.col(patient)).drop_nulls().unique()
    if not table.height:
        raise SplitError(f"--map {path} has no row with both an image ({image!r}) and a patient ({patient!r})")
    key = pattern_that_fits(table["patient"])
    told = ""
    if key:
        table = table.with_columns(patient=patients_from(table["patient"], key)).unique()
        told = f", its patients read by the pattern {key}"
    wanted = pl.DataFrame({"image": images})
    result = pl.Series("patient", [None], dtype=pl.String).new_from_index(0, len(images))
    for level in (lambda e: e, base_name, stem):
        keyed = table.select(key=level(pl.col("image")), patient="patient").unique()
        many = keyed.filter(pl.col("key").is_duplicated())
        if many.height and not keyed.filter(~pl.col("key").is_duplicated()).height:
            raise SplitError(f"--map {path}: image {many['key'][0]!r} has several patients")
        keyed = keyed.filter(~pl.col("key").is_duplicated())
        joined = wanted.select(key=level(pl.col("image"))).join(keyed, on="key", how="left", maintain_order="left")
        result = pl.select(pl.coalesce(result, joined["patient"])).to_series().alias("patient")
        if result.null_count() == 0:
            break
    found = len(images) - result.null_count()
    if not found:
        raise SplitError(
            f"--map {path} names none of the images: it has {table['image'][0]!r}, the list {images.drop_nulls()[0]!r}"
        )
    column = "patient" if (len(names) == 2 and words.key(patient) not in words.GROUP) or roles_patient else patient
    count = result.n_unique() - (found < len(images))
    noun = ("patient" if column == "patient" else f"{patient} value") + ("" if count == 1 else "s")
    return result, column, f"map {path.name}: {found:,} of {len(images):,} rows found ({count:,} {noun}){told}"
