"""Step 5: uncertainty."""

from tests.builders import Draft
from tests.mutations.bases import claimed
from tests.mutations.registry import mutates


@mutates("MVC501")
def bootstrap_by_image(draft: Draft) -> None:
    draft.record["uncertainty"]["unit"] = "image"


@mutates("MVC501")
def patients_called_unavailable(draft: Draft) -> None:
    draft.record["splits"] |= {"patient_ids": "unavailable", "patient_ids_reason": "intervals by image are narrower"}
    draft.record["waivers"] = [{"rule": "MVC109", "reason": "intervals by image are narrower"}]


@mutates("MVC502")
def few_resamples(draft: Draft) -> None:
    draft.record["uncertainty"]["resamples"] = 999


@mutates("MVC503", base=claimed)
def interval_too_narrow(draft: Draft) -> None:
    claim = draft.record["metrics"]["claims"][0]
    claim["interval"] = [claim["value"], claim["value"]]


@mutates("MVC503", "multilabel", base=claimed)
def interval_of_another(draft: Draft) -> None:
    draft.record["metrics"]["claims"][0]["interval"] = ["80.0%", "90.0%"]
