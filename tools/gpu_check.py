"""The benchmarks of tools/tp-gpu-check: ours beside PyTorch, where it is installed, in one process.

Every time is the median of wall-clock times from a call until its result is there. Inputs are
random and lie on the device; outputs are checked on a few elements against Python's own floats."""

import argparse
import ctypes
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

import tp_library

try:
    import torch
except ImportError:
    torch = None

BYTES = {"bf16": 2, "f16": 2, "f32": 4}


class Ours:
    """A graph on the device; the log of its context says which kernels ran."""

    def __init__(self, library, backend):
        self.lines = []
        log = tp_library.LOG(lambda _, line: self.lines.append(line.decode()))
        self.options = tp_library.ContextOptions(log=log)
        self.context = library.tp_context_create(ctypes.byref(self.options))
        self.library, self.backend = library, backend
        self.graph = tp_library.Graph(library, self.context)
        if library.tp_graph_set_backend(self.graph.handle, backend.encode()):
            raise RuntimeError(self.graph.error())

    def random(self, dtype, *shape, seed=1):
        """Evaluated, in device memory."""
        f32 = self.library.tp_random_normal(self.graph.handle, self.graph.dtype["f32"], *tp_library.dims(shape), seed)
        x = self.graph.op("cast", tp_library.Tensor(self.graph, f32), self.graph.dtype[dtype])
        if self.library.tp_eval(x.pointer):
            raise RuntimeError(self.graph.error())
        return x

    def number(self, x, *index):
        """One element of an evaluated tensor, by a view of it: the rest stays where it is."""
        for axis, i in enumerate(index):
            x = self.graph.op("slice", x, axis, i, i + 1, 1)
        y = self.graph.op("contiguous", x)
        if self.library.tp_eval(y.pointer):
            raise RuntimeError(self.graph.error())
        return self.library.tp_item(y.pointer, 0)

    def plan(self, y, **options):
        self.graph.make_plan(y, **options)
        return self.graph.run

    def kernels(self):
        """What each plan noted first, the names of kernels and products: one that runs again with other
        addresses notes the same once more."""
        names, notes = [], 0
        for line in self.lines:
            if line.startswith("plan:"):
                notes = 0
            elif line.endswith("launches and calls"):
                notes += 1
            elif line.startswith("cuda: step") and notes == 1:
                names.append(line.split(": ", 2)[2].split(" ")[0])
        return names

    def summary(self):
        return self.library.tp_plan_summarize(self.graph.plan)

    def close(self):
        self.graph.close()


def median(call, repeats):
    """Seconds of a call; the first two only warm."""
    times = []
    for i in range(repeats + 2):
        start = time.perf_counter()
        call()
        if i > 1:
            times.append(time.perf_counter() - start)
    return statistics.median(times)


def torch_median(call, repeats):
    def wait():
        call()
        torch.cuda.synchronize()

    return median(wait, repeats)


def torch_random(dtype, *shape):
    types = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
    return torch.randn(*shape, device="cuda", dtype=types[dtype])


class Report:
    def __init__(self, repeats):
        self.rows, self.repeats = [], repeats

    def add(self, name, seconds, amount, unit, others=(), note=""):
        """amount / seconds in unit; others: (name, seconds) of the same work."""
        row = {"name": name, "ms": seconds * 1e3, "rate": amount / seconds, "unit": unit, "note": note}
        row["against"] = {other: {"ms": s * 1e3, "ratio": s / seconds} for other, s in others}
        self.rows.append(row)
        beside = "  ".join(f"{other} {s * 1e3:.3f} ms ({s / seconds:.2f}x)" for other, s in others)
        print(f"{name:44} {seconds * 1e3:10.3f} ms {amount / seconds:10.2f} {unit:8} {beside}  {note}", flush=True)


def close_to(ours, truth, relative):
    if not abs(ours - truth) <= relative * max(1, abs(truth)):
        raise RuntimeError(f"a result is wrong: {ours} and not {truth}")


