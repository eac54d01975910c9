"""What holds for every learner."""

from typing import get_args

import open_clip
import pytest
import torch
from torch import Tensor

from submission.baseline.backbones.clip import ClipBackbone
from submission.baseline.config import LearnerConfig, LearnerName, LossConfig
from submission.baseline.errors import BaselineError
from submission.baseline.learners import DEFAULTS, OFFICIAL, ClassTexts, make, words
from submission.baseline.losses import DEFAULTS as LOSSES
from submission.baseline.losses import Criterion
from tests.submission.baseline import tiny
from tests.submission.baseline.learners.bench import (
    DEEP,
    EPOCHS,
    TEXT_ONLY,
    TEXTS,
    TRAINED,
    batch,
    built,
    configured,
    cross_entropy,
    logits,
    train,
    vit,
)

NAMES: tuple[LearnerName, ...] = get_args(LearnerName)


def frozen_state(backbone: ClipBackbone) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in backbone.state_dict().items()}


@pytest.mark.parametrize("name", NAMES)
def test_logits_are_scaled_cosines(name: LearnerName) -> None:
    seen = batch()
    found = built(name)(seen.features, seen.images)
    assert found.logits.shape == (5, 3)
    assert all(value.dtype == torch.float32 for value in (found.logits, found.text, found.image))
    torch.testing.assert_close(found.text.norm(dim=1), torch.ones(3))
    torch.testing.assert_close(found.image.norm(dim=1), torch.ones(5))
    torch.testing.assert_close(found.logits, vit().scale * found.image @ found.text.T)


@pytest.mark.parametrize("name", TRAINED)
def test_towers_stay_as_they_are(name: LearnerName) -> None:
    before = frozen_state(vit())
    learner = built(name)
    learner.train()
    start = learner.kept()
    train(learner, 2)
    assert not any(module.training for module in vit().modules())
    assert all(parameter.grad is None and not parameter.requires_grad for parameter in vit().parameters())
    assert all(torch.equal(value, before[key]) for key, value in vit().state_dict().items())
    assert all(torch.isfinite(value).all() for value in learner.parameters())
    assert any(not torch.equal(value, start[key]) for key, value in learner.named_parameters())


@pytest.mark.parametrize("name", TRAINED)
def test_every_parameter_is_trained_and_none_is_of_the_towers(name: LearnerName) -> None:
    learner = built(name)
    train(learner, 1)  # maps that start at zero effect, such as offsets before a norm, take a step to matter
    learner.zero_grad()
    learner.step(batch(1), cross_entropy())
    for key, parameter in learner.named_parameters():
        assert parameter.requires_grad
        assert parameter.grad is not None, key
        assert parameter.grad.abs().sum() > 0, key
    inside = {id(parameter) for parameter in learner.parameters()}
    assert inside.isdisjoint(id(parameter) for parameter in vit().parameters())
    assert learner.trainable == sum(value.numel() for value in learner.kept().values() if value.dim()) // (
        2 if name == "promptsrc" else 1
    )


@pytest.mark.parametrize("name", TRAINED)
def test_a_seed_gives_the_same_bits(name: LearnerName) -> None:
    first = built(name, seed=7)
    torch.manual_seed(123)
    torch.randn(10)
    built("maple", seed=8)
    before = torch.get_rng_state()
    second = built(name, seed=7)
    assert torch.equal(torch.get_rng_state(), before)
    train(first, 2)
    train(second, 2)
    assert torch.equal(logits(first), logits(second))


@pytest.mark.parametrize("name", ["coop", *DEEP])
def test_another_seed_gives_other_values(name: LearnerName) -> None:
    one, two = (built(name, seed=seed).kept() for seed in (1, 2))
    assert any(not torch.equal(one[key], two[key]) for key in one)


@pytest.mark.parametrize("name", TRAINED)
def test_a_checkpoint_goes_on_where_it_was(name: LearnerName) -> None:
    learner = built(name, seed=1)
    train(learner, 1)
    learner.after_epoch(0, EPOCHS)
    kept = learner.kept()
    train(learner, 2, first=1)
    other = built(name, seed=2)
    other.restore(kept)
    train(other, 2, first=1)
    assert torch.equal(logits(learner), logits(other))
    again = other.kept()
    assert again.keys() == kept.keys()
    assert all(value.device.type == "cpu" and not value.requires_grad for value in again.values())


def test_what_is_kept_is_a_copy() -> None:
    learner = built("coop")
    kept = learner.kept()
    train(learner, 1)
    assert not torch.equal(kept["context"], learner.context)


@pytest.mark.parametrize("name", NAMES)
def test_predictions_do_not_depend_on_what_was_predicted_before(name: LearnerName) -> None:
    learner = built(name)
    first = logits(learner)
    logits(learner, seed=4)
    assert torch.equal(logits(learner), first)


