"""Products in CUDA graphs of PyTorch, and their times, for the scripts that time such products."""

import torch


def graph_of(call, c, a, weights):
    """A graph of a product with each of the weights."""
    for _ in range(2):
        call(c, a, weights[0])
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for b in weights:
            call(c, a, b)
    return graph


def microseconds(graph, count):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    graph.replay()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e3 / count
