"""What becomes of images: CLIP's own transform, and views that depend on their key alone."""

import io
import random
from pathlib import Path

import numpy as np
import open_clip
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from torchvision.transforms import RandomResizedCrop

from submission.baseline.backbones.base import Pixels
from submission.baseline.backbones.clip import MEAN, STD
from submission.baseline.backbones.views import FORMATS, _crop, read_image, rgb, still, view
from submission.baseline.config import ViewsConfig
from submission.baseline.errors import BaselineError
from tests.submission.baseline.tiny import PIXELS, SIZE


def picture(width: int = 61, height: int = 47, seed: int = 0) -> Image.Image:
    values = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(values)


def saved(folder: Path, values: NDArray[np.generic], name: str = "x.png") -> Path:
    path = folder / name
    Image.fromarray(values).save(path)
    return path


@pytest.mark.parametrize("size", [(61, 47), (47, 61), (32, 32), (20, 300), (33, 32)])
def test_the_still_view_is_clips_transform(size: tuple[int, int]) -> None:
    wanted = open_clip.image_transform(SIZE, is_train=False, mean=MEAN, std=STD)(picture(*size))
    assert torch.equal(still(PIXELS)(picture(*size)), wanted)


def test_each_channel_has_its_own_mean_and_deviation() -> None:
    pixels = Pixels(8, (0.1, 0.2, 0.3), (0.5, 1.0, 2.0))
    seen = still(pixels)(Image.new("RGB", (8, 8), (255, 0, 51)))
    assert torch.allclose(seen[:, 0, 0], torch.tensor([1.8, -0.2, -0.05]))


def test_a_view_depends_on_its_key_alone() -> None:
    image, views = picture(), ViewsConfig()
    first = view(image, PIXELS, views, (1, 2, 3))
    random.seed(5)
    torch.manual_seed(5)
    view(image, PIXELS, views, (9,))
    assert torch.equal(view(image, PIXELS, views, (1, 2, 3)), first)
    others = [view(image, PIXELS, views, key) for key in ((1, 2, 4), (1, 23), (12, 3), (1, 2, 3, 0), (0, 1, 2, 3))]
    assert not any(torch.equal(first, other) for other in others)
    assert first.shape == (3, SIZE, SIZE)
    assert first.is_contiguous()


def test_a_view_is_pinned() -> None:
    """Bit for bit: a stored cache and a new run must agree."""
    draw = random.Random(1)
    assert _crop(61, 47, (0.08, 1.0), draw) == (26, 6, 27, 22)


def test_crops_are_drawn_as_torchvision_draws_them() -> None:
    draw = random.Random(0)
    own = np.array([_crop(120, 80, (0.08, 1.0), draw) for _ in range(3000)], dtype=float)
    torch.manual_seed(0)
    blank = torch.empty(1, 80, 120)
    drawn = [RandomResizedCrop.get_params(blank, [0.08, 1.0], [3 / 4, 4 / 3]) for _ in range(3000)]
    theirs = np.array([(left, top, width, height) for top, left, height, width in drawn], dtype=float)
    for column in range(4):
        spread = theirs[:, column].std() / np.sqrt(1500)
        assert abs(own[:, column].mean() - theirs[:, column].mean()) < 4 * spread
    assert (own[:, 0] + own[:, 2]).max() <= 120
    assert (own[:, 1] + own[:, 3]).max() <= 80
    assert own.min() >= 0


def test_an_image_that_no_crop_fits_gives_its_middle() -> None:
    assert _crop(400, 10, (0.9, 1.0), random.Random(0)) == (193, 0, 13, 10)
    assert _crop(10, 400, (0.9, 1.0), random.Random(0)) == (0, 193, 10, 13)
    assert _crop(1, 1, (0.08, 1.0), random.Random(0)) == (0, 0, 1, 1)


def test_flips_follow_their_probability() -> None:
    image = picture(32, 32)
    never, always = (ViewsConfig(scale=(0.999, 1.0), flip=flip) for flip in (0.0, 1.0))
    for key in range(5):
        assert torch.equal(view(image, PIXELS, never, (key,)).flip(2), view(image, PIXELS, always, (key,)))


