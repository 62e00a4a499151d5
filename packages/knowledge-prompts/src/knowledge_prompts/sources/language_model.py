"""Language models that complete a text: an endpoint that speaks OpenAI's protocol, or one's own."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol
from urllib.parse import urlsplit

from knowledge_prompts.sources.knowledge import check_least_one
from wary_files.text import printable

MOST_BYTES = 1 << 20
_OK = 200
_TRY_AGAIN = (408, 409, 425, 429)
_LONGEST_REASON = 300  # characters of a refusal's body that are shown
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
        url: The base address, up to and without ``/chat/completions``.
        model: Name of the model.
        key_variable: Environment variable that holds the key; without one set, no key is sent.
        max_tokens: Longest answer; the toolkit's script takes 50. None to leave it out of the request.
        max_completion_tokens: The same by the name that newer chat models take, which count their reasoning, too; sent
            in place of ``max_tokens``.
        temperature: 0 for the most likely answer, as the toolkit's script has it. None to leave it out.
        stop: What ends an answer. None to leave it out; the first line of an answer is taken in any case.
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
        key_variable: str = "OPENAI_API_KEY",
        max_tokens: int | None = 50,
        max_completion_tokens: int | None = None,
        temperature: float | None = 0.0,
        stop: Sequence[str] | None = ("\n",),
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
        limits = {"max_tokens": max_tokens, "max_completion_tokens": max_completion_tokens}
        check_least_one(**{name: value for name, value in limits.items() if value is not None})
        if isinstance(stop, str):
            raise ValueError(f"stop is {stop!r}; expected a list of texts, or None")
        if not timeout > 0:
            raise ValueError(f"timeout is {timeout}; expected more than 0 seconds")
        if importlib.util.find_spec("httpx") is None:
            raise ModuleNotFoundError("an endpoint needs httpx: pip install 'knowledge-prompts[endpoint]'")
        self.url = url.rstrip("/") + "/chat/completions"
        self.timeout, self.key_variable = timeout, key_variable
        if max_completion_tokens is not None:
            limits["max_tokens"] = None
        settings = {"model": model, **limits, "temperature": temperature}
        self.settings = {name: value for name, value in settings.items() if value is not None}
        self.stop = None if stop is None else list(stop)

    @property
    def identity(self) -> str:
        """Address and settings; never the key."""
        settings = self.settings if self.stop == ["\n"] else {**self.settings, "stop": self.stop}
        return f"{self.url} {json.dumps(settings, sort_keys=True)}"

    def complete(self, prompt: str) -> str:
        """Ask once.

        Raises:
            LanguageModelError: Refused, failed, took too long, or answered something else than the protocol's form.
        """
        body: dict[str, Any] = {**self.settings, "messages": [{"role": "user", "content": prompt}]}
        if self.stop is not None:
            body["stop"] = self.stop
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
            raise LanguageModelError(f"status {status} ({reason}){_reason_of(raw, key)}", permanent=permanent)
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
            text = choice["message"]["content"]
        except (ValueError, LookupError, TypeError, RecursionError):
            raise LanguageModelError(f"the answer is not of OpenAI's form: {raw[:80]!r}") from None
        if not text and choice.get("finish_reason") == "length":
            raise LanguageModelError("no text within the longest answer, as of reasoning; allow more tokens")
        if not isinstance(text, str):
            raise LanguageModelError(f"the answer's text is {text!r:.80}; expected a text")
        return text


def _reason_of(raw: bytes, key: str) -> str:
    """What a refusal's body says, in one line: which parameter a model does not take, or that a quota is used up."""
    text = raw.decode("utf-8", "replace")
    try:
        error: Any = json.loads(text)
        error = error.get("error", error)
        text = str(error if isinstance(error, str) else error.get("message", error))
    except (ValueError, AttributeError, RecursionError):
        pass  # not of OpenAI's form: shown as it is
    if key:
        text = text.replace(key, "***")
    text = printable(" ".join(text.split()))
    return f": {text[:_LONGEST_REASON]}{'…' if len(text) > _LONGEST_REASON else ''}" if text else ""
