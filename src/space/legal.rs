//! The set of a family's legal configurations: their number, ranks and parameter values.
//! [`super::enumerate`] finds them, search strategies choose among them.

use super::enumerate::{LegalPositions, SpaceError, enumerate};
use super::family::Family;
use crate::model::{Configuration, Device, Problem, Value};

/// A constraint and the number of raw configurations that it removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrunedCount {
    /// The constraint as written.
    pub require: String,
    /// The family's reason.
    pub because: String,
    /// Raw configurations that it was the first to rule out.
    pub configurations: u128,
}

/// The legal configurations of one family for one problem on one device.
///
/// A configuration is a position: its values' indices as digits of a mixed-radix number, the first
/// parameter the most significant. Positions are ascending, so that membership is a binary search.
#[derive(Debug, Clone)]
pub struct LegalSpace {
    parameters: Vec<(String, Vec<Value>)>,
    positions: Vec<u64>,
    /// All assignments, legal or not.
    pub raw: u128,
    /// One entry for each constraint, as declared.
    pub pruned: Vec<PrunedCount>,
}

impl LegalSpace {
    /// Lists the legal configurations of `family`.
    ///
    /// # Errors
    /// See [`SpaceError`].
    pub fn of(family: &Family, problem: &Problem, device: &Device) -> Result<Self, SpaceError> {
        let LegalPositions { positions, removed } = enumerate(family, problem, device)?;
        let pruned = family
            .constraints
            .iter()
            .zip(removed)
            .map(|(constraint, configurations)| PrunedCount {
                require: constraint.text.clone(),
                because: constraint.because.clone(),
                configurations,
            })
            .collect();
        Ok(Self { positions, pruned, ..Self::without_any(family) })
    }

    /// The space of `family` with nothing in it yet: `rule` keeps all out, `because` says why.
    pub fn closed(family: &Family, rule: &str, because: &str) -> Self {
        let space = Self::without_any(family);
        let (require, because, configurations) = (rule.to_owned(), because.to_owned(), space.raw);
        Self { pruned: vec![PrunedCount { require, because, configurations }], ..space }
    }

    fn without_any(family: &Family) -> Self {
        let parameters: Vec<(String, Vec<Value>)> = family.parameters.clone().into_iter().collect();
        let raw = parameters.iter().map(|(_, values)| values.len() as u128).product();
        Self { parameters, positions: Vec::new(), raw, pruned: Vec::new() }
    }

