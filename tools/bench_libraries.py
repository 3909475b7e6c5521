"""What tools/bench-peers compares: each library behind the few names that the rows use. prepare
gives a call without arguments that calculates an expression on ready arrays and waits for it;
what a library lacks raises Lacking."""

import ctypes
import importlib
import importlib.metadata
import logging
import math
import pathlib

import bench_ours
import numpy as np


class Lacking(Exception):
    """The library does not have what the row asks for."""


class Library:
    """Names that most libraries share; m is the library's own module of array functions."""

    def __getattr__(self, name):
        raise Lacking(name)

    def version(self):
        return importlib.metadata.version(self.package)

    wait = None

    def loop(self, row, x):
        """A call that takes the row's step so many times, each time until its result is there."""
        step, wait, times = row.step, self.wait, range(row.count)

        def run():
            for _ in times:
                y = step(x)
            return y

        def run_and_wait():
            for _ in times:
                y = step(x)
                wait(y)
            return y

        return run_and_wait if wait else run

    def close(self):
        """Frees what the last prepare made."""

    def swap(self, x, a, b):
        return self.m.swapaxes(x, a, b)

    def exp(self, x):
        return self.m.exp(x)

    def sum(self, x, axis):
        return self.m.sum(x, axis=axis)

    def every_fourth(self, x):
        return x[::4]

    def reshape(self, x, *shape):
        return self.m.reshape(x, shape)

    def linear(self, x, w, b):
        return x @ w.T + b

    def get(self, result):
        return np.asarray(result)


class Numpy(Library):
    name, package = "numpy", "numpy"

    def __init__(self, options):
        self.m, self.special = np, importlib.import_module("scipy.special")

    def put(self, array):
        return array

    def prepare(self, row, arrays):
        return lambda: row.work(self, *arrays)

    def contiguous(self, x):
        return np.ascontiguousarray(x)

    def sigmoid(self, x):
        return 1 / (1 + np.exp(-x))

    def gelu(self, x):
        return x * 0.5 * (1 + self.special.erf(x * math.sqrt(0.5)))

    def attention(self, q, k, v):
        return self.softmax(q @ self.swap(k, -2, -1) * q.shape[-1] ** -0.5) @ v

    def softmax(self, x):
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    def layer_norm(self, x, w, b):
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * w + b


class Numexpr(Library):
    name, package = "numexpr", "numexpr"

    def __init__(self, options):
        self.m = importlib.import_module("numexpr")
        self.m.set_num_threads(options.threads)

    def put(self, array):
        return array

    def prepare(self, row, arrays):
        if not row.formula:
            raise Lacking(row.name)
        # Checked and compiled here; re_evaluate is its call for a loop.
        names = dict(zip("abc", arrays))
        self.m.evaluate(row.formula, names)
        return lambda: self.m.re_evaluate(names)

    def loop(self, row, x):
        raise Lacking(row.name)


class Jax(Library):
    name, package = "jax", "jax"

    def __init__(self, options):
        self.jax, self.m = importlib.import_module("jax"), importlib.import_module("jax.numpy")
        self.wait = self.jax.block_until_ready

    def put(self, array):
        return self.m.asarray(array)

    def prepare(self, row, arrays):
        compiled = self.jax.jit(lambda *given: row.work(self, *given))
        return lambda: compiled(*arrays).block_until_ready()

    def contiguous(self, x):
        return x

    def sigmoid(self, x):
        return self.jax.nn.sigmoid(x)

    def gelu(self, x):
        return self.jax.nn.gelu(x, approximate=False)

    def softmax(self, x):
        return self.jax.nn.softmax(x, axis=-1)

    def layer_norm(self, x, w, b):
        mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) * self.jax.lax.rsqrt(var + 1e-5) * w + b

    def attention(self, q, k, v):
        # Takes [batch, seq, heads, width].
        heads_inside = [self.swap(x, 1, 2) for x in (q, k, v)]
        return self.swap(self.jax.nn.dot_product_attention(*heads_inside), 1, 2)


class Mlx(Library):
    name, package = "mlx", "mlx"

    def __init__(self, options):
        self.m, self.nn = importlib.import_module("mlx.core"), importlib.import_module("mlx.nn")
        self.m.set_default_device(self.m.cpu)
        self.wait = self.m.eval

    def put(self, array):
        return self.m.array(array)

    def prepare(self, row, arrays):
        compiled = self.m.compile(lambda *given: row.work(self, *given))

        def run():
            y = compiled(*arrays)
            self.m.eval(y)
            return y

        return run

    def contiguous(self, x):
        return self.m.contiguous(x)

    def sigmoid(self, x):
        return self.m.sigmoid(x)

    def gelu(self, x):
        return self.nn.gelu(x)

    def softmax(self, x):
        return self.m.softmax(x, axis=-1)

    def layer_norm(self, x, w, b):
        return self.m.fast.layer_norm(x, w, b, 1e-5)

    def attention(self, q, k, v):
        return self.m.fast.scaled_dot_product_attention(q, k, v, scale=q.shape[-1] ** -0.5)


