//! The tables of other tuners and libraries in `docs/benchmarks.md`.

use std::fmt::Write;

use super::benchmarks::{Row, number, rows, short};

/// Tuners of f32 products.
pub(super) fn of_f32() -> String {
    let columns = [
        ("gemm-tune", "f32", "gemm-tune"),
        ("gemm-tune, blocktile", "f32", "its `blocktile` alone"),
        ("Kernel Tuner hybrid_vndx, blocktile", "f32", "Kernel Tuner `hybrid_vndx`"),
        ("Kernel Tuner random_sample, blocktile", "f32", "`random_sample`"),
        ("best library", "f32", "best library"),
        ("Triton autotune", "ieee", "Triton `ieee`"),
        ("Triton autotune", "tf32x3", "`tf32x3`"),
    ];
    let rows = rows("results/side-by-side-h200.csv");
    let mut shapes: Vec<&str> = Vec::new();
    for row in &rows {
        if !shapes.contains(&row["shape"].as_str()) {
            shapes.push(&row["shape"]);
        }
    }
    let mut text = format!("| problem | {} |\n", columns.map(|(.., name)| name).join(" | "));
    writeln!(text, "|---{}|", "|---".repeat(columns.len())).unwrap();
    for shape in shapes {
        let cells = columns.map(|(tuner, precision, _)| {
            let is_one = |row: &&Row| {
                row["shape"] == shape && row["tuner"] == tuner && row["precision"] == precision
            };
            rows.iter().find(is_one).map_or(String::new(), |row| short(number(row, "side_us")))
        });
        writeln!(text, "| {shape} | {} |", cells.join(" | ")).unwrap();
    }
    text
}

/// Products of 16 bits and of i8 on tensor cores, in CUDA graphs.
pub(super) fn of_tensor_cores() -> String {
    let columns = [
        ("gemm-tune_us", "gemm-tune"),
        ("torch_us", "PyTorch"),
        ("triton_us", "Triton"),
        ("cutlass_us", "CUTLASS"),
    ];
    let mut text = format!("| problem | {} |\n", columns.map(|(_, name)| name).join(" | "));
    writeln!(text, "|---{}|", "|---".repeat(columns.len())).unwrap();
    for row in &rows("results/rivals-tensor-cores-h200.csv") {
        let cells = columns.map(|(column, _)| match row[column].as_str() {
            "" => String::new(),
            _ => short(number(row, column)),
        });
        writeln!(text, "| {} {} | {} |", row["problem"], row["dtype"], cells.join(" | ")).unwrap();
    }
    text
}
