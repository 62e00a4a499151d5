"""One embedding per class from all its prompts, whatever encodes the text."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from knowledge_prompts.encoding.tokens import TokenRules, token_rules
from knowledge_prompts.encoding.truncation import LongPrompt, TruncationReport, report_of, shorten
from knowledge_prompts.prompts.prompt_set import PromptSet, as_prompt_set
from knowledge_prompts.sources.knowledge import check_least_one
from wary_files.durable import write_whole
from wary_files.errors import whole_numbers
from wary_files.limits import refuse_special, within
from wary_files.text import parsed_json

Overlong = Literal["cut", "shorten", "error"]

# Two embeddings of one text, padded differently, count as the same up to this distance on the unit sphere.
_SAME = 1e-4
_CHUNK = 1024
_FORMAT = "knowledge-prompts class embeddings 1"


@dataclass(frozen=True, eq=False)  # arrays are compared by their fields
class ClassEmbeddings:
    """One unit vector per class.

    Args:
        weights: ``[classes, features]``, float32, each row of length 1.
        classes: Class names, in the order of the rows.
        prompts: Number of prompts.
        encoded: Number of different texts that were encoded.
        truncation: Which prompts did not fit; None where no tokenizer was given, so that nobody can know.

    Example:
        >>> import numpy as np
        >>> from knowledge_prompts import ClassPrompts, build_prompts, class_embeddings
        >>> def encode(texts):
        ...     return np.array([[len(text), text.count("a") + 1] for text in texts], dtype=np.float32)
        >>> own = ClassPrompts("pets", ["a photo of a {}."], ["cat", "zebra"])
        >>> embeddings = class_embeddings(encode, build_prompts(own))
        >>> embeddings.weights.shape, embeddings.classes, embeddings.prompts
        ((2, 2), ('cat', 'zebra'), 2)
    """

    weights: NDArray[np.float32]
    classes: tuple[str, ...]
    prompts: int
    encoded: int
    truncation: TruncationReport | None

    def save(self, path: str | Path) -> None:
        """Write all of it to one ``.npz`` file, whole or not at all; it holds arrays and texts alone, no pickles.

        Args:
            path: The file; one that is there is replaced.

        Raises:
            ValueError: A name that does not end in ``.npz``, or what `load` would refuse.
            OSError: The file cannot be written.

        Example:
            >>> import tempfile
            >>> import numpy as np
            >>> file = tempfile.mkdtemp() + "/birds.npz"
            >>> ClassEmbeddings(np.eye(2, dtype=np.float32), ("owl", "wren"), 2, 2, None).save(file)
            >>> ClassEmbeddings.load(file).classes
            ('owl', 'wren')
        """
        place, content = Path(path), io.BytesIO()
        if place.suffix != ".npz":
            raise ValueError(f"{place}: expected a file that ends in .npz")
        weights, classes = np.asarray(self.weights), tuple(map(str, self.classes))
        _check_rows(weights, classes, str(place))
        report = None if self.truncation is None else asdict(self.truncation)
        about = {"classes": classes, "prompts": self.prompts, "encoded": self.encoded, "truncation": report}
        text = json.dumps({"format": _FORMAT, **about}, ensure_ascii=True)
        np.savez(content, weights=weights, about=np.frombuffer(text.encode(), np.uint8))
        write_whole(place, content.getvalue())

    @classmethod
    def load(cls, path: str | Path) -> ClassEmbeddings:
        """Read what `save` wrote.

        Raises:
            ValueError: Another file, rows that are not unit vectors, another number of them than classes, or a class
                with two vectors; names it.
            OSError: There is no such file.
        """
        place = Path(path)
        refuse_special(place)
        if zipfile.is_zipfile(place):  # a kilobyte of an archive may stand for any number
            with zipfile.ZipFile(place) as archive:
                within(sum(member.file_size for member in archive.infolist()), "bytes", f"{place}, unpacked,")
        try:
            with np.load(place, allow_pickle=False) as held:
                weights, about = np.asarray(held["weights"]), parsed_json(held["about"].tobytes().decode())
            if not isinstance(about, dict) or about.get("format") != _FORMAT:
                raise ValueError("another format")
            if not isinstance(about["classes"], list):
                raise ValueError("classes are no list")
            classes, report = tuple(about["classes"]), about["truncation"]
            counts = about["prompts"], about["encoded"]
            if not all(type(count) is int and count >= 0 for count in counts):
                raise ValueError(f"prompts and encoded are {counts}, expected whole numbers of at least 0")
            if report is not None:
                long = tuple(
                    LongPrompt(**{**row, "classes": tuple(row["classes"]), "sources": tuple(row["sources"])})
                    for row in (dict(zip(LongPrompt._fields, values, strict=True)) for values in report.pop("long"))
                )
                report = TruncationReport(**report, long=long)
            embeddings = cls(weights, classes, *counts, report)
        except OSError:
            raise
        except Exception as error:  # noqa: BLE001 - zip, NumPy and JSON raise errors of every kind over broken files
            raise ValueError(f"{place} holds no class embeddings that `save` wrote: {error!s:.120}") from None
        if not all(isinstance(name, str) for name in classes):
            raise ValueError(f"{place}: classes should be texts")
        _check_rows(weights, classes, str(place))
        _refuse_two_vectors(weights, classes, str(place))
        return embeddings


def _refuse_two_vectors(weights: NDArray[Any], classes: Sequence[str], where: str) -> None:
    """Refuse a class that comes twice with other vectors; of ImageNet's names two come twice, with one vector each."""
    first: dict[str, int] = {}
    for row, name in enumerate(classes):
        before = first.setdefault(name, row)
        if before != row and np.abs(weights[before] - weights[row]).max() > _SAME:
            raise ValueError(f"{where}: class {name!r} has different vectors in rows {before} and {row}; expected one")


