"""§5.3 Adam and the schedule under fairseq's trainer, including restarts."""

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.optim import AMPOptimizer, FairseqOptimizer
from models import take_updates, trainer
from omegaconf import OmegaConf

from aiayn_plugin.errors import InputError
from aiayn_plugin.fairseq_plugin.optimizer import AdamConfig, AiaynAdam, parse_betas
from aiayn_plugin.training.optimizer import build_adam, learning_rate


def parameter(values):
    """Return a weight with a gradient of the same values."""
    weight = torch.nn.Parameter(torch.tensor(values))
    weight.grad = torch.tensor(values)
    return weight


@pytest.mark.usefixtures("quiet")
def test_the_trainer_uses_the_rate_of_k_for_update_k_after_a_restart_too(corpus, tmp_path):
    training, epoch = trainer(corpus, tmp_path, "--warmup-updates", "3")
    assert take_updates(training, epoch, 2) == pytest.approx(
        [learning_rate(k, 32, 3) for k in (1, 2)]
    )
    checkpoint_utils.save_checkpoint(training.cfg.checkpoint, training, epoch, 1.0)
    training, epoch = trainer(corpus, tmp_path, "--warmup-updates", "3")
    assert training.get_num_updates() == 2
    assert take_updates(training, epoch, 3) == pytest.approx(
        [learning_rate(k, 32, 3) for k in (3, 4, 5)]
    )


@pytest.mark.usefixtures("quiet")
def test_a_learning_rate_that_was_reduced_stays_reduced_after_a_restart(corpus, tmp_path):
    """reduce_lr_on_plateau has no other record of it."""
    flags = ("--lr-scheduler", "reduce_lr_on_plateau", "--lr", "0.01", "--warmup-updates", "1")
    training, epoch = trainer(corpus, tmp_path, *flags)
    take_updates(training, epoch, 2)
    training.optimizer.set_lr(0.001)
    checkpoint_utils.save_checkpoint(training.cfg.checkpoint, training, epoch, 1.0)
    training, epoch = trainer(corpus, tmp_path, *flags)
    assert take_updates(training, epoch, 1) == [0.001]


def test_the_default_is_the_papers_adam():
    """Gradients of 1e-8 distinguish ε = 1e-9 from other values."""
    weights = [parameter([1e-8, -3e-8]) for _ in range(2)]
    optimizers = (
        AiaynAdam(AdamConfig(lr=[0.1]), weights[:1]),
        build_adam(weights[1:], 0.1, (0.9, 0.98), 1e-9),
    )
    for _ in range(5):
        for optimizer in optimizers:
            optimizer.step()
    assert torch.equal(*weights) and weights[0].abs().min() > 0.1


def with_amp(adam):
    """Return an optimizer in fairseq's wrapper for --amp."""
    common = {"fp16_init_scale": 128, "min_loss_scale": 1e-4}
    return AMPOptimizer(OmegaConf.create({"optimizer": {}, "common": common}), [], adam)


@pytest.mark.parametrize("wrap", [lambda adam: adam, with_amp])
def test_a_restart_keeps_the_moments_and_uses_the_new_settings(wrap):
    first = AiaynAdam(AdamConfig(lr=[0.1]), [parameter([1.0] * 3)])
    first.step()
    changed = AdamConfig(lr=[0.1], adam_betas="(0.8, 0.9)", adam_eps=1e-6)
    second = wrap(AiaynAdam(changed, [parameter([1.0] * 3)]))
    second.load_state_dict(first.state_dict())
    assert second.param_groups[0]["betas"] == (0.8, 0.9)
    assert second.param_groups[0]["eps"] == 1e-6
    state = second.optimizer.state_dict()["state"][0]
    torch.testing.assert_close(state["exp_avg"], torch.full((3,), 0.1))


