"""The command line ``prompts``: show, build, coverage, diversity. Needs the extra ``cli``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

try:
    import typer
except ImportError:
    raise ModuleNotFoundError("the command line needs typer: pip install 'knowledge-prompts[cli]'") from None

from wary_files.errors import line_of
from wary_files.folders import refuse_empty_paths
from wary_files.text import escape_output, printable

if TYPE_CHECKING:
    from knowledge_prompts import WordNet

ABOUT = "Class prompts with external knowledge: look at them, build them, count and embed them."
TextEncoders = Callable[[str, str], Callable[[list[str]], Any]]
"""From a name and a torch device to a function from texts to features ``[n, d]``."""

_UNSENT = ("max_tokens", "temperature", "stop")

Classes = Annotated[
    str, typer.Argument(help="A built-in set such as oxford-flower-102, a .txt file of class names, or a .json file.")
]
WordNetFolder = Annotated[
    Path | None, typer.Option(help="Folder with WordNet's database files; by default the usual places.")
]
NoWordNet = Annotated[bool, typer.Option("--no-wordnet", help="Do without WordNet.")]
Knowledge = Annotated[
    Path | None, typer.Option(help="Folder of ELEVATER's files, with external/ and gpt3/ in it.", show_default=False)
]

Sources = Annotated[
    list[str] | None,
    typer.Option("--source", help="NAME=PATH of a source, such as cupl=prompts.json; repeat it for several."),
]


def show(
    class_name: Annotated[str, typer.Argument(help="Any class name, such as sunflower.")],
    templates: Annotated[str, typer.Option(help="Built-in template set, or the path of your own.")] = "generic",
    wordnet_folder: WordNetFolder = None,
    knowledge: Knowledge = None,
    source: Sources = None,
    style: Annotated[str, typer.Option(help="Form of a prompt with knowledge: paper or toolkit.")] = "paper",
    limit: Annotated[int, typer.Option(help="Prompts to show per source.", min=1)] = 5,
) -> None:
    """Show a class's prompts with and without knowledge."""
    from knowledge_prompts import load_class_prompts, show_prompts
    from knowledge_prompts.prompts.prompt_set import check_style

    class_prompts = load_class_prompts(templates)
    sources = None
    if knowledge is not None or source:
        from knowledge_prompts import gather_sources  # needs NumPy and asyncio, which WordNet alone does not

        sources = gather_sources(class_prompts, knowledge=knowledge, sources=source or ())
    lines = show_prompts(
        class_name,
        class_prompts=class_prompts,
        sources=sources,
        wordnet_folder=wordnet_folder,
        style=check_style(style),
        max_prompts=limit,
    )
    for line in lines:
        _echo(line)


