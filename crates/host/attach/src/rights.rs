//! File access with the rights of the target's user.

use crate::status::{Capability, Status};
use nix::unistd::{setfsgid, setfsuid};
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Gid, Signal, dumpable_behavior, getgroups, parent_process_death_signal, set_dumpable_behavior,
    set_parent_process_death_signal,
};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_thread_groups};
use std::marker::PhantomData;

/// Capabilities that affect a thread's file access, as in the kernel's `CAP_FS_MASK`.
const OF_FILES: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::LINUX_IMMUTABLE)
    .union(CapabilitySet::MKNOD)
    .union(CapabilitySet::MAC_OVERRIDE);

/// File rights: a user, its group, supplementary groups, and effective capabilities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rights {
    pub(crate) uid: u32,
    gid: u32,
    groups: Vec<u32>,
    capabilities: CapabilitySet,
}

impl Rights {
    #[cfg(test)]
    pub(crate) fn of_user(user: u32, group: u32, groups: &[u32], capabilities: u64) -> Rights {
        let capabilities = CapabilitySet::from_bits_retain(capabilities);
        Rights { uid: user, gid: group, groups: groups.to_vec(), capabilities }
    }

    /// Whether they include this group.
    pub(crate) fn has_group(&self, group: u32) -> bool {
        self.gid == group || self.groups.contains(&group)
    }

    /// Whether they include this effective capability.
    pub(crate) fn is_capable(&self, capability: Capability) -> bool {
        capability.is_in(self.capabilities.bits())
    }

    /// Those in a process's status.
    ///
    /// A process whose real user is another one is most likely in a set-user-ID program, which its user started: then that user's rights
    /// are meant, and no capabilities. A service that has put root's rights aside keeps root as its real user: there the lesser rights count.
    pub(crate) fn of(who: &Status) -> Rights {
        if who.real_uid != who.file_uid || who.real_gid != who.file_gid {
            let lesser = |real: u32, for_files: u32| if real == 0 { for_files } else { real };
            return Rights {
                uid: lesser(who.real_uid, who.file_uid),
                gid: lesser(who.real_gid, who.file_gid),
                groups: who.groups.clone(),
                capabilities: CapabilitySet::empty(),
            };
        }
        Rights {
            uid: who.file_uid,
            gid: who.file_gid,
            groups: who.groups.clone(),
            capabilities: CapabilitySet::from_bits_retain(who.capabilities),
        }
    }

    /// What these and the `others` of the same process have in common. `None` if it has become another user, neither of them root.
    pub(crate) fn lesser(&self, others: &Rights) -> Option<Rights> {
        let lesser = |this: u32, other: u32| match (this, other) {
            (0, id) | (id, 0) => Some(id),
            (id, other) => (id == other).then_some(id),
        };
        Some(Rights {
            uid: lesser(self.uid, others.uid)?,
            gid: lesser(self.gid, others.gid)?,
            groups: self.groups.iter().copied().filter(|group| others.groups.contains(group)).collect(),
            capabilities: self.capabilities & others.capabilities,
        })
    }

    /// Gives these rights to this thread until the value is dropped. Files it creates belong to that user. For our own user, the groups
    /// remain ours. The thread keeps no file capability that these rights lack, and gets none that it did not have.
    ///
    /// # Errors
    /// `EPERM`: this process may not act as another user.
    pub(crate) fn assume(&self) -> Result<Assumed, Errno> {
        let capabilities = rustix::thread::capabilities(None)?;
        let is_own = self.uid == rustix::process::geteuid().as_raw();
        let mut assumed = Assumed { ids: None, capabilities, stays_on_its_thread: PhantomData };
        if !is_own {
            self.assume_ids(&mut assumed)?;
        }
        // The kernel drops these capabilities only when the file user id changes from root to another.
        let now = rustix::thread::capabilities(None)?;
        set_capabilities(None, CapabilitySets { effective: now.effective & (self.capabilities | !OF_FILES), ..now })?;
        Ok(assumed)
    }

    fn assume_ids(&self, assumed: &mut Assumed) -> Result<(), Errno> {
        let process = (parent_process_death_signal()?, dumpable_behavior()?);
        let groups = getgroups()?;
        let theirs: Vec<Gid> = self.groups.iter().map(|group| Gid::from_raw(*group)).collect();
        set_thread_groups(&theirs)?;
        // Each call returns the previous id, whether it succeeds or not. The group is first: the user's rights may not suffice for it.
        let (uid, gid) = (nix::unistd::Uid::from_raw(self.uid), nix::unistd::Gid::from_raw(self.gid));
        let (before_gid, before_uid) = (setfsgid(gid), setfsuid(uid));
        assumed.ids = Some(Ids { uid: before_uid.as_raw(), gid: before_gid.as_raw(), groups, process });
        if (setfsuid(uid), setfsgid(gid)) == (uid, gid) { Ok(()) } else { Err(Errno::PERM) }
    }
}

/// This thread has another user's file rights until this is dropped.
#[derive(Debug)]
pub(crate) struct Assumed {
    ids: Option<Ids>,
    capabilities: CapabilitySets,
    stays_on_its_thread: PhantomData<*const ()>,
}

/// The previous ids.
#[derive(Debug)]
struct Ids {
    uid: u32,
    gid: u32,
    groups: Vec<Gid>,
    /// Settings that the kernel resets when a thread's ids change.
    process: (Option<Signal>, DumpableBehavior),
}

