"""``calibrators.json``: the fitted parameters per model, seed and calibrator (step 3)."""

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from protocol.submission import Family
from protocol.types import Name, Record, Seed, Text

Number = Annotated[float, Field(allow_inf_nan=False)]


class FittedCalibrator(Record):
    """One fitted map; ``class_index`` is null where one map serves all classes."""

    model: Name
    seed: Seed
    calibrator: Name
    class_index: Annotated[int, Field(ge=0)] | None = Field(default=None, alias="class")
    family: Family
    input: Literal["logits", "log-probabilities", "probabilities"]
    parameters: dict[str, Number | tuple[Number, ...] | tuple[tuple[Number, ...], ...]]
    interpolation: Literal["step", "linear"] | None = None
    outside: Literal["clip"] | None = None
    normalise: bool = False
    objective: Text
    n: Annotated[int, Field(ge=1)]
    software: Text


CALIBRATORS: TypeAdapter[tuple[FittedCalibrator, ...]] = TypeAdapter(tuple[FittedCalibrator, ...])
