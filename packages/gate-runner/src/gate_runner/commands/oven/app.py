"""The commands of ``gate-runner oven``."""

from __future__ import annotations

import typer

from gate_runner.commands.oven.build import build
from gate_runner.commands.oven.calibrate import calibrate
from gate_runner.commands.oven.edit import add, compact, remove, update
from gate_runner.commands.oven.evaluate import evaluate
from gate_runner.commands.oven.export import export, shard
from gate_runner.commands.oven.generate import generate
from gate_runner.commands.oven.link import link
from gate_runner.commands.oven.make import make
from gate_runner.commands.oven.search import search
from gate_runner.commands.oven.train import answer, train

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
for command in (
    build,
    add,
    remove,
    update,
    compact,
    link,
    calibrate,
    search,
    make,
    train,
    answer,
    generate,
    shard,
    export,
):
    app.command()(command)
app.command("eval")(evaluate)