impl Drop for Assumed {
    fn drop(&mut self) {
        // Every change that succeeded can be undone.
        if let Some(Ids { uid, gid, groups, process: (signal, dumpable) }) = self.ids.take() {
            setfsuid(nix::unistd::Uid::from_raw(uid));
            setfsgid(nix::unistd::Gid::from_raw(gid));
            let _ = set_thread_groups(&groups);
            let _ = set_parent_process_death_signal(signal);
            let _ = set_dumpable_behavior(dumpable);
        }
        let _ = set_capabilities(None, self.capabilities);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foreign::open_in_root;
    use rustix::process::Uid;
    use rustix::thread::{set_keep_capabilities, set_thread_res_uid};
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    /// An unused user id.
    const STRANGER: u32 = 4_000_001;

    fn now() -> (u32, u32, Vec<u32>, Option<Signal>, DumpableBehavior, CapabilitySets) {
        let groups = getgroups().expect("known").iter().map(|group| group.as_raw()).collect();
        // An invalid id changes nothing.
        let (uid, gid) =
            (setfsuid(nix::unistd::Uid::from_raw(u32::MAX)), setfsgid(nix::unistd::Gid::from_raw(u32::MAX)));
        let (signal, dumpable) = (parent_process_death_signal(), dumpable_behavior());
        let capabilities = rustix::thread::capabilities(None).expect("known");
        (uid.as_raw(), gid.as_raw(), groups, signal.expect("known"), dumpable.expect("known"), capabilities)
    }

    fn of_a_stranger() -> Rights {
        let groups = vec![STRANGER + 1, STRANGER + 2];
        Rights { uid: STRANGER, gid: STRANGER, groups, capabilities: CapabilitySet::empty() }
    }

    #[test]
    fn rights_are_a_strangers_for_a_while_and_afterwards_all_is_as_before() {
        set_parent_process_death_signal(Some(Signal::TERM)).expect("set");
        set_dumpable_behavior(DumpableBehavior::Dumpable).expect("set");
        let before = now();
        {
            let _assumed = of_a_stranger().assume().expect("root may");
            let (uid, gid, groups, ..) = now();
            assert_eq!((uid, gid, groups), (STRANGER, STRANGER, vec![STRANGER + 1, STRANGER + 2]));
        }
        assert_eq!(now(), before);
        let own = Rights { uid: rustix::process::geteuid().as_raw(), gid: 1, groups: vec![1], ..Rights::of(&full()) };
        let _assumed = own.assume().expect("nothing to do");
        assert_eq!(now(), before, "of our own user, with all capabilities, nothing changes");
    }

    #[test]
    fn a_set_user_id_program_lends_no_rights_to_the_paths_of_who_started_it() {
        let of = |real_uid, file_uid, real_gid, file_gid| {
            let rights = Rights::of(&Status { real_uid, file_uid, real_gid, file_gid, ..full() });
            (rights.uid, rights.gid, rights.capabilities.is_empty())
        };
        assert_eq!(of(1000, 0, 1000, 1000), (1000, 1000, true), "su, while it waits for a password");
        assert_eq!(of(1000, 1000, 1000, 42), (1000, 1000, true), "a set-group-ID program");
        assert_eq!(of(0, 33, 0, 33), (33, 33, true), "a service that has put root's rights aside");
        assert_eq!(of(0, 0, 0, 0), (0, 0, false), "root");
    }

    /// The status of a root that may do everything.
    fn full() -> Status {
        Status { capabilities: u64::MAX, ..Status::default() }
    }

    /// A command with capabilities from its file kept them, and read files that the target could not.
    #[test]
    fn who_has_capabilities_for_files_keeps_none_that_the_target_does_not_have() {
        let root = tempfile::tempdir().expect("a folder");
        let set = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("set");
        std::fs::write(root.path().join("roots"), "x").expect("written");
        std::fs::write(root.path().join("anothers"), "x").expect("written");
        std::os::unix::fs::chown(root.path().join("anothers"), Some(STRANGER + 1), None).expect("given");
        set(root.path(), 0o755);
        ["roots", "anothers"].into_iter().for_each(|name| set(&root.path().join(name), 0o600));
        let opens = |name: &str, rights: &Rights| open_in_root(root.path(), &name.into(), rights).map(drop);
        let us = rustix::process::geteuid().as_raw();
        let same_without = Rights { uid: us, capabilities: CapabilitySet::empty(), ..of_a_stranger() };
        assert_eq!(opens("anothers", &same_without), Err(Errno::ACCESS), "root without capabilities");
        assert_eq!(opens("anothers", &Rights { uid: us, ..Rights::of(&full()) }), Ok(()), "root with them");
        let as_user = || {
            // The ids and capabilities of this thread only.
            set_keep_capabilities(true).expect("set");
            let user = Uid::from_raw(STRANGER + 7);
            set_thread_res_uid(user, user, user).expect("root may");
            let sets = rustix::thread::capabilities(None).expect("known");
            set_capabilities(None, CapabilitySets { effective: sets.permitted, ..sets }).expect("kept");
            assert!(std::fs::read(root.path().join("roots")).is_ok(), "by its capabilities");
            let before = now();
            let own = Rights { uid: STRANGER + 7, ..of_a_stranger() };
            for rights in [of_a_stranger(), own] {
                assert_eq!(opens("roots", &rights), Err(Errno::ACCESS), "{rights:?}");
                assert_eq!(opens("anothers", &rights), Err(Errno::ACCESS), "{rights:?}");
                assert_eq!(now(), before);
            }
            assert_eq!(opens("roots", &Rights { uid: STRANGER, ..Rights::of(&full()) }), Ok(()));
        };
        std::thread::scope(|scope| scope.spawn(as_user).join()).expect("nothing failed there");
    }
}
