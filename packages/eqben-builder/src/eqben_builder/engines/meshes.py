"""Bundled objects, made from profiles, outlines and boxes: triangles on the floor, inside a sphere of radius one.

Every mesh stands on z = 0 with its bounding box centred over the origin, and is scaled so that its bounding box's half
diagonal is one.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Float32, Int32

_MESHES = (".obj", ".ply")
_TEXTURES = (".png", ".jpg", ".jpeg")
_PLAIN_NAMES = {"model", "mesh", "object", "scene", "textured", "meshes"}


class Asset(NamedTuple):
    """One object of a folder: what captions call it, its mesh, and its texture or None."""

    noun: str
    mesh: Path
    texture: Path | None


def read_assets(folder: str | os.PathLike[str]) -> tuple[Asset, ...]:
    """Find the objects of a folder.

    One object is one mesh file, called after its own name or, where that says nothing ("model.obj"), after the nearest
    folder that does, as in Google Scanned Objects (`Toy_Car/meshes/model.obj` with
    `Toy_Car/materials/textures/texture.png` is a "toy car"). Digits and signs are left out of the name.
    """
    root = Path(folder)
    if not root.is_dir():
        raise FileNotFoundError(f"{root} is not a folder of OBJ or PLY meshes")
    assets: dict[str, Asset] = {}
    for mesh in sorted(path for path in root.rglob("*") if path.suffix.lower() in _MESHES and path.is_file()):
        home = mesh.parent
        name = mesh.stem
        while name.lower() in _PLAIN_NAMES and home != root:
            name, home = home.name, home.parent
        own = mesh.parent if name == mesh.stem else home / name
        noun = " ".join(re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()))
        if not noun:
            raise ValueError(f"{mesh}: no noun can be read from the name {name!r}")
        if noun in assets:
            raise ValueError(f"{mesh} and {assets[noun].mesh} are both called {noun!r}: give one of them another name")
        assets[noun] = Asset(noun, mesh, _texture(mesh, own))
    if not assets:
        raise FileNotFoundError(f"{root} holds no OBJ or PLY mesh")
    return tuple(assets[noun] for noun in sorted(assets))


def _texture(mesh: Path, home: Path) -> Path | None:
    beside = [mesh.with_suffix(suffix) for suffix in _TEXTURES]
    for path in beside:
        if path.is_file():
            return path
    if home == mesh.parent:
        return None
    pictures = [path for path in sorted(home.rglob("texture*")) if path.suffix.lower() in _TEXTURES]
    return pictures[0] if pictures else None


def assets_digest(assets: Sequence[Asset]) -> str:
    """SHA-256 over the nouns, meshes and textures: another folder, or a mesh that was edited, gives another one."""
    digest = hashlib.sha256()
    for asset in assets:
        digest.update(f"{asset.noun}\n".encode())
        for path in (asset.mesh, asset.texture):
            digest.update(b"-" if path is None else hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


_SEGMENTS = 48
#: Edges sharper than this are not smoothed.
_CREASE = math.radians(35)


class Mesh(NamedTuple):
    """Triangles.

    vertices: float32 [n, 3].
    faces: int32 [m, 3], counter-clockwise seen from outside.
    smooth: Whether normals are interpolated over vertices that faces share.
    """

    vertices: Float32[np.ndarray, "n 3"]
    faces: Int32[np.ndarray, "m 3"]
    smooth: bool


def on_the_floor(mesh: Mesh) -> Mesh:
    """Centre a mesh over the origin, stand it on z = 0 and scale its bounding box's half diagonal to one."""
    low, high = mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)
    middle = np.array([(low[0] + high[0]) / 2, (low[1] + high[1]) / 2, low[2]])
    half = float(np.linalg.norm(high - low)) / 2
    return mesh._replace(vertices=((mesh.vertices - middle) / half).astype(np.float32))


def lathe(profile: Sequence[tuple[float, float]], *, segments: int = _SEGMENTS) -> Mesh:
    """Turn a profile of (radius, height), bottom first, about the vertical; bends of over 35 degrees are edges."""
    points = np.asarray(profile, dtype=np.float64)
    steps = np.diff(points, axis=0)
    heading = np.arctan2(steps[:, 1], steps[:, 0])
    # A ring for every point, and a second one where an edge must not be smoothed.
    rings: list[tuple[float, float]] = [tuple(points[0])]
    joined: list[tuple[int, int]] = []
    for k in range(len(steps)):
        joined.append((len(rings) - 1, len(rings)))
        rings.append(tuple(points[k + 1]))
        if k + 1 < len(steps):
            bend = (heading[k + 1] - heading[k] + math.pi) % (2 * math.pi) - math.pi
            if abs(bend) > _CREASE:
                rings.append(tuple(points[k + 1]))
    angles = 2 * math.pi * np.arange(segments) / segments
    vertices: list[tuple[float, float, float]] = []
    corners: list[list[int]] = []
    for r, z in rings:
        # On the axis all corners are one, so that its normal is the mean of all faces around it.
        around = [(0.0, 0.0, z)] if r == 0 else [(r * math.cos(a), r * math.sin(a), z) for a in angles]
        corners.append([len(vertices) + k % len(around) for k in range(segments)])
        vertices += around
    faces = []
    for low, high in joined:
        for k in range(segments):
            a, b = corners[low][k], corners[low][(k + 1) % segments]
            c, d = corners[high][k], corners[high][(k + 1) % segments]
            if rings[low][0] > 0:
                faces.append((a, b, d))
            if rings[high][0] > 0:
                faces.append((a, d, c))
    return on_the_floor(Mesh(np.array(vertices, dtype=np.float32), np.array(faces, dtype=np.int32), smooth=True))


