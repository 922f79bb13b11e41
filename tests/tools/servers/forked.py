"""Start the everyday server many times, but load it only once.

Rules:
1. ``python forked.py serve ADDRESS`` loads the server once and forks a process for each program that connects; it ends
   when its standard input does.
2. A client of the server starts ``python forked.py start ADDRESS``: a small program that passes on its files,
   environment and folder, and ends like the forked process. When it is killed, the forked process ends too.
3. The process that forks has no thread and no event loop.
"""

import json
import os
import select
import signal
import socket
import sys
import threading
from typing import Any

LARGEST = 1_000_000


def start(address: str) -> int:
    """Stand in for the everyday server: pass everything on and wait for its end."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(address)
        surroundings = {"environment": dict(os.environ), "folder": os.getcwd()}
        socket.send_fds(connection, [json.dumps(surroundings).encode()], [0, 1, 2])
        return int(connection.recv(16) or b"1")


def serve(address: str) -> None:
    """Fork a process for each connection."""
    import everyday  # noqa: PLC0415  only this process loads it

    signal.signal(signal.SIGCHLD, _note)
    waking, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    children: dict[int, socket.socket] = {}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(address)
        listening.listen(64)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            ready, _, _ = select.select([listening, waking, 0], [], [])
            if 0 in ready:
                return None
            if waking in ready:
                os.read(waking, 4096)
                _report(children)
            if listening in ready:
                connection, _ = listening.accept()
                if (child := os.fork()) == 0:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    listening.close()
                    return _become(connection, everyday.server)
                children[child] = connection


def _note(number: int, frame: object) -> None:
    """Wake up the selector when a child ends."""


def _report(children: "dict[int, socket.socket]") -> None:
    """Report to the waiting clients how their processes ended."""
    for child, connection in list(children.items()):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            del children[child]
            with connection:
                try:
                    connection.send(b"%d" % max(os.waitstatus_to_exitcode(status), 0))
                except OSError:
                    continue  # it was killed


def _become(connection: socket.socket, server: Any) -> None:
    """Turn this process into the server, with the files of the connected program."""
    text, files, _, _ = socket.recv_fds(connection, LARGEST, 3)
    surroundings = json.loads(text)
    for target, file in enumerate(files):
        os.dup2(file, target)
        os.close(file)
    os.environ.clear()
    os.environ.update(surroundings["environment"])
    os.chdir(surroundings["folder"])
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: PLW1514, SIM115  as Python itself opens them

    def end_with_the_program() -> None:
        connection.recv(1)
        os._exit(0)

    threading.Thread(target=end_with_the_program, daemon=True).start()
    server.run()


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    else:
        sys.exit(start(sys.argv[2]))
