"""Step 7: release."""

import polars as pl

from protocol.findings import Outcome
from tests.builders import Draft, rows_of
from tests.mutations.registry import mutates
from tests.mutations.stage4 import evaluated

UID = "1.2.840.10008.5.1.4.1.1.2"


@mutates("MVC701")
def no_licence(draft: Draft) -> None:
    del draft.record["release"]["licence"]


@mutates("MVC701")
def licence_unknown(draft: Draft) -> None:
    draft.record["release"]["licence"] = "free for all"


@mutates("MVC702")
def code_absent(draft: Draft) -> None:
    draft.record["release"]["code"] = {"file": "code.tar"}


@mutates("MVC702")
def digest_of_another(draft: Draft) -> None:
    draft.record["release"]["splits"]["sha256"] = "0" * 64


@mutates("MVC703")
def image_missing_from_one_run(draft: Draft) -> None:
    draft.predictions = draft.predictions.filter(
        ~rows_of(draft.predictions, image_id=evaluated(draft), seed=3, calibrator="isotonic")
    )


@mutates("MVC703", "multiclass")
def images_missing_from_a_model_seed(draft: Draft) -> None:
    images = pl.col("image_id").is_in([evaluated(draft, nth) for nth in range(4)])
    draft.predictions = draft.predictions.filter(~(images & (pl.col("seed") == 2)))


@mutates("MVC704")
def record_number_column(draft: Draft) -> None:
    draft.splits = draft.splits.with_columns(MRN=pl.lit("x"))


@mutates("MVC704")
def birth_date_in_predictions(draft: Draft) -> None:
    draft.predictions = draft.predictions.with_columns(Date_of_Birth=pl.lit("x"))


for name, text in (
    ("address_as_site", "ward@hospital.example.org"),
    ("uid_as_site", f"series {UID}"),
    ("place_as_site", "48.13743, 11.57549"),
):

    def site(draft: Draft, text: str = text) -> None:
        draft.splits = draft.splits.with_columns(pl.col("site").replace("first hospital", text))

    site.__name__ = name
    mutates("MVC704")(site)


@mutates("MVC704")
def uid_as_subgroup(draft: Draft) -> None:
    draft.splits = draft.splits.with_columns(scanner=pl.lit(UID))
    draft.record["shift"]["subgroups"].append({"column": "scanner", "levels": [UID]})


@mutates("MVC704", outcome=Outcome.PASSED)
def address_in_free_text(draft: Draft) -> None:
    draft.record["recipe"]["preprocessing"] = "ask jane.doe@hospital.example.org"


@mutates("MVC705")
def no_code(draft: Draft) -> None:
    del draft.record["release"]["code"]


@mutates("MVC705")
def restricted_without_reason(draft: Draft) -> None:
    del draft.record["release"]["predictions"]
    draft.record["release"] |= {"restricted": True, "reason": " "}
