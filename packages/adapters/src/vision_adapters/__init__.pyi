"""The public names, each from its module: read by type checkers, and when a name is first used."""

# ruff: noqa: TID252  # lazy_loader reads relative imports alone

from .__about__ import __version__ as __version__
from .calibration import calibrate as calibrate
from .calibration import fit_temperature as fit_temperature
from .classifier import HeadClassifier as HeadClassifier
from .conformal import ConformalSets as ConformalSets
from .conformal import OpenWorld as OpenWorld
from .conformal import full_conformal_sets as full_conformal_sets
from .efficiency import performance_efficiency as performance_efficiency
from .fewshot import detection_indices as detection_indices
from .fewshot import elevater_indices as elevater_indices
from .fewshot import sample_episode as sample_episode
from .finetune import choose_weights as choose_weights
from .finetune import train_only as train_only
from .heads import AttentiveHead as AttentiveHead
from .heads import LinearHead as LinearHead
from .heads import RelationalHead as RelationalHead
from .heads import SegmentationHead as SegmentationHead
from .heads import TemporalHead as TemporalHead
from .heads import initial_head as initial_head
from .heads import language_head as language_head
from .heads import seeded as seeded
from .low_rank import add_lora as add_lora
from .low_rank import merge_lora as merge_lora
from .rows import Rows as Rows
from .rows import RowWriter as RowWriter
from .rows import SampleRows as SampleRows
from .rows import StoredRows as StoredRows
from .saved import load_head as load_head
from .saved import save_head as save_head
from .stems import PatchEncoder as PatchEncoder
from .training import FrozenFeatures as FrozenFeatures
from .training import ProbeInit as ProbeInit
from .training import Recipe as Recipe
from .training import TrainedEncoder as TrainedEncoder
from .training import fit as fit
from .training import fit_head as fit_head
from .training import gate_recipe as gate_recipe
from .training import wise_ft as wise_ft
from .tuning import METHODS as METHODS
from .tuning import HeldOut as HeldOut
from .tuning import transduce as transduce
from .tuning import tune as tune
from .tuning import tuning_data as tuning_data
