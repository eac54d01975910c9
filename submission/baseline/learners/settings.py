"""The settings of each learner: what it has, its published values, and how it was trained when it was published."""

from dataclasses import dataclass
from typing import Any

from submission.baseline.config import LearnerConfig, LearnerName, TrainingConfig
from submission.baseline.errors import BaselineError

DEFAULTS: dict[LearnerName, dict[str, Any]] = {
    "zeroshot": {},
    "coop": {"context": 16, "words": None, "position": "end", "class_specific": False},
    "kgcoop": {"words": "a photo of a", "weight": 8.0},
    "prograd": {"context": 16, "words": None, "weight": 1.0},
    "maple": {"context": 2, "words": "a photo of a", "depth": 9},
    "promptsrc": {
        "context": 4,
        "words": "a photo of a",
        "depth": 9,
        "weight": 1.0,
        "text_weight": 25.0,
        "image_weight": 10.0,
        "averaging": None,
    },
    "hicropl": {"context": 16, "depth": 12, "switch": None, "weight": 12.0, "form": "as-described"},
}
AVERAGING = (0.9, 0.1)  # PromptSRC's (45, 5) of 50 epochs, as shares of the epochs


@dataclass(frozen=True)
class Official:
    """Where a learner was published and how its 16-shot runs were trained; ``note``: what TrainingConfig can't say."""

    paper: str
    repository: str
    commit: str
    training: TrainingConfig | None
    note: str


def _sgd(rate: float, batch: int, epochs: int) -> TrainingConfig:
    return TrainingConfig(learning_rate=rate, batch_size=batch, epochs=epochs, drop_last=True)


OFFICIAL: dict[LearnerName, Official] = {
    "zeroshot": Official("arXiv:2103.00020", "openai/CLIP", "", None, "nothing is trained"),
    "coop": Official(
        "arXiv:2109.01134",
        "KaiyangZhou/CoOp",
        "ff61507",
        _sgd(0.002, 32, 200),
        "16 random context tokens, the class name at the end",
    ),
    "kgcoop": Official(
        "arXiv:2303.13283",
        "htyao89/KgCoOp",
        "c43ccc3",
        _sgd(0.002, 128, 100),
        "with fewer images than a batch the whole train set is one batch",
    ),
    "prograd": Official(
        "arXiv:2205.14865",
        "BeierZhu/Prompt-align",
        "1b76203",
        _sgd(0.002, 32, 200),
        "published for RN50; lambda 0.8 for three specialised data sets, 1 for the others",
    ),
    "maple": Official(
        "arXiv:2210.03117",
        "muzairkhattak/multimodal-prompt-learning",
        "69bce21",
        _sgd(0.0035, 4, 5),
        "the base-to-new setting; none was published for few-shot runs",
    ),
    "promptsrc": Official(
        "arXiv:2307.06948",
        "muzairkhattak/PromptSRC",
        "bb95c77",
        _sgd(0.0025, 4, 50),
        "the few-shot setting, averaging (45, 5) as for specialised data sets; the teacher reads 60 templates",
    ),
    "hicropl": Official(
        "arXiv:2507.14976",
        "zzeoZheng/HiCroPL",
        "2c2b2f2",
        TrainingConfig(
            optimiser="adam", learning_rate=0.0025, adam_epsilon=1e-3, batch_size=32, epochs=50, drop_last=True
        ),
        "descriptions of the classes come from a language model",
    ),
}


def setting(config: LearnerConfig, name: str) -> Any:
    """The setting ``name``, or its published value where the configuration leaves it open."""
    value = getattr(config, name)
    return DEFAULTS[config.name][name] if value is None else value


def check(config: LearnerConfig) -> None:
    """BaselineError for a setting that the learner does not have."""
    own = DEFAULTS[config.name]
    for name, field in LearnerConfig.model_fields.items():
        if name != "name" and name not in own and getattr(config, name) != field.default:
            has = f"it has {', '.join(own)}" if own else "it has no settings"
            raise BaselineError(f"learner {config.name}: {name} is set, but {has}; take {name} out")


def switch_of(config: LearnerConfig) -> int:
    """HiCroPL: the first layer whose text prompts are mapped from image prompts; half of the depth if left open."""
    depth: int = setting(config, "depth")
    switch: int | None = setting(config, "switch")
    return depth // 2 if switch is None else switch


def words(config: LearnerConfig) -> str:
    """What the learner is and how it starts, for the recipe."""
    check(config)
    value = {name: setting(config, name) for name in DEFAULTS[config.name]}
    phrase = value.get("words")
    if config.name == "zeroshot":
        return "zero-shot: the frozen backbone with the templates; nothing is trained"
    if config.name == "coop":
        whose = "of each class's own" if value["class_specific"] else "shared by all classes"
        start = f'started as "{phrase}"' if phrase else f"{value['context']} tokens started from N(0, 0.02^2)"
        return f"CoOp: a learned context {whose}, {start}, class name at the {value['position']}"
    if config.name == "kgcoop":
        return (
            f'KgCoOp: a learned context shared by all classes, started as "{phrase}", class name at the end; '
            f"+ {value['weight']:g} * (1 - mean cosine to the zero-shot text features)"
        )
    if config.name == "prograd":
        start = f'the words "{phrase}"' if phrase else "the words of the first template"
        return (
            f"ProGrad: a learned context of {value['context']} tokens, zeros and then {start}, class name at the end; "
            "where the gradient of the loss opposes that of the cross-entropy against zero-shot probabilities "
            f"(temperature 1), {value['weight']:g} times its part along the latter is taken out"
        )
    start = f'text prompts of the first layer started as the first tokens of "{phrase}" (random if there are more)'
    if config.name == "maple":
        return (
            f"MaPLe: {value['context']} text prompts in each of {value['depth']} layers, {start}, the others from "
            "N(0, 0.02^2); image prompts are linear maps of the text prompts, one map a layer"
        )
    if config.name == "promptsrc":
        mean, spread = value["averaging"] or (None, None)
        when = "mean 0.9 and deviation 0.1 of the epochs" if mean is None else f"mean {mean:g} and deviation {spread:g}"
        return (
            f"PromptSRC: {value['context']} text and image prompts in each of {value['depth']} layers, {start}, the "
            f"others from N(0, 0.02^2); + {value['text_weight']:g} * mean |text feature - teacher's| + "
            f"{value['image_weight']:g} * mean |image feature - teacher's| + {value['weight']:g} * "
            f"KL(teacher || model) / (B K); prompts averaged over epochs with Gaussian weights, {when}"
        )
    written = ", written into the prompts at every forward pass, the maps untrained"
    if value["form"] == "as-described":
        written = ""
    return (
        f"HiCroPL, {value['form']}: {value['context']} text and image prompts in each of {value['depth']} layers from "
        f"N(0, 0.02^2); image prompts of the first {switch_of(config)} layers are mapped from text proxies, text "
        f"prompts of the others from image proxies{written}; frozen features are added to both; + {value['weight']:g} "
        "* (1 - mean cosine to the frozen text features + 1 - mean cosine to the frozen image features)"
    )
