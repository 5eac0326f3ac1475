"""Table 1: the formulas, compared with counts in plain loops that compute the same layers."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from aiayn_plugin.benchmarks.table1 import TABLE_1, Sizes, format_table
from aiayn_plugin.kernels.attention import build_mask
from aiayn_plugin.model.attention import MultiHeadAttention
from aiayn_plugin.model.restricted import centred_window

#: n, d, k, r: n below and above k and r; even and odd.
SIZES = [
    Sizes(*size)
    for size in (
        (1, 4, 3, 3),
        (2, 4, 5, 8),
        (5, 4, 3, 3),
        (9, 2, 2, 4),
        (12, 4, 5, 7),
        (13, 2, 3, 1),
    )
]


class Count:
    """Multiply-adds, counted one by one."""

    def __init__(self):
        self.done = 0

    def dot(self, xs, ys):
        """Return Σ x·y, and count each term."""
        total = 0.0
        for x, y in zip(xs.tolist(), ys.tolist(), strict=True):
            total += x * y
            self.done += 1
        return total

    def times(self, matrix, x):
        """Return a matrix (rows, columns) times a vector."""
        return torch.tensor([self.dot(row, x) for row in matrix], dtype=torch.float64)


def attention(x, sees):
    """Return softmax(xxᵀ/√d)x of x (n, d), and the count; sees(i, j) says whether i sees j."""
    count, out = Count(), []
    n, d = x.shape
    for i in range(n):
        near = [j for j in range(n) if sees(i, j)]
        powers = [math.exp(count.dot(x[i], x[j]) / math.sqrt(d)) for j in near]
        weights = torch.tensor([power / sum(powers) for power in powers], dtype=torch.float64)
        out.append(count.times(x[near].T, weights))
    return torch.stack(out), count.done


def lstm(x, layer):
    """Return the output of an LSTM without biases for x (n, d), and the count."""
    count, out = Count(), []
    h = c = torch.zeros(x.size(1), dtype=torch.float64)
    for row in x:
        gates = count.times(layer.weight_ih_l0, row) + count.times(layer.weight_hh_l0, h)
        i, f, g, o = gates.chunk(4)  # input, forget, cell and output gate
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        out.append(h)
    return torch.stack(out), count.done


def convolution(x, layer):
    """Return the output of a convolution without a bias for x (n, d), and the count."""
    count, out = Count(), []
    n, d = x.shape
    before = (layer.kernel_size[0] - 1) // 2
    for i in range(n):
        total = torch.zeros(d, dtype=torch.float64)
        for offset in range(layer.kernel_size[0]):
            j = i + offset - before
            if 0 <= j < n:
                total += count.times(layer.weight[:, :, offset], x[j])
        out.append(total)
    return torch.stack(out), count.done


@pytest.mark.parametrize("size", SIZES, ids=str)
@torch.no_grad()
def test_loops_that_compute_the_layers_count_the_same_multiply_adds(size):
    torch.manual_seed(1)
    x = torch.randn(size.n, size.d, dtype=torch.float64)
    window = centred_window(size.r)
    recurrent = nn.LSTM(size.d, size.d, bias=False).double()
    convolutional = nn.Conv1d(size.d, size.d, size.k, padding="same", bias=False).double()
    mask = build_mask(size.n, size.n, None, window, x.device)
    layers = {
        "full": (attention(x, lambda i, j: True), F.scaled_dot_product_attention(*[x[None]] * 3)),
        "recurrent": (lstm(x, recurrent), recurrent(x)[0]),
        "convolutional": (convolution(x, convolutional), convolutional(x.T).T),
        "restricted": (
            attention(x, lambda i, j: -window.left <= j - i <= window.right),
            F.scaled_dot_product_attention(*[x[None]] * 3, mask),
        ),
    }
    assert set(layers) == set(TABLE_1)
    for name, ((out, count), expected) in layers.items():
        torch.testing.assert_close(out, expected.view_as(out))
        assert count == TABLE_1[name].operations(size), name


@pytest.mark.parametrize(
    ("name", "term", "factor"),
    [
        ("full", lambda n, d, k, r: n * n * d, 2),
        ("recurrent", lambda n, d, k, r: n * d * d, 8),
        ("convolutional", lambda n, d, k, r: k * n * d * d, 1),
        ("restricted", lambda n, d, k, r: r * n * d, 2),
    ],
)
def test_complexity_grows_as_the_paper_says(name, term, factor):
    sizes = itertools.product((2000, 8000), (64, 512), (3, 9), (16, 64))
    for n, d, k, r in sizes:
        ratio = TABLE_1[name].operations(Sizes(n, d, k, r)) / term(n, d, k, r)
        assert ratio == pytest.approx(factor, rel=0.02)  # slightly less, because of the ends


def sees(layer, n, d):
    """Return, for each output position of a layer, the input positions with a non-zero gradient."""
    x = torch.randn(1, n, d, dtype=torch.float64, requires_grad=True)
    out = layer(x)
    return [
        set(
            torch.autograd.grad(out[0, i].sum(), x, retain_graph=True)[0][0]
            .abs()
            .sum(1)
            .nonzero()
            .flatten()
            .tolist()
        )
        for i in range(n)
    ]


def steps_to_see(neighbours, goal):
    """Return the number of layers until goal(i, seen) holds for every position i, or ∞.

    A breadth-first search from each position: neighbours(layer)[i] are those that i sees.
    """
    longest = 1
    for i in range(len(neighbours(0))):
        seen, layers = {i}, 0
        while layers == 0 or not goal(i, seen):
            seen = set().union(*(neighbours(layers)[j] for j in seen))
            layers += 1
            if layers > len(neighbours(0)):
                return math.inf
        longest = max(longest, layers)
    return longest


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_the_path_length_of_self_attention_connects_all_positions(size):
    torch.manual_seed(1)
    for name, r in (("full", None), ("restricted", size.r)):
        layer = MultiHeadAttention(size.d, 1, size.d, size.d, neighbourhood=r).double()
        near = sees(lambda x, layer=layer: layer(x)[0], size.n, size.d)
        steps = steps_to_see(lambda _, near=near: near, lambda i, seen: len(seen) == size.n)
        assert TABLE_1[name].longest_path(size) == steps


@pytest.mark.parametrize("k", [2, 3, 4])
def test_the_path_length_of_dilated_convolutions_reaches_the_first_position(k):
    torch.manual_seed(1)
    for n in (1, 2, k, k + 1, k * k, k * k + 1, 20):
        stack = []
        for exponent in range(n.bit_length() + 1):
            back = (k - 1) * k**exponent
            layer = nn.Conv1d(2, 2, k, dilation=k**exponent).double()
            stack.append(
                sees(
                    lambda x, layer=layer, back=back: layer(
                        F.pad(x.transpose(1, 2), (back, 0))
                    ).transpose(1, 2),
                    n,
                    2,
                )
            )
        # from the first layer up or from the last one down: the steps add up to the same
        steps = steps_to_see(
            lambda layer, stack=stack: stack[min(layer, len(stack) - 1)],
            lambda i, seen: seen == set(range(i + 1)),
        )
        assert TABLE_1["convolutional"].longest_path(Sizes(n, 2, k, 3)) == steps


def test_an_lstm_processes_its_positions_in_sequence():
    """Its graph has an edge from each input to its state, and from each state to the next."""
    n = 7
    cell = nn.LSTMCell(2, 2).double()
    states, before = [], (torch.zeros(1, 2, dtype=torch.float64, requires_grad=True),) * 2
    inputs = torch.randn(n, 1, 2, dtype=torch.float64, requires_grad=True)
    for i in range(n):
        before = cell(inputs[i], before)
        states.append(before[0])
    assert torch.autograd.grad(states[-1].sum(), inputs)[0][0].abs().sum() > 0
    edges = {("state", i): [("input", i), ("state", i - 1)] for i in range(1, n)}
    edges["state", 0] = [("input", 0)]
    seen, steps = {("state", n - 1)}, 0
    while ("input", 0) not in seen:
        seen |= {node for place in seen for node in edges.get(place, ())}
        steps += 1
    size = Sizes(n, 2, 3, 3)
    assert (
        TABLE_1["recurrent"].longest_path(size)
        == TABLE_1["recurrent"].sequential_operations(size)
        == steps
    )
    for name in {*TABLE_1} - {"recurrent"}:
        assert TABLE_1[name].sequential_operations(size) == 1


def test_paths_grow_as_the_paper_says():
    for n in (729, 6561):
        size = Sizes(n, 512, 3, 65)
        assert TABLE_1["full"].longest_path(size) == 1
        assert TABLE_1["recurrent"].longest_path(size) == n
        assert TABLE_1["convolutional"].longest_path(size) == round(math.log(n, 3))
        # 32 of the 65 are on either side
        assert TABLE_1["restricted"].longest_path(size) == pytest.approx(2 * n / 65, rel=0.1)


def test_the_table_has_the_papers_columns_and_exact_numbers():
    lines = format_table(Sizes(4096, 512, 3, 1)).splitlines()
    assert "n = 4,096, d = 512, k = 3, r = 1" in lines[0]
    assert lines[2].split() == [
        "self-attention",
        "O(n²·d)",
        "O(1)",
        "O(1)",
        "17,179,869,184",
        "1",
        "1",
    ]
    assert lines[3].split()[-3:] == [f"{8 * 4096 * 512**2:,}", "4,096", "4,096"]
    assert lines[4].split()[-6:-3] == ["O(1)", "O(logₖ", "n)"]
    assert lines[5].split()[-1] == "∞"
