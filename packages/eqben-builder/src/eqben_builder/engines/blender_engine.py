"""Floor scenes rendered by Blender's Cycles in a process of its own: an installed Blender, or `bpy` from PyPI."""

from __future__ import annotations

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eqben_builder.engines.engine import Drawn, hidden
from eqben_builder.engines.floors import floor_texture
from eqben_builder.engines.lighting import (
    FLOOR,
    LAMP,
    RADIANCE,
    REPEATS,
    camera_place,
    glass_tint,
    lamp_place,
    metal_tint,
    sky,
)
from eqben_builder.engines.meshes import BUNDLED, bundled_mesh
from eqben_builder.engines.path_tracer import PathTracer
from eqben_builder.engines.scene import AIM, COLOURS, FIELD_OF_VIEW
from eqben_builder.engines.worker_process import WorkerProcess
from eqben_builder.engines.workspace import Workspace
from eqben_builder.pictures import decode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eqben_builder.engines.scene import FloorScene, Thing

VARIABLE = "EQBEN_BLENDER"
_WORKER = Path(__file__).with_name("blender_worker.py")
_DEPTH = 12
"""Bounces: a mug of glass is seen through four sheets, and its floor is lit through four more."""
_SAMPLES = 16


class BlenderMissingError(ImportError):
    """There is no Blender, or what was named is none."""


def find_blender(named: str | os.PathLike[str] | None = None) -> list[str]:
    """The command that runs the worker inside Blender.

    Args:
        named: A Blender, or a Python that has `bpy`; by default the environment's `EQBEN_BLENDER`, then this Python
            where it has `bpy`, then the `blender` on the path.

    Raises:
        BlenderMissingError: None of them; the message says what to install or to set.
    """
    given = str(named or os.environ.get(VARIABLE, ""))
    program = shutil.which(given) if given else None
    if given and program is None:
        raise BlenderMissingError(f"{given} is no program: name a Blender, or a Python that has bpy")
    if program is None and find_spec("bpy") is not None:
        program = sys.executable
    program = program or shutil.which("blender")
    if program is None:
        raise BlenderMissingError(
            f"Blender is not found: install it so that `blender` is on the path, or set {VARIABLE} to a Blender, or to "
            "a Python that has bpy (Python 3.11 and NumPy 1: in an environment of its own, pip install bpy)"
        )
    if "blender" not in Path(program).name.lower():
        return [program, str(_WORKER)]
    options = ["--background", "--factory-startup", "-noaudio", "--python-exit-code", "1"]
    return [program, *options, "--python", str(_WORKER)]


