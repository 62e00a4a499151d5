"""The public names, each from its module: read by type checkers, and when a name is first used."""

# ruff: noqa: TID252  # lazy_loader reads relative imports alone

from .__about__ import __version__ as __version__
from .formats import PairRow as PairRow
from .formats import read_any as read_any
from .formats import write_as as write_as
from .scoring import WinogroundScores as WinogroundScores
from .scoring import blind_scores as blind_scores
from .scoring import dual_similarities as dual_similarities
from .scoring import equivariance_scores as equivariance_scores
from .scoring import fusion_similarities as fusion_similarities
from .scoring import read_scores as read_scores
from .scoring import score_table as score_table
from .scoring import valse_scores as valse_scores
from .scoring import winoground_scores as winoground_scores
