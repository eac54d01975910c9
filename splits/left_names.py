"""Names that would stay readable in a hashed table, and tables that name nothing of their split."""

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from protocol.findings import plain
from protocol.tables import PERSONAL_NAMES, bare
from splits.cells import image_name
from splits.checking.words import PATIENT
from splits.errors import SplitError
from splits.hashing import hash_column
from splits.plan import Plan
from splits.sealing import per_site_ids
from splits.writing import IMAGES_FILE, PRIVATE, SPLITS_FILE

WHOLE, NUMBER = r"^[-+]?\d+$", r"^[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?$"
FEW = 2  # distinct whole numbers that must agree with the patients of their rows: seed 1 is no patient 1


@dataclass(frozen=True)
class Hidden:
    """What a table is to hide: the hashed ``ids`` of its rows by 'image' and, where it names them, 'patient'.

    ``published`` has a row an image of the split: ``image_id``, ``patient_id``, ``site``. With ``per_site`` each site
    numbers its own patients; ``sites`` are those of the rows, where the table says them.
    """

    salt: bytes
    namespace: str
    ids: Mapping[str, pl.Series]
    published: pl.DataFrame | None = None
    per_site: bool = False
    sites: pl.Series | None = None


def published_ids(record: Path) -> pl.DataFrame | None:
    """``image_id``, ``patient_id`` and ``site`` of the splits.parquet beside ``record``; None where there is none."""
    path = record.parent / SPLITS_FILE
    if not path.is_file():
        return None
    try:
        return pl.read_parquet(path, columns=["image_id", "patient_id", "site"]).cast(pl.String)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of the reader is no Exception
        said = (str(error).splitlines() or [""])[0][:200]
        raise SplitError(f"{path} is not the table of the split in {record} ({said})") from None


def present(ids: pl.Series, published: pl.Series) -> int:
    """How many of the distinct ``ids`` are in ``published``."""
    return _distinct(ids).join(_distinct(published), on="id", how="semi").height


def refuse_names(kept: Iterable[str], patient: str | None, path: Path) -> None:
    """SplitError for the first column of ``kept`` that is called like one of patients or their particulars."""
    for name in kept:
        if bare(name) in PERSONAL_NAMES or bare(name) in PATIENT:
            raise SplitError(
                f"{path}: column {name!r} is called like one of patients and would stay as it is; "
                f"{_mend(name, 'patient', patient is not None)}, or rename it if it holds something else"
            )


def no_names_left(texts: pl.DataFrame, hidden: Hidden, path: Path) -> None:
    """SplitError for a column of ``texts``, which are to stay readable, that holds names of images or patients.

    Text, and the parts of a path, are looked for among all images and patients of the table and of the split. Whole
    numbers, which a seed or a fold has too, are compared with the image and patient of their own row: most must agree,
    of two or more.
    """
    rows = pl.DataFrame([ids.alias(f"{what}_id") for what, ids in hidden.ids.items()])
    if hidden.published is not None:
        known = hidden.published.unique("image_id", keep="any")
        rows = rows.join(known, on="image_id", how="left", maintain_order="left", suffix="_split")
    if hidden.sites is not None:
        rows = rows.with_columns(hidden.sites.alias("site"))
    for name in texts.columns:
        cells = texts[name].str.replace(r"^([-+]?\d+)\.0+$", "$1")
        distinct = cells.drop_nulls().unique()
        whole = bool(distinct.str.contains(WHOLE).all())
        numbers = int(distinct.str.contains(NUMBER).sum())
        if distinct.is_empty() or (not whole and numbers > distinct.len() / 2):
            continue
        for what in ("patient", "image"):
            if _holds(cells, distinct, what, hidden, rows, whole):
                raise SplitError(
                    f"{path}: column {name!r} holds names of {what}s and would stay as it is; "
                    f"{_mend(name, what, what in hidden.ids)}"
                )


def _holds(cells: pl.Series, distinct: pl.Series, what: str, hidden: Hidden, rows: pl.DataFrame, whole: bool) -> bool:
    """Whether ``cells``, whose texts are ``distinct``, name images or patients (``what``)."""
    space, own = f"{hidden.namespace}/{what}", f"{what}_id"
    by_row = what == "patient" and hidden.per_site
    if not whole and not by_row:
        found = hash_column(hidden.salt, space, _with_parts(_slashes(distinct)))
        tables = [table[own] for table in (rows, hidden.published) if table is not None and own in table.columns]
        return any(present(found, ids) for ids in tables)
    if own not in rows.columns or (by_row and "site" not in rows.columns):
        return False
    both = rows.select(own, site="site" if by_row else pl.lit("")).with_columns(name=cells).drop_nulls()
    if both.is_empty():
        return False
    if by_row:
        found = per_site_ids(both["site"], both["name"], space, hidden.salt)
    else:
        found = hash_column(hidden.salt, space, _slashes(both["name"]) if what == "image" else both["name"])
    same = both.filter(found == both[own])
    if not whole:
        return same.height > 0
    return same.height > both.height / 2 and same["name"].n_unique() >= FEW


def none_in_split(what: str, names: pl.Series, path: Path, record: Path, plan: Plan) -> SplitError:
    """That none of ``names`` is in the split, and how names look there."""
    images = record.absolute().parent.parent / PRIVATE / IMAGES_FILE
    sample = _sample(images, what)
    if sample is not None:
        how = f"there they are written like {plain(sample, 80)!r} ({PRIVATE}/{IMAGES_FILE} lists them)"
    elif what == "image" and plan.recipe:
        how = "in a recipe they are written DATASET/NAME, such as 'messidor/NAME', NAME as the data set's files have it"
    elif plan.dataset or plan.recipe:
        how = f"they are written as the label files of {plan.dataset or 'each data set'} name them"
    else:
        column = plan.columns.image if what == "image" else plan.columns.patient
        how = f"they are written as in column {column!r} of its metadata, letter by letter"
    return SplitError(
        f"{path}: none of the {names.n_unique()} {what}s in column {names.name!r}, such as {plain(names[0], 80)!r}, is "
        f"in the split of {record}; {how}"
    )


def _sample(images: Path, what: str) -> str | None:
    """The first image or patient of the private list, where it lies beside the public folder."""
    try:
        if not images.is_file():
            return None
        with images.open(encoding="utf-8", newline="") as file:
            return next(csv.DictReader(file), {}).get(what) or None
    except (OSError, ValueError, csv.Error):
        return None


def _mend(name: str, what: str, named: bool) -> str:
    return f"drop it: the {what}s are those of another column" if named else f"say --{what} {name!r} or drop it"


def _slashes(names: pl.Series) -> pl.Series:
    return names.to_frame().select(image_name(pl.all())).to_series()


def _with_parts(names: pl.Series) -> pl.Series:
    """``names`` and the parts of paths among them: P001/left.png names patient P001 and image left.png."""
    parts = names.filter(names.str.contains("/", literal=True)).str.split("/").explode()
    return pl.concat([names, parts.filter((parts != "") & ~parts.str.contains(WHOLE))]).unique()


def _distinct(ids: pl.Series) -> pl.DataFrame:
    return pl.DataFrame({"id": ids.drop_nulls().unique()})
