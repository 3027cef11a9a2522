"""A request of the HTTP door for an ASGI application, and its answer back: whole, so that the door's limits hold."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any
from urllib.parse import unquote_to_bytes

from sqlanon.server.http_api import HttpRequest, Response

Message = MutableMapping[str, Any]
Application = Callable[
    [MutableMapping[str, Any], Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]


async def ask(application: Application, request: HttpRequest, body: bytes, more: Mapping[str, Any]) -> Response:
    """The answer of an application; `more` is put into the scope of the request."""
    path, _, query = request.target.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": unquote_to_bytes(path).decode("utf-8", "replace"),
        "raw_path": path.encode("latin-1"),
        "query_string": query.encode("latin-1"),
        "root_path": "",
        "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in request.headers.items()],
        "client": (request.peer, 0),
        "server": None,
        **more,
    }
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    status, headers, made = 500, [], bytearray()

    async def receive() -> Message:
        return waiting.pop() if waiting else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        nonlocal status, headers
        if message["type"] == "http.response.start":
            status, headers = message["status"], list(message.get("headers", ()))
        elif message["type"] == "http.response.body":
            made.extend(message.get("body", b""))

    await application(scope, receive, send)
    kind = "text/plain; charset=utf-8"
    kept = []
    for name, value in headers:
        text = name.decode("latin-1").title()
        if text == "Content-Type":
            kind = value.decode("latin-1")
        elif text != "Content-Length":  # the door counts by itself
            kept.append((text, value.decode("latin-1")))
    return Response(status, b"" if request.method == "HEAD" else bytes(made), tuple(kept), kind)
