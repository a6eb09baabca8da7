//! The learned model of a device: what the analytic model is off by, for each family and GEMM type, as trees over
//! features of kernel and problem. The file form; training stands in `training`.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use thiserror::Error;

use super::features::{FeatureReader, KernelFeatures, ProblemFeatures};
use super::library_model::{LibraryChoice, LibraryModel};
use crate::files::SHIPPED_GPUS;
use crate::model::{Configuration, Device, GemmType, Micros, Problem, Value};
use crate::render::Templates;
use crate::space::Family;
use crate::trees::{BoostedTrees, COLUMNS, LANES, Precision};

/// Raised whenever columns or their meaning change, or the form of trees.
pub(super) const VERSION: u32 = 7;

/// Versions with other columns or trees, of which 3 has one model for each family. Read without their kernels and trees, as
/// models of unknown code.
const WITH_OTHER_TREES: RangeInclusive<u32> = 3..=6;

/// How much larger the error is on another device: with the model of an H200, nine in ten times of an H100 were within 15 %
/// (`pipelined`) and 31 % (`skinny`), where 17 and 19 % are expected on the H200.
const BASE_ERROR: f64 = 1.7;

/// Learned models of a device's kernels.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LearnedModel {
    pub(super) gemm_tune_model: u32,
    /// The device's name.
    pub device: String,
    /// Models of each family, one for each GEMM type.
    pub families: BTreeMap<String, Vec<FamilyModel>>,
    /// Forecasts of the library's time, one for each GEMM type and choice of the algorithm.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub libraries: Vec<LibraryModel>,
}

/// Learned model of a family's kernels for one GEMM type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FamilyModel {
    /// Code that the times are of: the hash of the family's template, as records have it.
    pub template_hash: String,
    /// Problems and times in the training data.
    pub problems: usize,
    /// See `problems`.
    pub times: usize,
    /// Error in per cent that nine in ten predictions are within, for problems outside the training data.
    pub error_percent: f64,
    /// GEMM type, the first of those in the training data. All of them multiply alike.
    #[serde(flatten)]
    pub types: GemmType,
    /// Parameters that are features, each with its values at the time of training.
    pub(super) parameters: IndexMap<String, Vec<Value>>,
    /// The kernel set: values of the parameters.
    pub(super) kernels: Vec<Vec<Value>>,
    pub(super) boosted: BoostedTrees,
}

/// A learned model that was not used, because its family's code has changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "the learned model of family `{family}` belongs to other code and is not used: run `gemm-tune learn`, or \
     `gemm-tune db restamp` where the machine code is the same"
)]
pub struct StaleModel {
    /// The family.
    pub family: String,
}

/// Why a text is no learned model.
#[derive(Debug, Error)]
pub enum LearnedModelError {
    /// It has another form.
    #[error("no file of `gemm-tune learn`: {0}")]
    Malformed(#[from] serde_json::Error),
    /// It has another version.
    #[error(
        "it was learned by another version of gemm-tune (its form is {found}, this one's {VERSION}): \
         learn it again with `gemm-tune learn`"
    )]
    Version {
        /// The version found.
        found: u32,
    },
}

/// The version of a file, under its key of today or the former one.
#[derive(Deserialize)]
struct VersionHeader {
    #[serde(alias = "gemm_tune_experience")]
    gemm_tune_model: u32,
}

impl LearnedModel {
    /// The model that ships with the program for a device; else that of another one of its compute capability
    /// ([`Self::as_base_for`]), else an empty one. The cpu device has that of the GPU whose times it models.
    ///
    /// # Errors
    /// [`LearnedModelError`]: never, as a test reads the files.
    pub fn built_in(device: &Device) -> Result<Self, LearnedModelError> {
        let known = Device::known();
        let own = known.iter().position(|known| known.name == device.gpu_name());
        let is_alike = |known: &Device| known.compute_capability == device.compute_capability;
        let Some(place) = own.or_else(|| known.iter().position(is_alike)) else {
            return Ok(Self::default());
        };
        let learned = Self::parse(SHIPPED_GPUS[place].learned_model)?;
        Ok(if own.is_some() { learned } else { learned.as_base_for(device) })
    }

