"""Loading: the released architecture, filled with the weights that were found."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import open_clip
import torch

from submission.baseline.backbones import Weights, medclip
from submission.baseline.backbones.base import Backbone, Pixels
from submission.baseline.backbones.clip import PIXELS, ClipBackbone
from submission.baseline.backbones.hf_text import CONFIG, BiomedClipBackbone, bert_config, build
from submission.baseline.backbones.plip import is_hf_clip, to_open_clip
from submission.baseline.backbones.reading import State, fill, read_state
from submission.baseline.backbones.releases import RELEASES, VOCABULARY
from submission.baseline.backbones.weights import Found, find
from submission.baseline.backbones.wordpiece import WordPiece, read_json, read_pieces
from submission.baseline.config import BackboneConfig
from submission.baseline.errors import BaselineError

OPEN_CLIP = "open_clip_config.json"
# open_clip's names; without -quickgelu it would build another activation than the weights were trained with.
CLIPS = {
    "RN50": "RN50-quickgelu",
    "RN101": "RN101-quickgelu",
    "ViT-B-16": "ViT-B-16-quickgelu",
    "ViT-B-32": "ViT-B-32-quickgelu",
    "PLIP": "ViT-B-32-quickgelu",
    "QuiltNet-B-32": "ViT-B-32-quickgelu",
}
QUICK, PLAIN = "QuickGELU", "GELU"
TOY_FILES = ("config.json", "weights.safetensors")


def load_backbone(config: BackboneConfig, device: str, precision: str) -> tuple[Backbone, Weights]:
    """The backbone and its origin; see ``backbones.load``."""
    place = usable(device)
    backbone, weights = _toy(config) if config.name == "toy" else _released(config)
    backbone.precision = precision
    backbone.to(place)
    return backbone, weights


def usable(device: str) -> torch.device:
    """``device``, once it has held a number. BaselineError where it can't."""
    try:
        place = torch.device(device)
        torch.zeros(1, device=place).cpu()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        words = str(error).partition("\n")[0][:120]
        raise BaselineError(
            f"device {device!r} can't be used here ({words}): take cpu, or cuda where there is one"
        ) from None
    return place


def _released(config: BackboneConfig) -> tuple[Backbone, Weights]:
    """One of the eight."""
    release = RELEASES[config.name]
    found = find(release, config.weights)
    state = read_state(found.path, "pytorch_model.bin")
    with torch.random.fork_rng(devices=[]):  # random weights that are overwritten at once
        if config.name == "BiomedCLIP":
            backbone, remark = _biomedclip(state, found)
        elif config.name == "MedCLIP":
            backbone, remark = _medclip(state, found), ""
        else:
            backbone, remark = _clip(config.name, state, found)
    return backbone, Weights(found.source, found.sha256, release.trained_on, remark)


def _clip(name: str, state: State, found: Found) -> tuple[Backbone, str]:
    """A model of open_clip's ``CLIP``; weights in transformers' names are converted."""
    quick, remark = activation(name, found)
    wanted = open_clip.get_model_config(CLIPS[name])
    model = open_clip.CLIP(wanted["embed_dim"], wanted["vision_cfg"], wanted["text_cfg"], quick_gelu=quick)
    fill(model, to_open_clip(state) if is_hf_clip(state) else state, name, found.path)
    size = wanted["vision_cfg"]["image_size"]
    return ClipBackbone(model, name, _pixels(found, Pixels(size, PIXELS.mean, PIXELS.std))), remark


def activation(name: str, found: Found) -> tuple[bool, str]:
    """Whether QuickGELU is the activation, and the words that say why where files may say otherwise.

    PLIP and QuiltNet-B-32 were tuned from OpenAI's CLIP, whose activation it is; a configuration that names one is
    followed, and one that is silent is not taken for open_clip's default, since the weights came from CLIP.
    """
    if name == "QuiltNet-B-32":
        model = _model_config(found)
        said = model.get("quick_gelu")
    elif name == "PLIP":
        whole = read_json(found.extras.get("config.json"))
        acts = {
            part.get("hidden_act")
            for key in ("text_config", "vision_config")
            if isinstance(part := whole.get(key), dict)
        }
        said = None if acts <= {None} else "quick_gelu" in acts
    else:
        return True, ""
    if said is None:
        return (
            True,
            f"{QUICK}, as in the CLIP that {name} was tuned from: no configuration beside the weights names one",
        )
    return bool(said), f"{QUICK if said else PLAIN}, as the configuration beside the weights says"


