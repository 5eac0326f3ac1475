"""Speed and memory, compared with fairseq and CTranslate2: `aiayn benchmark`."""

import os

# The log level of torch's profiler, which otherwise prints two lines for each use.
os.environ.setdefault("KINETO_LOG_LEVEL", "99")

# Before fairseq, because the plugin silences fairseq's messages at import.
from .. import fairseq_plugin  # noqa: E402, F401
