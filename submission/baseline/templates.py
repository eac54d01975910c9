"""Zero-shot templates, ``{}`` where the class name stands.

Sources: CoOp's templates a data set and the seven of its ensemble; PromptSRC's teacher (60 of OpenAI's 80 for
ImageNet); CalibPrompt's medical templates; MVC-Bench, appendix E (the seven hard prompts).
"""

GENERAL = "a photo of a {}."

# CoOp, by data set; every other one has GENERAL.
COOP = {
    "oxford-pets": "a photo of a {}, a type of pet.",
    "flowers-102": "a photo of a {}, a type of flower.",
    "fgvc-aircraft": "a photo of a {}, a type of aircraft.",
    "food-101": "a photo of {}, a type of food.",
    "dtd": "{} texture.",
    "eurosat": "a centered satellite photo of {}.",
    "ucf-101": "a photo of a person doing {}.",
}

# CalibPrompt, by data set, without a stop where it has none; every other one has MEDICAL_GENERAL.
MEDICAL = {
    "kather": "An H&E image of {}.",
    "pannuke": "An H&E image patch of {} skin tissue.",
    "digestpath": "An H&E image patch of {} tissue.",
    "covid": "A chest X-ray image of {} patient",
    "rsna18": "A chest X-ray image of {} patient",
}
MEDICAL_GENERAL = "An image of {}."

# MVC-Bench, appendix E: P1 to P7, the phrases before the class name.
HARD = (
    "a photo of a",
    "a photo of a retina with",
    "a color fundus photograph showing diabetic retinopathy severity level as",
    "Classify diabetic retinopathy severity from this fundus photo of a",
    "You are classifying diabetic retinopathy on a fundus photo of a",
    "This picture illustrates diabetic retinopathy severity of a",
    "The DR level is",
)

# CLIP's seven, as places in OpenAI's list of 80.
_SEVEN = (73, 7, 44, 69, 35, 67, 64)


def seven() -> tuple[str, ...]:
    """The seven of CLIP's ensemble, which CoOp's zero-shot ensemble adds to a data set's own."""
    templates = _openai()
    return tuple(templates[place] for place in _SEVEN)


def sixty() -> tuple[str, ...]:
    """The 60 of PromptSRC's text teacher: the first 60 of OpenAI's 80."""
    return _openai()[:60]


def hard_template(phrase: str) -> str:
    """The zero-shot template of a phrase that stands before the class name."""
    return f"{phrase} {{}}."


def _openai() -> tuple[str, ...]:
    from open_clip.zero_shot_metadata import OPENAI_IMAGENET_TEMPLATES  # not at import: it needs torch

    return tuple(template("{}") for template in OPENAI_IMAGENET_TEMPLATES)
