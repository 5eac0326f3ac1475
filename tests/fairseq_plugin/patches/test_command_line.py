"""The patch of fairseq's command line."""

import pytest
from models import parse


@pytest.mark.usefixtures("quiet")
def test_bf16_does_not_imply_a_tpu():
    args = parse("--arch", "aiayn_base", "--bf16")
    assert args.bf16 and not args.tpu
    assert parse("--arch", "aiayn_base", "--bf16", "--tpu").tpu


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize(
    "options, message",
    [
        (["--eval-bleu-args", "{beam:4}"], "--eval-bleu-args: '{beam:4}' is not a JSON object"),
        (["--eval-bleu-args", "[4]"], "--eval-bleu-args: '[4]' is not a JSON object"),
        (["--optimizer-overrides", "{"], "--optimizer-overrides: '{' is not a Python dictionary"),
    ],
)
def test_a_broken_dictionary_on_the_command_line_is_one_line(options, message, capsys):
    with pytest.raises(SystemExit):
        parse("--arch", "aiayn_base", *options)
    assert message in capsys.readouterr().err


@pytest.mark.usefixtures("quiet")
def test_a_second_user_dir_registers_its_architecture(tmp_path):
    (tmp_path / "second_user_dir").mkdir()
    (tmp_path / "second_user_dir" / "__init__.py").write_text(
        "from fairseq.models import register_model_architecture\n"
        "register_model_architecture('lstm', 'lstm_of_a_second_user_dir')(lambda args: None)\n"
    )
    arch = ["--arch", "lstm_of_a_second_user_dir", "--optimizer", "sgd"]
    args = parse("--user-dir", str(tmp_path / "second_user_dir"), *arch)
    assert args.task == "aiayn_translation" and args.arch == arch[1]
