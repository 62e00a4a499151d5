"""The frame of a page, and pictures within it: static files that ask the network for nothing."""

from __future__ import annotations

import base64
import io
import os
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from PIL import Image

if TYPE_CHECKING:
    from eqben_builder.formats import Picture

_POLICY = "default-src 'none'; img-src data: 'self' file:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def asset(name: str) -> str:
    """The text of a file of this package, such as "page.css"."""
    return files("eqben_builder.pages").joinpath(name).read_text(encoding="utf-8")


def page(title: str, body: str, script: str = "") -> str:
    """A whole HTML page."""
    code = f"<script>\n{script}</script>\n" if script else ""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>{escape(title)}</title>\n<style>\n{asset('page.css')}</style>\n</head>\n<body>\n{body}\n{code}"
        "</body>\n</html>\n"
    )


def embedded(picture: Picture, side: int | None = None) -> str:
    """A `data:` address of a picture."""
    content, ending = picture.encoded()
    if side is not None:
        image = Image.fromarray(picture.load())
        if max(image.size) > side:
            image.thumbnail((side, side), Image.Resampling.LANCZOS)
            file = io.BytesIO()
            image.save(file, format="JPEG", quality=88)
            content, ending = file.getvalue(), ".jpg"
    kind = {".png": "png", ".jpg": "jpeg"}[ending]
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def relative(picture: Picture, place: Path) -> str:
    """The address of a picture's file as seen from the folder of a page."""
    if picture.path is None or picture.member is not None or picture.path.suffix == ".npy":
        raise ValueError(f"{picture.name} is no file that a browser can show: embed it")
    return quote(Path(os.path.relpath(picture.path, place)).as_posix())
