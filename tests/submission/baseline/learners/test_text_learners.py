"""Zero-shot, CoOp, KgCoOp and ProGrad."""

import pytest
import torch
from torch.nn import functional

from submission.baseline.config import LossConfig
from submission.baseline.errors import BaselineError
from submission.baseline.learners import ClassTexts, make
from submission.baseline.learners.base import template_features
from submission.baseline.learners.prograd import general_loss, project
from submission.baseline.losses import Criterion
from tests.submission.baseline.learners.bench import TEXTS, batch, built, configured, cross_entropy, vit

SPOKEN = ("no finding", "mild disease", "advanced disease")


def test_an_ensemble_is_the_mean_of_normalised_features() -> None:
    templates = ("a photo of a {}.", "a scan of {}", "{} texture.")
    texts = ClassTexts(TEXTS.names, templates)
    learner = make(configured("zeroshot"), vit(), texts, seed=1, epochs=1)
    each = torch.stack([vit().encode_text([template.format(name) for name in SPOKEN]) for template in templates])
    expected = functional.normalize(each.mean(0), dim=1)
    seen = batch()
    torch.testing.assert_close(learner(seen.features).text, expected)
    torch.testing.assert_close(learner(seen.features).logits, vit().scale * seen.features @ expected.T)


def test_a_teacher_may_average_before_it_normalises() -> None:
    templates = ("a photo of a {}.", "{} texture.")
    raw = []
    for template in templates:
        tokens = vit().tokenize([template.format(name) for name in SPOKEN])
        raw.append(vit().read_text(vit().embed(tokens.ids), tokens).detach())
    found = template_features(vit(), TEXTS.names, templates, normalise=False)
    torch.testing.assert_close(found, functional.normalize((raw[0] + raw[1]) / 2, dim=1))


def test_braces_in_a_name_are_plain_text() -> None:
    found = template_features(vit(), ["grade {0}"], ["a {}."], normalise=True)
    torch.testing.assert_close(found, vit().encode_text(["a grade {0}."]))


def test_zero_shot_has_nothing_to_train() -> None:
    learner = built("zeroshot")
    assert learner.trainable == 0
    assert learner.kept() == {}
    with pytest.raises(BaselineError, match="nothing to train"):
        learner.step(batch(), cross_entropy())


def test_a_context_of_words_reads_as_those_words() -> None:
    learner, seen = built("coop", context=None, words="a photo of a"), batch()
    assert learner.context.shape == (4, vit().text_width)
    torch.testing.assert_close(learner(seen.features).logits, learner.zero_shot(seen.features))


def test_a_random_context_is_narrow() -> None:
    context = built("coop", context=64).context
    assert context.shape == (64, vit().text_width)
    assert context.std().item() == pytest.approx(0.02, rel=0.1)
    assert abs(context.mean().item()) < 0.003


def test_the_place_of_the_class_name_matters() -> None:
    found = [built("coop", position=position)(batch().features).logits for position in ("end", "middle", "front")]
    assert not torch.allclose(found[0], found[1])
    assert not torch.allclose(found[1], found[2])


def test_a_class_has_a_context_of_its_own() -> None:
    learner, seen = built("coop", class_specific=True), batch()
    assert learner.context.shape == (3, 4, vit().text_width)
    text = learner(seen.features).text
    text[1].sum().backward()
    moved = learner.context.grad.abs().sum((1, 2)) > 0
    assert moved.tolist() == [False, True, False]


def test_words_start_every_class_alike() -> None:
    learner = built("coop", context=None, words="a photo of a", class_specific=True)
    assert torch.equal(learner.context[0], learner.context[2])
    torch.testing.assert_close(learner(batch().features).logits, learner.zero_shot(batch().features))


def test_words_and_another_number_of_tokens() -> None:
    with pytest.raises(BaselineError, match="context is 5, but words 'a photo of a' are 4 tokens"):
        built("coop", context=5, words="a photo of a")
    assert built("coop", context=4, words="a photo of a").trainable == 4 * vit().text_width


def test_kgcoop_starts_as_its_teacher() -> None:
    learner, seen = built("kgcoop"), batch()
    assert learner.context.shape == (4, vit().text_width)
    output = learner(seen.features)
    torch.testing.assert_close(output.text, learner.teacher)
    plain = functional.cross_entropy(output.logits, seen.labels)
    torch.testing.assert_close(learner.loss(output, seen, cross_entropy()), plain, atol=1e-4, rtol=0)


def test_kgcoop_is_held_by_the_cosine_to_its_teacher() -> None:
    learner, seen = built("kgcoop", weight=3.0), batch()
    with torch.no_grad():
        learner.context += torch.randn(learner.context.shape, generator=torch.Generator().manual_seed(0))
    output = learner(seen.features)
    apart = 1 - functional.cosine_similarity(output.text, learner.teacher).mean()
    assert apart > 1e-3
    expected = functional.cross_entropy(output.logits, seen.labels) + 3 * apart
    torch.testing.assert_close(learner.loss(output, seen, cross_entropy()), expected)
    assert built("kgcoop").weight == 8.0


