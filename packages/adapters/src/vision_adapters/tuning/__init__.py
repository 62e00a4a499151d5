"""Tuning of heads on cached features, with test labels out of reach."""

from vision_adapters.tuning.data import HeldOut, Tuned, TuningData, tuning_data
from vision_adapters.tuning.elevater import tune_elevater
from vision_adapters.tuning.folds import Fold, make_folds
from vision_adapters.tuning.methods import METHODS, Knowledge, select_knowledge, tune

__all__ = [
    "METHODS",
    "Fold",
    "HeldOut",
    "Knowledge",
    "Tuned",
    "TuningData",
    "make_folds",
    "select_knowledge",
    "tune",
    "tune_elevater",
    "tuning_data",
]
