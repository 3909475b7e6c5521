"""The library through ctypes, with the operators of Python: for tools that measure it beside others."""

import ctypes

TENSOR, INT, INT64, REAL, FLAG = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_double, ctypes.c_bool
DIMS = [INT, ctypes.POINTER(INT64)]
LOG = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)
# What the tools call: the parameters of tp_<name>, which all give a tensor.
OPS = {name: [TENSOR] for name in ("exp", "sigmoid", "gelu", "gelu_tanh", "relu", "contiguous")}
OPS |= {name: [TENSOR, TENSOR] for name in ("add", "sub", "mul", "matmul")}
OPS |= {
    "num": [TENSOR, REAL],
    "cast": [TENSOR, INT],
    "sum": [TENSOR, *DIMS, FLAG],
    "softmax": [TENSOR, INT],
    "layer_norm": [TENSOR, INT, TENSOR, TENSOR, REAL],
    "reshape": [TENSOR, *DIMS],
    "permute": [TENSOR, *DIMS],
    "transpose": [TENSOR, INT, INT],
    "slice": [TENSOR, INT, INT64, INT64, INT64],
    "linear": [TENSOR, TENSOR, TENSOR],
    "attention": [TENSOR, TENSOR, TENSOR, TENSOR, REAL, FLAG],
    "random_normal": [ctypes.c_void_p, INT, *DIMS, ctypes.c_uint64],
}


class View(ctypes.Structure):
    _fields_ = [("ndim", INT), ("offset", INT64), ("shape", INT64 * 16), ("stride", INT64 * 16)]


class Error(ctypes.Structure):
    _fields_ = [("status", INT), ("op", ctypes.c_char_p), ("dim", INT), ("text", ctypes.c_char * 512)]


class ContextOptions(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("alloc", "release", "user")]
    _fields_ += [("memory_limit_bytes", ctypes.c_size_t), ("pool_limit_bytes", ctypes.c_size_t), ("threads", INT)]
    _fields_ += [("log", LOG), ("log_user", ctypes.c_void_p)]


class EvalOptions(ctypes.Structure):
    _fields_ = [("keep_layout", FLAG), ("profile", FLAG), ("tf32", FLAG), ("budget", ctypes.c_void_p)]


class Summary(ctypes.Structure):
    _fields_ = [("kernels", INT), ("copies", INT)]
    _fields_ += [(name, INT64) for name in ("copied_bytes", "moved_bytes", "flops", "peak_bytes", "workspace_bytes")]
    _fields_ += [("asked_copies", INT), ("asked_copied_bytes", INT64), ("removed_copies", INT), ("in_place", INT)]
    _fields_ += [("moves", INT), ("device_moved_bytes", INT64)]


def dims(sizes):
    return len(sizes), (INT64 * len(sizes))(*sizes)


def load(path):
    """The library with its prototypes declared."""
    library = ctypes.CDLL(str(path))
    pointer, outputs = ctypes.c_void_p, [ctypes.c_void_p, INT, ctypes.POINTER(TENSOR), ctypes.POINTER(EvalOptions)]
    prototypes = {
        "context_create": (pointer, [ctypes.POINTER(ContextOptions)]),
        "graph_create": (pointer, [pointer]),
        "graph_destroy": (None, [pointer]),
        "graph_reset": (None, [pointer]),
        "graph_error": (ctypes.POINTER(Error), [pointer]),
        "wrap": (TENSOR, [pointer, INT, *DIMS, DIMS[1], INT64, pointer, ctypes.c_size_t, pointer, pointer]),
        "plan_create": (pointer, outputs),
        "plan_release": (None, [pointer]),
        "plan_run": (INT, [pointer]),
        "plan_summarize": (Summary, [pointer]),
        "graph_set_backend": (INT, [pointer, ctypes.c_char_p]),
        "graph_set_pass": (INT, [pointer, ctypes.c_char_p, FLAG]),
        "item": (REAL, [TENSOR, INT64]),
        "eval_all": (INT, outputs),
        "eval": (INT, [TENSOR]),
        "data": (pointer, [TENSOR]),
        "view_of": (View, [TENSOR]),
        "result_view": (View, [TENSOR]),
        "dtype_name": (ctypes.c_char_p, [INT]),
        "describe_backends": (INT, [ctypes.c_char_p, ctypes.c_size_t]),
        "describe_backend": (INT, [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]),
    }
    prototypes |= {name: (TENSOR, parameters) for name, parameters in OPS.items()}
    for name, (result, parameters) in prototypes.items():
        function = getattr(library, f"tp_{name}")
        function.restype, function.argtypes = result, parameters
    return library


class Tensor:
    def __init__(self, graph, pointer):
        if not pointer:
            raise RuntimeError(graph.error())
        self.graph, self.pointer = graph, pointer

    @property
    def shape(self):
        view = self.graph.library.tp_view_of(self.pointer)
        return tuple(view.shape[: view.ndim])

    @property
    def T(self):
        return self.graph.op("transpose", self, 0, 1)

    def reshape(self, *shape):
        return self.graph.op("reshape", self, shape)

    def __add__(self, other):
        return self.graph.op("add", self, other)

    def __sub__(self, other):
        return self.graph.op("sub", self, other)

    def __mul__(self, other):
        return self.graph.op("mul", self, other)

    def __matmul__(self, other):
        return self.graph.op("matmul", self, other)


class Graph:
    def __init__(self, library, context):
        self.library, self.handle, self.plan = library, library.tp_graph_create(context), None
        names = [library.tp_dtype_name(i).decode() for i in range(13)]
        self.dtype = {name: number for number, name in enumerate(names)}

    def error(self):
        return self.library.tp_graph_error(self.handle).contents.text.decode()

    def op(self, name, x, *others):
        """tp_<name>(x, ..): a number among tensors is a weak scalar, a tuple is dims."""
        function, given = getattr(self.library, f"tp_{name}"), [x.pointer]
        for other in others:
            if isinstance(other, tuple):
                given += dims(other)
            elif isinstance(other, Tensor):
                given.append(other.pointer)
            elif isinstance(other, (int, float)) and function.argtypes[len(given)] is TENSOR:
                given.append(self.library.tp_num(x.pointer, other))
            else:
                given.append(other)
        return Tensor(self, function(*given))

    def make_plan(self, output, **options):
        """options: those of tp_eval_options."""
        self.output, how = output, ctypes.pointer(EvalOptions(**options))
        self.plan = self.library.tp_plan_create(self.handle, 1, ctypes.pointer(TENSOR(output.pointer)), how)
        if not self.plan:
            raise RuntimeError(self.error())

    def run(self):
        if self.library.tp_plan_run(self.plan) != 0:
            raise RuntimeError(self.error())

    def close(self):
        if self.plan:
            self.library.tp_plan_release(self.plan)
        self.library.tp_graph_destroy(self.handle)
        self.plan = self.handle = None
