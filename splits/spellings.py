"""What is tried as the text behind a plain digest: numbers, and names as public data sets and common habit write them.

Ranges are those of the published label files; names that can't be counted up (APTOS-2019, RSNA-2018, Kather) need the
official list (:func:`splits.attack.reverse_plain_digests`, ``names``).
"""

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import accumulate, chain, product

CHUNK = 1 << 16  # texts that are made at a time


@dataclass(frozen=True)
class Pattern:
    """``count`` texts: ``before``, a number from ``first`` on padded with zeros to ``width`` characters, ``after``."""

    before: str
    after: str
    first: int
    count: int
    width: int = 0

    def texts(self, start: int, stop: int) -> list[bytes]:
        """The texts ``start`` to ``stop - 1`` of this pattern, counted from 0."""
        before, after = (part.replace("%", "%%") for part in (self.before, self.after))
        form = f"{before}%0{self.width}d{after}".encode() if self.width else f"{before}%d{after}".encode()
        return [form % number for number in range(self.first + start, self.first + stop)]

    def chunks(self) -> Iterator[list[bytes]]:
        """All texts in order, at most CHUNK at a time."""
        for start in range(0, self.count, CHUNK):
            yield self.texts(start, min(start + CHUNK, self.count))


@dataclass(frozen=True)
class Family:
    """Names of one kind: those ``tried`` always convict, the ``rest`` is tried once one of them was found."""

    what: str
    tried: tuple[Pattern, ...]
    rest: tuple[Pattern, ...] = ()


class Spellings:
    """The texts that ``families`` always try, each with its place in the order; no text has two places."""

    def __init__(self, families: Sequence[Family]) -> None:
        pairs = [(pattern, family) for family in families for pattern in family.tried]
        self._patterns = [pattern for pattern, _ in pairs]
        self._families = [family for _, family in pairs]
        self._ends = list(accumulate(pattern.count for pattern in self._patterns))
        self.count = self._ends[-1]
        # a table made for another list must not be read for this one
        self.version = hashlib.sha256(repr(self._patterns).encode()).hexdigest()[:8]

    def chunks(self) -> Iterator[list[bytes]]:
        """All texts in order."""
        return chain.from_iterable(pattern.chunks() for pattern in self._patterns)

    def text(self, place: int) -> bytes:
        """The text at ``place``; IndexError beyond the last."""
        pattern = self._patterns[self._at(place)]
        start = place - self._ends[self._at(place)] + pattern.count
        return pattern.texts(start, start + 1)[0]

    def families(self, places: Iterable[int]) -> list[Family]:
        """The families that the texts at ``places`` belong to, each once, in their order."""
        return list(dict.fromkeys(self._families[at] for at in sorted({self._at(place) for place in places})))

    def _at(self, place: int) -> int:
        if not 0 <= place < self.count:
            raise IndexError(place)
        return bisect_right(self._ends, place)


def numbered(before: str, after: str, plain: int, padded: int, widths: Sequence[int]) -> tuple[Pattern, ...]:
    """Numbers 0 to ``plain - 1`` as they stand, then 0 to ``padded - 1`` padded to each of ``widths``.

    A number that fills the width is left out of the padded ones: it is tried as it stands.
    """
    spelled = (Pattern(before, after, 0, min(10 ** (width - 1), padded), width) for width in widths)
    return (Pattern(before, after, 0, plain), *spelled)


def _numbers() -> Iterator[Family]:
    yield Family("a number", numbered("", "", 1_000_000, 100_000, range(2, 9)))
    for after, what in (("\n", "a number and a line end"), (".0", "a number made real")):  # echo | sha256sum; pandas
        yield Family(what, (Pattern("", after, 0, 10_000),), (Pattern("", after, 10_000, 990_000),))


def _fundus() -> Iterator[Family]:
    patients = 44_351
    for ending in ("", ".jpeg"):
        yield Family("EyePACS", tuple(Pattern("", f"_{eye}{ending}", 1, patients) for eye in ("left", "right")))
    for ending in (".png", ".jpg"):
        left, right = (Pattern("", f"_{eye}{ending}", 1, patients) for eye in ("left", "right"))
        yield Family("EyePACS", (left,), (right,))
    for ending in ("", ".jpg", ".JPG", ".tif", ".png"):
        yield Family("Messidor-2", (Pattern("IM", ending, 1, 4_999, 6),))
    for ending in ("", ".000", ".001", ".000.tif", ".001.tif"):
        yield Family("Messidor-2", (Pattern("IM", ending, 1, 1_748, 4),))


