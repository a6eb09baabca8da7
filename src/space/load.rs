//! Where families come from: those built into the program, and a folder of a user's own. The only
//! file of this room that touches a disk.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use include_dir::{Dir, include_dir};
use thiserror::Error;

use super::family::Family;
use super::ladder::{self, Rung};
use super::seeds;
use crate::files::{self, InputKind};
use crate::model::Diagnostic;
use crate::model::diagnostic::did_you_mean;

static BUILT_IN: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/search-spaces");

/// Why families could not be had.
#[derive(Debug, Error)]
pub enum LoadError {
    /// A search-space file is wrong.
    #[error("{0}")]
    File(Box<Diagnostic>),
    /// A file or folder cannot be read.
    #[error("cannot read `{}`: {error}", .path.display())]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        error: std::io::Error,
    },
    /// A folder holds no search space.
    #[error("`{}` holds no search space: put NAME.toml files there", .0.display())]
    Empty(PathBuf),
    /// Two files declare one name.
    #[error("`{second}` declares family `{name}`, which `{first}` declares already")]
    Twice {
        /// The name.
        name: String,
        /// The file that came first.
        first: String,
        /// The other.
        second: String,
    },
    /// A name that no family has.
    #[error("no family is named `{name}`{}", .help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default())]
    Unknown {
        /// The requested name.
        name: String,
        /// A guess, or the names that exist.
        help: Option<String>,
    },
}

impl LoadError {
    /// That none of `known` is `name`, with a guess.
    pub fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone) -> Self {
        let help = did_you_mean(name, known.clone())
            .unwrap_or_else(|| format!("there are {}", known.collect::<Vec<_>>().join(", ")));
        Self::Unknown { name: name.to_owned(), help: Some(help) }
    }
}

/// The ladder that comes with the program, or that of a folder of search spaces.
///
/// # Errors
/// A file that is missing, cannot be read or is no ladder.
pub fn ladder(folder: Option<&Path>) -> Result<Vec<Rung>, LoadError> {
    let Some(folder) = folder else {
        let text = BUILT_IN.get_file(ladder::FILE).and_then(|file| file.contents_utf8());
        return ladder::parse(ladder::FILE, text.unwrap_or_default());
    };
    let path = folder.join(ladder::FILE);
    let text = files::read_text(&path, InputKind::SearchSpace)
        .map_err(|error| LoadError::Unreadable { path: path.clone(), error })?;
    ladder::parse(&path.to_string_lossy(), &text)
}

/// Families by name.
#[derive(Debug, Clone)]
pub struct Families(BTreeMap<String, Family>);

impl Families {
    /// The families that come with the program.
    ///
    /// # Errors
    /// None in a released program: the files are part of it and tested.
    pub fn built_in() -> Result<Self, LoadError> {
        let files = BUILT_IN.files().filter_map(|file| {
            let name = file.path().to_string_lossy().into_owned();
            name.ends_with(".toml").then_some((name, file.contents_utf8()?.to_owned()))
        });
        let seeds = BUILT_IN.get_dir(seeds::FOLDER).into_iter().flat_map(|folder| folder.files());
        let seeds = seeds.filter_map(|file| {
            let name = file.path().to_string_lossy().into_owned();
            name.ends_with(".toml").then_some((name, file.contents_utf8()?.to_owned()))
        });
        Self::parse(files, seeds)
    }

    /// The families of a folder's `*.toml` files, with the seeds of those in its folder `seeds`.
    ///
    /// # Errors
    /// An unreadable or empty folder, the first wrong file, a name declared twice.
    pub fn from_folder(folder: &Path) -> Result<Self, LoadError> {
        let unreadable =
            |path: &Path, error| LoadError::Unreadable { path: path.to_owned(), error };
        let texts = |folder: &Path| -> Result<BTreeMap<String, String>, LoadError> {
            let mut files = BTreeMap::new();
            for entry in std::fs::read_dir(folder).map_err(|error| unreadable(folder, error))? {
                let path = entry.map_err(|error| unreadable(folder, error))?.path();
                if path.extension().is_some_and(|extension| extension == "toml") {
                    let text = files::read_text(&path, InputKind::SearchSpace)
                        .map_err(|error| unreadable(&path, error))?;
                    files.insert(path.to_string_lossy().into_owned(), text);
                }
            }
            Ok(files)
        };
        let files = texts(folder)?;
        if files.is_empty() {
            return Err(LoadError::Empty(folder.to_owned()));
        }
        let seeds = folder.join(seeds::FOLDER);
        let seeds = if seeds.is_dir() { texts(&seeds)? } else { BTreeMap::new() };
        Self::parse(files, seeds)
    }

    fn parse(
        files: impl IntoIterator<Item = (String, String)>,
        seeds: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, LoadError> {
        let mut families: BTreeMap<String, Family> = BTreeMap::new();
        for (file, text) in files {
            let family = Family::parse(&file, &text).map_err(LoadError::File)?;
            if let Some(first) = families.get(&family.name) {
                return Err(LoadError::Twice {
                    name: family.name.clone(),
                    first: first.file().to_owned(),
                    second: file,
                });
            }
            families.insert(family.name.clone(), family);
        }
        for (file, text) in seeds {
            seeds::add(&file, &text, &mut families).map_err(LoadError::File)?;
        }
        Ok(Self(families))
    }

    /// All families, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Family> {
        self.0.values()
    }

    /// The family of that name.
    ///
    /// # Errors
    /// [`LoadError::Unknown`] with a guess, or the names that exist.
    pub fn get(&self, name: &str) -> Result<&Family, LoadError> {
        self.0.get(name).ok_or_else(|| LoadError::unknown(name, self.0.keys().map(String::as_str)))
    }
}
