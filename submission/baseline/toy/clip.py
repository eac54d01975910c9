"""A CLIP of a few million parameters for the test bed: built, saved and loaded like the real ones."""

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg
from pydantic import Field, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load as read_tensors
from safetensors.torch import save as tensor_bytes

from protocol.types import Record, Sha256, Text
from submission.baseline.backbones.base import Pixels
from submission.baseline.errors import BaselineError
from submission.baseline.toy.images import NOTICE
from submission.files import write_atomic

CONFIG, WEIGHTS = "config.json", "weights.safetensors"
MEAN, STD = (0.38, 0.22, 0.10), (0.28, 0.17, 0.09)  # rounded from pictures of the generator
MEND = "make it anew with mvc baseline toy"


class Size(Record):
    """Both towers: ``pixels`` a side in patches of ``patch``, widths, blocks and heads; CLIP's vocabulary.

    Heads are of at least 16 channels. ``vocabulary`` and ``room`` are those of CLIP's byte-pair tokenizer.
    """

    pixels: Annotated[int, Field(ge=16, le=512)] = 64
    patch: Annotated[int, Field(ge=2, le=64)] = 8
    vision_width: Annotated[int, Field(ge=16, le=1024)] = 128
    vision_layers: Annotated[int, Field(ge=1, le=24)] = 4
    vision_heads: Annotated[int, Field(ge=1, le=16)] = 4
    text_width: Annotated[int, Field(ge=16, le=1024)] = 64
    text_layers: Annotated[int, Field(ge=1, le=24)] = 4
    text_heads: Annotated[int, Field(ge=1, le=16)] = 4
    embed: Annotated[int, Field(ge=8, le=1024)] = 64
    room: Literal[77] = 77
    vocabulary: Literal[49408] = 49408


SIZES = {"full": Size(vision_width=96), "quick": Size(patch=16, vision_width=96)}


class PixelConfig(Record):
    """What the image tower wants, as :class:`Pixels`."""

    size: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]


class ToyConfig(Record):
    """``config.json`` beside the weights; ``trained`` says how, ``threads`` on how many of torch's threads."""

    notice: Text = NOTICE
    format: Literal["mvc-toy-clip-1"] = "mvc-toy-clip-1"
    architecture: Size
    pixels: PixelConfig
    trained: Text
    settings: dict[str, int | float | str] = Field(default_factory=dict)
    parameters: int
    weights_sha256: Sha256


@dataclass(frozen=True)
class Meta:
    """How the weights came about, for ``config.json``."""

    trained: str
    settings: dict[str, int | float | str]


def build(size: Size) -> CLIP:
    """A model of this size with random weights from torch's global stream (quick GELU, as OpenAI's)."""
    vision = CLIPVisionCfg(
        layers=size.vision_layers,
        width=size.vision_width,
        head_width=size.vision_width // size.vision_heads,
        patch_size=size.patch,
        image_size=size.pixels,
    )
    text = CLIPTextCfg(
        context_length=size.room,
        vocab_size=size.vocabulary,
        width=size.text_width,
        heads=size.text_heads,
        layers=size.text_layers,
    )
    return CLIP(size.embed, vision, text, quick_gelu=True)


def pixels_of(size: Size) -> Pixels:
    """What the image tower of a model of this size wants."""
    return Pixels(size.pixels, MEAN, STD)


def save(model: CLIP, size: Size, folder: Path, meta: Meta) -> ToyConfig:
    """Write ``weights.safetensors``, then ``config.json`` with its digest, into ``folder``, made where missing."""
    folder.mkdir(parents=True, exist_ok=True)
    raw = tensor_bytes({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, {"notice": NOTICE})
    pixels = pixels_of(size)
    config = ToyConfig(
        architecture=size,
        pixels=PixelConfig(size=pixels.size, mean=pixels.mean, std=pixels.std),
        trained=meta.trained,
        settings=meta.settings,
        parameters=sum(p.numel() for p in model.parameters()),
        weights_sha256=hashlib.sha256(raw).hexdigest(),
    )
    write_atomic(folder / WEIGHTS, raw)
    write_atomic(folder / CONFIG, (config.model_dump_json(indent=2) + "\n").encode())
    return config


def read_config(folder: Path) -> ToyConfig:
    """What ``config.json`` in ``folder`` says. BaselineError where it is missing or says something else."""
    path = folder / CONFIG
    try:
        return ToyConfig.model_validate_json(path.read_bytes())
    except OSError as error:
        raise BaselineError(
            f"{path} can't be read ({error.strerror}); wanted the folder clip of a toy world: {MEND}"
        ) from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise BaselineError(f"{path}: {where}: {first['msg']}; the file is not as it was written: {MEND}") from None


def pixels(folder: Path) -> Pixels:
    """What the image tower of the model in ``folder`` wants; errors as :func:`read_config`."""
    said = read_config(folder).pixels
    return Pixels(said.size, said.mean, said.std)


def load(folder: Path) -> CLIP:
    """The model in ``folder``, in eval(). BaselineError where files are missing, altered or do not fit each other."""
    config, path = read_config(folder), folder / WEIGHTS
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise BaselineError(f"{path} can't be read ({error.strerror}); {MEND}") from None
    seen = hashlib.sha256(raw).hexdigest()
    if seen != config.weights_sha256:
        raise BaselineError(
            f"{path} has SHA-256 {seen[:12]}..., {CONFIG} wants {config.weights_sha256[:12]}...: one of them was "
            f"changed; {MEND}"
        )
    return restored(read_tensors_of(raw, path), config.architecture, path)


def restored(tensors: dict[str, torch.Tensor], size: Size, path: Path) -> CLIP:
    """A model of ``size`` that holds ``tensors``, in eval(); BaselineError where their names or shapes are others."""
    model = built_aside(size, 0)
    try:
        model.load_state_dict(tensors, strict=True)
    except RuntimeError:
        raise BaselineError(f"{path} holds the weights of another architecture than {CONFIG} says; {MEND}") from None
    model.eval()
    return model


def read_tensors_of(raw: bytes, path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a safetensors file; BaselineError where it is none."""
    try:
        tensors: dict[str, torch.Tensor] = read_tensors(raw)
    except SafetensorError as error:
        raise BaselineError(f"{path} is no safetensors file ({str(error)[:120]}); {MEND}") from None
    return tensors


def built_aside(size: Size, seed: int) -> CLIP:
    """:func:`build` from a seed of its own; torch's global stream is left where it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build(size)


def text_features(model: Any, ids: torch.Tensor) -> torch.Tensor:
    """Features (N, embed) of token ids (N, L), not normalised; L may end after the longest text: the mask is causal."""
    length = ids.shape[1]
    x = model.token_embedding(ids) + model.positional_embedding[:length]
    x = model.ln_final(model.transformer(x, attn_mask=model.attn_mask[:length, :length]))
    ends = ids.argmax(-1)  # the end mark has the largest id
    read: torch.Tensor = x[torch.arange(len(ids)), ends] @ model.text_projection
    return read


def clamp_scale(model: Any) -> None:
    """Keep exp(logit_scale) within 1 and 100, as CLIP's training does."""
    with torch.no_grad():
        model.logit_scale.clamp_(0, math.log(100))
