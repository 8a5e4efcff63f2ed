"""Runs a command in a new pseudo-terminal. Usage: pty-host.py ROWS COLUMNS COMMAND...

Standard input has orders, one JSON object a line: {"write": TEXT} or {"resize": [ROWS, COLUMNS]}.
What the command prints goes to standard output. Ends with the command's exit code.
"""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import sys
import termios


def resize(fd, rows, columns):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def main():
    rows, columns, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    pid, terminal = pty.fork()
    if pid == 0:
        resize(0, rows, columns)
        os.execvp(command[0], command)
    resize(terminal, rows, columns)
    waiting, orders = [terminal, 0], b""
    while True:
        ready, _, _ = select.select(waiting, [], [])
        if terminal in ready:
            try:
                data = os.read(terminal, 65536)
            except OSError:
                break
            if not data:
                break
            os.write(1, data)
        if 0 in ready:
            data = os.read(0, 65536)
            if not data:
                os.kill(pid, signal.SIGKILL)
                waiting.remove(0)
            *lines, orders = (orders + data).split(b"\n")
            for line in lines:
                order = json.loads(line)
                if "write" in order:
                    os.write(terminal, order["write"].encode())
                else:
                    resize(terminal, *order["resize"])
    _, status = os.waitpid(pid, 0)
    sys.exit(os.waitstatus_to_exitcode(status) % 256)


main()
