"""Readers of the forms in which data sets are distributed: streams of references and labels, not of pixels."""

from __future__ import annotations

from gate_data.readers.clips import middles
from gate_data.readers.folders import Files, by_stem, classes_in, files_in, files_of_classes, first_of, place
from gate_data.readers.maps import IGNORED, ClassMap, ranked
from gate_data.readers.source import Clip, Cut, File, Member, Source, Stored, described
from gate_data.readers.splits import dealt, held_out, held_out_by_label, shuffled, spread
from gate_data.readers.tables import Row, last_pairs, lines, pairs, read_json, records, table

__all__ = [
    "IGNORED",
    "ClassMap",
    "Clip",
    "Cut",
    "File",
    "Files",
    "Member",
    "Row",
    "Source",
    "Stored",
    "by_stem",
    "classes_in",
    "dealt",
    "described",
    "files_in",
    "files_of_classes",
    "first_of",
    "held_out",
    "held_out_by_label",
    "last_pairs",
    "lines",
    "middles",
    "pairs",
    "place",
    "ranked",
    "read_json",
    "records",
    "shuffled",
    "spread",
    "table",
]
