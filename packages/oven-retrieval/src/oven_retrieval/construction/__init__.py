"""Building a benchmark in OVEN's form from labelled images."""

from oven_retrieval.construction.linking import link_labels
from oven_retrieval.construction.make import make_benchmark
from oven_retrieval.construction.screening import LabelledImage, read_labels
from oven_retrieval.construction.splits import SplitRules

__all__ = ["LabelledImage", "SplitRules", "link_labels", "make_benchmark", "read_labels"]
