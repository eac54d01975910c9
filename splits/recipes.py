"""Settings of a published benchmark as data: what is trained on, what is external, how classes answer to each other.

Source: MVC-Bench, sections 3, 4.1 and 4.7, appendices D, J and N. The paper publishes no split files; what it leaves
open and the kit decides stands in ``decided``, apart from what it states.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from protocol.types import SplitName
from splits.datasets import DATASETS

FUNDUS = ("aptos-2019", "eyepacs", "messidor", "messidor-2")
GENERIC = ("CLIP-ResNet-50", "CLIP-ResNet-101", "CLIP-ViT-B/16", "CLIP-ViT-B/32")
CHEST_MODELS = ("MedCLIP", "BioMedCLIP")
TISSUE_MODELS = ("PLIP", "QuiltNet")
BACKBONES = MappingProxyType(
    {
        "fundus": (*GENERIC, *CHEST_MODELS, *TISSUE_MODELS),
        "histopathology": TISSUE_MODELS,
        "chest X-ray": CHEST_MODELS,
    }
)
MODALITIES = MappingProxyType(
    dict.fromkeys(FUNDUS, "fundus")
    | dict.fromkeys(("kather", "pannuke", "digestpath"), "histopathology")
    | dict.fromkeys(("covidx", "rsna-2018"), "chest X-ray")
)
SHARES: Mapping[SplitName, float] = MappingProxyType({"train": 0.6, "val": 0.1, "calib": 0.1, "test": 0.2})


@dataclass(frozen=True)
class Recipe:
    """One setting: which data set trains, which are external, and how their classes answer to those of the task.

    ``development`` and ``external`` are keys of :data:`splits.datasets.DATASETS`. ``label_maps`` has for each of them
    one entry a class of that data set, in its order: the index into ``classes``, or None where images of that class are
    left out. ``shots`` images a class are drawn from train, anew for each of ``seeds``; ``proportions`` are shares of
    patients. ``stated`` is what the paper says (``source`` tells where), ``decided`` what the kit adds, ``warnings``
    what is known against reading results as external or as comparable with the paper's; those in ``mended`` are void
    where the map (DATASET:NAME) is given. The sets in ``shared`` hold some of the same images under the same file
    names, whose form is ``shared_name`` (and the same patients, where both are known). ``patient_maps`` are the maps
    (DATASET:NAME) that tell these patients: one without the other leaves a patient on both sides.
    """

    key: str
    title: str
    source: str
    setting: Literal["in-domain", "domain-shift"]
    modality: str
    development: str
    external: tuple[str, ...]
    classes: tuple[str, ...]
    label_maps: Mapping[str, tuple[int | None, ...]]
    backbones: tuple[str, ...]
    stated: tuple[str, ...]
    decided: tuple[str, ...]
    warnings: tuple[str, ...]
    shared: tuple[str, ...] = ()
    shared_name: str = ""
    patient_maps: tuple[str, ...] = ()
    mended: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    shots: int = 16
    seeds: tuple[int, ...] = (1, 2, 3)
    proportions: Mapping[SplitName, float] = field(default_factory=lambda: SHARES)


TRAINING = (
    "prompts are tuned with CoOp on 16 images a class, learning rate 0.005, batch size 8",
    "each setting is run with the seeds 1, 2 and 3; the data splits stay the same",
)
BINS = "accuracy and the expected calibration error in 20 bins are the primary metrics"
OWN_SPLITS = (
    "train 0.6, val 0.1, calib 0.1 and test 0.2 of the patients: the paper publishes no split",
    "shots are drawn from train and, at most 4 a class, from val; calib and test are never drawn from",
)
OTHER_IMAGES = "the paper's numbers belong to its own images: none of them can be compared with one on these splits"
COVIDX_NAME = (
    "for COVIDX the paper cites Rahman et al. (2021), who describe the COVID-19 Radiography Database, not COVIDx: "
    "images and classes may differ from those here"
)
RSNA_IN_COVIDX = (
    "COVIDx has its normal and most pneumonia images from RSNA-2018, which has its own from NIH ChestX-ray14: leave "
    "shared images and patients out of one of them, or the external test holds what was trained on"
)

EQUAL_PICTURES = "143 groups of equal pictures, 37 with different grades: give the map duplicates"
EXAMS = "two images are one exam: give the map pairs"
NO_NIH = "without the map rsna-nih the patients of RSNA images are not known"


def _no_patients(key: str) -> tuple[str, ...]:
    reason = DATASETS[key].unavailable
    return (f"patients of {DATASETS[key].title} are not known: {reason}",) if reason else ()


def _mended(key: str, name: str, *warnings: str) -> Mapping[str, str]:
    """The map ``name`` of the data set as the mend of ``warnings``."""
    return MappingProxyType(dict.fromkeys(warnings, f"{key}:{name}"))


def _same(key: str, without: tuple[int, ...] = ()) -> tuple[int | None, ...]:
    """Each class of the data set by its own index, but for those left out."""
    return tuple(None if k in without else k for k in range(len(DATASETS[key].classes)))


def _in_domain(key: str, *warnings: str, mended: Mapping[str, str] = MappingProxyType({})) -> Recipe:
    modality = MODALITIES[key]
    return Recipe(
        key=f"{key}-in-domain",
        title=f"Training and testing on {DATASETS[key].title}",
        source="sections 3 and 4.7, appendices J.1 and N.1",
        setting="in-domain",
        modality=modality,
        development=key,
        external=(),
        classes=DATASETS[key].classes,
        label_maps=MappingProxyType({key: _same(key)}),
        backbones=BACKBONES[modality],
        stated=(*TRAINING, BINS),
        decided=(*OWN_SPLITS, "the classes are those of the data set; the paper lists none"),
        warnings=(OTHER_IMAGES, *_no_patients(key), *warnings),
        mended=mended,
    )


def _shifted(
    name: str,
    title: str,
    classes: tuple[str, ...],
    label_maps: Mapping[str, tuple[int | None, ...]],
    stated: str,
    decided: tuple[str, ...],
    warnings: tuple[str, ...],
    shared: tuple[str, ...] = (),
    shared_name: str = "",
    patient_maps: tuple[str, ...] = (),
    mended: Mapping[str, str] = MappingProxyType({}),
) -> Recipe:
    """A domain-shift setting; the first of ``label_maps`` is the development set's, the others are external."""
    development, *external = label_maps
    modality = MODALITIES[development]
    return Recipe(
        key=f"{name}-domain-shift",
        title=title,
        source="sections 3, 4.1 and 4.7, appendices D (Table A2), J.2 and N.2",
        setting="domain-shift",
        modality=modality,
        development=development,
        external=tuple(external),
        classes=classes,
        label_maps=MappingProxyType(dict(label_maps)),
        backbones=BACKBONES[modality],
        stated=(stated, *TRAINING, BINS),
        decided=(*OWN_SPLITS, "every image of an external set is external, whatever its own split", *decided),
        warnings=(OTHER_IMAGES, *_no_patients(development), *warnings),
        shared=shared,
        shared_name=shared_name,
        patient_maps=patient_maps,
        mended=mended,
    )


