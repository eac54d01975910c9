"""Small validated types and the base class of all records."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

Kind = Literal["binary", "multiclass", "multilabel"]
SplitName = Literal["train", "val", "calib", "test", "external"]
SPLIT_NAMES: tuple[SplitName, ...] = ("train", "val", "calib", "test", "external")
EVALUATED: tuple[SplitName, ...] = ("test", "external")
DEVELOPMENT: tuple[SplitName, ...] = ("train", "val", "calib", "test")

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
PublicKey = Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{2}){32}$")]  # Ed25519, raw, in hex
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,99}$")]
Text = Annotated[str, StringConstraints(max_length=4000)]
ColumnName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,63}$")]


# What mvc submit writes into a bundle: a record can't name these as its own.
CANONICAL_FILE = "submission.json"
MANIFEST_FILE = "ro-crate-metadata.json"
RESULTS_FOLDER = "results"


def _inside(path: str) -> str:
    if any(part in ("", ".", "..") for part in path.split("/")):
        raise ValueError("a file lies inside the bundle: no empty part, no . and no ..")
    if path in (CANONICAL_FILE, MANIFEST_FILE) or path.startswith(f"{RESULTS_FOLDER}/"):
        raise ValueError(f"{path} is a name of what mvc submit writes")
    return path


FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._/-]{0,199}$"), AfterValidator(_inside)]
# What the bootstrap can resample: the tables hold the identifiers of these three.
ClusteringUnit = Literal["patient", "image", "site"]
Unit = Literal["patient", "image", "eye", "lesion", "breast", "slide", "exam", "site"]
Seed = Annotated[int, Field(ge=0, le=2**31 - 1)]


class Record(BaseModel):
    """A frozen document part: unknown keys are refused, types are strict (a YAML date is not text)."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
