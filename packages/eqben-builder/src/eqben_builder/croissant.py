"""Croissant metadata, with its fields for responsible AI, beside a folder of pairs.

Source: MLCommons' Croissant 1.0 and Croissant RAI 1.0; `mlcroissant` reads and validates what this writes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from eqben_builder.building.folder import DESCRIPTION, PAIRS

#: The specification's own context; our columns, what they mean, and how each subset came to be.
_TEXTS: dict[str, Any] = json.loads(files("eqben_builder").joinpath("croissant.json").read_text(encoding="utf-8"))


def write_croissant(folder: str | Path, manifest: Mapping[str, Any]) -> Path:
    """Describe a finished build as JSON-LD: its files with their SHA-256, its columns, and how it was collected.

    Example:
        >>> import tempfile
        >>> from eqben_builder.building import build
        >>> from eqben_builder.micro.builder import MicroBuilder
        >>> folder = tempfile.mkdtemp()
        >>> path = write_croissant(folder, build(MicroBuilder(aspects=["count"], size=32), folder, pairs=1))
        >>> json.loads(path.read_text())["rai:dataCollectionType"]
        ['Synthetic']
    """
    content = (Path(folder) / PAIRS).read_bytes()
    subset = str(manifest["subset"])
    how, collected, personal = _TEXTS["origins"].get(
        subset, ("Other", f"Made by the builder {subset!r}.", "Not looked for.")
    )
    counts = ", ".join(f"{number} {aspect}" for aspect, number in manifest["counts"].items())
    stem = Path(PAIRS).stem
    table = {
        "@type": "cr:FileObject",
        "@id": PAIRS,
        "name": PAIRS,
        "description": f"{len(content.splitlines())} rows",
        "contentUrl": PAIRS,
        "contentSize": f"{len(content)} B",
        "encodingFormat": "application/jsonlines",
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    pictures = [
        {
            "@type": "cr:FileSet",
            "@id": f"pictures-{number}",
            "name": f"pictures-{number}",
            "description": f"picture files images/**/*.{ending}, named from the tables",
            "encodingFormat": f"image/{kind}",
            "includes": f"images/**/*.{ending}",
        }
        for number, (ending, kind) in enumerate((("png", "png"), ("jpg", "jpeg")))
    ]
    fields = [
        {
            "@type": "cr:Field",
            "@id": f"{stem}/{column}",
            "name": column,
            "description": meaning,
            "dataType": "sc:Text",
            "source": {"fileObject": {"@id": PAIRS}, "extract": {"column": column}},
        }
        for column, meaning in _TEXTS["columns"].items()
    ]
    described: dict[str, Any] = {
        "@context": _TEXTS["context"],
        "@type": "sc:Dataset",
        "conformsTo": ["http://mlcommons.org/croissant/1.0", "http://mlcommons.org/croissant/RAI/1.0"],
        "name": f"eqben-{subset}",
        "description": f"{manifest['pairs']} pairs of pictures and captions that differ in one thing ({counts}), each "
        f"with a certificate. Hash {manifest['hash']}.",
        "license": " and ".join(manifest["licences"]) or "not stated",
        "version": str(manifest["versions"]["eqben-builder"]),
        "distribution": [table, *pictures],
        "recordSet": [{"@type": "cr:RecordSet", "@id": stem, "name": stem, "field": fields}],
        "rai:dataCollection": f"{collected} Parameters: {json.dumps(manifest['parameters'], sort_keys=True)}",
        "rai:dataCollectionType": [how],
        "rai:dataUseCases": [
            "Measuring whether image-text similarities follow small changes; no training set of a product."
        ],
        "rai:dataBiases": ["Captions come from templates or from the source's annotations: few words, English only."],
        "rai:dataLimitations": [
            "One change for each pair; what else a caption might say of the pictures was not annotated."
        ],
        "rai:personalSensitiveInformation": [personal],
    }
    target = Path(folder) / DESCRIPTION
    target.write_text(json.dumps(described, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return target
