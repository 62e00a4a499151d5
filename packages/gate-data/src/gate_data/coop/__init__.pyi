"""The public names, each from its module: read by type checkers, and when a name is first used."""

# ruff: noqa: TID252  # lazy_loader reads relative imports alone

from .cards import COOP as COOP
from .cards import DOMAINS as DOMAINS
from .cards import ELEVEN as ELEVEN
from .cards import CoopSheet as CoopSheet
from .draws import DrawnShots as DrawnShots
from .draws import draw_shots as draw_shots
from .lists import DividedImages as DividedImages
from .lists import read_split as read_split
from .made_up import write_made_up as write_made_up
from .protocols import PROTOCOLS as PROTOCOLS
from .protocols import FewShotData as FewShotData
from .protocols import load_few_shot as load_few_shot
