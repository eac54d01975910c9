"""What the options of ``mvc split`` take, and how their texts are read."""

import difflib
from collections.abc import Collection, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from protocol.types import SplitName
    from splits.datasets.base import DataSet
    from splits.recipes import Recipe

DEFAULT_PROPORTIONS = "train=0.6,val=0.1,calib=0.1,test=0.2"


class UnitName(StrEnum):
    """The units of protocol.types.Unit but for the site."""

    PATIENT = "patient"
    IMAGE = "image"
    EYE = "eye"
    LESION = "lesion"
    BREAST = "breast"
    SLIDE = "slide"
    EXAM = "exam"


def parse_proportions(text: str) -> "dict[SplitName, float]":
    """'train=0.6,test=0.4' as shares; usage error for what is no share or does not sum to 1."""
    from protocol.types import DEVELOPMENT

    shares: dict[SplitName, float] = {}
    for part in text.split(","):
        name, _, number = part.partition("=")
        split = next((split for split in DEVELOPMENT if split == name.strip()), None)
        try:
            share = float(number)
        except ValueError:
            share = -1.0
        if split is None or split in shares or not 0 < share <= 1:
            raise typer.BadParameter(
                f"{part.strip()!r}; write SPLIT=SHARE, each of {', '.join(DEVELOPMENT)} once: {DEFAULT_PROPORTIONS}",
                param_hint="--proportions",
            )
        shares[split] = share
    total = sum(shares.values())
    if abs(total - 1) > 1e-9:
        raise typer.BadParameter(f"the shares sum to {total:g}; they must sum to 1", param_hint="--proportions")
    return shares


def parse_seeds(text: str) -> tuple[int, ...]:
    """'1,2,3' as numbers; usage error for anything else."""
    try:
        seeds = tuple(int(part) for part in text.split(","))
    except ValueError:
        seeds = ()
    if not seeds or len(set(seeds)) < len(seeds) or min(seeds) < 0 or max(seeds) >= 2**31:
        raise typer.BadParameter(f"{text!r}; write different whole numbers, such as 1,2,3", param_hint="--shot-seeds")
    return seeds


def refuse_unused(given: Mapping[str, object], why: str) -> None:
    """Usage error for the first option of ``given`` that has a value: it would have no effect, and ``why`` says so."""
    for option, value in given.items():
        if value:
            raise typer.BadParameter(f"{why}; leave it out", param_hint=option)


def is_text(option: str, value: str | None) -> None:
    """Usage error for a ``value`` that can't be printed: a line break, a control character, bytes that are no UTF-8."""
    from protocol.findings import plain

    if value is not None and not value.isprintable():
        raise typer.BadParameter(f"'{plain(value, 80)}' has characters that can't be printed", param_hint=option)


def namespace_of(named: str | None, default: str) -> str:
    """The namespace ``named``, else ``default``; usage error for one that is empty or can't be printed."""
    from protocol.findings import plain

    namespace = default if named is None else named
    if not namespace.strip() or not namespace.isprintable():
        source = "the name of FILE gives" if named is None else "this is"
        raise typer.BadParameter(
            f"{source} '{plain(namespace, 60)}'; name one of printable characters, such as the study's name",
            param_hint="--namespace",
        )
    return namespace


def named_files(pairs: list[str], hint: str) -> dict[str, Path]:
    """NAME=FILE texts as a mapping; usage error for one that is not."""
    named: dict[str, Path] = {}
    for pair in pairs:
        name, equals, file = pair.partition("=")
        if not equals or not name or not file or name in named:
            raise typer.BadParameter(f"{pair!r}; write NAME=FILE, each name once", param_hint=hint)
        named[name] = Path(file)
    return named


def files_by_set(texts: list[str], keys: Collection[str]) -> dict[str, list[Path]]:
    """FILE texts as paths; with a recipe's ``keys`` KEY=FILE texts, by data set (a key can come several times)."""
    if not keys:
        return {"": [Path(text) for text in texts]}
    named: dict[str, list[Path]] = {}
    for text in texts:
        key, equals, file = text.partition("=")
        if not equals or key not in keys or not file:
            wanted = " ".join(f"{name}=FILE" for name in keys)
            raise typer.BadParameter(f"{text!r}; the recipe takes {wanted}", param_hint="FILE...")
        named.setdefault(key, []).append(Path(file))
    return named


def known_recipe(key: str) -> "Recipe":
    """The recipe called ``key``; usage error listing all."""
    from splits.recipes import RECIPES

    if key in RECIPES:
        return RECIPES[key]
    raise typer.BadParameter(f"there is no recipe {key!r}; there are {', '.join(RECIPES)}", param_hint="--recipe")


def known_dataset(key: str) -> "DataSet":
    """The data set called ``key``; usage error naming the near ones."""
    from splits.datasets import DATASETS

    if key in DATASETS:
        return DATASETS[key]
    near = difflib.get_close_matches(key, DATASETS, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else "mvc split datasets lists them"
    raise typer.BadParameter(f"there is no data set {key!r}; {hint}", param_hint="--dataset")
