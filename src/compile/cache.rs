//! On-disk cache of compiled images, addressed by a hash of the compiler's inputs.
//! [`super::compiler`] forms the key. The cache only saves time: no failure in it fails a run.
//!
//! Several processes may share one folder. An entry appears atomically, by renaming. A missing,
//! truncated or damaged entry is a miss.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use tempfile::Builder;
use thiserror::Error;

use crate::files::{self, InputKind};

/// Default size limit: about 20,000 cubins of 50 kB, more than a month of tuning.
pub const DEFAULT_MAX_BYTES: u64 = 1 << 30;

/// Magic number of an entry; the digit is the format version.
const MAGIC: &[u8; 8] = b"GTCUBIN1";

/// Name prefix of files that are being written.
const TEMPORARY: &str = "writing-";

/// Age from which a temporary file counts as left over from a crash.
const ABANDONED: Duration = Duration::from_secs(3600);

/// Key of an entry: a hash of everything that the image depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CacheKey(blake3::Hash);

impl CacheKey {
    /// Hashes a list of texts. Each is prefixed with its length, so that different lists never give
    /// the same bytes.
    pub fn of<'a>(fields: impl IntoIterator<Item = &'a str>) -> Self {
        Self(digest(fields.into_iter().map(str::as_bytes)))
    }
}

fn digest<'a>(fields: impl IntoIterator<Item = &'a [u8]>) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    for field in fields {
        hasher.update(&(field.len() as u64).to_le_bytes());
        hasher.update(field);
    }
    hasher.finalize()
}

/// A cached compilation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheEntry {
    /// The cubin, or the PTX text.
    pub image: Arc<[u8]>,
    /// The compiler's log.
    pub log: String,
}

/// JSON header before the image in an entry's file.
#[derive(Serialize, Deserialize)]
struct CacheHeader {
    log: String,
    /// Checksum of log and image.
    blake3: String,
}

impl CacheEntry {
    fn digest(&self) -> String {
        digest([self.log.as_bytes(), &self.image]).to_hex().to_string()
    }

    /// Serialises as magic, header length (4 bytes, little endian), header, image.
    fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let header =
            serde_json::to_vec(&CacheHeader { log: self.log.clone(), blake3: self.digest() })?;
        let length = u32::try_from(header.len()).map_err(io::Error::other)?;
        Ok([MAGIC, &length.to_le_bytes()[..], &header, &self.image].concat())
    }

    /// Parses an entry; `None` for anything that [`CacheEntry::to_bytes`] did not write.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(MAGIC)?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let (header, image) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        let header: CacheHeader = serde_json::from_slice(header).ok()?;
        let entry = Self { image: image.into(), log: header.log };
        (entry.digest() == header.blake3).then_some(entry)
    }
}

/// Hit and miss counts of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheStats {
    /// Images found.
    pub hits: u64,
    /// Images not found.
    pub misses: u64,
}

/// Warning that the cache stopped storing entries in this process.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "cannot write to the compile cache at `{}`: {reason}; every run compiles all kernels until the folder is writable",
    folder.display()
)]
pub struct CacheWarning {
    /// The cache folder.
    pub folder: PathBuf,
    /// The operating system's message.
    pub reason: String,
}

/// A folder of entries with a size limit and least-recently-used eviction.
#[derive(Debug)]
pub struct CubinCache {
    folder: PathBuf,
    max_bytes: u64,
    hits: AtomicU64,
    misses: AtomicU64,
    /// Bytes that may be written before the folder size is measured again.
    allowance: AtomicU64,
    warning: OnceLock<CacheWarning>,
}

impl CubinCache {
    /// Creates a cache in `folder`; the folder is created with the first entry.
    pub fn new(folder: PathBuf, max_bytes: u64) -> Self {
        Self {
            folder,
            max_bytes,
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            // Zero: the first write measures what earlier runs left.
            allowance: AtomicU64::new(0),
            warning: OnceLock::new(),
        }
    }

    /// Returns the entry of `key` and marks it as used now. Removes a damaged entry.
    pub fn get(&self, key: &CacheKey) -> Option<CacheEntry> {
        let entry = self.read(&self.path(key));
        let counter = if entry.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        entry
    }

