"""Inflections, typos that are names, and "not in here", on WordNet's nouns.

    python benchmarks/wordnet_steps.py

Needs WordNet's files (Debian's wordnet-base). Inflections: names in the plural (by WordNet's own exceptions read
backwards and regular endings), with an article, or with a possessive; where the spoiled name is itself a name, it is
left out and counted. Neighbours: names that are one edit away from another name, with the typo step on. "Not in here":
a fifth of the entities is taken out; names of all are asked as they are, in the plural, with a typo, or with another
word, and a threshold for a precision of .9 is chosen on one draw and tried on four others.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np

from oven_retrieval import STEPS, KnowledgeBase, build_kb, build_linker, find_wordnet, read_wordnet_nouns
from oven_retrieval.names import build_typos, name_texts, read_exceptions
from oven_retrieval.refusal import auroc, calibrate_names, name_features
from oven_retrieval.tokens import fold

RESULTS = Path(__file__).parent / "results"
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def plural(name: str, irregular: dict[str, str]) -> str:
    """A name in the plural: its last word, by WordNet's list or the school's rules."""
    if name in irregular:
        return irregular[name]
    before, space, word = name.rpartition(" ")
    if word in irregular:
        return before + space + irregular[word]
    if re.search(r"(?:s|x|z|ch|sh)$", word):
        return name + "es"
    if re.search(r"[^aeiou]y$", word):
        return name[:-1] + "ies"
    return name + "s"


def spoil(name: str, kind: int, irregular: dict[str, str], rng: np.random.Generator) -> str:
    """A name as somebody may write it: itself, lower case, plural, one typo, one more or one less word."""
    if kind == 1:
        return name.lower()
    if kind == 2:
        return plural(name.lower(), irregular)
    if kind == 3:
        at = int(rng.integers(len(name)))
        return name[:at] + LETTERS[int(rng.integers(26))] + name[at + 1 :]
    if kind == 4:
        words = name.split()
        return " ".join(words[:-1]) if len(words) > 1 else f"{name} thing"
    return name


def one_edit_apart(names: list[str], count: int, rng: np.random.Generator) -> list[str]:
    """Names of which another differs by one exchanged letter, omission or insertion."""
    known = set(names)
    found = []
    for i in rng.permutation(len(names)).tolist():
        name = names[i]
        near = {name[:at] + letter + name[at + 1 :] for at in range(len(name)) for letter in LETTERS}
        near |= {name[:at] + name[at + 1 :] for at in range(len(name))}
        if len(name) > 3 and (near & known) - {name}:
            found.append(name)
        if len(found) == count:
            break
    return found


def inflections(kb: KnowledgeBase, exceptions, count: int, rng: np.random.Generator) -> dict:
    """How many inflected names link to their entity first, by kind, with and without the list of exceptions."""
    irregular = {singular: plural for plural, singulars in exceptions.items() for singular in singulars}
    taken = {fold(name) for name in name_texts(kb)}
    asked, truth, itself = [], [], 0
    for i in rng.permutation(len(kb)).tolist():
        name = kb.names[i].lower()
        kinds = (plural(name, irregular), f"the {name}", f"{'an' if name[0] in 'aeiou' else 'a'} {name}", f"{name}'s")
        for kind in kinds:
            if fold(kind) in taken:
                itself += 1
                continue
            asked.append(kind)
            truth.append(fold(name))
        if len(asked) >= count:
            break
    result: dict = {"names": len(asked), "left out because the spoiled name is a name": itself}
    for label, given in (("rules and exceptions", exceptions), ("rules alone", None)):
        links = build_linker(kb, exceptions=given).link(asked)
        right = [
            row >= 0 and any(fold(own) == name for own in (kb.names[row], *(kb.aliases[a] for a in kb.alias_rows(row))))
            for row, name in zip(links.rows[:, 0].tolist(), truth, strict=True)
        ]
        steps = [STEPS[step] for step in links.steps[:, 0].tolist()]
        result[label] = {
            "linked to an entity of the name %": round(100 * float(np.mean(right)), 2),
            "by the step of inflections %": round(100 * float(np.mean([s.startswith("inflected") for s in steps])), 2),
        }
    return result


def not_here(exceptions, rows, precision: float, rng: np.random.Generator, folder: Path) -> dict:
    """Take a fifth of the entities out; AUROC, and the precision of the threshold on other draws."""
    irregular = {singular: plural for plural, singulars in exceptions.items() for singular in singulars}
    entities = [entity for _, entity, _ in rows]
    out = rng.random(len(entities)) < 0.2
    linker = build_linker(
        build_kb((e for e, gone in zip(entities, out, strict=True) if not gone), folder / "kept"), exceptions=exceptions
    )
    linker.typos = build_typos(name_texts(linker.kb))

    def draw(count: int) -> tuple[list[str], list[str | None]]:
        chosen = rng.choice(len(entities), count, replace=False)
        names = [spoil(entities[i].name, int(rng.integers(5)), irregular, rng) for i in chosen]
        return names, [None if out[i] else entities[i].id for i in chosen]

    model, report = calibrate_names(linker, *draw(6000), precision)
    tried = []
    for _ in range(4):
        names, ids = draw(3000)
        links, features = name_features(linker, names)
        truth = linker.kb.rows([i or "" for i in ids])
        right = (links.rows[:, 0] == truth) & (truth >= 0)
        p = model.probability(features)
        given = p >= model.threshold
        tried.append(
            {
                "precision": round(float(right[given].mean()), 4),
                "coverage": round(float(given.mean()), 4),
                "AUROC of being in here": round(auroc(p, truth >= 0), 4),
                "mean |p - right| by tenths of p": round(_calibration_error(p, right), 4),
            }
        )
    return {"asked precision": precision, "chosen on": report._asdict(), "other draws": tried}


def _calibration_error(p: np.ndarray, right: np.ndarray) -> float:
    """Expected calibration error over ten equal bins."""
    tenth = np.minimum((p * 10).astype(int), 9)
    return float(sum(abs(p[tenth == t].mean() - right[tenth == t].mean()) * np.mean(tenth == t) for t in set(tenth)))


def main() -> int:
    """Run all three, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--precision", type=float, default=0.9)
    options = parser.parse_args()
    rng, start = np.random.default_rng(0), time.process_time()
    source = find_wordnet()
    exceptions = read_exceptions(source)
    with tempfile.TemporaryDirectory() as place:
        kb = build_kb(read_wordnet_nouns(source), Path(place) / "kb", source=str(source))
        result: dict = {"entities": len(kb), "inflections": inflections(kb, exceptions, options.count, rng)}
        linker = build_linker(kb, exceptions=exceptions)
        linker.typos = build_typos(name_texts(kb))
        near = one_edit_apart(sorted({fold(name) for name in kb.names}), options.count, rng)
        links = linker.link(near)
        kept = [
            row >= 0 and any(fold(o) == name for o in (kb.names[row], *(kb.aliases[a] for a in kb.alias_rows(row))))
            for row, name in zip(links.rows[:, 0].tolist(), near, strict=True)
        ]
        result["names with another one edit away"] = {"asked": len(near), "taken from their holder": kept.count(False)}
        rows = list(read_wordnet_nouns(source))
        result["not in here"] = not_here(exceptions, rows, options.precision, rng, Path(place))
    result |= {
        "cpu seconds": round(time.process_time() - start),
        "machine": platform.machine(),
        "versions": {name: version(name) for name in ("oven-retrieval", "numpy")},
    }
    print(json.dumps(result, indent=1))
    (RESULTS / "wordnet_steps.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