CHEXPERT = (
    ("CheXpert-v1.0-small/train/patient", "/"), ("CheXpert-v1.0-small/valid/patient", "/"),
    ("CheXpert-v1.0/train/patient", "/"), ("CheXpert-v1.0/valid/patient", "/"),
    ("train/patient", "/"), ("valid/patient", "/"), ("patient", "/"), ("patient", "_"),
)  # fmt: skip


def _chest() -> Iterator[Family]:
    for ending in ("", ".png"):  # every patient of NIH has an image _000; the follow-ups go up to _183
        visits = tuple(Pattern("", f"_{visit:03d}{ending}", 1, 30_805, 8) for visit in range(184))
        yield Family("NIH ChestX-ray14", visits[:1], visits[1:])
    yield Family("CheXpert", (Pattern("patient", "", 1, 65_240, 5),))
    views = [(1, "view1_frontal"), *((visit, "view2_lateral") for visit in range(1, 7)), (1, "view2_frontal")]
    views += [(visit, "view1_frontal") for visit in range(2, 13)]
    for root, mark in CHEXPERT:
        images = [f"{mark}study{visit}{mark}{view}.jpg" for visit, view in views]
        start, count = (64_541, 200) if "valid" in root else (1, 20_000)
        every = tuple(Pattern(root, image, 1, 64_740, 5) for image in images)
        yield Family("CheXpert", (Pattern(root, images[0], start, count, 5),), every)
    yield from _covid()


def _covid() -> Iterator[Family]:
    cohen = (Pattern("ANON", "", 1, 299), Pattern("S", "", 0, 10_000, 5), Pattern("sub-S", "", 0, 10_000, 5))
    yield Family("COVIDx", cohen, (Pattern("A", "", 0, 1_000_000, 6),))
    for start in ("", "MIDRC-RICORD-1C-"):
        sites = (("419639-", 5_000), ("440808-", 2_000), ("SITE2-", 1_000))
        yield Family("COVIDx", tuple(Pattern(f"{start}{site}", "", 0, count, 6) for site, count in sites))
    names = (("COVID", 3_616), ("Normal", 10_192), ("Lung_Opacity", 6_012), ("Viral Pneumonia", 1_345))
    for ending in ("", ".png"):
        listed = tuple(Pattern(f"{name}-", ending, 1, count) for name, count in names)
        yield Family("COVID-19 Radiography Database", listed)
        stems = ("COVID", "COVID-19", "NORMAL", "Normal", "Viral Pneumonia")
        bracketed = (f"{stem}{blank}(" for stem in stems for blank in ("", " "))
        yield Family("COVIDx", tuple(Pattern(start, f"){ending}", 1, 1_345) for start in bracketed))
    for ending in ("", ".jpg"):
        yield Family("COVIDx", (Pattern("COVID-", ending, 0, 100, 5),))


def _skin() -> Iterator[Family]:
    for ending in ("", ".jpg"):
        yield Family("ISIC", (Pattern("ISIC_", ending, 0, 73_255, 7),))
    yield Family("ISIC", (Pattern("HAM_", "", 0, 8_000, 7), Pattern("BCN_", "", 0, 6_000, 7)))
    yield Family("PAD-UFES-20", (Pattern("PAT_", "", 1, 2_200),))


TISSUES = (
    "Adrenal_gland", "Bile-duct", "Bladder", "Breast", "Cervix", "Colon", "Esophagus", "HeadNeck", "Kidney", "Liver",
    "Lung", "Ovarian", "Pancreatic", "Prostate", "Skin", "Stomach", "Testis", "Thyroid", "Uterus",
)  # fmt: skip