@pytest.mark.parametrize(
    "moments",
    [
        {"exp_avg": torch.ones(1)},
        {"exp_avg_sq": torch.ones(4)},
        {"exp_avg_sq": torch.ones(6)[::2]},
        {"exp_avg": torch.ones(3), "step": torch.empty(0)},
        {"extra": torch.ones(3)},
    ],
)
def test_moments_of_a_different_shape_are_refused(moments):
    """The fused kernel would read and write outside them."""
    optimizer = AiaynAdam(AdamConfig(lr=[0.1]), [parameter([1.0] * 3)])
    optimizer.step()
    state = optimizer.state_dict()
    state["state"][0] |= moments
    with pytest.raises(InputError, match="moments in the checkpoint do not fit .*reset-optimizer"):
        optimizer.load_state_dict(state)


def test_betas_come_from_a_command_line_or_from_a_list():
    assert parse_betas("(0.9, 0.98)") == (0.9, 0.98)
    assert parse_betas([0.9, 0.98]) == (0.9, 0.98)


@pytest.mark.parametrize(
    "betas", ["0.9", "(0.9,)", "(0.9, 0.98, 0.99)", "(0.9, None)", "x", "(", 0.9]
)
def test_betas_that_are_not_two_numbers_are_refused(betas):
    with pytest.raises(InputError, match="must be two numbers"):
        parse_betas(betas)


@pytest.mark.parametrize("betas", ["(0.9, 1.0)", "(-0.1, 0.9)", [0.9, float("nan")]])
def test_betas_out_of_range_are_refused(betas):
    with pytest.raises(InputError, match=r"must be in \[0, 1\)"):
        parse_betas(betas)


@pytest.mark.parametrize("max_norm", [0.0, 0.5, 100.0])
def test_gradients_are_clipped_as_by_fairseq(max_norm):
    found = []
    for clip in (AiaynAdam.clip_grad_norm, FairseqOptimizer.clip_grad_norm):
        weights = [parameter(values) for values in ([3.0, -4.0], [[12.0]], [0.0])]
        without = torch.nn.Parameter(torch.zeros(2))
        norm = clip(AiaynAdam(AdamConfig(lr=[0.1]), [*weights, without]), max_norm)
        found.append([norm, *(weight.grad for weight in weights)])
    assert found[0][0].item() == 13
    torch.testing.assert_close(found[0], found[1])


def test_gradients_that_are_not_finite_are_refused_except_under_a_loss_scale():
    weight = parameter([1.0, torch.inf])
    for half in ({"fp16": True, "amp": False}, {"fp16": False, "amp": True}):
        assert AiaynAdam(AdamConfig(lr=[0.1], **half), [weight]).clip_grad_norm(0.0) == torch.inf
    optimizer = AiaynAdam(AdamConfig(lr=[0.1], fp16=False, amp=False), [weight])
    with pytest.raises(InputError, match="gradients are NaN or infinite: lower the learning rate"):
        optimizer.clip_grad_norm(1.0)


def test_gradients_that_are_kept_are_zeroed_in_place():
    """CUDA graphs add to the same tensors."""
    optimizer = AiaynAdam(AdamConfig(lr=[0.1]), [weight := parameter([3.0, -4.0])])
    optimizer.keeps_gradients, gradient = True, weight.grad
    optimizer.zero_grad()
    assert weight.grad is gradient and not gradient.any()


def test_flat_and_separate_weights_do_not_share_an_optimizer_state():
    """As when a run with --fp16 on a GPU resumes in float32."""
    flat, apart = (
        AiaynAdam(AdamConfig(lr=[0.1]), [parameter(values) for values in weights])
        for weights in ([[3.0, 4.0, 12.0]], [[3.0, 4.0], [12.0]])
    )
    for saved, continued, numbers in ((flat, apart, "1 .* 2"), (apart, flat, "2 .* 1")):
        saved.step()
        with pytest.raises(InputError, match=f"{numbers} here: on a GPU, --fp16 .*reset-optimizer"):
            continued.load_state_dict(saved.state_dict())
