"""Speed and memory beside fairseq and CTranslate2, behind `aiayn benchmark`."""

import os

# torch's profiler prints two lines for each use, at whatever level that is below this.
os.environ.setdefault("KINETO_LOG_LEVEL", "99")

# Before fairseq, which the plugin keeps from logging while it is imported.
from .. import fairseq_plugin  # noqa: E402, F401
