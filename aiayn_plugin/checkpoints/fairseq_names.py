"""Names of weights: fairseq's, which transformers uses as well, and the plugin's."""

#: Components of fairseq's weight names, and ours; see rename_weight for final_layer_norm.
NAMES = {
    "embed_tokens": "embedding",
    "embed_positions": "positions",
    "output_projection": "W_vocabulary",
    "self_attn": "self_attention",
    "encoder_attn": "encoder_attention",
    "q_proj": "W_Q",
    "k_proj": "W_K",
    "v_proj": "W_V",
    "out_proj": "W_O",
    "fc1": "feed_forward.W_1",
    "fc2": "feed_forward.W_2",
    "self_attn_layer_norm": "add_norms.0.norm",
    "encoder_attn_layer_norm": "add_norms.1.norm",
}


def rename_weight(name: str) -> str:
    """Return the plugin's name for one of fairseq's weights."""
    final = "add_norms.1.norm" if name.startswith("encoder") else "add_norms.2.norm"
    names = {**NAMES, "final_layer_norm": final}
    return ".".join(names.get(part, part) for part in name.split("."))
