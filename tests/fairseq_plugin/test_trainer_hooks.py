"""What the task checks while fairseq's trainer runs, in each precision."""

import copy
import math

import pytest
import torch
from fairseq import checkpoint_utils, tasks
from fairseq.models.ema import build_ema
from models import build, configuration, take_updates, trainer

from aiayn_plugin.checkpoints.averaging import average
from aiayn_plugin.errors import InputError
from aiayn_plugin.fairseq_plugin.patches.errors import input_error
from aiayn_plugin.fairseq_plugin.trainer_hooks import should_stop_early

pytestmark = pytest.mark.usefixtures("quiet")
#: A deterministic run with the same batches in every precision.
FIXED = ("--warmup-updates 20 --tokens-per-update 0 --max-tokens 1000 --dropout 0 --seed 3").split()


# ---- NaN and memory


def test_gradients_that_are_nan_end_the_run(corpus, tmp_path):
    training, epochs = trainer(corpus, tmp_path)
    take_updates(training, epochs, 2)
    with torch.no_grad():
        next(training.model.parameters())[:] = torch.inf
    with pytest.raises(InputError, match="^gradients are NaN or infinite: lower the learning"):
        take_updates(training, epochs, 1)
    assert list(tmp_path.glob("*.pt")) == [], "no crash.pt"


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_ends_the_run(corpus, tmp_path, loss):
    training, epochs = trainer(corpus, tmp_path)
    training.criterion.register_forward_hook(
        lambda module, inputs, output: (*output[:2], {**output[2], "loss": torch.tensor(loss)})
    )
    batch = next(epochs.next_epoch_itr())
    training.valid_step(batch)  # only training needs a finite loss
    training.set_num_updates(2)
    with pytest.raises(InputError, match=f"^update 3: the loss is {loss}: lower the learning"):
        training.train_step([batch])


@pytest.mark.parametrize("processes, first", [(1, True), (1, False), (2, False)])
def test_running_out_of_memory_ends_a_run_unless_the_batch_can_be_skipped(corpus, processes, first):
    """fairseq skips a batch for which a GPU lacks memory.

    In the first update it might skip batches for ever; with several processes the others would
    wait.
    """

    def no_memory(model, sample):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    flags = ("--arch", "aiayn_tiny", "--cpu", "--distributed-world-size", str(processes))
    cfg = configuration(*flags, data=corpus)
    task = tasks.setup_task(cfg.task)
    model = task.build_model(cfg.model)
    task.first_update = 3 if first else 2
    with pytest.raises(RuntimeError) as error:
        task.train_step({}, model, no_memory, None, update_num=2)
    line = str(input_error(error.value))
    if processes == 1 and not first:
        assert type(error.value) is torch.OutOfMemoryError
        assert line == "not enough memory for a batch: use a smaller --max-tokens or --batch-size"
    else:
        assert line.startswith(
            "update 3: not enough memory for a batch: run the same command with a smaller "
        )
        assert "out of memory" not in str(error.value), "fairseq would continue"


# ---- Half precision


def test_the_minimum_loss_scale_is_reported_in_one_line(corpus, tmp_path):
    """fairseq handles overflows until the scale is at its minimum; then its own check fails."""
    flags = ("--fp16", "--fp16-no-flatten-grads", "--fp16-init-scale", "1", "--min-loss-scale", "1")
    training, epoch = trainer(corpus, tmp_path, *FIXED, *flags)
    batch = next(epoch.next_epoch_itr(shuffle=False))
    with torch.no_grad():
        next(training.model.parameters())[:] = torch.inf
    with pytest.raises(Exception) as error:
        training.train_step([batch])
    assert "the gradients overflow at the minimum loss scale" in str(input_error(error.value))


def test_amp_divides_gradients_by_the_loss_scale_once(corpus, tmp_path):
    """With a CPU's scaler instead of a GPU's. A large ε of Adam shows the size of gradients."""
    weights = []
    for flags in ([], ["--amp", "--fp16-init-scale", "1024"]):
        training, epoch = trainer(corpus, tmp_path, *FIXED, *flags, "--adam-eps", "0.1")
        if flags:
            training.optimizer._grad_scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        for batch in list(epoch.next_epoch_itr(shuffle=False))[:3]:
            training.train_step([batch])
        weights.append(training.get_model().projection.detach().clone())
    torch.testing.assert_close(weights[0], weights[1], rtol=1e-4, atol=1e-6)


# ---- --store-ema


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("flags", [[], ["--ema-fp32"]])
def test_every_weight_is_averaged_once(flags, dtype):
    """Including the embedding matrix, which has several names."""
    model = build().to(dtype)
    first = copy.deepcopy(model.state_dict())
    cfg = configuration("--arch", "aiayn_tiny", "--store-ema", "--ema-decay", "0.75", *flags).ema
    ema = build_ema(model, cfg, None)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(4.0)
    ema.step(model, 1)
    for means in (ema.get_model().state_dict(), ema.fp32_params):
        for name, mean in means.items():
            torch.testing.assert_close(mean, (first[name] + 1.0).to(mean.dtype), atol=0.02, rtol=0)


