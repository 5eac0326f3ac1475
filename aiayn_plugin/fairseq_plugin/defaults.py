"""§5, §6.1: the paper's training and search as defaults of fairseq's commands.

Options on the command line always take precedence. A default that depends on other options is set
in two steps: fairseq reads the command line in two passes, and the options of the task and of the
model are known only after the second.
"""

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from fairseq.models import ARCH_MODEL_NAME_REGISTRY, MODEL_DATACLASS_REGISTRY

from ..errors import InputError
from ..paper import ModelSettings, TrainingSettings, get_settings
from ..text.settings import holds_trees
from .generation_options import search_defaults
from .model import TransformerConfig, paper_architecture
from .option_names import flag, to_paper_settings
from .raw_text import default_encoders, first_directory

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
    if (architecture := paper_architecture(args.arch)) is not None:
        model = {**model_defaults(args.arch, architecture), **to_paper_settings(vars(args))}
        vars(args).update({**model, **vars(args)})
    if args.lr_scheduler != COMPONENTS["lr_scheduler"]:
        return
    if "lr" in cli_options:
        raise InputError(
            f"the schedule {args.lr_scheduler} has no --lr: the rate follows from d_model and the "
            "update number (§5.3); drop --lr, or choose another --lr-scheduler"
        )
    if not hasattr(args, "d_model"):
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
    restart_options = ["restore_file"] if checkpoint.restore_file != "checkpoint_last.pt" else []
    restart_options += [
        name for name in checkpoint if name.startswith("reset_") and checkpoint[name]
    ]
    return list(map(flag, restart_options))


def model_defaults(arch: str, architecture: str) -> dict[str, Any]:
    """Return the defaults of the model's settings: those of one of the paper's architectures.

    Defaults that the dataclass of a user's --arch changes take precedence. Raises InputError unless
    that model's dataclass is a TransformerConfig.
    """
    paper = get_settings(architecture)
    model = ARCH_MODEL_NAME_REGISTRY[arch]
    config_class = MODEL_DATACLASS_REGISTRY.get(model, object)
    if not issubclass(config_class, TransformerConfig):
        raise InputError(
            f'--arch {arch}: register its model with @register_model("{model}", '
            "dataclass=TransformerConfig), or with a subclass of TransformerConfig"
        )
    classes = config_class.__mro__[: config_class.__mro__.index(TransformerConfig)]  # the user's
    declared = {name for each in classes for name in vars(each).get("__annotations__", {})}
    return {
        name: getattr(config_class if name in declared else paper, name)
        for name in vars(ModelSettings())
    }


def complete_search(args: Namespace, cli_options: Mapping[str, Any]) -> None:
    """Set the options of search and of raw text that were not given, after fairseq's second pass.

    fairseq-generate reads and writes subwords, so raw text is for fairseq-interactive only. Raises
    InputError for options that are mutually exclusive, fail in fairseq or work only in the other
    command.
    """
    is_interactive = hasattr(args, "buffer_size")
    is_ours = hasattr(args, "length_penalty")  # our task, or a user's subclass
    _check_search(args, is_interactive, is_ours)
    if getattr(args, "paper_bleu_lang", "") is None:
        args.paper_bleu_lang = args.target_lang
    if is_ours:
        if is_interactive:
            vars(args).update(default_encoders(args.data, cli_options))
        trees = holds_trees(first_directory(args.data))
        for name, value in search_defaults(args, args.length_penalty, trees).items():
            if name not in cli_options:
                setattr(args, name, value)
        if args.nbest > args.beam:
            raise InputError(f"--nbest {args.nbest} is more than --beam {args.beam}")


def _check_search(args: Namespace, is_interactive: bool, is_ours: bool) -> None:
    """Raise InputError for options that fail in fairseq, or work only in the other command."""
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
    if not 0 <= args.distributed_rank < args.distributed_world_size:
        raise InputError(
            f"--distributed-rank {args.distributed_rank} must be from 0 to "
            f"{args.distributed_world_size - 1}, below --distributed-world-size"
        )
    if args.score_reference and args.print_alignment == "soft":
        raise InputError("--score-reference gives hard alignments only: use --print-alignment hard")
    for name in ("print_step", "retain_iter_history"):
        if getattr(args, name) and is_ours:
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
