"""WordNet's own noun files as a knowledge base: a hundred thousand names with definitions, to try things at once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from oven_retrieval.entity import Entity, EntityFileError

PLACES = (
    "/usr/share/wordnet",
    "~/nltk_data/corpora/wordnet",
    "/usr/share/nltk_data/corpora/wordnet",
)
"""Where Debian's `wordnet-base` and NLTK's corpus put them; `$WNSEARCHDIR` goes first."""
_CATEGORIES = (
    "top", "act", "animal", "artifact", "attribute", "body", "cognition", "communication", "event", "feeling", "food",
    "group", "location", "motive", "object", "person", "phenomenon", "plant", "possession", "process", "quantity",
    "relation", "shape", "state", "substance", "time",
)  # fmt: skip


def find_wordnet() -> Path:
    """The first of the known folders that holds WordNet's nouns."""
    configured = os.environ.get("WNSEARCHDIR")
    for candidate in ([configured] if configured else []) + list(PLACES):
        folder = Path(candidate).expanduser()
        if (folder / "data.noun").is_file():
            return folder
    raise FileNotFoundError(
        f"WordNet: no data.noun in {', '.join(PLACES)}; expected Debian's package wordnet-base, NLTK's corpus "
        "`wordnet`, or its folder in WNSEARCHDIR"
    )


def read_wordnet_nouns(folder: str | Path) -> Iterator[tuple[int, Entity, str]]:
    r"""Stream the synsets of `data.noun`: the first word is the name, the others are aliases.

    The id is the offset with `-n`, the category the lexicographer's file, the popularity how often the words occur in
    WordNet's tagged texts (`cntlist.rev`, where it is there).

    Source: WordNet's wndb(5WN) and cntlist(5WN).
    """
    file = Path(folder) / "data.noun"
    if not file.is_file():
        raise FileNotFoundError(
            f"WordNet: {folder} is no folder with data.noun; expected that of Debian's wordnet-base or of NLTK's corpus"
        )
    counts = _counts(Path(folder) / "cntlist.rev")
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if line.startswith("  "):  # the licence
                continue
            record, _, gloss = line.partition(" | ")
            fields = record.split(" ")
            try:
                words = [fields[4 + 2 * i].replace("_", " ") for i in range(int(fields[3], 16))]
                keys = [
                    f"{fields[4 + 2 * i].lower()}%1:{int(fields[1]):02d}:{int(fields[5 + 2 * i], 16):02d}"
                    for i in range(len(words))
                ]
                category = _CATEGORIES[int(fields[1]) - 3]
            except (IndexError, ValueError) as error:
                raise EntityFileError(file, number, f"expected a synset of WordNet's: {error}") from None
            yield (
                number,
                Entity(
                    f"{fields[0]}-n",
                    words[0],
                    tuple(dict.fromkeys(word for word in words[1:] if word != words[0])),
                    description=gloss.strip(),
                    category=category,
                    popularity=float(sum(counts.get(key, 0) for key in keys)),
                ),
                "",
            )


def _counts(file: Path) -> dict[str, int]:
    """How often each noun's sense occurs in tagged texts, by the start of its sense key."""
    counts: dict[str, int] = {}
    if file.is_file():
        for line in file.read_text(encoding="utf-8").split("\n"):
            key, _, numbers = line.partition("::")
            if "%1:" in key and len(numbers.split()) == 2:
                counts[key] = int(numbers.split()[1])
    return counts
