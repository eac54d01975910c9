"""Synthetic fundus-like pictures with graded lesions: a test bed, no medical data and no model of a disease.

Every number comes from a hash of (world seed, patient, eye, purpose) and from additions, products, quotients and square
roots, which every machine rounds alike: a picture is the same bit for bit wherever and in whatever company it is drawn.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

NOTICE = (
    "TEST BED, NO MEDICAL FINDING: synthetic pictures from a seeded generator and a tiny model trained on such "
    "pictures; no number computed on them says anything about a disease, a camera, a patient or a real model."
)
GRADES = ("none", "mild", "moderate", "severe")
EYES = ("left", "right")
AGES = ("under 50", "50 to 64", "65 and over")
SEXES = ("F", "M")
CUTS = (-0.15, 0.45, 1.05)  # of the latent severity, a standard normal before age, sex and camera shift it
LABEL_NOISE = 0.03  # share of pictures whose label is one grade off
MOST_PATIENTS = 1_000_000  # a world numbers its patients below this, the pre-training set from it on
CHUNK = 256  # pictures drawn at once: the fields of so many stay in the cache

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Keys = NDArray[np.uint64]
Channels = list[Floats]  # red, green, blue, (N, size, size) each


@dataclass(frozen=True)
class Camera:
    """A site: how its pictures look and how ill its patients are.

    ``share`` of all patients; ``shift`` of the latent severity; ``tint`` multiplies red, green and blue; ``haze`` (a
    share of flat grey), ``blur`` (weight of the neighbours, below 1/3), ``vignette`` (loss of light at the rim),
    ``noise`` (standard deviation, of 1).
    """

    name: str
    share: float
    shift: float
    tint: tuple[float, float, float]
    haze: float
    blur: float
    vignette: float
    noise: float


CAMERAS = (
    Camera("camera-a", 0.34, 0.0, (1.0, 1.0, 1.0), 0.0, 0.06, 0.25, 0.015),
    Camera("camera-b", 0.24, 0.15, (0.84, 0.74, 0.62), 0.02, 0.13, 0.45, 0.015),
    Camera("camera-c", 0.18, -0.15, (1.05, 1.15, 1.50), 0.05, 0.10, 0.15, 0.020),
    Camera("camera-d", 0.24, 0.55, (0.80, 1.00, 0.75), 0.05, 0.17, 0.55, 0.025),
)
EXTERNAL = CAMERAS[-1].name


@dataclass(frozen=True)
class Subjects:
    """Eyes, a row each, all arrays (N,): numbers of ``patient``, then places in EYES, CAMERAS, AGES, SEXES and GRADES.

    ``grade`` is what is drawn, ``label`` what the metadata say; ``within`` in [0, 1] is the place inside the grade.
    ``keys`` seed everything that is drawn of the eye.
    """

    patient: Ints
    eye: Ints
    camera: Ints
    age: Ints
    sex: Ints
    grade: Ints
    label: Ints
    within: NDArray[np.float64]
    keys: Keys

    def __len__(self) -> int:
        return len(self.patient)

    def take(self, rows: NDArray[Any]) -> "Subjects":
        """Some of the rows."""
        return Subjects(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


def subjects(seed: int, patients: Sequence[int] | Ints) -> Subjects:
    """Both eyes of each of ``patients``, left before right."""
    numbers = np.asarray(patients, dtype=np.int64)
    person = _mix(_mix(np.full(len(numbers), seed, np.uint64)) + numbers.astype(np.uint64))
    draws = uniform(person, 1, 3)
    camera = np.searchsorted(np.cumsum([c.share for c in CAMERAS])[:-1], draws[:, 0], side="right")
    age = np.minimum((draws[:, 1] * 3).astype(np.int64), 2)
    sex = (draws[:, 2] < 0.5).astype(np.int64)
    shift = np.array([c.shift for c in CAMERAS])[camera] + np.array([-0.2, 0.0, 0.25])[age] + 0.1 * sex
    both = np.repeat(np.arange(len(numbers)), 2)
    eye = np.tile(np.arange(2), len(numbers))
    keys = _mix(person[both] + (eye + 1).astype(np.uint64))
    latent = 0.85 * _normal(person, 2)[both] + 0.53 * _normal(keys, 3) + shift[both]
    grade = np.searchsorted(CUTS, latent, side="right")
    lower, upper = np.array((-1.0, *CUTS))[grade], np.array((*CUTS, 2.2))[grade]
    within = np.clip((latent - lower) / (upper - lower), 0.0, 1.0)
    slip = uniform(keys, 4, 2)
    step = np.where(grade == 0, 1, np.where((grade == 3) | (slip[:, 1] < 0.5), -1, 1))
    label = grade + np.where(slip[:, 0] < LABEL_NOISE, step, 0)
    return Subjects(numbers[both], eye, camera[both], age[both], sex[both], grade, label, within, keys)


def lesions(eyes: Subjects) -> dict[str, Ints]:
    """How many of each kind of lesion an eye shows, (N,) each: dark ``dots``, larger ``blots``, bright ``spots``.

    ``drusen``, faint and pale, come with age and have nothing to do with the grade.
    """
    chance, within = uniform(eyes.keys, 5, 4), eyes.within
    ranges = {"dots": ((0, 0), (3, 6), (7, 12), (14, 22)), "blots": ((0, 0), (0, 0), (1, 3), (4, 8))}
    ranges |= {"spots": ((0, 0), (0, 1), (3, 7), (8, 16))}
    counts = {}
    for place, (kind, grades) in enumerate(ranges.items()):
        low, high = np.array(grades)[eyes.grade].T
        position = 0.7 * within + 0.3 * chance[:, place]
        counts[kind] = (low + position * (high - low) + 0.5).astype(np.int64)
    counts["dots"] = np.where((eyes.grade == 0) & (chance[:, 0] < 0.12), 1, counts["dots"])
    counts["drusen"] = (chance[:, 3] * np.array([0.9, 2.5, 5.0])[eyes.age]).astype(np.int64)
    return counts


def draw(eyes: Subjects, size: int = 64) -> NDArray[np.uint8]:
    """The pictures of ``eyes``: (N, size, size, 3), RGB."""
    out = np.empty((len(eyes), size, size, 3), np.uint8)
    for start in range(0, len(eyes), CHUNK):
        rows = np.arange(start, min(start + CHUNK, len(eyes)))
        out[rows] = _draw(eyes.take(rows), size)
    return out


def _draw(eyes: Subjects, size: int) -> NDArray[np.uint8]:
    count, keys = len(eyes), eyes.keys
    frame = uniform(keys, 10, 8).astype(np.float32)
    radius = 0.90 + 0.06 * frame[:, 0]
    centre = 0.06 * frame[:, 1:3] - 0.03
    canvas = Canvas(count, size, radius, centre)
    x, y = canvas.x, canvas.y
    side = np.where(eyes.eye == 1, 1.0, -1.0).astype(np.float32)  # the optic disc lies towards the nose
    disc = np.stack([side * (0.42 + 0.06 * frame[:, 3]), 0.08 * frame[:, 4] - 0.04], 1)
    macula = np.stack([-side * (0.12 + 0.08 * frame[:, 5]), 0.06 + 0.06 * frame[:, 6]], 1)
    r2 = x * x + y * y
    camera = {name: _of_camera(eyes, name) for name in ("haze", "blur", "vignette", "noise")}

    light = 1.0 - camera["vignette"] * r2
    dark = np.asarray(0.30 / (1.0 + 14.0 * canvas.distance2(macula)), np.float32)
    found, marks = lesions(eyes), _marks(eyes, macula)
    fields = {
        kind: canvas.field(marks[kind][0], marks[kind][1], 0.03, found[kind]) for kind in ("dots", "blots", "spots")
    }
    drusen = canvas.field(*marks["drusen"], 0.04, found["drusen"])
    bright = canvas.field(disc[:, None], np.full((count, 1), 0.17, np.float32), 0.05)
    channels: Channels = [np.asarray(share * light, np.float32) for share in (0.80, 0.40, 0.17)]
    channels = _dimmed(channels, (0.6, 1.0, 1.0), dark)
    channels = _painted(channels, (0.96, 0.78, 0.48), 1.0, bright)
    channels = _dimmed(channels, (0.35, 0.62, 0.5), _vessels(canvas, eyes, disc, side))
    channels = _painted(channels, (0.95, 0.72, 0.35), 0.35, drusen)
    channels = _painted(channels, (0.30, 0.05, 0.05), 0.9, fields["dots"])
    channels = _painted(channels, (0.30, 0.05, 0.05), 0.95, fields["blots"])
    channels = _painted(channels, (1.0, 0.93, 0.55), 0.95, fields["spots"])

    picture = np.stack(channels, -1) * _of_camera(eyes, "tint")
    haze = (camera["haze"] + np.float32(0.03) * eyes.age[:, None, None].astype(np.float32))[..., None]  # a yellow lens
    picture = picture * (1 - haze) + haze * np.array([0.55, 0.5, 0.3], np.float32)
    inside = np.clip((1.0 - r2) * (size / 8.0), 0.0, 1.0)[..., None]
    picture = _blurred(picture * inside, camera["blur"][..., None])
    grain = camera["noise"] * _grain(keys, size)
    picture = picture * (0.92 + 0.16 * frame[:, 7, None, None, None]) + grain[..., None]
    out: NDArray[np.uint8] = (np.clip(picture, 0.0, 1.0) * 255 + 0.5).astype(np.uint8)
    return out


def _painted(channels: Channels, colour: Sequence[float], strength: float, cover: Floats) -> Channels:
    """``channels`` with an opaque ``colour`` where ``cover`` times ``strength`` is 1."""
    laid = np.float32(strength) * cover
    return [np.asarray(under + (np.float32(to) - under) * laid) for under, to in zip(channels, colour, strict=True)]


def _dimmed(channels: Channels, losses: Sequence[float], cover: Floats) -> Channels:
    """``channels`` less a share of their light where there is ``cover``."""
    return [
        np.asarray(c * (np.float32(1) - np.float32(loss) * cover)) for c, loss in zip(channels, losses, strict=True)
    ]


def _of_camera(eyes: Subjects, name: str) -> Floats:
    """A value of each eye's camera, (N, 1, 1), or (N, 1, 1, 3) for the tint."""
    values = np.array([getattr(camera, name) for camera in CAMERAS], np.float32)[eyes.camera]
    return np.asarray(values[:, None, None])


