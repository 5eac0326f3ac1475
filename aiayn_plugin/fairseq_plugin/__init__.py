"""The fairseq plugin: registered components, their options and defaults, and patches.

Importing this package registers the model with its architectures, the task, the criterion, the
optimizer, the schedule, the scorer, the tokenizer and the BPE, and patches fairseq (patches/).
"""

import logging

# If a command imports the plugin first, fairseq warns here that tensorboardX is missing. Only
# --tensorboard-logdir needs it, and fairseq then repeats the warning.
logging.getLogger("fairseq.tasks.text_to_speech").setLevel(logging.WARNING)

from . import criterion, model, optimizer, patches, raw_text, scorer, task  # noqa: E402

__all__ = ["criterion", "patches", "model", "optimizer", "raw_text", "scorer", "task"]
patches.apply()
