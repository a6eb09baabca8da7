//! The family whose tiles TMA copies.

use gemm_tune::space::Family;

/// A few values for each parameter of `tma`. Rules that only spare a search's time are left out.
pub(crate) fn boxes() -> Family {
    let text = std::fs::read_to_string("search-spaces/tma.toml").unwrap();
    let values = [
        ("PACK", "'none', 'a', 'b', 'both'"),
        ("BM", "32, 64"),
        ("BN", "64, 96"),
        ("TM", "4"),
        ("TN", "8"),
        ("LANES_M", "8"),
        ("BK", "8, 16"),
        ("STAGES", "2, 3"),
        ("FRAGMENT_STAGES", "1, 2"),
        ("MIN_BLOCKS", "2"),
        ("SPLIT_K", "1, 2, 3"),
        ("SCHEDULER", "'data_parallel', 'stream_k'"),
        ("REDUCTION", "'workspace', 'cluster'"),
        ("UNROLL", "4"),
        ("RASTER", "'m'"),
        ("LANE_ORDER", "'m'"),
        ("FMA_ORDER", "'rows'"),
        ("READ_ORDER", "'down'"),
    ];
    let parameters = values.map(|(name, list)| format!("{name} = [{list}]\n")).concat();
    let first = |list: &str| list.split(',').next().unwrap_or_default().to_owned();
    let default = values.map(|(name, list)| format!("{name} = {}\n", first(list))).concat();
    let (head, _) = text.split_once("[default]").unwrap();
    let (_, rest) = text.split_once("[derived]").unwrap();
    let (rest, _) = rest.split_once("[renamed]").unwrap();
    let rules = rest.split("\n[[").filter(|part| !part.contains("\nprunes = "));
    let rest = rules.collect::<Vec<_>>().join("\n[[");
    let text = format!("{head}[default]\n{default}\n[parameters]\n{parameters}\n[derived]{rest}");
    Family::parse("tma.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}
