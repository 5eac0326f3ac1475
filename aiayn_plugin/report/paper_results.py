"""The paper's published results: Tables 2, 3 and 4."""

from collections.abc import Mapping
from typing import Any

from ..paper import Settings, get_settings

#: Table 2: the BLEU on newstest2014 and the FLOPs of training, each for English to German and for
#: English to French; None for an empty cell.
TABLE_2: Mapping[str, tuple[str | None, str | None, float | None, float | None]] = {
    "ByteNet": ("23.75", None, None, None),
    "Deep-Att + PosUnk": (None, "39.2", None, 1.0e20),
    "GNMT + RL": ("24.6", "39.92", 2.3e19, 1.4e20),
    "ConvS2S": ("25.16", "40.46", 9.6e18, 1.5e20),
    "MoE": ("26.03", "40.56", 2.0e19, 1.2e20),
    "Deep-Att + PosUnk, ensemble": (None, "40.4", None, 8.0e20),
    "GNMT + RL, ensemble": ("26.30", "41.16", 1.8e20, 1.1e21),
    "ConvS2S, ensemble": ("26.36", "41.29", 7.7e19, 1.2e21),
    "Transformer (base model)": ("27.3", "38.1", 3.3e18, 3.3e18),
    "Transformer (big)": ("28.4", "41.8", 2.3e19, 2.3e19),
}
#: Perplexity per wordpiece and BLEU on newstest2013 of each row of Table 3. The numbers of
#: parameters are in ARCHITECTURES.
TABLE_3: Mapping[str, tuple[float, float]] = {
    "aiayn_base": (4.92, 25.8),
    "aiayn_a_h1": (5.29, 24.9),
    "aiayn_a_h4": (5.00, 25.5),
    "aiayn_a_h16": (4.91, 25.8),
    "aiayn_a_h32": (5.01, 25.4),
    "aiayn_b_dk16": (5.16, 25.1),
    "aiayn_b_dk32": (5.01, 25.4),
    "aiayn_c_n2": (6.11, 23.7),
    "aiayn_c_n4": (5.19, 25.3),
    "aiayn_c_n8": (4.88, 25.5),
    "aiayn_c_d256": (5.75, 24.5),
    "aiayn_c_d1024": (4.66, 26.0),
    "aiayn_c_ff1024": (5.12, 25.4),
    "aiayn_c_ff4096": (4.75, 26.2),
    "aiayn_d_dropout00": (5.77, 24.6),
    "aiayn_d_dropout02": (4.95, 25.5),
    "aiayn_d_smoothing00": (4.67, 25.3),
    "aiayn_d_smoothing02": (5.47, 25.7),
    "aiayn_e_learned": (4.92, 25.7),
    "aiayn_big": (4.33, 26.4),
}
#: Table 4: parser, training data, F1 on section 23 of the Wall Street Journal.
TABLE_4 = (
    ("Vinyals & Kaiser et al. (2014)", "WSJ only, discriminative", 88.3),
    ("Petrov et al. (2006)", "WSJ only, discriminative", 90.4),
    ("Zhu et al. (2013)", "WSJ only, discriminative", 90.4),
    ("Dyer et al. (2016)", "WSJ only, discriminative", 91.7),
    ("Transformer (4 layers)", "WSJ only, discriminative", 91.3),
    ("Zhu et al. (2013)", "semi-supervised", 91.3),
    ("Huang & Harper (2009)", "semi-supervised", 91.3),
    ("McClosky et al. (2006)", "semi-supervised", 92.1),
    ("Vinyals & Kaiser et al. (2014)", "semi-supervised", 92.1),
    ("Transformer (4 layers)", "semi-supervised", 92.7),
    ("Luong et al. (2015)", "multi-task", 93.0),
    ("Dyer et al. (2016)", "generative", 93.3),
)
#: The columns of Table 3 that describe a model.
COLUMNS = (
    *("N", "d_model", "d_ff", "h", "d_k", "d_v"),
    *("dropout", "label_smoothing", "positions", "max_update"),
)


def columns(s: Settings) -> dict[str, Any]:
    """Return the columns of Table 3 for some settings."""
    values = {**vars(s), **dict(zip(("d_k", "d_v"), s.head_widths(), strict=True))}
    return {name: values[name] for name in COLUMNS}


def find_row_by_settings(s: Settings) -> str | None:
    """Return the architecture of Table 3 with these columns, None if there is none."""
    return next((arch for arch in TABLE_3 if columns(get_settings(arch)) == columns(s)), None)


def find_row_by_name(name: str) -> str | None:
    """Return the architecture of Table 3 with a name: "c_n2" and "aiayn_c_n2" are the same."""
    arch = name if name.startswith("aiayn_") else f"aiayn_{name}"
    return arch if arch in TABLE_3 else None
