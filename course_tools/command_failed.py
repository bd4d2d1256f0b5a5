"""The error that ends a command of `course` with one sentence in place of a traceback."""


class CommandFailed(Exception):
    """A command cannot do what it was asked for; the text says why, and what to do.

    `status` is the exit status of the command: 1, or 2 where what was named does not exist.
    """

    status = 1