def build(
    classes: Classes,
    output: Annotated[Path, typer.Option(help="Folder to write external/ and gpt3/ into.")],
    wordnet_folder: WordNetFolder = None,
    no_wordnet: NoWordNet = False,
    wiktionary: Annotated[Path | None, typer.Option(help="Wiktextract's dump, .jsonl or .jsonl.gz.")] = None,
    endpoint: Annotated[str | None, typer.Option(help="Address of an endpoint that speaks OpenAI's protocol.")] = None,
    model: Annotated[str | None, typer.Option(help="Name of the endpoint's model.")] = None,
    key_variable: Annotated[str, typer.Option(help="Environment variable with the key.")] = "OPENAI_API_KEY",
    items: Annotated[int, typer.Option(help="Answers per class.", min=1)] = 5,
    shots: Annotated[int, typer.Option(help="Example pairs per question.", min=1)] = 3,
    max_calls: Annotated[int | None, typer.Option(help="The most calls of the language model.", min=0)] = None,
    max_completion_tokens: Annotated[
        int | None, typer.Option(help="Longest answer, by the name that newer chat models take.", min=1)
    ] = None,
    unsent: Annotated[
        list[str] | None,
        typer.Option(help="Parameter that the model refuses: max_tokens, temperature or stop; repeat it."),
    ] = None,
    at_once: Annotated[int, typer.Option(help="Questions that are asked at the same time.", min=1)] = 4,
    timeout: Annotated[float, typer.Option(help="Seconds per call.")] = 30.0,
    seed: Annotated[int, typer.Option(help="Seed of the draw of examples.")] = 0,
) -> None:
    """Make knowledge for your own classes.

    With icinw for ELEVATER's 20 sets. The format is ELEVATER's.

    The same command again asks only what is missing. LICENCES.txt has the terms of each source.
    """
    from knowledge_prompts import Endpoint, Wiktextract, build_files, load_class_prompts
    from knowledge_prompts.elevater_sets import names_of, write_licences

    if (endpoint is None) != (model is None):
        stated, lacking = ("--endpoint", "--model") if endpoint else ("--model", "--endpoint")
        raise ValueError(f"{stated} was given without {lacking}; expected both")
    for name in unsent or ():
        if name not in _UNSENT:
            raise ValueError(f"--unsent {name!r}; expected {', '.join(_UNSENT)}")
    language_model = None
    if endpoint and model:
        left_out: dict[str, Any] = dict.fromkeys(unsent or ())
        language_model = Endpoint(
            endpoint,
            model,
            key_variable=key_variable,
            max_completion_tokens=max_completion_tokens,
            timeout=timeout,
            **left_out,
        )
    sets = [load_class_prompts(name) for name in names_of(classes)]
    wordnet = _wordnet(wordnet_folder, no_wordnet)
    every = list(dict.fromkeys(name for class_prompts in sets for name in class_prompts.classes))
    dictionary = Wiktextract(wiktionary, every) if wiktionary else None  # a dump is read once for all sets
    failed = False
    for class_prompts in sets:
        built = build_files(
            class_prompts,
            output,
            wordnet=wordnet,
            wiktionary=dictionary,
            model=language_model,
            items_per_class=items,
            shots=shots,
            max_calls=max_calls,
            seed=seed,
            at_once=at_once,
            progress=lambda phase, done, of: typer.echo(f"\r{phase}: {done} of {of} classes", nl=done == of, err=True),
        )
        for line in built.lines():
            _echo(line)
        failed = failed or bool(built.failed)
    given = {"wordnet": wordnet, "wiktionary": dictionary, "gpt3": language_model}
    _echo(f"wrote {write_licences(output, tuple(name for name, source in given.items() if source is not None))}")
    if failed:
        raise typer.Exit(1)


def coverage(
    classes: Classes,
    knowledge: Knowledge = None,
    wordnet_folder: WordNetFolder = None,
    no_wordnet: NoWordNet = False,
    source: Sources = None,
    table: Annotated[Path | None, typer.Option(help="Also write items per class and source, tab-separated.")] = None,
) -> None:
    """Count the classes that each source knows."""
    from knowledge_prompts import coverage as count
    from knowledge_prompts import gather_sources, load_class_prompts
    from knowledge_prompts.sources.json_records import write_text

    class_prompts = load_class_prompts(classes)
    sources = gather_sources(
        class_prompts,
        knowledge=knowledge,
        wordnet=_wordnet(wordnet_folder, no_wordnet),
        sources=source or (),
    )
    counted = count(class_prompts.classes, sources, repeated=class_prompts.repeated)
    for line in counted.lines():
        _echo(line)
    if table is not None:
        write_text(table, counted.table())
        _echo(f"wrote {table}")


def diversity(classes: list[str], encode_text: Callable[[list[str]], Any], output: Path | None = None) -> None:
    """Measure how far the concepts of sets lie apart, and draw them."""
    from knowledge_prompts import concept_map, load_class_prompts
    from knowledge_prompts.encoding.diversity import concept_features, draw_map

    sets = [load_class_prompts(name) for name in classes]
    names = [prompt_set.name for prompt_set in sets]
    for prompt_set in sets:
        if not prompt_set.classes:
            raise ValueError(f"template set {prompt_set.name!r} has no classes; expected at least one class name")
        if names.count(prompt_set.name) > 1:
            raise ValueError(f"two sets are called {prompt_set.name!r}; give one of them another name")
    concepts = concept_map({prompt_set.name: concept_features(encode_text, prompt_set.classes) for prompt_set in sets})
    for name, spread in concepts.spread.items():
        _echo(f"{name}: {len(concepts.points[name])} concepts, spread {spread:.3f}")
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        with _defaults_of_matplotlib():
            draw_map(concepts).savefig(output)
        _echo(f"wrote {output}")


