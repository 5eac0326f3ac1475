"""The one error for input that cannot be used."""


class InputError(ValueError):
    """A setting, a file or a line of text cannot be used.

    The message is one line: what is wrong, where, and what to do. Every command prints this line
    and ends with exit status 1; Python code catches a ValueError.
    """
