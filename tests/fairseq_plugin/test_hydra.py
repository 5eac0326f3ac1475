"""The configurations for fairseq-hydra-train match the architectures."""

import pytest
from models import configuration
from omegaconf import OmegaConf

from aiayn_plugin.fairseq_plugin import hydra

pytestmark = pytest.mark.usefixtures("quiet")


@pytest.mark.parametrize("arch", hydra.SHIPPED)
def test_the_shipped_files_are_up_to_date(arch):
    """After a change in paper.py, `python -m aiayn_plugin.fairseq_plugin.hydra` writes them."""
    shipped = (hydra.CONFIG_DIRECTORY / f"{arch}.yaml").read_text("utf-8")
    assert shipped == hydra.format_configuration(arch)


@pytest.mark.parametrize("arch", hydra.SHIPPED)
def test_a_configuration_equals_that_of_fairseq_train(arch):
    shipped = OmegaConf.load(hydra.CONFIG_DIRECTORY / f"{arch}.yaml")
    cfg = configuration("--arch", arch)
    shipped.task.data = "data"
    cfg.common.user_dir = "aiayn_plugin"
    for group, values in OmegaConf.to_container(shipped, resolve=True).items():
        expected = OmegaConf.to_container(cfg[group], resolve=True, enum_to_str=True)
        for name, value in values.items():
            assert value == expected[name], f"{group}.{name}"
    missing = set(cfg.model) - set(shipped.model)
    assert not missing, "fairseq adds no settings to a model that Hydra configures"
