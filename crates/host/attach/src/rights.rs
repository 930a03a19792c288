//! Acting on files with the rights of the target's user.

use crate::proc::{Proc, Status};
use nix::unistd::{setfsgid, setfsuid};
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Gid, Signal, dumpable_behavior, getgroups, parent_process_death_signal, set_dumpable_behavior,
    set_parent_process_death_signal,
};
use rustix::thread::set_thread_groups;
use std::io;
use std::marker::PhantomData;

/// Whose rights on files they are: a user, its group, and further groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rights {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
}

impl Rights {
    /// Those that a process has now.
    ///
    /// # Errors
    /// The process is gone.
    pub fn of_process(process_id: u32) -> io::Result<Rights> {
        Proc::default().status(process_id).map(|status| Rights::of(&status))
    }

    /// Those in a process's status.
    pub(crate) fn of(who: &Status) -> Rights {
        Rights { uid: who.file_uid, gid: who.file_gid, groups: who.groups.clone() }
    }

    /// Gives them to this thread until the value is dropped. Files that it makes belong to that user. If it is our own user, nothing changes.
    ///
    /// # Errors
    /// `EPERM`: this process may not act as another user.
    pub(crate) fn assume(&self) -> Result<Assumed, Errno> {
        let own = || rustix::process::geteuid().as_raw();
        if self.uid == own() {
            return Ok(Assumed { before: None, stays_on_its_thread: PhantomData });
        }
        let process = (parent_process_death_signal()?, dumpable_behavior()?);
        let groups = getgroups()?;
        let theirs: Vec<Gid> = self.groups.iter().map(|group| Gid::from_raw(*group)).collect();
        set_thread_groups(&theirs)?;
        // Each call returns the id before it, whether it succeeds or not. The group is first: the user's rights may not suffice.
        let (uid, gid) = (nix::unistd::Uid::from_raw(self.uid), nix::unistd::Gid::from_raw(self.gid));
        let (before_gid, before_uid) = (setfsgid(gid), setfsuid(uid));
        let before = Before { uid: before_uid.as_raw(), gid: before_gid.as_raw(), groups, process };
        let assumed = Assumed { before: Some(before), stays_on_its_thread: PhantomData };
        if (setfsuid(uid), setfsgid(gid)) == (uid, gid) { Ok(assumed) } else { Err(Errno::PERM) }
    }
}

/// This thread has another user's rights on files until this is dropped.
#[derive(Debug)]
pub(crate) struct Assumed {
    before: Option<Before>,
    stays_on_its_thread: PhantomData<*const ()>,
}

#[derive(Debug)]
struct Before {
    uid: u32,
    gid: u32,
    groups: Vec<Gid>,
    /// What the kernel forgets when a thread's ids change.
    process: (Option<Signal>, DumpableBehavior),
}

impl Drop for Assumed {
    fn drop(&mut self) {
        let Some(Before { uid, gid, groups, process: (signal, dumpable) }) = self.before.take() else { return };
        setfsuid(nix::unistd::Uid::from_raw(uid));
        setfsgid(nix::unistd::Gid::from_raw(gid));
        // What could be changed can be changed back.
        let _ = set_thread_groups(&groups);
        let _ = set_parent_process_death_signal(signal);
        let _ = set_dumpable_behavior(dumpable);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A user that nobody else is.
    const STRANGER: u32 = 4_000_001;

    fn now() -> (u32, u32, Vec<u32>, Option<Signal>, DumpableBehavior) {
        let groups = getgroups().expect("known").iter().map(|group| group.as_raw()).collect();
        // An id that nobody has changes nothing.
        let (uid, gid) =
            (setfsuid(nix::unistd::Uid::from_raw(u32::MAX)), setfsgid(nix::unistd::Gid::from_raw(u32::MAX)));
        let (signal, dumpable) = (parent_process_death_signal(), dumpable_behavior());
        (uid.as_raw(), gid.as_raw(), groups, signal.expect("known"), dumpable.expect("known"))
    }

    #[test]
    fn rights_are_a_strangers_for_a_while_and_afterwards_all_is_as_before() {
        set_parent_process_death_signal(Some(Signal::TERM)).expect("set");
        set_dumpable_behavior(DumpableBehavior::Dumpable).expect("set");
        let before = now();
        let rights = Rights { uid: STRANGER, gid: STRANGER, groups: vec![STRANGER + 1, STRANGER + 2] };
        {
            let _assumed = rights.assume().expect("root may");
            let (uid, gid, groups, ..) = now();
            assert_eq!((uid, gid, groups), (STRANGER, STRANGER, vec![STRANGER + 1, STRANGER + 2]));
        }
        assert_eq!(now(), before);
        let own = Rights { uid: rustix::process::geteuid().as_raw(), gid: 1, groups: vec![1] };
        let _assumed = own.assume().expect("nothing to do");
        assert_eq!(now(), before, "of our own user nothing changes");
    }
}
