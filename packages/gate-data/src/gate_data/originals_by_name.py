"""Which reader each data set's own files have, by the data set's id; without torch."""

from __future__ import annotations

from gate_data.cards import ICINW, SHEETS
from gate_data.coop.cards import COOP
from gate_data.tables import read_table

ORIGINALS: dict[str, str] = {
    **{sheet.id: sheet.local for sheet in SHEETS.values()},
    **{sheet.id: f"gate_data.originals.icinw.{sheet.module}:{sheet.id.replace('-', '_')}" for sheet in ICINW.values()},
    **{f"odinw-{about['id']}": f"gate_data.originals.odinw:{about['id']}" for about in read_table("odinw")["sets"]},
    **{name: f"gate_data.coop.originals:{name.replace('-', '_')}" for name in COOP},
    "nyu-depth": "gate_data.originals.segmentation:nyu_depth",
    "voc20": "gate_data.originals.open_vocabulary:voc20",
    "voc21": "gate_data.originals.open_vocabulary:voc21",
    "context60": "gate_data.originals.open_vocabulary:context60",
    "coco-object": "gate_data.originals.open_vocabulary:coco_object",
    "chestxray14": "gate_data.originals.medical:chestxray14",
}
"""``module:name`` of its `gate_data.original_files.Originals`."""
PACKAGED = {
    "digits": "gate_data.packaged:digits",
    "mnist5000": "gate_data.packaged:mnist",
    "faces": "gate_data.packaged:faces",
}
"""Data sets that come with a library: ``module:name`` of a function from a request to data."""
