"""Identifiers that hide nobody: unkeyed digests of names that can be guessed."""

from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import polars as pl

from splits.attack import reverse_plain_digests, search_patterns
from splits.checking.findings import MAX_SAMPLES, Finding, Level
from splits.checking.keys import are_digests
from splits.reading import read_table
from splits.spellings import Pattern, isic, messidor


def reversible(
    frame: pl.DataFrame, names: Path | None, deep: bool, told: Callable[[str, int, int], None], encoding: str
) -> list[Finding]:
    """Hashed images and patients in ``frame`` that can be turned back.

    Every cell of the table ``names`` (an official list) is tried too; ``deep`` adds the long searches: names of
    Messidor and of ISIC-2020, some 110 million texts, two minutes.
    """
    found = list[Finding]()
    hashed = [column for column in ("image", "patient") if column in frame.columns and are_digests(frame[column])]
    if not hashed and (names is not None or deep):
        used = " and ".join(option for option, given in (("--names", names is not None), ("--deep", deep)) if given)
        verb = "were" if "and" in used else "was"
        title = f"{used} {verb} not used: neither images nor patients are digests that could be turned back"
        return [Finding(Level.NOTE, "no-digests", title)]
    listed = [] if names is None else _cells(names, encoding)
    for column in hashed:
        identifiers = frame[column].drop_nulls()
        told(f"turning {column} hashes back", 0, 0)
        texts = reverse_plain_digests(identifiers, listed)
        if deep:
            left = identifiers.filter(~identifiers.is_in(list(texts)))
            texts |= search_patterns(left, _long(), lambda tried: told("long search", tried, 0))
        if texts:
            samples = tuple(f"{name[:12]}… = {text}" for name, text in list(texts.items())[:MAX_SAMPLES])
            noun = "identifier" if len(texts) == 1 else "identifiers"
            title = f"{len(texts):,} hashed {column} {noun} can be turned back: digests without a secret"
            mend = "Hash them anew under a secret salt: mvc split hash."
            found.append(
                Finding(Level.LEAK, "reversible-identifiers", title, count=len(texts), samples=samples, mend=mend)
            )
    return found


def _cells(path: Path, encoding: str) -> list[str]:
    frame = read_table(path, encoding=encoding).frame
    return pl.concat([frame[name].alias("name") for name in frame.columns]).drop_nulls().unique().sort().to_list()


def _long() -> Iterator[Pattern]:
    endings = ("", ".tif", ".png")
    return chain(*(messidor(ending) for ending in endings), isic(), isic(".jpg"))
