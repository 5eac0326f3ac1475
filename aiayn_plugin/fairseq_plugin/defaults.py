"""§5, §6.1: the paper's training and search as defaults of fairseq's commands.

Options on the command line always take precedence. A default that depends on other options is set
in two steps: fairseq reads the command line in two passes, and the options of the task and of the
model are known only after the second.
"""

import logging
import os
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from fairseq.dataclass.configs import OptimizationConfig
from fairseq.models import ARCH_MODEL_NAME_REGISTRY, MODEL_DATACLASS_REGISTRY
from hydra.core.hydra_config import HydraConfig

from ..errors import InputError
from ..paper import ARCHITECTURES, ModelSettings, TrainingSettings, get_settings
from ..text.settings import holds_trees
from .generation_options import search_defaults
from .model import TransformerConfig, paper_architecture
from .option_names import flag, to_paper_settings
from .raw_text import default_encoders, first_directory

logger = logging.getLogger(__name__)

COMPONENTS = {
    "criterion": "aiayn_label_smoothed_cross_entropy",
    "optimizer": "aiayn_adam",
    "lr_scheduler": "aiayn_inverse_sqrt",
}
#: The component of each of these options. A different component may have an option of the same
#: name, which keeps its own default.
COMPONENT_OF = {"label_smoothing": "criterion", "warmup_updates": "lr_scheduler"}
#: Options that enable a checkpoint at the end of each epoch.
EPOCH_CHECKPOINT_OPTIONS = {"save_interval", "keep_last_epochs", "no_last_checkpoints"}
#: Numbers that fairseq does not check: it would fail after training has begun.
MINIMUMS = (
    ("checkpoint", "save_interval", 1),
    ("common", "log_interval", 1),
    ("dataset", "num_workers", 0),
    ("dataset", "validate_interval", 1),
    ("optimization", "update_freq", 1),
    ("task", "tokens_per_update", 0),
)
#: Settings without a default here: β and ε are defaults of our optimizer, which has no decay.
LEFT_OUT = {"adam_betas", "adam_eps", "weight_decay"}