class BlenderEngine(PathTracer):
    """Renders both scenes of a pair with Cycles and the same seed.

    Args:
        meshes: A folder of OBJ or PLY meshes to use in place of the bundled objects; see `read_assets`.
        samples: Paths for each pixel, 1 to 4096; by default 16, and 256 without the denoiser.
        denoise: Whether Open Image Denoise, which Blender contains, cleans the pictures.
        blender: As `named` of `find_blender`.
        deadline: Seconds for each picture, and for Blender's start; a Blender that gives no answer is ended.

    Raises:
        BlenderMissingError: No Blender.
        ValueError: `samples` or `deadline` out of range.

    Numerics:
        One thread, no adaptive sampling: the same scene gives the same bytes in every process of one machine. What lies
        at a pixel is found by one ray through its middle.

    Source:
        EqBen renders Eq-Kubric with Kubric, which drives Blender 2.93 and Cycles. Scenes, lamp and camera are those of
        the Mitsuba engine, and so are the pictures, up to noise and the materials' highlights.
    """

    name = "blender"

    def __init__(
        self,
        *,
        meshes: str | os.PathLike[str] | None = None,
        samples: int | None = None,
        denoise: bool = True,
        blender: str | os.PathLike[str] | None = None,
        deadline: float = 600.0,
    ) -> None:
        super().__init__(meshes, samples, denoise, usual=_SAMPLES)
        if not deadline > 0:
            raise ValueError(f"deadline = {deadline!r}, expected seconds above 0")
        self.deadline = deadline
        self._command = find_blender(blender)
        self._running: _Running | None = None

    def __getstate__(self) -> dict[str, Any]:
        # A worker process starts a Blender of its own.
        return self.__dict__ | {"_running": None}

    def versions(self) -> dict[str, str]:
        """Blender's."""
        return {"blender": self._blender().version}

    def draw(self, scenes: tuple[FloorScene, FloorScene], size: int, seed: int) -> Drawn | str:
        """Render both scenes, or say that an object is hidden.

        Args:
            scenes: Two scenes on one stage.
            size: Side of the pictures in pixels, at least 16.
            seed: Of the noise, the same in both pictures.

        Raises:
            RuntimeError: Blender died, could not render, or gave no answer in time; with its own words.
        """
        running = self._blender()
        try:
            both = [running.render(self._order(scene, size, seed, running)) for scene in scenes]
        except RuntimeError:
            self._running = None  # the next scene gets a new Blender, and this one's folder goes
            raise
        images, seen = zip(*both, strict=True)
        if any(hidden(who, len(scene.things)) for who, scene in zip(seen, scenes, strict=True)):
            return "an object is hidden"
        return Drawn((images[0], images[1]), (seen[0], seen[1]), {"samples": self.samples, "denoised": self.denoise})

    def _blender(self) -> _Running:
        if self._running is None:
            self._running = _Running(self._command, self.deadline)
        return self._running

    def _order(self, scene: FloorScene, size: int, seed: int, running: _Running) -> dict[str, Any]:
        stage = scene.stage
        texture = floor_texture(stage.floor, stage.tone)
        return {
            "size": size,
            "seed": seed % (1 << 31),
            "samples": self.samples,
            "depth": _DEPTH,
            "denoise": self.denoise,
            "camera": {"at": camera_place(stage), "to": [0, 0, AIM], "field_of_view": FIELD_OF_VIEW},
            "lights": {
                "at": lamp_place(stage),
                "half": LAMP,
                "radiance": list(RADIANCE),
                "sky": running.array("sky", sky()),
            },
            "floor": {
                "half": FLOOR,
                "repeats": REPEATS,
                "tone": list(stage.tone),
                "texture": None if texture is None else running.array("floor", texture),
            },
            "things": [self._thing(thing, running) for thing in scene.things],
        }

    def _thing(self, thing: Thing, running: _Running) -> dict[str, Any]:
        asset = self._assets.get(thing.shape)
        tints = {"metal": metal_tint, "glass": glass_tint}
        colour = COLOURS.get(thing.colour, (0.5, 0.5, 0.5))
        return {
            "mesh": running.mesh(thing.shape) if asset is None else str(asset.mesh.resolve()),
            "texture": None if asset is None or asset.texture is None else str(asset.texture.resolve()),
            "material": thing.material,
            "colour": list(tints.get(thing.material, list)(colour)),
            "x": thing.x,
            "y": thing.y,
            "turn": thing.turn,
            "radius": thing.radius,
        }


class _Running:
    """A Blender that waits for scenes, and the folder through which files go to and fro."""

    def __init__(self, command: Sequence[str], deadline: float) -> None:
        self._space = Workspace()
        self.folder = self._space.folder
        self._worker = WorkerProcess(command, self.folder / "log.txt", deadline=deadline)
        self.process = self._worker.process
        try:
            self.version = str(self._worker.hear("ready"))
        except RuntimeError as error:
            raise BlenderMissingError(f"{command[0]} cannot be used as Blender: {error}") from None

    def render(self, order: dict[str, Any]) -> tuple[NDArray[np.uint8], NDArray[np.int16]]:
        """One picture, and who is seen where."""
        picture, seen = self.folder / "picture.png", self.folder / "seen.npy"
        try:
            self._worker.ask(order | {"picture": str(picture), "seen": str(seen)}, "done")
        except RuntimeError as error:
            raise RuntimeError(f"Blender cannot render the scene: {error}") from None
        who: NDArray[np.int16] = np.load(seen, allow_pickle=False)
        return decode(picture), who

    def array(self, name: str, values: NDArray[np.float32]) -> str:
        """Put an array where Blender finds it."""
        path = self.folder / f"{name}.npy"
        np.save(path, values)
        return str(path)

    def mesh(self, noun: str) -> str:
        """Put a bundled object where Blender finds it, once."""
        path = self.folder / f"{BUNDLED.index(noun)}.npz"
        if not path.exists():
            mesh = bundled_mesh(noun)
            np.savez(path, vertices=mesh.vertices, faces=mesh.faces, smooth=np.array(mesh.smooth))
        return str(path)
