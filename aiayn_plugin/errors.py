"""The exception for unusable input."""


class InputError(ValueError):
    """An unusable setting, file or line of text.

    The message is one line: what is wrong, where, and what to do. Commands print it and exit with
    status 1.
    """
