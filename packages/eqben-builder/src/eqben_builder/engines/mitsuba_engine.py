"""Floor scenes by path tracing with Mitsuba 3, 12 samples and a denoiser; extra `mitsuba`."""

from __future__ import annotations

import math
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eqben_builder.engines.denoise import EXTRA, Denoiser, DenoiserMissingError
from eqben_builder.engines.meshes import (
    BUNDLED,
    Asset,
    Mesh,
    assets_digest,
    bundled_mesh,
    on_the_floor,
    ply,
    read_assets,
)
from eqben_builder.engines.scene import AIM, COLOURS, DISTANCE, FIELD_OF_VIEW, MATERIALS, Drawn, hidden

if TYPE_CHECKING:
    import os

    from eqben_builder.engines.scene import FloorScene, Stage, Thing

_DEPTH = 12
"""Bounces: a mug of glass is seen through four sheets, and its floor is lit through four more."""
#: Without a denoiser.
MANY_SAMPLES = 256
_SAMPLES, _GUIDE_SAMPLES = 12, 2


class MitsubaEngine:
    """Renders both scenes of a pair with the same noise; `KubricBuilder` says what its arguments are.

    Numerics:
        Variant `scalar_rgb` without scene optimisation, one thread: the same scene gives the same bytes in every
        process of one machine.

    Source:
        EqBen renders Eq-Kubric with Kubric, and so with Blender. Here the noise is the same in both images of a pair,
        so that pixels which nothing of the change reaches are equal.
    """

    name = "mitsuba"
    materials = MATERIALS
    colours = tuple(COLOURS)

    def __init__(
        self, *, meshes: str | os.PathLike[str] | None = None, samples: int | None = None, denoise: bool = True
    ) -> None:
        samples = samples if samples is not None else _SAMPLES if denoise else MANY_SAMPLES
        if not 1 <= samples <= 4096:
            raise ValueError(f"samples = {samples!r} lies outside 1 to 4096")
        self.samples, self.denoise = samples, denoise
        self._assets: dict[str, Asset] = {} if meshes is None else {asset.noun: asset for asset in read_assets(meshes)}
        self.shapes: tuple[str, ...] = tuple(self._assets) or BUNDLED
        self.textured = frozenset(noun for noun, asset in self._assets.items() if asset.texture is not None)
        _mitsuba()
        if denoise:
            try:
                Denoiser(16, 16)
            except DenoiserMissingError as error:
                raise DenoiserMissingError(
                    f"{error}. Or render without it (denoise=False, --no-denoise): {MANY_SAMPLES} samples "
                    f"in place of {_SAMPLES} take more than ten times as long"
                ) from error
        self._meshes: dict[str, bytes] = {}
        self._denoisers: dict[int, Denoiser] = {}

    def __getstate__(self) -> dict[str, Any]:
        # A worker process makes its own denoiser.
        return self.__dict__ | {"_denoisers": {}}

    def parameters(self) -> dict[str, Any]:
        """Everything that decides the images, besides scenes, size and seed."""
        values = {"samples": self.samples, "denoise": self.denoise, "objects": list(self.shapes)}
        return values | ({"meshes": assets_digest(tuple(self._assets.values()))} if self._assets else {})

    def versions(self) -> dict[str, str]:
        """Mitsuba's, and the denoiser's."""
        versions = {"mitsuba": str(_mitsuba().__version__)}
        return versions | ({"oidn": Denoiser(16, 16).version} if self.denoise else {})

    def draw(self, scenes: tuple[FloorScene, FloorScene], size: int, seed: int) -> Drawn | str:
        """Render both scenes, or say that an object is hidden."""
        mi = _mitsuba()
        loaded = [self.loaded(scene, size) for scene in scenes]
        visible = []
        for scene, drawn in zip(scenes, loaded, strict=True):
            who = _guides(mi, drawn, "who:shape_index", 1, seed)[..., 0]
            visible.append(_things_at(drawn, who, len(scene.things)))
            if hidden(visible[-1], len(scene.things)):
                return "an object is hidden"
        raw = [np.array(mi.render(drawn, spp=self.samples, seed=seed), dtype=np.float32) for drawn in loaded]
        clean = raw
        if self.denoise:
            if size not in self._denoisers:
                self._denoisers[size] = Denoiser(size, size)
            clean = []
            for drawn, picture in zip(loaded, raw, strict=True):
                guides = _guides(mi, drawn, "albedo:albedo,normal:sh_normal", _GUIDE_SAMPLES, seed)
                clean.append(self._denoisers[size](picture, guides[..., :3], guides[..., 3:6]))
        untouched = float((raw[0] == raw[1]).all(axis=-1).mean())
        notes = {"samples": self.samples, "denoised": self.denoise, "untouched_before_denoising": round(untouched, 6)}
        return Drawn((_bytes(clean[0]), _bytes(clean[1])), (visible[0], visible[1]), notes)

    def loaded(self, scene: FloorScene, size: int, *, sky_weight: float = 0.0) -> Any:
        """The scene as Mitsuba holds it; a larger weight aims more of a pixel's samples at the sky."""
        with tempfile.TemporaryDirectory() as folder:  # meshes are taken from files, which are read at once
            files = {thing.shape: Path(folder, f"{thing.shape}.ply") for thing in scene.things}
            for noun, path in files.items():
                path.write_bytes(self._mesh(noun))
            return _mitsuba().load_dict(self._description(scene, size, files, sky_weight), optimize=False)

    def _description(self, scene: FloorScene, size: int, files: dict[str, Path], sky_weight: float) -> dict[str, Any]:
        mi = _mitsuba()
        transform = mi.ScalarTransform4f
        described = {
            "type": "scene",
            "integrator": {"type": "path", "max_depth": _DEPTH},
            "sensor": _camera(transform, scene.stage, size),
            "floor": {
                "type": "rectangle",
                "to_world": transform().scale([FLOOR, FLOOR, 1]),
                "bsdf": {"type": "diffuse", "reflectance": _floor_reflectance(mi, scene.stage)},
            },
            **_lights(mi, transform, scene.stage, sky_weight),
        }
        for index, thing in enumerate(scene.things):
            described[f"thing{index}"] = self._object(transform, thing, files[thing.shape])
        return described

    def _object(self, transform: Any, thing: Thing, file: Path) -> dict[str, Any]:
        asset = self._assets.get(thing.shape)
        pose = transform().translate([thing.x, thing.y, 0]).rotate([0, 0, 1], math.degrees(thing.turn))
        smooth = asset is not None or bundled_mesh(thing.shape).smooth
        if asset is not None and asset.texture is not None:
            bsdf: dict[str, Any] = {
                "type": "twosided",
                "bsdf": {
                    "type": "principled",
                    "base_color": {"type": "bitmap", "filename": str(asset.texture)},
                    "roughness": 0.5,
                    "specular": 0.4,
                },
            }
        else:
            bsdf = _material(thing)
        return {
            "type": "ply",
            "filename": str(file),
            "face_normals": not smooth,
            "to_world": pose.scale(thing.radius),
            "bsdf": bsdf,
        }

    def _mesh(self, noun: str) -> bytes:
        """A PLY of the object, on the floor and of radius one."""
        if noun not in self._meshes:
            asset = self._assets.get(noun)
            self._meshes[noun] = ply(bundled_mesh(noun)) if asset is None else _normalised(asset.mesh)
        return self._meshes[noun]


