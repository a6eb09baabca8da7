//! Footprints that were found already. To find one takes the expression engine half a millisecond, and
//! those of configurations that are launched alike are the same.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::{Besides, Family, Footprint};
use crate::model::{Configuration, Device, Problem};

/// What configurations of families ask of one device.
#[derive(Debug, Default)]
pub struct Footprints {
    found: Mutex<HashMap<String, (Option<Footprint>, Besides)>>,
    /// The parameters that they hang on, by family.
    deciding: Mutex<HashMap<String, Arc<[String]>>>,
}

impl Footprints {
    /// None found yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// What a configuration asks of the device for problems like `pattern`, whatever their extents. The
    /// device is the same in every call.
    pub fn of(
        &self,
        family: &Family,
        configuration: &Configuration,
        pattern: &Problem,
        device: &Device,
    ) -> (Option<Footprint>, Besides) {
        let deciding = self.deciding(family);
        let values = deciding.iter().map(|name| configuration.get(name));
        let Problem { dtype, compute, layout, .. } = pattern;
        let alike = format!(
            "{} {dtype:?} {compute:?} {layout:?} {:?}",
            family.name,
            values.collect::<Vec<_>>()
        );
        let known = self.found.lock().ok().and_then(|found| found.get(&alike).copied());
        known.unwrap_or_else(|| {
            let found = (
                Footprint::of(family, configuration, pattern, device),
                Besides::of(family, configuration, pattern, device),
            );
            if let Ok(mut all) = self.found.lock() {
                all.insert(alike, found);
            }
            found
        })
    }

    fn deciding(&self, family: &Family) -> Arc<[String]> {
        let known = self.deciding.lock().ok();
        if let Some(names) = known.and_then(|known| known.get(&family.name).cloned()) {
            return names;
        }
        let names: Vec<&String> = family.parameters.keys().collect();
        let places = family.launch_parameters();
        let names: Arc<[String]> = places.into_iter().map(|at| names[at].clone()).collect();
        if let Ok(mut known) = self.deciding.lock() {
            known.insert(family.name.clone(), Arc::clone(&names));
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Dtype, Layout};
    use crate::space::{Families, LegalSpace};

    #[test]
    fn what_was_found_once_is_what_would_be_found_again() {
        let (device, found) = (Device::h200(), Footprints::new());
        for family in Families::built_in().unwrap().iter() {
            for layout in [Layout::Nn, Layout::Tt] {
                let problem = Problem::new("500x512x1000".parse().unwrap(), Dtype::F32);
                let problem = Problem { layout, ..problem };
                let space = LegalSpace::of(family, &problem, &device).unwrap();
                for rank in (0..space.len()).step_by(space.len() / 40 + 1) {
                    let configuration = space.get(rank).unwrap();
                    let asked = (
                        Footprint::of(family, &configuration, &problem, &device),
                        Besides::of(family, &configuration, &problem, &device),
                    );
                    let known = found.of(family, &configuration, &problem, &device);
                    assert_eq!(known, asked, "{} {configuration}", family.name);
                }
            }
        }
    }
}
