"""What a checkpoint may hold."""

from argparse import Namespace

import pytest
import torch

from aiayn_plugin.checkpoints.schema import check
from aiayn_plugin.checkpoints.torch_file import FileError


def checkpoint(**parts):
    """Return a checkpoint as fairseq stores it, with some of its parts replaced."""
    state = {
        "args": None,
        "cfg": {"model": {"_name": "aiayn_base", "encoder_layers": 1}, "task": {"data": "x"}},
        "model": {"w": torch.ones(2)},
        "criterion": None,
        "optimizer_history": [
            {
                "criterion_name": "CrossEntropyCriterion",
                "optimizer_name": "FairseqAdam",
                "lr_scheduler_state": {"best": None},
                "num_updates": 3,
            }
        ],
        "task_state": {},
        "extra_state": {
            "metrics": {"train": [(10, "loss", "AverageMeter", {"val": torch.ones(1), "sum": 1})]},
            "previous_training_time": 1.5,
            "train_iterator": {"epoch": 2, "iterations_in_epoch": 0, "shuffle": True, "len": 9},
            "val_loss": 3.5,
            "best": 3.5,
        },
        "last_optimizer_state": {"state": {0: {"step": 3, "exp_avg": torch.ones(2)}}},
    }
    return {**state, **parts}


def test_fairseqs_checkpoints_are_accepted():
    check(checkpoint())
    check(checkpoint(cfg=None, args=Namespace(arch="fconv", encoder_layers="[(512, 3)] * 20")))
    old = {"epoch": 1, "batch_offset": 0, "val_loss": None, "optimizer": {}, "best_loss": 2.0}
    check({"model": {}, "args": Namespace(arch="transformer"), **old})


@pytest.mark.parametrize(
    "text",
    [
        *("[(512, 3)] * 20", "[(512, 3)] * 2 + [(768, 3)]", "3 * [(4, 5)] + [(1,)]", "1e-3 / 2"),
        *("(0.9, 0.98)", "[1e-4, -5e-4]", "True", "None", "{'data': '/x', 'beam': 4}", "-1"),
        *("'text'", "0.0005", "[(512, 10, 5)] + [(512,2,2)]", " [1, 2] ", "0.25,0.1", ""),
        *("en-de,de-en", "wmt16.en-de", "transformer", "--beam 4 (twice)", '{"beam": 4}'),
        *("relu", "a b", "no_c10d", "cross_entropy", "1.2.3", "ä", "3:4", "(", "x|y", "en_XX-_de"),
        *("データ　セット/\u200cfile", "a\u00a0b", '{\n"beam":\t4\r\n}'),
        "en-de," * 10_000,
    ],
)
def test_plain_settings_are_accepted(text):
    check(checkpoint(args=Namespace(setting=text, lr=[text])))


@pytest.mark.parametrize(
    "text",
    [
        *("__import__('os').getpid()", "[x for x in (1,)]", "open('x')", "f'{1}'", "lambda: f()"),
        *("[1].append(2)", "(x := 1)", "(1 if True else 2)", "[1][0]", "1 << 3", "2 ** 99999"),
        *("[1] * 100_000", "[[0] * 900] * 900 * 900", "'%9999d' % 1", "1 + True()", "a.__class__"),
        *("[0] * (9999 + 9999)", "[0] * 0 + [0] * 99999", "[0] * +99999", "[0] * sys.maxsize"),
        "([0] * 99999, 0 * 1e999 * 0)",
        *("os.environ", "'\\x24{oc.env:HOME}'", "'$' '{oc.env:HOME}'", "${oc.env:HOME}"),
        *("x" * 100_001, "\0", "\x1b[31m", "-" * 2_975 + "open('x')"),
        "(" * 150 + "f()" + ")" * 150,
    ],
)
def test_settings_that_are_more_than_literals_are_refused(text):
    for parts in (
        {"args": Namespace(setting=text)},
        {"args": Namespace(lr=[text])},
        {"cfg": {"model": {"lr": {"deep": (text,)}}}},
        {"cfg": {"optimizer": {"adam_betas": text}}},
    ):
        with pytest.raises(FileError) as error:
            check(checkpoint(**parts))
        assert str(error.value).isprintable() and len(str(error.value)) < 300


