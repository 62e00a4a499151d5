"""Image-text encoders trained on pictures with captions: ``gate-runner finetune``."""

from gate_runner.finetuning.pairs import read_captioned
from gate_runner.finetuning.request import FinetuneRequest
from gate_runner.finetuning.training import finetune

__all__ = ["FinetuneRequest", "finetune", "read_captioned"]
