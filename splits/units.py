"""What must stay together: patients, and whatever groups tie their images to one another."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from protocol.findings import plain
from splits.errors import SplitError


@dataclass(frozen=True)
class Coded:
    """A column of text as numbers: ``names`` are its distinct texts in order of their code points, ``codes`` the place
    of each row's text among them, -1 for null."""

    names: pl.Series
    codes: NDArray[np.int64]


def coded(texts: pl.Series) -> Coded:
    """``texts`` as numbers that do not depend on the order of rows."""
    import pyarrow as pa

    whole = texts.to_arrow(compat_level=pl.CompatLevel.oldest()).dictionary_encode()
    if isinstance(whole, pa.ChunkedArray):
        whole = whole.combine_chunks()
    names = pl.Series(texts.name, whole.dictionary, dtype=pl.String)
    ranked = pl.DataFrame({"name": names, "row": np.arange(len(names))}).sort("name")
    place = np.empty(len(names) + 1, dtype=np.int64)
    place[ranked["row"].to_numpy()] = np.arange(len(names))
    place[-1] = -1  # where the codes of nulls, -1, look
    return Coded(ranked["name"].alias(texts.name), place[whole.indices.fill_null(-1).to_numpy()])


def one_form(names: pl.Series) -> pl.Series:
    """Each name without what spellings of one name differ in: zeros, a decimal point, case, blanks, forms of letters.

    '050', '50.0' and '50 ' are one, and so are 'P-001', 'p001' and 'P1'. Behind a unit separator, where each site
    numbers its own patients, the id alone is looked at in this way.
    """
    text = pl.col("id")
    if not (names.str.len_bytes() == names.str.len_chars()).all():
        text = text.str.normalize("NFKC")
    if names.str.contains("[^0-9a-z]").any():
        text = text.str.to_lowercase()
        if names.str.contains(r"\s").any():
            text = text.str.replace_all(r"\s+", " ").str.strip_chars()
    # names of one length without a point or mark differ in more than zeros
    if names.str.len_bytes().n_unique() > 1 or names.str.contains(r"[-._\s]").any():
        text = text.str.replace(r"^(.*\x1f)?(?:([a-z]+)[-_ ]*)?0*(\d+?)(?:\.0+)?$", "${1}${2}${3}")
    return names.alias("id").to_frame().select(text.alias("one"))["one"]


def one_spelling(ids: Coded, column: str, what: str = "patient") -> None:
    """SplitError where two ids have :func:`one_form`: '007' and '7'."""
    forms = pl.DataFrame({"id": ids.names, "one": one_form(ids.names)})
    hashes = np.sort(forms["one"].hash().to_numpy())
    if not np.any(hashes[1:] == hashes[:-1]):  # no two hashes alike, so no two forms
        return
    clash = forms.filter(pl.col("one").is_duplicated()).sort("one", "id")
    if clash.height:
        pair = clash.filter(clash["one"] == clash["one"][0])["id"].to_list()
        count = clash["one"].n_unique()
        more = f" ({count} such ids)" if count > 1 else ""
        raise SplitError(
            f"column {column!r} holds {plain(pair[0], 60)!r} and {plain(pair[1], 60)!r}{more}: one {what} or two? "
            "Write one spelling, or say --ids-as-written if they are different"
        )


def units_of(images: pl.Series, keys: Sequence[Coded]) -> NDArray[np.int64]:
    """The unit of each image, 0 ... U - 1: images that share a value in any of ``keys`` share a unit.

    A null ties nothing; an image with nothing but nulls is a unit of its own. Units are numbered in order of their
    first value (by key, then by text; images of their own come last, by name), so that the numbers depend on the
    order of ``keys`` but not on that of rows.
    """
    known = np.zeros(len(images), dtype=bool)
    for key in keys:
        known |= key.codes >= 0
    if len(keys) == 1 and known.all():
        return keys[0].codes
    alone = coded(images.filter(pl.Series(~known)))
    starts = np.cumsum([0, *(len(key.names) for key in keys)])
    places = [np.where(key.codes >= 0, key.codes + start, -1) for key, start in zip(keys, starts, strict=False)]
    own = np.full(len(images), -1, dtype=np.int64)
    own[~known] = alone.codes + starts[-1]
    count = int(starts[-1]) + len(alone.names)
    component = _tied(places, count) if len(keys) > 1 else np.arange(count)
    first = own.copy()
    for place in reversed(places):
        first = np.where(place >= 0, place, first)
    # numbered by the smallest place of each component; a value that no row has left makes no gap
    _, smallest, inverse = np.unique(component[first], return_index=True, return_inverse=True)
    least = np.full(len(smallest), count, dtype=np.int64)
    np.minimum.at(least, inverse, first)
    rank = np.empty(len(least), dtype=np.int64)
    rank[np.argsort(least, kind="stable")] = np.arange(len(least))
    return rank[inverse]


def _tied(places: Sequence[NDArray[np.int64]], count: int) -> NDArray[np.int64]:
    """The component of each value: two values of one image are tied."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    left, right = [], []
    for index, one in enumerate(places):
        for other in places[index + 1 :]:
            both = (one >= 0) & (other >= 0)
            left.append(one[both])
            right.append(other[both])
    ends = (np.concatenate(left), np.concatenate(right))
    graph = coo_array((np.ones(len(ends[0]), dtype=np.int8), ends), shape=(count, count))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)
