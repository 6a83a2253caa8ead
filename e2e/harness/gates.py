# SPDX-License-Identifier: Apache-2.0
"""Gates: a task of a running job stops at a named gate until the test opens it.

The task connects, writes the gate's name, its process id and a newline, and reads one byte. The
test learns that the task is at the gate, causes a fault, and opens the gate. Neither of them
sleeps.
"""

import os
import re
import socket
import sys
import threading
from collections import defaultdict
from contextlib import suppress

REACH_TIMEOUT_S = 300
MAX_LINE = 1000
ARRIVAL = re.compile(rb"(?P<name>\S+) (?P<pid>[0-9]+)\n")


class Gates:
    """The test's side. Pass `address` to the job."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self._server = socket.create_server((host, 0))
        self._changed = threading.Condition()
        self._waiting: dict[str, list[socket.socket]] = {}
        self._arrivals: defaultdict[str, list[int]] = defaultdict(list)
        self._open: set[str] = set()
        self._all_open_but: set[str] | None = None
        self._accepts = threading.Thread(target=self._accept, daemon=True)
        self._accepts.start()

    @property
    def address(self) -> str:
        host, port = self._server.getsockname()
        return f"{host}:{port}"

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._arrive, args=(connection,), daemon=True).start()

    def _arrive(self, connection: socket.socket) -> None:
        try:
            with connection.makefile("rb") as stream:
                line = stream.readline(MAX_LINE)
        except OSError:  # its process was killed
            connection.close()
            return
        arrival = ARRIVAL.fullmatch(line)
        if arrival is None:
            # Its process was killed before it could send the name of the gate. Any other line is of
            # somebody who takes this port for that of a server which has ended.
            if line:
                print(f"not at a gate, but here: {line[:200]!r}", file=sys.stderr)
            connection.close()
            return
        name, pid = arrival["name"].decode(), arrival["pid"]
        with self._changed:
            self._arrivals[name].append(int(pid))
            if self._is_open(name):
                _let_pass(connection)
            else:
                self._waiting.setdefault(name, []).append(connection)
            self._changed.notify_all()

    def wait_reached(self, name: str) -> int:
        """Waits until a task is at the gate. Returns the process id of the first one."""
        with self._changed:
            reached = self._changed.wait_for(lambda: self._arrivals[name], REACH_TIMEOUT_S)
        assert reached, f"no task reached gate {name} within {REACH_TIMEOUT_S} s"
        return reached[0]

    def run_maps(self, count: int) -> None:
        """Lets map tasks pass `map-<i>`: two at a time, so that each of two executors runs half of
        them."""
        for first in range(0, count, 2):
            pair = [f"map-{first}", f"map-{first + 1}"]
            for name in pair:
                self.wait_reached(name)
            self.open(*pair)

    def run_first_pass(self, maps: int) -> None:
        """Runs the job until all is read once, and executors have no work before `between-0`
        opens."""
        self.run_maps(maps)
        self.open_all(but=("between-0",))
        self.wait_reached("between-0")

    def map_runs(self, count: int) -> list[int]:
        """Returns how often each map task has come to its gate."""
        return [self.arrivals(f"map-{index}") for index in range(count)]

    def arrivals(self, name: str) -> int:
        """Returns how often a task has come to the gate: more than once if the task was
        repeated."""
        with self._changed:
            return len(self._arrivals[name])

    def open(self, *names: str) -> None:
        """Opens gates, for tasks that wait there and for tasks that come later."""
        with self._changed:
            self._open.update(names)
            self._let_pass_where_open()

    def open_all(self, but: tuple[str, ...] = ()) -> None:
        """Opens every gate from now on, except these."""
        with self._changed:
            self._all_open_but = set(but)
            self._let_pass_where_open()

    def _is_open(self, name: str) -> bool:
        rest_is_open = self._all_open_but is not None and name not in self._all_open_but
        return rest_is_open or name in self._open

    def _let_pass_where_open(self) -> None:
        for name in [name for name in self._waiting if self._is_open(name)]:
            for connection in self._waiting.pop(name):
                _let_pass(connection)

    def close(self) -> None:
        with self._changed:
            for connections in self._waiting.values():
                for connection in connections:
                    connection.close()
        # A thread that waits in `accept` keeps a socket open that is closed by another, and its
        # number is free for the next socket meanwhile. So the thread ends first.
        with suppress(OSError):  # closed twice
            self._server.shutdown(socket.SHUT_RDWR)
        self._accepts.join()
        self._server.close()


def _let_pass(connection: socket.socket) -> None:
    try:
        connection.sendall(b"\n")
    except OSError:
        pass  # the task is gone: killed, or its executor was
    connection.close()


def stand_before(address: str | None, name: str) -> None:
    """The task's side: returns when the gate is open, or the test is gone, or it has no gates."""
    if address is None:
        return
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(f"{name} {os.getpid()}\n".encode())
        connection.recv(1)
