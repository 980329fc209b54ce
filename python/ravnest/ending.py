"""How a script ends: by itself, by Ctrl-C, by an error here or on another node. Whichever it is,
the other nodes are told, and the exit code says it."""

import atexit
import contextlib
import functools
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from ravnest import _C
from ravnest.leaf import DataMismatchError

INTERRUPTED = 130  # the exit code of a program that Ctrl-C ended

# Nodes at work, kept until they are closed. A script that ends leaves its runs well; one that
# failed, with the reason.
_at_work: dict[int, Any] = {}
_owner = os.getpid()


def keep(node: Any) -> None:
    """Until `forget`, the end of the script is the node's end, too."""
    _at_work[id(node)] = node
    _end_like_an_interrupt(signal.SIGTERM)


def forget(node: Any) -> None:
    _at_work.pop(id(node), None)


def end_well(node: Any, work: Callable[[], Any]) -> Any:
    """Calls `work`. What ends a run on purpose or from outside ends the script with a sentence
    and an exit code; errors of the script come through. Either way the other nodes are told."""
    # A context manager would not do: Ctrl-C reaches the providers of a terminal together, and
    # the signal may be pending when another's end arrives, to be raised on the way there.
    try:
        try:
            return work()
        except _C.StoppedRun as stopped:
            _leave(node, stopped.exit_code, f"{node.name}: the run was ended. {stopped}")
        except (_C.Error, DataMismatchError) as error:
            _leave(node, 1, f"{node.name}: {error}")
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if not is_good_end(error):
                node.stop(*reason_of(node, error))
            raise
    except KeyboardInterrupt as error:
        with _no_interrupts():
            node.stop(*reason_of(node, error))
            _leave(node, INTERRUPTED, f"{node.name} was interrupted; the run has ended.")


def is_good_end(error: BaseException) -> bool:
    """The script has called sys.exit(), and said that all is well."""
    return isinstance(error, SystemExit) and error.code in (None, 0)


def reason_of(node: Any, error: BaseException) -> tuple[int, str]:
    """Why the node ends the run: the exit code, and a sentence."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, f"{node.name} was interrupted."
    if isinstance(error, SystemExit):
        if isinstance(error.code, int):
            return error.code, f"{node.name} has ended with exit code {error.code}."
        return 1, f"{node.name}: {error.code}"
    return 1, f"{node.name}: {sentence_of(error)}"


def sentence_of(error: BaseException) -> str:
    text = str(error).strip().split("\n")[0]
    return text if text.startswith("[") else f"{type(error).__name__}: {text}"


def _leave(node: Any, exit_code: int, sentence: str) -> None:
    with _no_interrupts():
        node.leave()
        node.display.clear()
        _say(sentence)
    raise SystemExit(exit_code) from None


@contextlib.contextmanager
def _no_interrupts() -> Iterator[None]:
    """Ctrl-C often comes to all providers of a terminal, and while they are ending already."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _end_like_an_interrupt(number: int) -> None:
    """Whoever ends a provider from outside ends the run well, too."""
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(number) is signal.SIG_DFL:
        signal.signal(number, signal.default_int_handler)


def _say(sentence: str) -> None:
    # In one write: `print` makes two, between which another node's sentence may come.
    sys.stderr.write(sentence + "\n")
    sys.stderr.flush()


def _end(node: Any, failure: BaseException | None) -> None:
    if isinstance(failure, KeyboardInterrupt):
        raise failure
    if failure is not None:
        node.stop(1, f"{node.name}: {sentence_of(failure)}")
    else:
        node.close()


@atexit.register
def _end_all() -> None:
    if os.getpid() != _owner:
        return  # a fork of the provider, such as a loader's worker
    # Of a session at the prompt, the last error is not its end.
    failure = None if hasattr(sys, "ps1") else getattr(sys, "last_value", None)
    exit_code = 0
    for node in list(_at_work.values()):
        try:
            end_well(node, functools.partial(_end, node, failure))
        except SystemExit as ended:
            exit_code = exit_code or int(ended.code)
        except BaseException as error:
            _say(f"{node.name}: {sentence_of(error)}")
            exit_code = exit_code or 1
    if exit_code and failure is None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(exit_code)  # the interpreter's own is settled by now