@pytest.mark.parametrize("name", NAMES)
def test_zero_shot_logits_are_those_of_the_frozen_model(name: LearnerName) -> None:
    seen = batch()
    text = vit().encode_text(
        ["a photo of a no finding.", "a photo of a mild disease.", "a photo of a advanced disease."]
    )
    found = built(name).zero_shot(seen.features)
    torch.testing.assert_close(found, vit().scale * seen.features @ text.T)
    assert not found.requires_grad


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize("loss", LOSSES)
def test_losses_stand_where_cross_entropy_stood(name: LearnerName, loss: str) -> None:
    learner, seen = built(name), batch()
    output = learner(seen.features, seen.images)
    criterion = Criterion(LossConfig.model_validate({"name": loss}), 3)
    zero_shot = learner.zero_shot(seen.features)
    own = learner.loss(output, seen, cross_entropy()) - cross_entropy()(output.logits, seen.labels, zero_shot)
    expected = own + criterion(output.logits, seen.labels, zero_shot)
    torch.testing.assert_close(learner.loss(output, seen, criterion), expected)


@pytest.mark.parametrize("name", TRAINED)
def test_a_step_reports_loss_and_terms(name: LearnerName) -> None:
    learner, seen = built(name), batch()
    criterion = Criterion(LossConfig(name="mcm"), 3)
    logits = learner(seen.features, seen.images).logits.detach()
    expected = criterion.terms(logits, seen.labels, learner.zero_shot(seen.features))
    value, terms = learner.step(seen, criterion)
    torch.testing.assert_close({key: terms[key] for key in expected}, expected)
    assert value.shape == ()
    assert not value.requires_grad
    assert {"supervised", "regulariser", "mean_margin", "margin_variance"} <= terms.keys()
    assert not any(term.requires_grad for term in terms.values())


@pytest.mark.parametrize("name", NAMES)
def test_towers_in_half_precision_leave_prompts_and_logits_in_full(name: LearnerName) -> None:
    half = tiny.tiny_vit()
    half.precision = "bf16"
    learner, exact, seen = built(name, backbone=half), built(name), batch()
    output = learner(seen.features, seen.images)
    assert output.logits.dtype == output.text.dtype == output.image.dtype == torch.float32
    torch.testing.assert_close(output.logits, exact(seen.features, seen.images).logits, atol=0.5, rtol=0)
    if name != "zeroshot":
        assert not torch.equal(output.logits, exact(seen.features, seen.images).logits)
        learner.step(seen, cross_entropy())
        assert all(parameter.dtype == parameter.grad.dtype == torch.float32 for parameter in learner.parameters())


@pytest.mark.parametrize("name", DEEP)
@pytest.mark.parametrize("builder", ["tiny_resnet", "tiny_bert"])
def test_deep_prompts_need_two_transformers(name: LearnerName, builder: str) -> None:
    with pytest.raises(BaselineError, match=r"takes none.*choose coop, kgcoop or prograd"):
        built(name, backbone=getattr(tiny, builder)())


@pytest.mark.parametrize("name", DEEP)
def test_no_more_layers_than_the_towers_have(name: LearnerName) -> None:
    with pytest.raises(
        BaselineError, match=r"depth is 5, but .* has 4 text and 4 image layers; set learner.depth to 4"
    ):
        built(name, depth=5)
    with pytest.raises(BaselineError, match="depth is"):
        make(LearnerConfig(name=name), vit(), TEXTS, seed=1, epochs=1)


@pytest.mark.parametrize("name", DEEP)
def test_as_many_layers_as_the_towers_have(name: LearnerName) -> None:
    learner = built(name, depth=4)
    learner.step(batch(), cross_entropy())
    assert all(parameter.grad is not None for parameter in learner.parameters())


@pytest.mark.parametrize("name", ["zeroshot", *TEXT_ONLY])
@pytest.mark.parametrize("builder", ["tiny_resnet", "tiny_bert", "tiny_medclip"])
def test_text_learners_run_on_any_tower(name: LearnerName, builder: str) -> None:
    backbone = getattr(tiny, builder)()
    learner = built(name, backbone=backbone)
    features = torch.nn.functional.normalize(torch.randn(5, backbone.embed_width), dim=1)
    assert learner(features).logits.isfinite().all()
    if name != "zeroshot":
        learner.step(type(batch())(batch().labels, features), cross_entropy())
        assert learner.context.grad.abs().sum() > 0


