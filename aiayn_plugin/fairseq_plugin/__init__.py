"""The fairseq plugin: registered components, their options and defaults, and patches.

Importing this package registers the model with its architectures, the task, the criterion, the
optimizer, the schedule, the scorer, the tokenizer and the BPE, and patches fairseq (patches/).
"""

from . import patches  # first, because it silences one of fairseq's messages

# isort: split
from . import criterion, model, optimizer, raw_text, scorer, task

__all__ = ["criterion", "patches", "model", "optimizer", "raw_text", "scorer", "task"]
patches.apply()
