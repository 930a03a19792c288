//! Other users, and folders for them.

#![allow(dead_code, reason = "each test program uses its part of it")]

use std::os::unix::fs::PermissionsExt;

/// An unprivileged user.
pub const NOBODY: u32 = 65534;

/// Runs the following command as that user, with root's read access: test programs may be in root's folders.
pub const AS_NOBODY: [&str; 10] = as_user("65534");

/// The same for another unprivileged user.
pub const AS_SOMEBODY: [&str; 10] = as_user("65533");

const fn as_user(user: &str) -> [&str; 10] {
    let (reading, own) = ("-all,+dac_read_search", "+dac_read_search");
    let groups = "--clear-groups";
    ["setpriv", "--reuid", user, "--regid", user, groups, "--inh-caps", reading, "--ambient-caps", own]
}

/// A folder that every user may enter, removed with the value.
pub fn open_folder() -> tempfile::TempDir {
    let folder = remora_e2e::folder();
    let opened = std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755));
    opened.unwrap_or_else(|error| panic!("cannot open {}: {error}", folder.path().display()));
    folder
}
