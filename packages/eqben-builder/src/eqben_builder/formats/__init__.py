"""Pairs on disk: one reader for every form that is known, one writer for each form that somebody loads."""

from eqben_builder.formats.convert import WRITERS, Source, detect, read_any, write_as
from eqben_builder.formats.folder import keep_pairs
from eqben_builder.formats.row import PairRow, Picture, encode_png, read_pictures

__all__ = [
    "WRITERS",
    "PairRow",
    "Picture",
    "Source",
    "detect",
    "encode_png",
    "keep_pairs",
    "read_any",
    "read_pictures",
    "write_as",
]
