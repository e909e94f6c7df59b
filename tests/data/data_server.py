"""A file server on the loopback address with the faults that downloads meet."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Mirror:
    """What one mirror serves and how it misbehaves.

    break_after: bytes after which a connection is cut (each connection anew); stall: seconds of silence before the first byte;
    ranges: whether it continues a file; status: answer every request with this code; redirect: send everybody there;
    wrong_range: claim to continue elsewhere; endless: bytes appended without announcing a length.
    """

    files: dict[str, bytes]
    break_after: int | None = None
    stall: float = 0.0
    ranges: bool = True
    status: int | None = None
    redirect: str | None = None
    wrong_range: bool = False
    endless: bytes = b""
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    address: str = ""


@contextmanager
def serve(mirror: Mirror) -> Iterator[Mirror]:
    """Run `mirror` on a free port of 127.0.0.1; sets `mirror.address`."""
    closing = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            name, wanted = self.path.lstrip("/"), self.headers.get("Range")
            mirror.requests.append((name, wanted))
            if mirror.stall:
                closing.wait(mirror.stall)
                self.close_connection = True
                return
            if mirror.redirect is not None:
                self.send_response(302)
                self.send_header("Location", mirror.redirect + name)
                self.end_headers()
                return
            if mirror.status is not None or name not in mirror.files:
                self.send_error(mirror.status or 404)
                return
            self._send(mirror.files[name], wanted)

        def _send(self, content: bytes, wanted: str | None) -> None:
            start = 0
            if wanted is not None and mirror.ranges:
                start = int(wanted.removeprefix("bytes=").rstrip("-"))
                if start >= len(content):
                    self.send_error(416)
                    return
                self.send_response(206)
                first = start + 1 if mirror.wrong_range else start
                self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
            else:
                self.send_response(200)
            body = content[start:]
            if mirror.endless:  # no length announced: the connection's end is the file's end
                body += mirror.endless
            else:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body if mirror.break_after is None else body[: mirror.break_after])
            self.close_connection = True

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    mirror.address = f"http://127.0.0.1:{server.server_address[1]}/"
    try:
        yield mirror
    finally:
        closing.set()
        server.shutdown()
        server.server_close()
        thread.join(5)
