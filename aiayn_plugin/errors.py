"""The exception for unusable input."""


class InputError(ValueError):
    """A setting, a file or a line of text cannot be used.

    The message is one line: what is wrong, where, and what to do. Commands print it and exit with
    status 1.
    """
