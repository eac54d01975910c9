"""Small backbones with random weights: the released architectures with little in them."""

import string
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import open_clip
import torch
from transformers import BertConfig, CLIPConfig, CLIPModel, SwinConfig

from submission.baseline.backbones.base import Pixels
from submission.baseline.backbones.clip import MEAN, STD, ClipBackbone
from submission.baseline.backbones.hf_text import BiomedClipBackbone, build
from submission.baseline.backbones.medclip import PIXELS as GREY
from submission.baseline.backbones.medclip import MedClip, MedClipBackbone
from submission.baseline.backbones.plip import to_open_clip
from submission.baseline.backbones.wordpiece import WordPiece, from_pieces

SIZE = 32
PIXELS = Pixels(SIZE, MEAN, STD)
EMBED = 24
TEXT = {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 4}
VIT = {"width": 48, "head_width": 12, "patch_size": 8, "image_size": SIZE}
RESNET = {"layers": (1, 1, 1, 1), "width": 16, "image_size": SIZE, "patch_size": None}

# One letter a piece, so that any text has tokens.
MARKS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
WORDS = ("photo", "of", "cat", "opacity", "lung", "normal")
SIGNS = string.ascii_lowercase + string.digits + string.punctuation
PIECES = {piece: row for row, piece in enumerate((*MARKS, *WORDS, *SIGNS, *(f"##{sign}" for sign in SIGNS)))}
BERT = {
    "vocab_size": len(PIECES),
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 256,
}
BIOMED = {
    "embed_dim": EMBED,
    "vision_cfg": {"timm_model_name": "test_vit", "timm_pool": "", "timm_proj": "linear", "image_size": 160},
    "text_cfg": {"hf_proj_type": "mlp", "hf_pooler_type": "cls_last_hidden_state_pooler", "context_length": 256},
}
SWIN = {"image_size": SIZE, "patch_size": 4, "embed_dim": 8, "depths": [1, 2], "num_heads": [1, 2], "window_size": 4}


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Random weights from ``seed``; the global stream is left where it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def clip(seed: int, vision: dict[str, Any], layers: int, *, quick_gelu: bool = True) -> Any:
    """An open_clip CLIP with random weights."""
    with seeded(seed):
        return open_clip.CLIP(EMBED, vision, {**TEXT, "layers": layers}, quick_gelu=quick_gelu).eval()


def tiny_vit(seed: int = 0, layers: int = 4) -> ClipBackbone:
    """Text width 32, vision width 48, embedding 24, images of 32 pixels in patches of 8."""
    return ClipBackbone(clip(seed, {**VIT, "layers": layers}, layers), "ViT-B-32", PIXELS)


def tiny_resnet(seed: int = 0) -> ClipBackbone:
    """A modified ResNet with an attention pool, embedding 24."""
    return ClipBackbone(clip(seed, RESNET, 2), "RN50", PIXELS)


def pieces() -> WordPiece:
    """A tokenizer of single letters and a few words."""
    return from_pieces(PIECES, "tiny")


def biomedclip(seed: int = 0) -> Any:
    """open_clip's model under :func:`tiny_bert`; the image tower wants 160 pixels."""
    with seeded(seed):
        return build(BIOMED, BertConfig(**BERT)).eval()


def tiny_bert(seed: int = 0) -> BiomedClipBackbone:
    """BiomedCLIP with a BERT of three blocks of 32 channels and a ViT of timm for 160 pixels; embedding 24."""
    return BiomedClipBackbone(biomedclip(seed), pieces(), pixels=Pixels(160, MEAN, STD))


def tiny_medclip(seed: int = 0) -> MedClipBackbone:
    """MedCLIP with a Swin of two stages and a BERT of three blocks; embedding 24, images of 32 pixels."""
    with seeded(seed):
        model = MedClip(SwinConfig(**SWIN), BertConfig(**BERT), EMBED)
    return MedClipBackbone(model, pieces(), pixels=Pixels(SIZE, GREY.mean, GREY.std))


def hf_clip(seed: int = 0, layers: int = 2) -> Any:
    """transformers' CLIPModel under :func:`tiny_plip`."""
    text = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 128, "num_hidden_layers": layers}
    vision = {"hidden_size": 48, "num_attention_heads": 4, "intermediate_size": 192, "num_hidden_layers": layers}
    marks = {"bos_token_id": 49406, "eos_token_id": 49407, "pad_token_id": 49407}
    with seeded(seed):
        config = CLIPConfig(
            text_config={**text, **marks, "vocab_size": 49408, "max_position_embeddings": 77},
            vision_config={**vision, "patch_size": 8, "image_size": SIZE},
            projection_dim=EMBED,
        )
        return CLIPModel(config).eval()


def tiny_plip(seed: int = 0, layers: int = 2) -> ClipBackbone:
    """PLIP, converted from :func:`hf_clip`."""
    model = clip(seed, {**VIT, "layers": layers}, layers)
    model.load_state_dict(to_open_clip(hf_clip(seed, layers).state_dict()))
    return ClipBackbone(model, "PLIP", PIXELS)
