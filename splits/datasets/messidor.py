"""Messidor: 1,200 fundus photographs of three French departments, graded 0 to 3 on a scale of its own."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from splits.datasets.base import DataSet, Images
from splits.datasets.common import (
    check_maps,
    column_of,
    grouped,
    in_order,
    labels_from,
    missing_labels,
    one_row_an_image,
    stem,
    the_files,
)
from splits.errors import SplitError
from splits.reading import read_table

UNAVAILABLE = "Messidor names no patient; its pairs of eyes were never published"
_BASE = re.compile(r"annotation[ _]base(\d\d).*\.(xlsx?|csv)$", re.IGNORECASE)


def read(files: Sequence[Path], maps: Mapping[str, Path]) -> Images:
    """The images of ADCIS's twelve lists (a folder, or the files), or of one table made of them."""
    check_maps(maps, ("duplicates",))
    paths, notes = _paths(files)
    frame, repeated = one_row_an_image(pl.concat([_listed(path) for path in paths], how="diagonal"), paths[0])
    notes += repeated + missing_labels(frame["label"])
    if frame["site"].null_count() == frame.height:
        # The three departments show in the last number of the name: 0100, 0200, 0400, with 400 images each.
        site = pl.lit("department ") + stem("image").str.extract(r"_(\d{4})_PP", 1)
        frame = frame.with_columns(site=site.fill_null("messidor"))
        notes += ("the list has no department; the site is told from the number in the name (0100, 0200, 0400)",)
    if "duplicates" in maps:
        frame, more = grouped(frame, maps["duplicates"], "duplicate groups")
        notes += more
    elif frame.height == 1200:
        notes += ("all 1,200 images are listed, the 13 copies in Base33 among them: give the map duplicates",)
    return Images(in_order(frame.with_columns(patient=pl.lit(None, pl.String))), notes, "image", UNAVAILABLE)


def _paths(files: Sequence[Path]) -> tuple[list[Path], tuple[str, ...]]:
    """The lists to read: of a folder one a base, the corrected one where there are two."""
    if not (len(files) == 1 and files[0].is_dir()):
        return the_files(files, ("Annotation_Base11.xls",)), ()
    bases: dict[str, Path] = {}
    for path in sorted(files[0].rglob("*"), key=lambda path: ("update" in path.name.casefold(), path.name)):
        if found := _BASE.match(path.name):
            bases[found[1]] = path
    if not bases:
        raise SplitError(f"{files[0]}: the folder has no Annotation_BaseNN.xls; name the table of labels as the file")
    notes = []
    if len(bases) < 12:
        notes.append(
            f"only {len(bases)} of the 12 lists are there: {', '.join(f'Base{base}' for base in sorted(bases))}"
        )
    old = [f"Base{n}" for n in ("11", "13") if n in bases and "update" not in bases[n].name.casefold()]
    if old:
        notes.append(
            f"the list of {' and '.join(old)} may be the one before the corrections of 2016 (four grades); ADCIS's "
            "corrected files have update20161024 in their names"
        )
    return [bases[base] for base in sorted(bases)], tuple(notes)


def _listed(path: Path) -> pl.DataFrame:
    table = read_table(path).frame
    image = column_of(table, ("Image name", "image_fname", "image", "id_code"), path)
    grade = column_of(table, ("Retinopathy grade", "diagnosis"), path)
    lower = {name.casefold(): name for name in table.columns}
    department, edema = lower.get("ophthalmologic department"), lower.get("risk of macular edema")
    return table.select(
        image=image,
        label=labels_from(table, grade, ("0", "1", "2", "3"), path),
        site=pl.col(department) if department else pl.lit(None, pl.String),
        **({"edema_risk": pl.col(edema).str.replace(r"\.0$", "")} if edema else {}),
    )


MESSIDOR = DataSet(
    key="messidor",
    title="Messidor",
    modality="fundus photograph",
    licence="research and education only; no copy or redistribution (ADCIS)",
    source="https://www.adcis.net/en/third-party/messidor/",
    citation="10.5566/ias.1155",
    files="Annotation_Base11.xls to Annotation_Base34.xls (12 lists), or one table of them",
    kind="multiclass",
    classes=("grade 0", "grade 1", "grade 2", "grade 3"),
    prompt_classes=tuple(f"{word} diabetic retinopathy" for word in ("no", "mild", "moderate", "severe")),
    ordinal=True,
    unit="image",
    unavailable=UNAVAILABLE,
    guarantees=("the department is known for each image, so one can be held out as a site",),
    limits=(
        "no split by patient is possible: two eyes of one person can lie on both sides",
        "it is no external test set for Messidor-2, nor the other way round: 1,052 of its 1,187 file names are in both",
        "grades 0 to 3 count lesions by Messidor's own rule and are not those of the international scale (0 to 4)",
        "ADCIS's errata name 13 pairs of the same picture in Base33, one with two grades of retinopathy and one with "
        "two of edema, and correct four grades of Base11 and Base13",
    ),
    read=read,
    maps={"duplicates": "ADCIS's list of copies in Base33: two image names a row"},
)
