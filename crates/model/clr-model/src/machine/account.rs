//! A process's account, and the processes that it may attach to (contract ATT-05).

use crate::differences::RuntimeVersion;
use crate::mutation;
use serde::{Deserialize, Serialize};

/// The user with all rights on Linux.
pub const ROOT: u32 = 0;

/// Windows' integrity level: no process may attach to a higher one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Integrity {
    /// A sandboxed program.
    Low,
    /// An ordinary program.
    Medium,
    /// A program started as administrator.
    High,
    /// A system service.
    System,
}

/// The account of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// The user.
    pub user: u32,
    /// Whether the user is an administrator of Windows.
    pub is_administrator: bool,
    /// Whether the process has enabled SE_DEBUG_NAME. Only an administrator can.
    pub has_debug_privilege: bool,
    /// On Windows.
    pub integrity: Integrity,
}

impl Account {
    /// An ordinary user.
    pub const fn of_user(user: u32) -> Account {
        Account { user, is_administrator: false, has_debug_privilege: false, integrity: Integrity::Medium }
    }

    /// An administrator without SE_DEBUG_NAME, which must be enabled separately.
    pub const fn of_administrator(user: u32) -> Account {
        Account { user, is_administrator: true, has_debug_privilege: false, integrity: Integrity::High }
    }

    /// With SE_DEBUG_NAME enabled.
    #[must_use]
    pub const fn with_debug_privilege(self) -> Account {
        Account { has_debug_privilege: true, ..self }
    }

    /// At another integrity level.
    #[must_use]
    pub const fn at(self, integrity: Integrity) -> Account {
        Account { integrity, ..self }
    }

    /// Whether it may attach to a process of `target`.
    ///
    /// Windows: seed 004, "Users and Integrity". Linux: the socket has mode 0600, so its owner and root (ds-ipc-pal-socket.c).
    pub(super) fn may_attach_to(&self, target: &Account, runtime_version: RuntimeVersion) -> bool {
        if mutation::is("ATT-05") {
            return true;
        }
        if runtime_version != RuntimeVersion::Desktop4 {
            return self.user == target.user || self.user == ROOT;
        }
        let crosses_users = self.is_administrator && (self.has_debug_privilege || mutation::is("ATT-05/3"));
        let is_trusted = self.integrity >= target.integrity || mutation::is("ATT-05/2");
        is_trusted && (self.user == target.user || crosses_users)
    }
}
