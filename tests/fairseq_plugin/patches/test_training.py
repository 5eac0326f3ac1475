"""Patches of training, and what fairseq's commands leave running."""

import time
from argparse import Namespace

import pytest
import torch
from fairseq import options
from fairseq.data.iterators import BufferedIterator
from models import configuration, fairseq_model, pad_right, parse, sentences

from aiayn_plugin.errors import InputError
from aiayn_plugin.fairseq_plugin.configuration_checks import check_configuration
from aiayn_plugin.fairseq_plugin.patches.training import finish_data_threads

TORCHRUN = {"TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1"}


@pytest.fixture
def torchrun(monkeypatch, quiet):
    """The environment of the second of two processes."""
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)


def joined(args: Namespace) -> tuple:
    """Return the options that join a process to others."""
    return args.distributed_init_method, args.distributed_world_size, args.distributed_rank


@pytest.mark.usefixtures("torchrun")
def test_a_process_of_torchrun_joins_the_others_on_a_cpu():
    args = parse("--arch", "aiayn_tiny", "--cpu")
    assert joined(args) == ("env://", 2, 1) and args.distributed_no_spawn
    assert (args.distributed_backend, args.ddp_backend) == ("gloo", "legacy_ddp")


@pytest.mark.usefixtures("torchrun")
def test_explicit_options_and_single_processes_are_left_to_fairseq(monkeypatch):
    flags = ("--distributed-init-method", "tcp://localhost:9", "--distributed-world-size", "3")
    args = parse("--arch", "aiayn_tiny", "--cpu", *flags)
    assert joined(args) == ("tcp://localhost:9", 3, 0)
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert joined(parse("--arch", "aiayn_tiny", "--cpu"))[0] is None
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("TORCHELASTIC_RUN_ID")
    assert joined(parse("--arch", "aiayn_tiny", "--cpu"))[0] is None


@pytest.mark.usefixtures("torchrun")
def test_generation_under_torchrun_is_refused(corpus):
    """Each process would write its part of the sentences to the same output."""
    generate = ("--path", "model.pt", "--cpu")
    with pytest.raises(InputError, match="runs in one process: start it without torchrun"):
        parse(*generate, parser=options.get_generation_parser, data=corpus)


def test_processes_that_fairseq_has_not_joined_are_refused(torchrun):
    """On a CPU, fairseq-hydra-train starts a separate run in each process."""
    # With its own data: configurations are cached, and those of other tests lack torchrun.
    cfg = configuration("--arch", "aiayn_tiny", "--cpu", data="torchrun")
    check_configuration(cfg)
    cfg.distributed_training.distributed_world_size = 1
    with pytest.raises(InputError, match="torchrun has started 2 processes, which fairseq-hydra"):
        check_configuration(cfg)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_no_two_processes_share_a_gpu(torchrun, monkeypatch):
    gpus = torch.cuda.device_count()
    monkeypatch.setenv("LOCAL_RANK", str(gpus - 1))
    assert parse("--arch", "aiayn_tiny").device_id == gpus - 1
    monkeypatch.setenv("LOCAL_RANK", str(gpus))
    with pytest.raises(InputError, match=f"process {gpus + 1} on a machine with {gpus} GPU"):
        parse("--arch", "aiayn_tiny")


def test_fairseqs_own_model_computes_the_same_after_loading():
    """fairseq 0.12.2 would call a kernel that torch refuses."""
    model, _ = fairseq_model()
    model.eval()
    source, target = sentences()
    source = pad_right(source, 2)
    lengths = source.ne(1).sum(1)
    before = model(source, lengths, target)[0]
    loaded, _ = fairseq_model()
    loaded.load_state_dict(model.state_dict())
    loaded.eval()
    torch.testing.assert_close(loaded(source, lengths, target)[0], before)


class SlowBatches(list):
    """Batches that take 50 ms each to prepare."""

    def __iter__(self):
        for batch in super().__iter__():
            time.sleep(0.05)
            yield batch


@pytest.mark.parametrize("size, batches", [(2, 1000), (1000, 1000), (5, 3)])
def test_threads_that_prepare_batches_end_before_python(size, batches):
    buffered = BufferedIterator(size, SlowBatches(range(batches)))
    assert next(buffered) == 0
    finish_data_threads()
    assert not buffered._consumer.is_alive()
