"""Happywhale: which whale or dolphin, and of which species."""

from __future__ import annotations

from pathlib import Path

from gate_runner.benchmarks.original_files import Parts, Sample, from_lists
from gate_runner.readers import Files, place, shuffled, table

_EXPECTED = "happy-whale-and-dolphin/train.csv and train_images/"
_TYPOS = {"kiler_whale": "killer_whale", "bottlenose_dolpin": "bottlenose_dolphin"}
_TEST, _VALIDATION = 0.15, 0.05


def parts(folder: Path) -> Parts:
    """80, 5 and 15 % of the pictures; of every individual at least one trains, so that nobody is asked for unseen."""
    files = Files(folder / "train_images")
    rows = list(table(folder / "train.csv", ["image", "species", "individual_id"]))
    species = [_TYPOS.get(row.text("species"), row.text("species")) for row in rows]
    known = [sorted(set(species)), sorted({row.text("individual_id") for row in rows})]
    numbers = [{name: place for place, name in enumerate(names)} for names in known]
    samples = [
        Sample(files.get(row.text("image"), row.where), (numbers[0][kind], numbers[1][row.text("individual_id")]))
        for row, kind in zip(rows, species, strict=True)
    ]
    train: list[Sample] = []
    others: list[Sample] = []
    met: set[int] = set()
    for sample in shuffled(samples):
        (others if sample.target[1] in met else train).append(sample)
        met.add(sample.target[1])
    test, validation = (round(share * len(samples)) for share in (_TEST, _VALIDATION))
    classes = [f"{head}/{name}" for head, names in zip(("species", "individual"), known, strict=True) for name in names]
    return Parts(
        train + others[test + validation :],
        others[:test],
        others[test : test + validation],
        tuple(classes),
        "two misspelt species are joined with the right ones, which leaves 28",
    )


ORIGINALS = from_lists(
    _EXPECTED,
    place(_EXPECTED, ("happy-whale-and-dolphin", "happywhale", "happy"), ("train.csv", "train_images")),
    parts,
    target="heads",
)