def moves(new, report, scale):
    """1 to 3: a copy, a permuted copy, a transpose, against bytes read and written."""
    side = 32768 // scale
    cases = [
        ("1 copy bf16", (side, side), lambda x: x.reshape(side * side), lambda t: t.clone()),
        (
            "2 permute heads bf16",
            (32 // min(scale, 8), 4096 // scale, 32, 128),
            lambda x: x.graph.op("permute", x, (0, 2, 1, 3)),
            lambda t: t.permute(0, 2, 1, 3).contiguous(),
        ),
        ("3 transpose bf16", (side, side), lambda x: x.T, lambda t: t.t().contiguous()),
    ]
    for name, shape, ask, other in cases:
        ours = new()
        x = ours.random("bf16", *shape)
        y = ask(x)
        seconds = median(ours.plan(y), report.repeats)
        others = []
        if torch:
            t = torch_random("bf16", *shape)
            others.append(("torch", torch_median(lambda: other(t), report.repeats)))
        if name.startswith("3"):
            close_to(ours.number(y, 1, 2), ours.number(x, 2, 1), 0)
        report.add(name, seconds, 2 * 2 * math.prod(shape) / 1e9, "GB/s", others)
        ours.close()


def fused(new, report, scale):
    """4: gelu(x a + b) + r with a row and a column that broadcast."""
    rows, columns = 16384 // scale, 32768 // scale
    ours = new()
    x, r = ours.random("bf16", rows, columns), ours.random("bf16", rows, columns, seed=2)
    a, b = ours.random("bf16", columns, seed=3), ours.random("bf16", rows, 1, seed=4)
    y = ours.graph.op("gelu", x * a + b) + r
    seconds = median(ours.plan(y), report.repeats)
    v = ours.number(x, 3, 5) * ours.number(a, 5) + ours.number(b, 3, 0)
    close_to(ours.number(y, 3, 5), v / 2 * math.erfc(-v / math.sqrt(2)) + ours.number(r, 3, 5), 0.03)
    others = []
    if torch:
        tx, tr = torch_random("bf16", rows, columns), torch_random("bf16", rows, columns)
        ta, tb = torch_random("bf16", columns), torch_random("bf16", rows, 1)

        def call():
            return torch.nn.functional.gelu(tx * ta + tb) + tr

        others.append(("torch", torch_median(call, report.repeats)))
        others.append(("torch.compile", torch_median(torch.compile(call), report.repeats)))
    report.add("4 gelu(x a + b) + r bf16", seconds, 3 * 2 * rows * columns / 1e9, "GB/s", others)
    ours.close()


def reductions(new, report, scale):
    """5: sums over the last dim, the first, all."""
    side = 32768 // scale
    for dtype in ("f32", "bf16"):
        for name, axes in (("last", (1,)), ("first", (0,)), ("all", (0, 1))):
            ours = new()
            x = ours.random(dtype, side, side)
            y = ours.graph.op("sum", x, axes, False)
            seconds = median(ours.plan(y), report.repeats)
            others = []
            if torch:
                t = torch_random(dtype, side, side)
                others.append(("torch", torch_median(lambda: t.sum(axes), report.repeats)))
            report.add(f"5 sum {name} {dtype}", seconds, BYTES[dtype] * side * side / 1e9, "GB/s", others)
            ours.close()


def softmax(new, report, scale):
    """6: scale, mask and softmax in one kernel."""
    shape = (2, 32, 4096 // scale, 4096 // scale)
    ours = new()
    x, mask = ours.random("bf16", *shape), ours.random("bf16", *shape[2:], seed=2)
    y = ours.graph.op("softmax", x * 0.088 + mask, 3)
    seconds = median(ours.plan(y), report.repeats)
    others = []
    if torch:
        tx, tm = torch_random("bf16", *shape), torch_random("bf16", *shape[2:])
        others.append(("torch", torch_median(lambda: torch.softmax(tx * 0.088 + tm, 3), report.repeats)))
    report.add("6 scale, mask, softmax bf16", seconds, 4 * math.prod(shape) / 1e9, "GB/s", others)
    ours.close()


def gemms(new, report, scale):
    """7: products of all four layouts."""
    n = 8192 // scale
    for dtype, options in (("bf16", {}), ("f32", {}), ("f32", {"tf32": True})):
        for a_turned in (False, True):
            for b_turned in (False, True):
                ours = new()
                a, b = ours.random(dtype, n, n), ours.random(dtype, n, n, seed=2)
                y = (a.T if a_turned else a) @ (b.T if b_turned else b)
                seconds = median(ours.plan(y, **options), report.repeats)
                others = []
                if torch:
                    torch.backends.cuda.matmul.allow_tf32 = bool(options)
                    ta, tb = torch_random(dtype, n, n), torch_random(dtype, n, n)
                    ta, tb = (ta.t() if a_turned else ta), (tb.t() if b_turned else tb)
                    others.append(("torch", torch_median(lambda: ta @ tb, report.repeats)))
                layout = "NT"[a_turned] + "NT"[b_turned]
                name = f"7 gemm {layout} {'tf32' if options else dtype} {n}"
                report.add(name, seconds, 2 * n**3 / 1e12, "TFLOP/s", others)
                if [k for k in ours.kernels()[-1:] if not k.startswith(("Gemm", "Lt"))]:
                    raise RuntimeError(f"{name}: {ours.kernels()[-1]} ran and no product")
                ours.close()


def heads(x, batch, rows, count):
    """[batch, rows, width] as [batch, heads, rows, width / heads], a view."""
    return x.graph.op("transpose", x.reshape(batch, rows, count, x.shape[2] // count), 1, 2)


def no_copies(ours, name, before):
    """The kernels of the plan; none of them only copies."""
    kernels = ours.kernels()[before:]
    if ours.summary().copies or [k for k in kernels if k.startswith("copy") or k.startswith("transpose")]:
        raise RuntimeError(f"{name}: a copy ran: {kernels}")
    return kernels


def attention_products(new, report, scale):
    """8: scores and P V of heads that lie side by side, views."""
    batch, rows, width, count = 2, 4096 // scale, 4096 // min(scale, 16), 32
    ours = new()
    q, k = ours.random("bf16", batch, rows, width), ours.random("bf16", batch, rows, width, seed=2)
    qh, kh = heads(q, batch, rows, count), heads(k, batch, rows, count)
    scores = qh @ ours.graph.op("transpose", kh, 2, 3)
    before = len(ours.kernels())
    seconds = median(ours.plan(scores), report.repeats)
    kernels = no_copies(ours, "8 scores", before)
    others = []
    if torch:
        tq, tk = (torch_random("bf16", batch, rows, count, width // count).transpose(1, 2) for _ in range(2))
        others.append(("torch", torch_median(lambda: tq @ tk.transpose(2, 3), report.repeats)))
    flops = 2 * batch * rows * rows * width
    report.add("8 scores of permuted heads bf16", seconds, flops / 1e12, "TFLOP/s", others, " ".join(kernels))
    ours.close()


def linear(new, report, scale):
    """9: a product with bias and GELU (its tanh form)."""
    rows, inner, columns = 8192 // scale, 4096 // scale, 16384 // scale
    ours = new()
    x, w = ours.random("bf16", rows, inner), ours.random("bf16", columns, inner, seed=2)
    b = ours.random("bf16", columns, seed=3)
    y = ours.graph.op("gelu_tanh", ours.graph.op("linear", x, w, b))
    seconds = median(ours.plan(y), report.repeats)
    others = []
    if torch:
        tx, tw, tb = torch_random("bf16", rows, inner), torch_random("bf16", columns, inner), torch_random("bf16", columns)

        def call():
            return torch.nn.functional.gelu(torch.nn.functional.linear(tx, tw, tb), approximate="tanh")

        others.append(("torch", torch_median(call, report.repeats)))
        others.append(("torch.compile", torch_median(torch.compile(call), report.repeats)))
    flops = 2 * rows * inner * columns
    report.add("9 gelu(x w + b) bf16", seconds, flops / 1e12, "TFLOP/s", others, " ".join(ours.kernels()[-2:]))
    ours.close()


def torch_attention_calls(batch, rows, width, count):
    x, *w = (torch_random("bf16", *s) for s in [(batch, rows, width)] + [(width, width)] * 4)
    parts, each = torch.nn.functional, width // count

    def split(y):
        return y.view(batch, rows, count, each).transpose(1, 2)

    def naive():
        q, k, v = (split(x @ m).contiguous() for m in w[:3])
        p = torch.softmax(q @ k.transpose(2, 3) / math.sqrt(each), 3)
        return (p @ v).transpose(1, 2).contiguous().view(batch, rows, width) @ w[3]

    def fused():
        q, k, v = (split(x @ m) for m in w[:3])
        y = parts.scaled_dot_product_attention(q, k, v)
        return y.transpose(1, 2).reshape(batch, rows, width) @ w[3]

    return [("torch naive", naive), ("torch compiled", torch.compile(naive)), ("torch SDPA", fused)]


def layer(new, report, scale):
    """10 and 13: the attention layer as people write it, its kernels and its memory; B = 2, since
    with B = 1 PyTorch's copies do not show."""
    batch, rows, width, count = 2, 4096 // scale, 4096 // min(scale, 16), 32
    for name, stream in (("stored scores", False), ("streamed", True)):
        ours = new()
        ours.library.tp_graph_set_pass(ours.graph.handle, b"stream", stream)
        x = ours.random("bf16", batch, rows, width)
        w = [ours.random("bf16", width, width, seed=2 + i) for i in range(4)]
        q, k, v = (ours.graph.op("contiguous", heads(x @ m, batch, rows, count)) for m in w[:3])
        scores = q @ ours.graph.op("transpose", k, 2, 3) * (1 / math.sqrt(width // count))
        o = ours.graph.op("transpose", ours.graph.op("softmax", scores, 3) @ v, 1, 2)
        y = ours.graph.op("contiguous", o).reshape(batch, rows, width) @ w[3]
        before = len(ours.kernels())
        seconds = median(ours.plan(y), report.repeats)
        kernels, s = no_copies(ours, "10 layer", before), ours.summary()
        others = [(n, torch_median(c, report.repeats)) for n, c in torch_attention_calls(batch, rows, width, count)] if torch else []
        flops = 8 * batch * rows * width * width + 4 * batch * rows * rows * width
        note = f"{s.asked_copies} copies as built, {s.copies} planned; peak {s.peak_bytes / 2**20:.0f} MiB: " + " ".join(kernels)
        report.add(f"10 attention layer bf16, {name}", seconds, flops / 1e12, "TFLOP/s", others, note)
        ours.close()


def tiny(new, report, scale):
    """11: 200 small kernels in one graph, each a launch."""
    count, ours = 200, new()
    ours.library.tp_graph_set_pass(ours.graph.handle, b"all", False)
    x = ours.random("f32", 16384)
    y = x
    for _ in range(count):
        y = y + 0.5
    run = ours.plan(y)
    seconds = median(run, report.repeats)
    others = []
    if torch:
        t = torch_random("f32", 16384)

        def call():
            u = t
            for _ in range(count):
                u = u + 0.5
            return u

        others.append(("torch", torch_median(call, report.repeats)))
    report.add("11 200 tiny nodes, per node", seconds / count, 1e-6, "M/s", [(n, s / count) for n, s in others])
    ours.close()


FIRST = """
import sys, time; sys.path.insert(0, {tools!r})
import gpu_check, tp_library
ours = gpu_check.Ours(tp_library.load({library!r}), {backend!r})
x = ours.random("f32", 1000)
y = x
for i in range(20):
    y = ours.graph.op("sum", ours.graph.op("exp", y + float(i)) * y, (), False) + x if i % 2 else y * y + x
start = time.perf_counter()
ours.plan(y)()
print(time.perf_counter() - start)
start = time.perf_counter()
ours.graph.run()
print(time.perf_counter() - start)
"""


def first_call(options, report):
    """12: the first call with no cache, with the one on disk, and the second call."""
    with tempfile.TemporaryDirectory() as folder:
        code = FIRST.format(tools=os.path.dirname(os.path.abspath(__file__)), library=options.library, backend=options.backend)
        env = os.environ | {"TP_CACHE_DIR": folder}
        for name in ("12 first call, no cache", "12 first call, disk cache"):
            out = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout.split()
            report.add(name, float(out[0]), 1e-6, "M/s", note=f"second call {float(out[1]) * 1e3:.3f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", required=True)
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--scale", type=int, default=1, help="divides all sizes, to try the script out")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--json")
    options = parser.parse_args()
    library, report = tp_library.load(options.library), Report(options.repeats)
    line = ctypes.create_string_buffer(500)
    library.tp_describe_backend(options.backend.encode(), line, len(line))
    other = f"PyTorch {torch.__version__}" if torch else "PyTorch is not installed: no peer"
    print(f"{line.value.decode()}; {other}")
    failed = []
    for part in (moves, fused, reductions, softmax, gemms, attention_products, linear, layer, tiny):
        try:
            part(lambda: Ours(library, options.backend), report, options.scale)
        except RuntimeError as error:
            failed.append(f"{part.__name__}: {error}")
            print(f"FAILED {failed[-1]}", flush=True)
    first_call(options, report)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"device": line.value.decode(), "peer": other, "rows": report.rows, "failed": failed}, file, indent=1)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
