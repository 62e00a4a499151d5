"""The JSON schema for editors and the page of all fields, made from what the reader checks against."""

from __future__ import annotations

import json
from typing import Any

from gate_data.own.spec import OwnBenchmark

_INTRODUCTION = """# A benchmark of your own, as a file

`gate-runner new FOLDER` looks at a folder, says what it takes it for, with counts and with what looks odd, and writes
`FOLDER/benchmark.toml` when all of it could be read (`--dry-run` writes nothing);
`gate-runner run FOLDER/benchmark.toml --encoder …` runs it like any other benchmark: with intervals, chance,
resumption, `compare` and `report`. `gate-runner run --data FOLDER` does both. It knows folders of classes (pictures or
clips), tables of labels, tags, numbers, questions, captions, class maps and minimal pairs, COCO, Pascal VOC and YOLO as
they are distributed, pictures beside class maps, Hugging Face's `imagefolder` and what `datasets` saved. Of several
tables, `--table` names the one that counts. Without a test split, what is for validation is scored.

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
report says how often the group is right, too. Grades and counts, whose order means something, are numbers: `task =
"regression"`. A head for orders was measured and is not in (`packages/gate-runner/benchmarks/ordinal.py`, two tables
and two encoders, mean absolute error on test): ridge regression, rounded, has 0.427, 0.243, 1.085 and 0.685, a
cumulative link 0.407, 0.253, 1.110 and 0.725, classification 0.540, 0.330, 1.225 and 0.860.

Paths are relative to the file. What no split gives is drawn: validation from training, test where there is none; by
class, or by whole groups, from the seed. Nothing else is guessed when it runs, and every path is looked at before
anything is computed. A picture that cannot be read fails the benchmark; `--setting skip_unreadable=true` looks at
all of them first, leaves such out, lists them, and the result says how many there were.
`gate-runner check-data FOLDER --deep` decodes all of them without a run, and says which lie in two splits.
An editor that reads JSON schemas takes the output of `gate-runner new --schema`.

Every field:
"""


def schema() -> dict[str, Any]:
    """The JSON schema of a benchmark's file.

    Example:
        >>> sorted(schema()["required"])
        ['benchmark', 'data']
    """
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **OwnBenchmark.model_json_schema()}


def page() -> str:
    """The page of all fields, in Markdown.

    Example:
        >>> "| `target` |" in page()
        True
    """
    lines = [_INTRODUCTION]
    for name, field in OwnBenchmark.model_fields.items():
        model: Any = field.annotation
        if not hasattr(model, "model_fields"):
            lines += [f"## `[{name}]`", "", f"{field.description}", ""]
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
    return text.replace("|", "\\|")
