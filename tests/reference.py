"""A second implementation of §3 in plain loops over positions and heads.

Naive and slow, so that a reader can check it against the paper. It shares only the names and
values of the weights with the plugin.
"""

import math

import torch


def sinusoid(pos, d_model):
    """Return the positional encoding of one position (§3.5)."""
    row = []
    for i in range(d_model // 2):
        angle = pos / 10000 ** (2 * i / d_model)
        row += [math.sin(angle), math.cos(angle)]
    return torch.tensor(row, dtype=torch.float64)


def fairseq_sinusoid(pos, d_model):
    """Return fairseq's encoding: sines first, a different divisor, positions offset by 2."""
    half = d_model // 2
    rates = [math.exp(i * -(math.log(10000) / (half - 1))) for i in range(half)]
    angles = [(pos + 2) * rate for rate in rates]
    return torch.tensor([*map(math.sin, angles), *map(math.cos, angles)], dtype=torch.float64)


def is_visible(i, j, r, causal):
    """Return whether i attends to j: i − r < j ≤ i, or −⌊(r−1)/2⌋ ≤ j − i ≤ ⌊r/2⌋ (Table 1)."""
    if causal:
        return j <= i and (r is None or i - r < j)
    return r is None or -((r - 1) // 2) <= j - i <= r // 2


class Reference:
    """§3 for one sentence without padding, with the weights of a model of the plugin."""

    def __init__(self, weights, cfg):
        self.w, self.cfg = weights, cfg

    def linear(self, name, x):
        """Return Wx, or Wx + b if there is a bias."""
        y = self.w[f"{name}.weight"] @ x
        return y + self.w[f"{name}.bias"] if f"{name}.bias" in self.w else y

    def attention(self, name, queries, memory, visible):
        """Return §3.2.2; visible(i) lists the memory positions that position i attends to."""
        q = [self.linear(f"{name}.W_Q", x) for x in queries]
        k = [self.linear(f"{name}.W_K", x) for x in memory]
        v = [self.linear(f"{name}.W_V", x) for x in memory]
        d_k, d_v = len(q[0]) // self.cfg.h, len(v[0]) // self.cfg.h
        result = []
        for i in range(len(queries)):
            heads = []
            for head in range(self.cfg.h):
                keys = slice(head * d_k, (head + 1) * d_k)
                values = slice(head * d_v, (head + 1) * d_v)
                exps = [
                    (j, torch.exp((q[i][keys] * k[j][keys]).sum() / math.sqrt(d_k)))
                    for j in visible(i)
                ]
                total = sum(exp for _, exp in exps)
                heads.append(sum(exp / total * v[j][values] for j, exp in exps))
            result.append(self.linear(f"{name}.W_O", torch.cat(heads)))
        return result

    def feed_forward(self, name, xs):
        """Return equation (2) at each position."""
        hidden = [self.linear(f"{name}.W_1", x).clamp(min=0) for x in xs]
        return [self.linear(f"{name}.W_2", x) for x in hidden]

    def add_norm(self, name, xs, sublayer):
        """Return LayerNorm(x + Sublayer(x)) at each position (§3.1)."""
        result = []
        for x, y in zip(xs, sublayer, strict=True):
            z = x + y
            mean = z.sum() / len(z)
            variance = ((z - mean) ** 2).sum() / len(z)
            normed = (z - mean) / torch.sqrt(variance + 1e-5)
            result.append(normed * self.w[f"{name}.norm.weight"] + self.w[f"{name}.norm.bias"])
        return result

    def embed(self, stack, tokens):
        """Return the embedding times √d_model plus the position of each token (§3.4, §3.5)."""
        d_model = self.cfg.d_model
        result = []
        for pos, token in enumerate(tokens):
            if self.cfg.positions == "learned":
                position = self.w[f"{stack}.positions.weight"][pos]
            elif self.cfg.positions == "fairseq":
                position = fairseq_sinusoid(pos, d_model)
            else:
                position = sinusoid(pos, d_model)
            result.append(
                math.sqrt(d_model) * self.w[f"{stack}.embedding.weight"][token] + position
            )
        return result

    def encode(self, tokens):
        """Return the encoder's output, restricted to a neighbourhood (Table 1) if one is set."""
        x, n, r = self.embed("encoder", tokens), len(tokens), self.cfg.neighbourhood

        def visible(i):
            return [j for j in range(n) if is_visible(i, j, r, causal=False)]

        for layer in range(self.cfg.N):
            name = f"encoder.layers.{layer}"
            attended = self.attention(f"{name}.self_attention", x, x, visible)
            x = self.add_norm(f"{name}.add_norms.0", x, attended)
            hidden = self.feed_forward(f"{name}.feed_forward", x)
            x = self.add_norm(f"{name}.add_norms.1", x, hidden)
        return x

    def decode(self, tokens, memory):
        """Return the decoder's output for all tokens."""
        x, n, r = self.embed("decoder", tokens), len(tokens), self.cfg.neighbourhood

        def visible(i):
            return [j for j in range(n) if is_visible(i, j, r, causal=True)]

        for layer in range(self.cfg.N):
            name = f"decoder.layers.{layer}"
            attended = self.attention(f"{name}.self_attention", x, x, visible)
            x = self.add_norm(f"{name}.add_norms.0", x, attended)
            attended = self.attention(
                f"{name}.encoder_attention", x, memory, lambda i: range(len(memory))
            )
            x = self.add_norm(f"{name}.add_norms.1", x, attended)
            hidden = self.feed_forward(f"{name}.feed_forward", x)
            x = self.add_norm(f"{name}.add_norms.2", x, hidden)
        return x

    def logits(self, source, target):
        """Return the logits (length of target, V)."""
        if "decoder.W_vocabulary.weight" in self.w:
            matrix = self.w["decoder.W_vocabulary.weight"]
        else:
            matrix = self.w["decoder.embedding.weight"]
        return torch.stack([matrix @ x for x in self.decode(target, self.encode(source))])
