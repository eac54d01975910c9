"""BiomedCLIP: a ViT of timm and a BERT, joined by open_clip; soft prompts enter as word embeddings."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from open_clip.model import CustomTextCLIP
from open_clip.tokenizer import get_clean_fn
from torch import Tensor
from transformers import BertConfig

from submission.baseline.backbones.base import Backbone, Pixels, Tokens
from submission.baseline.backbones.clip import PIXELS, check_depth, clamped, fits, padded, words
from submission.baseline.backbones.reading import State
from submission.baseline.backbones.wordpiece import WordPiece
from submission.baseline.errors import BaselineError

CONFIG: dict[str, Any] = {
    "embed_dim": 512,
    "vision_cfg": {
        "timm_model_name": "vit_base_patch16_224",
        "timm_model_pretrained": False,
        "timm_pool": "",
        "timm_proj": "linear",
        "image_size": 224,
    },
    "text_cfg": {
        "hf_proj_type": "mlp",
        "hf_pooler_type": "cls_last_hidden_state_pooler",
        "context_length": 256,
    },
}


class BertBackbone(Backbone):
    """What the two backbones with a BERT share: word pieces, word embeddings, no deep prompts.

    Its text tower is not causal: context tokens see the class name, too. ``ends`` is the position of [SEP].
    """

    pieces: WordPiece
    fixed: int | None = None

    @property
    def bert(self) -> Any:
        """The BERT model."""
        raise NotImplementedError

    def clean(self, text: str) -> str:
        """``text`` as the release tokenises it."""
        return text

    def tokenize(self, texts: Sequence[str]) -> Tokens:
        rows = self.pieces.rows([self.clean(text) for text in texts])
        fits(rows, texts, self.room, self.name)
        ids = padded(rows, self.pieces.pad, self.fixed)
        lengths = torch.tensor([len(row) for row in rows])
        mask = torch.arange(ids.shape[1]) < lengths[:, None]
        return Tokens(ids, mask, lengths - 1).to(self.device)

    def embed(self, ids: Tensor) -> Tensor:
        return words(self.bert.embeddings.word_embeddings, ids)

    def read_text(self, embedded: Tensor, tokens: Tokens, deep: Sequence[Tensor] = ()) -> Tensor:
        check_depth(deep, 0, f"{self.name}: deep prompts of the text tower")
        with self.casting():
            return self.pooled(embedded, tokens.mask.long()).float()

    def pooled(self, embedded: Tensor, mask: Tensor) -> Tensor:
        """Projected features of word embeddings (N, L, text_width); ``mask`` (N, L) int64."""
        raise NotImplementedError

    def read_images(self, images: Tensor, prompts: Sequence[Tensor] = ()) -> Tensor:
        check_depth(prompts, 0, f"{self.name}: prompts of the image tower")
        with self.casting():
            return self.seen(images).float()

    def seen(self, images: Tensor) -> Tensor:
        """Projected features of images."""
        raise NotImplementedError


class BiomedClipBackbone(BertBackbone):
    """BiomedCLIP: open_clip's ``CustomTextCLIP`` with a BERT. Texts are cut after the longest; the features stay."""

    def __init__(self, model: Any, pieces: WordPiece, name: str = "BiomedCLIP", pixels: Pixels = PIXELS) -> None:
        super().__init__()
        self.name, self.pixels, self.pieces = name, pixels, pieces
        self.model = model
        self.text_width = self.bert.config.hidden_size
        self.embed_width = model.text.output_dim
        self.room = min(CONFIG["text_cfg"]["context_length"], self.bert.config.max_position_embeddings)
        self._clean = get_clean_fn("whitespace")
        self.finish()

    @property
    def bert(self) -> Any:
        return self.model.text.transformer

    @property
    def scale(self) -> Tensor:
        return clamped(self.model.logit_scale)

    def clean(self, text: str) -> str:
        return str(self._clean(text))

    def pooled(self, embedded: Tensor, mask: Tensor) -> Tensor:
        out = self.bert(inputs_embeds=embedded, attention_mask=mask)
        read: Tensor = self.model.text.proj(self.model.text.pooler(out, mask))
        return read

    def seen(self, images: Tensor) -> Tensor:
        read: Tensor = self.model.encode_image(images)
        return read


def bert_config(state: State, prefix: str, said: Mapping[str, Any], name: str) -> BertConfig:
    """The configuration of the BERT whose tensors are in ``state`` under ``prefix``.

    Sizes are those of the tensors. ``said``: its own configuration file, if there is one (number of heads, activation);
    without it BERT's usual ones: 64 channels a head. BaselineError where the tensors are not there.
    """
    keys = {
        "words": "embeddings.word_embeddings.weight",
        "positions": "embeddings.position_embeddings.weight",
        "types": "embeddings.token_type_embeddings.weight",
        "inner": "encoder.layer.0.intermediate.dense.weight",
    }
    missing = [prefix + key for key in keys.values() if prefix + key not in state]
    if missing:
        raise BaselineError(
            f"no BERT of {name} in the weights: {missing[0]} is missing: take the released weights of {name}"
        )
    shapes = {what: state[prefix + key].shape for what, key in keys.items()}
    size, width = shapes["words"]
    blocks = {key[len(prefix) :].split(".")[2] for key in state if key.startswith(f"{prefix}encoder.layer.")}
    bert = said if said.get("model_type") == "bert" else {}
    return BertConfig(
        vocab_size=size,
        hidden_size=width,
        num_hidden_layers=len(blocks),
        num_attention_heads=int(bert.get("num_attention_heads", max(1, width // 64))),
        intermediate_size=shapes["inner"][0],
        max_position_embeddings=shapes["positions"][0],
        type_vocab_size=shapes["types"][0],
        hidden_act=str(bert.get("hidden_act", "gelu")),
        layer_norm_eps=float(bert.get("layer_norm_eps", 1e-12)),
    )


def build(model_config: Mapping[str, Any], bert: BertConfig) -> CustomTextCLIP:
    """The two towers with random weights; nothing is looked up on the hub."""
    vision = {**model_config["vision_cfg"], "timm_model_pretrained": False}
    said = model_config["text_cfg"]
    text: dict[str, Any] = {}
    for key, usual in CONFIG["text_cfg"].items():  # open_clip once named the two settings without hf_
        text[key] = said.get(key, said.get(key.removeprefix("hf_"), usual))
    with tempfile.TemporaryDirectory() as folder:
        bert.save_pretrained(Path(folder))
        text |= {"hf_model_name": folder, "hf_model_pretrained": False}
        return CustomTextCLIP(model_config["embed_dim"], vision, text)