@lru_cache(maxsize=1)
def _mitsuba() -> Any:
    try:
        import drjit
        import mitsuba
    except ImportError as error:
        raise ImportError(f"Mitsuba is not installed: pip install '{EXTRA}'; raster needs nothing") from error
    mitsuba.set_variant("scalar_rgb")
    mitsuba.set_log_level(mitsuba.LogLevel.Error)
    drjit.set_thread_count(1)
    return mitsuba


def _normalised(source: Path) -> bytes:
    """An OBJ or PLY file as a PLY that stands on the floor and has the radius one."""
    mi = _mitsuba()
    try:
        mesh = mi.load_dict({"type": source.suffix.lower()[1:], "filename": str(source)})
    except RuntimeError as error:
        raise ValueError(f"{source} is no mesh that Mitsuba reads: {' '.join(str(error).split())[:200]}") from error
    values = mi.traverse(mesh)
    vertices = np.array(values["vertex_positions"], dtype=np.float32).reshape(-1, 3)
    faces = np.array(values["faces"], dtype=np.int32).reshape(-1, 3)
    if not len(faces) or not np.isfinite(vertices).all() or float(np.ptp(vertices)) == 0.0:
        raise ValueError(f"{source} holds no triangles of any extent")
    values["vertex_positions"] = on_the_floor(Mesh(vertices, faces, smooth=True)).vertices.ravel()
    values.update()
    with tempfile.TemporaryDirectory() as folder:
        mesh.write_ply(f"{folder}/mesh.ply")
        return Path(folder, "mesh.ply").read_bytes()


