"""Names in six languages, inflected, transliterated and written differently: what links to its entity.

    python benchmarks/spellings.py

The 300 pairs of `tests/spellings.txt`, whose names lie among WordNet's (Debian's wordnet-base) and, in another table,
alone. A pair counts if the first answer has its name. Pairs whose text is itself another name there, such as "samovar"
for самовар, are not counted among WordNet's: that name is the right answer. `link` as it is by default, `link` with
every switch (typos, bigrams for scripts without spaces), without n-grams, and a plain BM25 over character trigrams of
the names, case-folded and without accents (bm25s's, k1 1.2, b .75); the same over what `anyascii` makes of all letters,
if it is installed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import unicodedata
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import bm25s

from oven_retrieval import STEPS, KnowledgeBase, build_linker
from oven_retrieval.tokens import fold
from oven_retrieval.wordnet import find_wordnet, read_wordnet_nouns

RESULTS = Path(__file__).parent / "results"
PAIRS = Path(__file__).parents[1] / "tests" / "spellings.txt"
KINDS = {"i": "inflected", "t": "transliterated", "w": "written differently"}


def read_pairs() -> list[tuple[str, str, str, str]]:
    """Language, kind, what is asked, the name."""
    lines = PAIRS.read_text(encoding="utf-8").splitlines()
    return [tuple(line.split(";")) for line in lines if not line.startswith("#")]


try:
    from anyascii import anyascii
except ImportError:
    anyascii = None


def trigrams(text: str, ascii_only: bool = False) -> list[str]:
    """Of the case-folded text without accents, a blank at either end."""
    marked = unicodedata.normalize("NFKD", anyascii(text).casefold() if ascii_only else text.casefold())
    bare = f" {''.join(c for c in marked if unicodedata.category(c) != 'Mn')} "
    return [bare[i : i + 3] for i in range(len(bare) - 2)] or [bare]


def plain_bm25(names: list[str], texts: list[str], ascii_only: bool = False) -> list[int]:
    """The best name of each text, -1 where none shares a trigram."""
    engine = bm25s.BM25(k1=1.2, b=0.75, method="robertson")
    engine.index([trigrams(name, ascii_only) for name in names], show_progress=False)
    best = []
    for text in texts:
        indexed = [t for t in trigrams(text, ascii_only) if t in engine.vocab_dict]
        best.append(int(engine.get_scores(indexed).argmax()) if indexed else -1)
    return best


def table(pairs, hits: dict[str, list[bool]]) -> dict:
    """Found pairs by language and by kind."""
    rows: dict = {}
    for label, right in hits.items():
        counts = Counter()
        for (language, kind, _, _), good in zip(pairs, right, strict=True):
            counts.update({"all": good, language: good, KINDS[kind]: good})
        rows[label] = dict(counts)
    return rows


def measure(pairs, others: list[str]) -> dict:
    """Link the pairs among their own names and others."""
    names = list(dict.fromkeys([name for *_, name in pairs])) + others
    taken = {fold(name) for name in others}
    pairs = [pair for pair in pairs if fold(pair[2]) not in taken]
    texts = [text for _, _, text, _ in pairs]
    truth = [names.index(name) for *_, name in pairs]
    kb = KnowledgeBase.from_names(names)
    hits, steps, times = {}, {}, {}
    for label in ("link", "link with every switch", "link without n-grams"):
        every = label == "link with every switch"
        linker = build_linker(kb, ngrams="without" not in label, tokenizer="bigrams" if every else "words")
        linker.typos = every
        start = time.process_time()
        links = [linker.link([text]) for text in texts]
        times[label] = round((time.process_time() - start) / len(texts) * 1000, 3)
        hits[label] = [
            names[int(link.rows[0, 0])] == name if link.rows[0, 0] >= 0 else False
            for link, (*_, name) in zip(links, pairs, strict=True)
        ]
        steps[label] = dict(Counter(STEPS[int(link.kinds[0, 0])] if link.rows[0, 0] >= 0 else "none" for link in links))
        if label == "link":
            missed = [
                f"{text} -> {names[int(link.rows[0, 0])] if link.rows[0, 0] >= 0 else None}, not {name}"
                for link, good, (_, _, text, name) in zip(links, hits[label], pairs, strict=True)
                if not good
            ]
    for label, ascii_only in (("BM25 over trigrams", False), ("BM25 over trigrams of anyascii", True)):
        if anyascii is not None or not ascii_only:
            best_of = zip(plain_bm25(names, texts, ascii_only), truth, strict=True)
            hits[label] = [best >= 0 and names[best] == names[right] for best, right in best_of]
    return {
        "names": len(names),
        "pairs": len(pairs),
        "found": table(pairs, hits),
        "first answers by step": steps,
        "cpu ms one at a time": times,
        "missed by link": missed,
    }


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=RESULTS / "spellings.json")
    options = parser.parse_args()
    pairs = read_pairs()
    own = {name for *_, name in pairs}
    wordnet = dict.fromkeys(
        text for _, entity, _ in read_wordnet_nouns(find_wordnet()) for text in (entity.name, *entity.aliases)
    )
    result = {
        "pairs": len(pairs),
        "alone": measure(pairs, []),
        "among WordNet's names": measure(pairs, [name for name in wordnet if name not in own]),
        "versions": {name: version(name) for name in ("oven-retrieval", "bm25s", "numpy")},
    }
    print(json.dumps(result, indent=1, ensure_ascii=False))
    options.output.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
