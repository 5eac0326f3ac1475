"""§5: the paper's settings are the defaults of fairseq-train, and every typed flag wins."""

import logging

import pytest
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from aiayn_plugin.boundary import disk, log
from aiayn_plugin.errors import InputError
from aiayn_plugin.paper import table


@pytest.fixture(autouse=True)
def quiet():
    logging.disable(logging.INFO)
    yield
    logging.disable(logging.NOTSET)


def parse(*argv, parser=options.get_training_parser):
    return options.parse_args_and_arch(parser(), ["data", *argv])


def configuration(*argv):
    return convert_namespace_to_omegaconf(parse(*argv))


def test_a_command_without_flags_is_the_papers_run():
    cfg = configuration("--arch", "aiayn_big")
    assert cfg.task._name == "aiayn_translation"
    assert cfg.criterion._name == "aiayn_label_smoothed_cross_entropy"
    assert cfg.criterion.label_smoothing == 0.1
    assert (cfg.optimizer._name, cfg.optimizer.adam_eps) == ("aiayn_adam", 1e-9)
    assert cfg.lr_scheduler._name == "aiayn_inverse_sqrt"
    assert (cfg.lr_scheduler.warmup_updates, cfg.lr_scheduler.d_model) == (4000, 1024)
    model = cfg.model
    assert (model.N, model.d_model, model.d_ff, model.h, model.dropout) == (6, 1024, 4096, 16, 0.3)
    assert cfg.optimization.clip_norm == 0
    assert cfg.optimization.max_update == 300_000
    assert cfg.task.tokens_per_update == 25_000
    checkpoint = cfg.checkpoint
    assert (checkpoint.save_interval_updates, checkpoint.keep_interval_updates) == (600, 20)
    assert checkpoint.no_epoch_checkpoints
    assert not [row for row in log.compare(cfg) if row[1] != row[2]]


@pytest.mark.parametrize("arch, dropout, steps", [
    ("aiayn_base", 0.1, 100_000), ("aiayn_big", 0.3, 300_000), ("aiayn_big_en_fr", 0.1, 300_000),
])
def test_each_architecture_has_its_settings(arch, dropout, steps):
    cfg = configuration("--arch", arch)
    assert (cfg.model.dropout, cfg.optimization.max_update) == (dropout, steps)
    assert "changed" not in log.block(cfg)


def test_typed_flags_win_and_are_marked():
    cfg = configuration(
        "--arch", "aiayn_big", "--lr-scheduler", "fixed", "--lr", "0.001",
        "--label-smoothing", "0.2", "--dropout", "0.1", "--max-update", "7", "--clip-norm", "1",
        "--adam-betas", "(0.9, 0.99)", "--d-ff", "64", "--save-interval-updates", "11",
    )
    assert cfg.lr_scheduler._name == "fixed" and list(cfg.optimization.lr) == [0.001]
    assert cfg.lr_scheduler.warmup_updates == 0, "another scheduler keeps its own default"
    changed = {name for name, paper, run in log.compare(cfg) if paper != run}
    assert changed == {
        "lr_scheduler", "label_smoothing", "dropout", "max_update", "clip_norm", "adam_betas",
        "d_ff", "save_interval_updates", "warmup_updates", "peak_learning_rate",
    }
    block = log.block(cfg).splitlines()
    marked = {line.split()[0] for line in block if line.endswith("< changed")}
    assert marked == changed


def test_other_components_keep_their_own_defaults():
    cfg = configuration("--arch", "aiayn_base", "--criterion", "label_smoothed_cross_entropy",
                        "--optimizer", "adam", "--lr-scheduler", "inverse_sqrt", "--lr", "0.1")
    assert cfg.criterion.label_smoothing == 0.0
    assert cfg.optimizer.adam_eps == 1e-8
    assert "adam_betas" in log.block(cfg)


def test_other_models_keep_fairseqs_defaults():
    args = parse("--arch", "transformer")
    assert (args.optimizer, args.criterion) == (None, "cross_entropy")
    assert (args.max_tokens, args.keep_interval_updates, args.max_update) == (None, -1, 0)


def test_the_users_batches_are_the_users():
    assert configuration("--arch", "aiayn_base", "--update-freq", "3").task.tokens_per_update == 0
    cfg = configuration("--arch", "aiayn_base", "--batch-size", "8")
    assert (cfg.task.tokens_per_update, cfg.dataset.max_tokens) == (0, None)
    cfg = configuration("--arch", "aiayn_base", "--max-tokens", "1000")
    assert (cfg.task.tokens_per_update, cfg.dataset.max_tokens) == (25_000, 1000)


