"""The command `pflrepro`: reads the command line, calls the package that does the work, prints one answer.

Exit codes: see `EPILOG`. Every message to the user is one line on standard error; with PFLREPRO_TRACEBACK=1 the
traceback is shown as well.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress

from pflrepro import __version__
from pflrepro.cli import artefacts, bench, data, doctor, listing, run, stored
from pflrepro.cli.arguments import Parser, read
from pflrepro.cli.output import reserved_stdout, show, tell
from pflrepro.errors import RunFailed, Stopped, UserError, traceback_wanted

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)  # what is told without the name of a file, whoever writes
DONE, FAILED, BAD_INPUT, STOPPED, INTERRUPTED = 0, 1, 2, Stopped.CODE, 130

EPILOG = """\
examples:
  pflrepro reproduce demo/digits --scale fast
  pflrepro run --algorithm fedavg+dbe --dataset digits --partition dirichlet:0.1 --clients 20 --rounds 20 --seeds 3
  pflrepro list artefacts --json

With --json, accuracies of runs are fractions in [0, 1], numbers of artefacts in the unit of their column, and a number that does
not exist is null.
Exit codes: 0 done, 1 a run failed or a check found something wrong, 2 bad input, 75 asked to end (SIGTERM,
SIGHUP) and all saved, 143 (129) the same where nothing was trained, 130 interrupted (Ctrl-C).
PFLREPRO_TRACEBACK=1 shows the traceback behind an error message.
"""


def build_parser() -> Parser:
    """The parser with every verb; importing and building it loads no framework."""
    from argparse import RawDescriptionHelpFormatter

    parser = Parser(
        prog="pflrepro",
        description="Regenerate the tables and figures of five papers on personalised federated learning.",
        epilog=EPILOG,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"pflrepro {__version__}")
    verbs = parser.add_subparsers(metavar="VERB", dest="verb")
    for room in (listing, data, run, stored, artefacts, bench, doctor):
        room.add(verbs)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (default: this process's) and return the exit code; never raises for a user's mistake."""
    _open_standard_streams()
    try:
        return _answer(sys.argv[1:] if argv is None else argv)
    except UserError as error:
        return _complain(error, BAD_INPUT)
    except RunFailed as error:
        return _complain(error, FAILED)
    except BrokenPipeError:
        return _reader_left()
    except OSError as error:
        if error.filename is None and error.errno not in NO_ROOM:
            raise
        return _complain(error, BAD_INPUT)
    except Stopped:
        return STOPPED
    except KeyboardInterrupt as interrupt:
        tell(": ".join(["interrupted", *map(str, interrupt.args)]))
        return INTERRUPTED


def _open_standard_streams() -> None:
    """A standard stream that whoever called us has closed leads nowhere, and its number to no file that is opened later."""
    if sys.stdout is not None and sys.stderr is not None:
        return
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    for name, number in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w", closefd=False))  # noqa: SIM115 (as long as the process)


def _answer(argv: Sequence[str]) -> int:
    parser = build_parser()
    arguments = read(parser, argv)
    if arguments.verb is None:
        raise UserError("say what to do: pflrepro VERB ... (pflrepro --help lists the verbs)")
    with reserved_stdout() as stream:
        answer = arguments.handler(arguments)
        show(answer, as_json=arguments.json, stream=stream)
    return answer.code


def _complain(error: Exception, code: int) -> int:
    if traceback_wanted():
        traceback.print_exception(error)
    tell(f"error: {error}")
    return code


def _reader_left() -> int:
    """The reader of our output closed it (`| head`) and has what it wanted; what Python still flushes at exit goes nowhere."""
    with suppress(OSError, ValueError):  # standard output is not a real file: nothing is left to flush
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return DONE
