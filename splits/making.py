"""Make the splits of a data set: units, draw, counts, few-shot draws (step 1)."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from protocol.types import SPLIT_NAMES, Kind
from splits.assign import LabelCounts, check_proportions, draw, draw_folds
from splits.balance import counted_labels, counts_of, unbalanced
from splits.errors import SplitError
from splits.few_shot import few_shot
from splits.metadata import Gathered
from splits.plan import Count, Plan
from splits.units import Coded, coded, one_spelling, units_of

LARGE = 0.2  # of all images: a patient with more is said
EXTERNAL = SPLIT_NAMES.index("external")


@dataclass(frozen=True)
class Split:
    """``frame`` has one row an image as they were read: ``image``, ``site``, labels, subgroups and ``split``.

    ``patients`` are their patients; with ``patients_per_site`` the names hold the site before a unit separator
    (:data:`APART`).
    """

    frame: pl.DataFrame
    patients: Coded
    few_shot: pl.DataFrame | None
    kind: Kind
    classes: tuple[str, ...]
    label_columns: tuple[str, ...]
    subgroups: tuple[str, ...]
    counts: tuple[Count, ...]
    images_per_unit: float
    images_per_patient: float | None  # None where patients are unavailable
    notes: tuple[str, ...]


APART = "\x1f"  # between site and patient where each site numbers its own patients: no site's name holds it


def make(gathered: Gathered, plan: Plan, progress: Callable[[str], None] = lambda step: None) -> Split:
    """The splits of the images that ``gathered`` holds, drawn as ``plan`` says.

    Images of an external site are the external split; whole units of the others are dealt to the splits of
    ``plan.proportions``. The same images and plan give the same splits in any order of rows, on any machine.

    Raises :class:`SplitError` for a site that does not exist, a patient both at an external site and elsewhere (unless
    ``plan.drop_shared``), ids or sites that differ in zeros, case, blanks or a decimal point only (unless
    ``plan.ids_as_written``), fewer patients than classes, and what :func:`splits.assign.draw` refuses.
    """
    check_proportions(plan.proportions)
    notes, frame = list(gathered.images.notes), gathered.images.frame
    if plan.patients_per_site and not (plan.columns.site or plan.dataset or plan.recipe):
        raise SplitError("--patients-per-site: which column holds the sites? Say --site COLUMN")
    _known_sites(frame, plan)
    unknown = 0 if plan.unavailable else frame["patient"].null_count()
    if unknown:
        raise SplitError(f"{unknown} images have no {plan.unit}; name its column, or say why there is none")
    progress("finding patients")
    groups = _numbered(frame, "group")
    outside = frame["site"].is_in(plan.external).to_numpy()
    patients, units = _units(frame, plan, groups, check=not (plan.ids_as_written or plan.dataset or plan.recipe))
    keep = _apart(frame["site"], outside, units, plan, notes)
    if not keep.all():
        frame, outside = frame.filter(pl.Series(keep)), outside[keep]
        patients, units = _units(frame, plan, groups, check=False)
    inside = np.flatnonzero(~outside)
    _plausible(units[inside], gathered, plan, bool(groups) or not plan.unavailable, notes)
    progress("drawing the splits")
    everything = counted_labels(frame, units, len(gathered.classes), gathered.kind)
    dealt, labels = _of_rows(inside, units, everything)
    levels = [coded(frame[name]).codes for name in _numbered(frame, "stratify")]
    split = np.full(frame.height, EXTERNAL)
    split[inside] = draw(dealt, labels, plan.proportions, plan.seed, [level[inside] for level in levels])
    progress("counting")
    sizes = np.bincount(units)
    split_of = np.zeros(len(sizes), dtype=np.int64)
    split_of[units] = split
    counts = counts_of(split_of, sizes, everything, len(gathered.classes))
    if not plan.unavailable:
        counts = _with_patients(counts, patients, split)
    notes += unbalanced(labels, counts, gathered.classes, plan.proportions, plan.unit)
    frame = frame.with_columns(split=pl.Series(SPLIT_NAMES, dtype=pl.String).gather(split))
    if plan.folds is not None:
        train = np.flatnonzero(split == SPLIT_NAMES.index("train"))
        fold = np.full(frame.height, -1)
        fold[train] = draw_folds(*_of_rows(train, units, everything), plan.folds, plan.seed, [x[train] for x in levels])
        frame = frame.with_columns(fold=pl.when(pl.lit(fold >= 0)).then(pl.lit(fold)))
    elif "calib" not in plan.proportions:
        notes.append("no calib split: calibrators are fitted on it, or across --folds of train (cross_fit)")
    shots = None
    if plan.shots is not None:
        if gathered.kind == "multilabel":
            raise SplitError("few-shot draws need one class an image; findings have none. Leave --shots out")
        pool = frame.select("image", "split", "label", unit=pl.Series(units))
        shots, said = few_shot(pool, plan.shots, plan.shot_seeds, gathered.classes, by_image=plan.shots_by_image)
        notes += said
    named = ("label",) if "label" in frame.columns else tuple(_numbered(frame, "label"))
    return Split(
        frame.select("image", "site", *named, *gathered.subgroups, "split", *(["fold"] if plan.folds else [])),
        patients,
        shots,
        gathered.kind,
        gathered.classes,
        named,
        gathered.subgroups,
        counts,
        round(frame.height / len(sizes), 4),
        None if plan.unavailable else round(frame.height / len(patients.names), 4),
        tuple(notes),
    )


def _with_patients(counts: tuple[Count, ...], patients: Coded, split: NDArray[np.int64]) -> tuple[Count, ...]:
    """``counts`` with the patients of each split, who are more than its units where groups tie them."""
    place = np.zeros(len(patients.names), dtype=np.int64)
    place[patients.codes] = split
    held = np.bincount(place, minlength=len(SPLIT_NAMES))
    return tuple(count.model_copy(update={"patients": int(held[SPLIT_NAMES.index(count.split)])}) for count in counts)


def _numbered(frame: pl.DataFrame, name: str) -> list[str]:
    """The columns called ``name``_0 ..., and none of a subgroup called group_of_age."""
    return [column for column in frame.columns if re.fullmatch(rf"{name}_\d+", column)]


def _of_rows(
    rows: NDArray[np.int64], units: NDArray[np.int64], labels: LabelCounts
) -> tuple[NDArray[np.int64], LabelCounts]:
    """Units of some rows numbered anew in their order, and their label counts; a unit is in ``rows`` whole or not."""
    present = np.zeros(int(units.max()) + 1, dtype=bool)
    present[units[rows]] = True
    number = np.cumsum(present) - 1
    kept = present[labels.unit]
    return number[units[rows]], LabelCounts(number[labels.unit[kept]], labels.label[kept], labels.images[kept])


def _units(frame: pl.DataFrame, plan: Plan, groups: list[str], *, check: bool) -> tuple[Coded, NDArray[np.int64]]:
    """The patients of the images, and the units that patients and groups tie together."""
    text = frame["patient"]
    if plan.patients_per_site and not plan.unavailable:
        text = frame.select(pl.concat_str("site", "patient", separator=APART))["site"].alias("patient")
    patients, ties = coded(text), [coded(frame[name]) for name in groups]
    if check:
        for ids, column in zip([patients, *ties], [plan.columns.patient, *plan.columns.groups], strict=True):
            one_spelling(ids, column or "patient")
    return patients, units_of(frame["image"], [*([] if plan.unavailable else [patients]), *ties])


def _known_sites(frame: pl.DataFrame, plan: Plan) -> None:
    """SplitError where sites differ in spelling only, an external one does not exist, or all are external."""
    own = coded(frame["site"].unique())
    if plan.columns.site and not (plan.ids_as_written or plan.dataset or plan.recipe):
        one_spelling(own, plan.columns.site, "site")
    sites = own.names.to_list()
    for name in plan.external:
        if name not in sites:
            known = ", ".join(map(repr, sites[:20]))
            raise SplitError(f"there is no site {name!r} to be external; the sites are {known}")
    if set(sites) <= set(plan.external):
        raise SplitError("every site is external: nothing is left to train and test on")


def _apart(
    site: pl.Series, outside: NDArray[np.bool_], units: NDArray[np.int64], plan: Plan, notes: list[str]
) -> NDArray[np.bool_]:
    """Which images stay, such that no unit is both at an external site and elsewhere."""
    count = int(units.max()) + 1
    out, within = np.bincount(units[outside], minlength=count) > 0, np.bincount(units[~outside], minlength=count) > 0
    shared = out & within
    own = not (plan.unavailable or plan.dataset or plan.recipe)
    mend = ", or --patients-per-site where each site numbers its own patients" if own else ""
    if shared.any() and not plan.drop_shared:
        raise SplitError(
            f"{shared.sum()} {plan.unit}s are at an external site and elsewhere too; say --drop-shared to leave their "
            f"external images out{mend}"
        )
    keep = ~(outside & shared[units])
    if not keep.all():
        notes.append(f"{(~keep).sum()} external images of {shared.sum()} {plan.unit}s seen elsewhere are left out")
    for name in plan.external:
        here = (site == name).to_numpy()
        if not keep[here].any():
            raise SplitError(
                f"all {here.sum()} images of the external site {name!r} are of {plan.unit}s seen elsewhere{mend}"
            )
    sites, units = coded(site).codes[keep], units[keep]
    first = np.full(count, -1)
    first[units] = sites  # one of the sites of each unit
    several = np.unique(units[sites != first[units]])
    if len(several) and not plan.unavailable:
        notes.append(f"{len(several)} {plan.unit}s are at more than one site and taken as the same{mend}")
    return np.asarray(keep)


def _plausible(units: NDArray[np.int64], gathered: Gathered, plan: Plan, grouped: bool, notes: list[str]) -> None:
    """Refuse what can be no label; say what may be no patient."""
    sizes = np.bincount(units)
    sizes = sizes[sizes > 0]
    if len(gathered.classes) > len(sizes):
        raise SplitError(
            f"there are {len(gathered.classes)} classes and {len(sizes)} {plan.unit}s: is that the label column, and "
            f"that the {plan.unit}'s?"
        )
    if not grouped or plan.unit == "image":
        return
    if len(sizes) == len(units) > 1:
        notes.append(
            f"every image has its own {plan.unit}: right if there is one image of each, else the column holds image ids"
        )
    elif sizes.max() > LARGE * len(units):
        notes.append(
            f"one {plan.unit} holds {sizes.max()} of {len(units)} images: is it a placeholder for unknown ones?"
        )
