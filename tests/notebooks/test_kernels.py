"""Kernels end with the process that asked for them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

PARENT = """
import os, time
from jupyter_client.connect import write_connection_file
from pflrepro.papers import kernels

file, _ = write_connection_file("kernel.json")
child = os.fork()
if not child:
    kernels._become_kernel(file, os.getcwd(), dict(os.environ))
print(child, flush=True)
time.sleep(600)
"""


def threads(pid: int) -> int:
    """How many threads a process has; 0 where it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return 0 if fields["State"].strip().startswith("Z") else int(fields.get("Threads", 0))


@pytest.mark.skipif(sys.platform != "linux", reason="kernels are forked on Linux alone")
def test_a_kernel_ends_with_the_process_that_it_was_forked_from(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], env=environment, cwd=tmp_path, stdout=-1, stderr=-1, text=True
    ) as parent:
        kernel = int(parent.stdout.readline())
        until = time.monotonic() + 60
        while threads(kernel) < 4 and time.monotonic() < until:  # it listens
            time.sleep(0.05)
        assert threads(kernel) >= 4
        parent.kill()
        while threads(kernel) and time.monotonic() < until:
            time.sleep(0.05)
        assert not threads(kernel), "the kernel outlives its parent"