def test_prograd_takes_out_what_opposes() -> None:
    wanted, known = torch.tensor([1.0, 0.0]), torch.tensor([-1.0, 1.0])
    # the part of (1, 0) along (-1, 1) is (.5, -.5)
    assert project(wanted, known, 1.0).tolist() == pytest.approx([0.5, 0.5])
    assert project(wanted, known, 0.8).tolist() == pytest.approx([0.6, 0.4])
    assert (project(wanted, known, 1.0) @ known).item() == pytest.approx(0, abs=1e-7)
    # lengths of the second gradient do not matter
    assert project(wanted, 100 * known, 1.0).tolist() == pytest.approx([0.5, 0.5])
    assert project(wanted * 1e-25, known * 1e-25, 1.0).tolist() == pytest.approx([0.5e-25, 0.5e-25], rel=1e-5)


@pytest.mark.parametrize("known", [[1.0, 1.0], [0.0, 3.0], [0.0, 0.0]])
def test_prograd_leaves_alone_what_agrees(known: list[float]) -> None:
    wanted = torch.tensor([0.1, 0.7])
    assert torch.equal(project(wanted, torch.tensor(known), 1.0), wanted)


def test_prograd_compares_whole_tensors() -> None:
    wanted, known = torch.tensor([[1.0, 0.0], [0.0, 3.0]]), torch.tensor([[-1.0, 0.0], [0.0, 1.0]])
    assert torch.equal(project(wanted, known, 1.0), wanted)  # one row opposes, the sum does not


def test_general_loss_has_the_gradient_of_the_divergence() -> None:
    stream = torch.Generator().manual_seed(0)
    z = torch.randn(4, 3, generator=stream, requires_grad=True)
    zero_shot = torch.randn(4, 3, generator=stream)
    (found,) = torch.autograd.grad(general_loss(z, zero_shot), z)
    divergence = functional.kl_div(z.log_softmax(1), zero_shot.softmax(1), reduction="batchmean")
    (expected,) = torch.autograd.grad(divergence, z)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("loss", ["ce", "mcm", "label-smoothing"])
def test_prograd_projects_the_gradient_of_loss_and_regulariser(loss: str) -> None:
    criterion = Criterion(LossConfig.model_validate({"name": loss}), 3)
    opposed = []
    for seed in range(4):
        learner, seen = built("prograd"), batch(seed)
        # a start near the teacher's words, then steps towards the labels or away from them
        with torch.no_grad():
            learner.context[:2] = learner.context[2:4]
        for _ in range(3):
            supervised = functional.cross_entropy(learner(seen.features).logits, seen.labels)
            (towards,) = torch.autograd.grad(supervised, learner.context)
            with torch.no_grad():
                learner.context -= (0.3 if seed % 2 else -0.3) * towards / towards.norm()
        logits = learner(seen.features).logits
        zero_shot = learner.zero_shot(seen.features)
        (wanted,) = torch.autograd.grad(criterion(logits, seen.labels, zero_shot), learner.context, retain_graph=True)
        (known,) = torch.autograd.grad(general_loss(logits, zero_shot), learner.context)
        value, terms = learner.step(seen, criterion)
        torch.testing.assert_close(learner.context.grad, project(wanted, known, 1.0))
        torch.testing.assert_close(value, criterion(logits, seen.labels, zero_shot).detach())
        opposed.append(terms["opposed"].item())
        if opposed[-1]:
            inner = (learner.context.grad * known).sum() / (wanted.norm() * known.norm())
            assert abs(inner.item()) < 1e-5
        else:
            torch.testing.assert_close(learner.context.grad, wanted)
    assert 0 < sum(opposed) < 4  # both cases were seen


def test_prograd_starts_from_zeros_and_then_the_words() -> None:
    learner = built("prograd", context=6)
    assert learner.context[:2].abs().sum() == 0
    ids = vit().tokenize(["a photo of a"]).ids[:, 1:5]
    assert torch.equal(learner.context[2:], vit().embed(ids)[0])


def test_prograd_without_room_for_its_words() -> None:
    with pytest.raises(BaselineError, match="'a photo of a' are 4 tokens and context is 3"):
        built("prograd", context=3)
    assert built("prograd", context=4).context.abs().sum(1).min() > 0


@pytest.mark.parametrize("template", ["{} texture.", "a {} in a photo.", "{}."])
def test_prograd_wants_words_before_the_name(template: str) -> None:
    texts = ClassTexts(TEXTS.names, (template,))
    with pytest.raises(BaselineError, match=r"first template is .* or give learner.words"):
        make(configured("prograd"), vit(), texts, seed=1, epochs=1)
    learner = make(configured("prograd", words="a scan of"), vit(), texts, seed=1, epochs=1)
    assert learner(batch().features).logits.isfinite().all()
