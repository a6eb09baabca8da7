"""Records the matrix products of a PyTorch program: their problems, how often, and how long PyTorch takes.

    from gemm_tuned_trace import trace
    with trace("trace.json"):
        model(x)

`gemm-tune trace -o trace.json -- python serve.py` does so for a whole program and its child processes, and
`gemm-tune --trace trace.json` tunes what was found. The operators mm, addmm, bmm and baddbmm are recorded below
autograd, which is what matmul, linear and einsum call. Compiled models run in eager mode meanwhile, and replays of CUDA
graphs are not seen: record the capture. The file is written again every few seconds and at the end.
"""

import atexit
import json
import os
import sys
import threading
import time

__all__ = ["trace"]

SCHEMA = 1
# Names of dtypes that gemm-tune has; products of others are counted.
DTYPES = {"torch.float32": "f32", "torch.float16": "f16", "torch.bfloat16": "bf16", "torch.int8": "i8",
          "torch.int32": "i32"}
# Products, by the overload's name without its namespace: the places of A and B among the arguments.
PLACES = {"mm.default": (0, 1), "bmm.default": (0, 1), "addmm.default": (1, 2), "baddbmm.default": (1, 2),
          "_addmm_activation.default": (1, 2)}
# Calls of a problem that are timed: all of the first ones, and then one of so many.
FIRST_TIMED, THEN_ONE_OF = 20, 50
# Cycles for which a kernel holds the stream before a call is timed, some 0.6 ms: the host queues the call meanwhile, so that
# the time is the GPU's, without what the host takes.
HOLD_CYCLES = 1_000_000
# Most times that are kept of a problem; seconds between two writes of the file.
MOST_TIMES, WRITE_EVERY = 200, 2.0
# Set by `gemm-tune trace`: the folder that each process writes a file to.
FOLDER = "GEMM_TUNED_TRACE_FOLDER"


def _layout(matrix):
    """How PyTorch's product sees a matrix: `t` if only its columns are contiguous."""
    (height, width), (down, across) = matrix.shape[-2:], matrix.stride()[-2:]
    by_rows = (across == 1 or width == 1) and (down >= width or height == 1)
    return "t" if not by_rows and (down == 1 or height == 1) and (across >= height or width == 1) else "n"


class _Problem:
    """A problem's calls and times."""

    def __init__(self):
        self.count, self.times = 0, []
        # Pairs of events of calls that may not have ended.
        self.pending = []

    def collect(self):
        """Takes the times of calls that have ended."""
        left = []
        for before, after in self.pending:
            if after.query():
                self.add(before.elapsed_time(after) * 1e3)
            else:
                left.append((before, after))
        self.pending = left

    def add(self, us):
        if len(self.times) < MOST_TIMES:
            self.times.append(us)