def _check_rows(weights: NDArray[Any], classes: Sequence[str], where: str) -> None:
    """Refuse what are no unit vectors of float32, one for each class."""
    if weights.dtype != np.float32 or weights.ndim != 2 or len(weights) != len(classes):
        raise ValueError(f"{where}: {weights.dtype} {list(weights.shape)}; expected float32 [{len(classes)}, d]")
    if len(weights) and not np.abs(np.linalg.norm(weights, axis=1) - 1).max() < _SAME:
        raise ValueError(f"{where}: expected rows of length 1: the file was changed")


@whole_numbers("batch_size", "context_length")
def class_embeddings(
    encode_text: Callable[..., Any],
    prompts: PromptSet | Sequence[str] | Mapping[str, Sequence[str]],
    *,
    tokenize: Any = None,
    context_length: int | None = None,
    batch_size: int = 256,
    overlong: Overlong = "cut",
    progress: Callable[[int, int], None] | None = None,
) -> ClassEmbeddings:
    r"""Average the embeddings of each class's prompts on the unit sphere.

    w_k = normalise(mean over the prompts p of class k of normalise(encode(p)))

    Each different text is encoded once, in batches of texts of similar length, padded only to the longest of a batch;
    to the whole context where padding changes the features of a first text, which is encoded both ways.

    Args:
        encode_text: Without ``tokenize``: a function from a list of texts to features ``[n, d]``. With it: a function
            from token ids ``[n, l]`` to features; for a Hugging Face tokenizer it is called with ``input_ids`` by name
            and, if the tokenizer's ``model_input_names`` has it, ``attention_mask`` (SigLIP's has none). Features
            may be NumPy arrays, torch tensors, or an output of Hugging Face. The ids are a torch tensor if it
            belongs to a torch module, `functools.partial` included (then on the module's device), or the tokenizer is
            open_clip's or Hugging Face's and torch is loaded; else they are a NumPy array.
        prompts: What `build_prompts` gives; or lists of texts by class name; or a list with one text for each class,
            which is encoded as it is.
        tokenize: A tokenizer; see `token_rules`. Without one, truncation cannot be seen.
        context_length: The most tokens that the encoder takes; None to ask the tokenizer.
        batch_size: Texts per call, at least 1.
        overlong: What happens to a prompt of too many tokens: ``cut`` keeps the first ones and the end token,
            ``shorten`` drops words from its end until it fits, ``error`` refuses. It is reported in every case.
        progress: Called after each batch with the number of texts done, and of all.

    Returns:
        The class embeddings, and what was encoded and truncated on the way.

    Raises:
        TypeError: An ``encode_text`` that cannot be called, or prompts of another kind; shows it.
        ValueError: A batch size below 1, an unknown option, features of a wrong shape or not finite, or, for
            ``overlong="error"``, a prompt that does not fit. Shows value and expectation.

    Numerics: Sums in float64, result float32. Memory: one batch of features, not all of them. Put a module into
        evaluation mode first: with dropout active the result is random. Prompts of a class that are the same text
        count as often as they occur.

    Example:
        >>> from knowledge_prompts import ClassPrompts, build_prompts
        >>> prompts = build_prompts(ClassPrompts("own", ["a {}.", "the {}."], ["wren", "owl"]))
        >>> embeddings = class_embeddings(lambda texts: np.array([[len(t), t.count("e")] for t in texts]), prompts)
        >>> embeddings.weights.shape, embeddings.encoded, embeddings.truncation
        ((2, 2), 4, None)

    Source: ELEVATER, section 4.2, and the zero-shot ensemble of Radford et al. 2021, section 3.1.4.
    """
    check_least_one(batch_size=batch_size)
    if overlong not in ("cut", "shorten", "error"):
        raise ValueError(f"overlong is {overlong!r}; expected 'cut', 'shorten' or 'error'")
    if not callable(encode_text):
        raise TypeError(
            f"encode_text is a {type(encode_text).__name__}; "
            f"expected a function: class_embeddings(encode_text, prompts)"
        )
    prompts = as_prompt_set(prompts)
    texts = prompts.unique_texts()
    if tokenize is None:
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        rows: list[Any] = [texts[i] for i in order]
        encode: Callable[[list[Any]], NDArray[np.float64]] = lambda batch: _features(encode_text(batch), batch)  # noqa: E731
        report = None
    else:
        rules = token_rules(tokenize, context_length)
        ids, report = _token_ids(texts, prompts, rules, overlong)
        order = sorted(range(len(texts)), key=lambda i: len(ids[i]))
        rows = [ids[i] for i in order]
        if rules.masked and _trained_without_mask(encode_text):
            rules = replace(rules, masked=False, to_context=True)
        wide = rules.to_context or _needs_context(encode_text, rows[0], rules)
        encode = lambda batch: _encode_ids(encode_text, batch, rules, wide)  # noqa: E731

    rank = {texts[i]: position for position, i in enumerate(order)}
    # (position of the text, class) of every prompt, so that each batch's features go straight to their classes.
    uses = np.array(sorted((rank[prompt.text], prompt.class_index) for prompt in prompts), dtype=np.int64)
    sums: NDArray[np.float64] | None = None
    for start in range(0, len(rows), batch_size):
        batch = rows[start : start + batch_size]
        with _without_gradients():
            unit = _unit(encode(batch), [texts[i] for i in order[start : start + batch_size]])
        if sums is None:
            sums = np.zeros((len(prompts.classes), unit.shape[1]))
        if unit.shape[1] != sums.shape[1]:
            raise ValueError(f"encode_text gave {unit.shape[1]} features, but {sums.shape[1]} for an earlier batch")
        first, last = np.searchsorted(uses[:, 0], [start, start + len(batch)])
        np.add.at(sums, uses[first:last, 1], unit[uses[first:last, 0] - start])
        if progress is not None:
            progress(start + len(batch), len(rows))
    assert sums is not None, "a prompt set has at least one class, and each class a prompt"
    counts = np.array([len(group) for group in prompts.prompts], dtype=np.float64)
    weights = _unit(sums / counts[:, None], [f"the mean of class {name!r}" for name in prompts.classes])
    return ClassEmbeddings(weights.astype(np.float32), prompts.classes, len(prompts), len(texts), report)


