"""Croissant metadata, with its fields for responsible AI, beside the data sets that commands here make.

Source: MLCommons' Croissant 1.0 and Croissant RAI 1.0; ``mlcroissant`` reads and validates what this writes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NAME = "croissant.json"
_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
"""The specification's own."""


@dataclass(frozen=True)
class Described:
    """A data set in a folder.

    Args:
        name: of the data set.
        description: a sentence or two.
        licence: an SPDX identifier, an address, or words.
        version: of what made it.
        tables: files of JSON lines below the folder, each with its columns: name to what stands there.
        pictures: patterns of picture files below the folder.
        responsible: RAI properties without their prefix: ``dataCollection``, ``dataBiases``, ``dataLimitations``, ….

    Example:
        >>> Described("pairs", "Made pairs.", "CC0-1.0", "0.2.0", {"pairs.jsonl": {"id": "the pair's id"}}).name
        'pairs'
    """

    name: str
    description: str
    licence: str
    version: str
    tables: Mapping[str, Mapping[str, str]]
    pictures: Sequence[str] = ()
    responsible: Mapping[str, str | Sequence[str]] = field(default_factory=dict)


def write_croissant(folder: Path, dataset: Described) -> Path:
    """Describe a folder's files, with their SHA-256 and their columns, as JSON-LD.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "a.jsonl").write_text('{"id": 1}')
        >>> dataset = Described("a", "One row.", "CC0-1.0", "1.0.0", {"a.jsonl": {"id": "a number"}})
        >>> path = write_croissant(folder, dataset)
        >>> json.loads(path.read_text())["recordSet"][0]["field"][0]["@id"]
        'a/id'
    """
    files: list[dict[str, Any]] = []
    records: list[dict[str, Any]] = []
    for path, columns in dataset.tables.items():
        content = (folder / path).read_bytes()
        stem = Path(path).stem
        files.append(
            {
                "@type": "cr:FileObject",
                "@id": path,
                "name": path,
                "description": f"{len(content.splitlines())} rows",
                "contentUrl": path,
                "contentSize": f"{len(content)} B",
                "encodingFormat": "application/jsonlines",
                "sha256": hashlib.sha256(content).hexdigest(),
            }
        )
        records.append(
            {
                "@type": "cr:RecordSet",
                "@id": stem,
                "name": stem,
                "field": [
                    {
                        "@type": "cr:Field",
                        "@id": f"{stem}/{column}",
                        "name": column,
                        "description": meaning,
                        "dataType": "sc:Text",
                        "source": {"fileObject": {"@id": path}, "extract": {"column": column}},
                    }
                    for column, meaning in columns.items()
                ],
            }
        )
    for number, pattern in enumerate(dataset.pictures):
        files.append(
            {
                "@type": "cr:FileSet",
                "@id": f"pictures-{number}",
                "name": f"pictures-{number}",
                "description": f"picture files {pattern}, named from the tables",
                "encodingFormat": "image/jpeg" if pattern.endswith(".jpg") else "image/png",
                "includes": pattern,
            }
        )
    metadata: dict[str, Any] = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": ["http://mlcommons.org/croissant/1.0", "http://mlcommons.org/croissant/RAI/1.0"],
        "name": dataset.name,
        "description": dataset.description,
        "license": dataset.licence,
        "version": dataset.version,
        "distribution": files,
        "recordSet": records,
        **{
            f"rai:{key}": value if isinstance(value, str) else list(value) for key, value in dataset.responsible.items()
        },
    }
    target = folder / NAME
    target.write_text(json.dumps(metadata, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return target
