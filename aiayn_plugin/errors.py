"""How a command ends where its input is bad."""

import os
import sys
from typing import NoReturn


class SettingError(ValueError):
    """A setting, or a combination of settings, that cannot be; the message says what to change."""


class TextError(ValueError):
    """Text, codes or settings that cannot be used; the message is one line for the user."""


def fail(message: str) -> NoReturn:
    """End the command with one clear line on stderr and exit status 1."""
    raise SystemExit(f"{os.path.basename(sys.argv[0])}: error: {message}")
