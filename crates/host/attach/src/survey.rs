//! Data shared by many processes, read once for all of them: user names, and the listening sockets of each network namespace.
//!
//! Valid for one listing.

use crate::proc::{ListeningSocket, Proc};
use remora_symbols::TargetText;
use std::collections::HashMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Sockets by the device and inode of the file that lists them, which differ between network namespaces.
type ByNamespace = HashMap<(u64, u64), Arc<[ListeningSocket]>>;

/// Bytes of arguments kept of all processes of one listing. A user could start thousands, each with as many as are read of one.
const MOST_ARGUMENTS: usize = 64 << 20;
/// Bytes kept of each process beyond that.
const BEGINNING: usize = 1 << 10;

/// Data shared by the processes of one listing.
pub(crate) struct Survey {
    pub(crate) users: Users,
    listening: Mutex<ByNamespace>,
    left: AtomicUsize,
}

impl Survey {
    /// Starts a survey.
    pub(crate) fn begin() -> Survey {
        Survey { users: Users::local(), listening: Mutex::default(), left: AtomicUsize::new(MOST_ARGUMENTS) }
    }

    /// The arguments of a process. Once the listing has too many, their beginning.
    pub(crate) fn kept(&self, arguments: Vec<TargetText>) -> Vec<TargetText> {
        let bytes = arguments.iter().map(TargetText::len).sum::<usize>();
        let takes = |left: usize| left.checked_sub(bytes);
        match self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, takes) {
            Ok(_) => arguments,
            Err(_) => vec![TargetText::joined(&arguments).within(BEGINNING).into(), "…".into()],
        }
    }

    /// The listening sockets of the process's network namespace; the file's identity is that of the namespace.
    pub(crate) fn listening(&self, proc: &Proc, pid: u32) -> io::Result<Arc<[ListeningSocket]>> {
        let file = std::fs::metadata(proc.path(pid, "net/unix"))?;
        let key = (file.dev(), file.ino());
        let all = || self.listening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all().get(&key) {
            return Ok(Arc::clone(known));
        }
        let sockets: Arc<[ListeningSocket]> = proc.listening(pid)?.into();
        all().insert(key, Arc::clone(&sockets));
        Ok(sockets)
    }
}

/// Names of users.
pub(crate) struct Users(Vec<(u32, String)>);

impl Users {
    /// Reads the local user names.
    fn local() -> Users {
        Users::parse(&std::fs::read_to_string("/etc/passwd").unwrap_or_default())
    }

    fn parse(text: &str) -> Users {
        Users(
            text.lines()
                .filter_map(|line| {
                    let mut fields = line.split(':');
                    let name = fields.next()?;
                    Some((fields.nth(1)?.parse().ok()?, name.to_owned()))
                })
                .collect(),
        )
    }

    /// The name of a user.
    pub(crate) fn name(&self, uid: u32) -> Option<String> {
        self.0.iter().find(|(id, _)| *id == uid).map(|(_, name)| name.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_all_processes_of_a_list_are_kept_up_to_a_sum() {
        let survey = Survey::begin();
        let one = || vec![TargetText::from_bytes(&vec![b'a'; MOST_ARGUMENTS / 8])];
        for _ in 0..8 {
            assert_eq!(survey.kept(one()), one());
        }
        let short = survey.kept(one());
        assert!(short.iter().map(TargetText::len).sum::<usize>() < 10_000, "{}", short.len());
        assert!(short[1].is_one_of(&["…"]));
    }

    #[test]
    fn users_are_named_by_the_local_list() {
        let users = Users::parse("root:x:0:0:root:/root:/bin/sh\nbroken\napp:x:1654:1654::/home/app:/bin/sh\n");
        assert_eq!((users.name(1654).as_deref(), users.name(7)), (Some("app"), None));
    }
}
