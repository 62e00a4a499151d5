from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from knowledge_prompts import Endpoint, GeneratedKnowledge, KnowledgeFileError, LanguageModelError
from knowledge_prompts.sources import generated as generation
from knowledge_prompts.sources.elevater_files import read_gpt3, write_gpt3
from knowledge_prompts.sources.generated import check_answer, in_context_prompt, sample_contexts

DEFINITIONS = {name: f"What {name} means." for name in ("ship", "storage tank", "owl", "tench", "hen")}


class Server:
    """A small endpoint on this machine that answers as a test tells it to."""

    def __init__(self) -> None:
        pytest.importorskip("httpx")
        self.asked: list[dict[str, Any]] = []
        self.under_way = self.most_under_way = 0
        self.headers: list[dict[str, str]] = []
        self.answer: Callable[[dict[str, Any]], tuple[int, bytes]] = lambda request: chat("An explanation.")
        self.redirect = ""
        self.counting = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.asked.append({**request, "path": self.path})
                outer.headers.append(dict(self.headers))
                with outer.counting:
                    outer.under_way += 1
                    outer.most_under_way = max(outer.most_under_way, outer.under_way)
                status, body = outer.answer(request)
                with outer.counting:
                    outer.under_way -= 1
                self.send_response(status)
                if outer.redirect:
                    self.send_header("Location", outer.redirect)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


def chat(text: str) -> tuple[int, bytes]:
    return 200, json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]}).encode()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    local_server = Server()
    yield local_server
    local_server.close()


def generated(server: Server, **options: Any) -> GeneratedKnowledge:
    timeout = options.pop("timeout", 5.0)
    return GeneratedKnowledge(Endpoint(server.url, "small", timeout=timeout), DEFINITIONS, wait=0, **options)


def test_prompt_is_figure_10():
    pairs = [
        ("ship", "A water-borne vessel generally larger than a boat."),
        ("storage tank", "A closed container for liquids or gases."),
    ]
    assert in_context_prompt("snowberg", pairs) == (
        "Please explain the concept according to the context.\n===\n"
        "Q: ship\nA: A water-borne vessel generally larger than a boat.\n\n===\n"
        "Q: storage tank\nA: A closed container for liquids or gases.\n\n===\n"
        "Q: snowberg\nA:"
    )


def test_contexts_differ_leave_the_class_out_and_depend_on_nothing_else():
    contexts = sample_contexts("owl", DEFINITIONS, seed=3)
    assert len(contexts) == 5
    assert all(len({name for name, _ in context}) == 3 for context in contexts)
    assert all("owl" not in dict(context) for context in contexts)
    assert len({tuple(context) for context in contexts}) > 1
    assert contexts == sample_contexts("owl", dict(reversed(DEFINITIONS.items())), seed=3)
    assert contexts != sample_contexts("owl", DEFINITIONS, seed=4)
    assert [len(context) for context in sample_contexts("owl", {"hen": "x", "owl": "y"}, shots=9)] == [1] * 5
    with pytest.raises(ValueError, match="no definition of a class other than 'owl'"):
        sample_contexts("owl", {"owl": "x", "hen": " "})
    with pytest.raises(ValueError, match="shots is 0"):
        sample_contexts("owl", DEFINITIONS, shots=0)


def test_every_class_is_asked_about_itself(server):
    server.answer = lambda request: chat(f"About {request['messages'][0]['content'].rsplit('Q: ')[-1]}")
    source = generated(server, items_per_class=2)
    assert source.items("owl") == source.items("owl") == ["About owl"]
    assert source.items("hen") == ["About hen"]
    assert len(server.asked) == source.calls == 4, "what was answered is not asked for again"
    assert server.asked[0]["model"] == "small"
    assert server.asked[0]["path"] == "/v1/chat/completions"
    assert "Authorization" not in server.headers[0]


def test_the_key_is_sent_and_shown_nowhere(server, monkeypatch):
    monkeypatch.setenv("MY_KEY", "secret")
    endpoint = Endpoint(server.url + "/", "small", key_variable="MY_KEY")
    assert endpoint.complete("Q: x\nA:") == "An explanation."
    assert server.asked[0]["path"] == "/v1/chat/completions"
    assert server.headers[0]["Authorization"] == "Bearer secret"
    assert "secret" not in endpoint.identity


