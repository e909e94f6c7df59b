"""Kernels of this very interpreter for notebooks that are executed one after another.

On Linux they are forked from one process that has imported the frameworks, so that each starts in a fraction of a second; elsewhere,
where a process with frameworks does not fork safely, each imports them itself. The package is imported by each kernel anew: an edited
file counts from the next notebook on.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning import LocalProvisioner

KERNEL = "python3"  # a name for the executed notebook; the kernel is of this very interpreter
PACKAGE = str(Path(__file__).resolve().parents[2])  # the folder that holds this package
FRAMEWORKS = ("torch", "pandas", "matplotlib.pyplot", "scipy.stats", "ipykernel.kernelapp")
ARGUMENTS = ("--log-level=CRITICAL",)


def execute(source: str | Path, target: str | Path, values: Mapping[str, Any]) -> None:
    """Execute the notebook at `source` with these parameters into `target`; papermill's and nbclient's errors where a cell fails."""
    import papermill

    # Names and types were checked before (papermill does not know `str | None` and warns of a name it cannot place).
    logging.getLogger("papermill").setLevel(logging.ERROR)
    papermill.execute_notebook(
        str(source),
        str(target),
        parameters=dict(values),
        kernel_name=KERNEL,
        kernel_manager_class=NotebookKernelManager,
        language="python",
        progress_bar=False,
        log_output=False,
        request_save_on_cell_execute=False,
    )


def environment() -> dict[str, str]:
    """The variables of this process, with its package to be found first."""
    path = os.pathsep.join(filter(None, (PACKAGE, os.environ.get("PYTHONPATH", ""))))
    return os.environ | {"PYTHONPATH": path, "PYDEVD_DISABLE_FILE_VALIDATION": "1"}


class Forker:
    """The process that kernels are forked from: started once, ends with this one."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", f"from {__name__} import serve; serve()"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen(command, env=environment(), text=True, **pipes)
        atexit.register(self.close)

    def fork(self, connection_file: str) -> int:
        """The process number of a new kernel; RuntimeError where the forking process is gone."""
        asked = {"file": connection_file, "cwd": str(Path.cwd()), "environment": environment()}
        try:
            print(json.dumps(asked), file=self.process.stdin, flush=True)
            return int(self.process.stdout.readline())
        except (OSError, ValueError) as error:
            raise RuntimeError("the process that kernels are forked from has ended") from error

    def close(self) -> None:
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def serve() -> None:
    """Fork a kernel for every line of standard input; what the forking process runs."""
    for name in FRAMEWORKS:
        __import__(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # kernels that end leave nothing behind
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the process that asked
    for line in sys.stdin:
        child = os.fork()
        if not child:
            _become_kernel(**json.loads(line))
        print(child, flush=True)


def _become_kernel(file: str, cwd: str, environment: dict[str, str]) -> None:
    from ipykernel.kernelapp import IPKernelApp

    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):  # the pipes belong to the forking process
        os.dup2(nothing, stream)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    # The kernel ends when the forking process is gone, which ends with the one that reads its answers.
    with_it = f"--IPKernelApp.parent_handle={os.getppid()}"
    IPKernelApp.launch_instance(argv=["-f", file, with_it, *ARGUMENTS])
    os._exit(0)


class ForkedProcess:
    """A kernel that is no child of this process, seen as `subprocess.Popen` shows its own."""

    stdin = stdout = stderr = None

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def poll(self) -> int | None:
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return 0
        return None

    def wait(self) -> int:
        return 0  # asked only after a `poll` that found it ended

    def send_signal(self, signum: int) -> None:
        os.kill(self.pid, signum)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class ForkedProvisioner(LocalProvisioner):
    """Launches a kernel by asking the `Forker`."""

    forker: ClassVar[Forker | None] = None

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> dict[str, Any]:
        kind = type(self)
        if kind.forker is None or kind.forker.process.poll() is not None:
            kind.forker = Forker()
        pid = await asyncio.to_thread(kind.forker.fork, cmd[cmd.index("-f") + 1])
        self.process, self.pid, self.pgid = ForkedProcess(pid), pid, pid
        return self.connection_info


class NotebookKernelManager(AsyncKernelManager):
    """A kernel manager that needs no installed kernel specification."""

    @property
    def kernel_spec(self) -> KernelSpec:
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}", *ARGUMENTS]
        return KernelSpec(argv=argv, display_name="this environment", language="python", env=environment())

    async def start_kernel(self, **how: Any) -> None:
        if sys.platform == "linux" and self.provisioner is None:
            self.kernel_id = self.kernel_id or str(os.getpid())
            self.provisioner = ForkedProvisioner(kernel_id=self.kernel_id, kernel_spec=self.kernel_spec, parent=self)
        await super().start_kernel(**how)
