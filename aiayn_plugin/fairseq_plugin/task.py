"""§5.1, §6.1: fairseq's translation task, with the paper's batches and search."""

import gc
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig
from omegaconf import OmegaConf

from ..checkpoints.loading import model_settings
from ..errors import InputError
from ..kernels.cpu_runtime import prepare_cpu
from ..training.batching import sort_by_longer_side
from . import data_checks, raw_text, training_log
from .batch_plan import keep_first_epoch_batches, sentence_sizes
from .configuration_checks import check_configuration
from .criterion import AiaynCriterionConfig
from .defaults import COMPONENTS, find_restart_options
from .disk_space import check_disk_space
from .generation_options import build_search_generator
from .gpu_training import prepare_gpu
from .interrupt import interrupt
from .model import AiaynTransformer, paper_architecture
from .precision import train_in_bfloat16
from .recorder import record_training
from .run_lock import lock_save_dir
from .trainer_hooks import TrainerHooks, forget_earlier_runs

logger = logging.getLogger(__name__)


@dataclass
class AiaynTranslationConfig(TranslationConfig):
    tokens_per_update: int = field(
        default=0,
        metadata={
            "help": "target tokens per update, without padding, over all devices, in batches of at "
            "most --max-tokens (default: 25,000, §5.1; aiayn_tiny: 1,500); 0: use --max-tokens and "
            "--update-freq, as fairseq does"
        },
    )
    length_penalty: ChoiceEnum(("gnmt", "fairseq")) = field(  # type: ignore[valid-type]
        default="gnmt",
        metadata={
            "help": "search: gnmt, the paper's penalty (§6.1), ((5 + |Y|) / 6)^α with --lenpen as "
            "α, or fairseq, with its penalty, length limit, stopping rule and defaults, where "
            "--lenpen is the exponent of |Y|"
        },
    )
    trees_only: bool = field(
        default=False,
        metadata={
            "help": "search, for data made by aiayn prepare-trees: allow only trees over the words "
            "of the sentence (not in the paper)"
        },
    )
    int8: bool = field(
        default=False,
        metadata={
            "help": "search on a CPU with int8 matrix multiplications: faster than float32, but "
            "some translations change"
        },
    )
    no_compile: bool = field(
        default=False,
        metadata={
            "help": "training on a GPU: do not compile the layers, capture CUDA graphs or use the "
            "kernel for short sentences; faster for runs of up to a few thousand updates"
        },
    )
    eval_bleu_detok: str = field(
        default=raw_text.NAME,
        metadata={
            "help": "detokenizer for --eval-bleu: aiayn restores the raw text of data that aiayn "
            "prepare made, and leaves other data as it is; space leaves all data as it is; or "
            "another tokenizer, such as moses"
        },
    )


class TokenDictionary(Dictionary):
    """fairseq's dictionary, except that a sentence is copied from the GPU in one transfer.

    fairseq reads each token of a tensor four times, and each read waits for the GPU.
    """

    def string(self, tensor: Any, *args: Any, **kwargs: Any) -> str:
        """Return the text of (n,) or (batch, n) tokens, as fairseq's does."""
        if torch.is_tensor(tensor) and tensor.dim() == 1:
            tensor = tensor.tolist()
        return super().string(tensor, *args, **kwargs)


