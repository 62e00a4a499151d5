"""EqSim: an equivariance loss for image-text encoders, with torch as its only dependency."""

from eqsim import functional
from eqsim.__about__ import __version__
from eqsim.close_pairs import Multinomial, TopK
from eqsim.cyclic import CyclicLoss
from eqsim.diagnostics import Diagnosis, diagnose
from eqsim.itm import EqSimITMLoss
from eqsim.loss import ClipEqSimLoss, EqSimLoss, SigLipEqSimLoss
from eqsim.pairs import PairLoss
from eqsim.pieces import backward_in_pieces
from eqsim.terms import build_loss

__all__ = [
    "ClipEqSimLoss",
    "CyclicLoss",
    "Diagnosis",
    "EqSimITMLoss",
    "EqSimLoss",
    "Multinomial",
    "PairLoss",
    "SigLipEqSimLoss",
    "TopK",
    "__version__",
    "backward_in_pieces",
    "build_loss",
    "diagnose",
    "functional",
]
