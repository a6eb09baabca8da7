//! Compresses the databases that are embedded in the program, and rebuilds it when a file appears in the folders that are
//! embedded.

use std::error::Error;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use flate2::Compression;
use flate2::write::GzEncoder;

/// The databases of `src/database/built_in.rs`, in `results/`.
const DATABASES: [&str; 2] = ["nvidia-h200.toml", "nvidia-h100-80gb-hbm3.toml"];

fn main() -> Result<(), Box<dyn Error>> {
    for path in ["build.rs", "templates", "search-spaces"] {
        println!("cargo:rerun-if-changed={path}");
    }
    let folder = PathBuf::from(env::var("OUT_DIR")?);
    for name in DATABASES {
        let path = Path::new("results").join(name);
        println!("cargo:rerun-if-changed={}", path.display());
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        packed.write_all(&fs::read(path)?)?;
        fs::write(folder.join(name).with_extension("toml.gz"), packed.finish()?)?;
    }
    Ok(())
}
