"""Wiktionary's definitions from a wiktextract dump: one JSON object per line, gzipped or not."""

from __future__ import annotations

import gzip
import json
import re
import unicodedata
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from knowledge_prompts.sources.json_records import complaint
from knowledge_prompts.sources.knowledge import check_least_one

# The first pass over a line: a dump has millions, and parsing each would take hours.
_WORD = re.compile(r'"word"\s*:\s*("(?:[^"\\]|\\.)*")')
_RANKS = {"noun": 0, "name": 0, "verb": 1, "adj": 2, "adv": 3}
_INFLECTED = ("form-of", "alt-of", "misspelling")


LONGEST_LINE = 1 << 26
"""Bytes of an entry: a line without an end would fill the memory."""


class Wiktextract:
    """Knowledge source: the first definitions that a wiktextract dump has for each class.

    The dump is read once, when the source is made, and only what the classes need is kept.

    Args:
        path: ``.jsonl`` or ``.jsonl.gz``, as wiktextract writes it.
        class_names: The classes to look for.
        language: Language code of the entries.
        max_items: Give so many definitions of a class at most.
        name: Name of the source.

    Raises:
        KnowledgeFileError: A line that is not in the format; names file, line and field.
        ValueError: ``max_items`` below 1; shows it.
        FileNotFoundError: There is no such file.

    Numerics: A name counts as written before its lower case; nouns and names count before verbs, adjectives and
        adverbs, then the dump's order decides. Senses that only point to another form are left out.

    Source: ELEVATER, section 3.1, def_wik. How ELEVATER chose among Wiktionary's senses is not published, so this does
        not reproduce its stored definitions; `read_external` reads those.

    Example:
        >>> import json, tempfile
        >>> path = Path(tempfile.mkdtemp()) / "dump.jsonl"
        >>> entry = {"word": "hen", "lang_code": "en", "pos": "noun", "senses": [{"glosses": ["A female chicken."]}]}
        >>> _ = path.write_text(json.dumps(entry))
        >>> Wiktextract(path, ["hen"]).items("hen")
        ['A female chicken.']
    """

    whole = False

    def __init__(
        self,
        path: str | Path,
        class_names: Sequence[str],
        *,
        language: str = "en",
        max_items: int = 1,
        name: str = "wiktionary",
    ) -> None:
        check_least_one(max_items=max_items)
        self.name, self.max_items = name, max_items
        names = [unicodedata.normalize("NFC", class_name) for class_name in class_names]
        keys = {key for name in names for key in (name, name.lower())}
        self._definitions = _scan(path, keys, language)

    def items(self, class_name: str) -> list[str]:
        """The definitions, or nothing; classes that were not asked for when the dump was read have none."""
        class_name = unicodedata.normalize("NFC", class_name)
        definitions = self._definitions.get(class_name) or self._definitions.get(class_name.lower(), [])
        return definitions[: self.max_items]


def _scan(path: str | Path, keys: set[str], language: str) -> dict[str, list[str]]:
    ranked: dict[str, list[tuple[int, str]]] = {}
    for number, line in _lines(path):
        if not _mentions(line, keys):
            continue
        try:
            entry: Any = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise complaint(path, number, f"not JSON ({error})") from None
        if not isinstance(entry, dict):
            raise complaint(path, number, f"expected an object with word, lang_code, senses; found {entry!r:.60}")
        if "redirect" in entry:  # a page that points elsewhere has no word of its own
            continue
        word = entry.get("word")
        if not isinstance(word, str):
            raise complaint(path, number, f"field 'word' is {word!r:.60}; expected a text")
        if word not in keys or entry.get("lang_code") != language:
            continue
        part = entry.get("pos", "")
        rank = _RANKS.get(part, len(_RANKS)) if isinstance(part, str) else len(_RANKS)
        ranked.setdefault(word, []).extend((rank, gloss) for gloss in _glosses(path, number, entry))
    return {
        word: list(dict.fromkeys(gloss for _, gloss in sorted(glosses, key=lambda pair: pair[0])))
        for word, glosses in ranked.items()
    }


def _glosses(path: str | Path, number: int, entry: dict[str, Any]) -> Iterator[str]:
    senses = entry.get("senses", [])
    if not isinstance(senses, list) or not all(isinstance(sense, dict) for sense in senses):
        raise complaint(path, number, f"field 'senses' is {senses!r:.60}; expected a list of objects")
    for sense in senses:
        glosses = sense.get("glosses", [])
        if not isinstance(glosses, list) or not all(isinstance(gloss, str) for gloss in glosses):
            raise complaint(path, number, f"field 'glosses' is {glosses!r:.60}; expected a list of texts")
        tags = sense.get("tags", [])
        if not isinstance(tags, list):
            raise complaint(path, number, f"field 'tags' is {tags!r:.60}; expected a list of texts")
        # A nested sense lists its parents first: the last one is the definition.
        if glosses and glosses[-1].strip() and not any(tag in _INFLECTED for tag in tags):
            yield glosses[-1]


def _mentions(line: str, keys: set[str]) -> bool:
    words = _WORD.findall(line)
    if not words:  # not an entry, perhaps not JSON: parse it, so that an error names the line
        return bool(line.strip())
    # A word with an escape in it is left to the parser.
    return any("\\" in word or word[1:-1] in keys for word in words)


def _lines(path: str | Path) -> Iterator[tuple[int, str]]:
    path = Path(path)
    number = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            while line := file.readline(LONGEST_LINE + 1):
                number += 1
                if len(line) > LONGEST_LINE:
                    raise complaint(path, number, f"a line of more than {LONGEST_LINE:,} bytes; expected one entry")
                yield number, line.decode("utf-8")
    except UnicodeDecodeError:
        raise complaint(path, number, "not UTF-8") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise complaint(path, number + 1, f"not a whole gzip file ({error})") from None
