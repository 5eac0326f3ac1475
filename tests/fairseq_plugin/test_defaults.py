"""§5, §6.1: the paper's settings are defaults of fairseq's commands, and options override them."""

from dataclasses import dataclass, field

import pytest
from fairseq import options
from fairseq.models import register_model, register_model_architecture
from fairseq.tasks import register_task
from models import configuration, parse

from aiayn_plugin.errors import InputError
from aiayn_plugin.fairseq_plugin import training_log as log
from aiayn_plugin.fairseq_plugin.configuration_checks import check_configuration
from aiayn_plugin.fairseq_plugin.model import AiaynTransformer, TransformerConfig
from aiayn_plugin.fairseq_plugin.task import AiaynTranslation, AiaynTranslationConfig
from aiayn_plugin.text.settings import PENN, SETTINGS_FILE, TextSettings

pytestmark = pytest.mark.usefixtures("quiet")


def test_without_options_a_run_is_the_papers():
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
    assert not [row for row in log.compare_with_paper(cfg) if row[1] != row[2]]


@dataclass
class OwnConfig(TransformerConfig):
    """The plugin's options, with one more and a different default."""

    attention_dropout: float = 0.2
    d_ff: int = 2048  # base's value too, but not tiny's
    own_option: int = field(default=7, metadata={"help": "an option of a user's model"})


@register_model("own_model", dataclass=TransformerConfig)
class OwnModel(AiaynTransformer):
    pass


@register_model("own_tiny_model", dataclass=OwnConfig)
class OwnTinyModel(AiaynTransformer):
    architecture = "aiayn_tiny"


register_model_architecture("own_model", "own_wide_model")(lambda args: vars(args).update(d_ff=9))


@register_task("own_task", dataclass=AiaynTranslationConfig)
class OwnTask(AiaynTranslation):
    pass


@pytest.mark.parametrize("arch", ["own_model", "own_wide_model", "aiayn_transformer"])
def test_every_architecture_of_our_model_has_the_papers_settings(arch):
    cfg = configuration("--arch", arch)
    changed = [name for name, paper, run in log.compare_with_paper(cfg) if paper != run]
    assert changed == (["d_ff"] if arch == "own_wide_model" else [])
    assert (cfg.model._name, cfg.dataset.max_tokens) == (arch, 4096)
    assert log.format_table(cfg).startswith(f"{arch} (not in the paper; compared with aiayn_base)")


def test_a_users_class_chooses_defaults_and_options_override_them():
    layers = "--encoder-layers", "3", "--decoder-layers", "3"
    model = configuration("--arch", "own_tiny_model", *layers)
    assert (model.model.N, model.model.d_model, model.lr_scheduler.d_model) == (3, 128, 128)
    assert (model.model.attention_dropout, model.model.own_option) == (0.2, 7)
    assert model.model.d_ff == 2048
    assert (model.optimization.max_update, model.lr_scheduler.warmup_updates) == (2_000, 1000)
    given = configuration(
        "--arch", "own_tiny_model", "--attention-dropout", "0", "--max-update", "5"
    )
    assert (given.model.attention_dropout, given.optimization.max_update) == (0, 5)


@pytest.mark.parametrize(
    "arch",
    ["aiayn_base", "aiayn_big_en_fr", "aiayn_b_dk16", "aiayn_d_smoothing00", "aiayn_e_learned"]
    + ["aiayn_parser"],
)
def test_each_architecture_has_its_settings(arch):
    """test_paper.py compares the values themselves with guide.md."""
    assert "changed" not in log.format_table(configuration("--arch", arch))


def test_fairseqs_components_keep_their_own_defaults():
    cfg = configuration(
        *("--arch", "aiayn_base", "--criterion", "label_smoothed_cross_entropy"),
        *("--optimizer", "adam", "--lr-scheduler", "inverse_sqrt", "--lr", "0.1"),
    )
    assert cfg.criterion.label_smoothing == 0.0
    assert cfg.optimizer.adam_eps == 1e-8
    assert "adam_betas" in log.format_table(cfg)


def test_fairseqs_models_keep_their_own_defaults():
    args = parse("--arch", "transformer")
    assert (args.optimizer, args.criterion) == (None, "cross_entropy")
    assert (args.max_tokens, args.keep_interval_updates, args.max_update) == (None, -1, 0)


