"""All cores of this machine, by processes: Python's own work on a log is done under one lock in each."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

from vdiag.fleet.task import Done, Settings, Task
from vdiag.fleet.work import unread
from vdiag.fleet.worker import begin, work

AHEAD = 2  # portions for each process that are handed out before their turn
KILLED = "the process that read it was killed, also when it was tried alone: is there too little memory?"


def run(tasks: Iterable[list[Task]], settings: Settings) -> Iterator[list[Done]]:
    """The rows of each portion of tasks, as they come. Closing the iterator ends the processes.

    No log is read in this process, whatever the number of jobs: what takes too much memory takes a worker with it.
    A task whose process is killed is tried once more, alone, then becomes a row.
    """
    jobs = settings.jobs or cores()
    waiting = iter(tasks)
    more = True
    while more:
        suspects: list[list[Task]] = []
        with _pool(jobs, settings) as pool:
            flying: dict[Future[list[Done]], list[Task]] = {}
            while not suspects:
                while more and not suspects and len(flying) < AHEAD * jobs:
                    following = next(waiting, None)
                    more = following is not None
                    if following is not None and not _submit(pool, following, flying):
                        suspects.append(following)
                if not flying:
                    break
                for future in wait(flying, return_when=FIRST_COMPLETED).done:
                    portion = flying.pop(future)
                    if isinstance(future.exception(), BrokenProcessPool):
                        suspects.append(portion)
                    else:
                        yield future.result()
            wait(flying, timeout=10)  # of a pool that broke all fail, but what was done before is done
            for future, portion in flying.items():
                if future.done() and future.exception() is None:
                    yield future.result()
                else:
                    suspects.append(portion)
        for portion in suspects:
            for task in portion:
                yield [_alone(task, settings)]


def cores() -> int:
    """How many this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def _submit(
    pool: ProcessPoolExecutor, portion: list[Task], flying: dict[Future[list[Done]], list[Task]]
) -> bool:
    """Hands a portion out; False if the pool is broken."""
    with _without_interrupts():
        try:
            flying[pool.submit(work, portion)] = portion
        except BrokenProcessPool:
            return False
    return True


def _alone(task: Task, settings: Settings) -> Done:
    """A task in a process of its own."""
    with _pool(1, settings) as pool:
        try:
            with _without_interrupts():
                future = pool.submit(work, [task])
            return future.result()[0]
        except BrokenProcessPool:
            return unread(task, KILLED)


@contextmanager
def _pool(jobs: int, settings: Settings) -> Iterator[ProcessPoolExecutor]:
    """A pool whose processes end with it, also in the middle of a task."""
    known = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in known else "spawn")
    if "forkserver" in known:
        context.set_forkserver_preload(["vdiag.fleet.worker"])
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=begin, initargs=(settings,))
    try:
        yield pool
    finally:
        processes = list((getattr(pool, "_processes", None) or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
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
