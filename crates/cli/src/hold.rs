//! One recording of a process at a time: a name that is bound while it is recorded, so that two that start at the same instant
//! cannot both attach.
//!
//! The name is an abstract Unix socket's. The kernel takes it back when its holder ends, however that ends; it is the same for
//! whoever looks from another mount or pid namespace, since it is made of the process's innermost id, that id's namespace and the
//! start time. Network namespaces have names of their own: two that record from different ones do not see each other here, and
//! are told apart by the agent's memory only ([`crate::holder`]).
//!
//! It is held whatever the engine: one recording stops or signals the threads that the other measures.

use crate::failure::Failure;
use remora_trigger::Process;
use rustix::net::sockopt::socket_peercred;
use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

/// How often the name is tried for while its holder goes away.
const TRIES: usize = 16;

/// The hold. It ends with the value, or with this process.
#[derive(Debug)]
pub(crate) struct Hold {
    /// `None` where the name could not be had for a reason that does not concern other recordings.
    _name: Option<UnixListener>,
}

impl Hold {
    /// Takes it, or tells who has it.
    pub(crate) fn take(process: &Process) -> Result<Hold, Failure> {
        let name = name(process);
        for _ in 0..TRIES {
            match bind(&name) {
                Ok(listener) => return Ok(Hold { _name: Some(listener) }),
                Err(error) if error.kind() == ErrorKind::AddrInUse => {}
                // A sandbox without Unix sockets: the agent will say so if it matters.
                Err(_) => break,
            }
            if let Some(holder) = holder_of(&name, process.uid) {
                return Err(Failure::Held { process_id: process.pid, holder: crate::holder::shown(holder) });
            }
        }
        Ok(Hold { _name: None })
    }
}

/// The process that holds this one, if there is one.
pub(crate) fn holder(process: &Process) -> Option<u32> {
    holder_of(&name(process), process.uid).filter(|holder| *holder != std::process::id())
}

fn name(process: &Process) -> String {
    // Who may not know the namespace may not record the process either.
    let namespace = std::fs::metadata(format!("/proc/{}/ns/pid", process.pid)).map_or(0, |facts| facts.ino());
    format!("remora-recording-{namespace}-{}-{}", process.namespaced_pid, process.start_time)
}

fn bind(name: &str) -> std::io::Result<UnixListener> {
    UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)
}

/// Who listens on the name; 0 for a process that cannot be seen from here. Anybody may take it; only who could record the process is believed: its user, root, and our own.
fn holder_of(name: &str, user_id: u32) -> Option<u32> {
    let stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name).ok()?).ok()?;
    let credentials = socket_peercred(&stream).ok()?;
    let believed = [0, user_id, rustix::process::geteuid().as_raw()];
    if !believed.contains(&credentials.uid.as_raw()) {
        return None;
    }
    u32::try_from(credentials.pid.as_raw_nonzero().get()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody else's name.
    fn own(what: &str) -> String {
        format!("remora-test-{}-{what}", std::process::id())
    }

    #[test]
    fn a_name_has_one_holder_who_is_told_and_is_free_when_that_ends() {
        let name = own("one");
        let user = rustix::process::geteuid().as_raw();
        assert_eq!(holder_of(&name, user), None);
        let first = bind(&name).expect("it is free");
        assert_eq!(bind(&name).expect_err("it is taken").kind(), ErrorKind::AddrInUse);
        assert_eq!(holder_of(&name, user), Some(std::process::id()));
        drop(first);
        assert_eq!(holder_of(&name, user), None);
        bind(&name).expect("it is free again");
    }
}
