//! Compresses the databases that are embedded in the program, and rebuilds it when a file appears in the folders that are
//! embedded.

use std::error::Error;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use flate2::Compression;
use flate2::write::GzEncoder;

fn main() -> Result<(), Box<dyn Error>> {
    for path in ["build.rs", "devices", "templates", "search-spaces"] {
        println!("cargo:rerun-if-changed={path}");
    }
    let folder = PathBuf::from(env::var("OUT_DIR")?);
    // The GPUs of `src/files/shipped_gpus.rs`: each has a file of its limits.
    for entry in fs::read_dir("devices")? {
        let name = entry?.file_name();
        let path = Path::new("results").join(&name);
        println!("cargo:rerun-if-changed={}", path.display());
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        packed.write_all(&fs::read(path)?)?;
        fs::write(folder.join(&name).with_extension("toml.gz"), packed.finish()?)?;
    }
    Ok(())
}