    /// Lets in those of `configurations` of the family that are right for the problem, though a rule
    /// that only spares a search's time kept them out. What gives other bits in each run stays out
    /// where the family does not allow it.
    ///
    /// # Errors
    /// See [`SpaceError`].
    pub fn admit<'c>(
        &mut self,
        family: &Family,
        (problem, device): (&Problem, &Device),
        configurations: impl IntoIterator<Item = &'c Configuration>,
    ) -> Result<(), SpaceError> {
        for configuration in configurations {
            let Some(position) = self.position_of(configuration) else { continue };
            let Err(place) = self.positions.binary_search(&position) else { continue };
            if family.excluded(configuration, problem, device)?.is_some() {
                continue;
            }
            self.positions.insert(place, position);
            // It was the first rule that it breaks that counted it, or the one that closed the space.
            let broken = family.violated(configuration, problem, device)?;
            let broken = broken.map(|constraint| constraint.text.as_str());
            let counted = self.pruned.iter().position(|rule| Some(&*rule.require) == broken);
            if let Some(pruned) = self.pruned.get_mut(counted.unwrap_or(0)) {
                pruned.configurations = pruned.configurations.saturating_sub(1);
            }
        }
        Ok(())
    }

    /// The space of exactly these configurations, given as value indices in the order of
    /// `parameters`; `None` where there are more assignments than 2^64.
    pub fn of_recorded(
        parameters: Vec<(String, Vec<Value>)>,
        configurations: impl IntoIterator<Item = Vec<usize>>,
    ) -> Option<Self> {
        let radices = parameters.iter().map(|(_, values)| values.len() as u64);
        let raw = radices.into_iter().try_fold(1u64, u64::checked_mul)?;
        let mut space =
            Self { parameters, positions: Vec::new(), raw: raw.into(), pruned: Vec::new() };
        let positions = configurations.into_iter().map(|indices| space.position(&indices));
        space.positions = positions.collect();
        space.positions.sort_unstable();
        space.positions.dedup();
        Some(space)
    }

    /// How many configurations are legal.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Whether no configuration is legal.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// The configuration with the given rank among the legal ones.
    pub fn get(&self, rank: usize) -> Option<Configuration> {
        let digits = self.digits(*self.positions.get(rank)?);
        let pairs = self.parameters.iter().zip(digits);
        Some(pairs.map(|((name, values), digit)| (name.clone(), values[digit].clone())).collect())
    }

    /// The rank of a configuration, `None` if it is not legal.
    pub fn rank(&self, configuration: &Configuration) -> Option<usize> {
        self.positions.binary_search(&self.position_of(configuration)?).ok()
    }

    /// How many values each parameter has, in the order of declaration.
    pub fn radices(&self) -> impl Iterator<Item = usize> {
        self.parameters.iter().map(|(_, values)| values.len())
    }

    /// The indices of a configuration's values among each parameter's, in the order of
    /// declaration.
    pub fn indices(&self, rank: usize) -> Option<Vec<usize>> {
        self.positions.get(rank).map(|position| self.digits(*position))
    }

    /// The rank of the configuration with these value indices, `None` if it is not legal.
    pub fn rank_of(&self, indices: &[usize]) -> Option<usize> {
        self.positions.binary_search(&self.position(indices)).ok()
    }

    /// Each parameter's name and values, in the order of declaration.
    pub fn parameters(&self) -> &[(String, Vec<Value>)] {
        &self.parameters
    }

    fn position_of(&self, configuration: &Configuration) -> Option<u64> {
        let mut position = 0;
        for (name, values) in &self.parameters {
            let value = configuration.get(name)?;
            let digit = values.iter().position(|known| known == value)?;
            position = position * values.len() as u64 + digit as u64;
        }
        Some(position)
    }

    fn position(&self, indices: &[usize]) -> u64 {
        self.radices()
            .zip(indices)
            .fold(0, |position, (radix, index)| position * radix as u64 + *index as u64)
    }

    /// Value indices, first parameter first.
    fn digits(&self, mut position: u64) -> Vec<usize> {
        let mut digits = vec![0; self.parameters.len()];
        for (digit, (_, values)) in digits.iter_mut().zip(&self.parameters).rev() {
            let radix = values.len() as u64;
            *digit = (position % radix) as usize;
            position /= radix;
        }
        digits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Dtype, Shape};

    fn family(body: &str) -> Family {
        let text = format!(
            "schema = 1\nname = 't'\nsummary = ''\ndtypes = ['f32']\ncompute = ['f32']\n\
             layouts = ['nn']\nkernels = [{{ entry = 'k', grid = [1], block = [1] }}]\n{body}"
        );
        Family::parse("t.toml", &text).unwrap_or_else(|error| panic!("{error}"))
    }

    fn problem() -> Problem {
        Problem::new(Shape { m: 64, n: 64, k: 64 }, Dtype::F32)
    }

    fn space(body: &str) -> Result<LegalSpace, SpaceError> {
        LegalSpace::of(&family(body), &problem(), &Device::h200())
    }

    const TILES: &str = "
        parameters = { BM = [32, 64, 96], TM = [4, 6, 8], SPLIT = [true, false] }
        derived = { ROWS = 'BM // TM', HALF = 'TM // 2' }
        constraints = [
            { require = 'BM % TM == 0', because = 'a thread owns whole tiles' },
            { require = 'not SPLIT or HALF % 2 == 0', because = 'halves are vectors' },
            { require = 'BM <= M', because = 'no block beyond the problem' },
        ]
        default = { BM = 32, TM = 4, SPLIT = true }";

    #[test]
    fn the_walk_agrees_with_trying_everything() {
        let space = space(TILES).unwrap();
        let all: Vec<String> =
            (0..space.len()).map(|rank| space.get(rank).unwrap().to_string()).collect();
        assert_eq!(
            all,
            [
                "BM=32 TM=4 SPLIT=true",
                "BM=32 TM=4 SPLIT=false",
                "BM=32 TM=8 SPLIT=true",
                "BM=32 TM=8 SPLIT=false",
                "BM=64 TM=4 SPLIT=true",
                "BM=64 TM=4 SPLIT=false",
                "BM=64 TM=8 SPLIT=true",
                "BM=64 TM=8 SPLIT=false",
            ]
        );
    }

    #[test]
    fn every_raw_configuration_is_legal_or_pruned_once() {
        let space = space(TILES).unwrap();
        let pruned: Vec<u128> = space.pruned.iter().map(|pruned| pruned.configurations).collect();
        assert_eq!(pruned, [4, 0, 6]);
        assert_eq!(pruned.iter().sum::<u128>() + space.len() as u128, space.raw);
    }

    #[test]
    fn what_was_pruned_is_let_in_where_it_is_right_and_counted_once() {
        let pruning = TILES
            .replace("because = 'halves are vectors'", "because = '', prunes = true")
            .replace("BM % TM == 0", "BM >= TM");
        let family = family(&pruning);
        let named = |text: &str| family.read_configuration(text).unwrap();
        // Legal already, pruned, not right.
        let known = ["BM=32 TM=4 SPLIT=true", "BM=32 TM=6 SPLIT=true", "BM=96 TM=4 SPLIT=false"];
        let known = known.map(named);
        let (problem, device) = (problem(), Device::h200());
        let mut space = LegalSpace::of(&family, &problem, &device).unwrap();
        let legal = space.len();
        assert_eq!(space.rank(&known[1]), None);
        space.admit(&family, (&problem, &device), &known).unwrap();
        assert_eq!(space.len(), legal + 1);
        assert!(space.rank(&known[1]).is_some() && space.rank(&known[2]).is_none());
        let pruned: u128 = space.pruned.iter().map(|pruned| pruned.configurations).sum();
        assert_eq!(pruned + space.len() as u128, space.raw);

        let mut few = LegalSpace::closed(&family, "a rule", "a reason");
        assert!(few.is_empty());
        few.admit(&family, (&problem, &device), &known).unwrap();
        assert_eq!(few.get(0).as_ref(), Some(&known[0]));
        assert_eq!((few.len(), few.pruned[0].configurations), (2, few.raw - 2));
    }

    #[test]
    fn ranks_and_indices_find_their_way() {
        let space = space(TILES).unwrap();
        for rank in 0..space.len() {
            assert_eq!(space.rank(&space.get(rank).unwrap()), Some(rank));
            assert_eq!(space.rank_of(&space.indices(rank).unwrap()), Some(rank));
        }
    }

    #[test]
    fn a_guard_protects_what_comes_after_it() {
        let guarded = "
            parameters = { TM = [0, 4] }
            constraints = [
                { require = 'TM > 0', because = 'a tile has rows' },
                { require = '64 % TM == 0', because = 'whole tiles' },
            ]
            default = { TM = 4 }";
        assert_eq!(space(guarded).unwrap().len(), 1);
    }

    #[test]
    fn an_impossible_expression_is_named_with_its_values() {
        let unguarded = "
            parameters = { TM = [0, 4] }
            constraints = [{ require = '64 % TM == 0', because = 'whole tiles' }]
            default = { TM = 4 }";
        let error = space(unguarded).unwrap_err().to_string();
        assert!(error.contains("t.toml:10:") && error.contains("with TM = 0"), "{error}");
    }

    #[test]
    fn a_space_beyond_counting_is_refused() {
        let values: Vec<String> = (0..100).map(|value| value.to_string()).collect();
        let parameters: Vec<String> =
            (0..12).map(|index| format!("P{index} = [{}]", values.join(","))).collect();
        let defaults: Vec<String> = (0..12).map(|index| format!("P{index} = 0")).collect();
        let body = format!(
            "parameters = {{ {} }}\ndefault = {{ {} }}",
            parameters.join(", "),
            defaults.join(", ")
        );
        assert!(matches!(space(&body), Err(SpaceError::TooLarge { .. })));
    }
}