    fn read(&self, path: &Path) -> Option<CacheEntry> {
        let file = files::open(path, InputKind::CacheEntry).ok()?;
        // An entry is machine code: one that another user wrote is not run.
        files::check_owner(&file).ok()?;
        let mut bytes = Vec::new();
        (&file).take(InputKind::CacheEntry.max_bytes()).read_to_end(&mut bytes).ok()?;
        let entry = CacheEntry::from_bytes(&bytes);
        // Either call may fail in a read-only folder, which changes nothing for the caller.
        let _ = match entry {
            Some(_) => file.set_modified(SystemTime::now()),
            None => fs::remove_file(path),
        };
        entry
    }

    /// Stores `entry` under `key` and evicts when due. After a failed write it stores nothing more:
    /// see [`CubinCache::warning`].
    pub fn put(&self, key: &CacheKey, entry: &CacheEntry) {
        if self.warning.get().is_some() {
            return;
        }
        match self.write(&self.path(key), entry) {
            Ok(bytes) => self.spend(bytes),
            Err(error) => {
                let folder = self.folder.clone();
                self.warning.get_or_init(|| CacheWarning { folder, reason: error.to_string() });
            }
        }
    }

    fn write(&self, path: &Path, entry: &CacheEntry) -> io::Result<u64> {
        let bytes = entry.to_bytes()?;
        let shard = path.parent().unwrap_or(&self.folder);
        files::make_private(shard)?;
        let mut file = Builder::new().prefix(TEMPORARY).tempfile_in(shard)?;
        file.write_all(&bytes)?;
        file.persist(path)?;
        Ok(bytes.len() as u64)
    }

    /// Evicts after every tenth of the limit written, which is also what an eviction frees.
    fn spend(&self, bytes: u64) {
        let spent = self
            .allowance
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
        if spent.is_err() {
            self.allowance.store(self.max_bytes / 10, Ordering::Relaxed);
            self.evict();
        }
    }

    /// Removes the least recently used entries of a folder above its limit, down to 90 % of it.
    pub fn evict(&self) {
        let mut files = self.files();
        let mut total: u64 = files.iter().map(|file| file.bytes).sum();
        if total <= self.max_bytes {
            return;
        }
        files.sort_by_key(|file| file.used);
        for file in files {
            if total <= self.max_bytes / 10 * 9 {
                break;
            }
            // Another process may have removed the file already.
            let _ = fs::remove_file(&file.path);
            total -= file.bytes;
        }
    }

    /// Lists the files of all shards, except those that a process is writing.
    fn files(&self) -> Vec<CachedFile> {
        let shards = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let files = shards.filter_map(|shard| fs::read_dir(shard.path()).ok()).flatten().flatten();
        files
            .filter_map(|file| {
                let metadata = file.metadata().ok()?;
                let used = metadata.modified().ok()?;
                let temporary = file.file_name().to_string_lossy().starts_with(TEMPORARY);
                if temporary && used.elapsed().is_ok_and(|age| age < ABANDONED) {
                    return None;
                }
                Some(CachedFile { path: file.path(), bytes: metadata.len(), used })
            })
            .collect()
    }

    /// Hits and misses since construction.
    pub fn stats(&self) -> CacheStats {
        CacheStats {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
        }
    }

    /// The reason that it stopped storing, if it did.
    pub fn warning(&self) -> Option<&CacheWarning> {
        self.warning.get()
    }

    /// Path of an entry, sharded by the first two digits to keep folders small.
    fn path(&self, key: &CacheKey) -> PathBuf {
        let name = key.0.to_hex();
        self.folder.join(&name[..2]).join(&name[2..])
    }
}

struct CachedFile {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::thread;

    use tempfile::TempDir;

    use super::*;

    fn cache(max_bytes: u64) -> (TempDir, CubinCache) {
        let folder = tempfile::tempdir().unwrap();
        let cache = CubinCache::new(folder.path().join("cubins"), max_bytes);
        (folder, cache)
    }

    fn entry(bytes: usize) -> CacheEntry {
        CacheEntry { image: vec![7; bytes].into(), log: "ptxas info\n".to_owned() }
    }

    fn key(name: &str) -> CacheKey {
        CacheKey::of([name])
    }

    #[test]
    fn a_stored_entry_is_returned_and_counted() {
        let (_folder, cache) = cache(DEFAULT_MAX_BYTES);
        assert_eq!(cache.get(&key("a")), None);
        cache.put(&key("a"), &entry(10));
        assert_eq!(cache.get(&key("a")), Some(entry(10)));
        assert_eq!(cache.get(&key("b")), None);
        assert_eq!(cache.stats(), CacheStats { hits: 1, misses: 2 });
        assert_eq!(cache.warning(), None);
    }

