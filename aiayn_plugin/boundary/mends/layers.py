"""A mend of the layers of fairseq's own Transformer."""

from fairseq.modules.transformer_layer import TransformerEncoderLayerBase


def without_fast_path(layer: type = TransformerEncoderLayerBase) -> None:
    """Have fairseq's encoder compute its layers itself.

    Once a checkpoint is loaded, fairseq 0.12.2 calls a function of torch in their place, with
    arguments that torch has refused since 1.13: its own models could not translate. Later versions
    of fairseq call it no more. Can go with fairseq 0.12.2.
    """
    if "_load_from_state_dict" in vars(layer):  # it sets the attribute that asks for the function
        never = property(lambda self: False, lambda self, loaded: None)
        layer.load_to_BT = never  # type: ignore[attr-defined]
