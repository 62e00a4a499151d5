"""Tuning of heads on cached features, with test labels out of reach."""

from vision_adapters.tuning.crossed import CrossValidated, cross_validate
from vision_adapters.tuning.data import HeldOut, Tuned, TuningData, tuning_data
from vision_adapters.tuning.elevater import tune_elevater
from vision_adapters.tuning.folds import Fold, make_folds
from vision_adapters.tuning.methods import (
    BALANCEABLE,
    METHODS,
    Knowledge,
    LinearProbe,
    linear_probe,
    select_knowledge,
    tune,
)

__all__ = [
    "BALANCEABLE",
    "METHODS",
    "CrossValidated",
    "Fold",
    "HeldOut",
    "Knowledge",
    "LinearProbe",
    "Tuned",
    "TuningData",
    "cross_validate",
    "linear_probe",
    "make_folds",
    "select_knowledge",
    "tune",
    "tune_elevater",
    "tuning_data",
]
