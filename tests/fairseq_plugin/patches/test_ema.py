"""--store-ema: the mean of the weights, of a model that has a buffer of whole numbers."""

import copy

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.dataclass.configs import EMAConfig
from fairseq.models.ema import build_ema
from models import build, trainer

from aiayn_plugin.checkpoints.averaging import average
from aiayn_plugin.checkpoints.safe_load import BUFFER


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


@pytest.mark.usefixtures("quiet")
def test_a_run_with_a_mean_goes_on_and_its_checkpoints_are_as_any(corpus, tmp_path):
    flags = ["--store-ema", "--ema-decay", "0.5", "--ema-fp32"]
    training, epoch = trainer(corpus, tmp_path, *flags)
    training.train_step([next(epoch.next_epoch_itr())])
    checkpoint_utils.save_checkpoint(training.cfg.checkpoint, training, epoch, 1.0)
    expected = training.ema.get_model().state_dict()
    again, _ = trainer(corpus, tmp_path, *flags)
    for name, mean in again.ema.get_model().state_dict().items():
        assert torch.equal(mean, expected[name]), name
    path = tmp_path / "checkpoint_last.pt"
    averaged, weights = average([path])["model"], training.model.state_dict()
    assert averaged.keys() == weights.keys()
    mean_alone = checkpoint_utils.load_ema_from_checkpoint(str(path))["model"]
    again.model.load_state_dict(mean_alone)
    torch.testing.assert_close(again.model.projection, expected["encoder.embedding.weight"])