@pytest.mark.parametrize("name", DEEP)
def test_deep_learners_want_images(name: LearnerName) -> None:
    learner = built(name)
    assert learner.needs_images
    with pytest.raises(ValueError, match="reads images"):
        learner(batch().features)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (LearnerConfig(name="zeroshot", context=4), "zeroshot: context is set, but it has no settings"),
        (LearnerConfig(name="coop", depth=3), "coop: depth is set, but it has context, words"),
        (LearnerConfig(name="kgcoop", position="middle"), "kgcoop: position is set, but it has words, weight"),
        (LearnerConfig(name="maple", form="as-published"), "maple: form is set"),
        (LearnerConfig(name="hicropl", words="a photo of a"), "hicropl: words is set"),
    ],
)
def test_settings_that_a_learner_does_not_have(config: LearnerConfig, said: str) -> None:
    with pytest.raises(BaselineError, match=said):
        make(config, vit(), TEXTS, seed=1, epochs=1)
    with pytest.raises(BaselineError, match=said):
        words(config)


def test_names_and_templates_are_needed() -> None:
    for texts in (ClassTexts((), ("a {}.",)), ClassTexts(("one", "two"), ())):
        with pytest.raises(BaselineError, match="names of the classes"):
            make(LearnerConfig(name="coop"), vit(), texts, seed=1, epochs=1)


@pytest.mark.parametrize("name", NAMES)
def test_words_hold_the_settings(name: LearnerName) -> None:
    told = words(LearnerConfig(name=name))
    for value in DEFAULTS[name].values():
        if isinstance(value, str | int | float) and value is not False:
            assert (f"{value:g}" if isinstance(value, float) else str(value)) in told


def test_words_hold_what_is_set() -> None:
    assert "of each class's own" in words(LearnerConfig(name="coop", class_specific=True))
    assert "class name at the middle" in words(LearnerConfig(name="coop", position="middle"))
    assert '"a scan of"' in words(LearnerConfig(name="prograd", words="a scan of"))
    assert "mean 15 and deviation 1" in words(LearnerConfig(name="promptsrc", averaging=(15, 1)))
    assert "first 5 layers" in words(LearnerConfig(name="hicropl", depth=6, switch=5))
    assert "the maps untrained" in words(LearnerConfig(name="hicropl", form="as-published"))


def test_published_training() -> None:
    told = {name: OFFICIAL[name].training for name in NAMES}
    assert told.pop("zeroshot") is None
    found = {name: (t.optimiser, t.learning_rate, t.batch_size, t.epochs) for name, t in told.items() if t}
    assert found == {
        "coop": ("sgd", 0.002, 32, 200),
        "kgcoop": ("sgd", 0.002, 128, 100),
        "prograd": ("sgd", 0.002, 32, 200),
        "maple": ("sgd", 0.0035, 4, 5),
        "promptsrc": ("sgd", 0.0025, 4, 50),
        "hicropl": ("adam", 0.0025, 32, 50),
    }


def vit_b_16() -> ClipBackbone:
    """The shapes of ViT-B/16; its memory is never filled, and what comes out of the towers means nothing."""
    vision = {"layers": 12, "width": 768, "patch_size": 16, "image_size": 224}
    text = {"context_length": 77, "vocab_size": 49408, "width": 512, "heads": 8, "layers": 12}
    with torch.device("meta"):
        model = open_clip.CLIP(512, vision, text, quick_gelu=True)
    return ClipBackbone(model.to_empty(device="cpu"), "ViT-B-16")


def test_numbers_of_parameters_of_vit_b_16() -> None:
    backbone = vit_b_16()
    found = {name: make(LearnerConfig(name=name), backbone, TEXTS, seed=1, epochs=2).trainable for name in TRAINED}
    assert found["coop"] == found["prograd"] == 16 * 512 == 8_192
    assert found["kgcoop"] == 4 * 512
    assert found["maple"] == 9 * 2 * 512 + 9 * (512 * 768 + 768) == 3_555_072
    assert found["promptsrc"] == 9 * 4 * (512 + 768) == 46_080

    def attention(d: int) -> int:
        return 4 * d * d + 4 * d

    def mapper(d: int, other: int) -> int:
        return (d * d + d) + 2 * (other * d + d) + attention(d) + 4 * d + 8 * d * d + 5 * d

    prompts = 12 * 16 * (512 + 768) + 6 * (512 + 768)
    poolers = 6 * sum(attention(d) + 4 * d for d in (512, 768))
    assert found["hicropl"] == prompts + poolers + mapper(512, 768) + mapper(768, 512) == 33_431_040


def test_a_class_specific_context_is_a_context_a_class() -> None:
    backbone = vit()
    learner = make(configured("coop", class_specific=True), backbone, TEXTS, seed=1, epochs=1)
    assert learner.trainable == 3 * 4 * backbone.text_width
