"""What Croissant's metadata say of the data sets that ``oven make`` writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from oven_retrieval.construction.croissant import Described

_QUESTION = {
    "data_id": "of the question",
    "image_id": "of the picture, in the labels that were given",
    "question": "asked of the picture",
    "entity_id": "of the answer",
    "entity_text": "name of the answer",
    "data_split": "train_seen, or a seen or unseen split",
}


def of_questions(folder: Path, report: Mapping[str, Any], licence: str) -> Described:
    """A folder of entity questions in OVEN's files."""
    named = sorted({key.rpartition("_")[0].partition("_")[0] for key in report["splits"]})
    files = sorted(path.name for path in folder.glob("*.jsonl") if path.name.partition("_")[0] in named)
    examples = sum(counts["examples"] for counts in report["splits"].values())
    return Described(
        name="entity-questions",
        description=f"{examples} questions about pictures whose answers are entities of a knowledge base, in OVEN's "
        f"form. Knowledge base {report['knowledge_base']}.",
        licence=licence,
        version="1.0.0",
        tables=dict.fromkeys(files, _QUESTION),
        responsible={
            "dataCollection": "Labels of pictures were linked to entities by name; questions come from templates by "
            f"super-category. Rules: {json.dumps(report['rules'], sort_keys=True)}",
            "dataCollectionType": ["Secondary Data Analysis"],
            "dataAnnotationProtocol": "No person annotated anything; links.jsonl says how each label was linked.",
            "dataUseCases": ["Measuring how well entities are named that training did not show."],
            "dataBiases": [
                (
                    "Which entities occur depends on the labelled pictures and on the knowledge base's names; "
                    f"{report['ambiguous_labels']} labels fit several entities."
                )
            ],
            "dataLimitations": ["A link by name can be wrong; pictures are named by their ids and do not lie here."],
            "personalSensitiveInformation": ["That of the labelled pictures, which was not looked for."],
        },
    )
