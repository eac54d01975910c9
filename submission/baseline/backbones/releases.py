"""The released backbones: architecture, where their weights are, and what they were trained on, as their papers say."""

from submission.baseline.backbones.weights import Release

_TEXT = "text: causal transformer of 12 blocks of 512 channels, 77 positions"
_RESNET = "modified ResNet-{} with attention pooling, images of 224 pixels; " + _TEXT + ", QuickGELU; embedding of {}"
_VIT = (
    "ViT-B/{0} (12 blocks of 768 channels, patches of {0} pixels), images of 224 pixels; "
    + _TEXT
    + "; embedding of 512"
)

ARCHITECTURES: dict[str, str] = {
    "RN50": "CLIP RN50: " + _RESNET.format(50, "1,024"),
    "RN101": "CLIP RN101: " + _RESNET.format(101, "512"),
    "ViT-B-16": "CLIP ViT-B/16: " + _VIT.format(16) + ", QuickGELU",
    "ViT-B-32": "CLIP ViT-B/32: " + _VIT.format(32) + ", QuickGELU",
    "PLIP": "PLIP: " + _VIT.format(32) + ", converted key by key from transformers' CLIP",
    "QuiltNet-B-32": "QuiltNet-B-32: " + _VIT.format(32),
    "BiomedCLIP": (
        "BiomedCLIP: ViT-B/16 of timm (12 blocks of 768 channels), images of 224 pixels; text: PubMedBERT (12 blocks "
        "of 768 channels, 256 positions, [CLS] of the last layer, two-layer projection); embedding of 512"
    ),
    "MedCLIP": (
        "MedCLIP: Swin-T (patches of 4, windows of 7), images of 224 pixels, resized and cropped as CLIP's, then grey "
        "with the mean and deviation of the release; text: Bio_ClinicalBERT (mean of layers 1, 2 and 12 over 25 "
        "positions, padding included); embedding of 512"
    ),
    "toy": "toy CLIP: small vision and text transformers trained on made-up pictures, a test bed and no medical model",
}

_OPENAI = "https://openaipublic.azureedge.net/clip/models"
_WIT = "400 million pairs of image and text from the web, not released (Radford et al., 2021)"
_CLINICAL = "emilyalsentzer/Bio_ClinicalBERT"
_TOKENS = ("tokenizer.json", "vocab.txt", "tokenizer_config.json")


def _openai(name: str, hub: str, digest: str) -> Release:
    get = f"{name}.pt from {_OPENAI}/{digest}/{name}.pt, or open_clip_model.safetensors of {hub} on huggingface.co,"
    return Release(name, hub, get, _WIT)


RELEASES: dict[str, Release] = {
    release.name: release
    for release in (
        _openai(
            "RN50", "timm/resnet50_clip.openai", "afeb0e10f9e5a86da6080e35cf09123aca3b358a0c3e3b6c78a7b63bc04b6762"
        ),
        _openai(
            "RN101", "timm/resnet101_clip.openai", "8fa8567bab74a42d41c5915025a8e4538c3bdbe8804a470a72f30b0d94fab599"
        ),
        _openai(
            "ViT-B-32",
            "timm/vit_base_patch32_clip_224.openai",
            "40d365715913c9da98579312b702a82c18be219cc2a73407c4526f58eba950af",
        ),
        _openai(
            "ViT-B-16",
            "timm/vit_base_patch16_clip_224.openai",
            "5806e77cd80f8b59890b7e101eabd078d9fb84e6937f9e85e4ecb61988df416f",
        ),
        Release(
            "PLIP",
            "vinid/plip",
            "config.json and pytorch_model.bin (or model.safetensors) of vinid/plip on huggingface.co",
            "OpenPath, 208,414 pairs of pathology image and text; from OpenAI's ViT-B/32 (Huang et al., 2023)",
            ("config.json",),
        ),
        Release(
            "QuiltNet-B-32",
            "wisdomik/QuiltNet-B-32",
            "open_clip_config.json and open_clip_pytorch_model.bin of wisdomik/QuiltNet-B-32 on huggingface.co",
            "Quilt-1M, a million pairs of histology image and text; from OpenAI's ViT-B/32 (Ikezogwo et al., 2023)",
            ("open_clip_config.json",),
        ),
        Release(
            "BiomedCLIP",
            "microsoft/BiomedCLIP-PubMedBERT_256-vit_base_patch16_224",
            "open_clip_config.json, open_clip_pytorch_model.bin, tokenizer.json, tokenizer_config.json, vocab.txt of "
            "microsoft/BiomedCLIP-PubMedBERT_256-vit_base_patch16_224 on huggingface.co",
            "PMC-15M, 15 million pairs of figure and caption from PubMed Central (Zhang et al., 2023)",
            ("open_clip_config.json", "config.json", *_TOKENS),
        ),
        Release(
            "MedCLIP",
            None,
            "https://storage.googleapis.com/pytrial/medclip-vit-pretrained.zip (it holds pytorch_model.bin), and "
            f"vocab.txt of {_CLINICAL} on huggingface.co to put beside it,",
            "MIMIC-CXR and CheXpert: chest radiographs and reports, also unpaired (Wang et al., 2022)",
            ("config.json", *_TOKENS),
        ),
    )
}
# Where a vocabulary is to be had that is missing.
VOCABULARY = {"BiomedCLIP": RELEASES["BiomedCLIP"].hub or "", "MedCLIP": _CLINICAL}
