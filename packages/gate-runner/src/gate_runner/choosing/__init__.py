"""Which encoder to take for some pictures: runs, paired tests and costs in one answer."""

from gate_runner.choosing.choice import Candidate, Choice, encoders_in
from gate_runner.choosing.costs import Costs
from gate_runner.choosing.rounds import MANY, choose

__all__ = ["MANY", "Candidate", "Choice", "Costs", "choose", "encoders_in"]
