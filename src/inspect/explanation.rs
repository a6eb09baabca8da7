//! Explanation of a winner: its distance from lower bounds, the effect of each parameter, the
//! closest candidates, and the constraints on its neighbours.
//!
//! Uses evidence only: times come from the search's journal, counts from an execution on the `cpu`
//! device. Missing measurements are reported as missing.

use serde::Serialize;

use super::landscape::{self, differing, time};
use super::memory::Traffic;
use super::resources::ResourceFigures;
use crate::model::{Configuration, Device, Micros, Problem, Value};
use crate::space::Family;
use crate::tune::Entry;

/// Number of closest candidates.
const CLOSEST: usize = 5;

/// A value is promising if its best configuration is slower than the winner by less than this
/// fraction. A judgement: twice the usual effect of one parameter near the best.
const PROMISING: f64 = 0.05;

/// A lower bound of a kernel's time: the time of one resource alone.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LowerBound {
    /// The resource.
    pub name: &'static str,
    /// The bound.
    pub time_us: Micros,
    /// Its derivation.
    pub basis: String,
}

/// Effect of changing one parameter.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ParameterEffect {
    /// Its name.
    pub parameter: String,
    /// The winner's value.
    pub value: Value,
    /// The other values.
    pub others: Vec<OtherValue>,
}

/// A value that differs from the winner's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OtherValue {
    /// The value.
    pub value: Value,
    /// Extra time of the winner with only this value changed, as a fraction; `None` without a
    /// measurement.
    pub alone: Option<f64>,
    /// Extra time of the best configuration with this value, as a fraction.
    pub best: Option<f64>,
    /// Number of evaluated configurations with it.
    pub tried: usize,
}

/// A candidate with a time close to the winner's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CloseCandidate {
    /// Its family.
    pub family: String,
    /// Its configuration.
    pub parameters: Configuration,
    /// Its extra time, as a fraction.
    pub slower: f64,
    /// Its parameters that differ from the winner's, if it is of the same family.
    pub differing: Vec<(String, Value)>,
}

/// A neighbour of the winner, one value away, that a constraint excludes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExcludedNeighbour {
    /// The parameter.
    pub parameter: String,
    /// Its value.
    pub value: Value,
    /// The violated constraint.
    pub require: String,
    /// The reason that the family gives.
    pub because: String,
    /// Extra time of the best configuration with the value: small where the neighbour looks
    /// promising.
    pub best: Option<f64>,
}

impl ExcludedNeighbour {
    /// Whether other configurations with the value come close to the winner.
    pub fn is_promising(&self) -> bool {
        self.best.is_some_and(|slower| slower < PROMISING)
    }
}

/// Neighbours of a winner, one value away.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct WinnerNeighbours {
    /// Number of measured neighbours.
    pub measured: usize,
    /// Legal neighbours that were not evaluated.
    pub untried: Vec<(String, Value)>,
    /// Neighbours that constraints exclude, promising ones first.
    pub cut: Vec<ExcludedNeighbour>,
}

/// Lower bounds of a kernel's time, longest first: from its arithmetic, its bytes, its instructions
/// and its shared-memory accesses. `traffic` holds the counts of its launches.
pub fn limits(
    figures: &ResourceFigures,
    traffic: &[Traffic],
    problem: &Problem,
    device: &Device,
) -> Vec<LowerBound> {
    let clock = f64::from(device.max_sm_clock_mhz);
    let sms = f64::from(device.sms);
    let mut limits = Vec::new();
    let mut limit = |name, time_us, basis| limits.push(LowerBound { name, time_us, basis });
    if let Some((time, peak)) = figures.arithmetic_floor.zip(figures.peak) {
        let operations = problem.operations();
        limit("arithmetic", time, format!("{operations:.3e} operations at {peak} TFLOP/s"));
    }
    if let Some(time) = figures.memory_floor {
        limit("memory", time, "every operand moved once at the memory bandwidth".to_owned());
    }
    if clock > 0.0 && !traffic.is_empty() {
        let whole = |count: fn(&Traffic) -> u64| -> f64 {
            traffic.iter().map(|one| one.per_block(count(one)) * one.blocks as f64).sum()
        };
        let instructions = whole(|one| one.instructions.values().sum());
        limit(
            "issue slots",
            Micros(instructions / (SCHEDULERS * sms * clock)),
            format!(
                "{instructions:.3e} PTX instructions of warps, {SCHEDULERS:.0} per clock and SM"
            ),
        );
        // Blocks do not divide evenly: the busiest SM has one more than others.
        let busiest: f64 = traffic
            .iter()
            .map(|one| {
                let instructions = one.per_block(one.instructions.values().sum());
                instructions * (one.blocks as f64 / sms).ceil()
            })
            .sum();
        limit(
            "busiest SM",
            Micros(busiest / (SCHEDULERS * clock)),
            "issue slots of the SM with the most blocks".to_owned(),
        );
        let wavefronts = whole(|one| one.memory.values().map(|counts| counts.wavefronts).sum());
        limit(
            "shared memory",
            Micros(wavefronts / (sms * clock)),
            format!("{wavefronts:.3e} wavefronts, one per clock and SM"),
        );
        let sectors = whole(|one| one.memory.values().map(|counts| counts.sectors).sum());
        limit(
            "first-level cache",
            Micros(sectors / (SECTORS * sms * clock)),
            format!("{sectors:.3e} sectors of global memory, {SECTORS:.0} per clock and SM"),
        );
    }
    limits.sort_by(|a, b| b.time_us.0.total_cmp(&a.time_us.0));
    limits
}

