"""Objects from a folder: OBJ and PLY meshes, with their texture where there is one."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    found: dict[str, Asset] = {}
    for mesh in sorted(path for path in root.rglob("*") if path.suffix.lower() in _MESHES and path.is_file()):
        home = mesh.parent
        name = mesh.stem
        while name.lower() in _PLAIN_NAMES and home != root:
            name, home = home.name, home.parent
        own = mesh.parent if name == mesh.stem else home / name
        noun = " ".join(re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()))
        if not noun:
            raise ValueError(f"{mesh}: no noun can be read from the name {name!r}")
        if noun in found:
            raise ValueError(f"{mesh} and {found[noun].mesh} are both called {noun!r}: give one of them another name")
        found[noun] = Asset(noun, mesh, _texture(mesh, own))
    if not found:
        raise FileNotFoundError(f"{root} holds no OBJ or PLY mesh")
    return tuple(found[noun] for noun in sorted(found))


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
    whole = hashlib.sha256()
    for asset in assets:
        whole.update(f"{asset.noun}\n".encode())
        for path in (asset.mesh, asset.texture):
            whole.update(b"-" if path is None else hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()
