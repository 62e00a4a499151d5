"""Two writers, dripping servers, keys that must not show, nested files, and who may read what was written."""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from knowledge_prompts import (
    ClassPrompts,
    Endpoint,
    GeneratedKnowledge,
    KnowledgeFileError,
    LanguageModelError,
    WordNet,
    build_files,
    load_class_prompts,
)
from knowledge_prompts.sources.elevater_files import write_gpt3
from knowledge_prompts.sources.generated import sole_writer

OWN = ClassPrompts("own", ["a {}."], ["sunflower", "great dane"])
KEY = "sk-very-secret-0123456789"


def hold(path: Path, locked: multiprocessing.Event, done: multiprocessing.Event) -> None:
    with sole_writer(path):
        locked.set()
        done.wait(30)


@pytest.fixture
def holder() -> Iterator[object]:
    context = multiprocessing.get_context("spawn")
    done = context.Event()
    children = []

    def start(path: Path) -> int:
        locked = context.Event()
        child = context.Process(target=hold, args=(path, locked, done))
        child.start()
        children.append(child)
        assert locked.wait(60)
        return child.pid

    yield start
    done.set()
    for child in children:
        child.join(10)


class Model:
    identity = "test"

    def complete(self, prompt: str) -> str:
        return " What it is."


def test_a_second_writer_is_refused(holder, tiny_wordnet, tmp_path):
    holder(tmp_path)
    with pytest.raises(BlockingIOError, match=r"is being written by process \d+ on "):
        build_files(OWN, tmp_path, wordnet=WordNet(tiny_wordnet))
    cache = tmp_path / "gpt3" / "answers.jsonl"
    cache.parent.mkdir()
    holder(cache)
    source = GeneratedKnowledge(Model(), {"owl": "A bird."}, cache=cache)
    with pytest.raises(BlockingIOError, match=r"answers\.jsonl is being written by process \d+ on "):
        source.items("hen")
    assert not cache.exists()


def test_a_lock_of_a_killed_writer_stands_in_nobodys_way(tiny_wordnet, tmp_path):
    context = multiprocessing.get_context("spawn")
    locked, done = context.Event(), context.Event()
    child = context.Process(target=hold, args=(tmp_path, locked, done))
    child.start()
    assert locked.wait(60)
    child.kill()
    child.join(10)
    build_files(OWN, tmp_path, wordnet=WordNet(tiny_wordnet))


def test_answers_of_another_process_are_read_before_asking(tmp_path):
    cache = tmp_path / "answers.jsonl"
    first, second = (GeneratedKnowledge(Model(), {"owl": "A bird."}, cache=cache, items_per_class=1) for _ in range(2))
    first.items("hen")
    assert second.items("hen") == ["What it is."]
    assert (first.calls, second.calls) == (1, 0)


class Dripping:
    """A server that sends one byte of its headers, or of its answer, at a time."""

    def __init__(self, first: bytes) -> None:
        pytest.importorskip("httpx")
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.first = first
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}/v1"
        self.stopped = threading.Event()
        self.gone = threading.Event()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self) -> None:
        connection, _ = self.listener.accept()
        with connection:
            connection.recv(65536)
            try:
                connection.sendall(self.first)
                while not self.stopped.wait(0.05):
                    connection.sendall(b"a")
            except OSError:
                self.gone.set()

    def close(self) -> None:
        self.stopped.set()
        self.thread.join()
        self.listener.close()


@pytest.mark.parametrize("first", [b"HTTP/1.1 200 OK\r\nX-", b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"])
def test_the_deadline_is_total_against_drips(first, monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = Dripping(first)
    start = time.monotonic()
    with pytest.raises(LanguageModelError, match=r"no answer within 0\.5 s"):
        Endpoint(server.url, "small", timeout=0.5).complete("x")
    assert time.monotonic() - start < 4
    assert server.gone.wait(10), "the connection is closed, so that nothing goes on behind the caller's back"
    server.close()


def test_addresses_with_a_key_in_them_are_refused_without_showing_it():
    for url in (f"https://user:{KEY}@host/v1", f"https://host/v1?api_key={KEY}", f"https://host/v1#{KEY}", KEY):
        with pytest.raises(ValueError, match="the endpoint's address") as caught:
            Endpoint(url, "small")
        assert KEY not in str(caught.value)


def answering(answer: bytes) -> tuple[str, threading.Thread]:
    pytest.importorskip("httpx")
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection, listener:
            connection.recv(65536)
            connection.sendall(answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return f"http://127.0.0.1:{listener.getsockname()[1]}/v1", thread


def body(text: bytes, status: bytes = b"200 OK") -> bytes:
    return b"HTTP/1.1 " + status + b"\r\nContent-Length: " + str(len(text)).encode() + b"\r\n\r\n" + text


@pytest.mark.parametrize(
    "answer",
    [
        body(b"", b"401 wrong key " + KEY.encode()),
        body(b"your key is " + KEY.encode()),
        body(json.dumps({"choices": [{"message": {"content": f"It is {KEY}."}}]}).encode()),
        body(json.dumps({"choices": [{"message": {"content": [KEY]}}]}).encode()),
    ],
)
def test_a_key_that_a_server_repeats_goes_nowhere(answer, monkeypatch, tmp_path):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    url, thread = answering(answer)
    endpoint = Endpoint(url, "small", timeout=5)
    assert KEY not in endpoint.identity
    source = GeneratedKnowledge(
        endpoint, {"owl": "A bird."}, cache=tmp_path / "cache.jsonl", items_per_class=1, retries=0
    )
    assert source.items("hen") == []
    thread.join()
    assert source.failed["hen"]
    assert KEY not in source.failed["hen"]
    assert not any(KEY in path.read_text() for path in tmp_path.iterdir())


def test_a_key_that_no_header_takes_is_not_shown(monkeypatch):
    pytest.importorskip("httpx")
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\nX: y")
    with pytest.raises(LanguageModelError, match="OPENAI_API_KEY holds a character that no header takes") as caught:
        Endpoint("http://127.0.0.1:9/v1", "small").complete("x")
    assert KEY not in str(caught.value)
    assert caught.value.permanent


def test_deep_nesting_is_an_error_with_file_and_line(tmp_path):
    deep = "[" * 100_000
    cache = tmp_path / "cache.jsonl"
    cache.write_text(f'{{"key": "a", "answer": "b"}}\n{deep}\n')
    with pytest.raises(KnowledgeFileError, match=r"cache\.jsonl, line 2: nested too deeply"):
        GeneratedKnowledge(Model(), {"owl": "A bird."}, cache=cache)
    (tmp_path / "own.json").write_text(deep)
    with pytest.raises(ValueError, match=r"own\.json: nested too deeply"):
        load_class_prompts(tmp_path / "own.json")


def test_files_honour_the_umask(tmp_path):
    for mask, expected in ((0o022, 0o644), (0o077, 0o600), (0o002, 0o664)):
        before = os.umask(mask)
        try:
            write_gpt3(tmp_path / f"{mask}.tsv", {"owl": ["A bird."]})
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / f"{mask}.tsv").stat().st_mode) == expected


def test_nothing_sets_the_umask_of_other_threads(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "umask", lambda mask: pytest.fail(f"the process's umask was set to {mask:o}"))
    write_gpt3(tmp_path / "a.tsv", {"owl": ["A bird."]})
    assert [path.name for path in tmp_path.iterdir()] == ["a.tsv"]
