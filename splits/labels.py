"""Labels from the cells of a table: classes in an order that is known or named, findings, and what is no label."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from protocol.findings import plain
from protocol.types import Kind
from splits.cells import spelled
from splits.errors import SplitError

# What stands for "no label" in released files (beside an empty cell), unless it is named as a class.
NO_LABEL = ("nan", "na", "n/a", "null", "?", "-100", "-100.0")
# Two classes of which all know which one is the disease: (negative, positive), in lower case.
PAIRS = (
    ("false", "true"), ("f", "t"), ("no", "yes"), ("n", "y"), ("negative", "positive"), ("neg", "pos"), ("-", "+"),
    ("absent", "present"), ("benign", "malignant"), ("normal", "abnormal"), ("healthy", "diseased"),
    ("healthy", "disease"), ("healthy", "sick"), ("control", "case"), ("controls", "cases"), ("normal", "tumor"),
    ("normal", "tumour"), ("normal", "cancer"), ("normal", "pneumonia"),
)  # fmt: skip
NO_FINDING = ("no finding", "no findings", "no_finding", "none", "normal")  # in a list of findings
LIST_MARKS = ("|", ";", "/", ",")
MAX_CLASSES = 200
MAX_TEXT = 200  # characters of what is published as text


@dataclass(frozen=True)
class Labelled:
    """``rows`` with ``label`` (class index) or ``label_0 ...`` (1, 0, null) in place of the cells."""

    rows: pl.DataFrame
    kind: Kind
    classes: tuple[str, ...]
    notes: tuple[str, ...]


def labelled(
    rows: pl.DataFrame, columns: tuple[str, ...], separator: str | None, named: tuple[str, ...], *, drop: bool
) -> Labelled:
    """The labels in ``rows``, whose ``label_0 ...`` are the cells of ``columns``.

    One column holds classes (``named``: in order), or with ``separator`` lists of findings; several are a finding each.
    Raises :class:`SplitError` for images without a label unless they are to be dropped, for classes whose order is
    not known, negative numbers, one class only, and what contradicts itself.
    """
    notes: list[str] = []
    if len(columns) > 1:
        found, kind, classes = _findings_in_columns(rows, columns, drop, notes)
    elif separator is not None:
        found, kind, classes = _findings_in_one(rows, columns[0], separator, named, drop, notes)
    else:
        found, kind, classes = _one_class(rows, columns[0], named, drop, notes)
    _class_names(classes)
    return Labelled(found, kind, classes, tuple(notes))


def unlabelled(rows: pl.DataFrame, without: pl.Series, where: str, drop: bool, notes: list[str]) -> pl.DataFrame:
    """``rows`` but for those ``without`` a label, which are refused unless they are to be dropped."""
    count = int(without.sum())
    if count == rows.height:
        raise SplitError(f"{where} holds no label at all; name the column or the file with the classes")
    if count and not drop:
        raise SplitError(
            f"{where} holds no label of {count} of {rows.height} images (empty, nan, NA, ? or -100); "
            "say --drop-unlabelled to leave them out, or mend the rows"
        )
    if count:
        notes.append(f"{count} images without a label are left out")
    return rows.filter(~without)


def _one_class(
    rows: pl.DataFrame, column: str, named: tuple[str, ...], drop: bool, notes: list[str]
) -> tuple[pl.DataFrame, Kind, tuple[str, ...]]:
    rows = _without_tokens(rows, named)
    values = rows["label_0"].drop_nulls().unique().sort().to_list()
    rows = unlabelled(rows, rows["label_0"].is_null(), f"column {column!r}", drop, notes)
    places, classes = _named(values, column, named, notes) if named else _told(values, column, notes)
    label = pl.col("label_0").replace_strict(places, default=None, return_dtype=pl.Int64).alias("label")
    return rows.with_columns(label).drop("label_0"), "binary" if len(classes) == 2 else "multiclass", classes


def _missing(named: Sequence[str]) -> list[str]:
    known = {name.casefold() for name in named}
    return [token for token in NO_LABEL if token not in known]


def _without_tokens(rows: pl.DataFrame, named: Sequence[str]) -> pl.DataFrame:
    """Cells that say that there is no label are null, unless a class is called so."""
    text = pl.col("label_0")
    cells = rows.select(
        pl.when(text.str.to_lowercase().is_in(_missing(named))).then(None).otherwise(text).alias("label_0")
    )["label_0"]
    return rows.with_columns(spelled(cells))


def _named(
    values: list[str], column: str, named: tuple[str, ...], notes: list[str]
) -> tuple[dict[str, int], tuple[str, ...]]:
    """The class index of each value among the classes that the user named."""
    numbers = {value: whole(value) for value in values}
    by_number = {whole(name): index for index, name in enumerate(named)}
    places = {name: index for index, name in enumerate(named)}
    if set(values) <= set(named):
        pass
    elif set(values) <= {"true", "false"}:  # True, FALSE: one spelling for all kinds of files
        places = {name.casefold(): index for index, name in enumerate(named)}
    elif None not in by_number:  # classes called 1, 2, 3 and cells of 1.0: the same numbers
        places = {value: by_number[number] for value, number in numbers.items() if number in by_number}
    elif set(by_number) == {None} and None not in numbers.values():  # names in the order of the numbers
        present = {number for number in numbers.values() if number is not None}
        if min(present) >= 1:
            raise SplitError(
                f"column {column!r} counts from {min(present)}: is that the first of --classes {', '.join(named)}, or "
                "the one after it? Write these names into the column, or name the classes by number (--classes 1,2,3)"
            )
        places = {v: number for v, number in numbers.items() if number is not None and 0 <= number < len(named)}
    wrong = [value for value in values if value not in places]
    if wrong:
        raise SplitError(
            f"column {column!r} holds {plain(wrong[0], 60)!r}, which is not among --classes {', '.join(named)}; "
            "name every class in its order, or mend the rows"
        )
    there = {places[value] for value in values}
    notes += [f"no image of class {name}" for index, name in enumerate(named) if index not in there]
    return places, named


def _told(values: list[str], column: str, notes: list[str]) -> tuple[dict[str, int], tuple[str, ...]]:
    """The class index of each value where no order is named: by number, by a known pair of words, by alphabet."""
    if len(values) < 2:
        raise SplitError(
            f"column {column!r} holds one class only ({plain(values[0], 60)!r}); there is nothing to classify"
        )
    if len(values) > MAX_CLASSES:
        raise SplitError(
            f"column {column!r} holds {len(values)} different values ({plain(values[0], 60)!r} ...): is that the label?"
        )
    for mark in LIST_MARKS:
        lists = [value for value in values if mark in value and set(value.split(mark)) & set(values)]
        if lists:
            raise SplitError(
                f"column {column!r} holds {plain(lists[0], 60)!r}, a list of other values? Findings parted by {mark!r} "
                f"take --label-separator {mark!r}; if each is a class of its own, name all with --classes"
            )
    numbers = {value: whole(value) for value in values}
    present = sorted({number for number in numbers.values() if number is not None})
    if present and present[0] < 0 and not (present == [-1, 1] and None not in numbers.values()):
        raise SplitError(
            f"column {column!r} holds {present[0]}, which often says that there is no label: clear these cells, or "
            "name it as a class (--classes lists all in their order)"
        )
    if None not in numbers.values():
        places = {value: present.index(number) for value, number in numbers.items() if number is not None}
        if present != list(range(len(present))):
            notes.append(f"classes {', '.join(map(str, present))} become 0 to {len(present) - 1}")
        return places, tuple(map(str, present))
    why = "class order is alphabetical"
    if len(values) == 2:
        pair = next((pair for pair in PAIRS if sorted(pair) == sorted(value.casefold() for value in values)), None)
        if pair is None:
            one, other = (plain(value, 40) for value in values)
            raise SplitError(
                f"column {column!r} holds {one!r} and {other!r}: which is the positive class? Say --classes "
                f"NEGATIVE,POSITIVE, that is --classes {_quoted(f'{one},{other}')} or {_quoted(f'{other},{one}')}"
            )
        values = sorted(values, key=lambda value: pair.index(value.casefold()))
        why = "class order is that of these words"
    places = {value: index for index, value in enumerate(values)}
    order = ", ".join(f"{index} {plain(value, 40)}" for value, index in places.items())
    notes.append(f"{why} ({order}); --classes sets another")
    return places, tuple(values)


def _quoted(text: str) -> str:
    return f'"{text}"' if " " in text else text


def _class_names(names: Sequence[str]) -> None:
    """SplitError for names that a task can't have: two alike, or none at all."""
    if len(names) < 2:
        raise SplitError(f"one class only ({plain(names[0], 60)!r}); there is nothing to classify")
    seen: dict[str, str] = {}
    for name in names:
        if not name or len(name) > MAX_TEXT or not name.isprintable():
            raise SplitError(
                f"a class is called {plain(name, 60)!r}; a name has 1 to {MAX_TEXT} characters, no control character"
            )
        form = unicodedata.normalize("NFC", name).casefold()
        if form in seen:
            raise SplitError(
                f"classes {plain(seen[form], 60)!r} and {plain(name, 60)!r} are one name but for case or the form of a "
                "letter; write one spelling"
            )
        seen[form] = name


