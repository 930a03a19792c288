//! The library for a process on musl, which never unmaps one. Its file stays, so that the next attach maps nothing more.
//!
//! musl's `dlopen` opens the path, and returns the library already loaded from the same device and inode. So a second attach must use the
//! path of the same file. The name depends on the content: another version of the library has another name. Processes that see the
//! directory share the file.
//! A file is reused only in a directory also suitable for a new one, and only after a comparison byte by byte through a descriptor.
//! See `docs/design/0017-musl.md`.

use super::candidates::{Purpose, for_the_library};
use super::{LIBRARY_MODE, LIBRARY_PREFIX, MUSL_SUFFIX, Placed, open, place_named, placed, target_rights, trusted};
use crate::error::Error;
use crate::foreign::opened;
use crate::process::Process;
use crate::view::Directory;
use rustix::fs::{FileType, FlockOperation, RenameFlags};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::Hasher;
use std::io::Read;

/// Places the library: the file of an earlier attach, or a new file where the next attach finds it.
pub(super) fn place(process: &Process, library: &[u8]) -> Result<Placed, Error> {
    process.require_same()?;
    let name = name_of(library);
    if let Some(found) = find(process, &name, library)? {
        return Ok(found);
    }
    let mut new = place_named(process, library, MUSL_SUFFIX)?;
    new.is_reusable = publish(&mut new, &name);
    // Another run may have been faster. If a foreign file has that name, this file keeps its own, and is deleted when not needed.
    let faster = if new.is_reusable { None } else { find(process, &name, library)? };
    Ok(faster.unwrap_or(new))
}

/// The name of the file with this content.
fn name_of(library: &[u8]) -> OsString {
    // The content is compared, too: the hash need only differ between versions.
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(library);
    OsString::from(format!("{LIBRARY_PREFIX}{:016x}{MUSL_SUFFIX}", hasher.finish()))
}

fn find(process: &Process, name: &OsStr, library: &[u8]) -> Result<Option<Placed>, Error> {
    let who = target_rights(process)?;
    let trusted = trusted(process, &who);
    let found = for_the_library(process).iter().find_map(|path| {
        let directory = open(process, path, &who, Purpose::Library { bytes: 0 }).ok()?;
        let file = verified(&directory, name, library, &trusted)?;
        let mut found = placed(directory, name.to_owned());
        (found.file, found.is_reusable) = (Some(file.into()), true);
        Some(found)
    });
    Ok(found)
}

/// The file of this name, locked as in use, if it is ours and no other user could or can change it.
fn verified(directory: &Directory, name: &OsStr, library: &[u8], trusted: &[u32]) -> Option<File> {
    let (file, facts) = directory.file(name).ok()?;
    let is_ours = FileType::from_raw_mode(facts.st_mode) == FileType::RegularFile
        && facts.st_mode & 0o7777 == LIBRARY_MODE
        && trusted.contains(&facts.st_uid)
        && u64::try_from(facts.st_size) == Ok(library.len() as u64);
    let mut file = opened(file).ok().filter(|_| is_ours)?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared).ok()?;
    let mut content = Vec::with_capacity(library.len());
    file.by_ref().take(library.len() as u64 + 1).read_to_end(&mut content).ok()?;
    (content == library).then_some(file)
}

/// Gives a new file the name by which others find it; false if it keeps its own.
fn publish(new: &mut Placed, name: &OsStr) -> bool {
    let (Some((directory, own)), Some(file)) = (&mut new.place, &new.file) else { return false };
    let shared = rustix::fs::flock(file, FlockOperation::NonBlockingLockShared);
    let renamed = shared
        .and_then(|()| rustix::fs::renameat_with(directory.fd(), &*own, directory.fd(), name, RenameFlags::NOREPLACE));
    if renamed.is_err() {
        return false;
    }
    *own = name.to_owned();
    new.host_path.set_file_name(name);
    new.target_path = directory.path().join(name);
    new.mapped_name = name.to_string_lossy().into_owned();
    true
}
