"""The public names, each from its module: read by type checkers, and when a name is first used."""

# ruff: noqa: TID252  # lazy_loader reads relative imports alone

from .blind import blind_scores as blind_scores
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