def _model_config(found: Found) -> Mapping[str, Any]:
    """What open_clip's configuration file beside the weights says of the model; empty where there is none."""
    whole = read_json(found.extras.get(OPEN_CLIP))
    model = whole.get("model_cfg", whole)
    return model if isinstance(model, dict) else {}


def _pixels(found: Found, usual: Pixels) -> Pixels:
    """``usual``, with the mean and deviation that open_clip's configuration file names."""
    said = read_json(found.extras.get(OPEN_CLIP)).get("preprocess_cfg")
    said = said if isinstance(said, dict) else {}
    mean, std = said.get("mean", usual.mean), said.get("std", usual.std)
    try:
        (a, b, c), (d, e, f) = map(float, mean), map(float, std)
    except (TypeError, ValueError):
        raise BaselineError(
            f"{found.extras[OPEN_CLIP]}: preprocess_cfg: mean and std want three numbers each"
        ) from None
    if not min(d, e, f) > 0:
        raise BaselineError(f"{found.extras[OPEN_CLIP]}: preprocess_cfg: std wants numbers above 0")
    return Pixels(usual.size, (a, b, c), (d, e, f))


def _biomedclip(state: State, found: Found) -> tuple[Backbone, str]:
    """BiomedCLIP; without a configuration beside the weights the released one stands in."""
    said = _model_config(found)
    bert = bert_config(state, "text.transformer.", read_json(found.extras.get("config.json")), "BiomedCLIP")
    try:
        model = build(said or CONFIG, bert)
    except Exception as error:  # open_clip and timm name what they can't build in many ways
        where = found.extras.get(OPEN_CLIP, found.path)
        raise BaselineError(f"{where}: no such model can be built ({str(error)[:120]}): download it anew") from None
    fill(model, state, "BiomedCLIP", found.path)
    pieces = _pieces("BiomedCLIP", bert.vocab_size, found)
    size = int(model.visual.trunk.default_cfg["input_size"][-1])
    remark = "" if said else f"no {OPEN_CLIP} beside the weights: built as released"
    return BiomedClipBackbone(model, pieces, pixels=_pixels(found, Pixels(size, PIXELS.mean, PIXELS.std))), remark


def _medclip(state: State, found: Found) -> Backbone:
    """MedCLIP with its Swin transformer."""
    bert = bert_config(state, "text_model.model.", read_json(found.extras.get("config.json")), "MedCLIP")
    model = medclip.MedClip(medclip.SWIN, bert)
    fill(model, medclip.renamed(state, model), "MedCLIP", found.path, ignore=medclip.UNUSED)
    return medclip.MedClipBackbone(model, _pieces("MedCLIP", bert.vocab_size, found))


def _pieces(name: str, rows: int, found: Found) -> WordPiece:
    return read_pieces(found.extras, rows, name, found.path, VOCABULARY[name])


def _toy(config: BackboneConfig) -> tuple[Backbone, Weights]:
    """The toy CLIP in a folder that ``mvc baseline toy`` wrote."""
    from submission.baseline.toy import clip as toy

    if config.weights is None:
        raise BaselineError(
            "toy: no weights named: give --weights DIR/clip, the folder that mvc baseline toy DIR wrote"
        )
    folder = Path(config.weights).expanduser()
    model = toy.load(folder)
    found = Found(folder / TOY_FILES[1], {TOY_FILES[0]: folder / TOY_FILES[0]}, f"folder {folder.absolute().name}")
    weights = Weights(found.source, found.sha256, "made-up pictures and captions of the toy generator")
    return ClipBackbone(model, "toy", toy.pixels(folder)), weights