/// Instructions that an SM issues per clock, one from each of its four schedulers (CUDA C++
/// Programming Guide, compute capabilities 7.x to 9.0).
const SCHEDULERS: f64 = 4.0;

/// Sectors of 32 bytes that the first-level cache serves per clock: 128 bytes.
const SECTORS: f64 = 4.0;

/// Measured time of a configuration in a search; `None` without a measurement under its name.
pub fn own_time(entries: &[Entry], family: &str, configuration: &Configuration) -> Option<Micros> {
    let own = entries
        .iter()
        .find(|entry| entry.family == family && entry.parameters == *configuration)?;
    time(own)
}

/// Effect of each parameter around a winner with the time `winner`.
pub fn effects(
    entries: &[Entry],
    family: &str,
    configuration: &Configuration,
    winner: Micros,
) -> Vec<ParameterEffect> {
    let slower = |time: Micros| time.0 / winner.0 - 1.0;
    let spreads = landscape::spreads(entries, family).into_iter();
    spreads
        .filter_map(|spread| {
            let own = configuration.get(&spread.parameter)?.clone();
            let others = spread.values.into_iter().filter(|value| value.value != own);
            let others = others.map(|value| {
                let changed = with(configuration, &spread.parameter, &value.value);
                OtherValue {
                    alone: own_time(entries, family, &changed).map(slower),
                    best: value.best.map(slower),
                    tried: value.tried,
                    value: value.value,
                }
            });
            Some(ParameterEffect {
                others: others.collect(),
                parameter: spread.parameter,
                value: own,
            })
        })
        .collect()
}

/// The fastest other candidates, of any family.
pub fn close_candidates(
    entries: &[Entry],
    family: &str,
    configuration: &Configuration,
    winner: Micros,
) -> Vec<CloseCandidate> {
    let mut others: Vec<(&Entry, Micros)> = entries
        .iter()
        .filter(|entry| entry.family != family || entry.parameters != *configuration)
        .filter_map(|entry| Some((entry, time(entry)?)))
        .collect();
    others.sort_by(|a, b| a.1.0.total_cmp(&b.1.0));
    let closest = others.into_iter().take(CLOSEST);
    closest
        .map(|(entry, time)| {
            let differing = differing(configuration, &entry.parameters)
                .filter(|_| entry.family == family)
                .map(|(name, value)| (name.to_owned(), value.clone()));
            CloseCandidate {
                family: entry.family.clone(),
                slower: time.0 / winner.0 - 1.0,
                differing: differing.collect(),
                parameters: entry.parameters.clone(),
            }
        })
        .collect()
}

/// Neighbours of a winner. Skips a neighbour whose constraints cannot be evaluated.
pub fn neighbours(
    entries: &[Entry],
    family: &Family,
    configuration: &Configuration,
    effects: &[ParameterEffect],
    (problem, device): (&Problem, &Device),
) -> WinnerNeighbours {
    let mut neighbours = WinnerNeighbours::default();
    for (name, values) in &family.parameters {
        for value in values {
            if configuration.get(name) == Some(value) {
                continue;
            }
            let changed = with(configuration, name, value);
            let tried = |entry: &Entry| entry.family == family.name && entry.parameters == changed;
            match family.violated(&changed, problem, device) {
                Ok(Some(constraint)) => {
                    let effect = effects.iter().find(|effect| effect.parameter == *name);
                    let other = effect
                        .and_then(|effect| effect.others.iter().find(|one| one.value == *value));
                    neighbours.cut.push(ExcludedNeighbour {
                        parameter: name.clone(),
                        value: value.clone(),
                        require: constraint.text.clone(),
                        because: constraint.because.clone(),
                        best: other.and_then(|other| other.best),
                    });
                }
                Ok(None) if entries.iter().any(tried) => neighbours.measured += 1,
                Ok(None) => neighbours.untried.push((name.clone(), value.clone())),
                Err(_) => {}
            }
        }
    }
    let promise = |cut: &ExcludedNeighbour| cut.best.unwrap_or(f64::INFINITY);
    neighbours.cut.sort_by(|a, b| promise(a).total_cmp(&promise(b)));
    neighbours
}

