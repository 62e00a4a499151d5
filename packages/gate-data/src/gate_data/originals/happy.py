"""Happywhale: which whale or dolphin, and of which species."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gate_data.cards.sheet import Hub
from gate_data.hub.tables import Tables, picture
from gate_data.original_files import Parts, Sample, from_lists
from gate_data.readers import Files, Source, place, shuffled, table

_EXPECTED = "happy-whale-and-dolphin/train.csv and train_images/"
_TYPOS = {"kiler_whale": "killer_whale", "bottlenose_dolpin": "bottlenose_dolphin"}
_TEST, _VALIDATION = 0.15, 0.05


def parts(folder: Path) -> Parts:
    """80, 5 and 15 % of the pictures; of every individual at least one trains, so that nobody is asked for unseen."""
    files = Files(folder / "train_images")
    rows = list(table(folder / "train.csv", ["image", "species", "individual_id"]))
    return _divided(
        [(files.get(row.text("image"), row.where), row.text("species"), row.text("individual_id")) for row in rows]
    )


def of_rows(tables: Tables, hub: Hub, count: int) -> Parts:
    """All rows of the hub's three splits, which are divided anew: theirs ask for individuals that nothing trains."""
    del count
    rows = [row for table in tables.values() for row in table.rows]
    return _divided([(picture(row, hub.image), row.text("species_name"), row.text("individual_name")) for row in rows])


def _divided(rows: Sequence[tuple[Source, str, str]]) -> Parts:
    species = [_TYPOS.get(kind, kind) for _, kind, _ in rows]
    heads = [sorted(set(species)), sorted({individual for _, _, individual in rows})]
    numbers = [{name: index for index, name in enumerate(names)} for names in heads]
    samples = [
        Sample(source, (numbers[0][kind], numbers[1][individual]))
        for (source, _, individual), kind in zip(rows, species, strict=True)
    ]
    train: list[Sample] = []
    shared: list[Sample] = []
    met: set[int] = set()
    for sample in shuffled(samples):
        (shared if sample.target[1] in met else train).append(sample)
        met.add(sample.target[1])
    test, validation = (round(share * len(samples)) for share in (_TEST, _VALIDATION))
    classes = [f"{head}/{name}" for head, names in zip(("species", "individual"), heads, strict=True) for name in names]
    return Parts(
        train + shared[test + validation :],
        shared[:test],
        shared[test : test + validation],
        tuple(classes),
        "two misspelt species are joined with the right ones, which leaves 28",
    )


ORIGINALS = from_lists(
    _EXPECTED,
    place(_EXPECTED, ("happy-whale-and-dolphin", "happywhale", "happy"), ("train.csv", "train_images")),
    parts,
    target="heads",
)
