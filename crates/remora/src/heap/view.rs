//! `remora heap view`: a snapshot as a page in the browser, served to this machine's user until Ctrl-C.

use super::steps::step;
use super::{leaves_memory, open};
use crate::args::HeapViewArgs;
use crate::console::{line, note, out};
use crate::failure::{Failure, Place};
use crate::kind::or_other;
use crate::output::{Folder, Unfinished, directory_of};
use crate::stop::{Input, Stop};
use remora_heap_file::{Identity, Snapshot, layouts};
use remora_heap_report::{Found, notes, open_file};
use remora_heap_view::{About, Error, Index, Key, Parts, Server, View, make};
use rustix::fs::Mode;
use rustix::process::geteuid;
use std::cell::RefCell;
use std::env;
use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, BufReader, BufWriter};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Bytes that are written at once.
const BUFFER: usize = 1 << 20;
/// Readable and writable by the owner only.
const PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);

/// Places for the index, in order of preference.
#[derive(Debug, Clone)]
struct Places {
    snapshot: PathBuf,
    /// The index has the snapshot's permissions.
    permissions: Permissions,
    /// The snapshot's owner.
    owner: u32,
    beside: PathBuf,
    /// In the user's cache, if there is one; named by the snapshot's identity, not its name.
    cached: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &HeapViewArgs) -> Result<(), Failure> {
    let file = args.file.as_path();
    let (key, metadata) = identified(file)?;
    let places = Places::of(file, key, &metadata);
    let stop = RefCell::new(Stop::listen(Input::Unheard).map_err(Failure::Signals)?);
    let goes_on = || stop.borrow_mut().wish().is_none();
    let index = match places.found(key) {
        Some(index) => index,
        None => places.made(key, &goes_on)?,
    };
    let complete = index.about.complete;
    let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
    let again = places.clone();
    let view = View::new(index, name, move || {
        note(&format!("the index of {} turned out to be damaged", again.snapshot.display()));
        again.made(key, &|| true).map_err(|failure| failure.to_string())
    });
    let server = Server::listen(args.port, view).map_err(|error| Failure::Port { port: args.port, error })?;
    out(&line(format!("open {} (Ctrl-C ends)", server.address())))?;
    server.serve(&mut || goes_on()).map_err(|error| Failure::Port { port: args.port, error })?;
    if complete { Ok(()) } else { Err(Failure::PartOfTheHeap { file: file.to_owned() }) }
}

/// The snapshot's identity and file metadata.
fn identified(file: &Path) -> Result<(Key, Metadata), Failure> {
    let opened = open_file(file)?;
    let metadata = opened.metadata().map_err(|error| Failure::Input { file: file.to_owned(), error })?;
    let unread = |error| or_other(file, Failure::HeapFile { file: file.to_owned(), error });
    let identity = Identity::of(opened).map_err(unread)?;
    Ok((Key { length: identity.length, digest: identity.digest }, metadata))
}

impl Places {
    fn of(snapshot: &Path, key: Key, metadata: &Metadata) -> Places {
        let mut beside = snapshot.as_os_str().to_owned();
        beside.push(".index");
        let cached =
            cache().map(|cache| cache.join("remora").join(format!("{:x}-{:016x}.index", key.length, key.digest)));
        let permissions = Permissions::from_mode(metadata.permissions().mode() & 0o666);
        Places { snapshot: snapshot.to_owned(), permissions, owner: metadata.uid(), beside: beside.into(), cached }
    }

    /// An existing, valid index.
    fn found(&self, key: Key) -> Option<Index> {
        let open = |place: &PathBuf| {
            let found = Folder::open(&directory_of(place)).ok()?.find(place.file_name()?).ok()?;
            Index::open(found.open_file(|owner| is_trusted(owner, self.owner)).ok()?, key).ok()
        };
        open(&self.beside).or_else(|| self.cached.as_ref().and_then(open))
    }

    /// Whether another user's file has the name beside the snapshot. In a world-writable folder it can be neither trusted nor replaced.
    fn is_taken(&self) -> bool {
        fs::symlink_metadata(&self.beside).is_ok_and(|metadata| !is_trusted(metadata.uid(), self.owner))
    }

    /// Builds an index in the first folder that can store it.
    fn made(&self, key: Key, goes_on: &dyn Fn() -> bool) -> Result<Index, Failure> {
        let begun = Instant::now();
        note(&format!("making the index of {}, once", self.snapshot.display()));
        let mut refused = None;
        for (place, permissions) in self.folders() {
            match self.made_in(&place, permissions, key, goes_on) {
                Ok(index) => {
                    let seconds = begun.elapsed().as_secs_f64();
                    note(&format!("made in {seconds:.1} s, and kept in {}", place.display()));
                    return Ok(index);
                }
                Err(Trouble::OfPlace(failure)) => refused = refused.or(Some(failure)),
                Err(Trouble::Other(failure)) => return Err(failure),
            }
        }
        // This place is always possible. If another user's file is there and there is no cache, it is refused as existing.
        Err(refused.unwrap_or_else(|| Failure::Exists(Place::Index(self.beside.clone()))))
    }