    #[test]
    fn lists_of_fields_never_collide() {
        let lists: [&[&str]; 6] = [&["ab"], &["a", "b"], &["ab", ""], &["", "ab"], &[], &[""]];
        for (i, left) in lists.iter().enumerate() {
            for (j, right) in lists.iter().enumerate() {
                let same =
                    CacheKey::of(left.iter().copied()) == CacheKey::of(right.iter().copied());
                assert_eq!(same, i == j, "{left:?} {right:?}");
            }
        }
    }

    #[test]
    fn a_damaged_entry_is_a_miss_and_is_removed() {
        let whole = entry(40).to_bytes().unwrap();
        let cut = (0..whole.len()).map(|length| whole[..length].to_vec());
        let flipped = (0..whole.len()).map(|at| {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            bytes
        });
        let grown = [[&whole[..], b"x"].concat()];
        let (_folder, cache) = cache(DEFAULT_MAX_BYTES);
        let path = cache.path(&key("a"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        for bytes in cut.chain(flipped).chain(grown) {
            fs::write(&path, &bytes).unwrap();
            assert_eq!(cache.get(&key("a")), None, "{:?}", String::from_utf8_lossy(&bytes));
            assert!(!path.exists());
        }
    }

    #[test]
    fn eviction_removes_the_least_recently_used() {
        let (_folder, cache) = cache(10_000);
        let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
        for (age, name) in names.iter().rev().enumerate() {
            cache.put(&key(name), &entry(900));
            let used = SystemTime::now() - Duration::from_secs(1000 + age as u64);
            File::open(cache.path(&key(name))).unwrap().set_modified(used).unwrap();
        }
        assert!(cache.get(&key("a")).is_some(), "a is used again");
        cache.put(&key("j"), &entry(900));
        cache.evict();
        let kept = |name: &&&str| cache.path(&key(name)).exists();
        let left: Vec<&&str> = names.iter().filter(kept).collect();
        assert_eq!(left, [&"a", &"d", &"e", &"f", &"g", &"h", &"i"]);
        let total: u64 = cache.files().iter().map(|file| file.bytes).sum();
        assert!(total <= 9_000, "{total}");
    }

    #[test]
    fn writes_alone_keep_the_cache_near_its_limit() {
        let (_folder, cache) = cache(20_000);
        for number in 0..200 {
            cache.put(&key(&number.to_string()), &entry(900));
        }
        let total: u64 = cache.files().iter().map(|file| file.bytes).sum();
        assert!((10_000..=22_000 + 1_100).contains(&total), "{total}");
    }

    #[test]
    fn eviction_keeps_files_being_written_and_removes_abandoned_ones() {
        let (_folder, cache) = cache(0);
        let shard = cache.folder.join("00");
        fs::create_dir_all(&shard).unwrap();
        let file = |name: &str, age: Duration| {
            let path = shard.join(name);
            fs::write(&path, "half").unwrap();
            File::open(&path).unwrap().set_modified(SystemTime::now() - age).unwrap();
            path
        };
        let fresh = file("writing-1", Duration::ZERO);
        let abandoned = file("writing-2", ABANDONED * 2);
        cache.evict();
        assert!(fresh.exists());
        assert!(!abandoned.exists());
    }

    #[test]
    fn an_unwritable_folder_warns_and_works_without_a_cache() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let cache = CubinCache::new(file.join("cubins"), DEFAULT_MAX_BYTES);
        cache.put(&key("a"), &entry(10));
        cache.put(&key("b"), &entry(10));
        assert_eq!(cache.get(&key("a")), None);
        let warning = cache.warning().unwrap().to_string();
        assert!(warning.contains("file/cubins`"), "{warning}");
    }

    #[test]
    fn readers_writers_and_evictors_do_not_disturb_each_other() {
        let (folder, _) = cache(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let cache = CubinCache::new(folder.path().join("cubins"), 5_000);
                    for number in 0..200 {
                        let key = key(&(number % 10).to_string());
                        if let Some(found) = cache.get(&key) {
                            assert_eq!(found, entry(900));
                        }
                        cache.put(&key, &entry(900));
                        cache.evict();
                    }
                    assert_eq!(cache.warning(), None);
                });
            }
        });
    }
}
