//! Measured times of many problems in one small file: what learned models are trained on, kept when journals are not.
//!
//! JSON lines. The first is the heading: format, device, regime. A line declares a family with the order of its parameters,
//! or a kernel as the family's number and its values. Others give a problem with its times: pairs of a kernel's number and
//! microseconds. Families and kernels are numbered from 0 in the order of their lines.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::entry::RecordingFault;
use crate::model::{Configuration, Measurement, Micros, Problem, Regime, Value};
use crate::predict::ProblemTimes;
use crate::tune::journal::Recorded;

/// The first words of every file.
pub(super) const BEGINNING: &str = "{\"gemm_tune_times\":";

/// Raised whenever a line changes its form.
const VERSION: u32 = 1;

/// Measured times of kernels for problems on one device.
#[derive(Debug, Clone)]
pub struct MeasuredTimes {
    /// The name of the device.
    pub device: String,
    /// The conditions of all times.
    pub regime: Regime,
    /// The problems, each once.
    pub problems: Vec<ProblemTimes>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TimesHeading {
    gemm_tune_times: u32,
    device: String,
    regime: Regime,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FamilyLine {
    family: String,
    parameters: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KernelLine {
    kernel: (usize, Vec<Value>),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProblemTimesLine {
    problem: Problem,
    times: Vec<(usize, f64)>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum TimesLine {
    Family(FamilyLine),
    Kernel(KernelLine),
    Problem(ProblemTimesLine),
}

impl From<&Recorded> for MeasuredTimes {
    fn from(recorded: &Recorded) -> Self {
        let times = recorded.entries.iter().filter_map(|entry| {
            let time = entry.outcome.measurement().map(Measurement::median)?;
            Some((entry.family.clone(), entry.parameters.clone(), time))
        });
        let problem = ProblemTimes { problem: recorded.problem, times: times.collect() };
        Self { device: recorded.device.clone(), regime: recorded.regime, problems: vec![problem] }
    }
}

impl MeasuredTimes {
    /// Adds the times of others, which are of the same device and regime.
    pub fn extend(&mut self, others: Vec<ProblemTimes>) {
        for other in others {
            match self.problems.iter_mut().find(|one| one.problem == other.problem) {
                Some(one) => one.times.extend(other.times),
                None => self.problems.push(other),
            }
        }
    }

    /// The text of a file. Times have five digits.
    ///
    /// # Errors
    /// Where a time is not finite.
    pub fn text(&self) -> Result<String, serde_json::Error> {
        let heading = TimesHeading {
            gemm_tune_times: VERSION,
            device: self.device.clone(),
            regime: self.regime,
        };
        let mut text = serde_json::to_string(&heading)? + "\n";
        let mut families: IndexMap<(String, Vec<String>), ()> = IndexMap::new();
        let mut kernels: IndexMap<(usize, String), ()> = IndexMap::new();
        for ProblemTimes { problem, times } in &self.problems {
            let mut numbered = Vec::with_capacity(times.len());
            for (family, configuration, time) in times {
                let parameters: Vec<String> = configuration.0.keys().cloned().collect();
                let own = (family.clone(), parameters);
                let (number, before) = families.insert_full(own.clone(), ());
                if before.is_none() {
                    let (family, parameters) = own;
                    text += &(serde_json::to_string(&FamilyLine { family, parameters })? + "\n");
                }
                let values: Vec<Value> = configuration.0.values().cloned().collect();
                let line = serde_json::to_string(&KernelLine { kernel: (number, values) })?;
                let (kernel, before) = kernels.insert_full((number, line.clone()), ());
                if before.is_none() {
                    text += &(line + "\n");
                }
                numbered.push((kernel, five_digits(time.0)));
            }
            let line = ProblemTimesLine { problem: *problem, times: numbered };
            text += &(serde_json::to_string(&line)? + "\n");
        }
        Ok(text)
    }

    /// Reads the text of a file.
    pub(super) fn parse(text: &str) -> Result<Self, RecordingFault> {
        let fault = |line: usize, reason: String| RecordingFault { at: Some((line, 1)), reason };
        let mut lines = (1..).zip(text.lines());
        let (_, first) = lines.next().unwrap_or((1, ""));
        let heading: TimesHeading = serde_json::from_str(first)?;
        if heading.gemm_tune_times != VERSION {
            let found = heading.gemm_tune_times;
            return Err(fault(1, format!("times of form {found}, this program reads {VERSION}")));
        }
        let TimesHeading { device, regime, .. } = heading;
        let mut measured = Self { device, regime, problems: Vec::new() };
        let mut families: Vec<FamilyLine> = Vec::new();
        let mut kernels: Vec<(String, Configuration)> = Vec::new();
        for (at, line) in lines.filter(|(_, line)| !line.is_empty()) {
            match serde_json::from_str(line).map_err(|error| fault(at, error.to_string()))? {
                TimesLine::Family(family) => families.push(family),
                TimesLine::Kernel(KernelLine { kernel: (number, values) }) => {
                    let family = families
                        .get(number)
                        .ok_or_else(|| fault(at, format!("there is no family {number}")))?;
                    if family.parameters.len() != values.len() {
                        let (name, expected) = (&family.family, family.parameters.len());
                        let found = values.len();
                        return Err(fault(
                            at,
                            format!("`{name}` has {expected} parameters, this kernel {found}"),
                        ));
                    }
                    let named = family.parameters.iter().cloned().zip(values);
                    kernels.push((family.family.clone(), named.collect()));
                }
                TimesLine::Problem(ProblemTimesLine { problem, times }) => {
                    problem.check_size().map_err(|error| fault(at, error.to_string()))?;
                    let time = |(number, time): (usize, f64)| match kernels.get(number) {
                        _ if !(time.is_finite() && time > 0.0) => {
                            Err(fault(at, format!("{time} us is no time: times are above 0")))
                        }
                        None => Err(fault(at, format!("there is no kernel {number}"))),
                        Some((family, own)) => Ok((family.clone(), own.clone(), Micros(time))),
                    };
                    let times = times.into_iter().map(time).collect::<Result<_, _>>()?;
                    measured.extend(vec![ProblemTimes { problem, times }]);
                }
            }
        }
        Ok(measured)
    }
}

/// A number with five significant digits.
fn five_digits(number: f64) -> f64 {
    format!("{number:.4e}").parse().unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Dtype;

    fn times() -> MeasuredTimes {
        let problem = |shape: &str| Problem::new(shape.parse().unwrap(), Dtype::F32);
        let kernel = |family: &str, width: i64, hint: &str| {
            let values = [("WIDTH", Value::Int(width)), ("HINT", Value::Text(hint.to_owned()))];
            let named = values.map(|(name, value)| (name.to_owned(), value));
            (family.to_owned(), named.into_iter().collect::<Configuration>())
        };
        let timed = |(family, configuration), us| (family, configuration, Micros(us));
        let problems = vec![
            ProblemTimes {
                problem: problem("64x65x66"),
                times: vec![
                    timed(kernel("a", 1, "x"), 12.345_678),
                    timed(kernel("b", 1, "x"), 1e-3),
                    timed(kernel("a", 2, "x"), 123_456.7),
                ],
            },
            ProblemTimes {
                problem: problem("1x2x3"),
                times: vec![timed(kernel("a", 1, "x"), 5.0), timed(kernel("a", 1, "y"), 6.0)],
            },
        ];
        MeasuredTimes { device: "NVIDIA H200".to_owned(), regime: Regime::default(), problems }
    }

    #[test]
    fn what_is_written_is_read() {
        let text = times().text().unwrap();
        assert!(text.starts_with(BEGINNING));
        assert_eq!(text.matches("\"kernel\"").count(), 4, "each kernel once:\n{text}");
        let read = MeasuredTimes::parse(&text).unwrap();
        assert_eq!((&*read.device, read.regime), ("NVIDIA H200", Regime::default()));
        let expected = [[12.346, 1e-3, 123_460.0].as_slice(), &[5.0, 6.0]];
        for ((one, other), us) in read.problems.iter().zip(times().problems).zip(expected) {
            assert_eq!(one.problem, other.problem);
            let kernels = one.times.iter().zip(&other.times).zip(us);
            for (((family, configuration, time), (a, b, _)), us) in kernels {
                assert_eq!((family, configuration, time.0), (a, b, *us));
            }
        }
        assert_eq!(read.text().unwrap(), text);
    }

    #[test]
    fn times_of_one_problem_are_joined() {
        let mut one = times();
        one.extend(times().problems);
        let counts: Vec<usize> = one.problems.iter().map(|own| own.times.len()).collect();
        assert_eq!(counts, [6, 4]);
    }

    #[test]
    fn faults_name_their_line() {
        let heading = times().text().unwrap().lines().next().unwrap().to_owned();
        let family = r#"{"family":"a","parameters":["WIDTH"]}"#;
        let kernel = r#"{"kernel":[0,[4]]}"#;
        let problem = serde_json::to_string(&times().problems[0].problem).unwrap();
        let of = |times: &str| format!("{{\"problem\":{problem},\"times\":{times}}}");
        for (lines, expected) in [
            (vec![kernel.to_owned()], "there is no family 0"),
            (vec![family.to_owned(), r#"{"kernel":[0,[4,5]]}"#.to_owned()], "has 1 parameters"),
            (vec![of("[[0,1.0]]")], "there is no kernel 0"),
            (vec![family.to_owned(), kernel.to_owned(), of("[[0,-1.0]]")], "times are above 0"),
            (vec!["{\"famly\":1}".to_owned()], "did not match"),
        ] {
            let text = format!("{heading}\n{}\n", lines.join("\n"));
            let fault = MeasuredTimes::parse(&text).unwrap_err();
            assert!(fault.reason.contains(expected), "{text}: {}", fault.reason);
            assert_eq!(fault.at, Some((lines.len() + 1, 1)));
        }
        let later = heading.replace(":1,", ":9,");
        let fault = MeasuredTimes::parse(&later).unwrap_err();
        assert!(fault.reason.contains("form 9"), "{}", fault.reason);
    }
}
