//! Acting on files with the rights of the target's user.

use crate::proc::Status;
use nix::unistd::{Gid, Uid, setfsgid, setfsuid};
use rustix::io::Errno;

/// This thread has another user's identity for files until the value is dropped. Files that it makes belong to that user.
#[derive(Debug)]
pub(super) struct Identity {
    /// The one before; `None` if it is the same.
    before: Option<(Uid, Gid)>,
}

impl Identity {
    /// That of a process.
    ///
    /// # Errors
    /// `EPERM`: this process may not act as another user.
    pub(super) fn of(who: &Status) -> Result<Identity, Errno> {
        let (uid, gid) = (Uid::from_raw(who.file_uid), Gid::from_raw(who.file_gid));
        if uid == Uid::effective() {
            return Ok(Identity { before: None });
        }
        // Each call returns the identity before it, whether it succeeds or not. The group is first: the user's rights may not suffice.
        let before_gid = setfsgid(gid);
        let before_uid = setfsuid(uid);
        let identity = Identity { before: Some((before_uid, before_gid)) };
        if (setfsuid(uid), setfsgid(gid)) == (uid, gid) { Ok(identity) } else { Err(Errno::PERM) }
    }
}

impl Drop for Identity {
    fn drop(&mut self) {
        if let Some((uid, gid)) = self.before {
            setfsuid(uid);
            setfsgid(gid);
        }
    }
}
