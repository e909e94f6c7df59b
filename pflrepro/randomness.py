"""Keyed random streams: every draw of a run comes from (seed, purpose, round, client) and from nothing else.

No global generator, no dependence on the order of calls: adding a stream never shifts another, a resumed run draws what an
uninterrupted one would have drawn, and changing the seed changes every stream.
"""

from __future__ import annotations

import hashlib

import numpy as np


def generator(seed: int, purpose: str, round: int = 0, client: int = 0) -> np.random.Generator:
    """The stream of one purpose, round and client; the same key gives the same draws on every platform.

    `purpose` is any short text ("cohort", "clients/train"). `round` may be negative (rounds of a prologue count backwards).
    """
    digest = hashlib.sha256(f"{seed}|{purpose}|{round}|{client}".encode()).digest()
    return np.random.Generator(np.random.PCG64(np.frombuffer(digest, dtype="<u4").tolist()))
