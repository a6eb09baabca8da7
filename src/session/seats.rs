//! Seats: the places at which the problems of a session are tuned, each with GPUs of its own or a share of one.

use crate::model::Problem;
use crate::tune::{LeasedGpu, Machine, PendingWorker};

/// Most searches that share one GPU: some compile while one measures. Three, four and six take 22.6, 20.6 and 23.9 s
/// for 20 layers of a language model on an H200 with 16 cores.
const MOST_LANES: usize = 4;

/// Device memory for each worker on a GPU, with its context, cuBLAS, operands and references. A judgement: the GPU
/// lease counts what problems reserve.
const WORKER_BYTES: u64 = 4 << 30;

/// Searches that share one GPU, for so many compiler threads. With few threads the device waits for the compiler
/// anyway.
pub(super) fn lanes(threads: usize) -> usize {
    (threads / 2).clamp(2, MOST_LANES)
}

/// A place at which problems are tuned, one after the other.
pub(super) struct Seat(SeatKind);

enum SeatKind {
    /// Ready to use.
    Own(Machine),
    /// A share of a GPU that another seat has. Its worker is still to be started.
    Shared(PendingWorker),
}

impl Seat {
    /// Starts what the seat needs: a worker on a shared GPU, ready for problems like this one, which takes a driver
    /// half a second. None where the GPU takes no further process.
    pub(super) fn machine(self, like: &Problem) -> Option<Machine> {
        match self.0 {
            SeatKind::Own(machine) => Some(machine),
            SeatKind::Shared(worker) => Some(Machine::Gpus(vec![worker.start(like).ok()?])),
        }
    }
}

/// Seats of a machine, `most` at most. The GPUs are dealt out; where fewer GPUs than problems are left, several seats
/// share one: as many as `lanes` search, and as many again hold finals. The host is one seat, which uses all cores.
pub(super) fn seats(machine: Machine, most: usize, lanes: usize) -> Vec<Seat> {
    let Machine::Gpus(gpus) = machine else { return vec![Seat(SeatKind::Own(machine))] };
    let owners = most.clamp(1, gpus.len().max(1));
    let mut dealt: Vec<Vec<LeasedGpu>> = (0..owners).map(|_| Vec::new()).collect();
    for (number, gpu) in gpus.into_iter().enumerate() {
        dealt[number % owners].push(gpu);
    }
    let mut wanted = most.saturating_sub(owners);
    let others_of = |gpu: &LeasedGpu| {
        let by_memory = (gpu.memory_bytes() / WORKER_BYTES) as usize;
        let workers = if lanes > 1 { 2 * lanes } else { 1 };
        workers.min(by_memory).saturating_sub(1)
    };
    let mut seats = Vec::new();
    for own in dealt {
        let others = own.first().into_iter().flat_map(|first| {
            let other = || Seat(SeatKind::Shared(first.another()));
            std::iter::repeat_with(other).take(wanted.min(others_of(first)))
        });
        let others: Vec<Seat> = others.collect();
        wanted -= others.len();
        seats.push(Seat(SeatKind::Own(Machine::Gpus(own))));
        seats.extend(others);
    }
    seats
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_one_seat() {
        assert_eq!(seats(Machine::Host, 5, lanes(16)).len(), 1);
    }

    #[test]
    fn more_threads_feed_more_lanes_up_to_a_limit() {
        assert_eq!([1, 4, 6, 8, 64].map(lanes), [2, 2, 3, 4, 4]);
    }
}
