"""File names: what is one image under several names, and which patient a name tells."""

import re
from collections.abc import Mapping
from types import MappingProxyType

import polars as pl

from splits.errors import SplitError

IMAGE_SUFFIX = (
    r"(?i)\.(?:nii\.gz|ome\.tiff?|png|jpe?g|jp2|tiff?|bmp|gif|webp|ppm|pgm|dcm|dicom|nii|nrrd|mha|mhd|npy|npz|"
    r"svs|ndpi|mrxs|h5|pt)"
)
HAS_SUFFIX = IMAGE_SUFFIX + r"$"
SUFFIX = re.compile(HAS_SUFFIX)

# What augmentation and resizing add to a name. A strong mark means it anywhere; a weak one may as well be a number.
PREFIXES = (
    r"aug(?:mented)?\d*", r"copy[_ ]of", r"[hv]?flip(?:ped)?", r"mir(?:ror(?:ed)?)?", r"rot(?:ate[d]?)?[-_]?\d*",
    r"downsampled", r"resized", r"crop(?:ped)?\d*",
)  # fmt: skip
STRONG = (
    r"aug(?:mented|mentation)?[-_]?\d*", r"mir(?:ror(?:ed)?)?", r"[hv]?flip(?:ped)?(?:[-_]?(?:lr|ud|h|v|x|y))?",
    r"flip(?:lr|ud)", r"rot(?:ate[d]?|ation)?[-_]?\d*", r"(?:down|up)(?:sampled?|scaled?)", r"resized?[-_]?\d*",
    r"(?:center)?crop(?:ped)?[-_]?\d*", r"copy(?:[-_ ]?\(?\d+\)?)?", r"\d+(?:\.\d+)?x", r"blur(?:red)?\d*",
    r"noisy?e?\d*", r"bright(?:ness)?\d*", r"contrast\d*", r"clahe", r"gr[ae]y(?:scale)?", r"enhanced", r"jitter\d*",
    r"zoom(?:ed)?\d*", r"shift(?:ed)?\d*", r"shear(?:ed)?\d*", r"thumb(?:nail)?", r"norm(?:alized|alised)",
    r"dup(?:licate)?\d*",
)  # fmt: skip
TURNS = ("45", "60", "90", "120", "135", "180", "240", "270", "300", "315")
MOST_VERSIONS = 64  # of one image; more are numbers
COPIED = r" ?\(\d{1,2}\)"  # what a file manager adds; as often plain numbering

_PREFIX = rf"^(?:(?:{'|'.join(PREFIXES)})[-_ ])+"
_STRONG = rf"(?:[-_ @](?:{'|'.join(STRONG)}))+$"
_WEAK = rf"(?:[-_](?:{'|'.join(TURNS)})|{COPIED})$"
_MARKED = rf"{_PREFIX}|[-_ @](?:{'|'.join(STRONG)})$|{_WEAK}"

# Named patterns: group 1 is the patient (of EyePACS, NIH and so on: what stands for one).
PATTERNS: Mapping[str, str] = MappingProxyType(
    {
        "eyepacs": r"^(\d+)_(?:left|right)(?:[-_.].*)?$",
        "nih": r"^(\d{8})_\d{3}(?:[-_.].*)?$",
        "chexpert": r"(patient\d+)[/\\]study\d+",
        "camelyon17": r"(?:^|[_/\\])(patient_\d{3})_node_\d+",
        "tcga": r"(?:^|[/\\_])(TCGA-[A-Z0-9]{2}-[A-Z0-9]{4})(?:[-._/\\]|$)",
        "pad-ufes": r"^(PAT_\d+)_\d+_\d+",
        "deepdrid": r"^(\d+)_[lr]\d",
        "idc": r"^(\d+)_idx5",
        "sicap": r"^(\d+B\d+)[A-Z]?_",
        "ricord": r"MIDRC-RICORD-\w+-(\w+-\d{6})-",
        "lidc": r"(LIDC-IDRI-\d{4})",
    }
)
WHOLE_PATH = frozenset({"chexpert", "tcga", "camelyon17", "lidc"})  # the patient may stand in a folder's name


def as_path(name: pl.Expr) -> pl.Expr:
    """A path as written, with '/' for the separators of any system and without a leading './'."""
    return name.str.replace_all("\\", "/", literal=True).str.replace(r"^(?:\./)+", "")


def base_name(name: pl.Expr) -> pl.Expr:
    """The last part of a path, of Windows too."""
    return name.str.replace(r"^.*[/\\]", "")


def stem(name: pl.Expr) -> pl.Expr:
    """The base name in lower case without an image suffix."""
    return lower_stem(base_name(name))


def lower_stem(base: pl.Expr) -> pl.Expr:
    """A base name in lower case without an image suffix."""
    return base.str.replace(HAS_SUFFIX, "").str.to_lowercase()


