"""Building a benchmark in OVEN's form from labelled images."""

from __future__ import annotations

from oven_retrieval.construction.labels import LabelledImage, read_labels
from oven_retrieval.construction.linking import Candidates, LabelLink, link_labels, name_overlap
from oven_retrieval.construction.make import make_benchmark
from oven_retrieval.construction.questions import TEMPLATES, make_question, read_templates
from oven_retrieval.construction.screening import Blocklist, label_problem, question_problem, read_blocklist, screen
from oven_retrieval.construction.splits import Example, SplitRules, split_examples

__all__ = [
    "TEMPLATES",
    "Blocklist",
    "Candidates",
    "Example",
    "LabelLink",
    "LabelledImage",
    "SplitRules",
    "label_problem",
    "link_labels",
    "make_benchmark",
    "make_question",
    "name_overlap",
    "question_problem",
    "read_blocklist",
    "read_labels",
    "read_templates",
    "screen",
    "split_examples",
]
