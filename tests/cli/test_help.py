"""The help of the commands."""

import argparse
import re
import sys

import pytest

from aiayn_plugin.cli import HelpFormatter


def test_a_help_text_gives_its_default():
    parser = argparse.ArgumentParser(formatter_class=HelpFormatter)
    parser.add_argument("--zero", default=0, help="a number")
    parser.add_argument("--list", nargs="+", default=[1, 2], help="some numbers")
    parser.add_argument("--described", default="x", help="a text (default: the first)")
    parser.add_argument("--none", help="an option without a default")
    parser.add_argument("--flag", action="store_true", help="a flag")
    parser.add_argument("--empty", nargs="+", default=[], help="an empty list")
    text = " ".join(parser.format_help().split())
    assert "a number (default: 0)" in text and "some numbers (default: 1 2)" in text
    assert "a text (default: the first)" in text
    assert text.count("(default: ") == 3


def test_commands_run_without_docstrings_and_without_utf_8(run):
    """The terminal gets escapes."""
    command = (sys.executable, "-OO", "-m", "aiayn_plugin.cli", "architectures")
    done = run(*command, env={"PYTHONIOENCODING": "latin-1"})
    assert done.returncode == 0 and "\\u03b5_ls" in done.stdout, done.stderr


def test_the_version_lists_python_torch_and_fairseq(run):
    done = run("aiayn", "--version")
    assert done.returncode == 0
    assert re.fullmatch(
        r"aiayn-plugin \d+\.\d+\.\d+, Python 3\.\S+, torch 2\.\S+, fairseq\S* 0\.12\.\S+\n",
        done.stdout,
    )


def test_a_full_disk_is_reported_in_one_line(run):
    done = run("bash", "-c", "aiayn architectures > /dev/full")
    assert done.returncode == 1 and done.stderr.startswith("aiayn: error: ")
    assert "No space left on device" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments, program, unknown",
    [
        (["translate", "RUN", "text.en"], "aiayn translate", "text.en"),
        (["--foo", "translate", "RUN"], "aiayn", "--foo"),
    ],
)
def test_unknown_arguments_show_the_usage_of_their_command(run, arguments, program, unknown):
    done = run("aiayn", *arguments)
    assert done.returncode == 2 and done.stderr.startswith(f"usage: {program} [-h]")
    assert done.stderr.endswith(f"{program}: error: unrecognized arguments: {unknown}\n")
