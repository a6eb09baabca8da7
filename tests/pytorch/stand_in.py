"""A library on the host in the place of libgemm_tuned.so, for tests of the PyTorch modules without a GPU. It computes
what problems and addresses say, on tensors of the host, which pass for those of GPU 0.
"""

import ctypes
import struct

import torch

# A dtype that the real library does not have: gradients are checked in it.
F64 = 9
WORKSPACE = 512


class Library:
    """What gemm_tuned.py calls. `epilogues` and `computes` are what there are kernels for besides the plain product;
    `calls` lists the epilogue and the compute type of each product. `run` may be another function."""

    def __init__(self, module, run=None):
        self.module, self.epilogues, self.computes, self.calls = module, set(), set(), []
        self.gemm_tuned_run = run or self.run
        self.dtypes = {number: getattr(torch, name) for number, name in module.arrays.ARRAY_NAMES.items()}
        self.names = {number: name for name, number in module.library.COMPUTES.items()} | {module.library.DEFAULT: None}

    def gemm_tuned_version(self):
        return self.module.library.VERSION

    def gemm_tuned_check(self, problem, text, count):
        return 0

    gemm_tuned_create = gemm_tuned_set_allocation = gemm_tuned_measure = lambda *_: 0

    def gemm_tuned_choose(self, handle, problem, room, choice):
        epilogue, compute = self.wanted(problem._obj)
        has_kernel = epilogue in self.epilogues | {""} and compute in self.computes | {None}
        choice._obj.workspace_bytes = WORKSPACE if self.gemm_tuned_run == self.run else 0
        return 0 if has_kernel else self.module.library.NO_KERNEL

    def wanted(self, problem):
        """The epilogue and the compute type of a problem."""
        return (problem.epilogue or b"").decode(), self.names[problem.compute]

    def matrix(self, at, dtype, batch, extents, transposed, row, stride):
        """A batch of matrices at an address, each of which starts `stride` elements after the one before."""
        strides = stride, *((1, row) if transposed else (row, 1))
        return self.array(at, dtype, (batch, *extents), strides)

    def array(self, at, dtype, extents, strides):
        dtype = self.dtypes[dtype]
        count = 1 + sum((extent - 1) * stride for extent, stride in zip(extents, strides))
        memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(at)
        return torch.frombuffer(memory, dtype=dtype).as_strided(extents, strides)

    def run(self, handle, reference, operands, place, count, queue):
        problem = self.module.library.Problem.from_address(reference)
        size, a, b, d, alpha, beta, c, bias, row_scale, col_scale, residual, mul = struct.unpack("12N", operands)
        wanted = self.wanted(problem)
        assert size == len(operands) and place and count == WORKSPACE and not c
        assert a % problem.alignment == b % problem.alignment == d % 64 == 0, "addresses are less aligned"
        self.calls.append(wanted)
        batch, m, n, k = problem.batch, problem.m, problem.n, problem.k
        scalar = ctypes.c_int if problem.dtype_d == self.module.library.I32 else ctypes.c_float
        alpha, beta = (scalar.from_address(at).value if at else none for at, none in ((alpha, 1), (beta, 0)))
        out = self.matrix(d, problem.dtype_d, batch, (m, n), False, problem.ldd, problem.stride_d)
        of_a = self.matrix(a, problem.dtype, batch, (m, k), problem.transpose_a, problem.lda, problem.stride_a)
        of_b = self.matrix(b, problem.dtype_b, batch, (k, n), problem.transpose_b, problem.ldb, problem.stride_b)
        # Rounded once, at the end.
        value = alpha * torch.matmul(of_a.double(), of_b.double()) + (beta * out.double() if beta else 0)
        words = wanted[0].split(",")
        at = {"bias": bias, "row-scale": row_scale, "col-scale": col_scale, "residual": residual, "mul": mul}
        assert all((word in words) == bool(at[word]) for word in at), (words, at)
        for word in filter(None, words):
            if word in ("bias", "col-scale"):
                # Each product of a batch has its own.
                dtype = self.module.library.F32 if word == "col-scale" else problem.dtype_d
                operand = self.array(at[word], dtype, (batch, 1, n), (n, n, 1))
            elif word == "row-scale":
                operand = self.array(row_scale, self.module.library.F32, (batch, m, 1), (m, 1, 1))
            elif word in at:
                operand = self.matrix(at[word], problem.dtype_d, batch, (m, n), False, problem.ldd, problem.stride_d)
            if word in ACTIVATIONS:
                value = ACTIVATIONS[word](value)
            else:
                value = value + operand if word in ("bias", "residual") else value * operand
        out.copy_(value)
        return 0


ACTIVATIONS = {
    "relu": torch.relu,
    "gelu": torch.nn.functional.gelu,
    "gelu-tanh": lambda value: torch.nn.functional.gelu(value, approximate="tanh"),
    "silu": torch.nn.functional.silu,
}


def use(module, run=None):
    """Puts a library in the place of the module's. Tensors of the host are described as those of GPU 0, and are aligned
    less than those of a GPU."""
    module.ALIGNMENT = 64
    arrays = module.arrays
    module.library.DTYPES["f64"] = arrays.ARRAY_DTYPES["torch.float64"] = arrays.ARRAY_DTYPES["float64"] = F64
    arrays.ARRAY_NAMES[F64] = "float64"
    library = module.library._library = Library(module, run)

    def described(array):
        return 0, array.dtype, array.shape, array.stride()

    def workspace(count, device):
        return torch.empty(count, dtype=torch.uint8)

    # The stream is found by a function of C, as on a GPU.
    arrays.adapters_of_packages["torch"] = arrays.torch_adapter()._replace(
        described=described, workspace=workspace, stream=abs, may_reserve=arrays.reserves_nothing)
    return library
