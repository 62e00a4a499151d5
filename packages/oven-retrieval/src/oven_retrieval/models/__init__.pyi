"""The public names, each from its module: read by type checkers, and when a name is first used."""

# ruff: noqa: TID252  # lazy_loader reads relative imports alone

from .clip2clip import Clip2Clip as Clip2Clip
from .clip2clip import Weights as Weights
from .clip2clip import grid_search as grid_search
from .contrastive import Entities as Entities
from .contrastive import Questions as Questions
from .contrastive import Recipe as Recipe
from .contrastive import train_dual as train_dual
from .dual import Clip2ClipModule as Clip2ClipModule
from .dual import ClipFusion as ClipFusion
from .questions import ImageFolder as ImageFolder
from .questions import Question as Question
from .questions import entity_images as entity_images
from .questions import hold_out as hold_out
from .questions import known_questions as known_questions
from .questions import read_questions as read_questions
from .run import TrainingOptions as TrainingOptions
from .run import train_model as train_model
from .trained import Tower as Tower
from .trained import open_model as open_model
from .trained import write_predictions as write_predictions
