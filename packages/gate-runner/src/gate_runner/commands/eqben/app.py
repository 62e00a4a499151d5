"""The sub-app and its commands, one module each."""

from __future__ import annotations

import typer

from gate_runner.commands.eqben.build import build
from gate_runner.commands.eqben.convert import convert
from gate_runner.commands.eqben.review import apply_votes, review
from gate_runner.commands.eqben.score import score
from gate_runner.commands.eqben.verify import verify

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.command()(build)
app.command()(verify)
app.command()(score)
app.command()(review)
app.command("apply-votes")(apply_votes)
app.command()(convert)
