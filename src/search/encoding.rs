//! Encoding of configurations as points: one axis for each parameter that varies, with coordinates of similar spread.

use fastrand::Rng;

use crate::model::Value;
use crate::space::LegalSpace;

/// Most levels of an axis; further values share one with their neighbours.
const MAX_LEVELS: usize = 64;

/// Configurations in the sample for the spread of an axis.
const SAMPLED: usize = 4096;

/// A configuration as its level on each axis.
pub(super) type EncodedPoint = Box<[u8]>;

/// The axes of a space.
#[derive(Debug)]
pub(super) struct Encoding {
    pub(super) axes: Vec<EncodingAxis>,
}

/// Axis of one parameter.
#[derive(Debug)]
pub(super) struct EncodingAxis {
    /// Index among the space's parameters.
    parameter: usize,
    /// The level of each value.
    levels: Vec<u8>,
    /// Whether its values are numbers; words have no order.
    pub(super) is_ordered: bool,
    /// Whether its numbers are all positive: `values` are then their binary logarithms.
    pub(super) is_logarithmic: bool,
    /// The value of each level.
    pub(super) values: Vec<f32>,
    /// The value of each level, less the mean over the space, in standard deviations.
    pub(super) places: Vec<f32>,
}

impl Encoding {
    pub(super) fn of(space: &LegalSpace) -> Self {
        // At random: equal steps would hit some parameters at one value only.
        let mut rng = Rng::with_seed(0);
        let ranks: Vec<usize> = if space.len() <= SAMPLED {
            (0..space.len()).collect()
        } else {
            (0..SAMPLED).map(|_| rng.usize(..space.len())).collect()
        };
        let sample: Vec<Vec<usize>> =
            ranks.into_iter().filter_map(|rank| space.indices(rank)).collect();
        let parameters = space.parameters().iter().enumerate();
        let axes = parameters.filter_map(|(parameter, (_, values))| {
            let indices: Vec<usize> = sample.iter().map(|indices| indices[parameter]).collect();
            EncodingAxis::of(parameter, values, &indices)
        });
        Self { axes: axes.collect() }
    }

    /// Encodes a configuration, given by its value indices.
    pub(super) fn point(&self, indices: &[usize]) -> EncodedPoint {
        self.axes.iter().map(|axis| axis.levels[indices[axis.parameter]]).collect()
    }

    /// Manhattan distance of two points in standard deviations, which favours differences in many parameters.
    pub(super) fn distance(&self, one: &EncodedPoint, other: &EncodedPoint) -> f32 {
        let levels = one.iter().zip(other.iter());
        levels.zip(&self.axes).map(|((a, b), axis)| axis.distance(*a, *b).abs()).sum()
    }
}

impl EncodingAxis {
    /// None where the parameter does not vary over the `sample` of its value indices.
    fn of(parameter: usize, values: &[Value], sample: &[usize]) -> Option<Self> {
        if sample.iter().all(|index| *index == sample[0]) {
            return None;
        }
        let numbers: Option<Vec<f64>> = values.iter().map(Value::number).collect();
        let is_ordered = numbers.is_some();
        let numbers = numbers.unwrap_or_else(|| (0..values.len()).map(|at| at as f64).collect());
        let is_logarithmic = is_ordered && numbers.iter().all(|number| *number > 0.0);
        let scaled =
            numbers.iter().map(|number| if is_logarithmic { number.log2() } else { *number });
        let scaled: Vec<f64> = scaled.collect();

        // Levels are in the order of the values, also where a family lists them otherwise.
        let mut order: Vec<usize> = (0..scaled.len()).collect();
        order.sort_by(|a, b| scaled[*a].total_cmp(&scaled[*b]));
        let count = scaled.len().min(MAX_LEVELS);
        let mut levels = vec![0; scaled.len()];
        let mut members = vec![Vec::new(); count];
        for (at, index) in order.into_iter().enumerate() {
            let level = at * count / scaled.len();
            levels[index] = level as u8;
            members[level].push(scaled[index]);
        }
        let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len().max(1) as f64;
        let values: Vec<f64> = members.iter().map(|of| mean(of)).collect();

        let sampled: Vec<f64> = sample.iter().map(|index| scaled[*index]).collect();
        let middle = mean(&sampled);
        let squares: Vec<f64> = sampled.iter().map(|value| (value - middle).powi(2)).collect();
        let spread = mean(&squares).sqrt();
        let places = values.iter().map(|value| ((value - middle) / spread) as f32).collect();
        let values = values.into_iter().map(|value| value as f32).collect();
        Some(Self { parameter, levels, is_ordered, is_logarithmic, values, places })
    }

    /// Distance of two levels in standard deviations; 1.5 for any two words.
    pub(super) fn distance(&self, one: u8, other: u8) -> f32 {
        match (one == other, self.is_ordered) {
            (true, _) => 0.0,
            (false, false) => 1.5,
            (false, true) => self.places[usize::from(one)] - self.places[usize::from(other)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(parameters: &[(&str, Vec<Value>)]) -> LegalSpace {
        let radices: Vec<usize> = parameters.iter().map(|(_, values)| values.len()).collect();
        let count: usize = radices.iter().product();
        let all = (0..count).map(|mut at| {
            let digits = radices.iter().rev().map(|radix| {
                let digit = at % radix;
                at /= radix;
                digit
            });
            let mut digits: Vec<usize> = digits.collect();
            digits.reverse();
            digits
        });
        let named = parameters.iter().map(|(name, values)| ((*name).to_owned(), values.clone()));
        LegalSpace::of_recorded(named.collect(), all).unwrap()
    }

    fn ints(values: &[i64]) -> Vec<Value> {
        values.iter().map(|value| Value::Int(*value)).collect()
    }

    #[test]
    fn axes_are_parameters_that_vary_in_the_order_of_their_values() {
        let words = vec![Value::Text("b".to_owned()), Value::Text("a".to_owned())];
        let encoding = Encoding::of(&space(&[
            ("TILE", ints(&[64, 16, 32])),
            ("ONE", ints(&[7])),
            ("PAD", ints(&[0, 4])),
            ("WORD", words),
        ]));
        let [tile, pad, word] = encoding.axes.as_slice() else { panic!("{encoding:?}") };
        assert_eq!((tile.values.as_slice(), tile.is_logarithmic), (&[4.0, 5.0, 6.0][..], true));
        assert_eq!((pad.values.as_slice(), pad.is_logarithmic), (&[0.0, 4.0][..], false));
        assert_eq!(pad.places, [-1.0, 1.0]);
        assert!(!word.is_ordered && !word.is_logarithmic);
        assert_eq!(*encoding.point(&[0, 0, 1, 1]), [2, 1, 1]);
        let (one, other) = (encoding.point(&[1, 0, 0, 0]), encoding.point(&[1, 0, 1, 1]));
        assert_eq!(encoding.distance(&one, &other), 2.0 + 1.5);
    }

    #[test]
    fn many_values_share_levels() {
        let encoding = Encoding::of(&space(&[("X", ints(&(1..=1000).collect::<Vec<_>>()))]));
        assert_eq!(encoding.axes[0].values.len(), MAX_LEVELS);
        assert_eq!(*encoding.point(&[999]), [63]);
        assert_eq!(*encoding.point(&[0]), [0]);
    }
}