    /// Folders for the index with their permissions: beside the snapshot, unless another user's file has that name; then the cache.
    fn folders(&self) -> Vec<(PathBuf, Permissions)> {
        let beside = (!self.is_taken()).then(|| (self.beside.clone(), self.permissions.clone()));
        let cached = self.cached.clone().map(|cached| (cached, Permissions::from_mode(PRIVATE.bits())));
        beside.into_iter().chain(cached).collect()
    }

    fn made_in(
        &self,
        place: &Path,
        permissions: Permissions,
        key: Key,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Index, Trouble> {
        if let Some(folder) = place.parent().filter(|_| place != self.beside) {
            // If this fails, creating the file fails, too, and that error is reported.
            let _ = Folder::open_or_make_all(folder, Mode::RWXU);
        }
        let part = Part::new(place, permissions).map_err(Trouble::OfPlace)?;
        let made = self.fill(&part, key, goes_on).and_then(|()| part.place().map_err(Trouble::OfPlace));
        if made.is_err() {
            // A partial file is useless. A failed removal is not the error to report.
            let _ = part.unfinished.remove();
        }
        made?;
        // Read through the descriptor that wrote it: what has its name by now may be another file.
        Index::open(part.file, key).map_err(|error| Trouble::Other(Failure::Index(error)))
    }

    fn fill(&self, part: &Part, key: Key, goes_on: &dyn Fn() -> bool) -> Result<(), Trouble> {
        let snapshot = open(&self.snapshot).map_err(Trouble::Other)?;
        if identified(&self.snapshot).map_err(Trouble::Other)?.0 != key {
            let error = io::Error::other("it was changed while it was read");
            return Err(Trouble::Other(Failure::Input { file: self.snapshot.clone(), error }));
        }
        leaves_memory(&self.snapshot, &snapshot.graph).map_err(Trouble::Other)?;
        let mut out = BufWriter::with_capacity(BUFFER, &part.file);
        // The page works without both.
        let layouts =
            open_file(&self.snapshot).ok().and_then(|file| layouts(BufReader::with_capacity(BUFFER, file)).ok());
        let layouts = layouts.unwrap_or_default();
        let found = |tree: &_| {
            let found = Found::of(&self.snapshot, &snapshot, tree).ok();
            serde_json::to_value(found).unwrap_or_default()
        };
        let (graph, about) = (&snapshot.graph, about(&snapshot));
        let parts = Parts { graph, layouts: &layouts, about, found: &found, key, goes_on };
        let making = || make(parts, &mut out);
        step("making the index", making).map_err(|error| match error {
            Error::Write(error) => Trouble::OfPlace(Failure::output(Place::Index(part.place.clone()), error)),
            error => Trouble::Other(Failure::Index(error)),
        })
    }
}

/// Why there is no index.
enum Trouble {
    /// Another place may work.
    OfPlace(Failure),
    /// No other place would work.
    Other(Failure),
}

/// An index before its rename.
struct Part {
    file: File,
    unfinished: Unfinished,
    folder: Folder,
    place: PathBuf,
    permissions: Permissions,
}

impl Part {
    fn new(place: &Path, permissions: Permissions) -> Result<Part, Failure> {
        let begin = || {
            let folder = Folder::open(&directory_of(place))?;
            let name = place.file_name().unwrap_or_default().to_string_lossy();
            let (unfinished, file) = folder.create(&format!(".{name}."), ".part", PRIVATE)?;
            Ok(Part { file, unfinished, folder, place: place.to_owned(), permissions })
        };
        begin().map_err(|error| Failure::output(Place::Index(place.to_owned()), error))
    }

    fn place(&self) -> Result<(), Failure> {
        let name = self.place.file_name().unwrap_or_default();
        let placed = self.file.set_permissions(self.permissions.clone());
        let placed = placed.and_then(|()| Ok(self.unfinished.rename(&self.folder, name, true)?));
        placed.map_err(|error| Failure::output(Place::Index(self.place.clone()), error))
    }
}

/// Whether an index of this owner is trusted: our own, the snapshot owner's, root's. Any other user could forge its content.
fn is_trusted(owner: u32, of_snapshot: u32) -> bool {
    [geteuid().as_raw(), of_snapshot, 0].contains(&owner)
}

/// The cache folder; a relative path must be ignored.
/// Source: the XDG Base Directory Specification, version 0.8, "Environment variables".
fn cache() -> Option<PathBuf> {
    let folder = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    folder("XDG_CACHE_HOME").or_else(|| folder("HOME").map(|home| home.join(".cache")))
}

fn about(snapshot: &Snapshot) -> About {
    About {
        application: snapshot.state.application.clone(),
        process_id: snapshot.state.process_id,
        runtime: snapshot.state.runtime.clone(),
        taken_unix_nanoseconds: snapshot.state.taken_unix_nanoseconds,
        complete: snapshot.is_complete(),
        has_garbage: snapshot.state.has_garbage,
        free_bytes: snapshot.free_bytes,
        notes: notes(snapshot),
        ..About::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_believed_if_it_is_ones_own_or_of_who_owns_the_snapshot() {
        let own = geteuid().as_raw();
        assert!(is_trusted(own, 7) && is_trusted(7, 7) && is_trusted(0, 7));
        assert!(!is_trusted(own + 4711, 7));
    }
}
