"""One file from the first mirror that delivers it: over https, resumed where it broke off, checked before it counts."""

from __future__ import annotations

import hashlib
import http.client
import ipaddress
import os
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from pflrepro.data.sets.types import SourceFile
from pflrepro.errors import RunFailed, UserError


class DownloadFailed(RunFailed):
    """No mirror delivered a file as it should be; the message says what each of them did."""


@dataclass(frozen=True)
class Policy:
    """How patient a download is.

    Attributes:
        timeout: seconds without a byte (or below `slowest` bytes/s) until a mirror counts as stalled.
        tries: connections a mirror and file.
        loopback_http: also take plain http from this very machine (for tests; every other address must be https).
    """

    timeout: float = 20.0
    slowest: float = 1024.0
    tries: int = 3
    loopback_http: bool = False


class _Broken(Exception):
    """The transfer stopped early; what has arrived is kept, and another connection may continue it."""


class _StartAgain(Exception):
    """This mirror cannot continue what has arrived so far, but may send the whole file."""


class _Useless(Exception):
    """This mirror does not have the file as it should be."""


Advance = Callable[[int], None]  # called with how many bytes of the file there are
MOST = 4 << 30  # bytes of a file whose size nobody publishes


def fetch(file: SourceFile, mirrors: Sequence[str], folder: Path, policy: Policy, advance: Advance) -> Path:
    """Get `file` into `folder`; returns its path. A finished, right file there is taken as it is.

    What has arrived lies in `<name>.part`; a later call, of this or another process, continues it by an HTTP range request.
    Raises `DownloadFailed` when all mirrors failed, `UserError` for an address that is not https and for a full disk.
    """
    target, part = folder / file.name, folder / f"{file.name}.part"
    if target.exists() and wrong(target, file) is None:
        advance(target.stat().st_size)
        return target
    reasons = []
    for mirror in mirrors:
        reason = _from_mirror(mirror.rstrip("/") + "/" + urllib.parse.quote(file.name), file, part, policy, advance)
        if reason is None:
            os.replace(part, target)
            return target
        reasons.append(f"{urllib.parse.urlsplit(mirror).netloc}: {reason}")
    raise DownloadFailed(f"could not download {file.name}: {'; '.join(reasons) or 'no mirror is known'}")


def wrong(path: Path, file: SourceFile) -> str | None:
    """Why the file at `path` is not `file` (size, SHA-256, MD5), in words; None if it is."""
    size = path.stat().st_size
    if file.size is not None and size != file.size:
        return f"it has {size:,} bytes, expected {file.size:,}"
    sums = {"SHA-256": (hashlib.sha256(), file.sha256), "MD5": (hashlib.md5(usedforsecurity=False), file.md5)}
    with open(path, "rb") as stream:
        while chunk := stream.read(1 << 20):
            for digest, _ in sums.values():
                digest.update(chunk)
    for kind, (digest, expected) in sums.items():
        if expected is not None and digest.hexdigest() != expected:
            return f"wrong checksum ({kind} {digest.hexdigest()[:12]}..., expected {expected[:12]}...)"
    return None


