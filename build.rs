//! Compresses the database that is embedded in the program, and rebuilds it when a file appears in the folders that are
//! embedded.

use std::error::Error;
use std::io::Write as _;
use std::path::PathBuf;
use std::{env, fs};

use flate2::Compression;
use flate2::write::GzEncoder;

/// The database of `src/database/built_in.rs`.
const DATABASE: &str = "results/nvidia-h200.toml";

fn main() -> Result<(), Box<dyn Error>> {
    for path in ["build.rs", "templates", "search-spaces", DATABASE] {
        println!("cargo:rerun-if-changed={path}");
    }
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(&fs::read(DATABASE)?)?;
    let folder = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(folder.join("built-in.toml.gz"), packed.finish()?)?;
    Ok(())
}
