"""The rows of tools/bench-peers: one expression each, which every library evaluates."""

import dataclasses
import operator
import typing

import numpy as np

MIB = 2**20


@dataclasses.dataclass
class Row:
    name: str
    # Label of a size and the shapes of its inputs; --quick takes the labels in quick.
    sizes: dict
    quick: tuple
    # The expression: a library (bench_libraries.py) and its arrays. A loop has a step instead.
    work: typing.Callable = None
    formula: str = None  # numexpr's
    fused: bool = False  # worth torch.compile
    step: typing.Callable = None
    count: int = 1
    views: bool = False  # step gives a view
    evaluates: bool = False  # the view is evaluated each time
    weights: float = 1  # all inputs but the first are at most this
    bound: float = 1e-5  # largest error, in units of the largest magnitude of the result


def elements(*counts):
    return {label: [(n,)] * 3 for label, n in counts}


def twenty_cheap(m, a, b, c):
    x = c
    for _ in range(5):
        x = (x * a + b) * a - c
    return x


def twenty_cheap_formula():
    x = "c"
    for _ in range(5):
        x = f"(({x} * a + b) * a - c)"
    return x


def split_heads(m, x, heads):
    batch, seq, width = x.shape
    return m.swap(m.reshape(x, batch, seq, heads, width // heads), 1, 2)


def merge_heads(m, x):
    batch, heads, seq, width = x.shape
    return m.reshape(m.contiguous(m.swap(x, 1, 2)), batch, seq, heads * width)


HEADS = 8


def attention_layer(m, x, wq, wk, wv, wo, bq, bk, bv, bo):
    """As PyTorch users write it."""
    q, k, v = (m.contiguous(split_heads(m, m.linear(x, w, b), HEADS)) for w, b in ((wq, bq), (wk, bk), (wv, bv)))
    scores = (q @ m.swap(k, -2, -1)) * (q.shape[-1] ** -0.5)
    return m.linear(merge_heads(m, m.softmax(scores) @ v), wo, bo)


def attention_op_layer(m, x, wq, wk, wv, wo, bq, bk, bv, bo):
    """With the library's own attention."""
    q, k, v = (split_heads(m, m.linear(x, w, b), HEADS) for w, b in ((wq, bq), (wk, bk), (wv, bv)))
    return m.linear(merge_heads(m, m.attention(q, k, v)), wo, bo)


def attention_inputs(batch, seq, width):
    return [(batch, seq, width)] + [(width, width)] * 4 + [(width,)] * 4


CHAIN = elements(("1 K", 1000), ("100 K", 100_000), ("1 M", 1_000_000), ("10 M", 10_000_000))
CHAIN_QUICK = ("1 K", "100 K", "10 M")
BIASED = {label: [(n, 1024), (1024,)] for label, n in (("1 K", 1), ("100 K", 98), ("1 M", 977), ("10 M", 9766))}
MATRIX = {label: [(n, 1024)] for label, n in (("100 K", 98), ("1 M", 977), ("10 M", 9766))}
ATTENTION = {"2 x 512 x 512": attention_inputs(2, 512, 512), "1 x 2048 x 512": attention_inputs(1, 2048, 512)}
SQUARE = {"4096 x 4096": [(4096, 4096)]}

ROWS = [
    Row("a*b+c", CHAIN, CHAIN_QUICK, lambda m, a, b, c: a * b + c, formula="a * b + c", fused=True),
    Row("gelu(a+bias)", BIASED, CHAIN_QUICK, lambda m, a, bias: m.gelu(a + bias), fused=True),
    Row("20 cheap ops", CHAIN, CHAIN_QUICK, twenty_cheap, formula=twenty_cheap_formula(), fused=True),
    Row(
        "sigmoid(a)*b+exp(c)",
        CHAIN,
        CHAIN_QUICK,
        lambda m, a, b, c: m.sigmoid(a) * b + m.exp(c),
        formula="b / (1 + exp(-a)) + exp(c)",
        fused=True,
    ),
    Row("sum, inner axis", MATRIX, ("100 K", "10 M"), lambda m, a: m.sum(a, 1), formula="sum(a, axis=1)"),
    Row("sum, outer axis", MATRIX, ("100 K", "10 M"), lambda m, a: m.sum(a, 0), formula="sum(a, axis=0)"),
    Row(
        "softmax, 4 M",
        {f"rows of {n}": [(4 * MIB // n, n)] for n in (4096, 1024, 64)},
        ("rows of 4096", "rows of 1024", "rows of 64"),
        lambda m, a: m.softmax(a),
        fused=True,
    ),
    Row(
        "layer_norm, rows of 1024",
        {label: [(n, 1024), (1024,), (1024,)] for label, n in (("100 K", 98), ("4 M", 4096))},
        ("100 K", "4 M"),
        lambda m, a, w, b: m.layer_norm(a, w, b),
        fused=True,
    ),
    Row(
        "matmul",
        {f"{n}": [(n, n)] * 2 for n in (256, 512, 1024, 2048)},
        ("256", "512", "1024"),
        lambda m, a, b: a @ b,
    ),
    Row(
        "batched matmul",
        {f"{k} of {n}": [(k, n, n)] * 2 for k, n in ((1024, 16), (256, 64), (16, 256))},
        ("1024 of 16", "256 of 64"),
        lambda m, a, b: a @ b,
    ),
    Row(
        "transpose copy",
        {f"{n}": [(n, n)] for n in (256, 1000, 4096)},
        ("1000", "4096"),
        lambda m, a: m.contiguous(m.swap(a, 0, 1)),
    ),
    Row("attention layer, as written", ATTENTION, ("2 x 512 x 512",), attention_layer, weights=0.1),
    Row("attention layer, own attention", ATTENTION, ("2 x 512 x 512",), attention_op_layer, weights=0.1),
    # The stride experiments.
    Row("row sums", SQUARE, tuple(SQUARE), lambda m, a: m.sum(a, 1), formula="sum(a, axis=1)"),
    Row("column sums", SQUARE, tuple(SQUARE), lambda m, a: m.sum(a, 0), formula="sum(a, axis=0)"),
    Row("2 a, contiguous", {"4 M": [(4_000_000,)]}, ("4 M",), lambda m, a: a + a, formula="a + a"),
    Row("2 a, every fourth", {"4 M": [(16_000_000,)]}, ("4 M",), lambda m, a: m.every_fourth(a) + m.every_fourth(a)),
    Row(
        "1000 views",
        {"256": [(256, 256)], "1000": [(1000, 1000)]},
        ("256",),
        step=operator.attrgetter("T"),
        count=1000,
        views=True,
    ),
    Row(
        "1000 reshapes",
        {"256": [(256, 256)], "1000": [(1000, 1000)]},
        ("256",),
        step=lambda x: x.T.reshape(-1),
        count=1000,
    ),
    Row(
        "1000 views, evaluated",
        {"1000": [(1000, 1000)]},
        ("1000",),
        step=operator.attrgetter("T"),
        count=1000,
        views=True,
        evaluates=True,
    ),
]

# What a layout costs, per library: (title, row and size, row and size, in both of them per step).
EXPERIMENTS = [
    ("1000 reshapes of a transposed matrix against 1000 views", ("1000 reshapes", "1000"), ("1000 views", "1000")),
    ("the same, 256 x 256", ("1000 reshapes", "256"), ("1000 views", "256")),
    ("column sums against row sums, 4096 x 4096", ("column sums", "4096 x 4096"), ("row sums", "4096 x 4096")),
    ("every fourth element against contiguous", ("2 a, every fourth", "4 M"), ("2 a, contiguous", "4 M")),
    ("1000 x 1000 transposed, a copy against a view", ("transpose copy", "1000"), ("1000 views, evaluated", "1000")),
]


def make_inputs(row, shapes):
    """In [-1, 1], all but the first times the row's weights; the same for everybody and in every run."""
    rng = np.random.default_rng(1)
    first, *others = [rng.random(shape, dtype=np.float32) * 2 - 1 for shape in shapes]
    return [first] + [x * np.float32(row.weights) for x in others]