RETINOPATHY = _shifted(
    "retinopathy",
    "Grading of diabetic retinopathy, from Messidor to APTOS-2019, EyePACS and Messidor-2",
    DATASETS["eyepacs"].classes[:4],
    {
        "messidor": _same("messidor"),
        "aptos-2019": _same("aptos-2019", (4,)),
        "eyepacs": _same("eyepacs", (4,)),
        "messidor-2": _same("messidor-2", (4,)),
    },
    "Messidor, excluding class 4, is the in-domain set; APTOS, EyePACS and Messidor-2 are the shifted sets",
    (
        "Messidor has no class 4, so images of grade 4 of the shifted sets are left out",
        "grades 0 to 3 answer to each other by number, though Messidor counts lesions by a rule of its own",
    ),
    (
        "1,052 of the 1,187 file names of Messidor are in Messidor-2: these images are not external (--drop-shared "
        "leaves them out)",
        "Messidor's grades 2 and 3 spread over the international grades 0 to 4 on shared images: part of the error "
        "under shift is the label",
    ),
    shared=("messidor", "messidor-2"),
    shared_name="YYYYMMDD_NNNNN_0100_PP.png (the first release of Messidor-2 has others: IMNNNN.NNN)",
)

CHEST = _shifted(
    "chest-x-ray",
    "Chest X-rays, from RSNA-2018 to COVIDx",
    DATASETS["rsna-2018"].classes,
    {"rsna-2018": _same("rsna-2018"), "covidx": (0, 2, 2)},
    "RSNA18 is the in-domain set, COVIDX the shifted one",
    (
        "pneumonia and COVID-19 of COVIDx answer to Lung Opacity, normal to Normal, none to the class between: the "
        "paper doesn't say how the classes answer to each other",
    ),
    (
        COVIDX_NAME,
        RSNA_IN_COVIDX,
        "in versions 8 and 9 of COVIDx every positive of the test list is from RICORD and every negative from "
        "RSNA-2018: label = source",
    ),
    shared=("rsna-2018", "covidx"),
    shared_name="UUID.png (the UUID is patientId of RSNA-2018)",
    patient_maps=("rsna-2018:nih", "covidx:rsna-nih"),
    mended=_mended("rsna-2018", "nih", *_no_patients("rsna-2018")),
)

