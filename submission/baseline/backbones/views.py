"""Images as the towers see them: one still view, or random ones that depend on their key alone.

Colours. The first frame is read; the camera's rotation (EXIF) is applied. Grey images become three equal channels. Grey
images of more than 8 bits (16-bit PNG, 32-bit and float TIFF) are stretched from their own least to their own largest
value, since scanners fill a part of the range only. What is transparent becomes black. Palettes and CMYK become RGB.
"""

import hashlib
import math
import random
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps
from torch import Tensor

from submission.baseline.backbones.base import Pixels
from submission.baseline.config import ViewsConfig
from submission.baseline.errors import BaselineError

WIDE = ("I", "F", "I;16", "I;16L", "I;16B", "I;16N")
RATIOS = (3 / 4, 4 / 3)
TRIES = 10
# Not all that Pillow opens: some others start programs.
FORMATS = ("PNG", "JPEG", "TIFF", "BMP", "GIF", "WEBP", "PPM", "JPEG2000")
LONGEST = 100


def read_image(path: Path, name: str) -> Image.Image:
    """The image in ``path`` as 8-bit RGB. BaselineError that calls it ``name`` where it can't be decoded."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # remarks on metadata and size: the pixels decide
            Image.init()  # the formats below are all known only then
            with Image.open(path, formats=FORMATS) as image:
                image.load()
                return rgb(image)
    except BaselineError as error:
        raise BaselineError(f"{name}: {error}") from None
    except MemoryError:
        raise BaselineError(f"{name}: too large for the memory of this machine: store a smaller copy") from None
    except Exception as error:  # decoders of damaged files raise nearly anything
        raise BaselineError(
            f"{name}: can't be decoded as an image ({type(error).__name__}: {str(error)[:120]}): "
            "replace the file, or store it as PNG or JPEG"
        ) from None


def rgb(image: Image.Image) -> Image.Image:
    """``image`` upright and as 8-bit RGB (see the head of this module)."""
    image = ImageOps.exif_transpose(image)
    if image.mode in WIDE:
        return Image.fromarray(_stretched(np.asarray(image, dtype=np.float64))).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        shown = image.convert("RGBA")
        image = Image.new("RGB", shown.size)
        image.paste(shown, mask=shown.getchannel("A"))
    return image if image.mode == "RGB" else image.convert("RGB")


def _stretched(values: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Grey values over their own range, 0 to 255; a constant image is black."""
    if not np.isfinite(values).all():
        raise BaselineError("holds values that are no numbers: store whole numbers")
    low, high = float(values.min()), float(values.max())
    return np.rint((values - low) * (255 / (high - low) if high > low else 0)).astype(np.uint8)


def still(pixels: Pixels) -> Callable[[Image.Image], Tensor]:
    """CLIP's transform: shorter side to ``size`` (bicubic), centre crop, normalised; gives (3, size, size) float32."""

    def seen(image: Image.Image) -> Tensor:
        image, size = rgb(image), pixels.size
        width, height = image.size
        short, long = sorted((width, height))
        if long > LONGEST * short:
            raise BaselineError(f"{width} x {height} pixels: a side is over {LONGEST} times the other; leave it out")
        scaled = int(size * long / short)
        image = image.resize((size, scaled) if width <= height else (scaled, size), Image.Resampling.BICUBIC)
        left, top = round((image.width - size) / 2), round((image.height - size) / 2)
        return _normalised(image.crop((left, top, left + size, top + size)), pixels)

    return seen


def view(image: Image.Image, pixels: Pixels, views: ViewsConfig, key: tuple[int, ...]) -> Tensor:
    """A training view (3, size, size), float32: a crop of random area and shape, resized (bicubic), perhaps mirrored.

    The same ``key`` gives the same view, whatever was drawn before and wherever it is drawn. ``views.kind`` "single" is
    the still view. The crop has a share of the area in ``views.scale`` and sides in the ratio 3:4 to 4:3 (log-uniform);
    ten draws that do not fit give the largest crop in the middle whose ratio does.
    """
    if views.kind == "single":
        return still(pixels)(image)
    draw = random.Random(int.from_bytes(hashlib.sha256(repr(tuple(map(int, key))).encode()).digest()))
    image = rgb(image)
    left, top, width, height = _crop(*image.size, views.scale, draw)
    image = image.crop((left, top, left + width, top + height))
    image = image.resize((pixels.size, pixels.size), Image.Resampling.BICUBIC)
    if draw.random() < views.flip:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return _normalised(image, pixels)


def _crop(width: int, height: int, scale: tuple[float, float], draw: random.Random) -> tuple[int, int, int, int]:
    """Left, top, width, height of a random crop."""
    low, high = map(math.log, RATIOS)
    for _ in range(TRIES):
        area = width * height * (scale[0] + (scale[1] - scale[0]) * draw.random())
        ratio = math.exp(low + (high - low) * draw.random())
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return int(draw.random() * (width - w + 1)), int(draw.random() * (height - h + 1)), w, h
    ratio = min(max(width / height, RATIOS[0]), RATIOS[1])
    w, h = min(width, max(1, round(height * ratio))), min(height, max(1, round(width / ratio)))
    return (width - w) // 2, (height - h) // 2, w, h


def _normalised(image: Image.Image, pixels: Pixels) -> Tensor:
    """(3, height, width) float32: values in [0, 1] less the mean over the deviation of each channel."""
    values = torch.from_numpy(np.array(image, dtype=np.uint8)).permute(2, 0, 1).float() / 255
    mean, std = (torch.tensor(value)[:, None, None] for value in (pixels.mean, pixels.std))
    return ((values - mean) / std).contiguous()
