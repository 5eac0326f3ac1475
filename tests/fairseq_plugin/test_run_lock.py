"""The lock of a training run, where it can be acquired and where it cannot."""

import pytest
from models import trainer

from aiayn_plugin.atomic import hold_lock
from aiayn_plugin.errors import InputError

pytestmark = pytest.mark.usefixtures("quiet")


def test_a_locked_directory_is_refused_unless_nothing_is_saved(corpus, tmp_path):
    with hold_lock(tmp_path, "busy"):
        trainer(corpus, tmp_path, "--no-save")
        with pytest.raises(InputError, match=f"^{tmp_path} is in use by another training run"):
            trainer(corpus, tmp_path)
    trainer(corpus, tmp_path)
    trainer(corpus, tmp_path)  # replaces the lock that this process holds