/// A configuration with one value changed.
fn with(configuration: &Configuration, name: &str, value: &Value) -> Configuration {
    let mut changed = configuration.clone();
    if let Some(own) = changed.0.get_mut(name) {
        *own = value.clone();
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::super::landscape::tests::{entry, search};
    use super::*;
    use crate::model::Dtype;

    fn winner() -> Configuration {
        [("X", 2), ("Y", 2)]
            .map(|(name, value)| (name.to_owned(), Value::Int(value)))
            .into_iter()
            .collect()
    }

    #[test]
    fn a_parameter_has_an_effect_alone_and_with_others_changed() {
        let effects = effects(&search(), "fast", &winner(), Micros(10.0));
        assert_eq!(effects[0].parameter, "X");
        let other = &effects[0].others[0];
        assert_eq!((other.value.clone(), other.tried), (Value::Int(16), 2));
        assert!((other.alone.unwrap() - 0.2).abs() < 1e-12, "X=16 Y=2 takes 12");
        assert_eq!(other.best, other.alone);
        // X=2 Y=1 faulted; X=16 Y=1 took 20.
        let other = &effects[1].others[0];
        assert_eq!((other.alone, other.best), (None, Some(1.0)));
        // Nothing correct has Y=3.
        assert_eq!((effects[1].others[1].alone, effects[1].others[1].best), (None, None));
    }

    #[test]
    fn the_closest_candidates_come_first_with_their_differences() {
        let close_candidates = close_candidates(&search(), "fast", &winner(), Micros(10.0));
        let found: Vec<(&str, usize)> = close_candidates
            .iter()
            .map(|loser| (loser.family.as_str(), loser.differing.len()))
            .collect();
        assert_eq!(found, [("fast", 1), ("fast", 2), ("slow", 0)]);
        assert_eq!(close_candidates[0].differing, [("X".to_owned(), Value::Int(16))]);
    }

    const FAMILY: &str = r#"
        schema = 1
        name = "fast"
        summary = "a family for a test"
        dtypes = ["f32"]
        compute = ["f32"]
        layouts = ["nn"]
        min_compute_capability = "5.0"
        [parameters]
        X = [2, 4, 8, 16]
        Y = [1, 2, 3]
        [[constraints]]
        require = "X * Y != 8"
        because = "eight is unlucky"
        [[kernels]]
        entry = "gemm"
        grid = ["M", 1, 1]
        block = ["X", "Y"]
        [default]
        X = 2
        Y = 1
    "#;

    #[test]
    fn neighbours_are_measured_untried_or_excluded() {
        let family = Family::parse("fast.toml", FAMILY).unwrap();
        let entries = [search(), vec![entry("fast", &[("X", 4), ("Y", 1)], Ok(10.2))]].concat();
        let effects = effects(&entries, "fast", &winner(), Micros(10.0));
        let problem = Problem::new("8x8x8".parse().unwrap(), Dtype::F32);
        let device = Device::h200();
        let neighbours = neighbours(&entries, &family, &winner(), &effects, (&problem, &device));
        assert_eq!(neighbours.measured, 3, "X=16, Y=1, Y=3");
        assert_eq!(neighbours.untried, [("X".to_owned(), Value::Int(8))]);
        let [cut] = &neighbours.cut[..] else { panic!("{neighbours:?}") };
        assert_eq!((cut.value.clone(), cut.because.as_str()), (Value::Int(4), "eight is unlucky"));
        assert!(cut.is_promising(), "X=4 with Y=1 took 2 % longer: {cut:?}");
        assert!(!ExcludedNeighbour { best: Some(0.2), ..cut.clone() }.is_promising());
        assert!(!ExcludedNeighbour { best: None, ..cut.clone() }.is_promising());
    }

    #[test]
    fn lower_bounds_are_times_of_counts() {
        use crate::cpu::{InstructionClass, MemoryCounts};
        let device = Device::h200();
        let problem = Problem::new("1024x1024x1024".parse().unwrap(), Dtype::F32);
        let figures = ResourceFigures {
            kernels: Vec::new(),
            flop_per_byte: 1.0,
            balance: None,
            peak: None,
            arithmetic_floor: None,
            memory_floor: Some(Micros(1.0)),
        };
        // A block of 10 SMs' worth: instructions that take 4 µs, wavefronts that take 2.
        let clocks = |us: u64| us * u64::from(device.max_sm_clock_mhz) * u64::from(device.sms);
        let counts = MemoryCounts { wavefronts: clocks(2) / 10, ..MemoryCounts::default() };
        let traffic = Traffic {
            entry: "gemm".to_owned(),
            executed: 1,
            blocks: 10,
            instructions: [(InstructionClass::Fma, 4 * clocks(4) / 10)].into(),
            memory: [(InstructionClass::SharedLoad, counts)].into(),
            lines: Vec::new(),
        };
        let limits = limits(&figures, &[traffic], &problem, &device);
        let found: Vec<(&str, f64)> =
            limits.iter().map(|limit| (limit.name, limit.time_us.0.round())).collect();
        assert_eq!(
            found,
            [
                // 10 blocks on 10 of 132 SMs.
                ("busiest SM", 53.0),
                ("issue slots", 4.0),
                ("shared memory", 2.0),
                ("memory", 1.0),
                ("first-level cache", 0.0)
            ]
        );
    }
}