class _Recorder:
    """What was recorded in a process, and the file of it."""

    def __init__(self, path):
        self.path, self.lock = path, threading.Lock()
        self.forget()

    def forget(self):
        """Begins anew, as in a process that was forked."""
        self.problems, self.others = {}, {}
        self.start = self.written = time.monotonic()
        self.device = None

    def call(self, name, function, arguments, named):
        import torch

        places = PLACES[name]
        a, b = (arguments[place] for place in places)
        dtype = DTYPES.get(str(a.dtype))
        if dtype is None or a.numel() == 0 or b.numel() == 0 or b.dtype != a.dtype:
            with self.lock:
                key = f"{name.partition('.')[0]} of {a.dtype}"
                self.others[key] = self.others.get(key, 0) + 1
            return function(*arguments, **named)
        on_gpu = a.device.type == "cuda"
        compute = dtype
        if dtype == "f32" and on_gpu and _allows_tf32(torch):
            compute = "tf32"
        has_bias = name in ("addmm.default", "_addmm_activation.default") and arguments[0].dim() == 1
        epilogue = "bias" if has_bias and named.get("beta", 1) == 1 else ""
        if name.startswith("_addmm_activation"):
            activation = "gelu" if named.get("use_gelu") else "relu"
            epilogue = f"{epilogue},{activation}".strip(",")
        key = (a.shape[-2], b.shape[-1], a.shape[-1], a.shape[0] if a.dim() == 3 else 1, dtype, compute,
               _layout(a) + _layout(b), epilogue)
        with self.lock:
            problem = self.problems.setdefault(key, _Problem())
            problem.count += 1
            is_timed = problem.count <= FIRST_TIMED or problem.count % THEN_ONE_OF == 0
            if self.device is None or on_gpu and self.device == "cpu":
                self.device = torch.cuda.get_device_name(a.device) if on_gpu else "cpu"
        # Events and queries of them would break a capture.
        is_captured = torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()
        if not is_timed or is_captured:
            value = function(*arguments, **named)
        elif not on_gpu:
            before = time.perf_counter()
            value = function(*arguments, **named)
            with self.lock:
                problem.add((time.perf_counter() - before) * 1e6)
        else:
            with torch.cuda.device(a.device):
                value, events = _timed(torch.cuda, lambda: function(*arguments, **named))
            if events is not None:
                with self.lock:
                    problem.pending.append(events)
        if not is_captured and time.monotonic() - self.written > WRITE_EVERY:
            self.write()
        return value

    def document(self):
        problems = []
        for key, problem in self.problems.items():
            problem.collect()
            m, n, k, batch, dtype, compute, layout, epilogue = key
            # The first call also loads what it needs.
            times = sorted(problem.times[1:] or problem.times)
            problems.append({"m": m, "n": n, "k": k, "batch": batch, "dtype": dtype, "compute": compute,
                             "layout": layout, "epilogue": epilogue, "count": problem.count,
                             "torch_us": times[len(times) // 2] if times else None, "samples": len(times)})
        torch = sys.modules.get("torch")
        return {"schema": SCHEMA, "program": sys.argv[:1] or [""], "torch": str(getattr(torch, "__version__", "")),
                "device": self.device or "cpu", "seconds": time.monotonic() - self.start, "problems": problems,
                "others": self.others}

    def write(self):
        """Replaces the file in one step."""
        with self.lock:
            self.written = time.monotonic()
            beside = f"{self.path}.{os.getpid()}.new"
            with open(beside, "w") as file:
                json.dump(self.document(), file, indent=1)
                file.write("\n")
            os.replace(beside, self.path)

    def end(self):
        """Writes the file, with the times of all calls."""
        torch = sys.modules.get("torch")
        if torch is not None and any(problem.pending for problem in self.problems.values()):
            try:
                torch.cuda.synchronize()
            except RuntimeError as error:
                print(f"gemm-tune trace: the last times are missing: {error}", file=sys.stderr)
        self.write()


def _timed(cuda, call):
    """The value of a call, and events before and after it on the current stream. None for the events if the GPU waited
    for the host in between, as in a first call that loads its kernel: their time would not be that of the product."""
    hold = getattr(cuda, "_sleep", None)
    if hold is None:  # A private function of PyTorch: without it, products are counted and have no time.
        return call(), None
    stream = cuda.current_stream()
    before, after = (cuda.Event(enable_timing=True) for _ in range(2))
    hold(HOLD_CYCLES)
    before.record(stream)
    value = call()
    after.record(stream)
    return value, None if before.query() else (before, after)


def _allows_tf32(torch):
    setting = getattr(torch.backends.cuda.matmul, "fp32_precision", None)
    return torch.backends.cuda.matmul.allow_tf32 if setting is None else setting == "tf32"


def _mode(recorder):
    """What sees each operator."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, function, kinds, arguments=(), named=None):
            name = str(function)
            if name.startswith("aten."):
                name = name[5:]
                if name in PLACES:
                    return recorder.call(name, function, arguments, named or {})
            return function(*arguments, **(named or {}))

    return Mode()


class trace:
    """Records the products of the `with` block, in the thread that runs it and in threads that start there."""

    def __init__(self, path):
        self.recorder = _Recorder(os.fspath(path))

    def __enter__(self):
        self.mode, self.start = _mode(self.recorder), threading.Thread.start
        self.mode.__enter__()
        outer = self

        def start(thread):
            run, mode = thread.run, _mode(outer.recorder)

            def traced():
                with mode:
                    run()

            thread.run = traced
            outer.start(thread)

        threading.Thread.start = start
        return self

    def __exit__(self, *reason):
        threading.Thread.start = self.start
        self.mode.__exit__(*reason)
        self.recorder.end()


# A whole program ----------------------------------------------------------------------------------

class _AfterTorch:
    """Finds torch as everyone does, and begins to record when it was imported."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        import importlib.util

        spec = importlib.util.find_spec("torch")
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            _begin()

        spec.loader.exec_module = exec_module
        return spec


def _begin():
    """Records until the process ends, into a file of its own in the folder."""
    folder = os.environ[FOLDER]
    own = trace(os.path.join(folder, f"{os.getpid()}.json"))
    own.__enter__()

    def after_fork():
        own.recorder.path = os.path.join(folder, f"{os.getpid()}.json")
        own.recorder.lock = threading.Lock()
        own.recorder.forget()

    os.register_at_fork(after_in_child=after_fork)
    atexit.register(own.recorder.end)
    # A process that multiprocessing forked ends without atexit.
    from multiprocessing import util

    util.register_after_fork(own, lambda own: util.Finalize(None, own.recorder.end, exitpriority=0))


def install():
    """Called by the sitecustomize.py of `gemm-tune trace` in each Python process."""
    if "torch" in sys.modules:
        _begin()
    else:
        sys.meta_path.insert(0, _AfterTorch())