def _token_ids(
    texts: Sequence[str], prompts: PromptSet, rules: TokenRules, overlong: Overlong
) -> tuple[list[list[int]], TruncationReport]:
    ids: list[list[int]] = []
    for start in range(0, len(texts), _CHUNK):
        ids += rules.ids(texts[start : start + _CHUNK])
    lengths = {text: len(row) for text, row in zip(texts, ids, strict=True)}
    too_long = [i for i, row in enumerate(ids) if len(row) > rules.context_length]
    read_instead: dict[str, str] = {}
    if overlong == "shorten":
        for i in too_long:
            read_instead[texts[i]] = shorten(texts[i], rules)
            ids[i] = rules.ids([read_instead[texts[i]]])[0]
    report = report_of(prompts, lengths, rules.context_length, read_instead)
    if too_long and overlong == "error":
        raise ValueError(f"{report.lines()[0]}; the first is {texts[too_long[0]]!r}")
    return [rules.cut(row) for row in ids], report


def _needs_context(encode_text: Callable[..., Any], row: list[int], rules: TokenRules) -> bool:
    """Whether an encoder gives another result, or none, for a text that is not padded to the whole context."""
    if len(row) >= rules.context_length:
        return False
    with _without_gradients():
        padded = _unit(_encode_ids(encode_text, [row], rules, wide=True), ["the first text"])
        try:
            short = _unit(_encode_ids(encode_text, [row], rules, wide=False), ["the first text"])
        except (RuntimeError, ValueError, IndexError):
            return True
    return short.shape != padded.shape or float(np.abs(short - padded).max()) > _SAME