class Canvas:
    """The coordinates of N pictures, (N, size, size): x to the right and y down, the rim of the fundus at radius 1."""

    def __init__(self, count: int, size: int, radius: Floats, centre: Floats) -> None:
        self.count, self.size, self.radius, self.centre = count, size, radius, centre
        line = ((np.arange(size, dtype=np.float32) + 0.5) * 2 / size - 1)[None]
        self.x = np.broadcast_to(((line - centre[:, :1]) / radius[:, None])[:, None, :], (count, size, size))
        self.y = np.broadcast_to(((line - centre[:, 1:]) / radius[:, None])[:, :, None], (count, size, size))

    def distance2(self, point: Floats) -> Floats:
        """Squared distance of every pixel from one ``point`` (N, 2) a picture."""
        dx, dy = self.x - point[:, 0, None, None], self.y - point[:, 1, None, None]
        return np.asarray(dx * dx + dy * dy, np.float32)

    def field(self, at: Floats, radius: Floats, soft: float, counts: Ints | None = None) -> Floats:
        """Cover in [0, 1] of discs at ``at`` (N, K, 2) with ``radius`` (N, K).

        Of each picture the first ``counts`` (N,), or all. Their rims fade over ``soft``; where several meet the largest
        cover counts, so their order has no effect.
        """
        furthest = float(((radius.max(1) + soft / 2) * self.radius).max()) * self.size / 2
        offsets = np.arange(-int(furthest + 0.5), int(furthest + 0.5) + 1)
        here = at * self.radius[:, None, None] + self.centre[:, None]
        pixel = ((here + 1) * (self.size / 2)).astype(np.int64)  # floor: every point lies inside the picture
        columns, rows = pixel[:, :, 0, None] + offsets, pixel[:, :, 1, None] + offsets
        step = np.float32(2 / self.size)
        dx = (columns.astype(np.float32) + np.float32(0.5)) * step - 1 - here[:, :, 0, None]
        dy = (rows.astype(np.float32) + np.float32(0.5)) * step - 1 - here[:, :, 1, None]
        dx, dy = dx / self.radius[:, None, None], dy / self.radius[:, None, None]
        distance = np.sqrt((dx * dx)[:, :, None, :] + (dy * dy)[:, :, :, None])
        cover = np.clip((radius[:, :, None, None] + soft / 2 - distance) / np.float32(soft), 0, 1)
        wanted = cover > 0
        wanted &= ((columns >= 0) & (columns < self.size))[:, :, None, :]
        wanted &= ((rows >= 0) & (rows < self.size))[:, :, :, None]
        if counts is not None:
            wanted &= (np.arange(at.shape[1]) < counts[:, None])[:, :, None, None]
        place = (np.arange(self.count)[:, None, None] * self.size + rows)[:, :, :, None] * self.size
        flat = (place + columns[:, :, None, :])[wanted]
        out = np.zeros(self.count * self.size * self.size, np.float32)
        np.maximum.at(out, flat, cover[wanted])
        return out.reshape(self.count, self.size, self.size)


