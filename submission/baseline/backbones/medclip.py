"""MedCLIP: a Swin transformer and Bio_ClinicalBERT, rebuilt from transformers' modules.

Source: MedCLIP (Wang et al., EMNLP 2022) and its code: image features are the projected mean of the Swin's last stage;
text features the projected mean, over layers 1, 2 and the last and over all positions, of BERT's hidden states. Padding
enters that mean, so every text is padded to the same 25 positions; a longer one is refused, since the end of a class
name would be cut off. Images are read as grey, with the mean and deviation that the release was trained with; resizing
and cropping are CLIP's (the release pads to a square).
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel, SwinConfig, SwinModel

from submission.baseline.backbones.base import Pixels
from submission.baseline.backbones.clip import clamped
from submission.baseline.backbones.hf_text import BertBackbone
from submission.baseline.backbones.reading import State
from submission.baseline.backbones.wordpiece import WordPiece

MEAN, STD = 0.5862785803043838, 0.27950088968644304
PIXELS = Pixels(224, (MEAN, MEAN, MEAN), (STD, STD, STD))
LENGTH = 25
GREY = (0.299, 0.587, 0.114)  # luma of ITU-R 601, as image libraries turn RGB into grey
UNUSED = ("text_model.model.pooler.",)
SWIN = SwinConfig()  # its defaults are swin-tiny-patch4-window7-224
# Names within a Swin block, as transformers 4 (and so the release) and 5 write them.
RENAMED = (
    (".attention.self.query.", ".attention.q_proj."),
    (".attention.self.key.", ".attention.k_proj."),
    (".attention.self.value.", ".attention.v_proj."),
    (
        ".attention.self.relative_position_bias_table",
        ".attention.relative_position_bias.relative_position_bias_table",
    ),
    (".attention.output.dense.", ".attention.o_proj."),
    (".intermediate.dense.", ".mlp.fc1."),
    (".output.dense.", ".mlp.fc2."),
)


class Tower(nn.Module):
    """A model of transformers and its projection."""

    def __init__(self, model: Any, width: int, embed: int) -> None:
        super().__init__()
        self.model = model
        self.projection_head = nn.Linear(width, embed, bias=False)


class MedClip(nn.Module):
    """Both towers and the scale, named as in the released state dict."""

    def __init__(self, swin: SwinConfig, bert: BertConfig, embed: int = 512) -> None:
        super().__init__()
        self.vision_model = Tower(SwinModel(swin), swin.hidden_size, embed)
        self.text_model = Tower(BertModel(bert, add_pooling_layer=False), bert.hidden_size, embed)
        self.logit_scale = nn.Parameter(torch.tensor(1 / 0.07).log())


class MedClipBackbone(BertBackbone):
    """MedCLIP (see the head of this module)."""

    fixed = LENGTH
    grey: Tensor

    def __init__(self, model: MedClip, pieces: WordPiece, name: str = "MedCLIP", pixels: Pixels = PIXELS) -> None:
        super().__init__()
        self.name, self.pixels, self.pieces = name, pixels, pieces
        self.model = model
        self.text_width = self.bert.config.hidden_size
        self.embed_width = model.text_model.projection_head.out_features
        self.room = LENGTH
        self.register_buffer("grey", torch.tensor(GREY).reshape(1, 3, 1, 1), persistent=False)
        self.finish()

    @property
    def bert(self) -> Any:
        return self.model.text_model.model

    @property
    def scale(self) -> Tensor:
        return clamped(self.model.logit_scale)

    def pooled(self, embedded: Tensor, mask: Tensor) -> Tensor:
        states = self.bert(inputs_embeds=embedded, attention_mask=mask, output_hidden_states=True).hidden_states
        mean = torch.stack([states[1], states[2], states[-1]]).mean(0).mean(1)
        read: Tensor = self.model.text_model.projection_head(mean)
        return read

    def seen(self, images: Tensor) -> Tensor:
        # One mean and deviation serve all channels: grey commutes with the normalisation.
        grey = (images * self.grey).sum(1, keepdim=True).expand(-1, 3, -1, -1)
        read: Tensor = self.model.vision_model.projection_head(self.model.vision_model.model(grey).pooler_output)
        return read


def renamed(state: State, model: nn.Module) -> State:
    """``state`` with the names of Swin's parts that the installed transformers uses."""
    own = model.state_dict()
    result = {}
    for key, value in state.items():
        name = key
        if key not in own and key.startswith("vision_model."):
            for old, new in RENAMED:
                name = name.replace(old, new)
        result[name] = value
    return result