def _encode_ids(
    encode_text: Callable[..., Any], rows: Sequence[Sequence[int]], rules: TokenRules, wide: bool
) -> NDArray[np.float64]:
    width = rules.context_length if wide else max(len(row) for row in rows)
    ids = np.full((len(rows), width), rules.pad_id, dtype=np.int64)
    mask = np.zeros((len(rows), width), dtype=np.int64)
    for i, row in enumerate(rows):
        place = slice(width - len(row), None) if rules.left else slice(len(row))
        ids[i, place] = row
        mask[i, place] = 1
    convert = _tensor_maker(encode_text, rules)
    if rules.masked:
        return _features(encode_text(input_ids=convert(ids), attention_mask=convert(mask)), rows)
    return _features(encode_text(input_ids=convert(ids)) if rules.by_name else encode_text(convert(ids)), rows)


def _trained_without_mask(encode_text: Callable[..., Any]) -> bool:
    """True for SigLIP and SigLIP 2: a tokenizer that was saved without its ``model_input_names`` asks for a mask."""
    config = getattr(_owner(encode_text), "config", None)
    return str(getattr(config, "model_type", "")).startswith("siglip")


def _owner(encode_text: Any) -> Any:
    """The object that a method is bound to, below any `functools.partial`; else the function itself."""
    bound: list[Any] = []
    while isinstance(encode_text, functools.partial):
        bound += encode_text.args[:1]
        encode_text = encode_text.func
    owner = getattr(encode_text, "__self__", encode_text)
    return bound[-1] if bound and not hasattr(owner, "parameters") and hasattr(bound[-1], "parameters") else owner


def _tensor_maker(encode_text: Callable[..., Any], rules: TokenRules) -> Callable[[NDArray[np.int64]], Any]:
    """How ids become what the encoder takes: a tensor beside a torch module's weights, or the array as it is."""
    torch = sys.modules.get("torch")
    if torch is None:
        return lambda array: array
    owner = _owner(encode_text)
    if isinstance(owner, torch.nn.Module):
        weight = next(owner.parameters(), None)
        return lambda array: torch.from_numpy(array).to("cpu" if weight is None else weight.device)
    return torch.from_numpy if rules.with_torch else lambda array: array


def _features(output: Any, batch: Sequence[Any]) -> NDArray[np.float64]:
    for name in ("text_embeds", "pooler_output"):
        if getattr(output, name, None) is not None:
            output = getattr(output, name)
            break
    if hasattr(output, "detach"):  # a torch tensor; NumPy knows no bfloat16
        output = output.detach().to("cpu").float().numpy()
    array = np.asarray(output, dtype=np.float64)
    if array.ndim != 2 or array.shape[0] != len(batch):
        raise ValueError(f"encode_text gave shape {array.shape} for {len(batch)} texts; expected ({len(batch)}, d)")
    return array


def _unit(array: NDArray[np.float64], names: Sequence[str]) -> NDArray[np.float64]:
    lengths = np.linalg.norm(array, axis=1, keepdims=True)
    bad = ~np.isfinite(lengths[:, 0]) | (lengths[:, 0] == 0)
    if bad.any():
        i = int(np.argmax(bad))
        raise ValueError(
            f"the features of {names[i]!r:.120} have length {lengths[i, 0]}; expected a finite one above 0"
        )
    return np.asarray(array / lengths, dtype=np.float64)


def _without_gradients() -> contextlib.AbstractContextManager[Any]:
    """No graph. What an encoder makes at its first call and keeps, such as a rotary cache, must serve training later.

    That rules out torch's inference mode, whose tensors no later graph takes.
    """
    torch = sys.modules.get("torch")
    return contextlib.nullcontext() if torch is None else torch.no_grad()