def test_answers_are_kept_across_runs(server, tmp_path):
    cache = tmp_path / "deep" / "answers.jsonl"
    first = generated(server, cache=cache, items_per_class=3)
    assert first.items("owl") == ["An explanation."]
    questions = len(server.asked)
    again = generated(server, cache=cache, items_per_class=3)
    assert again.items("owl") == ["An explanation."]
    assert len(server.asked) == questions
    assert again.calls == 0
    other = GeneratedKnowledge(Endpoint(server.url, "large"), DEFINITIONS, cache=cache, items_per_class=1)
    assert other.items("owl") == ["An explanation."]
    assert other.calls == 1, "another model's answers are its own"
    row = json.loads(cache.read_text().splitlines()[0])
    assert (row["classname"], row["answer"]) == ("owl", "An explanation.")


def test_a_line_that_was_being_written_is_asked_for_again(server, tmp_path):
    cache = tmp_path / "answers.jsonl"
    generated(server, cache=cache, items_per_class=2).items("owl")
    whole = cache.read_text()
    cache.write_text(whole[:-5])
    source = generated(server, cache=cache, items_per_class=2)
    assert source.items("owl") == ["An explanation."]
    assert source.calls == 1
    assert cache.read_text() == whole
    cache.write_text("{}\n")
    with pytest.raises(KnowledgeFileError, match=r"answers\.jsonl, line 1: field 'key'"):
        generated(server, cache=cache)
    cache.write_text("oops\n")
    with pytest.raises(KnowledgeFileError, match=r"answers\.jsonl, line 1: not JSON"):
        generated(server, cache=cache)


def test_an_answer_is_parsed_once_however_many_classes_are_asked_about(server, tmp_path, monkeypatch):
    cache = tmp_path / "answers.jsonl"
    names = [f"class {number}" for number in range(20)]
    generated(server, cache=cache, items_per_class=2).items(names[0])
    parsed = 0

    def counted(path: Any, number: int, line: bytes) -> tuple[str, str]:
        nonlocal parsed
        parsed += 1
        return answer_of(path, number, line)

    answer_of = generation._answer_of
    monkeypatch.setattr(generation, "_answer_of", counted)
    source = generated(server, cache=cache, items_per_class=2)
    other = generated(server, cache=cache, items_per_class=2)
    for name in names:
        source.items(name)
    assert parsed == 4, "both read what was there"
    assert other.items(names[-1]) == source.items(names[-1])
    assert parsed == 2 + len(cache.read_text().splitlines()), "the other takes over the rest, once"
    assert other.calls == 0


def test_a_cache_that_was_replaced_is_read_anew(server, tmp_path):
    cache = tmp_path / "answers.jsonl"
    source = generated(server, cache=cache, items_per_class=1)
    source.items("owl")
    cache.unlink()
    assert source.items("owl") == ["An explanation."]
    assert source.calls == 2
    assert len(cache.read_text().splitlines()) == 1


def test_a_failure_is_repeated_then_listed_and_answers_stay(server, tmp_path):
    count = 0

    def sometimes(request: dict[str, Any]) -> tuple[int, bytes]:
        nonlocal count
        count += 1
        return chat("An explanation.") if count in (2, 3) else (500, b"busy")

    server.answer = sometimes
    source = generated(server, cache=tmp_path / "a.jsonl", items_per_class=3, retries=1)
    assert source.items("owl") == ["An explanation."]
    assert source.calls == 5, "one repeated call, one that works, and one that fails twice"
    assert source.failed == {"owl": "status 500 (Internal Server Error): busy (asked 2 times)"}
    assert len((tmp_path / "a.jsonl").read_text().splitlines()) == 2
    server.answer = lambda request: chat("Another one.")
    again = generated(server, cache=tmp_path / "a.jsonl", items_per_class=3)
    assert again.items("owl") == ["An explanation.", "Another one."]
    assert (again.calls, again.failed) == (1, {})


def test_calls_are_bounded(server):
    source = generated(server, items_per_class=2, max_calls=3)
    assert source.items("owl") == ["An explanation."]
    assert source.items("hen") == ["An explanation."]
    assert source.items("tench") == []
    assert len(server.asked) == 3
    assert source.failed == dict.fromkeys(("hen", "tench"), "the bound of 3 calls was reached")


def test_a_refusal_ends_the_questions(server):
    server.answer = lambda request: (401, b"no")
    source = generated(server)
    assert source.items("owl") == source.items("hen") == []
    assert len(server.asked) == 1
    assert "status 401" in source.failed["owl"]
    assert "status 401" in source.failed["hen"]


