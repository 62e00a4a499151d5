"""The public names, each from its module: read by type checkers, and when a name is first used."""

# ruff: noqa: TID252  # lazy_loader reads relative imports alone

from .blind import Difference as Difference
from .blind import blind_outcomes as blind_outcomes
from .blind import paired_difference as paired_difference
from .features import Features as Features
from .features import Similarities as Similarities
from .features import encode_rows as encode_rows
from .features import similarities as similarities
from .files import Shape as Shape
from .files import SuiteRow as SuiteRow
from .galleries import Gallery as Gallery
from .galleries import Positives as Positives
from .galleries import read_gallery as read_gallery
from .micro import micro_gallery as micro_gallery
from .micro import micro_suite as micro_suite
from .objects import COLA as COLA
from .objects import ObjectGallery as ObjectGallery
from .objects import object_table as object_table
from .objects import read_objects as read_objects
from .orders import draw_orders as draw_orders
from .orders import order_captions as order_captions
from .outcomes import Outcome as Outcome
from .outcomes import main_outcome as main_outcome
from .outcomes import outcomes_of as outcomes_of
from .published import Published as Published
from .published import published_scores as published_scores
from .published import published_table as published_table
from .registry import SUITES as SUITES
from .retrieval import GalleryLine as GalleryLine
from .retrieval import GalleryTable as GalleryTable
from .retrieval import RetrievalScores as RetrievalScores
from .retrieval import encode_gallery as encode_gallery
from .retrieval import gallery_table as gallery_table
from .retrieval import retrieval_scores as retrieval_scores
from .suite import Average as Average
from .suite import Pooled as Pooled
from .suite import Suite as Suite
from .suite import SuiteData as SuiteData
from .suite import Without as Without
from .suite import read_suite as read_suite
from .table import SuiteLine as SuiteLine
from .table import SuiteTable as SuiteTable
from .table import suite_table as suite_table
