"""Readers of the forms in which data sets are distributed: streams of references and labels, not of pixels.

Here is what the reader of a data set of one's own needs; the rest is in the modules.
"""

from __future__ import annotations

from gate_data.readers.folders import Files, by_stem, classes_in, files_in, files_of_classes, first_of, place
from gate_data.readers.maps import IGNORED, ClassMap
from gate_data.readers.source import Clip, Cut, Member, Stored, described
from gate_data.readers.splits import dealt, held_out
from gate_data.readers.tables import Row, lines, pairs, records, table

__all__ = [
    "IGNORED",
    "ClassMap",
    "Clip",
    "Cut",
    "Files",
    "Member",
    "Row",
    "Stored",
    "by_stem",
    "classes_in",
    "dealt",
    "described",
    "files_in",
    "files_of_classes",
    "first_of",
    "held_out",
    "lines",
    "pairs",
    "place",
    "records",
    "table",
]
