"""The recipe of the record: complete, valid, and true to the configuration."""

from typing import Any

import pytest

from protocol.stages.stage2_training import TRAINED_FIELDS, ZERO_SHOT_FIELDS
from protocol.submission import Model, Recipe
from submission.baseline.backbones.base import Pixels
from submission.baseline.config import BackboneConfig, LearnerConfig, LossConfig, RunConfig, TrainingConfig, ViewsConfig
from submission.baseline.recipe import Told, model, recipe

PIXELS = Pixels(224, (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))
TOLD = Told(
    architecture="a tower",
    source="a file",
    sha256="a" * 64,
    trained_on="pairs",
    pixels=PIXELS,
    learner="CoOp",
    loss="cross-entropy",
    shots="16 images a class",
    trainable=8192,
)


def run_of(**fields: Any) -> RunConfig:
    given: dict[str, Any] = {
        "model": "m",
        "backbone": BackboneConfig(name="toy"),
        "learner": LearnerConfig(name="coop"),
    }
    return RunConfig(**given | fields)


def words(**fields: Any) -> dict[str, Any]:
    found = recipe(run_of(**fields), TOLD)
    Recipe.model_validate(found)
    return found


def test_no_field_is_blank_and_each_says_what_the_configuration_has() -> None:
    found = words()
    assert all(str(found[name]).strip() for name in TRAINED_FIELDS)
    assert found["architecture"] == "a tower; CoOp; 8,192 trainable values, both towers frozen"
    assert found["pretrained_weights"] == f"a file (SHA-256 {'a' * 64})"
    assert (found["pretrained_on"], found["pretraining_test_overlap"]) == ("pairs", "not known")
    assert (found["learning_rate"], found["batch_size"], found["epochs"]) == (0.005, 8, 50)
    assert found["selected_on"] == "none"
    assert found["stopping_rule"] == "none: the prompts after the last of 50 epochs"
    for part in ("SGD, momentum 0.9", "1 warm-up epoch at 1e-05", "cosine", "cross-entropy", "16 images a class"):
        assert part in found["optimiser"]
    for part in ("224 x 224", "0.48145466, 0.4578275, 0.40821073", "towers in fp32", "'a photo of a {}.'"):
        assert part in found["preprocessing"]
    assert "torch 2" in found["code_commit"]


def test_optimisers_and_schedules_are_told_apart() -> None:
    adam = words(training=TrainingConfig(optimiser="adam", adam_epsilon=1e-3, warmup_epochs=0, drop_last=True))
    assert adam["optimiser"].startswith("Adam, epsilon 0.001; cosine schedule stepped once an epoch; a last smaller")
    assert "2 warm-up epochs" in words(training=TrainingConfig(warmup_epochs=2))["optimiser"]


def test_the_single_view_is_named_as_a_deviation() -> None:
    assert "deviation" in words(views=ViewsConfig(kind="single"))["augmentation"]
    augmented = words(views=ViewsConfig(scale=(0.2, 1.0), flip=0.25))["augmentation"]
    for part in ("0.2 to 1 of the area", "probability 0.25", "one view an image and epoch"):
        assert part in augmented
    assert "deviation" not in augmented


def test_many_templates_are_counted() -> None:
    many = tuple(f"text {number} of {{}}" for number in range(60))
    assert "'text 7 of {}' and 52 more (see configs)" in words(templates=many)["preprocessing"]


def test_a_zero_shot_model_is_not_trained() -> None:
    config = run_of(learner=LearnerConfig(name="zeroshot"))
    found = recipe(config, TOLD)
    Recipe.model_validate(found)
    assert all(found[name] for name in ZERO_SHOT_FIELDS)
    assert found["architecture"] == "a tower; CoOp"
    assert found["epochs"] == found["optimiser"] == "none: a zero-shot model is not trained"
    assert model(config) == {"name": "m", "kind": "zero-shot", "deterministic": True}


@pytest.mark.parametrize(("loss", "kind"), [("ce", "base"), ("mcm", "train-time"), ("eccv-zs", "train-time")])
def test_the_kind_of_a_model_follows_its_loss(loss: Any, kind: str) -> None:
    found = model(run_of(loss=LossConfig(name=loss), seeds=(1, 5)))
    assert found == {"name": "m", "kind": kind, "seeds": [1, 5]}
    Model.model_validate_json(str(found).replace("'", '"'))
