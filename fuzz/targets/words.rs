//! Changes a text as a whole: lines move, words give way to words of their kind. Knows of PTX
//! only what words look like; what they mean is for the device to say.

/// Numbers at the edges of what registers, addresses and counts hold.
const NUMBERS: [&str; 16] = [
    "0",
    "1",
    "-1",
    "2",
    "3",
    "4",
    "8",
    "16",
    "31",
    "32",
    "255",
    "65536",
    "2147483648",
    "4294967295",
    "-9223372036854775808",
    "18446744073709551615",
];

/// Parts of opcodes that a seed may lack.
const MODIFIERS: &[&str] = &[
    "lo",
    "hi",
    "wide",
    "sat",
    "ftz",
    "approx",
    "full",
    "rn",
    "rz",
    "rm",
    "rp",
    "rna",
    "rni",
    "rzi",
    "rmi",
    "rpi",
    "relu",
    "b8",
    "b16",
    "b32",
    "b64",
    "u8",
    "u16",
    "u32",
    "u64",
    "s8",
    "s16",
    "s32",
    "s64",
    "f16",
    "f16x2",
    "bf16",
    "bf16x2",
    "tf32",
    "f32",
    "f64",
    "pred",
    "v2",
    "v4",
    "v8",
    "global",
    "shared",
    "local",
    "const",
    "param",
    "sync",
    "arrive",
    "aligned",
    "warp",
    "red",
    "popc",
    "and",
    "or",
    "xor",
    "add",
    "min",
    "max",
    "inc",
    "dec",
    "exch",
    "cas",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "ltu",
    "num",
    "nan",
    "all",
    "any",
    "uni",
    "ballot",
    "up",
    "down",
    "bfly",
    "idx",
    "shiftamt",
    "hi",
    "async",
    "cg",
    "NaN",
    "noftz",
    "cta",
    "L2::cache_hint",
    "x1",
    "x2",
    "x4",
    "trans",
    "wrap",
    "clamp",
    "volatile",
    "acquire",
    "release",
    "to",
];

/// What a mutation starts an instruction with.
const OPCODES: &[&str] = &[
    "add",
    "sub",
    "mul",
    "mad",
    "fma",
    "div",
    "rem",
    "min",
    "max",
    "abs",
    "neg",
    "sqrt",
    "rsqrt",
    "rcp",
    "ex2",
    "lg2",
    "sin",
    "cos",
    "tanh",
    "and",
    "or",
    "xor",
    "not",
    "cnot",
    "popc",
    "clz",
    "brev",
    "shl",
    "shr",
    "shf",
    "prmt",
    "lop3",
    "bfe",
    "bfi",
    "mov",
    "selp",
    "set",
    "setp",
    "cvt",
    "cvta",
    "ld",
    "st",
    "atom",
    "red",
    "bar",
    "barrier",
    "membar",
    "fence",
    "shfl",
    "vote",
    "activemask",
    "match",
    "redux",
    "elect",
    "mma",
    "ldmatrix",
    "stmatrix",
    "bra",
    "ret",
    "exit",
    "trap",
    "call",
    "nanosleep",
    "prefetch",
    "sad",
    "dp4a",
    "dp2a",
    "bfind",
    "copysign",
    "createpolicy",
    "cp",
];

/// A text with a few changes.
pub(crate) fn mutated(text: &str, random: &mut fastrand::Rng) -> String {
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    for _ in 0..random.usize(1..6) {
        let (at, other) = (random.usize(..lines.len()), random.usize(..lines.len()));
        match random.u8(..8) {
            0 if lines.len() > 1 => {
                lines.remove(at);
            }
            1 => lines.insert(at, lines[other].clone()),
            2 => lines.swap(at, other),
            3 => {
                let (from, to) = (words(&lines[other]), words(&lines[at]));
                if let (Some(from), Some(to)) = (chosen(&from, random), chosen(&to, random)) {
                    let word = lines[other][from.0..from.1].to_owned();
                    lines[at].replace_range(to.0..to.1, &word);
                }
            }
            _ => {
                if let Some((from, to)) = chosen(&words(&lines[at]), random) {
                    let word = replaced(&lines[at][from..to], random);
                    lines[at].replace_range(from..to, &word);
                }
            }
        }
    }
    lines.join("\n")
}

/// Where words lie: names, numbers, and opcodes with all their modifiers.
fn words(line: &str) -> Vec<(usize, usize)> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "%$_.:".contains(c);
    let mut found = Vec::new();
    let mut start = None;
    for (at, c) in line.char_indices().chain([(line.len(), ' ')]) {
        match (is_word(c), start) {
            (true, None) => start = Some(at),
            (false, Some(first)) => {
                found.push((first, at));
                start = None;
            }
            _ => {}
        }
    }
    found
}

fn chosen<T: Copy>(choices: &[T], random: &mut fastrand::Rng) -> Option<T> {
    if choices.is_empty() { None } else { Some(choices[random.usize(..choices.len())]) }
}

/// Another word of the kind.
fn replaced(word: &str, random: &mut fastrand::Rng) -> String {
    let pick = |list: &[&'static str], random: &mut fastrand::Rng| list[random.usize(..list.len())];
    if word.starts_with(|c: char| c.is_ascii_digit()) {
        return pick(&NUMBERS, random).to_owned();
    }
    if let Some(register) = word.strip_prefix('%') {
        let class = register.trim_end_matches(|c: char| c.is_ascii_digit());
        return format!("%{class}{}", random.u8(..8));
    }
    let mut parts: Vec<&str> = word.split('.').collect();
    let at = random.usize(..parts.len());
    match random.u8(..4) {
        0 if parts.len() > 1 => {
            parts.remove(at);
        }
        1 => parts.insert(at + 1, pick(MODIFIERS, random)),
        _ if at == 0 && !parts[0].is_empty() => parts[0] = pick(OPCODES, random),
        _ => parts[at] = pick(MODIFIERS, random),
    }
    parts.join(".")
}
