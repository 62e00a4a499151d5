"""The pages ``docs/gate.md``, ``docs/own-data.md`` and ``docs/coop.md``, from cards, files' fields and published rows.

python website/data_pages.py  writes them
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gate_data.cards import SHEETS, Sheet
from gate_data.own.spec import OwnBenchmark
from gate_runner.benchmarks.paper import paper_row
from gate_runner.benchmarks.registry import BENCHMARKS

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from website.coop_page import coop_page  # run as a script, or imported by a test
from website.segmentation_page import segmentation_page

DOCS = Path(__file__).resolve().parents[1] / "docs"

_GATE = """# GATE's 31 data sets: what the paper's code did, what we do, and why

This page is written by `python website/data_pages.py` from the runner's own metadata.

A row of the paper's table can be compared with ours if the last line of a data set says so. `gate-runner check-data
ROOT` prints which data sets are under a folder, and whether they are whole. Sizes are samples to train on (with those
that validate) and to score.

`--source hub` (extra `hub`) reads the same benchmark through Hugging Face `datasets`. Rows are streamed once, and
stored as the images' own files under the user's cache folder (`GATE_RUNNER_CACHE`). The repository's revision is in the
result's note. Later runs need no network, and a killed download continues. No code of a repository is ever run. With
`--data-root ROOT`, copies are read from `ROOT/OWNER/NAME`, as `hf download --repo-type dataset OWNER/NAME --local-dir
ROOT/OWNER/NAME` makes them.
"""


def gate_page() -> str:
    """What GATE's code does with each data set, and what is done here."""
    return _GATE + "".join(_section(sheet) for sheet in SHEETS.values())


def _section(sheet: Sheet) -> str:
    sizes = " / ".join(f"{count:,}" for count in sheet.sizes) if sheet.sizes[0] else f"{sheet.sizes[1]:,} to score"
    if sheet.drawn:
        sizes = f"{sum(sheet.sizes):,} together"
    facts = [
        ("Task", f"{sheet.task}; {', '.join(sheet.metrics)}"),
        ("Classes", f"{sheet.classes:,}" if sheet.classes else "none"),
        ("Samples", sizes),
        ("From", f"<{sheet.site}>" + (f", about {sheet.gigabytes:g} GB" if sheet.gigabytes else "")),
        ("`--source hub`", _hub(sheet)),
        ("Terms", sheet.licence),
        ("Cite", sheet.citation),
        ("GATE's code", sheet.gate),
        ("Here", sheet.ours),
        *((f"Compared with the paper's rows{of}", words) for of, words in _rows(sheet)),
    ]
    lines = "".join(f"- {name}: {text}\n" for name, text in facts)
    return f"\n## `{sheet.id}`: {sheet.title}\n\n{lines}"


def _rows(sheet: Sheet) -> Iterator[tuple[str, str]]:
    """The benchmark's own, and those of others that answer to the same row of the paper."""
    for name in (sheet.id, *(id_ for id_ in BENCHMARKS if id_ != sheet.id)):
        row = paper_row(name, "local")
        if row is not None and row.benchmark == sheet.id:
            words = f"{'yes' if row.comparable else 'no'}: {row.reason}"
            yield "" if name == sheet.id else f", `{name}`", words


def _hub(sheet: Sheet) -> str:
    hub = sheet.hub
    if hub is None:
        return f"no: {sheet.no_hub}"
    splits = ", ".join(split for split in (hub.train, hub.validation, hub.test) if split)
    columns = ", ".join(f"`{column}`" for column in hub.columns)
    more = "; with `--limit`, only so many rows are read" if hub.streamed else ""
    return f"`{hub.id}`{f', configuration {hub.config}' if hub.config else ''}: {splits}; columns {columns}{more}"


_OWN = """# A benchmark of your own, as a file

You can turn a folder of your own into a benchmark. `gate-runner new FOLDER` looks at the folder and prints the form
that it recognises, with counts and anything odd. If all of it could be read, it writes `FOLDER/benchmark.toml`;
`--dry-run` writes nothing. `gate-runner run FOLDER/benchmark.toml --encoder …` runs it like any other benchmark: with
intervals, image-blind baseline, resumption, `compare` and `report`. `gate-runner run --data FOLDER` does both.

These forms are recognised:

- folders of classes, of images or clips, and Hugging Face's `imagefolder`;
- tables of labels, tags, numbers, questions, captions, class maps and minimal pairs;
- COCO, Pascal VOC and YOLO as they are distributed, and images next to class maps;
- folders that `datasets` saved;
- CLIP_benchmark's WebDataset shards. `new FOLDER --fetch wds/NAME` fetches such a set from the hub first.

For captions, `--task zero-shot-retrieval` writes a benchmark that
[ranks captions and images](how-to/score-retrieval.md) without training.

If there are several tables, `--table` names the one to use. `--target species`
names the column to be predicted. Without a test split, the validation split is scored.

The file is yours to edit:

```toml
[benchmark]
id = "birds"
task = "image-classification"

