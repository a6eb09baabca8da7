"""Multiplies random matrices on a GPU through an exported Python module, with PyTorch tensors or CuPy
arrays: for each shape, the largest error over the bound of the error analysis, and the median time.

    check.py FOLDER torch|cupy SHAPE...    shapes as check.c has them, and fails as it does
"""

import math
import sys

FOLDER, KIND, *SHAPES = sys.argv[1:]
sys.path.insert(0, FOLDER)
import gemm_tuned  # noqa: E402: the folder is an argument

SAMPLES, SAMPLE_US, MAX_LAUNCHES, FIRST_LAUNCHES = 40, 1000, 256, 10
# Of 50 us each: a graph of 200 kernels takes Python longer to start than two of them last.
FLUSHES = 8
SLOWEST, ROTATED_BYTES, MAX_SETS = 1.03, 160 << 20, MAX_LAUNCHES


def bound(k):
    """That of src/validate/bound.rs, in units of |A| |B|."""
    n, u = k + 3.0, 2.0**-24
    return min(n * u / (1 - n * u), math.expm1(10 * math.sqrt(n) * u + n * u * u / (1 - u)))


def launches_for(us):
    """As many launches as the tuner has in a sample (src/measure/sampling.rs): to start a recorded graph
    takes as long for one as for all."""
    return max(1, min(MAX_LAUNCHES, math.ceil(SAMPLE_US / us)))


class Torch:
    def __init__(self):
        import torch
        self.x = torch
        torch.backends.cuda.matmul.allow_tf32 = False
        self.flushed = torch.empty(ROTATED_BYTES, dtype=torch.uint8, device="cuda")
        self.side = torch.cuda.Stream()

    def random(self, *extents):
        *outer, columns, pad = extents
        whole = self.x.rand(*outer, columns + pad, device="cuda") * 2 - 1
        whole[..., columns:] = math.nan
        return whole[..., :columns]

    def nan(self, *extents):
        *outer, columns, pad = extents
        whole = self.x.full((*outer, columns + pad), math.nan, device="cuda")
        return whole, whole[..., :columns]

    def transposed(self, matrix):
        """The same numbers with the last two dimensions stored the other way."""
        return matrix.mT.contiguous().mT

    def flush(self):
        self.flushed.fill_(1)

    def event(self):
        return self.x.cuda.Event(enable_timing=True)

    def recorded(self, launches):
        graph = self.x.cuda.CUDAGraph()
        launches()
        self.side.synchronize()
        with self.x.cuda.graph(graph, stream=self.side):
            launches()
        return graph.replay

    def current(self):
        """A stream of its own, as the tuner has: the default one waits for all others."""
        return self.x.cuda.stream(self.side)

    def sample_us(self, replay):
        begin, end = self.event(), self.event()
        for _ in range(FLUSHES):
            self.flush()
        begin.record()
        replay()
        end.record()
        return self.elapsed_us(begin, end)

    def median_us(self, count, launch):
        """Of replays of recorded launches, as the tuner's samples are: they have no time of the host's."""
        def launches():
            for turn in range(count):
                launch(turn)

        self.synchronize()
        with self.current():
            replay = self.recorded(launches)
            return sorted(self.sample_us(replay) for _ in range(SAMPLES))[SAMPLES // 2] / count

    def synchronize(self):
        self.x.cuda.synchronize()

    def elapsed_us(self, begin, end):
        end.synchronize()
        return begin.elapsed_time(end) * 1000

    def double(self, a):
        return a.double()


class Cupy(Torch):
    def __init__(self):
        import cupy
        self.x = cupy
        self.flushed = cupy.empty(ROTATED_BYTES, dtype=cupy.uint8)
        self.side = cupy.cuda.Stream(non_blocking=True)

    def random(self, *extents):
        *outer, columns, pad = extents
        whole = self.x.random.uniform(-1, 1, (*outer, columns + pad), dtype=self.x.float32)
        whole[..., columns:] = math.nan
        return whole[..., :columns]

    def nan(self, *extents):
        *outer, columns, pad = extents
        whole = self.x.full((*outer, columns + pad), math.nan, dtype=self.x.float32)
        return whole, whole[..., :columns]

    def transposed(self, matrix):
        return self.x.ascontiguousarray(matrix.swapaxes(-1, -2)).swapaxes(-1, -2)

    def flush(self):
        self.flushed.fill(1)

    def event(self):
        return self.x.cuda.Event()

    def recorded(self, launches):
        launches()
        self.side.synchronize()
        self.side.begin_capture()
        launches()
        return self.side.end_capture().launch

    def current(self):
        return self.side

    def synchronize(self):
        self.x.cuda.Device().synchronize()

    def elapsed_us(self, begin, end):
        end.synchronize()
        return self.x.cuda.get_elapsed_time(begin, end) * 1000

    def double(self, a):
        return a.astype(self.x.float64)


def main():
    side = Torch() if KIND == "torch" else Cupy()
    # All on the stream that is timed. On an H200 a process that has launched 40 kernels on the default stream
    # takes 0.3 us more for each launch of a graph on another one from then on, through the C artifact too.
    with side.current():
        sys.exit(check(side) > 0)


def check(side):
    """How many of the shapes are wrong or slow."""
    failures = 0
    for word in SHAPES:
        shape, _, expected = word.partition(":")
        shape, _, pad = shape.partition("+")
        m, n, k, *batch = map(int, shape.split("x"))
        pad = int(pad or 0)
        sets = min(MAX_SETS, ROTATED_BYTES // (4 * math.prod(batch) * (m * k + k * n + m * n)) + 1)
        a = [side.random(*batch, m, k, pad) for _ in range(sets)]
        b = [side.random(*batch, k, n, pad) for _ in range(sets)]
        c = [side.nan(*batch, m, n, pad) for _ in range(sets)]
        gemm_tuned.matmul(a[0], b[0], out=c[0][1])
        x, y = side.double(a[0]), side.double(b[0])
        error = abs(side.double(c[0][1]) - x @ y) / (abs(x) @ abs(y)) / bound(k)
        worst = float(error.max())
        if pad and not bool(side.x.isnan(c[0][0][..., n:]).all()):
            worst = math.inf
        if not pad:
            # A transposed view of the same numbers, where the bundle has kernels for it.
            try:
                again = gemm_tuned.matmul(a[0], side.transposed(b[0]))
                worst = max(worst, float((abs(side.double(again) - x @ y) / (abs(x) @ abs(y))
                                          / bound(k)).max()))
            except gemm_tuned.GemmTunedError:
                pass

        def launch(turn):
            gemm_tuned.matmul(a[turn % sets], b[turn % sets], out=c[turn % sets][1])

        expected = float(expected or 0)
        count = launches_for(expected or side.median_us(FIRST_LAUNCHES, launch))
        median = side.median_us(count, launch)
        if expected and median > SLOWEST * expected:
            median = min(median, side.median_us(count, launch))
        slow = bool(expected) and median > SLOWEST * expected
        line = f"{KIND:6} {word:18} error/bound {worst:.3f}  {median:9.2f} us"
        if expected:
            line += f"  tuner {expected:9.2f} us  ratio {median / expected:.3f}"
        line += "  TOO SLOW" if slow else ""
        print(line, flush=True)
        failures += not worst <= 1 or slow
    return failures


main()