HISTOPATHOLOGY = _shifted(
    "histopathology",
    "Tumour in patches of tissue, from PanNuke to DigestPath and Kather",
    DATASETS["pannuke"].classes,
    {
        "pannuke": _same("pannuke"),
        "digestpath": _same("digestpath"),
        "kather": (0, None, None, 0, None, 0, 0, None, 1),
    },
    "PanNuke is the in-domain set; DigestPath and Kather are the shifted sets",
    (
        "of Kather's nine classes TUM answers to malignant and ADI, LYM, MUS, NORM to benign; BACK (no tissue), DEB, "
        "MUC and STR (debris, mucus and stroma, of tumours as a rule) are left out: the paper doesn't say how nine "
        "classes answer to two",
    ),
    (
        "labels of PanNuke are derived from counts of nuclei, those of Kather from the tissue, those of DigestPath "
        "from regions: benign and malignant differ in meaning",
        "the widely used preparation of DigestPath puts overlapping patches of one tissue image on both sides of its "
        "split",
    ),
)

RECIPES: dict[str, Recipe] = {
    recipe.key: recipe
    for recipe in (
        _in_domain("aptos-2019", EQUAL_PICTURES, mended=_mended("aptos-2019", "duplicates", EQUAL_PICTURES)),
        _in_domain("eyepacs"),
        _in_domain("messidor"),
        _in_domain("messidor-2", EXAMS, mended=_mended("messidor-2", "pairs", EXAMS, *_no_patients("messidor-2"))),
        _in_domain("kather", "the published 100K and 7K are the only split by patient: mixing them gives it up"),
        _in_domain("pannuke", "patches of one slide may lie in several splits, the published folds included"),
        _in_domain("digestpath", "patches of one tissue image overlap: keep them together (group)"),
        _in_domain("covidx", COVIDX_NAME, NO_NIH, mended=_mended("covidx", "rsna-nih", NO_NIH)),
        _in_domain("rsna-2018", mended=_mended("rsna-2018", "nih", *_no_patients("rsna-2018"))),
        RETINOPATHY,
        CHEST,
        HISTOPATHOLOGY,
    )
}
