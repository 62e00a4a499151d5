"""Croissant metadata, with its fields for responsible AI, beside the questions that `oven make` writes.

Source: MLCommons' Croissant 1.0 and Croissant RAI 1.0; `mlcroissant` reads and validates what this writes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

_COLUMNS = {
    "data_id": "of the question",
    "image_id": "of the picture, in the labels that were given",
    "question": "asked of the picture",
    "entity_id": "of the answer",
    "entity_text": "name of the answer",
    "data_split": "train_seen, or a seen or unseen split",
}


def write_croissant(folder: Path, report: Mapping[str, Any], licence: str) -> Path:
    """Describe a folder of entity questions in OVEN's files, with their SHA-256 and their columns, as JSON-LD.

    Args:
        folder: what `make_benchmark` has written.
        report: what it has returned.
        licence: of pictures and labels: an SPDX identifier, an address, or words.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "entity_train.jsonl").write_text('{"data_id": "1"}')
        >>> splits = {"entity_train_seen": {"examples": 1}}
        >>> report = {"splits": splits, "knowledge_base": "k", "rules": {}, "ambiguous_labels": 0}
        >>> path = write_croissant(folder, report, "CC0-1.0")
        >>> json.loads(path.read_text())["recordSet"][0]["field"][0]["@id"]
        'entity_train/data_id'
    """
    parts = {key.partition("_")[0] for key in report["splits"]}
    tables = [file for file in sorted(folder.glob("*.jsonl")) if file.name.partition("_")[0] in parts]
    examples = sum(counts["examples"] for counts in report["splits"].values())
    metadata: dict[str, Any] = {
        "@context": json.loads(files(__package__).joinpath("croissant.json").read_text(encoding="utf-8")),
        "@type": "sc:Dataset",
        "conformsTo": ["http://mlcommons.org/croissant/1.0", "http://mlcommons.org/croissant/RAI/1.0"],
        "name": "entity-questions",
        "description": f"{examples} questions about pictures whose answers are entities of a knowledge base, in OVEN's "
        f"form. Knowledge base {report['knowledge_base']}.",
        "license": licence,
        "version": "1.0.0",
        "distribution": [_file(table) for table in tables],
        "recordSet": [_records(table) for table in tables],
        "rai:dataCollection": "Labels of pictures were linked to entities by name; questions come from templates by "
        f"super-category. Rules: {json.dumps(report['rules'], sort_keys=True)}",
        "rai:dataCollectionType": ["Secondary Data Analysis"],
        "rai:dataAnnotationProtocol": "No person annotated anything; links.jsonl says how each label was linked.",
        "rai:dataUseCases": ["Measuring how well entities are named that training did not show."],
        "rai:dataBiases": [
            (
                "Which entities occur depends on the labelled pictures and on the knowledge base's names; "
                f"{report['ambiguous_labels']} labels fit several entities."
            )
        ],
        "rai:dataLimitations": ["A link by name can be wrong; pictures are named by their ids and do not lie here."],
        "rai:personalSensitiveInformation": ["That of the labelled pictures, which was not looked for."],
    }
    target = folder / "croissant.json"
    target.write_text(json.dumps(metadata, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return target


def _file(table: Path) -> dict[str, Any]:
    content = table.read_bytes()
    return {
        "@type": "cr:FileObject",
        "@id": table.name,
        "name": table.name,
        "description": f"{len(content.splitlines())} rows",
        "contentUrl": table.name,
        "contentSize": f"{len(content)} B",
        "encodingFormat": "application/jsonlines",
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def _records(table: Path) -> dict[str, Any]:
    fields = [
        {
            "@type": "cr:Field",
            "@id": f"{table.stem}/{column}",
            "name": column,
            "description": meaning,
            "dataType": "sc:Text",
            "source": {"fileObject": {"@id": table.name}, "extract": {"column": column}},
        }
        for column, meaning in _COLUMNS.items()
    ]
    return {"@type": "cr:RecordSet", "@id": table.stem, "name": table.stem, "field": fields}
