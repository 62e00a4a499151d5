"""New knowledge from a language model: asked once, kept for good, and never more often than allowed."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from knowledge_prompts.sources.json_records import complaint
from knowledge_prompts.sources.knowledge import check_least_one, generator_for
from knowledge_prompts.sources.language_model import LanguageModel, LanguageModelError
from wary_files.locks import BusyError, held
from wary_files.text import parsed_json

_LONGEST = 600
INSTRUCTION = "Please explain the concept according to the context."


@contextlib.contextmanager
def sole_writer(path: Path) -> Iterator[None]:
    """Keep a folder, or a file that need not exist yet, from every other writer; BlockingIOError where there is one."""
    file = path / ".lock" if path.is_dir() else path.with_name(f".{path.name}.lock")
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(held(file))
        except BusyError as error:
            raise BlockingIOError(f"{path} is being written by {error.owner}; wait until it is done") from None
        yield


class GeneratedKnowledge:
    r"""Knowledge source that asks a language model to explain a class, in ELEVATER's way.

    A class is asked about in several contexts, each of example pairs drawn from the definitions. An answer is kept in
    a file under the content of its question, so that a run that was broken off goes on where it stopped. A class whose
    questions failed stays in `failed`, with what was answered of it.

    Args:
        model: What answers; see `LanguageModel` and `Endpoint`.
        definitions: Definitions by class name, as examples.
        cache: File of answers, one JSON object per line; made where there is none. None to keep nothing.
        items_per_class: Answers per class; the paper has five.
        shots: Example pairs per question; the toolkit's script takes three.
        seed: Seed of the draw of examples.
        max_calls: The most calls of the model, repetitions included; None for no bound.
        retries: How often a question is repeated after a failure or nonsense.
        wait: Seconds before the first repetition; doubled before each further one.
        at_once: Questions that are asked at the same time, each in a thread of its own; 1 asks in the calling thread.
        name: Name of the source.

    Raises:
        ValueError: A number out of range; shows it.
        KnowledgeFileError: The cache is not in its format; names file, line and field.

    Example:
        >>> class Parrot:
        ...     identity = "parrot"
        ...     def complete(self, prompt: str) -> str:
        ...         return " A bird that repeats what it hears.\nQ: and so on"
        >>> source = GeneratedKnowledge(Parrot(), {"owl": "A bird of the night."}, items_per_class=1)
        >>> source.items("parrot"), source.calls, source.failed
        (['A bird that repeats what it hears.'], 1, {})

    Source: ELEVATER, section 3.1 and supplement C.4. The toolkit's script asks about the last class of the list every
        time, and repeats a failed call for ever.
    """

    whole = False

    def __init__(
        self,
        model: LanguageModel,
        definitions: Mapping[str, str],
        *,
        cache: str | Path | None = None,
        items_per_class: int = 5,
        shots: int = 3,
        seed: int = 0,
        max_calls: int | None = None,
        retries: int = 2,
        wait: float = 1.0,
        at_once: int = 1,
        name: str = "gpt3",
    ) -> None:
        for key, value, least in (
            ("items_per_class", items_per_class, 1),
            ("shots", shots, 1),
            ("at_once", at_once, 1),
            ("retries", retries, 0),
            ("wait", wait, 0),
            ("max_calls", 0 if max_calls is None else max_calls, 0),
        ):
            if value < least:
                raise ValueError(f"{key} is {value}; expected at least {least}")
        self.model, self.definitions, self.name = model, dict(definitions), name
        self.items_per_class, self.shots, self.seed = items_per_class, shots, seed
        self.max_calls, self.retries, self.wait, self.at_once = max_calls, retries, wait, at_once
        self.cache = None if cache is None else Path(cache)
        self.calls = 0
        self.failed: dict[str, str] = {}
        self._refused = ""
        self._lock = threading.Lock()
        self._answers: dict[str, str] = {}
        self._bytes_read = self._lines_read = 0
        if self.cache is not None:
            self._read_cache(self.cache)  # so that a broken file is told at once

    def items(self, class_name: str) -> list[str]:
        """The answers about a class, each once; those that are not in the cache are asked for (`items_of`)."""
        return self.items_of([class_name])[class_name]

    def items_of(
        self, class_names: Sequence[str], *, progress: Callable[[int, int], None] | None = None
    ) -> dict[str, list[str]]:
        """The answers about many classes by class name; up to `at_once` questions are under way at a time.

        Args:
            class_names: Class names.
            progress: Called after each class with the number of classes done, and of all.

        Raises:
            BlockingIOError: Another process is writing the cache; names the file.
        """
        names = list(dict.fromkeys(class_names))
        if self.cache is None:
            return self._items_of(names, progress)
        with sole_writer(self.cache):
            torn = self._read_cache(self.cache)
            if torn:
                os.truncate(self.cache, self._bytes_read)
            return self._items_of(names, progress)

    def _items_of(self, names: Sequence[str], progress: Callable[[int, int], None] | None) -> dict[str, list[str]]:
        questions = {name: self._questions(name) for name in names}
        pool = ThreadPoolExecutor(self.at_once) if self.at_once > 1 else None
        try:
            pending: dict[str, list[Callable[[], str]]] = {}
            for name, prompts in questions.items():
                calls = [functools.partial(self._ask, prompt, name) for prompt in prompts]
                pending[name] = [pool.submit(call).result for call in calls] if pool else [*calls]
            answers: dict[str, list[str]] = {}
            for number, name in enumerate(names, start=1):
                answers[name] = self._answered(name, pending[name])
                if progress is not None:
                    progress(number, len(names))
            return answers
        finally:
            if pool:
                pool.shutdown(cancel_futures=True)  # after an interrupt, what has not begun is not asked

    def _questions(self, class_name: str) -> list[str]:
        """The questions about a class, each once: few definitions give few contexts."""
        contexts = sample_contexts(
            class_name, self.definitions, count=self.items_per_class, shots=self.shots, seed=self.seed
        )
        return list(dict.fromkeys(in_context_prompt(class_name, context) for context in contexts))

    def _answered(self, class_name: str, pending: Sequence[Callable[[], str]]) -> list[str]:
        self.failed.pop(class_name, None)
        answers: list[str] = []
        for answer in pending:
            try:
                answers.append(answer())
            except LanguageModelError as error:
                self.failed[class_name] = str(error)
        return list(dict.fromkeys(answers))

    def _ask(self, prompt: str, class_name: str) -> str:
        key = hashlib.sha256(f"{self.model.identity}\n{prompt}".encode()).hexdigest()
        if key in self._answers:
            return self._answers[key]
        reason = ""
        for attempt in range(self.retries + 1):
            if attempt and not self._refused:
                time.sleep(self.wait * 2 ** (attempt - 1))
            with self._lock:
                if self._refused:
                    raise LanguageModelError(self._refused)
                if self.max_calls is not None and self.calls >= self.max_calls:
                    raise LanguageModelError(f"the bound of {self.max_calls} calls was reached")
                self.calls += 1
            try:
                answer = check_answer(self.model.complete(prompt), class_name)
            except LanguageModelError as error:
                reason = str(error)
                if error.permanent:
                    self._refused = reason
                continue
            with self._lock:
                self._keep(key, class_name, answer)
            return answer
        raise LanguageModelError(f"{reason} (asked {self.retries + 1} times)")

    def _keep(self, key: str, class_name: str, answer: str) -> None:
        self._answers[key] = answer
        if self.cache is not None:
            self.cache.parent.mkdir(parents=True, exist_ok=True)
            row = {"key": key, "model": self.model.identity, "classname": class_name, "answer": answer}
            line = json.dumps(row).encode() + b"\n"
            with self.cache.open("ab") as file:
                file.write(line)
            self._bytes_read += len(line)
            self._lines_read += 1

    def _read_cache(self, path: Path) -> bool:
        """Take over what the file has gained since the last look; whether its last line was broken off."""
        size = path.stat().st_size if path.exists() else 0
        if size < self._bytes_read:  # another file in its place
            self._answers, self._bytes_read, self._lines_read = {}, 0, 0
        if size == self._bytes_read:
            return False
        with path.open("rb") as file:
            file.seek(self._bytes_read)
            # A last line without its end was being written when a run was broken off.
            complete, end, torn = file.read().rpartition(b"\n")
        for number, line in enumerate(complete.split(b"\n") if end else [], start=self._lines_read + 1):
            key, answer = _answer_of(path, number, line)
            self._answers[key] = answer
            self._lines_read = number
        self._bytes_read += len(complete) + len(end)
        return bool(torn)


def check_answer(text: str, class_name: str) -> str:
    r"""The first line of an answer, if it is an explanation at all."""
    if not isinstance(text, str):
        raise LanguageModelError(f"nonsense, {text!r:.60} of type {type(text).__name__}; expected a text")
    lines = text.strip().splitlines()
    answer = " ".join(lines[0].split()) if lines else ""
    answer = answer.removeprefix("A:").strip()
    if not any(character.isalpha() for character in answer):
        raise LanguageModelError(f"nonsense, no words: {text!r:.60}")
    if answer.casefold().strip(" .") == class_name.casefold().strip(" ."):
        raise LanguageModelError(f"nonsense, the class name alone: {text!r:.60}")
    if len(answer) > _LONGEST:
        raise LanguageModelError(f"nonsense, {len(answer)} characters without an end: {text!r:.60}")
    return answer


def _answer_of(path: Path, number: int, line: bytes) -> tuple[str, str]:
    try:
        row: Any = parsed_json(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise complaint(path, number, f"not UTF-8 (byte {line[error.start]:#04x})") from None
    except ValueError as error:
        raise complaint(path, number, f"not JSON ({error})") from None
    except RecursionError:
        raise complaint(path, number, "nested too deeply") from None
    for field in ("key", "answer"):
        if not isinstance(row, dict) or not isinstance(row.get(field), str):
            raise complaint(path, number, f"field {field!r}: expected a text")
    return row["key"], row["answer"]


def in_context_prompt(class_name: str, examples: Sequence[tuple[str, str]]) -> str:
    r"""Questions with answers, then the question that the model completes.

    Source: ELEVATER's supplement, section C.4 and figure 10.
    """
    shown = "".join(f"Q: {_one_line(name)}\nA: {_one_line(text)}\n\n===\n" for name, text in examples)
    return f"{INSTRUCTION}\n===\n{shown}Q: {_one_line(class_name)}\nA:"


def sample_contexts(
    class_name: str, definitions: Mapping[str, str], *, count: int = 5, shots: int = 3, seed: int = 0
) -> list[list[tuple[str, str]]]:
    """Draw the example pairs of each question about a class, without the class itself.

    Numerics: Depends on seed, class name and definitions only: each class is drawn for itself, so that adding a class
        to a data set changes no other.

    Source: ELEVATER's supplement, section C.4. The toolkit draws with replacement; here one context has no pair twice.
    """
    check_least_one(count=count, shots=shots)
    candidates = sorted((name, text) for name, text in definitions.items() if name != class_name and text.strip())
    if not candidates:
        raise ValueError(f"no definition of a class other than {class_name!r}; expected at least one as an example")
    generator = generator_for(class_name, seed)
    return [generator.sample(candidates, min(shots, len(candidates))) for _ in range(count)]


def _one_line(text: str) -> str:
    return " ".join(text.split())