def test_a_run_with_a_moving_average_resumes_and_can_be_averaged(corpus, tmp_path):
    flags = ["--store-ema", "--ema-decay", "0.5", "--ema-fp32", "--ema-update-freq", "2"]
    training, epoch = trainer(corpus, tmp_path, *flags)
    batches = list(epoch.next_epoch_itr())
    for batch in batches[:3]:
        training.train_step([batch])
    checkpoint_utils.save_checkpoint(training.cfg.checkpoint, training, epoch, 1.0)
    resumed, _ = trainer(corpus, tmp_path, *flags)
    for run in (training, resumed):
        run.train_step([batches[3]])
    expected = training.ema.get_model().state_dict()
    for name, mean in resumed.ema.get_model().state_dict().items():
        assert torch.equal(mean, expected[name]), name
    path = tmp_path / "checkpoint_last.pt"
    averaged, weights = average([path])["model"], training.model.state_dict()
    assert averaged.keys() == weights.keys()
    mean_alone = checkpoint_utils.load_ema_from_checkpoint(str(path))["model"]
    resumed.model.load_state_dict(mean_alone)


def test_a_moving_average_begins_with_the_weights_of_a_checkpoint_that_has_none(corpus, tmp_path):
    training, epoch = trainer(corpus, tmp_path)
    training.train_step([next(epoch.next_epoch_itr())])
    checkpoint_utils.save_checkpoint(training.cfg.checkpoint, training, epoch, 1.0)
    resumed, _ = trainer(corpus, tmp_path, "--store-ema")
    weights = training.model.state_dict()
    for name, mean in resumed.ema.get_model().state_dict().items():
        assert torch.equal(mean, weights[name]), name


# ---- --patience


@pytest.mark.parametrize("reset", [None, "reset_meters", "reset_optimizer"])
def test_patience_resumes_its_count_unless_it_is_reset(corpus, reset):
    cfg = configuration("--arch", "aiayn_tiny", data=corpus)
    task = tasks.setup_task(cfg.task)
    task.build_model(cfg.model)
    if reset:
        cfg.checkpoint[reset] = True
    count, resumed = vars(should_stop_early()), {"best": 2.5, "num_runs": 1}
    count.clear()
    try:
        task.set_checkpoint_dict({"best": 3.5})  # damaged: without num_runs
        task.set_checkpoint_dict(resumed)
        assert count == ({} if reset else resumed)
    finally:
        count.clear()


def test_the_next_run_of_a_sweep_starts_anew(corpus):
    cfg = configuration("--arch", "aiayn_tiny", data=corpus)
    should_stop_early().best = checkpoint_utils.save_checkpoint.best = 1.5
    tasks.setup_task(cfg.task).build_model(cfg.model)
    assert not vars(should_stop_early()) and not hasattr(checkpoint_utils.save_checkpoint, "best")


# ---- Identity


def test_a_broken_task_state_is_refused(corpus):
    task = tasks.setup_task(configuration("--arch", "aiayn_tiny", data=corpus).task)
    for state in ({}, {"something": 1}, {"settings": {"h": 4}}):  # from before a field was added
        task.load_state_dict(state)
    assert task.state_dict().keys() == {"something", "dictionaries", "languages"}
    for broken in (
        [],
        {"dictionaries": 3},
        {"dictionaries": {"source": "a", "target": 3}},
        {"settings": {"unknown": 4}},
        {"languages": {"source": 1}},
        {"settings": {"h": torch.ones(3), "neighbourhood": None, "positions": "sinusoids"}},
    ):
        with pytest.raises(InputError, match="the checkpoint is damaged"):
            task.load_state_dict(broken)


class Synchronizations(torch.utils._python_dispatch.TorchDispatchMode):
    """Counts reads of single numbers of tensors, each of which would wait for a GPU."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function is torch.ops.aten._local_scalar_dense.default
        return function(*args, **(kwargs or {}))


def test_text_of_tokens_is_read_without_synchronizations(corpus):
    task = tasks.setup_task(configuration("--arch", "aiayn_tiny", data=corpus).task)
    words, tokens = task.target_dictionary, torch.tensor([5, 3, 9, 2])
    five, nine = words.symbols[5], words.symbols[9]
    with Synchronizations() as reads:
        assert words.string(tokens) == f"{five} <unk> {nine}"
        expected = f"{five} <<unk>> {nine} </s>"
        assert words.string(tokens, escape_unk=True, include_eos=True) == expected
        batch = torch.stack((tokens, tokens))
        assert words.string(batch) == f"{five} <unk> {nine}\n{five} <unk> {nine}"
    assert reads.count == 0
