"""The patch of fairseq's command line."""

import re

import pytest
from models import parse

pytestmark = pytest.mark.usefixtures("quiet")


def test_bf16_does_not_imply_a_tpu():
    args = parse("--arch", "aiayn_base", "--bf16")
    assert args.bf16 and not args.tpu
    assert parse("--arch", "aiayn_base", "--bf16", "--tpu").tpu


@pytest.mark.parametrize(
    "options, message",
    [
        (["--eval-bleu-args", "{beam:4}"], "--eval-bleu-args: '{beam:4}' is not a JSON object"),
        (["--eval-bleu-args", "[4]"], "--eval-bleu-args: '[4]' is not a JSON object"),
        (["--optimizer-overrides", "{"], "--optimizer-overrides: '{' is not a Python dictionary"),
    ],
)
def test_a_broken_dictionary_on_the_command_line_is_reported_in_one_line(options, message, capsys):
    with pytest.raises(SystemExit):
        parse("--arch", "aiayn_base", *options)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "options, message",
    [
        (
            ["--arch", "aiayn_bsae"],
            "invalid choice: 'aiayn_bsae'; did you mean aiayn_base? (aiayn architectures lists the",
        ),
        ([], "required: --arch, such as --arch aiayn_base"),
        (
            ["--arch", "aiayn_base", "--max-updates", "5", "--sede=3"],
            "arguments: --max-updates 5 --sede=3; did you mean --max-update or --seed?",
        ),
        (
            ["--arch", "aiayn_base", "--ddp-backend", "pytorch_dpp"],
            "choose from .*c10d.*, .*); did you mean pytorch_ddp?",
        ),
    ],
)
def test_a_typo_is_one_line_with_a_suggestion(options, message, capsys):
    with pytest.raises(SystemExit, match="^2$"):
        parse(*options)
    (line,) = capsys.readouterr().err.splitlines()
    pattern = re.escape(message).replace(r"\.\*", ".*")
    assert re.fullmatch(rf".*: error: .*{pattern}.* --help lists all options\)", line)


def test_a_second_user_dir_registers_its_architecture(tmp_path):
    (tmp_path / "second_user_dir").mkdir()
    (tmp_path / "second_user_dir" / "__init__.py").write_text(
        "from fairseq.models import register_model_architecture\n"
        "register_model_architecture('lstm', 'lstm_of_a_second_user_dir')(lambda args: None)\n"
    )
    arch = ["--arch", "lstm_of_a_second_user_dir", "--optimizer", "sgd"]
    args = parse("--user-dir", str(tmp_path / "second_user_dir"), *arch)
    assert args.task == "aiayn_translation" and args.arch == arch[1]