def extrude(outline: Sequence[tuple[float, float]], depth: float, middle: tuple[float, float] = (0.0, 0.0)) -> Mesh:
    """Stand a flat shape up and give it a depth: (across, up) corners, counter-clockwise, all seen from `middle`."""
    n = len(outline)
    front = [(x, -depth / 2, z) for x, z in outline]
    back = [(x, depth / 2, z) for x, z in outline]
    vertices = [*front, *back, (middle[0], -depth / 2, middle[1]), (middle[0], depth / 2, middle[1])]
    faces = []
    for k in range(n):
        j = (k + 1) % n
        faces += [(k, j, 2 * n), (n + j, n + k, 2 * n + 1), (k, n + k, n + j), (k, n + j, j)]
    return on_the_floor(Mesh(np.array(vertices, dtype=np.float32), np.array(faces, dtype=np.int32), smooth=False))


def boxes(parts: Sequence[tuple[tuple[float, float, float], tuple[float, float, float]]]) -> Mesh:
    """Join boxes, each given by its lowest and its highest corner."""
    quads = ((0, 2, 3, 1), (4, 5, 7, 6), (0, 1, 5, 4), (2, 6, 7, 3), (0, 4, 6, 2), (1, 3, 7, 5))
    vertices: list[tuple[float, float, float]] = []
    faces: list[tuple[int, int, int]] = []
    for low, high in parts:
        start = len(vertices)
        corners = ((low[0], high[0]), (low[1], high[1]), (low[2], high[2]))
        vertices += [(corners[0][k & 1], corners[1][k >> 1 & 1], corners[2][k >> 2]) for k in range(8)]
        for a, b, c, d in quads:
            faces += [(start + a, start + b, start + c), (start + a, start + c, start + d)]
    return on_the_floor(Mesh(np.array(vertices, dtype=np.float32), np.array(faces, dtype=np.int32), smooth=False))


def torus(thickness: float, *, around: int = 64, across: int = 24, upright: bool = True) -> Mesh:
    """A ring of outer radius one whose tube has the radius `thickness`."""
    a = 2 * math.pi * np.arange(around)[:, None] / around
    b = 2 * math.pi * np.arange(across)[None, :] / across
    radius = 1 - thickness + thickness * np.cos(b)
    flat = np.stack(np.broadcast_arrays(radius * np.cos(a), radius * np.sin(a), thickness * np.sin(b)), axis=-1)
    vertices = flat.reshape(-1, 3)
    if upright:
        vertices = np.stack([vertices[:, 0], -vertices[:, 2], vertices[:, 1]], axis=-1)
    faces = []
    for i in range(around):
        for j in range(across):
            corners = [((i + di) % around) * across + (j + dj) % across for di, dj in ((0, 0), (1, 0), (1, 1), (0, 1))]
            faces += [(corners[0], corners[1], corners[2]), (corners[0], corners[2], corners[3])]
    return on_the_floor(Mesh(vertices.astype(np.float32), np.array(faces, dtype=np.int32), smooth=True))


def _joined(*parts: Mesh) -> Mesh:
    offsets = np.cumsum([0, *(len(part.vertices) for part in parts)])
    vertices = np.concatenate([part.vertices for part in parts])
    faces = np.concatenate([part.faces + offset for part, offset in zip(parts, offsets, strict=False)])
    return on_the_floor(Mesh(vertices, faces.astype(np.int32), parts[0].smooth))


def _arc(radius: float, start: float, end: float, steps: int, height: float = 0.0) -> list[tuple[float, float]]:
    angles = np.radians(np.linspace(start, end, steps + 1))
    return [(round(abs(radius * math.cos(a)), 9), height + radius * math.sin(a)) for a in angles]


def _star() -> Mesh:
    corners = []
    for k in range(10):
        radius, angle = (0.45 if k % 2 else 1.0), math.radians(-90 + 36 * (k + 1))
        corners.append((radius * math.cos(angle), radius * math.sin(angle)))
    return extrude(corners, 0.5)


def _heart() -> Mesh:
    t = 2 * math.pi * np.arange(60) / 60
    x = 16 * np.sin(t) ** 3
    y = 13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)
    return extrude([(float(a), float(b)) for a, b in zip(-x, y, strict=True)], 9.0, (0.0, 0.0))


