"""Small models for the tests, fairseq trainers for them, and changes of checkpoints."""

import copy
import functools
import shutil
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from commands import SMALL
from fairseq import checkpoint_utils, options, tasks, utils
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models.transformer import TransformerModel, base_architecture
from fairseq.trainer import Trainer
from omegaconf import DictConfig

import aiayn_plugin.fairseq_plugin  # noqa: F401  it registers the plugin
from aiayn_plugin.fairseq_plugin.model import AiaynTransformer, TransformerConfig

PAD, EOS = 1, 2


def dictionary(words: int) -> Dictionary:
    """Return a dictionary of `words` entries, fairseq's four special symbols included."""
    entries = Dictionary()
    for i in range(words - len(entries)):
        entries.add_symbol(f"w{i}")
    return entries


def build(
    words: int = 30, left_pad_target: bool = False, symbols: int | None = None, **settings
) -> AiaynTransformer:
    """Return a small model in float64, always with the same weights.

    words: entries of the source dictionary; symbols: of the target dictionary (default: words).
    """
    settings = {"N": 2, "d_model": 16, "d_ff": 24, "h": 4, **settings}
    settings = {"max_source_positions": 64, "max_target_positions": 64, **settings}
    task = SimpleNamespace(
        source_dictionary=dictionary(words),
        target_dictionary=dictionary(symbols or words),
        cfg=SimpleNamespace(left_pad_target=left_pad_target),
    )
    torch.manual_seed(1)
    return AiaynTransformer.build_model(TransformerConfig(**settings), task).double()


def fairseq_model(words: int = 30, **settings) -> tuple[TransformerModel, Namespace]:
    """Return a small fairseq Transformer in float32, always the same, and its settings."""
    args = Namespace(
        encoder_layers=2,
        decoder_layers=2,
        encoder_embed_dim=16,
        encoder_ffn_embed_dim=24,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        dropout=0.0,
        **{"share_all_embeddings": True, **settings},
    )
    base_architecture(args)
    torch.manual_seed(3)
    task = SimpleNamespace(source_dictionary=(d := dictionary(words)), target_dictionary=d)
    model = TransformerModel.build_model(args, task)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter, std=0.1)
    return model, args


def sentences(source_length=6, target_length=5, batch=2):
    """Return source and shifted target tokens, without padding."""
    torch.manual_seed(2)
    source = torch.randint(4, 30, (batch, source_length))
    target = torch.randint(4, 30, (batch, target_length))
    source[:, -1] = EOS
    target[:, 0] = EOS  # fairseq's shifted target starts with the end symbol
    return source, target


def pad_left(tokens, n):
    """Return tokens (batch, m) with n columns of padding on the left."""
    return torch.cat((torch.full((tokens.size(0), n), PAD), tokens), dim=1)


def pad_right(tokens, n):
    """Return tokens (batch, m) with n columns of padding on the right."""
    return torch.cat((tokens, torch.full((tokens.size(0), n), PAD)), dim=1)


def parse(*argv: str, parser=options.get_training_parser, data: str | Path = "data") -> Any:
    """Return the options that a fairseq command parses from a command line."""
    return options.parse_args_and_arch(parser(), [str(data), *argv])


@functools.cache  # it takes fairseq nearly a second
def _compose(*argv: str, **kwargs) -> DictConfig:
    return convert_namespace_to_omegaconf(parse(*argv, **kwargs))


def configuration(*argv: str, **kwargs) -> DictConfig:
    """Return fairseq's configuration for a command line; kwargs are parse's."""
    return copy.deepcopy(_compose(*argv, **kwargs))


def trainer(data: Path, save_dir: Path, *flags: str, cpu: bool = True) -> tuple[Trainer, Any]:
    """Return fairseq's trainer of a small model, and its epoch iterator.

    It resumes the run in save_dir, if any. Without `cpu` it uses a GPU if there is one.
    """
    small = [word for word in SMALL if cpu or word != "--cpu"]
    cfg = configuration(*small, "--distributed-world-size", "1", *flags, data=data)
    cfg.checkpoint.save_dir = str(save_dir)
    utils.set_torch_seed(cfg.common.seed)
    task = tasks.setup_task(cfg.task)
    model, criterion = task.build_model(cfg.model), task.build_criterion(cfg.criterion)
    resumed = Trainer(cfg, task, model, criterion)
    _, epoch = checkpoint_utils.load_checkpoint(cfg.checkpoint, resumed)
    return resumed, epoch


def take_updates(trainer: Trainer, epoch: Any, updates: int) -> list[float]:
    """Take the next updates, and return the learning rate of each."""
    rates = []
    trainer.optimizer.optimizer.register_step_pre_hook(
        lambda optimizer, args, kwargs: rates.append(optimizer.param_groups[0]["lr"])
    )
    batches = epoch.next_epoch_itr(shuffle=True)
    for _ in range(updates):
        trainer.train_step([next(batches)])
    return rates


def load_hub(run, data=None, **options):
    """Return fairseq's hub interface for a run directory, by default with its own data."""
    data = data or run / "data"
    return AiaynTransformer.from_pretrained(str(run), "model.pt", str(data), **options)


def change_checkpoint(folder, change):
    """Change the contents of a directory's model.pt."""
    state = torch.load(folder / "model.pt")
    change(state)
    torch.save(state, folder / "model.pt")


def copy_changed(run, folder, change):
    """Return a copy of a run directory, in `folder`, with the contents of its model.pt changed."""
    copy = shutil.copytree(run, folder / "changed", dirs_exist_ok=True)
    change_checkpoint(copy, change)
    return copy


def use_sinusoids(state):
    """Turn a model with learned positions into one with sinusoids."""
    state["cfg"]["model"]["positions"] = "sinusoids"
    state["task_state"]["settings"]["positions"] = "sinusoids"
    for side in ("encoder", "decoder"):
        del state["model"][f"{side}.positions.weight"]