def test_options_that_set_the_batches_turn_tokens_per_update_off():
    for flags in (["--update-freq", "1"], ["--tokens-per-update", "0", "--update-freq", "2"]):
        assert parse("--arch", "aiayn_base", *flags).tokens_per_update == 0
    cfg = configuration("--arch", "aiayn_base", "--batch-size", "8")
    assert (cfg.task.tokens_per_update, cfg.dataset.max_tokens) == (0, None)
    cfg = configuration("--arch", "aiayn_base", "--max-tokens", "1000")
    assert (cfg.task.tokens_per_update, cfg.dataset.max_tokens) == (25_000, 1000)


def test_our_schedule_works_with_fairseqs_models():
    flags = ("--lr-scheduler", "aiayn_inverse_sqrt", "--arch")
    assert configuration(*flags, "lstm_wiseman_iwslt_de_en").lr_scheduler.d_model == 256
    language_model = (*flags, "transformer_lm_gpt", "--task", "language_modeling")
    assert configuration(*language_model).lr_scheduler.d_model == 768


def test_a_model_without_the_plugins_options_is_an_error():
    """As in fairseq's older style, without a dataclass."""
    register_model("old_style")(type("OldStyle", (AiaynTransformer,), {}))
    register_model_architecture("old_style", "old_style_base")(lambda args: None)
    with pytest.raises(InputError, match=r'register_model\("old_style", dataclass=Transformer'):
        parse("--arch", "old_style_base")


@pytest.mark.parametrize(
    "argv, message",
    [
        (
            "--arch wav2vec --lr-scheduler aiayn_inverse_sqrt --task audio_pretraining",
            "d_model",
        ),
        ("--arch aiayn_base --lr 0.0007", "drop --lr, or choose another --lr-scheduler"),
        ("--arch transformer --lr 0.0007 --lr-scheduler aiayn_inverse_sqrt", "drop --lr"),
        ("--arch aiayn_base --save-async", "old checkpoint_last.pt: omit it"),
        ("--arch aiayn_base --tokens-per-update 100 --update-freq 2", "give one of them"),
        ("--arch transformer --tokens-per-update 100 --batch-size 2", "give one of them"),
        ("--arch aiayn_base --validate-interval 0", "--validate-interval 0 must be at least 1"),
        (
            "--arch aiayn_base --tokens-per-update 0 --update-freq 0",
            "--update-freq 0 must be at least 1",
        ),
        (
            "--arch aiayn_base --best-checkpoint-metric accuracy",
            "accuracy needs --report-accuracy",
        ),
        ("--arch aiayn_base --best-checkpoint-metric bleu", "bleu needs --eval-bleu"),
    ],
)
def test_contradictions_end_with_one_line(argv, message):
    with pytest.raises(InputError) as error:
        check_configuration(configuration(*argv.split()))
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("group", "name", "value", "message"),
    [
        ("optimization", "lr", [0.001], "aiayn_inverse_sqrt has no optimization.lr"),
        ("checkpoint", "keep_last_epochs", 5, "keeps nothing with no_epoch_checkpoints"),
        ("criterion", "label_smoothing", 10, "label_smoothing 10.* must be from 0 to 1"),
        ("task", "eval_bleu_args", '{"beam"', "is not a JSON object"),
        ("task", "eval_bleu_args", "[]", "is not a JSON object"),
        ("task", "eval_bleu_args", None, "is not a JSON object"),
    ],
)
def test_contradictions_of_hydra_end_with_one_line(group, name, value, message):
    """Its settings do not pass through the parser that rejects these on the command line."""
    cfg = configuration("--arch", "aiayn_base", "--eval-bleu")
    check_configuration(cfg)
    cfg[group][name] = value
    with pytest.raises(InputError, match=message):
        check_configuration(cfg)


def test_a_best_checkpoint_that_would_be_the_worst_gives_a_warning(caplog):
    flags = ("--arch", "aiayn_base", "--report-accuracy", "--best-checkpoint-metric", "accuracy")
    check_configuration(configuration(*flags, "--maximize-best-checkpoint-metric"))
    assert not caplog.text
    check_configuration(configuration(*flags))
    assert "checkpoint_best.pt will have the lowest accuracy" in caplog.text
    check_configuration(configuration(*flags[:2], "--maximize-best-checkpoint-metric"))
    assert "checkpoint_best.pt will have the highest loss" in caplog.text


def test_amp_on_a_cpu_gives_a_warning(caplog):
    check_configuration(configuration("--arch", "aiayn_base", "--cpu", "--amp"))
    assert "--amp trains in float32 on a CPU" in caplog.text


def test_paper_bleu_is_for_the_target_language():
    flags = ("--path", "m.pt", "-s", "en", "-t", "fr", "--scoring", "paper_bleu")
    parser = fairseq_generate_parser
    assert parse(*flags, parser=parser).paper_bleu_lang == "fr"
    assert parse(*flags, "--paper-bleu-lang", "de", parser=parser).paper_bleu_lang == "de"


