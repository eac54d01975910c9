"""CLIP's state dict as transformers writes it, key by key into open_clip's names (PLIP is released so)."""

import re

import torch

from submission.baseline.backbones.reading import State

MARK = "text_model.embeddings.token_embedding.weight"
PLAIN = {
    "text_model.embeddings.token_embedding.weight": "token_embedding.weight",
    "text_model.embeddings.position_embedding.weight": "positional_embedding",
    "text_model.final_layer_norm.weight": "ln_final.weight",
    "text_model.final_layer_norm.bias": "ln_final.bias",
    "vision_model.embeddings.class_embedding": "visual.class_embedding",
    "vision_model.embeddings.patch_embedding.weight": "visual.conv1.weight",
    "vision_model.embeddings.position_embedding.weight": "visual.positional_embedding",
    "vision_model.pre_layrnorm.weight": "visual.ln_pre.weight",
    "vision_model.pre_layrnorm.bias": "visual.ln_pre.bias",
    "vision_model.post_layernorm.weight": "visual.ln_post.weight",
    "vision_model.post_layernorm.bias": "visual.ln_post.bias",
    "logit_scale": "logit_scale",
}
TURNED = {"text_projection.weight": "text_projection", "visual_projection.weight": "visual.proj"}
BLOCK = re.compile(r"(text|vision)_model\.encoder\.layers\.(\d+)\.(.+)\.(weight|bias)")
PARTS = {
    "self_attn.out_proj": "attn.out_proj",
    "layer_norm1": "ln_1",
    "layer_norm2": "ln_2",
    "mlp.fc1": "mlp.c_fc",
    "mlp.fc2": "mlp.c_proj",
}
JOINED = "self_attn.q_proj"


def is_hf_clip(state: State) -> bool:
    """Whether ``state`` has the names of transformers' CLIPModel."""
    return MARK in state


def to_open_clip(state: State) -> State:
    """``state`` in open_clip's names; what has no place there keeps its name, for the check that follows to name."""
    result: State = {}
    for key, value in state.items():
        block = BLOCK.fullmatch(key)
        if key in PLAIN:
            result[PLAIN[key]] = value
        elif key in TURNED:
            result[TURNED[key]] = value.T
        elif block and block[3] in PARTS:
            result[f"{_place(block)}.{PARTS[block[3]]}.{block[4]}"] = value
        elif block and block[3] == JOINED:
            rows = [state.get(key.replace("q_proj", f"{part}_proj")) for part in "qkv"]
            result[f"{_place(block)}.attn.in_proj_{block[4]}"] = torch.cat([row for row in rows if row is not None])
        elif not (block and block[3] in ("self_attn.k_proj", "self_attn.v_proj")):
            result[key] = value
    return result


def _place(block: re.Match[str]) -> str:
    """The block in open_clip's model."""
    return f"{'visual.' if block[1] == 'vision' else ''}transformer.resblocks.{block[2]}"