def test_a_single_view_is_the_still_one() -> None:
    views = ViewsConfig(kind="single")
    assert torch.equal(view(picture(), PIXELS, views, (1,)), still(PIXELS)(picture()))


def test_deep_grey_images_are_stretched_over_their_own_range(tmp_path: Path) -> None:
    values = np.array([[1000, 1500], [2000, 3000]], dtype=np.uint16)
    image = read_image(saved(tmp_path, values), "x.png")
    assert image.mode == "RGB"
    assert np.asarray(image)[..., 0].tolist() == [[0, 64], [128, 255]]
    flat = read_image(saved(tmp_path, np.full((2, 2), 7, dtype=np.uint16)), "x.png")
    assert not np.asarray(flat).any()
    real = read_image(saved(tmp_path, values.astype(np.float32), "x.tiff"), "x.tiff")
    assert np.array_equal(np.asarray(real), np.asarray(image))


def test_eight_bit_grey_keeps_its_values(tmp_path: Path) -> None:
    values = np.array([[3, 90], [100, 200]], dtype=np.uint8)
    assert np.array_equal(np.asarray(read_image(saved(tmp_path, values), "x"))[..., 2], values)


def test_palettes_transparency_and_cmyk_become_rgb() -> None:
    palette = Image.new("P", (2, 1))
    palette.putpalette([255, 0, 0, 0, 0, 255])
    palette.putdata([0, 1])
    assert np.asarray(rgb(palette)).tolist() == [[[255, 0, 0], [0, 0, 255]]]
    clear = Image.new("RGBA", (2, 1), (200, 100, 50, 255))
    clear.putpixel((1, 0), (200, 100, 50, 0))
    assert np.asarray(rgb(clear)).tolist() == [[[200, 100, 50], [0, 0, 0]]]
    assert rgb(Image.new("CMYK", (1, 1), (0, 0, 0, 0))).getpixel((0, 0)) == (255, 255, 255)
    assert rgb(Image.new("1", (1, 1), 1)).getpixel((0, 0)) == (255, 255, 255)


def test_the_cameras_rotation_is_applied(tmp_path: Path) -> None:
    image, exif = picture(6, 4), Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    image.save(tmp_path / "x.png", exif=exif)
    turned = read_image(tmp_path / "x.png", "x.png")
    assert turned.size == (4, 6)
    assert np.array_equal(np.asarray(turned), np.rot90(np.asarray(image), -1))


@pytest.mark.parametrize("data", [b"", b"no image", b"\x89PNG\r\n\x1a\n" + bytes(30)])
def test_what_is_no_image_is_named(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.png").write_bytes(data)
    with pytest.raises(BaselineError, match=r"^scan 7: can't be decoded as an image .* replace the file"):
        read_image(tmp_path / "x.png", "scan 7")


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_is_read(tmp_path: Path, kind: str) -> None:
    picture().save(tmp_path / "x", kind)
    assert read_image(tmp_path / "x", "x").size == (61, 47)


def test_a_format_that_starts_programs_is_not_read(tmp_path: Path) -> None:
    picture().save(tmp_path / "x.png", "EPS")
    with pytest.raises(BaselineError, match=r"^x: can't be decoded"):
        read_image(tmp_path / "x.png", "x")


def test_a_cut_file_is_named(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    picture(200, 200).save(buffer, "PNG")
    (tmp_path / "x.png").write_bytes(buffer.getvalue()[:60_000])
    with pytest.raises(BaselineError, match=r"^scan 7: can't be decoded"):
        read_image(tmp_path / "x.png", "scan 7")
    with pytest.raises(BaselineError, match=r"^gone: can't be decoded"):
        read_image(tmp_path / "gone.png", "gone")


def test_values_that_are_no_numbers_are_named(tmp_path: Path) -> None:
    path = saved(tmp_path, np.array([[0.0, np.nan]], dtype=np.float32), "x.tiff")
    with pytest.raises(BaselineError, match=r"^scan 7: holds values that are no numbers"):
        read_image(path, "scan 7")


def test_a_strip_is_no_picture() -> None:
    with pytest.raises(BaselineError, match=r"2 x 300 pixels: a side is over 100 times the other"):
        still(PIXELS)(picture(2, 300))