def check_address(url: str, loopback_http: bool = False) -> None:
    """Raise `UserError` unless `url` is https (or, where allowed, plain http to this very machine)."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return
    if not (loopback_http and parts.scheme == "http" and _is_loopback(parts.hostname)):
        raise UserError(f"downloads use https only, not {parts.scheme or 'no scheme'!r} as in {url}")


def _is_loopback(host: str | None) -> bool:
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return host == "localhost"


def _from_mirror(url: str, file: SourceFile, part: Path, policy: Policy, advance: Advance) -> str | None:
    """Try one mirror; returns None when the whole, right file lies at `part`, else what went wrong."""
    reason = ""
    for _ in range(policy.tries):
        before = part.stat().st_size if part.exists() else 0
        try:
            if before != file.size:
                _receive(url, file, part, policy, advance)
            reason = wrong(part, file) or ""
            if not reason:
                return None
            # A continued file can be a mixture of two mirrors' contents: only a transfer from the start convicts the mirror.
            part.unlink()
            if not before:
                return reason
        except _Useless as error:
            return str(error)
        except _StartAgain as error:
            part.unlink()
            reason = str(error)
        except _Broken as error:
            reason = str(error)
            after = part.stat().st_size if part.exists() else 0
            if after <= before:
                return reason
    return reason


def _receive(url: str, file: SourceFile, part: Path, policy: Policy, advance: Advance) -> None:
    """Append to `part` what is missing of `file`; raises `_Broken` or `_Useless` when that does not succeed."""
    offset = part.stat().st_size if part.exists() else 0
    if offset > (file.size or MOST):
        part.unlink()
        offset = 0
    try:
        with _open(url, offset, policy) as response:
            if offset and not _continues(response, offset):
                offset = 0  # the server sends the whole file
            announced = response.headers.get("Content-Length")
            size = offset + int(announced) if announced is not None and announced.isdecimal() else None
            if size is not None and size != file.size and (file.size is not None or size > MOST):
                expected = f"{file.size:,}" if file.size is not None else f"at most {MOST:,}"
                raise _Useless(f"it offers {size:,} bytes, expected {expected}")
            _copy(response, file.size or size, part, offset, policy, advance)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 416 and offset:
                raise _StartAgain("it cannot continue the file from where it broke off") from None
            raise _Useless(f"HTTP {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        raise _Broken(_words(error.reason)) from None
    except (OSError, http.client.HTTPException) as error:
        raise _Broken(_words(error)) from None


def _open(url: str, offset: int, policy: Policy) -> Any:
    check_address(url, policy.loopback_http)
    handlers: list[Any] = [_CheckedRedirects(policy.loopback_http)]
    if _is_loopback(urllib.parse.urlsplit(url).hostname):
        handlers.append(urllib.request.ProxyHandler({}))
    headers = {"User-Agent": "pflrepro", "Accept-Encoding": "identity"}
    if offset:
        headers["Range"] = f"bytes={offset}-"
    request = urllib.request.Request(url, headers=headers)
    return urllib.request.build_opener(*handlers).open(request, timeout=policy.timeout)


class _CheckedRedirects(urllib.request.HTTPRedirectHandler):
    """Follows a redirection only to an address that could have been asked directly."""

    def __init__(self, loopback_http: bool) -> None:
        self.loopback_http = loopback_http

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        try:
            check_address(newurl, self.loopback_http)
        except UserError:
            raise _Useless(f"it redirects to {newurl}, which is not https") from None
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _continues(response: Any, offset: int) -> bool:
    """Whether the answer is the asked-for rest of the file (206), not the whole of it (200)."""
    if response.status != 206:
        return False
    found = re.match(r"bytes (\d+)-\d+/(\d+|\*)$", response.headers.get("Content-Range", ""))
    if found is None or int(found[1]) != offset:
        raise _StartAgain("it answers a request for the rest of the file with another part of it")
    return True


def _copy(response: Any, size: int | None, part: Path, offset: int, policy: Policy, advance: Advance) -> None:
    """Append what arrives; `size`: of the whole file, None where neither we nor the mirror know it."""
    received, since, at_since = offset, time.monotonic(), offset
    advance(received)
    with _opened(part, "ab" if offset else "wb") as out:
        while chunk := response.read1(1 << 16):
            received += len(chunk)
            if received > (size or MOST):
                out.truncate(0)
                raise _Useless(f"it sends more than the expected {size or MOST:,} bytes")
            _write(out, chunk, part)
            advance(received)
            elapsed = time.monotonic() - since
            if elapsed > policy.timeout:
                if received - at_since < policy.slowest * elapsed:
                    raise _Broken(f"stalled after {received:,}{f' of {size:,}' if size else ''} bytes")
                since, at_since = time.monotonic(), received
    if size is not None and received < size:
        raise _Broken(f"the connection ended after {received:,} of {size:,} bytes")


def _opened(path: Path, mode: str) -> IO[bytes]:
    try:
        return open(path, mode, buffering=0)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None


def _write(out: IO[bytes], chunk: bytes, path: Path) -> None:
    try:
        view = memoryview(chunk)
        while view:
            view = view[out.write(view) :]
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None


def _words(reason: Any) -> str:
    if isinstance(reason, TimeoutError):
        return "no answer in time"
    return " ".join(str(getattr(reason, "strerror", None) or reason).split()) or type(reason).__name__
