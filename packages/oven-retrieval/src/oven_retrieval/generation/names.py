"""A generative model names entities: held to names that exist, or freely and mapped to the nearest name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from oven_retrieval.generation.trie import NameTrie, allowed_tokens_fn
from oven_retrieval.names import NameLinker
from oven_retrieval.names.places import name_places, name_texts
from oven_retrieval.progress import Progress
from oven_retrieval.ranking import Ranking, check_k

_BLOCK = 4096


class NameGenerator:
    """Any transformers model with `generate`, as an entity linker.

    Works with decoder-only and encoder-decoder text models and with image-text-to-text models. Prompts are taken as
    they are: chat templates and image marks ("<image>") belong into them.

    Args:
        model: has `generate`, `config`, `generation_config` and `compute_transition_scores`, as every generative
            model of transformers has.
        processor: the model's tokenizer, or the processor that has it as `tokenizer`.
        linker: of the knowledge base; maps what is written freely.
        aliases: aliases may be written too, in `constrained`.
        lead: put before each name when it is tokenised: by default a blank where the name goes on after the prompt,
            nothing where the model has a decoder of its own.
        batch: prompts at once.

    Raises:
        ValueError: the model has no end mark.

    Numerics:
        All names are tokenised when `constrained` is first called, about 20 µs each. A tokenizer without a padding
        token is given its end mark as one, and pads on the left where the model has no encoder.

    Example:
        >>> import tempfile, pathlib, tokenizers, torch, transformers
        >>> from oven_retrieval import Entity, build_kb, build_linker
        >>> kb = build_kb([Entity("Q1", "Wood duck"), Entity("Q2", "Goose")], pathlib.Path(tempfile.mkdtemp()) / "kb")
        >>> words = {word: i for i, word in enumerate(["<pad>", "</s>", "<unk>", "what", "Wood", "duck", "Goose"])}
        >>> made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<unk>"))
        >>> made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
        >>> tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", eos_token="</s>")
        >>> sizes = {"vocab_size": 7, "n_positions": 16, "n_embd": 8, "n_layer": 1, "n_head": 1}
        >>> config = transformers.GPT2Config(**sizes, eos_token_id=1, bos_token_id=1)
        >>> generator = NameGenerator(transformers.GPT2LMHeadModel(config).eval(), tokenizer, build_linker(kb))
        >>> sorted(generator.constrained(["what"], k=2, beams=2).rows[0].tolist())
        [0, 1]

    Source: OVEN section 4.2 maps what PaLI writes by BM25 and leaves constrained decoding to future work (section 6).
    """

    def __init__(
        self,
        model: Any,
        processor: Any,
        linker: NameLinker,
        *,
        aliases: bool = False,
        lead: str | None = None,
        batch: int = 8,
    ) -> None:
        self.model, self.processor, self.linker, self.aliases = model, processor, linker, aliases
        self.tokenizer = getattr(processor, "tokenizer", processor)
        self.batch = check_k(batch)
        self._own_decoder = bool(model.config.is_encoder_decoder)
        self.lead = lead if lead is not None else "" if self._own_decoder else " "
        end = model.generation_config.eos_token_id
        end = end[0] if isinstance(end, list) else end
        self._end = self.tokenizer.eos_token_id if end is None else end
        if self._end is None:
            raise ValueError("model: expected an end mark (eos_token_id) in its generation config, got None")
        if self.tokenizer.pad_token_id is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token
        if not self._own_decoder:
            self.tokenizer.padding_side = "left"
        self.unwritable = 0
        self._trie: NameTrie | None = None

    def constrained(
        self,
        prompts: Sequence[str],
        images: Sequence[Any] | None = None,
        *,
        k: int = 1,
        beams: int = 4,
        progress: Progress | None = None,
    ) -> Ranking:
        """Entities whose names the model writes when it can write nothing else.

        Args:
            prompts: one per question.
            images: one image per question, in the form that the processor takes; None for text models.
            k: entities per question.
            beams: names that are followed at once, at least k; as many as there are names makes the search complete.
            progress: called with the phase, how many questions are done, and how many there are.

        Returns:
            Entities by falling score. Entities that share a name share its score, in the linker's order.

        Raises:
            ValueError: k greater than beams, or another number of images than prompts.
        """
        self._check(prompts, images)
        if beams < check_k(k):
            raise ValueError(f"beams: expected at least k = {k}, got {beams}")
        trie = self.trie()
        rows, scores = Ranking.empty(len(prompts), k, np.nan)
        texts: list[list[str]] = [[] for _ in prompts]
        for first, inputs in self._batches(prompts, images):
            written = self._generate(
                inputs,
                num_beams=beams,
                num_return_sequences=beams,
                max_new_tokens=trie.longest + 1,
                prefix_allowed_tokens_fn=allowed_tokens_fn(trie),
            )
            count = len(written) // beams
            for i in range(count):
                question = first + i
                for tokens, score in sorted(written[i * beams : (i + 1) * beams], key=lambda sequence: -sequence[1]):
                    text = self.tokenizer.decode(list(tokens), skip_special_tokens=True).strip()
                    for row in self._entities(tokens):
                        rank = len(texts[question])
                        if rank < k and row not in rows[question, :rank]:
                            rows[question, rank], scores[question, rank] = row, score
                            texts[question].append(text)
            if progress is not None:
                progress("questions", first + count, len(prompts))
        return Ranking(rows, scores, texts=texts, kb=self.linker.kb)

    def free(
        self,
        prompts: Sequence[str],
        images: Sequence[Any] | None = None,
        *,
        k: int = 1,
        beams: int = 1,
        max_new_tokens: int = 32,
        exact_first: bool = True,
        progress: Progress | None = None,
    ) -> Ranking:
        """Entities nearest to what the model writes when it may write anything: the linker maps its best text.

        Args:
            prompts: one per question.
            images: as in `constrained`.
            k: entities per question.
            beams: of the search for the text.
            max_new_tokens: where a text is cut off.
            exact_first: False to map by BM25 alone, as the paper does.
            progress: called with the phase, how many questions are done, and how many there are.

        Returns:
            Entities in the linker's order; all of one question have the text's score.
        """
        self._check(prompts, images)
        texts, sequence_scores = [], []
        for first, inputs in self._batches(prompts, images):
            for tokens, score in self._generate(inputs, num_beams=beams, max_new_tokens=max_new_tokens):
                texts.append(self.tokenizer.decode(list(tokens), skip_special_tokens=True).strip())
                sequence_scores.append(score)
            if progress is not None:
                progress("questions", min(first + self.batch, len(prompts)), len(prompts))
        links = self.linker.link(texts, k, exact_first=exact_first)
        scores = np.where(links.rows >= 0, np.array(sequence_scores, dtype=np.float64).reshape(-1, 1), np.nan)
        return Ranking(links.rows, scores, links.kinds, [[text] * k for text in texts], links.kb)

    def trie(self) -> NameTrie:
        """The names in the model's tokens, made when it is first asked for.

        Names with a character that the tokenizer does not know are left out; `unwritable` counts them.

        Raises:
            ValueError: no name is left, or one holds the model's end mark.
        """
        if self._trie is None:
            kb = self.linker.kb
            places = name_places(kb)
            used = np.ones(len(places.row), dtype=np.bool_) if self.aliases else ~places.alias
            order = np.flatnonzero(used)[np.argsort(places.preference(kb.popularity)[used], kind="stable")]
            names = [text for text, is_used in zip(name_texts(kb), used.tolist(), strict=True) if is_used]
            number = np.cumsum(used) - 1
            unknown = self.tokenizer.unk_token_id
            rows: list[int] = []

            def written() -> Iterator[list[int]]:
                texts = [names[number[i]] for i in order.tolist()]
                for row, tokens in zip(places.row[order].tolist(), self._tokens(texts), strict=True):
                    if tokens and unknown not in tokens:
                        rows.append(row)
                        yield tokens
                if not rows:
                    raise ValueError(f"processor: its tokenizer can write none of the {len(order)} names of {kb.path}")

            self._trie = NameTrie(written(), self._end)
            self.unwritable = len(order) - len(rows)
            self._row_of = np.array(rows, dtype=np.int64)
        return self._trie

    def _tokens(self, names: Sequence[str]) -> Iterator[list[int]]:
        for first in range(0, len(names), _BLOCK):
            block = [f"{self.lead}{name}" for name in names[first : first + _BLOCK]]
            yield from self.tokenizer(block, add_special_tokens=False)["input_ids"]

    def _entities(self, tokens: Sequence[int]) -> list[int]:
        """Rows of the entities that have a name, in the linker's order."""
        names = self.trie().rows(tokens)
        return list(dict.fromkeys(self._row_of[names].tolist()))

    def _check(self, prompts: Sequence[str], images: Sequence[Any] | None) -> None:
        if isinstance(prompts, str):
            raise TypeError(f"prompts: expected a list of texts, got one text {prompts[:40]!r}")
        if images is not None and len(images) != len(prompts):
            raise ValueError(f"images: expected one for each of the {len(prompts)} prompts, got {len(images)}")

    def _batches(self, prompts: Sequence[str], images: Sequence[Any] | None) -> Iterator[tuple[int, Any]]:
        for first in range(0, len(prompts), self.batch):
            last = first + self.batch
            yield first, self.inputs(prompts[first:last], None if images is None else images[first:last])

    def inputs(self, prompts: Sequence[str], images: Sequence[Any] | None = None) -> Any:
        """What the model takes for some prompts, padded, on its device."""
        if images is None:
            inputs = self.tokenizer(list(prompts), return_tensors="pt", padding=True)
        else:
            inputs = self.processor(images=list(images), text=list(prompts), return_tensors="pt", padding=True)
        inputs.pop("token_type_ids", None)  # tokenizers make them, generating models do not take them
        return inputs.to(self.model.device)

    def targets(self, names: Sequence[str]) -> list[list[int]]:
        """The tokens of names, as they are written after a prompt, with the end mark.

        Raises:
            ValueError: a name with a character that the tokenizer does not know.
        """
        written = [list(tokens) for tokens in self._tokens(names)]
        for name, tokens in zip(names, written, strict=True):
            if not tokens or self.tokenizer.unk_token_id in tokens:
                raise ValueError(f"names: {name!r} holds a character that the model's tokenizer does not know")
        return [[*tokens, self._end] for tokens in written]

    @property
    def has_own_decoder(self) -> bool:
        """Whether names are written by a decoder of their own, not after the prompt."""
        return self._own_decoder

    def _generate(self, inputs: Any, **options: Any) -> list[tuple[tuple[int, ...], float]]:
        """Tokens without the end mark, and log-probability with it, of every sequence."""
        import torch

        with torch.inference_mode():
            written = self.model.generate(
                **inputs,
                **options,
                do_sample=False,
                length_penalty=0.0,  # beams are ordered by the score that is returned
                output_logits=True,
                return_dict_in_generate=True,
                eos_token_id=self._end,
                pad_token_id=self.tokenizer.pad_token_id,
            )
            token_scores = self.model.compute_transition_scores(
                written.sequences, written.logits, getattr(written, "beam_indices", None), normalize_logits=True
            )
        result = []
        for sequence, scores in zip(written.sequences.tolist(), token_scores.double().tolist(), strict=True):
            new = sequence[len(sequence) - len(scores) :]
            stop = new.index(self._end) if self._end in new else len(new)
            result.append((tuple(new[:stop]), float(np.sum(scores[: stop + 1]))))
        return result
