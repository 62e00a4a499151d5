"""WordNet's 84,956 nouns: does every name and alias reach an entity that has it, and what decides between several?

    python benchmarks/wordnet_names.py path/to/wordnet_nouns.jsonl.gz

Each distinct name and alias is asked for, as it is, in capitals, and by BM25 alone. Counts only; no speed.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import numpy as np

from oven_retrieval import STEPS, build_kb_from_file, build_name_index
from oven_retrieval.names.exact import spelled
from oven_retrieval.names.places import is_shouted
from oven_retrieval.tokens import fold

RESULTS = Path(__file__).parent / "results"


def main() -> int:
    """Count, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("entities", type=Path)
    parser.add_argument("--output", type=Path, default=RESULTS / "wordnet_names.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kb = build_kb_from_file(options.entities, Path(folder) / "kb")
        linker = build_name_index(kb, Path(folder) / "names")
        holders: dict[str, set[int]] = {}
        for row in range(len(kb)):
            for name in (kb.names[row], *(kb.aliases[i] for i in kb.alias_rows(row))):
                holders.setdefault(name, set()).add(row)
        names = list(holders)
        folded: dict[str, set[int]] = {}
        for name, rows in holders.items():
            folded.setdefault(fold(name), set()).update(rows)

        links = linker.link(names)
        exact = np.array([int(row) in holders[name] for name, row in zip(names, links.rows[:, 0], strict=True)])
        same = np.array([int(row) in folded[fold(name)] for name, row in zip(names, links.rows[:, 0], strict=True)])
        shouted = linker.link([name.upper() for name in names])
        capitals = np.array(
            [
                int(row) in folded.get(fold(name.upper()), ())
                for name, row in zip(names, shouted.rows[:, 0], strict=True)
            ]
        )
        plain = linker.link(names, exact_first=False)
        bm25 = np.array([int(row) in holders[name] for name, row in zip(names, plain.rows[:, 0], strict=True)])
        matches = linker.exact.find(names)
        per_name = np.bincount(matches.query, minlength=len(names))
        complete = all(
            holders[name] <= set(rows.tolist())
            for name, rows in zip(names, np.split(matches.row, np.cumsum(per_name)[:-1]), strict=True)
        )
        rules: Counter[str] = Counter()
        first = np.cumsum(per_name) - per_name
        for query in np.flatnonzero(per_name > 1):
            a, b = int(first[query]), int(first[query]) + 1
            rules[_deciding_rule(kb, matches.row[a], matches.row[b], matches.step[a], matches.step[b])] += 1

    orders = {
        label: _orders(kb, holders, change)
        for label, change in (("as spelled", str), ("lower case", str.lower), ("upper case", str.upper))
    }
    result = {
        "entities": len(kb),
        "distinct names and aliases": len(names),
        "link to an entity with this very name or alias": int(exact.sum()),
        "link to an entity with this name or alias but for case": int(same.sum()),
        "in capitals, link to an entity with this name or alias but for case": int(capitals.sum()),
        "BM25 alone: link to an entity with this very name or alias": int(bm25.sum()),
        "ambiguous names (several entities but for case)": int((per_name > 1).sum()),
        "all holders of every name are returned": bool(complete),
        "rule that decides between the first two": dict(rules.most_common()),
        "steps": {STEPS[step]: int(count) for step, count in enumerate(np.bincount(links.kinds[:, 0])) if count},
        "names that link to a holder, if folded names went before exact aliases / as it is": orders,
        "versions": {"python": platform.python_version(), "oven-retrieval": version("oven-retrieval")},
    }
    print(json.dumps(result, indent=1))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


def _orders(kb, holders: dict[str, set[int]], change) -> list[int]:
    """How many names, spelled in another way, reach one of their holders with either order of the middle steps."""
    spellings: dict[str, list[tuple[str, bool, bool, int]]] = {}
    for row in range(len(kb)):
        for alias, name in [(False, kb.names[row]), *((True, kb.aliases[i]) for i in kb.alias_rows(row))]:
            spellings.setdefault(fold(name), []).append((spelled(name), alias, is_shouted(name), row))
    counts = [0, 0]
    for name, rows in holders.items():
        query = change(name)
        value = spellings.get(fold(query), [])
        for order, folded_first in enumerate((True, False)):
            keys = [
                ((alias, text != spelled(query)) if folded_first else (text != spelled(query), alias), loud, row)
                for text, alias, loud, row in value
            ]
            counts[order] += bool(keys) and min(keys)[2] in rows
    return counts


def _deciding_rule(kb, row: int, other: int, step: int, other_step: int) -> str:
    if step != other_step:
        return "step (exact or folded, name or alias)"
    if step % 2:
        return "order of aliases: sentence case, popularity, row"
    names = [kb.names[int(r)] for r in (row, other)]
    if len({name[1:] == name[1:].lower() for name in names}) == 2:
        return "sentence case"
    return "popularity" if kb.popularity[int(row)] != kb.popularity[int(other)] else "row"


if __name__ == "__main__":
    sys.exit(main())
