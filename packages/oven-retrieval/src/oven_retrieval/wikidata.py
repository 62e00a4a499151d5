"""Wikidata's JSON dump, read one entity at a time: names and aliases by language, popularity, category."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from oven_retrieval.entity import Entity, EntityFileError, tagged
from oven_retrieval.text_files import Reading, open_text

_TAG = re.compile(r"[a-z]{2,12}(?:-[a-z0-9]{1,8})*")


class WikidataDump:
    r"""Entities of a dump: an array with one entity per line, `.json`, also `.gz` and `.bz2`.

    The label in the first of the wanted languages that has one is the name; all other labels and aliases in these
    languages are aliases, each kept once with the tags of all its languages. What the dump has under `mul`, for all
    languages, stands for the label of a wanted language that has none of its own. The number of sitelinks is the
    popularity, the first `P31` the category, its description that of the first language that has one.

    Args:
        path: the dump.
        languages: wanted languages' tags, the most wanted first.

    Attributes:
        without_label: entities passed over because they have no label in the wanted languages.
        cut: where the file ended in the middle, as a message; None where it was whole. What was read is kept.

    Raises:
        ValueError: a tag that is none.
        EntityFileError: file and line of a line that is not an entity, unless it is the last one.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "dump.json"
        >>> record = '{"id": "Q31", "labels": {"de": {"value": "Belgien"}, "en": {"value": "Belgium"}}}'
        >>> _ = file.write_text(f'[\n{record}\n]\n')
        >>> [(entity.name, entity.aliases) for _, entity, _ in WikidataDump(file, ["en", "de"])]
        [('Belgium', ('Belgien',))]

    Source: https://doc.wikimedia.org/Wikibase/master/php/docs_topics_json.html
    """

    def __init__(self, path: str | Path, languages: Sequence[str] = ("en",)) -> None:
        if isinstance(languages, str) or not languages:
            raise ValueError(f"languages: expected a list of tags such as 'en', got {languages!r}")
        for tag in languages:
            if _TAG.fullmatch(tag) is None:
                raise ValueError(f"languages: expected tags such as 'en' or 'zh-hans', got {tag!r}")
        self.path, self.languages = Path(path), tuple(languages)
        self._reading = Reading(path)
        self.share = self._reading.share
        self.without_label = 0
        self.cut: str | None = None
        self.found: Counter[str] = Counter()
        """How many entities have a label in each of the wanted languages."""

    def __iter__(self) -> Iterator[tuple[int, Entity, str]]:
        self.without_label, self.cut = 0, None
        self.found.clear()
        failed: EntityFileError | None = None
        closed = False
        number = 0
        with open_text(self.path) as file:
            self._reading.file = file
            while True:
                try:
                    line = file.readline()
                except (EOFError, OSError, UnicodeDecodeError) as error:
                    self.cut = f"{self.path}: cut or damaged after line {number:,}: {error}"
                    return
                number += 1
                if not line:
                    break
                if failed is not None:
                    raise failed
                text = line.strip().rstrip(",")
                if text in ("[", "]", ""):
                    closed = text == "]"
                    continue
                closed = False
                try:
                    entity = self._entity(json.loads(text))
                except (ValueError, RecursionError) as error:
                    # Only the last line of a dump that was cut may be half.
                    failed = EntityFileError(self.path, number, f"expected an entity: {error}")
                    continue
                if entity is not None:
                    yield number, entity, ""
        if failed is not None or number == 1 or not closed:
            self.cut = f"{self.path}: cut after line {number - 1 - (failed is not None):,}: there is no closing ]"

    def _entity(self, record: Any) -> Entity | None:
        if not isinstance(record, dict) or not isinstance(record.get("id"), str):
            raise ValueError("no object with an id")
        labels = _values(record, "labels")
        shared = labels.get("mul")
        if shared:
            labels = {**dict.fromkeys(self.languages, shared), **labels}
        named = [tag for tag in self.languages if labels.get(tag)]
        self.found.update(named)
        if not named:
            self.without_label += 1
            return None
        name = labels[named[0]][0]
        aliases = _values(record, "aliases")
        other_names = [(labels[tag][0], tag) for tag in named[1:]]
        other_names += [(a, tag) for tag in dict.fromkeys((*self.languages, "mul")) for a in aliases.get(tag, [])]
        language, texts, alias_languages = tagged(other_names, name, named[0])
        descriptions = _values(record, "descriptions")
        links = record.get("sitelinks")
        return Entity(
            record["id"],
            name,
            texts,
            description=next((descriptions[tag][0] for tag in self.languages if descriptions.get(tag)), ""),
            category=_instance_of(record),
            popularity=float(len(links)) if isinstance(links, dict) else 0.0,
            language=language,
            alias_languages=alias_languages,
        )


def _values(record: dict[str, Any], field: str) -> dict[str, list[str]]:
    """Texts of a field by language; the dump writes an empty object as an empty list."""
    value = record.get(field) or {}
    if not isinstance(value, dict):
        raise ValueError(f"{field}: expected an object by language, got {value!r:.60}")
    by_language: dict[str, list[str]] = {}
    for tag, entries in value.items():
        listed = entries if isinstance(entries, list) else [entries]
        texts = [entry.get("value") if isinstance(entry, dict) else None for entry in listed]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError(f"{field}.{tag}: expected texts under `value`, got {entries!r:.60}")
        by_language[tag] = [text for text in texts if isinstance(text, str) and text.strip()]
    return by_language


def _instance_of(record: dict[str, Any]) -> str:
    """The id of the first class that the entity is an instance of (P31); empty without one."""
    claims = record.get("claims")
    for claim in (claims.get("P31") or []) if isinstance(claims, dict) else []:
        try:
            return str(claim["mainsnak"]["datavalue"]["value"]["id"])
        except (KeyError, TypeError):
            continue
    return ""
