"""Every level of comparison over every way in which the rows are split."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl

from splits.checking import columns, conflicts
from splits.checking.findings import MAX_SAMPLES, Finding, Level
from splits.checking.keys import keyed, repeated_in
from splits.checking.overlap import overlap
from splits.checking.parts import GROUP, Layout, Rows
from splits.checking.wording import BARE, CONTENT, NAME, NEAR, PATH, Comparison, group_level, spelling_level

Progress = Callable[[str, int, int], None]


def with_images(
    frame: pl.DataFrame, folder: Path | None, distance: int, workers: int, told: Progress
) -> tuple[pl.DataFrame, list[Finding]]:
    """``frame`` with ``hash`` and ``near`` from the files below ``folder``, and what is to be said of the files."""
    if folder is None:
        return frame, []
    from splits.checking import images
    from splits.errors import SplitError

    if "image" not in frame.columns:
        raise SplitError("--images needs image names, and no column holds any; say which with --image")
    names = frame["image"].drop_nulls().unique().sort()
    located = images.locate(names.to_list(), folder)
    if not any(located.paths):
        raise SplitError(f"--images {folder}: none of the {len(names):,} listed images is there, such as {names[0]!r}")
    hashes = images.hash_files(
        located.paths, workers=workers, progress=lambda done, whole: told("hashing images", done, whole)
    )
    told("near duplicates", 0, 0)
    groups = images.near_groups(hashes, distance)
    frame = frame.drop("hash", strict=False).join(
        images.columns_of(names, located, hashes, groups), on="image", how="left", maintain_order="left"
    )
    states = {state: [name for name, s in zip(names, hashes.state, strict=True) if s == state] for state in range(4)}
    lost = set(located.missing) | set(located.ambiguous)
    closed = [name for name in states[images.NO_FILE] if name not in lost]
    said = (
        (Level.WARNING, "images-missing", "listed images {are} not in the folder", located.missing),
        (Level.WARNING, "images-ambiguous", "names {fit} several files; list them with folders", located.ambiguous),
        (Level.WARNING, "images-unreadable", "files can't be opened", closed),
        (
            Level.WARNING,
            "images-undecodable",
            "files {are} no whole image: only bytes compared",
            states[images.NO_IMAGE],
        ),
        (
            Level.NOTE,
            "images-blank",
            "images {are} blank (one grey) and {count} as copies of nothing",
            states[images.BLANK],
        ),
    )
    verbs = ({"are": "are", "fit": "fit", "count": "count"}, {"are": "is", "fit": "fits", "count": "counts"})
    found = [
        Finding(
            level,
            code,
            f"{len(some):,} of {len(names):,} {text.format(**verbs[len(some) == 1])}",
            count=len(some),
            samples=tuple(some[:MAX_SAMPLES]),
        )
        for level, code, text, some in said
        if some
    ]
    return frame, found


def compare(rows: Rows, patient_from: str, site: str, told: Progress) -> tuple[tuple[str, ...], list[Finding]]:
    """What was compared, and all findings."""
    frame, found = keyed(rows.frame, rows.layouts)
    levels = _levels(frame)
    by_names = [level for level, _, _ in levels if level.by_name]
    collided_anywhere = False
    nothing = pl.Series("seen", [False]).new_from_index(0, frame.height)
    for number, layout in enumerate(rows.layouts):
        seen = same = nothing
        collided: frozenset[tuple[int, int]] = frozenset()
        for step, (level, key, shown) in enumerate(levels):
            told("comparing", number * len(levels) + step, len(levels) * len(rows.layouts))
            of_patients = level.code in ("patient-overlap", "patient-spelling")
            follows = collided if of_patients and patient_from == "names" else frozenset()
            if not level.by_spelling:
                same = nothing
            if level is CONTENT:  # what the names have told, the bytes tell again; but looks not what the bytes told
                seen = nothing
            told_once = level.by_name or level in (CONTENT, NEAR)
            before = same if level.by_spelling else seen if told_once else None
            result = overlap(frame, layout, level, key, shown, seen=before, collided=follows)
            found += [_of_column(finding, layout, rows.layouts) for finding in result.findings]
            if result.rows is not None:
                same = result.rows
            if told_once and result.rows is not None:
                seen = seen | result.rows
            if level.by_name:
                collided |= result.collided
        collided_anywhere |= bool(collided)
    found += _conflicts(frame, rows.layouts, collided_anywhere)
    first = rows.layouts[0] if rows.layouts and rows.layouts[0].runs == 1 else None
    found += columns.labels_by_site(frame, first, site)
    names = ["file name"] if by_names else []
    names += ["name without suffix and marks"] if BARE in by_names else []
    for level, _, shown in levels:
        if not level.by_name and not level.by_spelling:
            noun = level.noun.removesuffix(" value")
            names.append(
                f"{noun} (not: mirrored or turned copies)" if level is NEAR else noun + _share(rows.frame, shown)
            )
    return tuple(dict.fromkeys(names)), found


def _of_column(finding: Finding, layout: Layout, layouts: tuple[Layout, ...]) -> Finding:
    """``finding`` with the column of the split, where there are several."""
    if len(layouts) == 1 or layout.title in finding.title:
        return finding
    return replace(finding, title=f"{layout.title}: {finding.title}")


def _share(frame: pl.DataFrame, column: str) -> str:
    """' (43 of 80 rows)' where the ids of a column are known in some rows only."""
    if not (column == "patient" or column.startswith(GROUP)) or not frame[column].null_count():
        return ""
    return f" ({frame.height - frame[column].null_count():,} of {frame.height:,} rows)"


def _levels(frame: pl.DataFrame) -> list[tuple[Comparison, str, str]]:
    """The levels that the columns allow: level, column of its key, column of its text."""
    levels: list[tuple[Comparison, str, str]] = []
    if "path" in frame.columns:
        named = ((PATH, "path"), (NAME, "name"), (BARE, "bare"))
        levels += [(level, key, "image") for level, key in named if key in frame.columns]
    groups = [name for name in frame.columns if name == "patient" or name.startswith(GROUP)]
    for name in groups:
        called = name.removeprefix(GROUP)
        levels.append((group_level(called), f"k:{name}", name))
        if f"s:{name}" in frame.columns:
            levels.append((spelling_level(called), f"s:{name}", name))
    if "hash" in frame.columns:
        levels.append((CONTENT, "k:hash", "image" if "image" in frame.columns else "hash"))
    if "near" in frame.columns:
        levels.append((NEAR, "k:near", "image"))
    return levels


def _conflicts(frame: pl.DataFrame, layouts: tuple[Layout, ...], collided: bool) -> list[Finding]:
    """Equal images under different labels, by content, by near duplicates, by name."""
    if "image" not in frame.columns and "hash" not in frame.columns:
        return []
    asked = "question" in frame.columns
    label = pl.col("label") if "label" in frame.columns and not asked else pl.lit(None, pl.String)
    shown = "image" if "image" in frame.columns else "hash"
    if not _repeats(frame):
        return []
    one = frame.select(
        path=pl.col("path") if "path" in frame.columns else pl.col("k:hash"),
        hash=pl.col("k:hash") if "hash" in frame.columns else pl.lit(None, pl.UInt64),
        near=pl.col("k:near") if "near" in frame.columns else pl.lit(None, pl.UInt64),
        part=pl.struct(layout.part for layout in layouts).hash() if collided and layouts else pl.lit(0, pl.UInt64),
        shown=pl.col(shown),
        label_text=label,
    )
    found: list[Finding] = []
    if not asked and "label" in frame.columns and "path" in frame.columns:
        # names that only collide are told apart by their split
        by_name = one.with_columns(key=pl.struct("path", "part").hash()) if collided else one.with_columns(key="path")
        found += conflicts.conflicts(by_name, PATH, "rows of one image name")
    same_image = ["path", "label_text"]
    if "hash" in frame.columns:
        some = one.with_columns(key="hash").unique(["key", *same_image], keep="first", maintain_order=True)
        found += conflicts.conflicts(some, CONTENT, "identical images")
    if "near" in frame.columns:
        some = one.with_columns(key="near").unique(["key", *same_image], keep="first", maintain_order=True)
        found += conflicts.conflicts(some, NEAR, "near duplicates")
    return found


def _repeats(frame: pl.DataFrame) -> bool:
    """Whether any image comes twice, by name, content or looks."""
    return any(
        len(repeated_in(frame[key].drop_nulls().to_numpy()))
        for key in ("path", "k:hash", "k:near")
        if key in frame.columns
    )
