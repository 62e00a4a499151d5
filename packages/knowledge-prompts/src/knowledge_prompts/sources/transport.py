"""One request with one deadline for all of it: name, connection, headers and body."""

from __future__ import annotations

import contextlib
import socket
import threading
import urllib.request
from http.client import HTTPConnection, HTTPMessage, HTTPResponse, HTTPSConnection
from typing import IO, Any

MOST_BYTES = 1 << 20


class TooLongError(OSError):
    """An answer is larger than it may be."""


class _Exchange:
    """A request in a thread of its own, which the caller leaves behind at the deadline, with its connection closed.

    A socket's own limit starts anew with every byte that comes, and no limit holds while a name is looked up.
    """

    def __init__(self, request: urllib.request.Request, timeout: float) -> None:
        self.request, self.timeout = request, timeout
        self.sockets: list[socket.socket] = []
        self.raw = b""
        self.error: BaseException | None = None

    def run(self) -> None:
        opener = urllib.request.build_opener(_NoRedirect, _Plain(self.sockets), _Encrypted(self.sockets))
        try:
            with opener.open(self.request, timeout=self.timeout) as response:
                self.raw = _bounded(response)
        except BaseException as error:  # noqa: BLE001  # raised again, in the caller's thread
            self.error = error

    def close(self) -> None:
        for sock in self.sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


class _Plain(urllib.request.HTTPHandler):
    def __init__(self, sockets: list[socket.socket]) -> None:
        super().__init__()
        self.sockets = sockets

    def http_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(lambda host, **settings: _PlainConnection(self.sockets, host, **settings), req)


class _Encrypted(urllib.request.HTTPSHandler):
    def __init__(self, sockets: list[socket.socket]) -> None:
        super().__init__()
        self.sockets = sockets

    def https_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(lambda host, **settings: _EncryptedConnection(self.sockets, host, **settings), req)


class _PlainConnection(HTTPConnection):
    """Notes its socket, which the answer takes over later."""

    def __init__(self, sockets: list[socket.socket], host: str, **settings: Any) -> None:
        super().__init__(host, **settings)
        self.sockets = sockets

    def connect(self) -> None:
        super().connect()
        self.sockets.append(self.sock)


class _EncryptedConnection(HTTPSConnection):
    """The same, encrypted."""

    def __init__(self, sockets: list[socket.socket], host: str, **settings: Any) -> None:
        super().__init__(host, **settings)
        self.sockets = sockets

    def connect(self) -> None:
        super().connect()
        self.sockets.append(self.sock)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


def _bounded(response: HTTPResponse) -> bytes:
    raw = b""
    while chunk := response.read1(65536):
        raw += chunk
        if len(raw) > MOST_BYTES:
            raise TooLongError(f"an answer of more than {MOST_BYTES} bytes")
    return raw


def send(request: urllib.request.Request, timeout: float) -> bytes:
    """Send a request and return the answer's body, all within a deadline; redirections are not followed.

    Raises:
        TimeoutError: Not whole within `timeout` seconds.
        TooLongError: More than 1 MiB.
        urllib.error.HTTPError, urllib.error.URLError, http.client.HTTPException, OSError: As urllib raises them.
    """
    exchange = _Exchange(request, timeout)
    thread = threading.Thread(target=exchange.run, daemon=True)
    thread.start()
    thread.join(timeout)
    if thread.is_alive():
        exchange.close()
        raise TimeoutError
    if exchange.error is not None:
        raise exchange.error
    return exchange.raw