    /// The model as the base of another device's: what the analytic model is off by is much the same on devices of one
    /// compute capability. Without forecasts of the library's time. Of the device itself, the model as it is.
    #[must_use]
    pub fn as_base_for(mut self, device: &Device) -> Self {
        if self.device != device.name {
            let models = self.families.values_mut().flatten();
            models.for_each(|model| model.error_percent *= BASE_ERROR);
            device.name.clone_into(&mut self.device);
            self.libraries.clear();
        }
        self
    }

    /// Reads a file of [`Self::text`].
    ///
    /// # Errors
    /// [`LearnedModelError`].
    pub fn parse(text: &str) -> Result<Self, LearnedModelError> {
        match serde_json::from_str::<VersionHeader>(text)?.gemm_tune_model {
            VERSION => Ok(serde_json::from_str(text)?),
            former if WITH_OTHER_TREES.contains(&former) => {
                Ok(serde_json::from_value(migrated(serde_json::from_str(text)?))?)
            }
            found => Err(LearnedModelError::Version { found }),
        }
    }

    /// The model as JSON.
    ///
    /// # Errors
    /// Where a number has no form in JSON: never after training on finite times.
    pub fn text(&self) -> Result<String, LearnedModelError> {
        Ok(serde_json::to_string(self)? + "\n")
    }

    /// Stamps the models of a family that belong to code `from`, with the hash `to` of equal machine code. Models
    /// of unknown code have an empty hash. Returns how many were stamped.
    pub fn restamp(&mut self, family: &str, from: &str, to: &str) -> usize {
        let models = self.families.get_mut(family).into_iter().flatten();
        let stamped = models.filter(|model| model.template_hash == from);
        stamped.map(|model| to.clone_into(&mut model.template_hash)).count()
    }

    /// Adds the models of another one for families and GEMM types that this one has none of.
    pub fn keep(&mut self, other: Self) {
        for (family, models) in other.families {
            let own = self.families.entry(family).or_default();
            for model in models {
                let is_same = |one: &FamilyModel| one.types.multiplies_like(&model.types);
                if !own.iter().any(is_same) {
                    own.push(model);
                }
            }
        }
        self.keep_libraries(other.libraries);
    }

    fn keep_libraries(&mut self, others: Vec<LibraryModel>) {
        for other in others {
            let is_same =
                |own: &LibraryModel| (own.types, own.algorithm) == (other.types, other.algorithm);
            if !self.libraries.iter().any(is_same) {
                self.libraries.push(other);
            }
        }
    }

    /// Removes models of families that have other code today, and returns them. Models of families that are not
    /// among these stay.
    pub(super) fn remove_stale(
        &mut self,
        families: &[Family],
        templates: &Templates,
    ) -> Vec<StaleModel> {
        let mut stale = Vec::new();
        for family in families {
            let Some(models) = self.families.get_mut(&family.name) else { continue };
            let (all, hash) = (models.len(), templates.hash(family));
            models.retain(|model| model.template_hash == hash && model.reader(family).is_some());
            if models.len() < all {
                stale.push(StaleModel { family: family.name.clone() });
            }
        }
        self.families.retain(|_, models| !models.is_empty());
        stale
    }

    /// The forecast of the library's time for a device and the GEMM type of a problem.
    pub(super) fn library(
        &self,
        problem: &Problem,
        device: &Device,
        algorithm: LibraryChoice,
    ) -> Option<&LibraryModel> {
        let own = |model: &&LibraryModel| model.algorithm == algorithm && model.serves(problem);
        self.libraries(device).iter().find(own)
    }

    /// The forecasts of the library's time on a device: none for another one.
    pub(super) fn libraries(&self, device: &Device) -> &[LibraryModel] {
        if self.device == device.name { &self.libraries } else { &[] }
    }

    /// The model of a family for a device and the GEMM type of a problem.
    pub(super) fn of(
        &self,
        family: &Family,
        problem: &Problem,
        device: &Device,
    ) -> Option<&FamilyModel> {
        let models =
            self.families.get(&family.name).filter(|_| self.device == device.gpu_name())?;
        models.iter().find(|model| model.serves(problem))
    }
}