def _cross() -> Mesh:
    long, thin = 1.0, 0.34
    corners = [
        (thin, -long), (thin, -thin), (long, -thin), (long, thin), (thin, thin), (thin, long),
        (-thin, long), (-thin, thin), (-long, thin), (-long, -thin), (-thin, -thin), (-thin, -long),
    ]  # fmt: skip
    return extrude(corners, 0.68)


def _mug() -> Mesh:
    body = [(0.0, 0.0), (0.62, 0.0), (0.66, 0.06), (0.66, 1.3), (0.58, 1.3), (0.58, 0.14), (0.0, 0.14)]
    cup = lathe(body)
    handle = torus(0.2, around=40, across=16)
    scale = float(cup.vertices[:, 2].max()) * 0.36
    moved = handle.vertices * scale * 1.3
    moved[:, 0] += float(cup.vertices[:, 0].max()) + 0.1
    moved[:, 2] += float(cup.vertices[:, 2].max()) * 0.18
    return _joined(cup, handle._replace(vertices=moved.astype(np.float32)))


def _chair() -> Mesh:
    leg = [((x, y, 0.0), (x + 0.1, y + 0.1, 0.5)) for x in (0.0, 0.7) for y in (0.0, 0.7)]
    return boxes([*leg, ((0.0, 0.0, 0.5), (0.8, 0.8, 0.6)), ((0.0, 0.7, 0.6), (0.8, 0.8, 1.35))])


def _table() -> Mesh:
    leg = [((x, y, 0.0), (x + 0.14, y + 0.14, 0.75)) for x in (0.05, 1.21) for y in (0.05, 0.81)]
    return boxes([*leg, ((0.0, 0.0, 0.75), (1.4, 1.0, 0.88))])


_MAKERS: dict[str, Callable[[], Mesh]] = {
    "sphere": lambda: lathe(_arc(1.0, -90, 90, 40), segments=80),
    "cube": lambda: boxes([((0, 0, 0), (1, 1, 1))]),
    "cone": lambda: lathe([(0, 0), (0.8, 0), (0.0, 1.6)], segments=64),
    "diamond": lambda: lathe([(0, 0), (0.72, 1.0), (0, 2.0)], segments=4)._replace(smooth=False),
    "cross": _cross,
    "star": _star,
    "ring": lambda: torus(0.24),
    "heart": _heart,
    "cylinder": lambda: lathe([(0, 0), (0.7, 0), (0.7, 1.4), (0, 1.4)], segments=64),
    "vase": lambda: lathe(
        [(0, 0), (0.34, 0), (0.5, 0.2), (0.6, 0.5), (0.55, 0.8), (0.38, 1.08), (0.25, 1.3), (0.25, 1.45), (0.38, 1.65),
         (0.33, 1.65), (0.2, 1.45), (0.2, 1.3), (0.0, 1.1)]
    ),
    "bowl": lambda: lathe(
        [(0, 0), (0.4, 0), (0.4, 0.08), *[(r, z) for r, z in _arc(1.0, -66, -8, 10, 1.0)], (0.93, 0.86),
         *[(r, z) for r, z in _arc(0.92, -8, -90, 12, 1.0)]]
    ),
    "bottle": lambda: lathe(
        [(0, 0), (0.42, 0), (0.46, 0.05), (0.46, 1.0), (0.42, 1.14), (0.32, 1.26), (0.2, 1.38), (0.16, 1.5),
         (0.16, 1.8), (0.21, 1.8), (0.21, 1.92), (0, 1.92)]
    ),
    "mug": _mug,
    "pawn": lambda: lathe(
        [(0, 0), (0.5, 0), (0.5, 0.14), (0.4, 0.22), (0.26, 0.36), (0.19, 0.6), (0.17, 0.85), (0.33, 0.92), (0.33, 1.0),
         (0.17, 1.03), *[(r, z) for r, z in _arc(0.3, -55, 90, 14, 1.27)]]
    ),
    "chair": _chair,
    "table": _table,
}  # fmt: skip

#: Nouns of the bundled objects.
BUNDLED: tuple[str, ...] = tuple(_MAKERS)


@lru_cache(maxsize=64)
def bundled_mesh(noun: str) -> Mesh:
    """One of the bundled objects."""
    if noun not in _MAKERS:
        raise ValueError(f"object {noun!r} is not one of {', '.join(BUNDLED)}")
    return _MAKERS[noun]()


def ply(mesh: Mesh) -> bytes:
    """A mesh as a binary PLY file."""
    head = (
        "ply\nformat binary_little_endian 1.0\n"
        f"element vertex {len(mesh.vertices)}\nproperty float x\nproperty float y\nproperty float z\n"
        f"element face {len(mesh.faces)}\nproperty list uchar int vertex_indices\nend_header\n"
    )
    rows = np.empty(len(mesh.faces), dtype=[("n", "u1"), ("corners", "<i4", 3)])
    rows["n"], rows["corners"] = 3, mesh.faces
    return head.encode() + mesh.vertices.astype("<f4").tobytes() + rows.tobytes()