def _slides() -> Iterator[Family]:
    for fold, mark, ending in product((1, 2, 3), ("", "_"), ("", ".png")):
        yield Family("PanNuke", (Pattern(f"fold{mark}{fold}_", ending, 0, 2_800),))
    yield Family("PanNuke", tuple(Pattern(f"fold{fold}_", "", 0, 2_800, 6) for fold in (1, 2, 3)))  # the adapter's
    for ending in ("", ".png"):  # as the common preparation writes it
        stems = [f"{tissue}_{label}_" for tissue in TISSUES for label in ("malignant", "benign")]
        rest = tuple(Pattern(stem, ending, 0, 3_000, 4) for stem in stems)
        yield Family("PanNuke", tuple(Pattern(stem, ending, 0, 150, 4) for stem in stems), rest)
    for ending in ("", ".tif"):
        nodes = (Pattern("patient_", f"_node_{node}{ending}", 0, 200, 3) for node in range(5))
        yield Family("Camelyon17", tuple(nodes))
        slides = (Pattern("normal_", ending, 1, 160, 3), Pattern("tumor_", ending, 1, 111, 3))
        yield Family("Camelyon16", (*slides, Pattern("test_", ending, 1, 99, 3)), (Pattern("test_", ending, 100, 30),))


def _prepared() -> Iterator[Family]:
    """MedMNIST as its package writes it out, and places in a split."""
    for part in ("train", "val", "test"):
        for mark in ("", "_", "-", "/"):
            start = f"{part}{mark}"
            yield Family("MedMNIST", (Pattern(start, "", 0, 1_000),), (Pattern(start, "", 0, 165_466),))
        for label in range(9):
            after = f"_{label}.png"
            yield Family("MedMNIST", (Pattern(part, after, 0, 300),), (Pattern(part, after, 0, 100_000),))


NAMESPACES = (
    "aptos", "camelyon17", "chexpert", "covidx", "eyepacs", "ham10000", "isic", "kather", "messidor", "nih", "pannuke",
    "rsna",
)  # fmt: skip
PEOPLE = (
    "patient", "patient_", "patient-", "patient ", "Patient", "Patient_", "Patient-", "Patient ", "PATIENT_", "pat",
    "pat_", "Pat", "pt", "pt_", "p", "p_", "P", "P_", "pid", "pid_", "PID", "subject", "subject_", "Subject_", "subj",
    "sub-", "sub_", "sub", "s", "S", "case", "case_", "case-", "Case", "Case_", "id", "id_", "ID", "ID_", "study",
    "study_", "exam_", "eye_", "lesion_",
)  # fmt: skip
IMAGES = ("image", "image_", "image-", "Image_", "img", "img_", "img-", "IMG_", "im_", "slide_", "scan_")
ENDINGS = ("", ".png", ".jpg", ".jpeg", ".tif", ".dcm")


def _habits() -> Iterator[Family]:
    for space, mark in product(NAMESPACES, (":", "/", "_", "-")):  # the kit's namespace, without its salt
        start = f"{space}{mark}"
        tried = (Pattern(start, "", 0, 500), Pattern(f"{start}patient", "", 0, 100))
        yield Family("a namespace and a number", tried, (Pattern(start, "", 0, 100_000),))
    for stem in PEOPLE:
        taken = {"patient": 5, "S": 5}.get(stem)  # CheXpert's and COVIDx's, tried above
        widths = [width for width in range(2, 7) if width != taken]
        every = numbered(stem, "", 100_000, 100_000, widths)
        yield Family(f"{stem} and a number", numbered(stem, "", 1_000, 1_000, widths), every)
    for stem, ending in product(IMAGES, ENDINGS):
        every = numbered(stem, ending, 100_000, 100_000, range(2, 7))
        yield Family(f"{stem} and a number", numbered(stem, ending, 500, 500, range(2, 7)), every)


TRIED = Spellings([*_numbers(), *_fundus(), *_chest(), *_skin(), *_slides(), *_prepared(), *_habits()])


def messidor(ending: str = "") -> Iterator[Pattern]:
    """Names of Messidor: each second of the working day, on each day that its images were taken, by three cameras.

    24 million texts for one ``ending`` of the file names ("" or ".tif", ".png"): some twenty seconds.
    """
    first, last = date(2005, 10, 19), date(2006, 5, 30)
    for day in range((last - first).days + 1):
        start = f"{first + timedelta(day):%Y%m%d}_"
        for camera in ("0100", "0200", "0400"):
            yield Pattern(start, f"_{camera}_PP{ending}", 30_000, 36_000, 5)


def isic(ending: str = "") -> Iterator[Pattern]:
    """Images of ISIC-2020 (``ending`` "" or ".jpg") and its patients: ten million numbers each."""
    for start, after in (("ISIC_", ending), ("IP_", "")):
        for million in range(10):
            yield Pattern(start, after, million * 1_000_000, 1_000_000, 7)
