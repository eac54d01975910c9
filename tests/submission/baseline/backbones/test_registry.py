"""Loading each backbone from the layout in which it is released, at a small size."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import open_clip
import pytest
import torch
from transformers import BertConfig, SwinConfig

from submission.baseline.backbones import architecture, load, medclip, registry
from submission.baseline.backbones.base import Backbone, unit
from submission.baseline.backbones.registry import usable
from submission.baseline.config import BackboneConfig
from submission.baseline.errors import BaselineError
from submission.baseline.toy import clip as toy
from tests.submission.baseline.tiny import (
    BERT,
    BIOMED,
    EMBED,
    PIECES,
    RESNET,
    SIZE,
    SWIN,
    TEXT,
    VIT,
    biomedclip,
    clip,
    hf_clip,
    seeded,
)

TEXTS = ["a photo of a cat", "normal lung"]


@pytest.fixture(scope="module", autouse=True)
def small(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Small architectures in the place of the released ones, entered in open_clip's own list."""
    folder = tmp_path_factory.mktemp("configs")
    for name, vision in (("mvc-test-vit", {**VIT, "layers": 2}), ("mvc-test-resnet", RESNET)):
        config = {"embed_dim": EMBED, "vision_cfg": vision, "text_cfg": {**TEXT, "layers": 2}}
        (folder / f"{name}.json").write_text(json.dumps(config))
    open_clip.add_model_config(folder)
    patch = pytest.MonkeyPatch()
    for name in registry.CLIPS:
        patch.setitem(registry.CLIPS, name, "mvc-test-resnet" if name.startswith("RN") else "mvc-test-vit")
    patch.setattr(medclip, "SWIN", SwinConfig(**SWIN))
    yield
    patch.undo()


def vit(*, quick_gelu: bool = True) -> Any:
    return clip(3, {**VIT, "layers": 2}, 2, quick_gelu=quick_gelu)


def image(size: int = SIZE) -> torch.Tensor:
    return torch.rand(1, 3, size, size, generator=torch.Generator().manual_seed(0))


def loaded(name: Any, path: Path) -> Any:
    return load(BackboneConfig(name=name, weights=str(path)))


def agrees(backbone: Backbone, model: Any) -> bool:
    """The features are those of an open_clip ``model``."""
    size = backbone.pixels.size
    with torch.no_grad():
        text = unit(model.encode_text(open_clip.tokenize(TEXTS)))
        seen = unit(model.encode_image(image(size)))
    return torch.allclose(backbone.encode_text(TEXTS), text, atol=1e-5) and torch.allclose(
        backbone.encode_images(image(size)), seen, atol=1e-5
    )


