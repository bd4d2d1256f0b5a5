"""The error that ends a command of `course` with one sentence instead of a traceback."""


class CommandFailed(Exception):
    """A command failed for a reason that the user can act on; the text states the reason and what to do.

    `status` is the exit status of the command: 1, or 2 if something that was named does not exist.
    """

    status = 1
