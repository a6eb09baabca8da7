//! Verification: a recorded winner is timed again, in a final with its runner-up and the libraries. The recorded times
//! play no part; the caller compares.

use super::error::TuneError;
use super::event::TuneEvent;
use super::kit::Kit;
use super::lineup::{LineUp, LineUpOptions, line_up};
use super::named_kernels::Named;
use super::ranking::{BaselineTime, CONFIDENCE, Certainty, Standing, median};
use crate::measure::Margin;
use crate::model::{Problem, Timing};

/// A winner timed again.
#[derive(Debug, Clone)]
pub struct Retimed {
    /// The winner, or why it has no time.
    pub winner: Result<Standing, String>,
    /// The runner-up, or why it has no time; `None` where none was named.
    pub runner_up: Option<Result<Standing, String>>,
    /// By how much the runner-up is slower than the winner; none where either has no time, or where the final broke off
    /// before its first rounds.
    pub margin: Option<Margin>,
    /// The libraries, fastest first, each with how much slower it is than the winner.
    pub libraries: Vec<(BaselineTime, Option<Margin>)>,
    /// Rounds that the winner was sampled in.
    pub rounds: usize,
    /// The kernel that wins, and how sure that is; none where no final was held.
    pub decided: Option<(Standing, Certainty)>,
}

impl Retimed {
    /// Rounds that were discarded.
    pub fn tainted_rounds(&self) -> usize {
        self.decided.as_ref().map_or(0, |(_, certainty)| certainty.tainted_rounds)
    }
}

/// Renders, compiles, validates and times a winner and others anew. The first of the others is the runner-up.
///
/// # Errors
/// See [`TuneError`]: where nothing can be timed at all. A kernel that is no longer legal, does not compile or is wrong
/// is a result, and no error.
pub fn retime(
    problem: &Problem,
    winner: Named<'_>,
    others: &[Named<'_>],
    kit: &mut Kit,
    options: LineUpOptions,
    on_event: &mut dyn FnMut(TuneEvent<'_>),
) -> Result<Retimed, TuneError> {
    let named: Vec<Named<'_>> = std::iter::once(winner).chain(others.iter().copied()).collect();
    let LineUp { standings, libraries, decided } =
        line_up(problem, &named, kit, options, on_event)?;
    let mut standings = standings.into_iter();
    let winner = standings.next().unwrap_or_else(|| Err("there is no winner".to_owned()));
    let runner_up = standings.next();
    let over = |other: &Standing| compare(&winner, other);
    let margin = runner_up.as_ref().and_then(|result| result.as_ref().ok()).and_then(over);
    let libraries = libraries.into_iter().map(|library| {
        let own = winner.as_ref().ok().filter(|winner| winner.contested);
        let margin = own.map(|winner| {
            let samples = &library.measurement.samples;
            Margin::between(samples, &winner.measurement.samples, CONFIDENCE)
        });
        (library, margin)
    });
    let libraries = libraries.collect();
    let sampled = winner.as_ref().ok().filter(|winner| winner.contested);
    Ok(Retimed {
        rounds: sampled.map_or(0, |winner| winner.measurement.samples.len()),
        decided,
        margin,
        libraries,
        winner,
        runner_up,
    })
}

/// By how much `other` is slower than the winner. Measured times compare round by round; modelled
/// ones, which have no rounds, as they are.
fn compare(winner: &Result<Standing, String>, other: &Standing) -> Option<Margin> {
    let winner = winner.as_ref().ok()?;
    let (own, its) = (&winner.measurement, &other.measurement);
    if own.timing == Timing::Modelled {
        let percent = 100.0 * (median(its) / median(own) - 1.0);
        return Some(Margin { percent, low: percent, high: percent });
    }
    let contested = winner.contested && other.contested;
    contested.then(|| Margin::between(&its.samples, &own.samples, CONFIDENCE))
}
