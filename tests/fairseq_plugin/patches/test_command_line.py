"""The patch of fairseq's command line."""

import pytest
from models import parse


@pytest.mark.usefixtures("quiet")
def test_bf16_does_not_imply_a_tpu():
    args = parse("--arch", "aiayn_base", "--bf16")
    assert args.bf16 and not args.tpu
    assert parse("--arch", "aiayn_base", "--bf16", "--tpu").tpu
