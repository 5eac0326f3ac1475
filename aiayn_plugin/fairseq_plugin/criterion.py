"""§5.4 Label smoothing in fairseq's registry of criteria."""

from dataclasses import dataclass

from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    LabelSmoothedCrossEntropyCriterionConfig,
)

from ..paper import TrainingSettings, copy_field
from ..training.loss import projected_loss


@dataclass
class AiaynCriterionConfig(LabelSmoothedCrossEntropyCriterionConfig):
    label_smoothing: float = copy_field(TrainingSettings, "label_smoothing")


@register_criterion("aiayn_label_smoothed_cross_entropy", dataclass=AiaynCriterionConfig)
class AiaynLabelSmoothedCrossEntropy(LabelSmoothedCrossEntropyCriterion):
    """fairseq's label-smoothed loss, computed together with the projection.

    Logs, options and reductions are fairseq's; the perplexity is that of the unsmoothed loss.
    """

    def forward(self, model, sample, reduce=True):
        """Return loss, sample size and logging output of one batch.

        fairseq's own code handles other models, and options that need the logits of all positions.
        """
        if not reduce or self.needs_logits or not hasattr(model, "autocast_matmuls"):
            return super().forward(model, sample, reduce)
        features, extra = model(**sample["net_input"], features_only=True)
        with model.autocast_matmuls():
            loss, nll = projected_loss(
                features,
                extra["projection"],
                sample["target"],
                self.eps,
                self.padding_idx,
            )
        return loss, *self.build_log(loss, nll, sample)

    @property
    def needs_logits(self) -> bool:
        """Whether an option, or a subclass with a different loss, needs all positions' logits."""
        is_different = (
            type(self).compute_loss is not LabelSmoothedCrossEntropyCriterion.compute_loss
        )
        return is_different or self.report_accuracy or self.ignore_prefix_size > 0

    def build_log(self, loss, nll, sample) -> tuple[float, dict]:
        """Return the sample size and logging output of a batch, given its summed losses."""
        sample_size = sample["target"].size(0) if self.sentence_avg else sample["ntokens"]
        log = {
            "loss": loss.data,
            "nll_loss": nll.data,
            "ntokens": sample["ntokens"],
            "nsentences": sample["target"].size(0),
            "sample_size": sample_size,
        }
        return sample_size, log