@pytest.mark.parametrize("status", [408, 429, 503])
def test_a_busy_endpoint_is_asked_again(server, status):
    server.answer = lambda request: (status, b"")
    source = generated(server, items_per_class=1, retries=2)
    assert source.items("owl") == []
    assert len(server.asked) == 3


def test_redirections_are_not_followed(server):
    server.redirect = server.url + "/elsewhere"
    server.answer = lambda request: (302, b"")
    with pytest.raises(LanguageModelError, match="status 302") as caught:
        Endpoint(server.url, "small").complete("x")
    assert caught.value.permanent
    assert len(server.asked) == 1


def test_slow_endpoints_time_out(server):
    server.answer = lambda request: time.sleep(0.4) or chat("late")  # type: ignore[func-returns-value]
    source = generated(server, items_per_class=1, retries=0, timeout=0.1)
    start = time.monotonic()
    assert source.items("owl") == []
    assert time.monotonic() - start < 0.35
    assert source.failed == {"owl": "no answer within 0.1 s (asked 1 times)"}


def test_nobody_there():
    server = Server()
    server.close()
    with pytest.raises(LanguageModelError, match="not reached"):
        Endpoint(server.url, "small", timeout=2).complete("x")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"oops",
        b"\xff\xfe",
        b"[]",
        b'{"choices": []}',
        b'{"choices": [{"message": null}]}',
        b'{"choices": [{"message": {"content": 3}}]}',
        chat(" \n ")[1],
        chat("?!. 12")[1],
        chat("Owl.")[1],
        chat("x" * 601)[1],
        b'"' + b"x" * (1 << 20) + b'"',
        b"[" * 50_000,
    ],
)
def test_nonsense_is_repeated_then_listed(server, body):
    server.answer = lambda request: (200, body)
    source = generated(server, items_per_class=1, retries=1)
    assert source.items("owl") == []
    assert len(server.asked) == 2
    assert list(source.failed) == ["owl"]


def test_the_size_of_an_answer_is_bounded(server):
    whole = json.loads(chat("An explanation.")[1])
    server.answer = lambda request: (200, json.dumps({"padding": "x" * (1 << 20), **whole}).encode())
    with pytest.raises(LanguageModelError, match="more than 1048576 bytes"):
        Endpoint(server.url, "small").complete("x")


def test_answers_end_with_their_line():
    assert check_answer("\n A: A  bird of prey.\nQ: hen", "owl") == "A bird of prey."


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("file:///etc/passwd", {}, "expected one that starts with http"),
        ("127.0.0.1:80", {}, "expected one that starts with http"),
        ("http://x", {"timeout": 0}, "timeout is 0"),
        ("http://x", {"max_tokens": 0}, "max_tokens is 0"),
        ("http://x", {"max_completion_tokens": 0}, "max_completion_tokens is 0"),
        ("http://x", {"stop": "\n"}, "stop is .*; expected a list of texts"),
    ],
)
def test_endpoint_refuses(url, options, message):
    with pytest.raises(ValueError, match=message):
        Endpoint(url, "small", **options)


@pytest.mark.parametrize("option", ["items_per_class", "shots", "at_once", "retries", "wait", "max_calls"])
def test_generation_refuses_numbers_out_of_range(option):
    pytest.importorskip("httpx")
    with pytest.raises(ValueError, match=f"{option} is -1"):
        GeneratedKnowledge(Endpoint("http://x", "small"), DEFINITIONS, **{option: -1})


def test_answers_can_be_stored_in_elevaters_format(server, tmp_path):
    source = generated(server)
    write_gpt3(tmp_path / "GPT3_own.tsv", {name: source.items(name) for name in ("owl", "hen")})
    assert read_gpt3(tmp_path / "GPT3_own.tsv") == {"owl": ("An explanation.",), "hen": ("An explanation.",)}