@pytest.mark.parametrize("name", ["project_input", "from_x", "decoder_attention", "dataset_impl"])
def test_any_setting_may_be_evaluated(name):
    with pytest.raises(FileError, match=f"code in {name}"):
        check(checkpoint(args=Namespace(**{name: "open('x')"})))


@pytest.mark.parametrize("name", ["scoring", "arch", "task", "criterion", "bpe"])
def test_a_component_is_not_a_path(name):
    """Hydra would read a file of this name, and resolve what is in it."""
    with pytest.raises(FileError, match=f"an invalid name in {name}"):
        check(checkpoint(args=Namespace(**{name: "../../proc/self/cwd/evil"})))


def test_numbers_may_be_in_tensors():
    """As after training in several processes."""
    state = {"best": torch.tensor(1.5), "previous_training_time": torch.ones(1)}
    check(checkpoint(extra_state={**state, "train_iterator": {"epoch": torch.tensor(5)}}))
    check(checkpoint(extra_state={**state, "val_loss": torch.empty(1, device="meta")}))


def test_paths_may_look_like_code():
    paths = {"data": "runs(1)/data", "save_dir": "a[2]", "restore_file": "x(1).pt"}
    paths |= {"continue_once": "x (1).pt", "ema_seed_model": "y(2).pt"}
    check(checkpoint(args=Namespace(**paths)))
    with pytest.raises(FileError, match="an interpolation in data"):
        check(checkpoint(args=Namespace(data="${oc.env:HOME}")))


@pytest.mark.parametrize(
    "change, message",
    [
        ({"model": {"w": torch.ones(2, dtype=torch.complex64)}}, "'w' is of type torch.complex64"),
        ({"surprise": 1}, "'surprise', which fairseq does not store"),
        ({"extra_state": {"train_iterator": {"epoch": -5}}}, "invalid int as epoch"),
        ({"extra_state": {"train_iterator": {"epoch": 2**40}}}, "invalid int as epoch"),
        ({"extra_state": {"best": torch.ones(2)}}, "invalid Tensor as best"),
        (
            {"extra_state": {"metrics": {"train": [(1, "x", "SumMeter", {"sum": "y"})]}}},
            "an invalid meter",
        ),
        ({"criterion": [1]}, "its criterion is a list"),
        ({"optimizer_history": {}}, "invalid dict as optimizer_history"),
        ({"optimizer_history": [{"num_updates": "3"}]}, "invalid str as num_updates"),
        ({"optimizer_history": [{"lr_scheduler_state": {"best": "x"}}]}, "invalid str as best"),
        ({"optimizer_history": [{"lr_scheduler_state": "x"}]}, "invalid str as lr_scheduler_state"),
        ({"extra_state": [1]}, "invalid list as extra_state"),
        ({"extra_state": {"train_iterator": [1]}}, "invalid list as train_iterator"),
        ({"extra_state": {"train_iterator": {"epoch": None}}}, "invalid NoneType as epoch"),
        ({"extra_state": {"metrics": {"train": [(1, "x", "open", {})]}}}, "an invalid meter"),
        ({"extra_state": {"metrics": {"train": 7}}}, "an invalid meter"),
        ({"last_optimizer_state": {"x": Namespace()}}, "invalid Namespace as x"),
        ({"last_optimizer_state": {(1, 2): 3}}, r"it has the invalid name \(1, 2\)"),
    ],
)
def test_training_state_has_the_types_that_fairseq_assumes(change, message):
    with pytest.raises(FileError, match=message):
        check(checkpoint(**change))
