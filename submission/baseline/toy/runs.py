"""Run configurations for a toy world: one a learner, with few epochs and depths that fit its towers."""

from pathlib import Path
from typing import Any

import yaml

from submission.baseline.config import LearnerName
from submission.baseline.toy.captions import CLASSES
from submission.baseline.toy.images import NOTICE

OVERLAP = (
    "none: the toy CLIP was trained on other made-up patients of the same generator, seen by the same made-up cameras, "
    "and on captions that tell of lesions and grades"
)
TEMPLATES = ("a photo of {}.", "a fundus photograph of {}.", "an image of {}.")
# What a language model would say of each class, for the learner that wants it.
DESCRIPTIONS = (
    ("a retina with no dark dots and no bright spots.", "a retina with no dark dots."),
    ("a retina with a few dark dots and no bright spots.", "a retina with a few dark dots."),
    ("a retina with several dark dots and a few bright spots.", "a retina with several dark dots."),
    ("a retina with many dark dots and many bright spots.", "a retina with many bright spots."),
)
SGD: dict[str, Any] = {"learning_rate": 0.02, "batch_size": 8, "epochs": 30}
DEEP: dict[str, Any] = {**SGD, "epochs": 15}  # each step runs the image tower
LEARNERS: dict[LearnerName, dict[str, Any]] = {
    "zeroshot": {"learner": {}, "training": {}},
    "coop": {"learner": {"context": 4}, "training": SGD},
    "kgcoop": {"learner": {"words": "a photo of", "weight": 1.0}, "training": SGD},
    "prograd": {"learner": {"context": 4}, "training": SGD},
    "maple": {"learner": {"context": 3, "words": "a photo of", "depth": 3}, "training": DEEP},
    "promptsrc": {
        "learner": {"context": 3, "words": "a photo of", "depth": 3, "text_weight": 2.5, "image_weight": 1.0},
        "training": DEEP,
    },
    "hicropl": {
        "learner": {"context": 4, "depth": 4, "switch": 2, "weight": 1.0},
        "training": {"optimiser": "adam", "learning_rate": 0.0025, "batch_size": 16, "epochs": 15},
        "descriptions": DESCRIPTIONS,
    },
}


def config(learner: LearnerName, weights: Path) -> dict[str, Any]:
    """The configuration of ``learner`` on the toy CLIP in the folder ``weights``, a document for YAML."""
    own = LEARNERS[learner]
    document: dict[str, Any] = {
        "model": f"toy-{learner}",
        "backbone": {"name": "toy", "weights": str(weights)},
        "learner": {"name": learner, **own["learner"]},
        "training": own["training"],
        "views": {"kind": "single"},
        "classes": list(CLASSES),
        "templates": list(TEMPLATES),
        "shots": 16,
        "seeds": [1, 2, 3],
        "about": {
            "title": f"TEST BED, no medical finding: {learner} in a made-up world",
            "team": "the toy world of the mvc kit",
            "contact": "nobody@example.org",
            "pretraining_test_overlap": OVERLAP,
        },
    }
    if "descriptions" in own:
        document["descriptions"] = [list(texts) for texts in own["descriptions"]]
    return {name: value for name, value in document.items() if value != {}}


def write_configs(folder: Path, weights: Path) -> tuple[Path, ...]:
    """One YAML file a learner in ``folder``, which is made; ``weights`` is where the model will lie."""
    folder.mkdir()
    paths = []
    for learner in LEARNERS:
        path = folder / f"{learner}.yaml"
        text = yaml.safe_dump(config(learner, weights), sort_keys=False, allow_unicode=True, width=100)
        path.write_text(f"# {NOTICE}\n{text}", encoding="utf-8")
        paths.append(path)
    return tuple(paths)
