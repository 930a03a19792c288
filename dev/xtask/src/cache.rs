//! The cache folder for everything that was fetched or built once: runtimes, the C# compiler, compiled test programs, tools.
//!
//! An entry is made in a temporary folder and renamed into place, so every entry is complete.
//! A lock makes concurrent runs take turns, so neither fetches what the other is fetching.

use crate::outcome::{Context, Outcome};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// `$REMORA_CACHE`, else `$XDG_CACHE_HOME/remora`, else `~/.cache/remora`. For root, whose home is closed to others, `/var/cache/remora`:
/// tests run programs as other users.
pub fn folder() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    set("REMORA_CACHE")
        .or_else(|| is_root.then(|| PathBuf::from("/var/cache/remora")))
        .or_else(|| set("XDG_CACHE_HOME").map(|folder| folder.join("remora")))
        .or_else(|| set("HOME").map(|folder| folder.join(".cache/remora")))
        .unwrap_or_else(|| crate::root().join("target/remora-cache"))
}

/// The folder `name` in the cache; if missing, `make` creates it in a temporary folder.
pub fn provide(name: &str, make: impl FnOnce(&Path) -> Outcome<()>) -> Outcome<PathBuf> {
    provide_in(&folder(), name, make)
}

fn provide_in(cache: &Path, name: &str, make: impl FnOnce(&Path) -> Outcome<()>) -> Outcome<PathBuf> {
    let place = cache.join(name);
    if place.is_dir() {
        return Ok(place);
    }
    let parent = place.parent().unwrap_or(cache);
    fs::create_dir_all(parent).context(|| format!("cannot make the cache folder {}", parent.display()))?;
    let flat_name = name.replace('/', "-");
    let lock_path = cache.join(format!(".{flat_name}.lock"));
    let lock = File::create(&lock_path).context(|| format!("cannot make {}", lock_path.display()))?;
    lock.lock().context(|| format!("cannot lock {}", lock_path.display()))?;
    if place.is_dir() {
        return Ok(place);
    }
    let unfinished = empty_folder(&cache.join(format!(".{flat_name}.unfinished")))?;
    make(&unfinished)?;
    fs::rename(&unfinished, &place).context(|| format!("cannot put {} into place", place.display()))?;
    Ok(place)
}

/// Creates `folder` empty, without leftovers of an earlier run.
pub fn empty_folder(folder: &Path) -> Outcome<PathBuf> {
    if folder.exists() {
        fs::remove_dir_all(folder).context(|| format!("cannot remove {}", folder.display()))?;
    }
    fs::create_dir_all(folder).context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Failure;

    fn test_cache(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("remora-xtask-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn a_thing_is_made_once_and_never_half() {
        let cache = test_cache("cache");
        let failed = provide_in(&cache, "a/b", |folder| {
            fs::write(folder.join("half"), "x").unwrap();
            Err(Failure::new("no network"))
        });
        assert!(failed.is_err());
        assert!(!cache.join("a/b").exists());
        let write = |folder: &Path| fs::write(folder.join("whole"), "x").context(|| "write");
        let made = provide_in(&cache, "a/b", write).unwrap();
        assert!(made.join("whole").exists());
        assert!(!made.join("half").exists());
        provide_in(&cache, "a/b", |_| Err(Failure::new("made twice"))).unwrap();
        fs::remove_dir_all(&cache).unwrap();
    }

    #[test]
    fn two_at_a_time_make_it_once() {
        let cache = test_cache("lock");
        let made = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    provide_in(&cache, "thing", |_| {
                        made.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        Ok(())
                    })
                    .unwrap()
                });
            }
        });
        assert_eq!(made.into_inner(), 1);
        fs::remove_dir_all(&cache).unwrap();
    }
}
