"""§6.1 Which search the options of fairseq-generate request, and whether it is possible."""

from argparse import Namespace

import pytest
import torch
from fairseq import tasks
from fairseq.dataclass.configs import GenerationConfig
from fairseq.models.lstm import LSTMModel, base_architecture
from fairseq.ngram_repeat_block import is_cuda_extension_usable
from models import build, configuration, dictionary, fairseq_model, sentences

from aiayn_plugin.errors import InputError
from aiayn_plugin.fairseq_plugin.generation_options import (
    check_eval_bleu_args,
    complete,
    find_fairseq_only_model,
    find_fairseq_only_option,
    quantize_plugin_model,
    search_settings,
)
from aiayn_plugin.paper import SearchSettings

WORDS = 30  #: entries of the target dictionary
PAPER = SearchSettings().options()


def test_a_generation_config_keeps_its_values():
    whole = complete(GenerationConfig(beam=7), {"beam": 4, "lenpen": 0.6})
    assert (whole.beam, whole.lenpen, whole.max_len_a, whole.max_len_b) == (7, 1, 0, 200)


@pytest.mark.parametrize(
    "given, flag",
    [
        ({}, None),
        ({"sampling": True}, "--sampling"),
        ({"diverse_beam_groups": 5}, "--diverse-beam-groups"),
        ({"diversity_rate": 0.0}, "--diversity-rate"),
        ({"match_source_len": True}, "--match-source-len"),
        ({"constraints": "ordered"}, "--constraints"),
        ({"prefix_allowed_tokens_fn": len}, "--prefix-allowed-tokens-fn"),
        ({"beam": 7, "lenpen": 2.0, "nbest": 3}, None),
    ],
)
def test_options_that_only_fairseqs_search_supports_are_found(given, flag):
    assert find_fairseq_only_option(complete(Namespace(**given), {})) == flag


@pytest.mark.parametrize(
    "given, message",
    [
        (
            {"sampling": True, "match_source_len": True},
            "--sampling and --match-source-len are different searches",
        ),
        ({"sampling_topk": 3}, "--sampling-topk needs --sampling"),
    ],
)
def test_contradictory_options_are_an_error(given, message):
    with pytest.raises(InputError, match=message):
        find_fairseq_only_option(complete(Namespace(**given), {}))


def test_the_search_supports_both_transformers_and_nothing_else():
    args = Namespace(criterion="cross_entropy")
    base_architecture(args)
    lstm = LSTMModel.build_model(
        args, Namespace(source_dictionary=dictionary(WORDS), target_dictionary=dictionary(WORDS))
    )
    ours, theirs = build(), fairseq_model()[0]
    assert find_fairseq_only_model([ours, theirs]) is None
    assert find_fairseq_only_model([ours, lstm]) == "LSTMModel"
    theirs.full_context_alignment = True
    assert find_fairseq_only_model([ours, theirs]) is None
    assert find_fairseq_only_model([ours, theirs], with_alignments=True) == "TransformerModel"


def test_settings_of_the_search_follow_from_the_options():
    assert search_settings(complete(Namespace(), PAPER), "gnmt") == SearchSettings()
    given = {"nbest": 2, "min_len": 3, "unkpen": 0.5, "unnormalized": True, "temperature": 2.0}
    assert search_settings(complete(Namespace(**given), {}), "fairseq") == SearchSettings(
        beam=5, lenpen=1, max_len_a=0, max_len_b=200, length_penalty="fairseq", **given
    )


@pytest.mark.parametrize("lm_weight, stops_early", [(0.1, True), (-0.1, False)])
def test_a_language_model_with_a_negative_weight_may_raise_scores(lm_weight, stops_early):
    options = complete(Namespace(lm_weight=lm_weight), PAPER)
    assert search_settings(options, "gnmt").stop_early is stops_early


@pytest.mark.parametrize("sampling", ["true", "false"])
def test_translating_for_validation_leaves_a_model_of_fairseqs_unchanged(corpus, sampling):
    """Otherwise its attention would share keys among `beam` sentences in training too."""
    args = f'{{"sampling": {sampling}, "beam": 2}}'
    outputs = []
    for options in ([], ["--eval-bleu", "--eval-bleu-args", args]):
        shape = "--encoder-layers 1 --decoder-layers 1 --encoder-embed-dim 8 --dropout 0".split()
        cfg = configuration("--arch", "transformer", *shape, *options, data=corpus)
        torch.manual_seed(1)
        model = tasks.setup_task(cfg.task).build_model(cfg.model)
        source, shifted = sentences(batch=4)
        outputs.append(model(source, torch.full((4,), source.size(1)), shifted)[0])
    torch.testing.assert_close(*outputs)


def test_arguments_that_only_fairseqs_generator_takes_reach_it(corpus):
    """For example, those of a task that strips language tags."""
    task = tasks.setup_task(configuration("--arch", "aiayn_tiny", data=corpus).task)
    extra = {"symbols_to_strip_from_output": {7}}
    generator = task.build_generator([build()], Namespace(), extra_gen_cls_kwargs=extra)
    assert generator.symbols_to_strip_from_output >= {7}


def test_the_task_takes_a_namespace(corpus):
    """As scripts for older versions of fairseq pass it."""
    cfg = configuration("--arch", "aiayn_tiny", data=corpus).task
    task = tasks.setup_task(Namespace(**{**cfg, "task": "aiayn_translation"}))
    task.load_dataset("valid")
    assert task.build_generator([build()], Namespace())


def test_trees_only_needs_data_with_trees(corpus):
    task = tasks.setup_task(configuration("--arch", "aiayn_tiny", "--trees-only", data=corpus).task)
    with pytest.raises(InputError, match="holds no trees"):
        task.build_generator([build()], Namespace())


@pytest.mark.skipif(is_cuda_extension_usable(), reason="fairseq's search can forbid n-grams")
def test_an_option_that_fairseqs_search_ignores_is_refused(corpus):
    """It compares the end of its buffer, which is padding, with the hypothesis."""
    task = tasks.setup_task(configuration("--arch", "aiayn_tiny", data=corpus).task)
    with pytest.raises(InputError, match="no effect .* --sampling needs fairseq's search"):
        task.build_generator([build()], Namespace(sampling=True, no_repeat_ngram_size=2))


def test_only_the_plugins_models_are_quantized():
    model, _ = fairseq_model()
    with pytest.raises(InputError, match="--int8 needs one of the plugin's models: convert"):
        quantize_plugin_model(model)


@pytest.mark.parametrize(
    "given, message",
    [
        (
            '{"length_penalty": "fairseq"}',
            "search .--eval-bleu-args.: give --length-penalty itself",
        ),
        ('{"beam": "4"}', '--eval-bleu-args: beam cannot be "4"'),
        ('{"nbest": 1.5}', "--eval-bleu-args: nbest cannot be 1.5"),
        ('{"beam": null}', "--eval-bleu-args: beam cannot be null"),
        ('{"print_alignment": "x"}', '--eval-bleu-args: print_alignment cannot be "x"'),
        ('{"score_reference": true}', "score_reference has no use in validation: omit it"),
        ('{"diverse_beam_groups": 2}', "--beam 5 must be a multiple of --diverse-beam-groups 2"),
    ],
)
def test_invalid_options_of_the_search_in_training_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        check_eval_bleu_args(given)
