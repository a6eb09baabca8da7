"""In the place of PyTorch: matrices that have addresses and strides, and no memory. An exported module takes
them, for their type is of a module of this name."""

float32, int32, float64, uint8 = "torch.float32", "torch.int32", "torch.float64", "torch.uint8"
float16, bfloat16, int8 = "torch.float16", "torch.bfloat16", "torch.int8"


class OutOfMemoryError(RuntimeError):
    pass


_place = _room = 0
# Bytes that were asked for, and whether they were there.
allocations = []


def memory(place, room):
    """Sets where the next workspace lies, and the memory that is left for it."""
    global _place, _room
    _place, _room = place, room
    allocations.clear()


class Tensor:
    def __init__(self, address, shape, strides, dtype=float32, device=0):
        self.address, self.shape, self.strides = address, shape, strides
        self.dtype, self.device = dtype, device

    def get_device(self):
        return self.device

    def data_ptr(self):
        return self.address

    def stride(self):
        return self.strides

    def new_empty(self, shape, dtype):
        strides = (shape[-2] * shape[-1], shape[-1], 1)[-len(shape):]
        return Tensor(1 << 43, shape, strides, dtype)


def empty(count, dtype, device):
    allocations.append((count, count <= _room))
    if count > _room:
        raise OutOfMemoryError(f"{count} bytes on {device}")
    return Tensor(_place, (count,), (1,), dtype)


class _Stream:
    cuda_stream = 8


class cuda:
    @staticmethod
    def current_stream(device):
        return _Stream
