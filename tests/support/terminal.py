"""Runs a program in a terminal of some columns, and prints what it wrote there.

    terminal.py COLUMNS PROGRAM [ARGUMENTS...]
"""

import fcntl
import os
import pty
import struct
import sys
import termios

columns, program = int(sys.argv[1]), sys.argv[2:]
# The size is set before the program starts.
begin, started = os.pipe()
child, terminal = pty.fork()
if child == 0:
    os.read(begin, 1)
    os.environ["TERM"] = "xterm-256color"
    os.execvp(program[0], program)
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
os.write(started, b"x")
while True:
    try:
        data = os.read(terminal, 1 << 16)
    except OSError:  # The terminal was closed.
        break
    if not data:
        break
    sys.stdout.buffer.write(data)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
