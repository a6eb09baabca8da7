//! A family whose tiles the copy engine brings.

use gemm_tune::space::Family;

/// A few values for each parameter of `pipelined`, with tiles that the copy engine brings. Rules that
/// only spare a search's time are left out.
pub(crate) fn boxes() -> Family {
    let text = std::fs::read_to_string("search-spaces/pipelined.toml").unwrap();
    let values = [
        ("PACK", "'none', 'a', 'b', 'both'"),
        ("TRANSPOSE", "'copies'"),
        ("COPIES", "'boxes'"),
        ("BM", "32, 64"),
        ("BN", "64, 96"),
        ("TM", "4"),
        ("TN", "8"),
        ("LANES_M", "8"),
        ("BK", "8, 16"),
        ("STAGES", "2, 3"),
        ("FRAGMENTS", "1, 2"),
        ("MIN_BLOCKS", "2"),
        ("SPLITS", "1, 2, 3"),
        ("TAIL", "'whole', 'shared'"),
        ("MEET", "'memory', 'cluster'"),
        ("PERSISTENT", "false"),
        ("UNROLL", "4"),
        ("RASTER", "'m'"),
        ("LANE_ORDER", "'m'"),
        ("FMA_ORDER", "'rows'"),
        ("READ_FIRST", "'a'"),
        ("READ_ORDER", "'down'"),
    ];
    let parameters = values.map(|(name, list)| format!("{name} = [{list}]\n")).concat();
    let first = |list: &str| list.split(',').next().unwrap_or_default().to_owned();
    let default = values.map(|(name, list)| format!("{name} = {}", first(list))).join(", ");
    let (head, _) = text.split_once("default = [").unwrap();
    let (_, rest) = text.split_once("[derived]").unwrap();
    let rules = rest.split("\n[[").filter(|part| !part.contains("prunes = true"));
    let rest = rules.collect::<Vec<_>>().join("\n[[");
    let text =
        format!("{head}default = {{ {default} }}\n[parameters]\n{parameters}\n[derived]{rest}");
    Family::parse("pipelined.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}
