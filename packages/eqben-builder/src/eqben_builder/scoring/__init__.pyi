"""The public names, each from its module: read by type checkers, and when a name is first used."""

# ruff: noqa: TID252  # lazy_loader reads relative imports alone

from .blind import blind_scores as blind_scores
from .caption_order import CaptionOrder as CaptionOrder
from .caption_order import caption_order_scores as caption_order_scores
from .caption_order import parse_order as parse_order
from .caption_order import side_by_side as side_by_side
from .grounding import Grounding as Grounding
from .grounding import ground_boundary as ground_boundary
from .grounding import grounding_accuracy as grounding_accuracy
from .intervals import Share as Share
from .open_clip_encoder import OpenClipEncoder as OpenClipEncoder
from .score_files import read_scores as read_scores
from .similarity import dual_similarities as dual_similarities
from .similarity import fusion_similarities as fusion_similarities
from .table import CHANCE as CHANCE
from .table import ScoreTable as ScoreTable
from .table import WinogroundScores as WinogroundScores
from .table import equivariance_scores as equivariance_scores
from .table import score_table as score_table
from .table import winoground_scores as winoground_scores
from .valse import ValseScores as ValseScores
from .valse import valse_scores as valse_scores
