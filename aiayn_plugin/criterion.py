"""§5.4 Label smoothing, under fairseq's trainer and in its logs."""

from dataclasses import dataclass, field

from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    LabelSmoothedCrossEntropyCriterionConfig,
)

from .loss import projected_loss


@dataclass
class AiaynCriterionConfig(LabelSmoothedCrossEntropyCriterionConfig):
    label_smoothing: float = field(
        default=0.1, metadata={"help": "epsilon_ls of §5.4; 0 means no label smoothing"}
    )


@register_criterion("aiayn_label_smoothed_cross_entropy", dataclass=AiaynCriterionConfig)
class AiaynLabelSmoothedCrossEntropy(LabelSmoothedCrossEntropyCriterion):
    """fairseq's criterion, whose formula is the paper's, computed together with the projection.

    Logs, options and reductions are fairseq's; the perplexity is of the unsmoothed loss.
    """

    def forward(self, model, sample, reduce=True):
        """Loss, sample size and logging output of one batch; a model of other make, or an option
        that needs every position's scores, takes fairseq's way."""
        whole = not reduce or self.report_accuracy or self.ignore_prefix_size > 0
        if whole or not hasattr(model, "projection"):
            return super().forward(model, sample, reduce)
        features, _ = model(**sample["net_input"], features_only=True)
        with model.products():
            loss, nll = projected_loss(
                features, model.projection, sample["target"], self.eps, self.padding_idx
            )
        sample_size = sample["target"].size(0) if self.sentence_avg else sample["ntokens"]
        log = {
            "loss": loss.data,
            "nll_loss": nll.data,
            "ntokens": sample["ntokens"],
            "nsentences": sample["target"].size(0),
            "sample_size": sample_size,
        }
        return loss, sample_size, log
