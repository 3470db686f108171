"""All cores of this machine, by processes: Python's own work on a log is done under one lock in each."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing.context import BaseContext

from vdiag.fleet.engines import EngineError
from vdiag.fleet.task import Done, Settings, Task
from vdiag.fleet.work import unread
from vdiag.fleet.worker import begin, work

OPEN = 4  # files, at most, that a process of a pool keeps open in its parent
AHEAD = 2  # portions for each process that are handed out before their turn
NO_PROCESS = "no process that reads can be started"
KILLED = "the process that read it was killed, also when it was tried alone: is there too little memory?"


def run(tasks: Iterable[list[Task]], settings: Settings) -> Iterator[list[Done]]:
    """The rows of each portion of tasks, as they come. EngineError. Closing the iterator ends the processes.

    No log is read in this process, whatever the number of jobs: what takes too much memory takes a worker with it,
    and with that all that the others held. It is read again, each task by itself; one that was lost by itself
    already is tried once more, alone, then becomes a row.
    """
    jobs = _room(settings.jobs or cores())
    waiting = iter(tasks)
    again: list[list[Task]] = []
    more, begun = True, False
    while more or again:
        lost: list[list[Task]] = []
        with _pool(jobs, settings) as pool:
            flying: dict[Future[list[Done]], list[Task]] = {}
            while not lost:
                while not lost and len(flying) < AHEAD * jobs:
                    following = again.pop() if again else next(waiting, None)
                    if following is None:
                        more = False
                        break
                    try:
                        flying[_submitted(pool, following)] = following
                    except BrokenProcessPool:
                        lost.append(following)
                    except OSError:  # no further process can be started
                        lost.append(following)
                        jobs = max(jobs // 2, 1)
                if not flying:
                    break
                for future in wait(flying, return_when=FIRST_COMPLETED).done:
                    portion = flying.pop(future)
                    if isinstance(future.exception(), BrokenProcessPool):
                        lost.append(portion)
                    else:
                        begun = True
                        yield future.result()
            wait(flying, timeout=10)  # of a pool that broke all fail, but what was done before is done
            for future, portion in flying.items():
                if future.done() and future.exception() is None:
                    yield future.result()
                else:
                    lost.append(portion)
        for portion in lost:
            if len(portion) > 1:
                again += [[task] for task in portion]
            else:
                yield [_alone(portion[0], settings, begun)]


def cores() -> int:
    """How many this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def _room(jobs: int) -> int:
    """That many processes, or as many as there may be open files for; their limit is raised as far as it goes."""
    try:
        import resource
    except ImportError:  # not on every system
        return jobs
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return jobs if most == resource.RLIM_INFINITY else min(jobs, max(most // OPEN, 1))


def _submitted(pool: ProcessPoolExecutor, portion: list[Task]) -> Future[list[Done]]:
    """Hands a portion out. BrokenProcessPool, and OSError where no process can be started."""
    with _without_interrupts():
        try:
            return pool.submit(work, portion)
        except BrokenProcessPool:
            raise
        except (EOFError, RuntimeError) as error:  # what starts them died; no thread can be started
            raise OSError(str(error) or "what starts them was killed") from None


def _alone(task: Task, settings: Settings, begun: bool) -> Done:
    """A task in a process of its own. EngineError where no process gets as far as to read, and none `begun` before."""
    with _pool(1, settings) as pool:
        try:
            _submitted(pool, []).result()
            begun = True
            return _submitted(pool, [task]).result()[0]
        except BrokenProcessPool:
            if begun:
                return unread(task, KILLED)
            raise EngineError(
                f"{NO_PROCESS}: it is killed before it reads; is there too little memory?"
            ) from None
        except OSError as error:
            raise EngineError(f"{NO_PROCESS}: {error.strerror or error}") from None


@contextmanager
def _pool(jobs: int, settings: Settings) -> Iterator[ProcessPoolExecutor]:
    """A pool whose processes end with it, also in the middle of a task."""
    pool = ProcessPoolExecutor(jobs, mp_context=_context(), initializer=begin, initargs=(settings,))
    try:
        yield pool
    finally:
        processes = list((getattr(pool, "_processes", None) or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.kill()  # also one that is stopped
        pool.shutdown(wait=True)


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Processes that begin meanwhile never get Ctrl-C, which a terminal sends to all of a group."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _context() -> BaseContext:
    """How processes begin: as copies of one that has imported all, where the system has that."""
    try:
        from multiprocessing import forkserver

        with _without_interrupts():
            forkserver.set_forkserver_preload(["vdiag.fleet.worker"])
            forkserver.ensure_running()
        return multiprocessing.get_context("forkserver")
    except (ImportError, OSError):  # the path of its socket may be too long
        return multiprocessing.get_context("spawn")
