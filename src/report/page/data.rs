//! Packs every configuration of a journal for the script: a base-36 digit per value, and the rate.

use serde_json::{Value, json};

use super::charts::{self, BINS, Levels};
use crate::inspect::landscape;
use crate::tune::{Entry, Recorded};

/// Number of values that a base-36 digit can express.
const DIGITS: usize = 36;

/// Text of a `script` element of type `application/json`.
pub(super) fn packed(journal: &Recorded, families: &[&str], levels: &Levels) -> String {
    let most = charts::most(journal, levels);
    let tallest = charts::tallest(&charts::bins(journal, families, most));
    let frame = super::super::plot::frame();
    let document = json!({
        "rate": charts::unit(journal),
        "families": families.iter().map(|name| family(journal, name)).collect::<Vec<_>>(),
        "bins": {
            "low": 0, "high": most, "count": BINS, "most": tallest,
            "left": frame.left, "right": frame.right, "top": frame.top, "bottom": frame.bottom,
        },
    });
    // The text must not end the element.
    document.to_string().replace('<', "\\u003c")
}

fn family(journal: &Recorded, name: &str) -> Value {
    let own: Vec<&Entry> = journal.entries.iter().filter(|entry| entry.family == name).collect();
    let names = own.first().map(|entry| entry.parameters.0.keys()).into_iter().flatten();
    // Leaves out a parameter with more values than digits; its axis would be unreadable.
    let parameters: Vec<(&String, Vec<_>)> = names
        .map(|name| (name, landscape::values(own.iter().filter_map(|e| e.parameters.get(name)))))
        .filter(|(_, values)| values.len() <= DIGITS)
        .collect();
    let row = |entry: &&Entry| {
        let digit = |(name, values): &(&String, Vec<_>)| {
            let value = entry.parameters.get(name.as_str());
            let at = values.iter().position(|known| Some(known) == value).unwrap_or(0);
            char::from_digit(at as u32, DIGITS as u32).unwrap_or('0')
        };
        let digits: String = parameters.iter().map(digit).collect();
        // Five significant figures distinguish the rates; 0 means no rate.
        let rate = charts::rate(journal, entry).unwrap_or(0.0);
        let rate: f64 = format!("{rate:.4e}").parse().unwrap_or(0.0);
        json!([digits, rate])
    };
    json!({
        "name": name,
        "parameters": parameters.iter().map(|(name, values)| json!({
            "name": name,
            "values": values.iter().map(ToString::to_string).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
        "rows": own.iter().map(row).collect::<Vec<_>>(),
    })
}