[data]
kind = "table"
table = "birds.csv"
image = "file"
target = "species"

[splits]
group = "camera"      # no camera on both sides

[classes.shown]
n01530575 = "brambling"
```

Folders in folders are groups of classes: `animals/cat` and `animals/dog` are classes of the group `animals`, and a
report also shows how often the group is right. Grades and counts, whose order matters, are numbers: `task =
"regression"`. There is no head for orders, because a cumulative link has about the error of rounded ridge regression
(`packages/gate-runner/benchmarks/ordinal.py`, mean absolute error on test):

| head | diabetic stand-in, micro-clip | the same, lite:0 | counts of animals, micro-clip | the same, lite:0 |
|---|---|---|---|---|
| ridge regression, rounded | 0.427 | 0.243 | 1.085 | 0.685 |
| cumulative link | 0.413 | 0.253 | 1.105 | 0.725 |
| classification | 0.540 | 0.330 | 1.235 | 0.860 |

Paths are relative to the file. Missing splits are drawn from the seed, by class or by whole groups: validation from
training, and test if there is none. A class of at least three groups is in all three splits, and training has
every class. The note gives the shares if they differ for that. Rows of one file are such a group: an image with several
questions is in one split. Nothing else is guessed, and every path is checked before anything is computed.

Images of one burst or one camera are nearly alike: in two splits, they make the score too good. Folders of classes do
not say which belong together. List the images in a table with a column for the camera, and name it as `group`.
Classes with few images weigh as little as they are: `--setting class_weight=balanced` weighs all classes equally.

An image that cannot be read fails the benchmark. `--setting skip_unreadable=true` reads all images first, leaves the
unreadable ones out, lists them, and puts their number into the result. It takes another `--output` than a run without
it: the scores are of other images.
`gate-runner check-data FOLDER --deep` decodes all of them without a run, and lists those that are in two splits.

`gate-runner check-data FOLDER --near` finds near copies: images stored again as JPEG, resized, cropped by up to 10 %
of a side, mirrored, brighter or darker. It lists the groups, those across splits first; `--page FILE` shows them as
images. A run's note has the number of test images with such a copy in training or validation. With more than 10,000
images it does so if `check-data --near` has read them before. `--setting drop_near=true` leaves these copies
out of training and validation, and the note has their number. Of 50 copies planted among 5,000 synthetic images it
finds 50, and no other pair ([figures](../packages/gate-runner/benchmarks/results/near_copies.json), CPU). Among
CIFAR-10's images of 32 pixels it misses 4 of 10 copies of half the size. Images that show one colour are not compared.
The note also gives the score without the test images that have such a copy. Images with boxes or class maps are also
compared.

`--encoder SPEC` also compares features: a pair with similar features needs no fine detail in common. The
threshold is set on your own images: copies of 100 of them are planted, and 5 % of these may stay below it. Look at
such groups: `drop_near` goes by the hash alone. With `lite:0`, 96 of 100 copies planted among 600 of CIFAR-10's images
are found, instead of 93, and no other pair. It reads 8 images a second, not 338
([figures](../packages/gate-runner/benchmarks/results/near_copies.json), CPU).

## Scores by slice, and groups that belong together

`[slices]` names what test samples are sliced by: columns of the table, levels of folders, EXIF fields. Each slice has a
score with an interval, and is tested against all other samples by permutation; p is corrected over all slices (Holm).
The worst slice has an interval that accounts for its having been chosen. `report` has a section, `report --format
slices` a CSV file, and `compare` tests two runs within each slice. A column with a value for nearly every sample is
refused; a slice of fewer than 5 samples has a score, and no test. With a group, it takes 5 groups: by the group's own
column, slices have scores alone.

With `[splits] group`, the headline's interval and all tests draw whole groups: 500 images of one camera say less than
500 of many. The result's note says so. In 1,000 draws of
[simulated answers](../packages/gate-runner/benchmarks/results/slices.json):

RATES

`report RUN --look` also looks for slices that no column names: wrong answers of a random half of the test images are
clustered by the encoder's features, and each neighbourhood is tested on the other half. They are marked exploratory. On
1,000 draws without any such slice, ERRORS of them have one that is called worse at 5 %
([figures](../packages/adapters/benchmarks/results/error_slices.json)).

| intervals for the mean over cameras | draw cameras | draw images |
|---|---|---|
CAMERAS

## Find and correct wrong labels

```bash
gate-runner run FOLDER/benchmark.toml --setting folds=5    # every image is tested by a head that did not see it
gate-runner audit page RUN --data-root FOLDER              # audit.html: keys accept or reject each suspect
gate-runner audit apply labels-ID.csv FOLDER --run RUN     # corrects the labels, prints the accuracy before and after
```

`audit page` shows the images whose label may be wrong, with what was predicted. Keys: `a` accepts the prediction, `r`
rejects it, `o` gives another class, `x` leaves the image out, `u` takes a decision back. The page downloads a table of
the decisions. `audit apply` writes `corrections.csv` next to `benchmark.toml` and names it under `[data]`. Your own
files stay as they are. `--table FILE` writes a corrected CSV, TSV or JSON-lines table instead, `--dry-run` nothing.
`report RUN --format suspects` lists the same images as CSV. With `[splits] group`, folds keep groups whole.

A suspect is an image for which another class is predicted, with at least the mean probability that this class has in
images with its label (confident learning). With cleanlab (`pip install 'gate-runner[cleanlab]'`) the page and the
table give its vote, too. On the candidates that
[cleanlab/label-errors](https://github.com/cleanlab/label-errors) had five people vote on, with its probabilities
([figures](../packages/gate-runner/benchmarks/results/label_audit.json)):

AUDIT

Two of ten suspects of CIFAR-10 have a wrong label by these votes: look before you correct. A wrong label that the head
predicts is not a suspect, so a corrected accuracy can only rise.

An editor that reads JSON schemas takes the output of `gate-runner new --schema`.

Every field:
"""


def _audited() -> str:
    """What the benchmark of label audits measured, as a table."""
    path = DOCS.parent / "packages" / "gate-runner" / "benchmarks" / "results" / "label_audit.json"
    measured = json.loads(path.read_text(encoding="utf-8"))
    lines = ["| data | candidates by | voted on | wrong | precision (95 %) | of the first 25 |", "|---" * 6 + "|"]
    for name, row in measured.items():
        if "ours" not in row:
            continue
        for tool, shown in (("ours", "gate-runner"), ("cleanlab, prune_by_noise_rate", "cleanlab, its defaults")):
            about = row[tool]
            low, high = about["interval"]
            first = about.get("precision_of_first_25")
            lines.append(
                f"| {name} | {shown} | {about['voted']} | {about['wrong']} | {about['precision']:.3f} "
                f"({low:.3f} to {high:.3f}) | {'–' if first is None else f'{first:.2f}'} |"
            )
    return "\n".join(lines)


def _simulated() -> dict[str, str]:
    """What the benchmark of slices and clusters measured, as tables."""
    path = DOCS.parent / "packages" / "gate-runner" / "benchmarks" / "results" / "slices.json"
    measured = json.loads(path.read_text(encoding="utf-8"))
    cameras = [
        f"| {name} | {row['cluster_interval_covers']:.1%} | {row['plain_interval_covers']:.1%} |"
        for name, row in measured["cameras"].items()
    ]
    heads = ["| six slices | worst slice's interval covers | family-wise error at 5 % |", "|---|---|---|"]
    rates = [
        f"| {name} | {row['worst_slice_covers']:.1%} | "
        + (f"{row['family_wise_error']:.1%} |" if "family_wise_error" in row else "– |")
        for name, row in measured["slices"].items()
    ]
    path = DOCS.parent / "packages" / "adapters" / "benchmarks" / "results" / "error_slices.json"
    errors = f"{json.loads(path.read_text(encoding='utf-8'))['family_wise_error']:.1%}"
    return {"RATES": "\n".join([*heads, *rates]), "CAMERAS": "\n".join(cameras), "ERRORS": errors}


def own_page() -> str:
    """All fields of a benchmark's file."""
    text = _OWN
    for mark, measured in {**_simulated(), "AUDIT": _audited()}.items():
        text = text.replace(mark, measured)
    lines = [text]
    for name, field in OwnBenchmark.model_fields.items():
        model: Any = field.annotation
        if not hasattr(model, "model_fields"):
            lines += [f"## `[{name}]`", "", _cell(field.description or ""), ""]
            continue
        lines += [f"## `[{name}]`", "", (model.__doc__ or "").partition(": ")[2], ""]
        lines += ["| field | type | default | meaning |", "|---|---|---|---|"]
        shape = model.model_json_schema()["properties"]
        for key, entry in model.model_fields.items():
            default = "required" if entry.is_required() else f"`{json.dumps(shape[key].get('default'))}`"
            lines.append(f"| `{key}` | {_type(shape[key])} | {default} | {_cell(entry.description or '')} |")
        lines.append("")
    return "\n".join(lines)


def _type(shape: dict[str, Any]) -> str:
    shape = shape.get("anyOf", [shape])[0]
    if values := shape.get("enum") or shape.get("examples"):
        return ", ".join(f"`{value}`" for value in values)
    if shape["type"] == "array":
        return f"list of {shape['items']['type']}s"
    return {"object": "table", "number": "number", "integer": "whole number"}.get(shape["type"], str(shape["type"]))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


PAGES = {
    "gate.md": gate_page,
    "own-data.md": own_page,
    "coop.md": coop_page,
    "zero-shot-segmentation.md": segmentation_page,
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
