"""What the processes of a training send each other."""

import io

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.distributed import utils as distributed_utils
from models import rates_taken, trainer

from aiayn_plugin.errors import InputError
from aiayn_plugin.fairseq_plugin.patches.processes import own_gpu, with_plain_data


@pytest.mark.usefixtures("quiet")
def test_what_processes_of_a_resumed_run_send_each_other(corpus, tmp_path):
    """Rank 0 sends the others its checkpoint with a number in place of each tensor."""
    training, epoch = trainer(corpus, tmp_path)
    rates_taken(training, epoch, 1)
    checkpoint_utils.save_checkpoint(training.cfg.checkpoint, training, epoch, 1.0)
    state = checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "checkpoint_last.pt"))
    state["extra_state"]["bleu"] = {"best": np.float64(37.5), "counts": np.array([3, 4])}
    before = torch.serialization.get_safe_globals()
    buffer = io.BytesIO()
    torch.save(distributed_utils._split_tensors_from_obj(state, []), buffer)
    buffer.seek(0)
    received = with_plain_data(lambda: torch.load(buffer, map_location="cpu"))()
    assert received["cfg"].model.d_model == 32
    assert received["model"]["decoder.embedding.weight"].index >= 0
    assert received["extra_state"]["bleu"]["counts"].tolist() == [3, 4]
    assert set(torch.serialization.get_safe_globals()) == set(before)


def test_no_two_processes_share_a_gpu():
    assert [own_gpu(process, 2) for process in (0, 1)] == [0, 1]
    with pytest.raises(InputError, match="a process 3 on a machine with 2 GPUs: .* 2, or --cpu$"):
        own_gpu(2, 2)