def bare_names(stems: pl.Series) -> pl.Series | None:
    """``stems`` without the marks of augmentation and copies, where these are no part of the name; else null. None: no
    name has a mark.

    A mark counts when the name without it occurs among ``stems`` too, or when several names with different
    strong marks come down to it. A weak mark (an angle, '(1)') counts only when the bare name occurs or stands behind a
    strong mark too, and no other number stands in that place: of img_89, img_90 and img_180 none is a copy.
    """
    at = stems.str.contains(_MARKED).fill_null(False).arg_true()
    if not len(at):
        return None
    frame = pl.DataFrame({"at": at, "stem": stems.gather(at)})
    without = pl.col("stem").str.replace(_PREFIX, "").str.replace(_STRONG, "")
    frame = frame.with_columns(strong=without).with_columns(bare=pl.col("strong").str.replace(_WEAK, ""))
    # a name such as 10_left_mir_90: the angle hides a strong mark
    frame = frame.with_columns(bare=pl.col("bare").str.replace(_STRONG, ""))
    frame = frame.filter(pl.col("bare") != "").with_columns(weak=pl.col("stem") == pl.col("strong"))
    frame = frame.with_columns(plain=pl.col("bare").is_in(stems.unique().implode()))
    strong = frame.filter(~pl.col("weak")).group_by("bare").agg(marks=pl.col("stem").n_unique())
    frame = frame.join(strong, on="bare", how="left").with_columns(pl.col("marks").fill_null(0))
    counts = (pl.col("plain") | (pl.col("marks") >= 1)) & ~pl.col("bare").is_in(_numbered(stems, frame).implode())
    # scan_crop1 ... scan_crop500 are crops of one image only where what is left still names one
    several = pl.col("marks").is_between(2, MOST_VERSIONS) & pl.col("bare").str.contains(r"\d")
    meant = pl.when(pl.col("weak")).then(counts).otherwise(pl.col("plain") | several)
    frame = frame.filter(meant)
    if not frame.height:
        return None
    unmarked = pl.Series(stems.name, [None], dtype=pl.String).new_from_index(0, len(stems))
    return unmarked.scatter(frame["at"], frame["bare"])


def _numbered(stems: pl.Series, marked: pl.DataFrame) -> pl.Series:
    """The bare names of weak marks behind which other numbers stand as well: plain numbering."""
    bases = marked.filter(pl.col("weak"))["bare"].unique()
    if not len(bases):
        return bases
    parts = stems.str.extract_groups(
        r"^(?P<base>.*?)(?:[-_](?P<number>\d{1,4})|(?P<copy> ?\(\d{1,3}\)))$"
    ).struct.unnest()
    near = parts.filter(pl.col("base").is_in(bases.implode()))
    other = pl.col("number").is_not_null() & ~pl.col("number").is_in(pl.Series(TURNS).implode())
    found = near.group_by("base").agg(other=other.any(), copies=pl.col("copy").drop_nulls().n_unique())
    return found.filter(pl.col("other") | (pl.col("copies") > 3))["base"]


def pattern_of(name: str) -> str:
    """The regex of a named pattern, or ``name`` itself where it is one with one group. SplitError otherwise."""
    if name in PATTERNS:
        return PATTERNS[name]
    try:
        groups = re.compile(name).groups
    except re.error as error:
        raise SplitError(
            f"--pattern {name!r} is neither a known pattern nor a regular expression ({error}); "
            f"known: {', '.join(PATTERNS)}"
        ) from None
    if groups != 1:
        known = ", ".join(PATTERNS)
        raise SplitError(
            f"--pattern {name!r} has {groups} groups; it needs one, the patient, as in '^(\\d+)_'; "
            f"known by name: {known}"
        )
    return name


def patients_from(images: pl.Series, pattern: str) -> pl.Series:
    """What group 1 of ``pattern`` (a name or a regex) finds in each name; null where it finds nothing."""
    regex = pattern_of(pattern)
    names = images if pattern in WHOLE_PATH or pattern not in PATTERNS else _bases(images)
    try:
        return names.str.extract(regex, 1)
    except pl.exceptions.PolarsError as error:
        raise SplitError(f"--pattern {pattern!r} can't be used ({str(error).splitlines()[0][:200]})") from None


def pattern_that_fits(images: pl.Series) -> str:
    """The named pattern that every name matches, or '' ."""
    names = images.drop_nulls()
    if not len(names):
        return ""
    for key in PATTERNS:
        if patients_from(names.head(50), key).null_count() == 0 and patients_from(names, key).null_count() == 0:
            return key
    return ""


def _bases(images: pl.Series) -> pl.Series:
    return images.to_frame("name").select(base_name(pl.col("name"))).to_series()
