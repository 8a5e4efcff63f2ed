"""Runs a command in a terminal, closes the terminal once the command prints a text, and prints the
exit status: a negative one is the signal that has ended the command."""

import os
import pty
import signal
import sys

text, command = sys.argv[1].encode(), sys.argv[2:]
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(command[0], command)
signal.alarm(50)
shown = b""
while text not in shown:
    shown += os.read(terminal, 65536)
os.close(terminal)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