def _defaults_of_matplotlib() -> AbstractContextManager[None]:
    """Leave a matplotlibrc of the working folder aside, which could start LaTeX with a preamble of its own."""
    try:
        import matplotlib
    except ImportError:
        return nullcontext()  # who draws says what is missing
    return matplotlib.rc_context(dict(matplotlib.rcParamsDefault))


def text_encoder(name: str, device: str) -> Callable[[list[str]], Any]:
    """An encoder of texts by name: ``open_clip:MODEL/WEIGHTS``, or ``MODULE:FUNCTION``, called with its ``device``."""
    library, _, path = name.partition(":")
    model_name, _, weights = path.partition("/")
    if not path or (library == "open_clip" and not weights):
        raise ValueError(f"encoder {name!r}; expected open_clip:MODEL/WEIGHTS, or MODULE:FUNCTION of your own")
    if library != "open_clip":
        from wary_files.working_folder import made_by

        encode: Callable[[list[str]], Any] = made_by(name, "encoder", device=device)
        return encode
    try:
        import open_clip
        import torch
    except ImportError:
        raise ModuleNotFoundError("an encoder of open_clip needs it: pip install open_clip_torch") from None
    loading: Any = sys.modules.get("transformers.dynamic_module_utils")
    if loading is not None:  # a text tower's folder that brings code is an error, not a question
        loading.TIME_OUT_REMOTE_CODE = 0
    model: Any = open_clip.create_model(model_name, pretrained=weights, device=device).eval()
    tokenize: Any = open_clip.get_tokenizer(model_name)

    def encode_by_open_clip(texts: list[str]) -> Any:
        with torch.no_grad():
            return model.encode_text(tokenize(texts).to(device))

    return encode_by_open_clip


def make_app(text_encoders: TextEncoders = text_encoder, *, encoder: str | None = None) -> typer.Typer:
    """The commands as a Typer application, for a command line of one's own.

    Args:
        text_encoders: Makes what ``diversity --encoder`` names, from the name and a torch device.
        encoder: The name that ``--encoder`` has by default; None where it must be given.
    """
    app = typer.Typer(help=ABOUT, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)
    for command in (show, build, coverage):
        app.command()(command)
    default: Any = ... if encoder is None else encoder

    @app.command("diversity")
    def diversity_of(
        classes: Annotated[list[str], typer.Argument(help="One or several sets: built-in, .txt or .json.")],
        name: Annotated[
            str, typer.Option("--encoder", help="Encoder with a text side, such as open_clip:ViT-B-32/WEIGHTS.")
        ] = default,
        device: Annotated[str, typer.Option(help="torch device.")] = "cpu",
        output: Annotated[
            Path | None, typer.Option(help="Also write the image, in the format that its suffix names.")
        ] = None,
    ) -> None:
        """Measure how far concepts of sets lie apart.

        For an encoder, drawn side by side.
        """
        diversity(classes, text_encoders(name, device), output)

    return app


def console(arguments: Sequence[str] | None = None) -> None:
    """Run ``prompts``; an error that the user can mend is one line, and the exit status 2."""
    escape_output()
    try:
        refuse_empty_paths(arguments)
        make_app()(args=None if arguments is None else list(arguments), prog_name="prompts")
    except (ValueError, OSError, ImportError) as error:
        _echo(f"prompts: {line_of(error)}", err=True)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        sys.stderr.write("prompts: interrupted; the same command asks only what is missing\n")
        raise SystemExit(130) from None


def _echo(line: str, *, err: bool = False) -> None:
    """Print a line; a terminal obeys no class and no prompt of a file."""
    typer.echo(printable(line), err=err)


def _wordnet(folder: Path | None, without: bool) -> WordNet | None:
    from knowledge_prompts import WordNet

    return None if without else WordNet(folder)
