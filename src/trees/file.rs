//! The form of trees in files: their numbers as bytes in base64. Decimal digits would take three times the room.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use half::f16;
use serde::{Deserialize, Serialize};

use super::{BoostedTrees, LEAVES, Tree};

/// Trees as files have them, all of one depth: each list has `LEAVES` numbers for each tree, the lower byte of a number
/// first.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TreesFile {
    base: f32,
    /// A byte for each split.
    columns: String,
    /// Numbers of f32.
    cuts: String,
    /// Numbers of f16.
    leaves: String,
}

impl From<BoostedTrees> for TreesFile {
    fn from(BoostedTrees { base, trees }: BoostedTrees) -> Self {
        let text = |bytes_of: fn(&Tree) -> Vec<u8>| {
            BASE64_STANDARD.encode(trees.iter().flat_map(bytes_of).collect::<Vec<u8>>())
        };
        let columns = text(|tree| tree.columns.to_vec());
        let cuts = text(|tree| tree.cuts.map(f32::to_le_bytes).concat());
        let leaves =
            text(|tree| tree.leaves.map(|leaf| f16::from_f32(leaf).to_le_bytes()).concat());
        Self { base, columns, cuts, leaves }
    }
}

impl TryFrom<TreesFile> for BoostedTrees {
    type Error = String;

    fn try_from(file: TreesFile) -> Result<Self, Self::Error> {
        let bytes = |name: &str, text: &str| {
            BASE64_STANDARD
                .decode(text)
                .map_err(|error| format!("`{name}` of the trees is no base64: {error}"))
        };
        let columns = bytes("columns", &file.columns)?;
        let cuts = bytes("cuts", &file.cuts)?;
        let leaves = bytes("leaves", &file.leaves)?;
        let (columns, rest) = columns.as_chunks::<LEAVES>();
        let (cuts, of_cuts) = cuts.as_chunks::<4>();
        let (leaves, of_leaves) = leaves.as_chunks::<2>();
        let all = columns.len() * LEAVES;
        if !rest.is_empty()
            || !of_cuts.is_empty()
            || !of_leaves.is_empty()
            || [cuts.len(), leaves.len()] != [all; 2]
        {
            return Err(format!(
                "the trees have {} columns, {} cuts and {} leaves: as many of each are needed, {LEAVES} for a tree",
                all + rest.len(),
                cuts.len(),
                leaves.len(),
            ));
        }
        let cuts: Vec<f32> = cuts.iter().map(|cut| f32::from_le_bytes(*cut)).collect();
        let leaves: Vec<f32> =
            leaves.iter().map(|leaf| f16::from_le_bytes(*leaf).to_f32()).collect();
        if !cuts.iter().chain(&leaves).all(|number| number.is_finite()) {
            return Err("the trees have a cut or a leaf that is not finite".to_owned());
        }
        let (cuts, _) = cuts.as_chunks();
        let (leaves, _) = leaves.as_chunks();
        let trees = columns.iter().zip(cuts).zip(leaves);
        let trees = trees.map(|((columns, cuts), leaves)| Tree {
            columns: *columns,
            cuts: *cuts,
            leaves: *leaves,
        });
        Ok(Self { base: file.base, trees: trees.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trees::{COLUMNS, Precision};

    fn trees(column: u8, leaf: f32) -> BoostedTrees {
        let tree = Tree { columns: [column; LEAVES], cuts: [-2.5; LEAVES], leaves: [leaf; LEAVES] };
        BoostedTrees { base: 0.125, trees: vec![tree; 3] }
    }

    fn read(text: &str) -> Result<BoostedTrees, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn files_hold_trees_and_may_name_any_column() {
        let written = trees(255, 0.75);
        let read = read(&serde_json::to_string(&written).unwrap()).unwrap();
        assert_eq!(read, written);
        assert_eq!(read.predict(&[0.0; COLUMNS], Precision::Full), 0.125 + 3.0 * 0.75);
    }

    #[test]
    fn files_that_hold_no_trees_are_refused() {
        let file = |columns: &str, cuts: &str, leaves: &str| {
            let lists = [("columns", columns), ("cuts", cuts), ("leaves", leaves)];
            let lists = lists.map(|(name, list)| format!("\"{name}\":\"{list}\""));
            format!("{{\"base\":0,{}}}", lists.join(","))
        };
        for (text, words) in [
            (file("AA=", "", ""), "`columns` of the trees is no base64"),
            (file("", "AAAA", ""), "0 columns, 0 cuts and 0 leaves: as many of each are needed"),
            (file("AAAA", "", "AAAA"), "3 columns, 0 cuts and 1 leaves"),
            (serde_json::to_string(&trees(0, f32::INFINITY)).unwrap(), "is not finite"),
        ] {
            let error = read(&text).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