def training_defaults(cli_options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults of fairseq-train, except those of the model.

    cli_options: the options on the command line that fairseq's first pass knows. Without an --arch
    of the plugin's model or of a subclass the result is empty.
    """
    if (architecture := paper_architecture(cli_options.get("arch"))) is None:
        return {}
    chosen = {name: cli_options.get(name, ours) for name, ours in COMPONENTS.items()}
    paper, names = get_settings(architecture), vars(TrainingSettings()).keys() - LEFT_OUT
    names -= {name for name, kind in COMPONENT_OF.items() if chosen[kind] != COMPONENTS[kind]}
    training = {name: getattr(paper, name) for name in names}
    if cli_options.keys() & {"batch_size", "update_freq"}:
        training["tokens_per_update"] = 0
    if "max_epoch" in cli_options:
        training["max_update"] = 0  # no second limit
    has_epoch_checkpoints = bool(cli_options.keys() & EPOCH_CHECKPOINT_OPTIONS)
    has_epoch_checkpoints |= cli_options.get("save_interval_updates") == 0
    return {
        **training,
        **COMPONENTS,
        "max_tokens": None if "batch_size" in cli_options else 4096,  # of each device, with padding
        "required_batch_size_multiple": 1,  # fairseq's 8 drops sentences
        "no_epoch_checkpoints": not has_epoch_checkpoints,
    }


def complete_training(args: Namespace, cli_options: Mapping[str, Any]) -> None:
    """Add the model's settings that were not given, after fairseq's second pass.

    Raises InputError if fairseq's names for them contradict each other or ours, and if our schedule
    lacks d_model or would ignore --lr.
    """
    model: dict[str, Any] = {}
    if (architecture := paper_architecture(args.arch)) is not None:
        model = {**model_defaults(args.arch, architecture), **to_paper_settings(vars(args))}
    vars(args).update({**model, **vars(args)})
    if args.lr_scheduler == COMPONENTS["lr_scheduler"] and "lr" in cli_options:
        raise InputError(
            f"the schedule {args.lr_scheduler} has no --lr: the rate follows from d_model and the "
            "update number (§5.3); drop --lr, or choose another --lr-scheduler"
        )
    if args.lr_scheduler == COMPONENTS["lr_scheduler"] and not hasattr(args, "d_model"):
        # fairseq's models call d_model the embedding's dimension; language models have no encoder.
        names = "encoder_embed_dim", "decoder_embed_dim"
        if not (sizes := [getattr(args, name) for name in names if hasattr(args, name)]):
            raise InputError(
                f"the schedule {args.lr_scheduler} needs d_model (§5.3), which --arch {args.arch} "
                "lacks: choose another --lr-scheduler"
            )
        args.d_model = sizes[0]


def find_restart_options(checkpoint: Any) -> list[str]:
    """Return the options with which a repeated command starts over instead of resuming."""
    given = ["restore_file"] if checkpoint.restore_file != "checkpoint_last.pt" else []
    given += [name for name in checkpoint if name.startswith("reset_") and checkpoint[name]]
    return list(map(flag, given))


def check_configuration(cfg: Any) -> None:
    """Check the configuration of a training run with our task, from the command line or Hydra.

    Raises InputError if two settings determine the batch size, if the smoothing is not a
    probability, for numbers that are too small, if the training set is also a validation set, for
    checkpoint options that keep nothing or leave an old checkpoint_last.pt, if our schedule would
    ignore the learning rate, and if fairseq has not joined the processes that torchrun started.
    """
    for group, name, minimum in MINIMUMS:
        values = cfg[group][name]
        for value in [values] if isinstance(values, int) else values:
            if value < minimum:
                raise InputError(f"{flag(name)} {value} must be at least {minimum}")
    is_shared = cfg.dataset.train_subset in cfg.dataset.valid_subset.split(",")
    if is_shared and not cfg.dataset.disable_validation:
        raise InputError(
            f"--valid-subset {cfg.dataset.valid_subset} includes the training set: fairseq would "
            "mix up the batches of both; use a copy of the training set under a different name"
        )
    batches = {"update_freq": [*cfg.optimization.update_freq] != [1]}
    batches["batch_size"] = cfg.dataset.batch_size is not None
    for name, is_set in batches.items():
        if is_set and cfg.task.tokens_per_update > 0:
            raise InputError(
                f"--tokens-per-update and {flag(name)} both set the size of the batches: give one "
                "of them"
            )
    if cfg.checkpoint.no_epoch_checkpoints and cfg.checkpoint.keep_last_epochs > 0:
        raise InputError(
            "keep_last_epochs keeps nothing with no_epoch_checkpoints: omit one of them (with "
            "Hydra, set checkpoint.no_epoch_checkpoints=false)"
        )
    if cfg.checkpoint.write_checkpoints_asynchronously:
        raise InputError(
            "--write-checkpoints-asynchronously would leave an old checkpoint_last.pt: omit it"
        )
    smoothing = getattr(cfg.criterion, "label_smoothing", 0)
    if not 0 <= smoothing <= 1:
        raise InputError(f"label_smoothing {smoothing} must be from 0 to 1")
    if HydraConfig.initialized():
        _check_hydra_name(cfg)
    has_lr = [*cfg.optimization.lr] != OptimizationConfig().lr
    if has_lr and cfg.lr_scheduler._name == COMPONENTS["lr_scheduler"]:
        raise InputError(
            f"the schedule {COMPONENTS['lr_scheduler']} has no optimization.lr: the rate follows "
            "from d_model and the update number (§5.3)"
        )
    started = int(os.environ.get("WORLD_SIZE", 1)) if "TORCHELASTIC_RUN_ID" in os.environ else 1
    if started > 1 == cfg.distributed_training.distributed_world_size:
        raise InputError(
            f"torchrun has started {started} processes, which fairseq-hydra-train joins only on "
            "machines with several GPUs each: use fairseq-train"
        )


def _check_hydra_name(cfg: Any) -> None:
    """Raise InputError if model._name is set, but the settings are those of base.

    With Hydra, all settings come from the configuration, regardless of model._name.
    """
    if (name := cfg.model._name) not in ARCHITECTURES:
        return
    row, base = vars(get_settings(name)), vars(get_settings("aiayn_base"))
    groups = dict.fromkeys(vars(ModelSettings()), "model") | {"label_smoothing": "criterion"}
    changed = [setting for setting in groups if row[setting] != base[setting]]
    if changed and all(getattr(cfg[groups[s]], s, None) == base[s] for s in changed):
        values = " ".join(f"{groups[setting]}.{setting}={row[setting]}" for setting in changed)
        raise InputError(f"model._name={name} alone does not change the settings: give {values}")


def check_best_metric(cfg: Any) -> None:
    """Check --best-checkpoint-metric of a training run with our task and criterion.

    Raises InputError for a metric that validation does not report; fairseq would fail after the
    first validation. Warns if checkpoint_best.pt would be the worst.
    """
    metric = cfg.checkpoint.best_checkpoint_metric
    needs = {"bleu": ("eval_bleu", cfg.task.eval_bleu)}
    if cfg.criterion._name == COMPONENTS["criterion"]:
        needs["accuracy"] = ("report_accuracy", cfg.criterion.report_accuracy)
        known = ("loss", "nll_loss", "ppl", *needs)
        if metric not in known and cfg.task._name == "aiayn_translation":  # a subclass may log more
            raise InputError(
                f"--best-checkpoint-metric {metric} is unknown: choose from {', '.join(known)}"
            )
    if metric in needs:
        option, is_given = needs[metric]
        if not is_given:
            raise InputError(f"--best-checkpoint-metric {metric} needs {flag(option)}")
        if not cfg.checkpoint.maximize_best_checkpoint_metric:
            logger.warning(
                "checkpoint_best.pt will have the lowest %s: add --maximize-best-checkpoint-metric",
                metric,
            )


def model_defaults(arch: str, architecture: str) -> dict[str, Any]:
    """Return the defaults of the model's settings: those of one of the paper's architectures.

    Defaults that the dataclass of a user's --arch changes take precedence. Raises InputError if
    that model has no such dataclass.
    """
    paper = get_settings(architecture)
    model = ARCH_MODEL_NAME_REGISTRY[arch]
    own = MODEL_DATACLASS_REGISTRY.get(model, object)
    if not issubclass(own, TransformerConfig):
        raise InputError(
            f'--arch {arch}: register its model with @register_model("{model}", '
            "dataclass=TransformerConfig), or with a subclass of TransformerConfig"
        )
    classes = own.__mro__[: own.__mro__.index(TransformerConfig)]  # the user's
    declared = {name for each in classes for name in vars(each).get("__annotations__", {})}
    return {
        name: getattr(own if name in declared else paper, name) for name in vars(ModelSettings())
    }


def complete_search(args: Namespace, cli_options: Mapping[str, Any]) -> None:
    """Set the options of search and of raw text that were not given, after fairseq's second pass.

    fairseq-generate reads and writes subwords, so raw text is for fairseq-interactive only. Raises
    InputError for options that are mutually exclusive, fail in fairseq or work only in the other
    command.
    """
    is_interactive = hasattr(args, "buffer_size")
    if args.constraints and not is_interactive:
        raise InputError("--constraints works in fairseq-interactive only")
    if args.replace_unk is not None:
        raise InputError("--replace-unk fails in this version of fairseq: omit it")
    if args.sacrebleu and args.scoring == "bleu":
        raise InputError(
            "--sacrebleu has no effect in this version of fairseq: use --scoring sacrebleu"
        )
    if args.num_shards > 1:
        raise InputError(
            "--num-shards has no effect in this version of fairseq: use --distributed-world-size N "
            "--distributed-rank I"
        )
    if args.score_reference and args.print_alignment == "soft":
        raise InputError("--score-reference gives hard alignments only: use --print-alignment hard")
    for name in ("print_step", "retain_iter_history"):
        if getattr(args, name) and hasattr(args, "length_penalty"):
            raise InputError(f"{flag(name)} is for fairseq's non-autoregressive models: omit it")
    generate_only = {
        "--results-path": args.results_path is not None,
        "--score-reference": args.score_reference,
        "--print-alignment soft": args.print_alignment == "soft",
        "--lm-path": args.lm_path is not None,
        "--prefix-size": args.prefix_size > 0,
    }
    for option, is_set in generate_only.items():
        if is_interactive and is_set:
            raise InputError(f"{option} works in fairseq-generate only")
    if getattr(args, "paper_bleu_lang", "") is None:
        args.paper_bleu_lang = args.target_lang
    if hasattr(args, "length_penalty"):  # of our task, or of a user's subclass
        if is_interactive:
            vars(args).update(default_encoders(args.data, cli_options))
        trees = holds_trees(first_directory(args.data))
        for name, value in search_defaults(args, args.length_penalty, trees).items():
            if name not in cli_options:
                setattr(args, name, value)
        if args.nbest > args.beam:
            raise InputError(f"--nbest {args.nbest} is more than --beam {args.beam}")
