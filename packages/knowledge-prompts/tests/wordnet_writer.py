"""Write a tiny WordNet in the database's own format, so that tests need no installed one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

FILES = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
HEADER = "  1 A licence stands here, indented by two spaces, as in the real files.  \n"


@dataclass
class TinySynset:
    key: str
    part_of_speech: str
    words: Sequence[str]
    gloss: str
    pointers: Sequence[tuple[str, str]] = ()
    offset: int = field(default=0, init=False)


TINY = [
    TinySynset("entity", "n", ["entity"], "that which exists"),
    TinySynset("plant", "n", ["plant", "flora"], 'a living organism; "plants need light"', [("@", "entity")]),
    TinySynset("flower", "n", ["flower"], "a plant cultivated for its blooms", [("@", "plant")]),
    TinySynset("sunflower", "n", ["sunflower", "helianthus"], "a tall flower", [("@", "flower")]),
    TinySynset("cornflower", "n", ["cornflower"], "a blue flower", [("@", "plant"), ("@", "flower")]),
    TinySynset("state", "n", ["state", "country"], "a nation", [("@", "entity")]),
    TinySynset("Utopia", "n", ["Utopia"], "a state that is nowhere", [("@i", "state")]),
    TinySynset("great_dane", "n", ["Great_Dane"], 'a large dog; "a good dog"; - Anon', [("@", "entity")]),
    TinySynset("child", "n", ["child", "kid"], "a young person", [("@", "entity")]),
    TinySynset("band_n", "n", ["set", "band"], "an unofficial group", [("@", "entity")]),
    TinySynset("band_v", "v", ["band"], "bind together"),
    TinySynset("galore", "a", ["galore(ip)"], "existing in abundance"),
    TinySynset("happily", "r", ["happily"], "in a joyous manner"),
]


def write_wordnet(folder: Path, synsets: Sequence[TinySynset] = TINY) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    by_key = {synset.key: synset for synset in synsets}
    for _ in range(2):  # offsets have eight digits whatever they are, so the second pass has the right ones
        for letter, part in FILES.items():
            text = HEADER
            for synset in synsets:
                if synset.part_of_speech == letter:
                    synset.offset = len(text.encode())
                    text += _data_line(synset, by_key)
            (folder / f"data.{part}").write_text(text)
    for letter, part in FILES.items():
        senses: dict[str, list[int]] = {}
        for synset in synsets:
            if synset.part_of_speech == letter:
                for word in synset.words:
                    senses.setdefault(word.partition("(")[0].lower(), []).append(synset.offset)
        lines = [_index_line(word, letter, offsets) for word, offsets in senses.items()]
        (folder / f"index.{part}").write_text(HEADER + "".join(sorted(lines, key=lambda line: line.split(" ")[0])))
    (folder / "noun.exc").write_text("children child\noxen ox\n")
    return folder


def _data_line(synset: TinySynset, by_key: dict[str, TinySynset]) -> str:
    words = " ".join(f"{word} 0" for word in synset.words)
    pointers = "".join(
        f" {symbol} {by_key[key].offset:08d} {by_key[key].part_of_speech} 0000" for symbol, key in synset.pointers
    )
    head = f"{synset.offset:08d} 00 {synset.part_of_speech} {len(synset.words):02x} {words} {len(synset.pointers):03d}"
    return f"{head}{pointers} | {synset.gloss}  \n"


def _index_line(word: str, letter: str, offsets: list[int]) -> str:
    where = " ".join(f"{offset:08d}" for offset in offsets)
    return f"{word} {letter} {len(offsets)} 1 @ {len(offsets)} 0 {where}  \n"
