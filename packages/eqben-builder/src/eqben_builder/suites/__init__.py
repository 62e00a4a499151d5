"""Compositional suites from their original files: questions, measures, blind lines, averages, published scores."""

from eqben_builder.suites.blind import Difference, blind_outcomes, paired_difference
from eqben_builder.suites.features import Features, Similarities, encode_rows, similarities
from eqben_builder.suites.files import Shape, SuiteRow
from eqben_builder.suites.galleries import Gallery, Positives, read_gallery
from eqben_builder.suites.gallery_table import (
    GalleryLine,
    GalleryTable,
    RetrievalScores,
    encode_gallery,
    fold_scores,
    gallery_table,
    retrieval_scores,
)
from eqben_builder.suites.micro import micro_gallery, micro_suite
from eqben_builder.suites.objects import COLA, ObjectGallery, object_table, read_objects
from eqben_builder.suites.orders import draw_orders, order_captions
from eqben_builder.suites.outcomes import Outcome, main_outcome, outcomes_of
from eqben_builder.suites.published import Published, published_scores, published_table
from eqben_builder.suites.registry import SUITES
from eqben_builder.suites.suite import Average, Pooled, Suite, SuiteData, Without, read_suite
from eqben_builder.suites.table import SuiteLine, SuiteTable, suite_table

__all__ = [
    "COLA",
    "SUITES",
    "Average",
    "Difference",
    "Features",
    "Gallery",
    "GalleryLine",
    "GalleryTable",
    "ObjectGallery",
    "Outcome",
    "Pooled",
    "Positives",
    "Published",
    "RetrievalScores",
    "Shape",
    "Similarities",
    "Suite",
    "SuiteData",
    "SuiteLine",
    "SuiteRow",
    "SuiteTable",
    "Without",
    "blind_outcomes",
    "draw_orders",
    "encode_gallery",
    "encode_rows",
    "fold_scores",
    "gallery_table",
    "main_outcome",
    "micro_gallery",
    "micro_suite",
    "object_table",
    "order_captions",
    "outcomes_of",
    "paired_difference",
    "published_scores",
    "published_table",
    "read_gallery",
    "read_objects",
    "read_suite",
    "retrieval_scores",
    "similarities",
    "suite_table",
]
