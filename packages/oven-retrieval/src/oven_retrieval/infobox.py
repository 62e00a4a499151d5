"""The first image in the infobox of each page of Wikipedia, from a MediaWiki XML dump."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

from oven_retrieval.entity import Entity, EntityFileError
from oven_retrieval.text_files import open_text

_BOX = re.compile(
    r"\{\{\s*(?:[^{}|]*?infobox|[^{}|]*?taxobox|speciesbox|subspeciesbox|chembox|drugbox)\b", re.IGNORECASE
)
_COMMENT = re.compile(r"<!--.*?-->|<ref[^>]*/>|<ref.*?</ref>", re.DOTALL | re.IGNORECASE)
_PARAMETER = re.compile(r"\s*([^=|{}\[\]]{1,80}?)\s*=(.*)", re.DOTALL)
_PICTURE_NAME = re.compile(
    r"^(?:image|img|photo|image|logo|cover|poster|flag)|(?:_| )(?:image|photo|image|logo)\d*$", re.IGNORECASE
)
_NOT_A_FILE = re.compile(r"size|width|upright|alt|caption|desc|map|style|class|bg|alignment|type", re.IGNORECASE)
_FILE = re.compile(r"[^|\[\]{}<>=:#\n/]+\.(?:jpe?g|png|gif|svg|tiff?|webp)\b", re.IGNORECASE)
_LONGEST = 200_000
"""Characters of a page in which the infobox is looked for: it is at the top."""


def infobox_image(text: str) -> str | None:
    """Return the file name of the first image in a page's infobox, or None where there is none.

    Args:
        text: the page's wikitext.

    Returns:
        The name on Wikimedia Commons or Wikipedia, with blanks, the first letter a capital.

    Example:
        >>> infobox_image("{{Infobox bird | name = Wood duck | image = Wood_duck male.jpg | image_size = 220px }}")
        'Wood duck male.jpg'

    Source:
        https://en.wikipedia.org/wiki/Help:Infobox_picture
    """
    text = _COMMENT.sub("", text[:_LONGEST])
    start = _BOX.search(text)
    if start is None:
        return None
    for parameter in _parameters(text, start.start()):
        match = _PARAMETER.fullmatch(parameter)
        if match is None or not _PICTURE_NAME.search(match[1]) or _NOT_A_FILE.search(match[1]):
            continue
        file = _FILE.search(match[2])
        if file is not None:
            name = " ".join(file[0].replace("_", " ").split())
            return name[:1].upper() + name[1:]
    return None


def _parameters(text: str, start: int) -> Iterator[str]:
    """The parts of a template between its own bars, in order; a template that never ends goes to the end."""
    braces = squares = 0
    part = start
    at = start
    while at < len(text):
        pair = text[at : at + 2]
        if pair in ("{{", "}}"):
            braces += 1 if pair == "{{" else -1
            at += 2
            if braces == 0:
                yield text[part : at - 2]
                return
            continue
        if pair in ("[[", "]]"):
            squares += 1 if pair == "[[" else -1
            at += 2
            continue
        if text[at] == "|" and braces == 1 and squares <= 0:
            yield text[part:at]
            part = at + 1
        at += 1
    yield text[part:]


def read_infoboxes(path: str | Path) -> Iterator[tuple[str, str]]:
    """Stream titles of articles and the file names of their infoboxes' first images.

    Args:
        path: ``…-pages-articles.xml``, also ``.bz2`` and ``.gz``.

    Raises:
        EntityFileError: no XML, with the line; what came before was given already.

    Numerics:
        One page is in memory at a time.
    """
    page: dict[str, str] = {}
    root: ElementTree.Element | None = None
    with open_text(path) as file:
        try:
            # expat itself limits what entities unfold to
            for event, element in ElementTree.iterparse(file, events=("start", "end")):  # noqa: S314
                tag = element.tag.rpartition("}")[2]
                if event == "start":
                    root = element if root is None else root
                    if root.tag.rpartition("}")[2] != "mediawiki":
                        raise EntityFileError(path, 1, f"expected <mediawiki>, got <{root.tag}>")
                    continue
                if tag in ("title", "ns", "text"):
                    page[tag] = element.text or ""
                elif tag == "redirect":
                    page["redirect"] = "yes"
                elif tag == "page":
                    name = None
                    if page.get("ns") == "0" and "redirect" not in page:
                        name = infobox_image(page.get("text", ""))
                    if name is not None:
                        yield page.get("title", ""), name
                    page = {}
                    if root is not None:
                        root.clear()
        except ElementTree.ParseError as error:
            line, _ = error.position
            raise EntityFileError(path, line, f"expected a MediaWiki XML dump: {error}") from None
        except (EOFError, OSError) as error:
            raise EntityFileError(path, 1, f"the compressed file is damaged: {error}") from None


def commons_address(name: str, width: int | None = None) -> str:
    """Return the address of a file on Wikimedia Commons, or of its copy at a width in pixels.

    Example:
        >>> commons_address("Example.jpg")
        'https://upload.wikimedia.org/wikipedia/commons/a/a9/Example.jpg'

    Source:
        The folders are the first letters of the MD5 of the name with underscores.
    """
    stored = name.replace(" ", "_")
    digest = hashlib.md5(stored.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()
    start, file = "https://upload.wikimedia.org/wikipedia/commons/", quote(stored)
    folder = f"{digest[0]}/{digest[:2]}/{file}"
    return f"{start}{folder}" if width is None else f"{start}thumb/{folder}/{width}px-{file}"


def infobox_images(path: str | Path) -> dict[str, str]:
    """Return addresses on Wikimedia Commons by title, of a whole dump.

    Numerics:
        About 200 bytes for each article with an image: half a gigabyte for the English Wikipedia.
    """
    return {title: commons_address(name) for title, name in read_infoboxes(path)}


class Illustrated:
    """Rows of entities, of which those without an image get that of the article with their name or an alias.

    Args:
        rows: of `read_entities`; what else they have (a share that was read, a language's count) stays.
        images: by title, as `infobox_images` gives them.

    Attributes:
        added: how many entities got an image.

    Example:
        >>> rows = Illustrated([(1, Entity("Q1", "Wood duck"), "")], {"Wood duck": "http://host/duck.jpg"})
        >>> [entity.image for _, entity, _ in rows], rows.added
        (['http://host/duck.jpg'], 1)
    """

    def __init__(self, rows: Iterable[tuple[int, Entity, str]], images: Mapping[str, str]) -> None:
        self._rows, self._images, self.added = rows, images, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rows, name)

    def __iter__(self) -> Iterator[tuple[int, Entity, str]]:
        self.added = 0
        for number, entity, content in self._rows:
            names = (entity.name, *entity.aliases) if entity.image is None else ()
            address = next((self._images[name] for name in names if name in self._images), None)
            self.added += address is not None
            yield number, entity if address is None else replace(entity, image=address), content
