"""EqSim: an equivariance loss for image-text encoders, with torch as its only dependency."""

from eqsim import functional
from eqsim.__about__ import __version__
from eqsim.close_pairs import Multinomial, TopK
from eqsim.loss import EqSimLoss

__all__ = ["EqSimLoss", "Multinomial", "TopK", "__version__", "functional"]
