"""Inflections, typos that are names, and "not in here", on WordNet's nouns.

    python benchmarks/wordnet_steps.py

Needs WordNet's files (Debian's wordnet-base). Inflections: names in the plural (by WordNet's own exceptions read
backwards and regular endings), with an article, or with a possessive; where the spoiled name is itself a name, it is
left out and counted. Neighbours: names that are one edit away from another name, with the typo step on. "Not in here":
a fifth of the entities is taken out; names of all are asked as they are, in the plural, with a typo, or with another
word, and a threshold for a precision of .9 is chosen on one draw and tried on four others. Last, the model is fitted
on a knowledge base of common things and tried on one of persons, places and groups.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import sys
import tempfile
import time
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import numpy as np

from oven_retrieval import STEPS, KnowledgeBase, build_kb, build_linker
from oven_retrieval.evaluation import wilson
from oven_retrieval.evidence import name_features
from oven_retrieval.names import read_exceptions
from oven_retrieval.names.places import name_texts
from oven_retrieval.refusal import auroc, calibrate, calibrate_names, is_spelled
from oven_retrieval.tokens import fold
from oven_retrieval.wordnet import find_wordnet, read_wordnet_nouns

RESULTS = Path(__file__).parent / "results"
PARTS = ["inflections", "names with another one edit away", "not in here", "not in another knowledge base"]
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
    distinct = set(names)
    chosen = []
    for i in rng.permutation(len(names)).tolist():
        name = names[i]
        near = {name[:at] + letter + name[at + 1 :] for at in range(len(name)) for letter in LETTERS}
        near |= {name[:at] + name[at + 1 :] for at in range(len(name))}
        if len(name) > 3 and (near & distinct) - {name}:
            chosen.append(name)
        if len(chosen) == count:
            break
    return chosen


def inflections(kb: KnowledgeBase, exceptions, count: int, rng: np.random.Generator) -> dict:
    """How many inflected names link to their entity first, by kind, with and without the list of exceptions."""
    irregular = {singular: plural for plural, singulars in exceptions.items() for singular in singulars}
    folds = {fold(name) for name in name_texts(kb)}
    requests, truth, itself = [], [], 0
    for i in rng.permutation(len(kb)).tolist():
        name = kb.names[i].lower()
        kinds = (plural(name, irregular), f"the {name}", f"{'an' if name[0] in 'aeiou' else 'a'} {name}", f"{name}'s")
        for kind in kinds:
            if fold(kind) in folds:
                itself += 1
                continue
            requests.append(kind)
            truth.append(fold(name))
        if len(requests) >= count:
            break
    result: dict = {"names": len(requests), "left out because the spoiled name is a name": itself}
    for label, listed in (("rules and exceptions", exceptions), ("rules alone", None)):
        links = build_linker(kb, exceptions=listed).link(requests)
        right = [
            row >= 0 and any(fold(own) == name for own in (kb.names[row], *(kb.aliases[a] for a in kb.alias_rows(row))))
            for row, name in zip(links.rows[:, 0].tolist(), truth, strict=True)
        ]
        steps = [STEPS[step] for step in links.kinds[:, 0].tolist()]
        result[label] = {
            "linked to an entity of the name %": round(100 * float(np.mean(right)), 2),
            "by the step of inflections %": round(100 * float(np.mean([s.startswith("inflected") for s in steps])), 2),
        }
    return result


def neighbours(kb: KnowledgeBase, exceptions, count: int, rng: np.random.Generator) -> dict:
    """How many names with another one edit away are taken from their holder."""
    linker = build_linker(kb, exceptions=exceptions)
    linker.typos = True
    near = one_edit_apart(sorted({fold(name) for name in kb.names}), count, rng)
    links = linker.link(near)
    right = [
        row >= 0 and any(fold(o) == name for o in (kb.names[row], *(kb.aliases[a] for a in kb.alias_rows(row))))
        for row, name in zip(links.rows[:, 0].tolist(), near, strict=True)
    ]
    return {"asked": len(near), "taken from their holder": right.count(False)}


class World:
    """Entities of which a fifth is not in the knowledge base, and names of all as somebody may write them."""

    def __init__(self, entities, exceptions, rng: np.random.Generator, folder: Path) -> None:
        self.entities, self._rng = entities, rng
        self._irregular = {singular: plural for plural, singulars in exceptions.items() for singular in singulars}
        self._out = rng.random(len(entities)) < 0.2
        inside = (e for e, gone in zip(entities, self._out, strict=True) if not gone)
        self.linker = build_linker(build_kb(inside, folder), exceptions=exceptions)
        self.linker.typos = True
        holders = Counter(fold(name) for entity in entities for name in {entity.name, *entity.aliases})
        self._alone = np.array([holders[fold(entity.name)] == 1 for entity in entities])

    def draw(self, count: int) -> tuple[list[str], list[str | None], np.ndarray]:
        """Names, the id of each where it is in here, and whether no other entity has the name that was meant."""
        chosen = self._rng.choice(len(self.entities), count, replace=False)
        names = [spoil(self.entities[i].name, int(self._rng.integers(5)), self._irregular, self._rng) for i in chosen]
        return names, [None if self._out[i] else self.entities[i].id for i in chosen], self._alone[chosen]

    def tried(self, model, count: int) -> dict:
        """What a calibration does on a new draw."""
        names, ids, alone = self.draw(count)
        links, features = name_features(self.linker, names)
        truth = self.linker.kb.rows([i or "" for i in ids])
        right = (links.rows[:, 0] == truth) & (truth >= 0)
        p, presence = model.probability(features), model.presence(features)
        answered = p >= model.threshold
        return {
            "precision": round(float(right[answered].mean()), 4),
            "coverage": round(float(answered.mean()), 4),
            "AUROC of being in here": round(auroc(presence, truth >= 0), 4),
            "the same by spelling alone": round(auroc(is_spelled(links), truth >= 0), 4),
            "AUROC, of names that no other entity has": round(auroc(presence[alone], truth[alone] >= 0), 4),
            "the same by spelling alone, of names that no other entity has": round(
                auroc(is_spelled(links)[alone], truth[alone] >= 0), 4
            ),
            "AUROC of the best link being right": round(auroc(p, right), 4),
            "mean |p - right| by tenths of p": round(_calibration_error(p, right), 4),
            "mean |p - in here| by tenths of p": round(_calibration_error(presence, truth >= 0), 4),
        }


def not_here(exceptions, entities, precision: float, rng: np.random.Generator, folder: Path) -> dict:
    """Take a fifth of the entities out; AUROC, and the precision of the threshold on other draws."""
    world = World(entities, exceptions, rng, folder / "kept")
    model, report = calibrate_names(world.linker, *world.draw(6000)[:2], precision, seed=1)
    tried = [world.tried(model, 3000) for _ in range(4)]
    return {
        "asked precision": precision,
        "chosen on": report._asdict() | {"curve": [point._asdict() for point in report.curve]},
        "other draws": tried,
        "simulations": simulations(world, precision),
    }


def simulations(world: World, precision: float, count: int = 300, labelled: int = 2000) -> dict:
    """Calibrate on some of 12,000 names again and again: the precision that is said, and that of the other names."""
    names, ids, _ = world.draw(12_000)
    links, features = name_features(world.linker, names)
    truth = world.linker.kb.rows([i or "" for i in ids])
    right, trivial = (links.rows[:, 0] == truth) & (truth >= 0), is_spelled(links)
    reported, true, covered, gained, refused = [], [], [], [], 0
    for seed in range(count):
        order = np.random.default_rng(seed).permutation(len(names))
        ours, fresh = order[:labelled], order[labelled:]
        try:
            model, report = calibrate(
                features[ours],
                right[ours],
                truth[ours] >= 0,
                [names[i] for i in ours],
                trivial[ours],
                precision,
                seed=seed,
            )
        except ValueError:
            refused += 1
            continue
        answered = model.probability(features[fresh]) >= model.threshold
        reported.append(report.precision)
        true.append(float(right[fresh][answered].mean()))
        covered.append(report.precision_low <= true[-1] <= report.precision_high)
        present = truth[fresh] >= 0
        gained.append(auroc(model.presence(features[fresh]), present) - auroc(trivial[fresh], present))
    within = wilson(sum(covered), len(covered))
    return {
        "calibrations": count,
        "precision that no threshold reached": refused,
        "mean precision said": round(float(np.mean(reported)), 4),
        "mean precision true of fresh entities": round(float(np.mean(true)), 4),
        "true within the interval that was said %": [round(share, 1) for share in within],
        "AUROC over that of spelling alone, mean and least": [
            round(float(np.mean(gained)), 4),
            round(float(np.min(gained)), 4),
        ],
    }


def elsewhere(exceptions, entities, precision: float, rng: np.random.Generator, folder: Path) -> dict:
    """Fit on a knowledge base of common things, and try the model on one of persons, places and groups."""
    named = ("person", "location", "group")
    world = World([e for e in entities if e.category not in named], exceptions, rng, folder / "things")
    others = World([e for e in entities if e.category in named], exceptions, rng, folder / "others")
    model, _ = calibrate_names(world.linker, *world.draw(6000)[:2], precision, seed=1)
    return {
        "fitted on": len(world.entities),
        "tried on": len(others.entities),
        "draws": [others.tried(model, 3000) for _ in range(2)],
    }


def _calibration_error(p: np.ndarray, right: np.ndarray) -> float:
    """Expected calibration error over ten equal bins."""
    tenth = np.minimum((p * 10).astype(int), 9)
    return float(sum(abs(p[tenth == t].mean() - right[tenth == t].mean()) * np.mean(tenth == t) for t in set(tenth)))


def main() -> int:
    """Run the parts, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--precision", type=float, default=0.9)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="the other parts' results stay")
    options = parser.parse_args()
    source = find_wordnet()
    exceptions, entities = read_exceptions(source), [entity for _, entity, _ in read_wordnet_nouns(source)]
    output = RESULTS / "wordnet_steps.json"
    result: dict = json.loads(output.read_text(encoding="utf-8")) if output.is_file() else {}
    result = {name: result[name] for name in (*PARTS, "cpu seconds") if name in result} | {"entities": len(entities)}
    result.setdefault("cpu seconds", {})
    for part in options.parts:
        rng, start = np.random.default_rng(0), time.process_time()
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            if part == "not in here":
                result[part] = not_here(exceptions, entities, options.precision, rng, folder)
            elif part == "not in another knowledge base":
                result[part] = elsewhere(exceptions, entities, options.precision, rng, folder)
            else:
                kb = build_kb(entities, folder / "kb", source=str(source))
                run = inflections if part == "inflections" else neighbours
                result[part] = run(kb, exceptions, options.count, rng)
        result["cpu seconds"][part] = round(time.process_time() - start)
    result |= {
        "machine": platform.machine(),
        "versions": {name: version(name) for name in ("oven-retrieval", "numpy")},
    }
    print(json.dumps(result, indent=1))
    output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
