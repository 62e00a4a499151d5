"""Language models that complete a text: an endpoint that speaks OpenAI's protocol, or one on this machine."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

from knowledge_prompts.sources.knowledge import check_least_one

MOST_BYTES = 1 << 20
_OK = 200
_TRY_AGAIN = (408, 409, 425, 429)
_GRACE = 0.5  # seconds for closing the connection


class LanguageModelError(RuntimeError):
    """A language model gave no answer.

    Args:
        message: What happened, in one line.
        permanent: Whether asking again is useless, such as with a wrong key.

    Example:
        >>> LanguageModelError("the key is refused", permanent=True).permanent
        True
    """

    def __init__(self, message: str, *, permanent: bool = False) -> None:
        super().__init__(message)
        self.permanent = permanent


class LanguageModel(Protocol):
    """Anything that completes a text.

    Attributes:
        identity: Model and settings in one text; answers are cached under it.

    Example:
        >>> class Parrot:
        ...     identity = "parrot"
        ...     def complete(self, prompt: str) -> str:
        ...         return prompt.splitlines()[-1]
        >>> model: LanguageModel = Parrot()
        >>> model.complete("a hen is")
        'a hen is'
    """

    @property
    def identity(self) -> str:
        """Model and settings."""
        ...

    def complete(self, prompt: str) -> str:
        """The model's continuation of a prompt.

        Raises:
            LanguageModelError: There is none.
        """
        ...


class Endpoint:
    """A model behind any endpoint that speaks OpenAI's protocol.

    Args:
        url: The base address, up to and without ``/chat/completions`` or ``/completions``.
        model: Name of the model.
        kind: ``chat`` or ``completion``.
        key_variable: Environment variable that holds the key; without one set, no key is sent.
        max_tokens: Longest answer; the toolkit's script takes 50.
        temperature: 0 for the most likely answer, as the toolkit's script has it.
        timeout: Seconds that one call may take in all, above 0.

    Raises:
        ValueError: An address that is not http or https, or holds more than host and path; a number out of range, which
            is shown. The address is not, since a key may be in it.
        ModuleNotFoundError: httpx is not installed; names the extra.

    Numerics: The time is that of the whole call, looking up the name included. The key is in no error, no cache and no
        `identity`, and an answer that repeats it is refused. Redirections are not followed, so that the key goes
        nowhere else. An answer may have 1 MiB.

    Example:
        >>> Endpoint("http://localhost:8000/v1", "llama").identity.count("llama")
        1
        >>> Endpoint("ftp://localhost", "llama")
        Traceback (most recent call last):
        ...
        ValueError: ...
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        kind: Literal["chat", "completion"] = "chat",
        key_variable: str = "OPENAI_API_KEY",
        max_tokens: int = 50,
        temperature: float = 0.0,
        timeout: float = 30.0,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ValueError(
                "the endpoint's address is not one: expected one that starts with http:// or https:// and a host"
            )
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise ValueError(
                "the endpoint's address holds a user, a question mark or a number sign; expected host and path alone, "
                f"and a key in the environment variable {key_variable}"
            )
        if kind not in ("chat", "completion"):
            raise ValueError(f"kind is {kind!r}; expected 'chat' or 'completion'")
        check_least_one(max_tokens=max_tokens)
        if not timeout > 0:
            raise ValueError(f"timeout is {timeout}; expected more than 0 seconds")
        if importlib.util.find_spec("httpx") is None:
            raise ModuleNotFoundError("an endpoint needs httpx: pip install 'knowledge-prompts[endpoint]'")
        self.url = url.rstrip("/") + ("/chat/completions" if kind == "chat" else "/completions")
        self.model, self.kind, self.timeout, self.key_variable = model, kind, timeout, key_variable
        self.settings = {"model": model, "max_tokens": max_tokens, "temperature": temperature}

    @property
    def identity(self) -> str:
        """Address, kind and settings; never the key."""
        return f"{self.url} {json.dumps(self.settings, sort_keys=True)}"

    def complete(self, prompt: str) -> str:
        """Ask once.

        Raises:
            LanguageModelError: Refused, failed, took too long, or answered something else than the protocol's form.
        """
        body: dict[str, Any] = {**self.settings, "stop": ["\n"]}
        body |= {"messages": [{"role": "user", "content": prompt}]} if self.kind == "chat" else {"prompt": prompt}
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        key = os.environ.get(self.key_variable, "")
        if not (key.isascii() and key.isprintable()):
            raise LanguageModelError(f"{self.key_variable} holds a character that no header takes", permanent=True)
        if key:
            headers["Authorization"] = f"Bearer {key}"
        try:
            return self._sent(json.dumps(body).encode(), headers, key)
        except LanguageModelError as error:
            if key and key in str(error):
                raise LanguageModelError(str(error).replace(key, "***"), permanent=error.permanent) from None
            raise

    def _sent(self, body: bytes, headers: dict[str, str], key: str) -> str:
        import httpx

        # httpx's limits start anew with every byte, so the whole call has one of its own; in a thread, since a notebook
        # runs a loop already, and one that is left behind where the system is still looking a name up.
        pool = ThreadPoolExecutor(1)
        try:
            answer = pool.submit(asyncio.run, asyncio.wait_for(self._posted(body, headers), self.timeout))
            status, reason, raw = answer.result(self.timeout + _GRACE)
        except TimeoutError:
            raise LanguageModelError(f"no answer within {self.timeout:g} s") from None
        except (httpx.ConnectError, httpx.UnsupportedProtocol) as error:
            raise LanguageModelError(f"not reached ({error})") from None
        except (httpx.HTTPError, OSError) as error:
            raise LanguageModelError(f"broken off ({type(error).__name__}: {error})") from None
        finally:
            pool.shutdown(wait=False)
        if status != _OK:
            permanent = 300 <= status < 500 and status not in _TRY_AGAIN
            raise LanguageModelError(f"status {status} ({reason})", permanent=permanent)
        if key and key.encode() in raw:
            raise LanguageModelError("the answer repeats the key", permanent=True)
        return self._answer(raw)

    async def _posted(self, body: bytes, headers: dict[str, str]) -> tuple[int, str, bytes]:
        import httpx

        raw = b""
        async with (
            httpx.AsyncClient(timeout=self.timeout, follow_redirects=False) as client,
            client.stream("POST", self.url, content=body, headers=headers) as response,
        ):
            async for chunk in response.aiter_bytes():
                raw += chunk
                if len(raw) > MOST_BYTES:
                    raise LanguageModelError(f"an answer of more than {MOST_BYTES} bytes")
        return response.status_code, response.reason_phrase, raw

    def _answer(self, raw: bytes) -> str:
        try:
            choice = json.loads(raw)["choices"][0]
            text = choice["message"]["content"] if self.kind == "chat" else choice["text"]
        except (ValueError, LookupError, TypeError, RecursionError):
            raise LanguageModelError(f"the answer is not of OpenAI's form: {raw[:80]!r}") from None
        if not isinstance(text, str):
            raise LanguageModelError(f"the answer's text is {text!r:.80}; expected a text")
        return text


