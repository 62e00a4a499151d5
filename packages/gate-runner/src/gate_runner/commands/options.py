"""Options that several commands share, besides the settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gate_runner.terminal import echo

if TYPE_CHECKING:
    from gate_runner.runs.request import RunRequest

_FILES = "Settings, output"

Names = Annotated[
    list[str], typer.Argument(metavar="PACK|BENCHMARK...", help="What to run; see 'gate-runner ls packs'.")
]
SomeNames = Annotated[
    list[str] | None, typer.Argument(metavar="PACK|BENCHMARK...", help="What to run; see 'gate-runner ls packs'.")
]
EncoderSpec = Annotated[str, typer.Option("--encoder", help="Spec of the encoder; see 'gate-runner ls encoders'.")]
RunFolder = Annotated[Path | None, typer.Option("--output", help="Run folder; runs/ENCODER by default.")]
Runs = Annotated[
    list[Path], typer.Argument(metavar="RUN", help="Run folders; the first is what others are compared with.")
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="A TOML file of all of this, or a run folder to do again; options said here go before it.",
        rich_help_panel=_FILES,
    ),
]
Setting = Annotated[
    list[str] | None,
    typer.Option(
        "--setting",
        metavar="NAME=VALUE",
        help="Any other setting, e.g. wise_ft=0.5; gate-runner ls settings has them.",
        rich_help_panel=_FILES,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.", rich_help_panel=_FILES)]


def requested(
    context: typer.Context,
    config: Path | None,
    names: Sequence[str],
    encoder: str,
    output: Path | None,
    options: Mapping[str, Any],
    settings: Sequence[str] = (),
) -> RunRequest:
    """The request of a command: what was said, before what ``--config`` holds, before the defaults.

    ``settings`` are those of ``--setting``. An option that is one of these now works, with a warning, until 0.4.
    """
    from gate_runner.configuration import read_configuration, settings_in
    from gate_runner.runs.request import make_request
    from gate_runner.settings import DECLARED, Settings, flag_of
    from gate_runner.signatures import COMMAND_LINE

    sources = {name: context.get_parameter_source(name) for name in context.params}
    given_options = {name for name, source in sources.items() if source is not None and source.name != "DEFAULT"}
    values = settings_in(settings)
    if config is None:
        changed = Settings().changed(**{**options, **values})
        request = make_request(list(names), encoder, output=output, settings=changed)
    else:
        held = read_configuration(config, encoder=encoder if "encoder" in given_options else None)
        own = {name: value for name, value in options.items() if name in given_options}
        changed = Settings().changed(**{**COMMAND_LINE, **held.options, **own, **values})
        listed = list(names) or list(held.names)
        request = make_request(listed, held.encoder or encoder, output=output or held.output, settings=changed)
    for name in options:
        if name in given_options and not DECLARED[name].common:
            echo(f"{flag_of(name)} is --setting {name}=… now, and goes in 0.4", err=True)
    return request