/// A file of a former version in today's form. Of its models the names and sizes are left, so that their users are told.
fn migrated(mut file: Json) -> Json {
    if let Some(file) = file.as_object_mut() {
        file.remove("gemm_tune_experience");
        file.insert("gemm_tune_model".to_owned(), VERSION.into());
    }
    let families = file.get_mut("families").and_then(Json::as_object_mut);
    for models in families.into_iter().flat_map(serde_json::Map::values_mut) {
        if models.is_object() {
            *models = Json::Array(vec![models.take()]);
        }
        for model in models.as_array_mut().into_iter().flatten().filter_map(Json::as_object_mut) {
            model.remove("shortlists");
            model.extend([
                ("template_hash".to_owned(), json!("")),
                ("parameters".to_owned(), json!({})),
                ("kernels".to_owned(), json!([])),
                ("boosted".to_owned(), json!(BoostedTrees::default())),
            ]);
        }
    }
    file
}

impl FamilyModel {
    /// Whether a problem's GEMM type multiplies like the model's.
    pub fn serves(&self, problem: &Problem) -> bool {
        self.types.multiplies_like(&problem.types)
    }

    /// Reads the family's configurations; `None` where the family never had a parameter of the model.
    pub(super) fn reader<'m>(&'m self, family: &'m Family) -> Option<FeatureReader<'m>> {
        FeatureReader::of(family, &self.parameters)
    }

    /// Predicts the times of prepared kernels on the model's device; several at once take half the time.
    pub fn times(
        &self,
        kernels: &[&KernelFeatures],
        problem: &ProblemFeatures,
        device: &Device,
    ) -> Vec<Micros> {
        self.predict(kernels.iter().map(|kernel| (*kernel, problem)), device, Precision::Full)
    }

    /// The same by the first trees alone, in a tenth of the time: to choose kernels that are worth [`Self::times`].
    pub fn coarse_times(
        &self,
        kernels: &[&KernelFeatures],
        problem: &ProblemFeatures,
        device: &Device,
    ) -> Vec<Micros> {
        self.predict(kernels.iter().map(|kernel| (*kernel, problem)), device, Precision::Coarse)
    }

    /// Predicts the times of one kernel for problems.
    pub fn times_for(
        &self,
        kernel: &KernelFeatures,
        problems: &[ProblemFeatures],
        (device, precision): (&Device, Precision),
    ) -> Vec<Micros> {
        self.predict(problems.iter().map(|problem| (kernel, problem)), device, precision)
    }

    fn predict<'a>(
        &self,
        mut cases: impl ExactSizeIterator<Item = (&'a KernelFeatures, &'a ProblemFeatures)>,
        device: &Device,
        precision: Precision,
    ) -> Vec<Micros> {
        let mut times = Vec::with_capacity(cases.len());
        while cases.len() > 0 {
            let count = cases.len().min(LANES);
            let mut modelled = [0.0; LANES];
            let mut rows = cases.by_ref().take(count).zip(&mut modelled).map(|(case, modelled)| {
                let (kernel, problem) = case;
                let mut row = kernel.row;
                *modelled = problem.complete(&mut row, &kernel.cost, device);
                row
            });
            let mut factors = [0.0; LANES];
            // Few rows are faster one by one.
            if count <= LANES / 2 {
                for (factor, row) in factors.iter_mut().zip(&mut rows) {
                    *factor = self.boosted.predict(&row, precision);
                }
            } else {
                let mut lanes = [[0.0; LANES]; COLUMNS];
                for (place, row) in rows.enumerate() {
                    for (column, value) in lanes.iter_mut().zip(row) {
                        column[place] = value;
                    }
                }
                factors = self.boosted.predict_lanes(&lanes, precision);
            }
            let time = |(modelled, off): (f64, f32)| Micros((modelled + f64::from(off)).exp());
            times.extend(modelled.into_iter().zip(factors).take(count).map(time));
        }
        times
    }

    /// The kernel set: kernels of which one is nearly the fastest for any problem, as configurations of today.
    pub fn kernels(&self, family: &Family) -> impl Iterator<Item = Configuration> {
        self.kernels.iter().map(|values| {
            let named = self.parameters.keys().cloned().zip(values.iter().cloned());
            let configuration: Configuration = named.collect();
            family.completed(configuration.clone()).unwrap_or(configuration)
        })
    }
}