def _vessels(canvas: Canvas, eyes: Subjects, disc: Floats, side: Floats) -> Floats:
    """Cover of four arcades from the optic disc, each a curve of the second degree with a branch."""
    points = 44
    u = uniform(eyes.keys, 11, 40).astype(np.float32).reshape(-1, 4, 10)
    t = np.linspace(0, 1, points, dtype=np.float32)[:, None]
    paths, widths = [], []
    for arcade in range(4):
        up, temporal = (-1.0, 1.0)[arcade % 2], arcade < 2
        v = u[:, arcade]
        away = -side if temporal else side
        bend = np.stack([disc[:, 0] + away * (0.05 + 0.25 * v[:, 0]), up * (0.50 + 0.25 * v[:, 1])], 1)
        reach = (0.55 + 0.3 * v[:, 2]) if temporal else (0.62 + 0.2 * v[:, 2])
        end = np.stack([away * reach, up * (0.30 + 0.35 * v[:, 3])], 1)
        main = _curve(disc, bend, end, t)
        start = main[:, points // 3]
        turn = np.stack([start[:, 0] + away * 0.2 * v[:, 4], start[:, 1] * (0.9 + 0.3 * v[:, 5])], 1)
        tip = np.stack([away * (0.1 + 0.6 * v[:, 6]), up * (0.55 + 0.3 * v[:, 7])], 1)
        paths += [main, _curve(start, turn, tip, t)]
        wide = (0.030 + 0.012 * v[:, 8, None]) * (1 - 0.6 * t.T)
        widths += [wide, 0.7 * wide]
    severe = (1.0 + 0.35 * (eyes.grade == 3) * eyes.within).astype(np.float32)[:, None]
    return canvas.field(np.concatenate(paths, 1), np.concatenate(widths, 1) * severe, 0.035)


def _curve(start: Floats, bend: Floats, end: Floats, t: Floats) -> Floats:
    """Points (N, len(t), 2) of the Bezier curve of the second degree."""
    first, second, third = (1 - t) * (1 - t), 2 * t * (1 - t), t * t
    out: Floats = first * start[:, None] + second * bend[:, None] + third * end[:, None]
    return out


def _marks(eyes: Subjects, macula: Floats) -> dict[str, tuple[Floats, Floats]]:
    """Places (N, K, 2) and radii (N, K) of as many marks of each kind as an eye can have."""
    made = {}
    for purpose, (kind, most, spread, small, large) in enumerate(
        (
            ("dots", 22, 0.78, 0.032, 0.046),
            ("blots", 8, 0.72, 0.065, 0.100),
            ("spots", 16, 0.55, 0.032, 0.052),
            ("drusen", 5, 0.45, 0.030, 0.050),
        )
    ):
        u = uniform(eyes.keys, 20 + purpose, 3 * most).astype(np.float32).reshape(-1, most, 3)
        a, b = 2 * u[..., 0] - 1, 2 * u[..., 1] - 1
        # the square onto the disc without angles
        at = np.stack([a * np.sqrt(1 - b * b / 2), b * np.sqrt(1 - a * a / 2)], -1) * np.float32(spread)
        if kind in ("spots", "drusen"):
            at = at + macula[:, None]
        made[kind] = at, small + (large - small) * u[..., 2]
    return made


def _blurred(picture: Floats, weight: Floats) -> Floats:
    """Three taps along rows and along columns, the middle one 1 - 2 ``weight``."""
    for axis in (1, 2):
        near = np.zeros_like(picture)
        ahead, behind = [slice(None)] * 4, [slice(None)] * 4
        ahead[axis], behind[axis] = slice(1, None), slice(None, -1)
        near[tuple(ahead)] += picture[tuple(behind)]
        near[tuple(behind)] += picture[tuple(ahead)]
        picture = picture * (1 - 2 * weight) + near * weight
    return picture


def _grain(keys: Keys, size: int) -> Floats:
    """Nearly normal noise (N, size, size) of standard deviation 1: four 16-bit numbers summed."""
    bits = _stream(keys, 30, size * size).view(np.uint16).reshape(len(keys), size, size, 4)
    total = bits[..., 0].astype(np.int32) + bits[..., 1] + bits[..., 2] + bits[..., 3] - 131070
    return total.astype(np.float32) * np.float32(1 / 37837.0)  # 65536 * sqrt(4 / 12)


def uniform(keys: Keys, purpose: int, count: int) -> NDArray[np.float64]:
    """Numbers in [0, 1), (N, count): fixed by each key and ``purpose`` alone."""
    out: NDArray[np.float64] = (_stream(keys, purpose, count) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return out


def _normal(keys: Keys, purpose: int) -> NDArray[np.float64]:
    """Nearly standard normal numbers (N,): twelve uniform ones summed, pairwise so that the order is fixed."""
    u = uniform(keys, purpose, 12)
    total = u[:, 0]
    for place in range(1, 12):
        total = total + u[:, place]
    return np.asarray(total - 6.0)


def _stream(keys: Keys, purpose: int, count: int) -> Keys:
    first = _mix(keys + _mix(np.array([purpose], np.uint64)))
    return _mix(first[:, None] + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))


def _mix(x: Keys) -> Keys:
    """The finaliser of SplitMix64 (https://doi.org/10.1145/2714064.2660195)."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