@register_task("aiayn_translation", dataclass=AiaynTranslationConfig)
class AiaynTranslation(TrainerHooks):
    """fairseq's translation task with five differences.

    Training batches follow --tokens-per-update, evaluation drops no sentences, every checkpoint to
    average is written, the search is the paper's, and data is rejected if it is broken or if its
    dictionaries do not match the checkpoint's.
    """

    cfg: AiaynTranslationConfig

    def __init__(self, cfg, src_dict, tgt_dict) -> None:
        super().__init__(cfg, src_dict, tgt_dict)
        self.has_criterion = False
        self.building = False  # whether the model still lacks its trained weights
        # Whether --eval-bleu scores raw text. fairseq builds its tokenizer without the data.
        self.detokenizes = False
        if cfg.eval_bleu_detok == raw_text.NAME:
            cfg.eval_bleu_detok = "space"
            self.detokenizes = not cfg.eval_tokenized_bleu

    @classmethod
    def setup_task(cls, cfg, **kwargs):
        """Like fairseq's. Raises InputError for missing data, and for --num-batch-buckets."""
        # A dataclass, if tasks.setup_task was given a Namespace, as in older scripts.
        if not OmegaConf.is_config(cfg):
            cfg = OmegaConf.create({"task": cfg}).task
        data_checks.check_directories(cfg)
        data_checks.check_buckets(cfg)
        return super().setup_task(cfg, **kwargs)

    @classmethod
    def load_dictionary(cls, filename):
        """Like fairseq's. Raises InputError if the dictionary is missing, changed or broken."""
        data_checks.check_dictionary(Path(filename))
        return TokenDictionary.load(filename)

    def load_dataset(self, split, epoch=1, combine=False, **kwargs):
        """Like fairseq's. Raises InputError if one of its files is missing, changed or broken."""
        generation = self.cfg._get_root().get("generation") or {}
        uses_target = generation.get("score_reference") or generation.get("prefix_size")
        needs_target = self.has_criterion or bool(uses_target)
        dictionaries = self.source_dictionary, self.target_dictionary
        data_checks.check_split(self.cfg, split, epoch, combine, dictionaries, needs_target)
        if self.datasets:
            # Iterators of earlier datasets are reference cycles that hold data loader processes.
            gc.collect()
        try:
            super().load_dataset(split, epoch, combine, **kwargs)
        except (OSError, ValueError, AssertionError) as error:
            raise InputError(
                f"split {split!r} cannot be loaded: {error}; prepare the data again"
            ) from error

    def build_criterion(self, cfg, *args, **kwargs):
        """Like fairseq's; every split loaded later needs its target side.

        Bundles and imported models store no criterion; fairseq-validate then uses the paper's.
        """
        self.has_criterion = True
        if cfg is None:
            ours = AiaynCriterionConfig(_name=COMPONENTS["criterion"], sentence_avg=False)
            cfg = OmegaConf.structured(ours)
        return super().build_criterion(cfg, *args, **kwargs)

    def build_model(self, cfg, from_checkpoint=False):
        """Like fairseq's; at the start of training, check, log and record the settings.

        Raises InputError for unusable settings, or if a checkpoint was trained with different ones.
        """
        if not from_checkpoint:
            check_configuration(self.cfg._get_root())
        self.building = True  # with --eval-bleu fairseq builds a generator here too
        try:
            model = super().build_model(cfg, from_checkpoint)
        finally:
            self.building = False
        if self.cfg.eval_bleu and self.detokenizes and raw_text.default_encoders(self.cfg.data, ()):
            self.tokenizer = raw_text.load_pipeline(self.cfg)
        self.settings = model_settings(cfg) if isinstance(model, AiaynTransformer) else None
        if from_checkpoint:
            self.checkpoint_identity.check_settings(self.identity())
        else:
            self.training_cfg = self.cfg._get_root()
            self._start_training(self.training_cfg, model)
        return model

    def _start_training(self, cfg, model) -> None:
        forget_earlier_runs()
        interrupt.install_handler(find_restart_options(cfg.checkpoint))
        lock_save_dir(cfg)
        prepare_cpu()
        if paper_architecture(cfg.model._name) is not None:
            logger.info("the paper's settings and this run's:\n%s", training_log.format_table(cfg))
            train_in_bfloat16(cfg, model)
            prepare_gpu(cfg, model)
        for name, value in training_log.describe_environment(cfg).items():
            logger.info("%s: %s", name, value)
        check_disk_space(cfg, sum(p.numel() for p in model.parameters()))
        record_training(self, cfg, model)

    def get_batch_iterator(self, dataset, max_tokens=None, *args, **kwargs):
        """Like fairseq's; the batches of the training split follow --tokens-per-update."""
        if not self._is_trained_on(dataset):
            # fairseq drops the last sentences of a split if they do not make up a multiple of this.
            kwargs["required_batch_size_multiple"] = 1
            if self.training_cfg is None:  # fairseq-interactive has one dataset per buffer
                kwargs["disable_iterator_cache"] = True
            try:
                return super().get_batch_iterator(dataset, max_tokens, *args, **kwargs)
            except AssertionError as error:
                if "max_tokens" not in str(error):
                    raise
                raise InputError(
                    f"--max-tokens (or --max-tokens-valid) {max_tokens} is below the longest "
                    "sentence: raise it"
                ) from None
        cfg = self.training_cfg
        first_seed = cfg.common.seed + cfg.dataset.update_ordered_indices_seed
        keep_first_epoch_batches(kwargs, first_seed)
        if self.cfg.tokens_per_update > 0:
            plan = self.batch_planner.plan_epoch(dataset, max_tokens, kwargs)
            # fairseq-train reads update_freq only from here, at the start of each epoch.
            cfg.optimization.update_freq = [plan.update_freq]
            max_tokens = plan.max_tokens
        iterator = super().get_batch_iterator(dataset, max_tokens, *args, **kwargs)
        if cfg.dataset.curriculum > 0:
            iterator.reuse_dataloader = False  # a reused loader keeps the first epoch's order
        return iterator

    def _is_trained_on(self, dataset) -> bool:
        return self.training_cfg is not None and dataset is self.datasets.get(self.cfg.train_subset)

    def filter_indices_by_size(
        self, indices, dataset, max_positions=None, ignore_invalid_inputs=False
    ):
        """Like fairseq's; batches of the training split get pairs of similar length (§5.1).

        Raises InputError if a sentence is too long for the model.
        """
        if not ignore_invalid_inputs and max_positions is not None:
            data_checks.check_lengths(indices, dataset, max_positions)
        indices = super().filter_indices_by_size(
            indices, dataset, max_positions, ignore_invalid_inputs
        )
        if self._is_trained_on(dataset):
            return sort_by_longer_side(indices, sentence_sizes(dataset))
        return indices

    def build_generator(self, models, args, *options, **kwargs):
        """See build_search_generator. The arguments are FairseqTask.build_generator's."""
        build_fairseq_generator = super().build_generator
        return build_search_generator(
            self, models, args, build_fairseq_generator, *options, **kwargs
        )