def vocabulary(folder: Path) -> None:
    (folder / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    (folder / "config.json").write_text(json.dumps({"model_type": "bert", "num_attention_heads": 4}))


@pytest.mark.parametrize("name", ["RN50", "RN101", "ViT-B-16", "ViT-B-32"])
def test_openais_models_from_half_precision_state_dicts(tmp_path: Path, name: str) -> None:
    model = clip(3, RESNET, 2) if name.startswith("RN") else vit()
    with torch.no_grad():
        model.logit_scale.fill_(4.6052)
    torch.save({key: value.half() for key, value in model.state_dict().items()}, tmp_path / "w.pt")
    model.load_state_dict({key: value.half() for key, value in model.state_dict().items()})
    found = loaded(name, tmp_path / "w.pt")
    assert agrees(found.backbone, model)
    assert found.backbone.name == name
    assert found.backbone.scale.item() == 100
    assert found.weights.source == "file w.pt"
    assert found.weights.remark == ""
    assert {value.dtype for value in found.backbone.parameters()} == {torch.float32}


def test_what_is_loaded_is_frozen_and_stays_in_eval(tmp_path: Path) -> None:
    torch.save(clip(3, RESNET, 2).state_dict(), tmp_path / "w.pt")
    backbone = loaded("RN50", tmp_path / "w.pt").backbone
    before = backbone.encode_images(image())
    backbone.train()
    backbone.read_images(torch.randn(4, 3, SIZE, SIZE))
    assert torch.equal(backbone.encode_images(image()), before)
    assert not any(module.training for module in backbone.modules())
    assert not any(parameter.requires_grad for parameter in backbone.parameters())


def test_loading_leaves_the_global_stream_alone(tmp_path: Path) -> None:
    torch.save(vit().state_dict(), tmp_path / "w.pt")
    before = torch.get_rng_state()
    loaded("ViT-B-32", tmp_path / "w.pt")
    assert torch.equal(torch.get_rng_state(), before)


def test_plip_from_a_folder_of_transformers(tmp_path: Path) -> None:
    model = hf_clip()
    model.save_pretrained(tmp_path)
    found = loaded("PLIP", tmp_path)
    with torch.no_grad():
        seen = model.get_image_features(image())
    assert torch.allclose(found.backbone.encode_images(image()), unit(getattr(seen, "pooler_output", seen)), atol=1e-5)
    assert found.weights.remark == "QuickGELU, as the configuration beside the weights says"


def test_plip_from_a_state_dict_of_openais_form(tmp_path: Path) -> None:
    torch.save(vit().state_dict(), tmp_path / "plip_vit_b32.pt")
    found = loaded("PLIP", tmp_path / "plip_vit_b32.pt")
    assert agrees(found.backbone, vit())
    assert found.weights.remark.startswith("QuickGELU, as in the CLIP that PLIP was tuned from")


@pytest.mark.parametrize(
    ("config", "quick", "remark"),
    [
        ({"model_cfg": {"embed_dim": EMBED}}, True, "QuickGELU, as in the CLIP that QuiltNet-B-32 was tuned from"),
        ({"model_cfg": {"quick_gelu": True}}, True, "QuickGELU, as the configuration beside the weights says"),
        ({"model_cfg": {"quick_gelu": False}}, False, "GELU, as the configuration beside the weights says"),
        (None, True, "QuickGELU, as in the CLIP that QuiltNet-B-32 was tuned from"),
    ],
)
def test_quiltnets_activation_is_that_of_its_configuration(
    tmp_path: Path, config: dict[str, Any] | None, quick: bool, remark: str
) -> None:
    torch.save(vit().state_dict(), tmp_path / "open_clip_pytorch_model.bin")
    if config is not None:
        (tmp_path / "open_clip_config.json").write_text(json.dumps(config))
    found = loaded("QuiltNet-B-32", tmp_path)
    assert agrees(found.backbone, vit(quick_gelu=quick))
    assert not agrees(found.backbone, vit(quick_gelu=not quick))
    assert found.weights.remark.startswith(remark)


def test_the_mean_and_deviation_of_the_configuration_are_followed(tmp_path: Path) -> None:
    torch.save(vit().state_dict(), tmp_path / "open_clip_pytorch_model.bin")
    said = {"preprocess_cfg": {"mean": [0.1, 0.2, 0.3], "std": [0.4, 0.5, 0.6]}}
    (tmp_path / "open_clip_config.json").write_text(json.dumps(said))
    assert loaded("QuiltNet-B-32", tmp_path).backbone.pixels.std == (0.4, 0.5, 0.6)
    for std in ([0.4, 0.5], [0, 1, 1], "x"):
        said["preprocess_cfg"]["std"] = std  # type: ignore[assignment]
        (tmp_path / "open_clip_config.json").write_text(json.dumps(said))
        with pytest.raises(BaselineError, match=r"open_clip_config\.json: preprocess_cfg"):
            loaded("QuiltNet-B-32", tmp_path)


def old_names(config: dict[str, Any]) -> None:
    """open_clip's first names of the two settings."""
    text = config["model_cfg"]["text_cfg"]
    text["proj"], text["pooler_type"] = text.pop("hf_proj_type"), text.pop("hf_pooler_type")


@pytest.mark.parametrize("change", [lambda config: None, old_names])
def test_biomedclip_from_a_folder_of_open_clip(tmp_path: Path, change: Callable[[Any], None]) -> None:
    model = biomedclip(5)
    rows = torch.arange(256)[None]
    state = {**model.state_dict(), "text.transformer.embeddings.position_ids": rows}
    torch.save(state, tmp_path / "open_clip_pytorch_model.bin")
    config = json.loads(json.dumps({"model_cfg": BIOMED}))
    config["model_cfg"]["text_cfg"]["hf_model_name"] = "microsoft/not-asked-for"
    change(config)
    (tmp_path / "open_clip_config.json").write_text(json.dumps(config))
    vocabulary(tmp_path)
    found = loaded("BiomedCLIP", tmp_path)
    ids = found.backbone.tokenize(TEXTS).ids
    with torch.no_grad():
        assert torch.allclose(found.backbone.encode_text(TEXTS), unit(model.encode_text(ids)), atol=1e-5)
        assert torch.allclose(found.backbone.encode_images(image(160)), unit(model.encode_image(image(160))), atol=1e-5)
    assert found.backbone.pixels.size == 160


def released(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """A state dict of MedCLIP with the names of transformers 4, as it was saved."""
    back = [(new, old) for old, new in medclip.RENAMED]
    result = {}
    for key, value in state.items():
        name = key
        for new, old in back if key.startswith("vision_model.") else ():
            name = name.replace(new, old)
        result[name] = value
    return result


@pytest.mark.parametrize("positions", [False, True])
@pytest.mark.parametrize("zipped", [False, True])
def test_medclip_from_its_folder_or_its_zip(tmp_path: Path, positions: bool, zipped: bool) -> None:
    import zipfile

    with seeded(6):
        model = medclip.MedClip(SwinConfig(**SWIN), BertConfig(**BERT)).eval()
    state = released(model.state_dict())
    state["text_model.model.pooler.dense.weight"] = torch.zeros(32, 32)
    state["vision_model.model.encoder.layers.0.blocks.0.attention.self.relative_position_index"] = torch.zeros(16, 16)
    if positions:
        state["text_model.model.embeddings.position_ids"] = torch.arange(256)[None]
    torch.save(state, tmp_path / "pytorch_model.bin")
    vocabulary(tmp_path)
    path = tmp_path
    if zipped:
        path = tmp_path / "medclip-vit-pretrained.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.write(tmp_path / "pytorch_model.bin", "pytorch_model.bin")
    found = loaded("MedCLIP", path)
    with torch.no_grad():
        grey = image()[:, :1].expand(-1, 3, -1, -1)
        wanted = model.vision_model.projection_head(model.vision_model.model(grey).pooler_output)
    assert torch.allclose(found.backbone.encode_images(grey), unit(wanted), atol=1e-5)
    assert found.backbone.encode_text(TEXTS).shape == (2, 512)
    assert found.backbone.scale.item() == pytest.approx(1 / 0.07, rel=1e-5)


def test_the_names_of_transformers_4_are_those_of_the_release() -> None:
    block = "vision_model.model.encoder.layers.0.blocks.0."
    names = ("attention.self.query.bias", "attention.output.dense.bias", "intermediate.dense.bias", "output.dense.bias")
    table = "attention.self.relative_position_bias_table"
    model = medclip.MedClip(SwinConfig(**SWIN), BertConfig(**BERT))
    state = {block + name: torch.zeros(1) for name in (*names, table)}
    assert set(medclip.renamed(state, model)) <= set(model.state_dict())


def test_a_missing_or_foreign_vocabulary(tmp_path: Path) -> None:
    torch.save(biomedclip(5).state_dict(), tmp_path / "open_clip_pytorch_model.bin")
    (tmp_path / "open_clip_config.json").write_text(json.dumps({"model_cfg": BIOMED}))
    with pytest.raises(
        BaselineError, match=r"BiomedCLIP: no vocab\.txt and no tokenizer\.json beside .* put vocab\.txt of"
    ):
        loaded("BiomedCLIP", tmp_path)
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n")
    with pytest.raises(BaselineError, match=rf"has 5 word pieces, the weights of BiomedCLIP are for {len(PIECES)}"):
        loaded("BiomedCLIP", tmp_path)
    (tmp_path / "vocab.txt").write_text("a\nb\n")
    with pytest.raises(BaselineError, match=r"no \[PAD\] among its word pieces"):
        loaded("BiomedCLIP", tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(BaselineError, match=r"tokenizer\.json is no vocabulary"):
        loaded("BiomedCLIP", tmp_path)


def test_a_vocabulary_keeps_capitals_where_it_says_so(tmp_path: Path) -> None:
    torch.save(biomedclip(5).state_dict(), tmp_path / "open_clip_pytorch_model.bin")
    (tmp_path / "open_clip_config.json").write_text(json.dumps({"model_cfg": BIOMED}))
    vocabulary(tmp_path)
    low = loaded("BiomedCLIP", tmp_path).backbone
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    kept = loaded("BiomedCLIP", tmp_path).backbone
    assert low.tokenize(["CAT"]).ids.tolist() == low.tokenize(["cat"]).ids.tolist()
    assert kept.tokenize(["CAT"]).ids.tolist() == [[2, 1, 3]]


def test_configurations_that_are_damaged(tmp_path: Path) -> None:
    torch.save(biomedclip(5).state_dict(), tmp_path / "open_clip_pytorch_model.bin")
    vocabulary(tmp_path)
    for text, words in (
        ("{", "can't be read as JSON"),
        ("[]", "is no JSON object"),
        ('{"model_cfg": {"embed_dim": 3}}', "no such model can be built"),
        (
            json.dumps({"model_cfg": {**BIOMED, "vision_cfg": {"timm_model_name": "no_such"}}}),
            "no such model can be built",
        ),
    ):
        (tmp_path / "open_clip_config.json").write_text(text)
        with pytest.raises(BaselineError, match=words):
            loaded("BiomedCLIP", tmp_path)


@pytest.mark.parametrize("name", ["RN50", "ViT-B-32", "PLIP", "QuiltNet-B-32", "BiomedCLIP", "MedCLIP"])
def test_the_weights_of_another_backbone_are_refused(tmp_path: Path, name: str) -> None:
    other = vit() if name == "RN50" else clip(3, RESNET, 2)
    torch.save(other.state_dict(), tmp_path / "w.pt")
    with pytest.raises(BaselineError, match=rf"{name}.*(missing: |is missing).*[Tt]ake the released weights of {name}"):
        loaded(name, tmp_path / "w.pt")


def test_the_toy_is_loaded_from_its_folder(tmp_path: Path) -> None:
    size = toy.SIZES["quick"]
    model = toy.built_aside(size, 0)
    toy.save(model, size, tmp_path, toy.Meta("not at all", {}))
    found = loaded("toy", tmp_path)
    assert agrees(found.backbone, model)
    assert found.backbone.pixels == toy.pixels_of(size)
    with pytest.raises(BaselineError, match="toy: no weights named"):
        load(BackboneConfig(name="toy"))
    with pytest.raises(BaselineError, match="can't be read"):
        loaded("toy", tmp_path / "gone")


def test_precision_and_device_are_set(tmp_path: Path) -> None:
    torch.save(vit().state_dict(), tmp_path / "w.pt")
    config = BackboneConfig(name="ViT-B-32", weights=str(tmp_path / "w.pt"))
    assert load(config, precision="bf16").backbone.precision == "bf16"
    assert usable("cpu").type == "cpu"
    for device in ("nowhere", "cuda:99", "meta"):
        with pytest.raises(BaselineError, match=rf"device '{device}' can't be used here"):
            load(config, device=device)


def test_the_architecture_is_said_in_words() -> None:
    assert architecture("RN50").startswith("CLIP RN50: modified ResNet-50")
    assert "grey" in architecture("MedCLIP")
    assert "embedding of 1,024" in architecture("RN50")
