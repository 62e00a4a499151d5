"""What n-grams and typos change of the links of a model's answers to OVEN's questions.

    python benchmarks/oven_answers.py ANSWERS.jsonl [--references oven_query_val.jsonl]

ANSWERS are published with the official evaluation (edchengg/oven_eval, `predictions/…_bm25.jsonl`): a text for each
question, and the five titles that BM25 finds for it in Wikipedia. The knowledge base here is of all those titles. With
OVEN's references, which are not published there, the harmonic mean of seen and unseen questions is printed; without
them, how many answers link to another entity, which is the most by which an accuracy can change.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np

from oven_retrieval import STEPS, Entity, build_kb, build_linker
from oven_retrieval.evaluation import harmonic_mean

RESULTS = Path(__file__).parent / "results"


def main() -> int:
    """Link, compare, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("answers", type=Path)
    parser.add_argument("--references", type=Path)
    options = parser.parse_args()
    answers = [json.loads(line) for line in options.answers.open(encoding="utf-8")]
    titles = {entity_id: title for answer in answers for title, entity_id in answer["bm25"]}
    texts = [answer["prediction"] for answer in answers]
    result: dict = {"answers": len(answers), "entities": len(titles)}
    with tempfile.TemporaryDirectory() as folder:
        kb = build_kb((Entity(entity_id, title) for entity_id, title in titles.items()), Path(folder) / "kb")
        linker, plain = build_linker(kb), build_linker(kb, ngrams=False)
        links = {"without n-grams": plain.link(texts), "with n-grams": linker.link(texts)}
        linker.typos = True
        links["with n-grams and typos"] = linker.link(texts)
        ids = {name: [kb.ids[row] if row >= 0 else None for row in link.rows[:, 0]] for name, link in links.items()}
    before = links["without n-grams"].rows[:, 0]
    for name, ranking in links.items():
        kinds = ranking.kinds[:, 0]
        result[name] = {
            "another entity than without n-grams %": round(100 * float(np.mean(ranking.rows[:, 0] != before)), 2),
            "none before %": round(100 * float(np.mean((ranking.rows[:, 0] != before) & (before < 0))), 2),
            "by step": {STEPS[step]: int((kinds == step).sum()) for step in np.unique(kinds) if step >= 0},
        }
    if options.references:
        lines = (json.loads(line) for line in options.references.open(encoding="utf-8"))
        truth = {line["data_id"]: (line["entity_id"], "_unseen" in line["data_split"]) for line in lines}
        for name, chosen in ids.items():
            right: dict[bool, list[bool]] = {False: [], True: []}
            for answer, entity_id in zip(answers, chosen, strict=True):
                expected, is_unseen = truth[answer["data_id"]]
                right[is_unseen].append(entity_id == expected)
            shares = [100 * float(np.mean(values)) for values in right.values()]
            result[name]["harmonic mean"] = round(harmonic_mean(*shares), 2)
    print(json.dumps(result, indent=1))
    (RESULTS / "oven_answers.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