def test_what_newer_models_refuse_is_not_sent(server):
    Endpoint(server.url, "small").complete("x")
    Endpoint(server.url, "new", max_completion_tokens=900, temperature=None, stop=None).complete("x")
    Endpoint(server.url, "bare", max_tokens=None, temperature=None, stop=["===", "Q:"]).complete("x")
    for request in server.asked:
        del request["messages"], request["path"]
    assert server.asked == [
        {"model": "small", "max_tokens": 50, "temperature": 0.0, "stop": ["\n"]},
        {"model": "new", "max_completion_tokens": 900},
        {"model": "bare", "stop": ["===", "Q:"]},
    ]
    identities = {Endpoint(server.url, "m", stop=stop).identity for stop in (["\n"], None, ["==="])}
    assert len(identities) == 3, "answers of other settings are others"
    assert Endpoint(server.url, "m").identity.endswith('{"max_tokens": 50, "model": "m", "temperature": 0.0}')


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b'{"error": {"message": "Unsupported parameter: \'max_tokens\'.", "type": "x"}}', "parameter: 'max_tokens'."),
        (b'{"error": "quota used up"}', "(Bad Request): quota used up"),
        (b'{"detail": [1]}', "(Bad Request): {'detail': [1]}"),
        (b"<html>\n<b>no</b>\x1b[2J", "(Bad Request): <html> <b>no</b>\\x1b[2J"),
        (b"[1]", "(Bad Request): [1]"),
        (b"\xff" * 2000, "…"),
        (b"", "status 400 (Bad Request)"),
        (b'the key "secret" is wrong', 'the key "***" is wrong'),
        (b'{"error": {"message": "wrong key secr\\u0065t"}}', "wrong key ***"),
    ],
)
def test_a_refusal_says_why(server, monkeypatch, body, shown):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    server.answer = lambda request: (400, body)
    with pytest.raises(LanguageModelError) as caught:
        Endpoint(server.url, "small").complete("x")
    assert str(caught.value).endswith(shown)
    assert len(str(caught.value)) < 400
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_an_answer_that_reasoning_used_up_says_so(server):
    choice = {"finish_reason": "length", "message": {"content": ""}}
    server.answer = lambda request: (200, json.dumps({"choices": [choice]}).encode())
    with pytest.raises(LanguageModelError, match="allow more tokens"):
        Endpoint(server.url, "small").complete("x")


def test_questions_are_under_way_together_but_no_more_than_allowed(server, tmp_path):
    together = threading.Barrier(3)

    def slow(request: dict[str, Any]) -> tuple[int, bytes]:
        together.wait(20)  # goes on once three are there; fewer break it
        return chat(f"About {request['messages'][0]['content'].rsplit('Q: ')[-1]}")

    server.answer = slow
    names = ["owl", "hen", "tench", "owl"]
    done: list[tuple[int, int]] = []
    source = generated(server, cache=tmp_path / "a.jsonl", items_per_class=4, at_once=3)
    expected = {name: [f"About {name}"] for name in names}
    assert source.items_of(names, progress=lambda *numbers: done.append(numbers)) == expected
    assert server.most_under_way == 3
    assert done == [(1, 3), (2, 3), (3, 3)]
    assert source.calls == len(server.asked) == len((tmp_path / "a.jsonl").read_text().splitlines()) == 12
    again = generated(server, cache=tmp_path / "a.jsonl", items_per_class=4)
    assert again.items_of(names) == expected
    assert again.calls == 0


def test_bounds_and_refusals_hold_for_questions_under_way_together(server):
    bounded = generated(server, items_per_class=5, max_calls=3, at_once=4)
    assert bounded.items_of(["owl", "hen"])["owl"] == ["An explanation."]
    assert len(server.asked) == bounded.calls == 3
    server.answer = lambda request: (401, b"no")
    refused = generated(server, items_per_class=5, at_once=2)
    assert refused.items_of(["owl", "hen"]) == {"owl": [], "hen": []}
    assert refused.calls <= 2
    assert set(refused.failed) == {"owl", "hen"}


def test_the_command_sends_what_its_options_say(server, tmp_path, tiny_wordnet):
    pytest.importorskip("typer")
    from knowledge_prompts.cli import console

    (tmp_path / "birds.txt").write_text("sunflower\nplant\n")
    files = [str(tmp_path / "birds.txt"), "--output", str(tmp_path), "--wordnet-folder", str(tiny_wordnet)]
    options = ["--max-completion-tokens", "900", "--unsent", "temperature", "--unsent", "stop", "--at-once", "2"]
    with pytest.raises(SystemExit) as done:
        console(["build", *files, "--endpoint", server.url, "--model", "new", "--items", "2", *options])
    assert not done.value.code
    assert server.asked
    for request in server.asked:
        assert request["max_completion_tokens"] == 900
        assert not {"max_tokens", "temperature", "stop"} & set(request)


def test_a_model_that_gives_no_text_has_failed() -> None:
    class Silent:
        identity = "silent"

        def complete(self, prompt: str) -> Any:
            return None

    source = GeneratedKnowledge(Silent(), {"owl": "A bird."}, items_per_class=1, wait=0)
    assert source.items("hen") == []
    assert "None of type NoneType; expected a text" in source.failed["hen"]