class Torch(Library):
    name, package = "torch", "torch"

    def __init__(self, options):
        self.m = importlib.import_module("torch")
        self.f = self.m.nn.functional
        self.m.set_num_threads(options.threads)
        self.m.set_grad_enabled(False)
        logging.getLogger("torch").setLevel(logging.ERROR)

    def put(self, array):
        return self.m.from_numpy(array)

    def prepare(self, row, arrays):
        return lambda: row.work(self, *arrays)

    def sum(self, x, axis):
        return x.sum(axis)

    def contiguous(self, x):
        return x.contiguous()

    def linear(self, x, w, b):
        return self.f.linear(x, w, b)

    def sigmoid(self, x):
        return self.m.sigmoid(x)

    def gelu(self, x):
        return self.f.gelu(x)

    def softmax(self, x):
        return self.f.softmax(x, dim=-1)

    def layer_norm(self, x, w, b):
        return self.f.layer_norm(x, w.shape, w, b, 1e-5)

    def attention(self, q, k, v):
        return self.f.scaled_dot_product_attention(q, k, v)


class TorchCompile(Torch):
    """torch.compile, where it is another program than eager PyTorch: rows with a fused loop."""

    name = "torch.compile"

    def __init__(self, options):
        super().__init__(options)
        # Fails here, and not in a row, where there is no C++ compiler.
        self.m.compile(lambda x: x + x)(self.m.zeros(64))

    def prepare(self, row, arrays):
        if not row.fused:
            raise Lacking(row.name)
        self.m.compiler.reset()
        compiled = self.m.compile(lambda *given: row.work(self, *given), dynamic=False)
        return lambda: compiled(*arrays)

    def loop(self, row, x):
        raise Lacking(row.name)


class Ours(Library):
    """tp_plan_run on a plan made before, as the others are compiled before."""

    name = "tensorplay"

    def __init__(self, options):
        self.library = bench_ours.load(pathlib.Path(options.build) / "libtensorplay.so")
        self.context = self.library.tp_context_create(ctypes.byref(bench_ours.ContextOptions(threads=options.threads)))
        self.graph = None

    def version(self):
        text = ctypes.create_string_buffer(256)
        self.library.tp_describe_backends(text, len(text))
        return text.value.decode()

    def put(self, array):
        self.graph = self.graph or bench_ours.Graph(self.library, self.context)
        return self.graph.wrap(array)

    def prepare(self, row, arrays):
        self.graph.make_plan(row.work(self, *arrays))
        return self.graph.run

    def loop(self, row, x):
        """Views are built anew each time (and the graph emptied after a round), as the others build
        objects; copies run a plan each time, since equal nodes of one graph would be one copy."""
        if not row.views:
            self.graph.make_plan(row.step(x))
            run, times = self.graph.run, range(row.count)

            def run_plans():
                for _ in times:
                    run()

            return run_plans
        return self.graph.build_views(row.count, row.evaluates)

    def get(self, result):
        return self.graph.result()

    def close(self):
        if self.graph:
            self.graph.close()
        self.graph = None

    def swap(self, x, a, b):
        return self.graph.op("transpose", x, a, b)

    def sum(self, x, axis):
        return self.graph.op("sum", x, (axis,), False)

    def every_fourth(self, x):
        return self.graph.op("slice", x, 0, 0, 2**62, 4)

    def reshape(self, x, *shape):
        return self.graph.op("reshape", x, shape)

    def linear(self, x, w, b):
        return self.graph.op("linear", x, w, b)

    def contiguous(self, x):
        return self.graph.op("contiguous", x)

    def exp(self, x):
        return self.graph.op("exp", x)

    def sigmoid(self, x):
        return self.graph.op("sigmoid", x)

    def gelu(self, x):
        return self.graph.op("gelu", x)

    def softmax(self, x):
        return self.graph.op("softmax", x, -1)

    def layer_norm(self, x, w, b):
        return self.graph.op("layer_norm", x, 1, w, b, 1e-5)

    def attention(self, q, k, v):
        return self.graph.op("attention", q, k, v, None, 0.0, False)
