"""Our side of tools/bench-peers: arrays in and out."""

import ctypes

import numpy as np

import tp_library
from tp_library import ContextOptions, EvalOptions, TENSOR, Tensor, dims, load  # noqa: F401


class Graph(tp_library.Graph):
    """A graph on arrays, which it borrows."""

    def __init__(self, library, context):
        super().__init__(library, context)
        self.kept = []

    def wrap(self, array):
        self.kept.append(array)
        strides = dims([stride // array.itemsize for stride in array.strides])[1]
        pointer = self.library.tp_wrap(
            self.handle, self.dtype["f32"], *dims(array.shape), strides, 0, array.ctypes.data, array.nbytes, None, None
        )
        return Tensor(self, pointer)

    def build_views(self, count, evaluates):
        """A call that transposes the wrapped matrix so many times, and empties the graph before."""
        transpose, evaluate, times = self.library.tp_transpose, self.library.tp_eval_all, range(count)
        matrix, how = self.kept[0], ctypes.pointer(EvalOptions(keep_layout=True))

        def run():
            self.library.tp_graph_reset(self.handle)
            x, y = self.wrap(matrix).pointer, TENSOR()
            del self.kept[1:]
            for _ in times:
                y.value = transpose(x, 0, 1)
                if evaluates:
                    evaluate(self.handle, 1, y, how)
            self.output = Tensor(self, y.value)

        return run

    def result(self):
        """The numbers of the output, copied."""
        pointer = self.output.pointer
        if self.library.tp_eval(pointer) != 0:
            raise RuntimeError(self.error())
        view, data = self.library.tp_result_view(pointer), self.library.tp_data(pointer)
        shape, strides = ([*part[: view.ndim]] for part in (view.shape, view.stride))
        extent = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides))
        flat = np.ctypeslib.as_array(ctypes.cast(data, ctypes.POINTER(ctypes.c_float)), (extent,))
        return np.lib.stride_tricks.as_strided(flat, shape, [4 * stride for stride in strides]).copy()