def whole(value: str) -> int | None:
    """The whole number that ``value`` is ('7', '7.0', '-1'), or None."""
    try:
        number = float(value)
    except ValueError:
        return None
    return int(number) if number.is_integer() and abs(number) < 2**53 and "_" not in value else None


def _finding(value: str) -> int | None:
    """1 for present (1, true), 0 for absent (0, false), -1 for uncertain; None for anything else."""
    number = {"true": 1, "false": 0}.get(value.casefold(), whole(value))
    return number if number in (0, 1, -1) else None


def _findings_in_columns(
    rows: pl.DataFrame, columns: tuple[str, ...], drop: bool, notes: list[str]
) -> tuple[pl.DataFrame, Kind, tuple[str, ...]]:
    """One column a finding: 1 or true, 0 or false, and empty (or -1, uncertain) for not labelled."""
    names = [f"label_{index}" for index in range(len(columns))]
    for name, column in zip(names, columns, strict=True):
        values = rows[name].drop_nulls().unique().to_list()
        known = {value: _finding(value) for value in values if value.casefold() not in NO_LABEL}
        wrong = sorted(value for value, number in known.items() if number is None)
        if wrong:
            raise SplitError(
                f"column {column!r} holds {plain(wrong[0], 60)!r}; with several --label columns each is a finding "
                "of 1, 0 or empty (for classes name one column, for findings in one column say --label-separator)"
            )
        uncertain = [value for value, number in known.items() if number == -1]
        count = int(rows[name].is_in(uncertain).sum()) if uncertain else 0
        if count:
            notes.append(f"{count} images are uncertain (-1) for {column}; they count as not labelled")
        places = {value: number for value, number in known.items() if number in (0, 1)}
        rows = rows.with_columns(pl.col(name).replace_strict(places, default=None, return_dtype=pl.Int8))
    without = rows.select(pl.all_horizontal(pl.col(names).is_null()))[names[0]]
    rows = unlabelled(rows, without, f"columns {', '.join(columns[:3])} ...", drop, notes)
    return rows, "multilabel", columns


