"""The page of encoders' scores: own runs on real sets, and two published tables."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from statistics import fmean
from typing import Any

from website.public import ROOT

TABLES = ROOT / "packages" / "eevee" / "src" / "eevee" / "tables" / "data"
OWN_RUNS = ROOT / "experiments" / "results" / "real_sets.json"

HEAD = """# Scores of encoders

Click a heading to sort by it. The first table is ours; the two below it are **published figures, not ours**.

## Own runs on real data sets

Heads on frozen features, trained and chosen on each set's own training and validation samples, at most {limits} of
each split. The range is the 95 % interval. `micro-clip` is the small encoder that is shipped and knows drawn shapes,
`lite:0` to `lite:2` are EfficientNet-Lite with ImageNet weights, and those with `/random` have random weights. None of
these is a large CLIP model, which scores far higher on CIFAR-10. CamVid's head is ridge regression. COCO128 has 115
training images for 80 classes, which is too few for a head.{machine}

"""

FILL = """
If you have weights and a GPU, this command adds your encoder's rows to those in the file. `FOLDER` holds a
folder for each further set, with the `benchmark.toml` that `gate-runner new` writes:

```console
$ python experiments/real_sets.py FOLDER --encoder open_clip:ViT-B-32/laion2b_s34b_b79k
```

Made by [`experiments/real_sets.py`](code:experiments/real_sets.py); the file is
[`experiments/results/real_sets.json`](code:experiments/results/real_sets.json).
"""

GATE = """
## Published: 21 models on the 30 benchmarks of GATE

One figure for each benchmark, in per cent, from table 3 of the EEVEE/GATE paper. `eevee` ships the table and all 192
metrics ([`gate_full.csv`](code:packages/eevee/src/eevee/tables/data/gate_full.csv)). An arrow down marks a metric of
which less is better. The models' names are the paper's short ones.

"""

MIEB = """
## Published: 42 models on the 132 image tasks of MIEB

Means in per cent over a task type's tasks that a model has a score of; the number in brackets is how many these are,
where some are missing. The figures are MIEB's (embeddings-benchmark/results, CC0). `eevee.load_table("mieb")` has each
single score.

"""


def encoder_results() -> str:
    """Markdown of the page."""
    return "".join([_own(), FILL, GATE, _gate(), MIEB, _mieb()])


def _own() -> str:
    stored = json.loads(OWN_RUNS.read_text(encoding="utf-8"))
    rows: list[dict[str, Any]] = stored["rows"]
    encoders = list(dict.fromkeys(row["encoder"] for row in rows))
    lines = []
    for name in dict.fromkeys(row["set"] for row in rows):
        of_set = {row["encoder"]: row for row in rows if row["set"] == name}
        scored = next((row for row in of_set.values() if "score" in row), None)
        about = f"{scored['metric']}, {scored['test']} test, chance {scored['chance']:.3f}" if scored else "no score"
        lines.append([f"{name} ({about})", *(_own_cell(of_set.get(encoder)) for encoder in encoders)])
    limits = " or ".join(f"{limit:,}" for limit in sorted({row["limit"] for row in rows}))
    machine = "" if any(row["gpu"] for row in rows) else " No row was computed on a GPU."
    return HEAD.format(limits=limits, machine=machine) + _table(["data set", *encoders], lines)


def _own_cell(row: dict[str, Any] | None) -> str:
    if row is None or "score" not in row:
        return "–"
    return f"{row['score']:.3f} ({row['low']:.3f}–{row['high']:.3f})"


def _gate() -> str:
    with (TABLES / "gate_main.csv").open(encoding="utf-8", newline="") as file:
        heading, *rows = csv.reader(file)
    about = heading.index("direction") + 1
    lines = [[row[0] + (" ↓" if row[about - 1] == "lower" else ""), row[2], *row[about:]] for row in rows]
    return _table(["metric", "task", *heading[about:]], lines)


def _mieb() -> str:
    packed = (TABLES / "mieb.csv.gz").read_bytes()
    heading, *rows = csv.reader(io.StringIO(gzip.decompress(packed).decode("utf-8")))
    first, kind = heading.index("high") + 1, heading.index("task")
    rows.sort(key=itemgetter(kind))
    groups = [(name, list(members)) for name, members in groupby(rows, key=itemgetter(kind))]
    lines = []
    for column, model in enumerate(heading[first:], first):
        lines.append([model, *(_mean([row[column] for row in members]) for _, members in groups)])
    names = [f"{name} ({len(members)})" for name, members in groups]
    return _table(["model", *names], lines)


def _mean(cells: Sequence[str]) -> str:
    values = [float(cell) for cell in cells if cell]
    if not values:
        return "–"
    return f"{100 * fmean(values):.1f}" + (f" [{len(values)}]" if len(values) < len(cells) else "")


def _table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(heading) + " |", "|---|" + "---:|" * (len(heading) - 1)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return '<div class="sortable" markdown>\n\n' + "\n".join(lines) + "\n\n</div>\n"
