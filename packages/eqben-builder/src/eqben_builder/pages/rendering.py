"""Pages from templates: static files that ask the network for nothing, with every name escaped."""

from __future__ import annotations

import base64
import io
import os
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from PIL import Image

from wary_files.durable import write_whole
from wary_files.text import printable

if TYPE_CHECKING:
    from eqben_builder.formats import Picture

#: To a browser all of these are a space.
WHITE = "\t\n\r"


def write_page(path: str | os.PathLike[str], template: str, **content: Any) -> Path:
    """Fill a template of this package, and write it; its folder is made where there is none."""
    target = Path(path)
    write_whole(target, templates().get_template(template).render(content).encode("utf-8"), follow=True)
    return target


@lru_cache(maxsize=1)
def templates() -> Environment:
    """The templates of this package, and what they call."""
    templates = Environment(
        loader=PackageLoader("eqben_builder", "pages"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
        finalize=_shown,
    )
    templates.policies["json.dumps_kwargs"] = {"ensure_ascii": True}  # a page's data hold no turn of direction either
    templates.filters |= {"percent": lambda share: f"{100 * share:.1f}", "embedded": embedded}
    templates.globals["asset"] = _asset
    return templates


def _shown(value: Any) -> Any:
    """Texts without what a browser would obey; our own markup, which the autoescape leaves alone too, as it is."""
    return printable(value, WHITE) if isinstance(value, str) and not isinstance(value, Markup) else value


def _asset(name: str) -> Markup:
    return Markup(files("eqben_builder.pages").joinpath(name).read_text(encoding="utf-8"))  # noqa: S704 - our own file


def embedded(picture: Picture, side: int) -> str:
    """A `data:` address of an image; a larger one is shrunk to so many pixels, as a JPEG."""
    content, ending = picture.encoded()
    image = Image.fromarray(picture.load())
    if max(image.size) > side:
        image.thumbnail((side, side), Image.Resampling.LANCZOS)
        file = io.BytesIO()
        image.save(file, format="JPEG", quality=88)
        content, ending = file.getvalue(), ".jpg"
    kind = {".png": "png", ".jpg": "jpeg"}[ending]
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