_SIDE = 256


def floor_texture(kind: str, tone: tuple[float, float, float]) -> NDArray[np.float32] | None:
    """One repeat of a floor, or None for a plain one."""
    if kind == "plain":
        return None
    row, column = np.mgrid[0:_SIDE, 0:_SIDE]
    if kind == "tiles":
        cell = 64
        chequer = (row // cell + column // cell) % 2
        joint = (row % cell < 2) | (column % cell < 2)
        level = np.where(joint, 0.7, np.where(chequer == 1, 1.06, 0.94))
    elif kind == "planks":
        width = 32
        plank = column // width
        # Whole-number noise: a plank's own tone, and a grain that runs along it.
        own = (plank * 7919 + 13) % 11 / 11.0
        shift = plank * 37
        grain = np.sin(column * (np.pi / 8) + plank * 5.0 + 1.6 * np.sin((row + shift) * (4 * np.pi / _SIDE)))
        joint = (column % width < 1) | ((row + shift * 3) % _SIDE < 2)
        level = np.where(joint, 0.62, 0.88 + 0.18 * own + 0.025 * grain)
    else:
        raise ValueError(f"floor {kind!r} is not one of plain, tiles, planks")
    values = level[..., None] * np.asarray(tone)
    return np.ascontiguousarray(np.clip(values, 0.0, 1.0).astype(np.float32))


#: Half the side of the floor and of the square lamp, in metres, and how often the floor's texture is repeated.
FLOOR, LAMP, REPEATS = 24.0, 1.3, 12
#: Of the lamp, in W / (m2 sr) for red, green and blue.
RADIANCE = (17.0, 16.2, 15.0)


def sky() -> NDArray[np.float32]:
    """Radiance all around, brighter overhead, for metal to reflect: float32 [32, 64, 3], the zenith first."""
    rows, columns = np.linspace(1, 0, 32, dtype=np.float32)[:, None], np.arange(64)
    # Bright panels around the horizon, as in a photographer's studio, between dark gaps.
    panels = (rows > 0.45) & (rows < 0.85) & (columns % 16 < 7)[None, :]
    level = 0.10 + 0.35 * rows**2 + 0.9 * panels
    return np.ascontiguousarray((level[..., None] * np.array([0.95, 1.0, 1.08])).astype(np.float32))


def _camera(transform: Any, stage: Stage, size: int) -> dict[str, Any]:
    """It looks at the point `AIM` metres above the middle of the floor."""
    up, away = math.sin(stage.camera_elevation), math.cos(stage.camera_elevation)
    place = [0, -DISTANCE * away, AIM + DISTANCE * up]
    return {
        "type": "perspective",
        "fov": FIELD_OF_VIEW,
        "to_world": transform().look_at(place, [0, 0, AIM], [0, 0, 1]),
        "sampler": {"type": "independent"},
        "film": {
            "type": "hdrfilm",
            "width": size,
            "height": size,
            "rfilter": {"type": "box"},
            "pixel_format": "rgb",
            "component_format": "float32",
        },
    }


def _lights(mi: Any, transform: Any, stage: Stage, sky_weight: float) -> dict[str, Any]:
    """A bright square lamp above the shoulder, and a sky that is brighter overhead, for metal to reflect."""
    flat = math.cos(stage.light_elevation)
    place = [
        7 * flat * math.cos(stage.light_azimuth),
        7 * flat * math.sin(stage.light_azimuth) - 2.0,
        7 * math.sin(stage.light_elevation),
    ]
    return {
        "lamp": {
            "type": "rectangle",
            "to_world": transform().look_at(place, [0, 0, 0], [0, 0, 1]).scale([LAMP, LAMP, 1]),
            "emitter": {"type": "area", "radiance": {"type": "rgb", "value": list(RADIANCE)}},
        },
        "sky": {
            "type": "envmap",
            "bitmap": mi.Bitmap(sky()),
            # Light from the sky is found by bouncing, not by aiming: it comes from everywhere, and the lamp gets all
            # aimed samples. 12 of them have no more noise than 16 that aim at both, in 0.6 of the time, and come half a
            # decibel less near to the truth once denoised (benchmarks/render_quality.py).
            "sampling_weight": sky_weight,
            "to_world": transform().rotate([1, 0, 0], 90),
        },
    }


def _floor_reflectance(mi: Any, stage: Stage) -> dict[str, Any]:
    texture = floor_texture(stage.floor, stage.tone)
    if texture is None:
        return {"type": "rgb", "value": list(stage.tone)}
    return {
        "type": "bitmap",
        "bitmap": mi.Bitmap(texture),
        "raw": True,
        "to_uv": mi.ScalarTransform3f().scale([REPEATS, REPEATS]),
    }


def _material(thing: Thing) -> dict[str, Any]:
    colour = {"type": "rgb", "value": list(COLOURS[thing.colour])}
    if thing.material == "metal":
        return {
            "type": "twosided",
            "bsdf": {
                "type": "principled",
                "base_color": {"type": "rgb", "value": [0.14 + 0.86 * value for value in COLOURS[thing.colour]]},
                "metallic": 1.0,
                "roughness": 0.16,
            },
        }
    if thing.material == "glass":
        # Deep enough for a body, seen through two sheets, to have its colour.
        clear = {"type": "rgb", "value": [0.06 + 0.94 * value**0.6 for value in COLOURS[thing.colour]]}
        return {"type": "thindielectric", "int_ior": 1.5, "specular_transmittance": clear}
    return {"type": "twosided", "bsdf": {"type": "diffuse", "reflectance": colour}}


def _guides(mi: Any, scene: Any, channels: str, samples: int, seed: int) -> NDArray[np.float32]:
    integrator = mi.load_dict({"type": "aov", "aovs": channels})
    return np.array(mi.render(scene, integrator=integrator, spp=samples, seed=seed), dtype=np.float32)


def _things_at(scene: Any, who: NDArray[np.float32], count: int) -> NDArray[np.int16]:
    """Shape indices -> the objects' own, by the names that the scene's description gave them; -1 elsewhere."""
    names = [shape.id() for shape in scene.shapes()]
    visible = np.full(who.shape, -1, dtype=np.int16)
    for k in range(count):
        # Mitsuba counts from one, and 0 is the background.
        visible[np.rint(who) == names.index(f"thing{k}") + 1] = k
    return visible


def _bytes(linear: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Linear light as 8-bit sRGB."""
    value = np.clip(linear, 0.0, 1.0)
    curved = np.where(value <= 0.0031308, 12.92 * value, 1.055 * np.power(value, 1 / 2.4) - 0.055)
    quantised: NDArray[np.uint8] = np.rint(255 * curved).astype(np.uint8)
    return quantised
