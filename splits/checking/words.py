"""The words that people use for columns and for splits; all in lower case without anything but letters and digits."""

import re
from collections.abc import Mapping
from types import MappingProxyType

IMAGE = (
    "image", "imageid", "imgid", "img", "imagename", "imagepath", "imagefile", "imageindex", "imgname", "imgpath",
    "filename", "filepath", "file", "path", "idcode", "isicid", "isic", "dicomid", "sopinstanceuid", "picture", "photo",
    "patch", "patchid", "tile", "tileid", "trainimagename", "image1", "imageuid", "imagefilename",
)  # fmt: skip
WEAK_IMAGE = ("id", "name", "uid", "key", "slideid", "slide", "sample", "sampleid", "index")
PATIENT = (
    "patient", "patientid", "patients", "subject", "subjectid", "subjid", "pid", "caseid", "case", "person", "personid",
    "participant", "participantid", "mrn", "patientname", "patientno", "patientnumber", "empianon", "ptid",
)  # fmt: skip
GROUP = (
    "group", "groupid", "lesion", "lesionid", "slide", "slideid", "exam", "examid", "study", "studyid", "eyeid", "wsi",
    "accession", "accessionnumber", "series", "seriesid", "visit", "visitid", "specimen", "specimenid", "biopsy",
    "biopsyid", "block", "blockid", "core", "coreid", "breastid", "woundid", "scan", "scanid", "studyinstanceuid",
)  # fmt: skip
LABEL = (
    "label", "labels", "findinglabels", "class", "classname", "diagnosis", "dx", "grade", "ytrue", "truth", "gt",
    "groundtruth", "category", "truelabel", "target", "level", "drgrade", "adjudicateddrgrade", "retinopathygrade",
    "classid", "labelid", "answer", "severity", "malignant", "cancer", "tumor", "outcome", "benignmalignant",
)  # fmt: skip
SITE = (
    "site", "siteid", "center", "centre", "centerid", "hospital", "hospitalid", "institution", "institute", "source",
    "dataset", "cohort", "department", "ophthalmologicdepartment", "tissuesourcesite", "tss", "lab", "country",
    "clinic", "datasource", "origin",
)  # fmt: skip
SPLIT = (
    "split", "splits", "set", "subset", "partition", "phase", "datasetsplit", "usage", "datasplit", "traintest",
    "traintestsplit", "mode", "published", "splitname", "role", "setname", "settype", "datasettype", "stage",
)  # fmt: skip
RUN = ("run", "repeat", "repetition", "rep", "iteration", "cvrun", "repeatid", "runid", "cvrepeat")
HASH = (
    "contenthash", "md5", "sha1", "sha256", "sha", "hash", "checksum", "digest", "filehash", "imagehash", "md5sum",
    "sha256sum", "md5hash",
)  # fmt: skip
QUESTION = ("question", "prompt", "query", "questiontext")
FOLD = re.compile(r"(?:cv|k|kf|test|val|outer|inner)?folds?(?:id|no|number|index)?\d*|cv\d*|split\d+")

TRAIN, VALIDATION, CALIBRATION, TEST, EXTERNAL = "train", "val", "calib", "test", "external"
# Which kind of split a word names; the order is that of how much is lost when it leaks.
KINDS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("train", "training", "trn", "tr", "development", "derivation", "imagestr", "learn"), TRAIN),
        **dict.fromkeys(("trainx", "trainu", "trainval", "trainvalidation", "labeled", "labelled"), TRAIN),
        **dict.fromkeys(("val", "valid", "validation", "dev", "validate", "crossval", "tune", "tuning"), VALIDATION),
        **dict.fromkeys(("calib", "calibration", "cal"), CALIBRATION),
        **dict.fromkeys(("test", "testing", "tst", "ts", "eval", "evaluation", "holdout", "heldout", "imagests"), TEST),
        **dict.fromkeys(("public", "private", "internaltest", "testset", "query", "gallery"), TEST),
        **dict.fromkeys(("external", "ext", "ood", "externaltest", "externalvalidation"), EXTERNAL),
    }
)
RANK = (TRAIN, "", VALIDATION, CALIBRATION, TEST, EXTERNAL)
NO_SPLIT = frozenset(
    {"unused", "none", "exclude", "excluded", "drop", "dropped", "ignore", "ignored", "na", "nan", "null"}
)
NO_VALUE = frozenset(
    {"unknown", "nan", "none", "null", "na", "n/a", "#n/a", "?", "-", "--", ".", "-1", "-1.0", "missing", "unavailable",
     "anonymous", "anonymized", "anonymised", "anon", "undefined", "not available", "not provided", "unspecified",
     "tbd", "xxx"}
)  # fmt: skip
# Words that are no patient: they name a diagnosis, or what the column is about.
NO_PATIENT = frozenset(
    {"covid", "covid-19", "covid19", "normal", "pneumonia", "positive", "negative", "benign", "malignant", "tumor",
     "tumour", "healthy", "control", "abnormal", "cancer", "disease", "image", "img", "patient", "patients", "subject",
     "train", "test", "val", "case", "mri", "ct", "xray", "x-ray", "person", "virus", "bacteria", "sars", "mers",
     "ards"}
)  # fmt: skip


def key(text: str) -> str:
    """``text`` as the tables of this module spell it: 'Patient ID' is 'patientid'."""
    return re.sub(r"[^a-z0-9]", "", text.casefold())


def kind_of(name: str) -> str:
    """The kind of split that ``name`` names ('train_0', 'IDRID_crossval', 'Public'), or '' where it names none."""
    whole = KINDS.get(key(name), "")
    if whole:
        return whole
    parts = re.split(r"[^a-z]+", re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower())
    found = {KINDS[part] for part in parts if part in KINDS}
    if found == {TRAIN, VALIDATION}:
        return TRAIN  # train_val
    return found.pop() if len(found) == 1 else ""


def is_fold(name: str) -> bool:
    """Whether a column's name is that of folds: fold, fold2, cv_fold, split_3."""
    return FOLD.fullmatch(key(name)) is not None
