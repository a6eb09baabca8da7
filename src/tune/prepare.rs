//! The families and legal configurations of a problem, and the reasons for excluding others. Needs only the
//! description of a device: `--dry-run` shows just this.

use super::error::TuneError;
use super::warm_start::Hints;
use crate::model::{Configuration, Device, Problem};
use crate::predict::Forecast;
use crate::render::Templates;
use crate::space::{Family, LegalSpace};

/// A family that serves a problem.
#[derive(Debug, Clone)]
pub struct FamilySpace {
    /// Its place in the list of families.
    pub family: usize,
    /// Its name.
    pub name: String,
    /// Its legal configurations.
    pub space: LegalSpace,
    /// The first of its defaults that is legal.
    pub default: Option<Configuration>,
    /// Ranks of the others that are.
    pub seeds: Vec<usize>,
    /// Its forecast, once added.
    pub forecast: Option<Forecast>,
}

impl FamilySpace {
    /// The defaults that are right for the problem, the one to use first.
    pub fn defaults(&self) -> impl Iterator<Item = Configuration> {
        let others = self.seeds.iter().filter_map(|rank| self.space.get(*rank));
        self.default.clone().into_iter().chain(others)
    }
}

/// Everything that can be tried for a problem.
#[derive(Debug, Clone)]
pub struct Spaces {
    /// Families that have at least one legal configuration.
    pub families: Vec<FamilySpace>,
    /// `family: why it has none`.
    pub refusals: Vec<String>,
}

impl Spaces {
    /// Adds forecasts, which searches start with.
    pub(super) fn forecast(
        &mut self,
        families: &[Family],
        problem: &Problem,
        device: &Device,
        hints: &Hints,
    ) {
        let spaces = self.families.iter();
        let spaces = spaces.map(|own| (&families[own.family], &own.space, own.default.as_ref()));
        let spaces: Vec<_> = spaces.collect();
        let forecasts = hints.predictor.forecasts(&spaces, problem, device);
        for (own, forecast) in self.families.iter_mut().zip(forecasts) {
            own.forecast = forecast;
        }
    }

    /// Legal configurations of all families.
    pub fn legal(&self) -> usize {
        self.families.iter().map(|family| family.space.len()).sum()
    }
}

/// Lists what can be tried. The defaults of a family and the record among `hints` are always in it
/// where they are right for the problem, also where its rules say that a search need not look there.
///
/// # Errors
/// [`TuneError::NoFamily`], [`TuneError::EmptySpace`], and what is wrong in a family's files.
pub fn spaces(
    families: &[Family],
    templates: &Templates,
    problem: &Problem,
    device: &Device,
    hints: &Hints,
) -> Result<Spaces, TuneError> {
    let mut spaces = Spaces { families: Vec::new(), refusals: Vec::new() };
    let mut served = false;
    for (index, family) in families.iter().enumerate() {
        templates.check(family)?;
        if let Some(refusal) = family.refusal(problem, device) {
            spaces.refusals.push(format!("  {}: {refusal}", family.name));
            continue;
        }
        served = true;
        let mut space = match superseding(family, families, problem, device) {
            Some(better) => LegalSpace::closed(
                family,
                &format!("superseded_by = {better:?}"),
                "only its defaults are evaluated beside that family; name it with --family",
            ),
            None => LegalSpace::of(family, problem, device)?,
        };
        let record = hints.start.record.iter().filter(|hint| hint.family == family.name);
        let known = family.defaults(device).iter().chain(record.map(|hint| &hint.configuration));
        space.admit(family, (problem, device), known)?;
        if space.is_empty() {
            spaces.refusals.push(format!("  {}: {}", family.name, pruned(&space)));
            continue;
        }
        let default =
            family.default_for(problem, device).map_err(|error| TuneError::Space(error.into()))?;
        let others =
            family.defaults(device).iter().filter(|other| default.as_ref() != Some(*other));
        let seeds = others.filter_map(|other| space.rank(other)).collect();
        spaces.families.push(FamilySpace {
            family: index,
            name: family.name.clone(),
            space,
            default,
            seeds,
            forecast: None,
        });
    }
    if !spaces.families.is_empty() {
        return Ok(spaces);
    }
    let (problem, reasons) = (problem.to_string(), spaces.refusals);
    Err(if served {
        TuneError::EmptySpace { problem, reasons }
    } else {
        TuneError::NoFamily { problem, reasons }
    })
}

/// The family that a search has in the place of `family`.
fn superseding<'f>(
    family: &'f Family,
    families: &[Family],
    problem: &Problem,
    device: &Device,
) -> Option<&'f str> {
    let name = family.superseded_by.as_deref()?;
    let better = families.iter().find(|other| other.name == name)?;
    better.refusal(problem, device).is_none().then_some(name)
}

/// Which constraint removed how many.
fn pruned(space: &LegalSpace) -> String {
    let parts: Vec<String> = space
        .pruned
        .iter()
        .filter(|pruned| pruned.configurations > 0)
        .map(|pruned| {
            format!("{} by `{}` ({})", pruned.configurations, pruned.require, pruned.because)
        })
        .collect();
    format!("all {} configurations are ruled out: {}", space.raw, parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ComputeCapability, Dtype};
    use crate::model::{Hint, WarmStart};
    use crate::space::Families;

    #[test]
    fn a_family_that_is_superseded_has_its_defaults_and_its_record() {
        let all: Vec<Family> = Families::built_in().unwrap().iter().cloned().collect();
        let templates = Templates::built_in().unwrap();
        let problem = Problem::new("512x512x512".parse().unwrap(), Dtype::F32);
        let of = |families: &[Family], device: &Device, hints: &Hints| {
            let spaces = spaces(families, &templates, &problem, device, hints).unwrap();
            spaces.families.into_iter().find(|entry| entry.name == "blocktile").unwrap()
        };
        let h200 = Device::h200();
        let few = of(&all, &h200, &Hints::default());
        let defaults: Vec<_> = few.defaults().collect();
        assert!(few.space.len() <= 10 && few.space.len() == defaults.len(), "{}", few.space.len());
        assert!(defaults.iter().all(|default| few.space.rank(default).is_some()));

        // Alone, or where the better one cannot run, it is searched.
        let alone: Vec<Family> = all.iter().filter(|f| f.name == "blocktile").cloned().collect();
        let whole = of(&alone, &h200, &Hints::default()).space;
        let old = ComputeCapability { major: 7, minor: 5 };
        let old = Device { compute_capability: old, ..Device::h200() };
        for space in [&whole, &of(&all, &old, &Hints::default()).space] {
            assert!(space.len() > 10_000, "{}", space.len());
        }
        let configuration = whole.get(whole.len() / 2).unwrap();
        let family = "blocktile".to_owned();
        let record = Some(Hint { family, configuration: configuration.clone() });
        let with_record = of(
            &all,
            &h200,
            &Hints { start: WarmStart { record, others: Vec::new() }, ..Hints::default() },
        )
        .space;
        assert!(with_record.rank(&configuration).is_some());
        assert_eq!(with_record.len(), few.space.len() + 1);
    }
}