def _findings_in_one(
    rows: pl.DataFrame, column: str, mark: str, named: tuple[str, ...], drop: bool, notes: list[str]
) -> tuple[pl.DataFrame, Kind, tuple[str, ...]]:
    """Findings of an image in one cell, parted by ``mark``; a word for no finding stands alone."""
    rows = _without_tokens(rows, named)
    parts = _parts(rows["label_0"], mark, named)
    for state, what in (("missing", "no label"), ("none", "no finding")):
        mixed = parts.group_by("cell").agg(pl.col(state).any(), all=pl.col(state).all())
        both = mixed.filter(pl.col(state) & ~pl.col("all"))["cell"].sort()
        if len(both):
            raise SplitError(
                f"column {column!r} holds {plain(both[0], 60)!r} ({len(both)} such values): a finding and, beside it, "
                f"a word for {what}; mend the rows"
            )
    rows = rows.with_columns(
        pl.when(pl.col("label_0").is_in(parts.filter(~pl.col("missing"))["cell"].unique().implode())).then("label_0")
    )
    rows = unlabelled(rows, rows["label_0"].is_null(), f"column {column!r}", drop, notes)
    values = parts.filter(~pl.col("missing") & ~pl.col("none"))["part"].unique().sort().to_list()
    classes = named or tuple(values)
    wrong = [value for value in values if value not in classes]
    if wrong:
        raise SplitError(
            f"column {column!r} holds {plain(wrong[0], 60)!r}, which is not among --classes {', '.join(classes)}"
        )
    if not parts["cell"].str.contains(mark, literal=True).any():
        notes.append(f"no cell of column {column!r} holds {mark!r}: every image has one finding at most")
    if len(classes) < 2 or len(classes) > MAX_CLASSES:
        raise SplitError(f"column {column!r} holds {len(classes)} findings parted by {mark!r}; is that its separator?")
    table = parts.group_by("cell").agg(
        (pl.col("part") == name).any().cast(pl.Int8).alias(f"found_{index}") for index, name in enumerate(classes)
    )
    rows = rows.join(table, left_on="label_0", right_on="cell", how="left", maintain_order="left").drop("label_0")
    words = parts.filter("none")["part"].unique().sort().to_list()
    if words and not named:
        notes.append(f"{', '.join(repr(word) for word in words)} means that no finding is present")
    renamed = {f"found_{index}": f"label_{index}" for index in range(len(classes))}
    return rows.rename(renamed), "multilabel", tuple(classes)


def _parts(cells: pl.Series, mark: str, named: Sequence[str]) -> pl.DataFrame:
    """Columns cell, part, missing, none: the parts of each distinct cell, without empty ones (a mark at the end)."""
    distinct = cells.drop_nulls().unique().alias("cell").to_frame()
    parts = distinct.with_columns(part=pl.col("cell").str.split(mark)).explode("part")
    parts = parts.with_columns(pl.col("part").str.strip_chars()).filter(pl.col("part") != "")
    lower = pl.col("part").str.to_lowercase()
    return parts.with_columns(
        missing=lower.is_in(_missing(named)), none=lower.is_in(NO_FINDING) & ~pl.col("part").is_in(list(named))
    )
