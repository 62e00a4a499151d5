"""An encoder adapted to one's own labelled images: by its texts alone, by a head on its features, or as a whole."""

from __future__ import annotations

from gate_runner.adaptation.adapted import Adapted
from gate_runner.adaptation.finetune import Finetune
from gate_runner.adaptation.images import OwnImages, find_images
from gate_runner.adaptation.predicting import Prediction
from gate_runner.adaptation.probe import Probe
from gate_runner.adaptation.saved import Head, load_head, save_head
from gate_runner.adaptation.work import Method
from gate_runner.adaptation.zeroshot import ZeroShot

__all__ = [
    "Adapted",
    "Finetune",
    "Head",
    "Method",
    "OwnImages",
    "Prediction",
    "Probe",
    "ZeroShot",
    "find_images",
    "load_head",
    "save_head",
]