def test_our_task_is_the_default_of_fairseq_validate_unless_another_is_given():
    parser = options.get_validation_parser
    assert parse("--path", "m.pt", parser=parser).task == "aiayn_translation"
    assert parse("--path", "m.pt", "--task", "translation", parser=parser).task == "translation"


def fairseq_generate_parser():
    """Return the parser of fairseq-generate, which has an --arch that it does not use."""
    parser = options.get_generation_parser()
    parser.add_argument("--arch", "-a", default="wav2vec2")
    return parser


@pytest.mark.parametrize(
    "parser", [fairseq_generate_parser, options.get_interactive_generation_parser]
)
@pytest.mark.parametrize(
    "flags, expected",
    [
        ([], (4, 0.6, 1.0, 50)),
        (["--task", "own_task"], (4, 0.6, 1.0, 50)),
        (["--beam", "5", "--max-len-b", "9"], (5, 0.6, 1.0, 9)),
        (["--length-penalty", "fairseq"], (5, 1, 0, 200)),
        (["--sampling", "--lenpen", "0.6"], (5, 0.6, 0, 200)),
        (["--task", "translation"], (5, 1, 0, 200)),
    ],
)
def test_the_search_is_the_papers_unless_fairseqs_is_asked_for(parser, flags, expected):
    args = parse("--path", "m.pt", *flags, parser=parser)
    assert (args.beam, args.lenpen, args.max_len_a, args.max_len_b) == expected


def test_the_search_of_trees_is_the_papers(tmp_path):
    """--beam 4 takes precedence, although it is the default for translation."""
    TextSettings("en", "tree", merges=0, tokenizer=PENN).save(tmp_path / SETTINGS_FILE)
    args = parse("--path", "m.pt", "--beam", "4", parser=fairseq_generate_parser, data=tmp_path)
    assert (args.beam, args.lenpen, args.max_len_a, args.max_len_b) == (4, 0.3, 1.0, 300)


GENERATE, INTERACTIVE = fairseq_generate_parser, options.get_interactive_generation_parser


@pytest.mark.parametrize(
    "parser, flags, message",
    [
        (GENERATE, "--constraints", "--constraints works in fairseq-interactive only"),
        (GENERATE, "--replace-unk", "--replace-unk fails in this version of fairseq: omit it"),
        (GENERATE, "--score-reference --print-alignment soft", "use --print-alignment hard"),
        (GENERATE, "--sacrebleu", "--sacrebleu has no effect in this version of fairseq"),
        (GENERATE, "--distributed-rank 1", "--distributed-rank 1 must be from 0 to 0, below"),
        (GENERATE, "--num-shards 2", "use --distributed-world-size N --distributed-rank I"),
        (GENERATE, "--print-step", "--print-step is for fairseq's non-autoregressive models"),
        (GENERATE, "--nbest 5", "--nbest 5 is more than --beam 4"),
        (INTERACTIVE, "--results-path out", "--results-path works in fairseq-generate only"),
        (INTERACTIVE, "--prefix-size 1", "--prefix-size works in fairseq-generate only"),
        (INTERACTIVE, "--lm-path lm.pt", "--lm-path works in fairseq-generate only"),
        (INTERACTIVE, "--score-reference", "--score-reference works in fairseq-generate only"),
        (INTERACTIVE, "--print-alignment soft", "soft works in fairseq-generate only"),
    ],
)
def test_options_that_fail_or_have_no_effect_are_refused_in_one_line(
    parser, flags, message, capsys
):
    with pytest.raises((SystemExit, InputError)) as error:
        parse("--path", "m.pt", *flags.split(), parser=parser)
    assert message in str(error.value) + capsys.readouterr().err


def test_commands_that_need_a_model_say_so(capsys):
    with pytest.raises(SystemExit):
        parse(parser=fairseq_generate_parser)
    (line,) = capsys.readouterr().err.splitlines()
    assert "error: the following arguments are required: --path" in line


def test_options_of_epoch_checkpoints_turn_them_on():
    assert not parse("--arch", "aiayn_base", "--save-interval", "1").no_epoch_checkpoints
    assert not parse("--arch", "aiayn_base", "--keep-last-epochs", "3").no_epoch_checkpoints
    assert not parse("--arch", "aiayn_base", "--no-last-checkpoints").no_epoch_checkpoints
    assert not parse("--arch", "aiayn_base", "--save-interval-updates", "0").no_epoch_checkpoints
