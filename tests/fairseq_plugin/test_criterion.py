"""§5.4 The loss under fairseq's trainer, in every precision."""

import fairseq.utils
import pytest
import torch
import torch.distributed
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.distributed import ModuleProxyWrapper
from models import trainer
from torch.nn.parallel import DistributedDataParallel

from aiayn_plugin.fairseq_plugin.criterion import AiaynLabelSmoothedCrossEntropy
from aiayn_plugin.fairseq_plugin.precision import name_precision

pytestmark = pytest.mark.usefixtures("quiet")
#: Without fairseq's CUDA-only features: flat gradients, and skipping overflows.
FP16 = ["--fp16", "--fp16-no-flatten-grads", "--fp16-init-scale", "4"]


@pytest.mark.parametrize("precision", [[], ["--bf16"], FP16], ids=["float32", "bf16", "fp16"])
def test_the_fused_loss_equals_fairseqs(corpus, tmp_path, precision):
    """Loss, nll and gradients are those of the full matrix of logits."""
    losses, slopes = [], []
    for criterion in ("aiayn_label_smoothed_cross_entropy", "label_smoothed_cross_entropy"):
        flags = ["--criterion", criterion, "--label-smoothing", "0.2", "--dropout", "0"]
        training, epoch = trainer(corpus, tmp_path / criterion, *flags, *precision)
        if criterion.startswith("aiayn"):  # it must not compute the matrix of all logits
            training.get_model().decoder.project = None
        sample, _ = training._prepare_sample(next(epoch.next_epoch_itr(shuffle=False)))
        loss, size, log = training.criterion(training.model, sample)
        loss.backward()
        losses.append(torch.stack((loss.float(), log["nll_loss"].float())) / size)
        slopes.append(training.get_model().projection.grad.float() / size)
    loose = {"rtol": 0.02, "atol": 2e-4} if precision else {"rtol": 1e-5, "atol": 1e-7}
    torch.testing.assert_close(losses[0], losses[1], **loose)
    torch.testing.assert_close(slopes[0], slopes[1], **loose)


def test_options_of_the_loss_have_fairseqs_effect(corpus, tmp_path):
    training, epoch = trainer(corpus, tmp_path, "--dropout", "0")
    sample, _ = training._prepare_sample(next(epoch.next_epoch_itr(shuffle=False)))
    criteria = AiaynLabelSmoothedCrossEntropy, LabelSmoothedCrossEntropyCriterion
    for option in ({"sentence_avg": True}, {"report_accuracy": True}, {"ignore_prefix_size": 1}):
        settings = {"sentence_avg": False, "label_smoothing": 0.1, **option}
        actual, expected = (
            criterion(training.task, **settings)(training.model, sample) for criterion in criteria
        )
        torch.testing.assert_close(actual, expected)  # loss, sample size and logging output


def test_a_subclass_with_a_different_loss_replaces_it(corpus, tmp_path):
    class Doubled(AiaynLabelSmoothedCrossEntropy):
        def compute_loss(self, *arguments, **options):
            loss, nll = super().compute_loss(*arguments, **options)
            return 2 * loss, nll

    training, epoch = trainer(corpus, tmp_path, "--dropout", "0")
    sample, _ = training._prepare_sample(next(epoch.next_epoch_itr(shuffle=False)))
    loss, doubled = (
        criterion(training.task, False, 0.1)(training.model, sample)[0]
        for criterion in (AiaynLabelSmoothedCrossEntropy, Doubled)
    )
    torch.testing.assert_close(doubled, 2 * loss)


def test_half_precision_trains_like_float32(corpus, tmp_path):
    """The losses are nearly equal; sums over updates are float32."""
    losses = []
    for precision in ([], ["--bf16"], FP16):
        training, epoch = trainer(
            corpus, tmp_path, "--dropout", "0", "--warmup-updates", "50", *precision
        )
        batches = 20 * list(epoch.next_epoch_itr(shuffle=True))
        losses.append([training.train_step([batch])["loss"] for batch in batches[:20]])
        moments = training.optimizer.optimizer.state.values()
        kept = [tensor for state in moments for tensor in state.values()]
        kept += [weight for group in training.optimizer.param_groups for weight in group["params"]]
        if "--fp16" not in precision:  # neither weights nor residual sums are rounded
            sample, _ = training._prepare_sample(batches[0])
            features, _ = training.model(**sample["net_input"], features_only=True)
            kept += [features, *training.get_model().parameters()]
        assert {tensor.dtype for tensor in kept} == {torch.float32}
        expected = precision[0].removeprefix("--") if precision else "float32"
        assert name_precision(training.cfg.common, training.get_model()) == expected
    exact, bfloat16, _ = losses
    assert bfloat16 != exact
    for curve in losses:
        assert curve == pytest.approx(exact, abs=0.01) and curve[-1] < curve[0] - 0.5


@pytest.mark.parametrize(
    "flags",
    [
        [],
        ["--neighbourhood", "3"],
        ["--positions", "learned", "--attention-dropout", "0.1"],
    ],
    ids=["base", "restricted", "learned"],
)
def test_an_update_never_waits_for_a_gpu(corpus, tmp_path, flags):
    """Tensors on the device "meta" have no values: reading one fails."""
    training, epoch = trainer(corpus, tmp_path, *flags)
    sample, _ = training._prepare_sample(next(epoch.next_epoch_itr(shuffle=True)))
    model = training.get_model().to("meta")
    on_meta = fairseq.utils.apply_to_sample(lambda tensor: tensor.to("meta"), sample)
    loss, _, _ = training.criterion(model, on_meta)
    loss.backward()
    assert model.projection.grad.shape == model.projection.shape


@pytest.mark.parametrize("tied", ["all", "none"])
def test_each_weight_has_a_gradient_with_find_unused_parameters(corpus, tmp_path, tied):
    """fairseq wraps the model like this on GPUs; one process shows what the wrapper misses."""
    training, epoch = trainer(corpus, tmp_path, "--tie-embeddings", tied, "--dropout", "0")
    sample, _ = training._prepare_sample(next(epoch.next_epoch_itr(shuffle=True)))
    model = training.get_model()
    training.criterion(model, sample)[0].backward()
    alone = {name: weight.grad.clone() for name, weight in model.named_parameters()}
    model.zero_grad()
    torch.distributed.init_process_group("gloo", f"file://{tmp_path}/store", world_size=1, rank=0)
    try:
        wrapped = ModuleProxyWrapper(DistributedDataParallel(model, find_unused_parameters=True))
        training.criterion(wrapped, sample)[0].backward()
    finally:
        torch.distributed.destroy_process_group()
    for name, weight in model.named_parameters():
        torch.testing.assert_close(weight.grad, alone[name])
