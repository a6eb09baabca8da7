"""A transformer of random weights, and its time with and without the operators of an exported Python module. gpu.py
checks its results; as a program it is what `gemm-tune trace` may record.

    transformer.py [--dtype TYPE] [FOLDER]      TYPE: f32, tf32, f16 or bf16; FOLDER: an exported Python module

Prints the number of forward passes, and milliseconds of one, in eager mode and in a CUDA graph. With a folder, linear
layers multiply with its kernels in every second round, and the gain of a pass is printed too.
"""

import argparse
import contextlib
import statistics
import sys
import time

import torch
from torch.nn import functional

# Layers, width, heads, sequences of a batch, tokens of a sequence.
SIZES = (4, 1024, 16, 8, 512)
DTYPES = {"f32": torch.float32, "tf32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
PASSES, ROUNDS = 10, 15


def transformer(layers, width, heads):
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            linear = torch.nn.Linear
            self.qkv, self.out = linear(width, 3 * width), linear(width, width)
            self.up, self.down = linear(width, 4 * width), linear(4 * width, width)
            self.first, self.second = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)

        def forward(self, x):
            q, k, v = self.qkv(self.first(x)).unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
            x = x + self.out(functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
            return x + self.down(functional.gelu(self.up(self.second(x))))

    return torch.nn.Sequential(*(Layer() for _ in range(layers)))


def graphed(model, x):
    """A forward pass in a CUDA graph."""
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        model(x)
    torch.cuda.current_stream().wait_stream(stream)
    with torch.cuda.graph(graph):
        model(x)
    return graph.replay


def milliseconds(call):
    """Of one call, in the mean of some in a row."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(PASSES):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / PASSES * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dtype", choices=DTYPES, default="f32")
    parser.add_argument("folder", nargs="?")
    asked = parser.parse_args()
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high" if asked.dtype == "tf32" else "highest")
    layers, width, heads, batch, length = SIZES
    model = transformer(layers, width, heads).to("cuda", DTYPES[asked.dtype]).eval()
    x = torch.randn(batch, length, width, device="cuda", dtype=DTYPES[asked.dtype])
    kinds = {"PyTorch": contextlib.nullcontext}
    if asked.folder:
        sys.path.insert(1, asked.folder)
        import gemm_tuned
        kinds["tuned"] = lambda: gemm_tuned.patch_linear(model)
    with torch.no_grad():
        for way in ("eager", "graph"):
            calls, times = {}, {kind: [] for kind in kinds}
            for kind, context in kinds.items():
                with context():
                    model(x)
                    calls[kind] = graphed(model, x) if way == "graph" else lambda: model(x)
            for _ in range(ROUNDS):
                for kind, context in kinds.items():
                    with context():
                        times[kind].append(milliseconds(calls[kind]))
            passes = ROUNDS * PASSES + 1
            medians = {kind: statistics.median(one) for kind, one in times.items()}
            print(f"{asked.dtype} {way}: {passes} passes of", ", ".join(f"{kind} {ms:.3f} ms" for kind, ms in medians.items()), end="")
            if asked.folder:
                gain = statistics.median(one - other for one, other in zip(times["PyTorch"], times["tuned"]))
                print(f"; gain of a pass {gain:.3f} ms, {100 * gain / medians['PyTorch']:.1f} %", end="")
            print(flush=True)


if __name__ == "__main__":
    main()
