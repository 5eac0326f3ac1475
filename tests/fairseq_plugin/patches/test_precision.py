"""Half precision: where it runs, and where one line says that it cannot."""

import copy
import math

import pytest
import torch
from fairseq.trainer import Trainer
from models import trainer

from aiayn_plugin.errors import InputError
from aiayn_plugin.fairseq_plugin.patches.errors import input_error

FIXED = [
    "--warmup-updates",
    "20",
    "--tokens-per-update",
    "0",
    "--max-tokens",
    "1000",
    "--dropout",
    "0",
    "--seed",
    "3",
]


def curve(data, folder, updates, *flags):
    """Return the loss of each of some updates, and the trainer."""
    training, epoch = trainer(data, folder, *FIXED, *flags)
    batches = list(epoch.next_epoch_itr(shuffle=False))
    losses = [training.train_step([batches[i % len(batches)]])["loss"] for i in range(updates)]
    return [float(loss) for loss in losses], training


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize(
    "flags",
    [["--memory-efficient-bf16"], ["--memory-efficient-fp16", "--fp16-init-scale", "1"]],
    ids=["bf16", "fp16"],
)
def test_memory_efficient_trainings_learn_as_float32s(corpus, tmp_path, flags):
    expected, _ = curve(corpus, tmp_path / "float32", 40)
    found, training = curve(corpus, tmp_path / "half", 40, *flags)
    assert expected[-1] < 0.85 * expected[0]
    assert max(abs(a - b) / a for a, b in zip(expected, found, strict=True)) < 0.03
    weights = list(training.model.parameters())
    assert {w.dtype for w in weights} <= {torch.float16, torch.bfloat16}
    moments = training.optimizer.optimizer.state[weights[0]]
    assert moments["exp_avg"].dtype == moments["exp_avg_sq"].dtype == torch.float32


@pytest.mark.usefixtures("quiet")
def test_a_memory_efficient_run_goes_on_with_its_moments(corpus, tmp_path):
    _, first = curve(corpus, tmp_path, 3, "--memory-efficient-bf16")
    state = copy.deepcopy(first.optimizer.state_dict())
    _, second = curve(corpus, tmp_path, 0, "--memory-efficient-bf16")
    second.optimizer.load_state_dict(state)
    for weight, other in zip(first.model.parameters(), second.model.parameters(), strict=True):
        expected, found = (
            t.optimizer.optimizer.state[w]["exp_avg"] for t, w in ((first, weight), (second, other))
        )
        assert found.dtype == torch.float32 and torch.equal(found, expected)


@pytest.mark.usefixtures("quiet")
def test_float16_without_a_gpu_is_one_line(corpus, tmp_path):
    with pytest.raises(InputError, match="--fp16 needs a GPU, and this run uses none: give --bf16"):
        trainer(corpus, tmp_path, "--fp16")


@pytest.mark.skipif(torch.cuda.is_available(), reason="fairseq handles it on a GPU")
@pytest.mark.usefixtures("quiet")
def test_an_overflow_without_a_gpu_is_one_line(corpus, tmp_path):
    training: Trainer
    training, epoch = trainer(corpus, tmp_path, *FIXED, "--memory-efficient-fp16")
    batch = next(epoch.next_epoch_itr(shuffle=False))
    training.optimizer.scaler.loss_scale = math.inf
    with pytest.raises(Exception) as error:
        training.train_step([batch])
    assert "give a smaller --fp16-init-scale" in str(input_error(error.value))


@pytest.mark.usefixtures("quiet")
def test_amp_takes_the_loss_scale_out_of_the_gradients_once(corpus, tmp_path):
    """With the scaler of a CPU in place of a GPU's. Adam's ε makes the number of times visible."""
    weights = []
    for flags in ([], ["--amp", "--fp16-init-scale", "1024"]):
        training, epoch = trainer(corpus, tmp_path, *FIXED, *flags, "--adam-eps", "0.1")
        if flags:
            training.optimizer._grad_scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        for batch in list(epoch.next_epoch_itr(shuffle=False))[:3]:
            training.train_step([batch])
        weights.append(training.get_model().projection.detach().clone())
    torch.testing.assert_close(weights[0], weights[1], rtol=1e-4, atol=1e-6)
