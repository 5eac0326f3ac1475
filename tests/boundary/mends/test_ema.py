"""--store-ema: the mean of the weights, of a model that has a buffer of whole numbers."""

import copy

import torch
from fairseq.dataclass.configs import EMAConfig
from fairseq.models.ema import build_ema
from models import build

from aiayn_plugin.checkpoints.files import BUFFER


def test_weights_are_averaged_and_whole_numbers_copied():
    model = build(tie_embeddings="none")  # fairseq's decay is squared for a weight of two names
    first = copy.deepcopy(model.state_dict())
    ema = build_ema(model, EMAConfig(store_ema=True, ema_decay=0.75), None)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(4.0)
    ema.step(model, 1)
    for name, mean in ema.get_model().state_dict().items():
        torch.testing.assert_close(mean, first[name] if name == BUFFER else first[name] + 1.0)
