"""The command as a program sees it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pflrepro import cli


def answer(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Any:
    """What the command prints with --json."""
    assert cli.main([*words, "--json"]) == code
    return json.loads(capsys.readouterr().out)