class LocalModel:
    """A causal language model of transformers on this machine.

    Args:
        model: A loaded model, in evaluation mode.
        tokenizer: Its tokenizer.
        name: Name under which answers are cached.
        max_tokens: Longest answer in tokens.

    Raises:
        ValueError: ``max_tokens`` below 1; shows it.

    Numerics: Always the most likely next token, so that the same question has the same answer.

    Example:
        >>> LocalModel.from_folder("models/gpt2", max_tokens=20).complete("A hen is")  # doctest: +SKIP
        ' a female chicken.'
    """

    def __init__(self, model: Any, tokenizer: Any, *, name: str, max_tokens: int = 50) -> None:
        check_least_one(max_tokens=max_tokens)
        self.model, self.tokenizer, self.name, self.max_tokens = model, tokenizer, name, max_tokens

    @classmethod
    def from_folder(cls, folder: str | Path, *, device: str = "cpu", max_tokens: int = 50) -> LocalModel:
        """Load a model and its tokenizer from a folder; nothing is downloaded, and weights must be safetensors.

        Raises:
            FileNotFoundError: There is no such folder.
            ModuleNotFoundError: transformers is not installed; the message names the extra.
        """
        if not Path(folder).is_dir():
            raise FileNotFoundError(f"no folder {str(folder)!r}; expected one with a model of transformers")
        try:
            import transformers
        except ImportError:
            raise ModuleNotFoundError(
                "a local language model needs transformers and torch: pip install 'knowledge-prompts[local-model]'"
            ) from None
        loader = transformers.AutoModelForCausalLM
        local: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
        model: Any = loader.from_pretrained(str(folder), use_safetensors=True, **local)
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder), **local)
        return cls(model.to(device).eval(), tokenizer, name=str(Path(folder).resolve()), max_tokens=max_tokens)

    @property
    def identity(self) -> str:
        """Name and settings."""
        return f"local {self.name} {self.max_tokens}"

    def complete(self, prompt: str) -> str:
        """Continue a prompt.

        Raises:
            LanguageModelError: The prompt leaves no room for an answer.
        """
        import torch

        inputs = self.tokenizer(prompt, return_tensors="pt").to(self.model.device)
        length = inputs["input_ids"].shape[1]
        room = getattr(self.model.config, "max_position_embeddings", None)
        if room is not None and length + self.max_tokens > room:
            raise LanguageModelError(f"the question has {length} tokens of the model's {room}", permanent=False)
        end = self.tokenizer.eos_token_id
        with torch.inference_mode():
            outputs = self.model.generate(
                input_ids=inputs["input_ids"],
                attention_mask=inputs["attention_mask"],
                max_new_tokens=self.max_tokens,
                do_sample=False,
                pad_token_id=end if self.tokenizer.pad_token_id is None else self.tokenizer.pad_token_id,
            )
        return str(self.tokenizer.decode(outputs[0, length:], skip_special_tokens=True))
