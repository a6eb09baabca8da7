//! Remaining time of a search, from the pace of its last candidates. The first candidates wait for the compiler and say
//! nothing of the pace.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Candidates that the pace is computed from.
const LAST: usize = 64;

/// Fewest candidates for a pace: outcomes of earlier runs come at once.
const FEWEST: usize = 8;

/// Times of the last candidates, and the deadline.
#[derive(Debug)]
pub(super) struct SearchEta {
    last: VecDeque<Instant>,
    deadline: Option<Instant>,
}

impl SearchEta {
    /// The estimate for a search that begins now.
    pub(super) fn new(now: Instant, patience: Option<Duration>) -> Self {
        Self { last: VecDeque::new(), deadline: patience.map(|patience| now + patience) }
    }

    /// Counts an evaluated candidate.
    pub(super) fn tick(&mut self, now: Instant) {
        self.last.push_back(now);
        if self.last.len() > LAST {
            self.last.pop_front();
        }
    }

    /// The time that so many more candidates take; none where no pace is known.
    pub(super) fn remaining(&self, left: usize, now: Instant) -> Option<Duration> {
        let until = self.deadline.map(|deadline| deadline.saturating_duration_since(now));
        let first = self.last.front().filter(|_| self.last.len() >= FEWEST);
        let by_pace = first.map(|first| {
            let each = now.saturating_duration_since(*first).as_secs_f64() / self.last.len() as f64;
            Duration::from_secs_f64(each * left as f64)
        });
        [until, by_pace].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remaining_time_follows_the_pace_and_the_deadline() {
        let began = Instant::now();
        let second = Duration::from_secs(1);
        let mut eta = SearchEta::new(began, Some(100 * second));
        assert_eq!(eta.remaining(10, began), Some(100 * second), "nothing was evaluated yet");
        let mut now = began;
        for _ in 0..LAST {
            now += second / 10;
            eta.tick(now);
        }
        let remaining = eta.remaining(10, now).unwrap();
        assert!((second * 9 / 10..=second * 11 / 10).contains(&remaining), "{remaining:?}");
        assert!(eta.remaining(10_000, now).unwrap() <= 94 * second);
        assert_eq!(SearchEta::new(began, None).remaining(10, now), None);
    }
}