@pytest.mark.parametrize("argv, message", [
    (["--lr", "0.0007"], "drop --lr, or choose another --lr-scheduler"),
    (["--tokens-per-update", "100", "--update-freq", "2"], "give one of them"),
])
def test_contradictions_end_with_one_line(argv, message):
    parse("--arch", "aiayn_base", "--tokens-per-update", "0", "--update-freq", "2")
    with pytest.raises(InputError) as error:
        parse("--arch", "aiayn_base", *argv)
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("parser", [
    options.get_generation_parser, options.get_interactive_generation_parser,
    options.get_validation_parser,
])
def test_our_task_is_the_default_and_a_typed_one_wins(parser):
    assert parse("--path", "m.pt", parser=parser).task == "aiayn_translation"
    assert parse("--path", "m.pt", "--task", "translation", parser=parser).task == "translation"


def test_bf16_is_no_tpu():
    args = parse("--arch", "aiayn_base", "--bf16")
    assert args.bf16 and not args.tpu


def test_checkpoints_of_epochs_come_back_when_asked_for():
    assert not parse("--arch", "aiayn_base", "--save-interval", "1").no_epoch_checkpoints
    assert not parse("--arch", "aiayn_base", "--keep-last-epochs", "3").no_epoch_checkpoints
    assert not parse("--arch", "aiayn_base", "--save-interval-updates", "0").no_epoch_checkpoints


def test_the_disk_of_a_big_run():
    """20 checkpoints, the best and the last, of three float32 copies of 214 million weights."""
    needed = disk.disk_needed(configuration("--arch", "aiayn_big"), 214_171_648)
    assert needed == 22 * 3 * 4 * 214_171_648
    assert disk.disk_free("does/not/exist/yet") > 0
    cfg = configuration("--arch", "aiayn_big", "--no-save-optimizer-state")
    assert disk.disk_needed(cfg, 10) == 22 * 4 * 10
    cfg = configuration("--arch", "aiayn_big", "--keep-interval-updates", "-1")
    assert disk.disk_needed(cfg, 10) == 502 * 3 * 4 * 10


def test_the_disk_in_use_counts_each_file_once(tmp_path):
    (tmp_path / "checkpoint_1_2.pt").write_bytes(bytes(100))
    (tmp_path / "checkpoint_last.pt").hardlink_to(tmp_path / "checkpoint_1_2.pt")
    (tmp_path / "checkpoint_1_4.pt").write_bytes(bytes(50))
    assert disk.disk_used(str(tmp_path)) == 150
    assert disk.disk_used(str(tmp_path / "absent")) == 0


@pytest.mark.parametrize("flags, name, value", [
    (["--encoder-layers", "2", "--decoder-layers", "2"], "N", 2),
    (["--encoder-embed-dim", "64", "--decoder-embed-dim", "64", "--d-model", "64"], "d_model", 64),
    (["--encoder-ffn-embed-dim", "9", "--decoder-ffn-embed-dim", "9"], "d_ff", 9),
    (["--encoder-attention-heads", "4", "--decoder-attention-heads", "4"], "h", 4),
    (["--encoder-learned-pos", "--decoder-learned-pos"], "positions", "learned"),
    (["--share-all-embeddings"], "tie_embeddings", "all"),
    (["--share-decoder-input-output-embed"], "tie_embeddings", "target"),
    (["--share-all-embeddings", "--share-decoder-input-output-embed"], "tie_embeddings", "all"),
    (["--share-decoder-input-output-embed", "--share-all-embeddings"], "tie_embeddings", "all"),
])
def test_fairseqs_names_are_accepted(flags, name, value):
    assert getattr(configuration("--arch", "aiayn_base", *flags).model, name) == value


@pytest.mark.parametrize("flags, message", [
    (["--encoder-layers", "2"], "give --encoder-layers and --decoder-layers the same value, or "
     "give --N alone"),
    (["--encoder-layers", "2", "--decoder-layers", "3"], "the same N"),
    (["--encoder-layers", "2", "--decoder-layers", "2", "--N", "3"], "means --N 2"),
    (["--encoder-learned-pos"], "--decoder-learned-pos"),
    (["--encoder-learned-pos", "--decoder-learned-pos", "--positions", "sinusoids"],
     "--positions sinusoids is given too"),
    (["--share-all-embeddings", "--tie-embeddings", "none"], "--tie-embeddings none is given too"),
])
def test_contradicting_names_are_refused(flags, message):
    with pytest.raises(InputError, match=message):
        configuration("--arch", "aiayn_base", *flags)


def test_rows_of_table_3_bring_their_training():
    assert configuration("--arch", "aiayn_d_smoothing02").criterion.label_smoothing == 0.2
    assert configuration("--arch", "aiayn_e_learned").model.positions == "learned"
    cfg = configuration("--arch", "aiayn_parser")
    assert (cfg.model.N, cfg.model.d_model, cfg.model.h, cfg.lr_scheduler.d_model) == (
        4, 1024, 8, 1024)
    for arch in ("aiayn_a_h32", "aiayn_b_dk16", "aiayn_c_d256", "aiayn_d_smoothing00"):
        assert "changed" not in log.block(configuration("--arch", arch)), arch


def test_help_and_readme_list_the_architectures(repo, capsys):
    with pytest.raises(SystemExit):
        parse("--help")
    assert table() in capsys.readouterr().out
    assert table() in (repo / "README.md").read_text(encoding="utf-8")
