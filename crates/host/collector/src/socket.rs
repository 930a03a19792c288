//! Asks the kernel for the target's end of a connection, so that the receipt can check that socket later.
//!
//! Rejected: comparing the target's sockets before and after. A server opens its own at any moment.

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with};
use std::os::fd::AsFd;

/// `SOCK_DIAG_BY_FAMILY`.
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST`.
const REQUEST: u16 = 1;
/// `UDIAG_SHOW_PEER`.
const SHOW_PEER: u32 = 4;
/// `UNIX_DIAG_PEER`.
const PEER: u16 = 2;
/// Bytes of a message's header.
const HEADER: usize = 16;
/// Bytes of the fixed part of the answer, after the header.
const ANSWER: usize = 16;

/// The inode of the other end of a connected Unix socket; `None` if the kernel does not report it (built without `unix_diag`).
pub fn peer_inode(socket: impl AsFd) -> Option<u64> {
    let own = rustix::fs::fstat(socket).ok()?.st_ino;
    let answer = ask(u32::try_from(own).ok()?).ok()?;
    // The kernel reports a closed end as 0.
    peer_in(&answer).filter(|inode| *inode > 0).map(u64::from)
}

fn ask(inode: u32) -> Result<Vec<u8>, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let kernel = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(netlink::SOCK_DIAG))?;
    send(&kernel, &question(inode), SendFlags::empty())?;
    // The kernel answers within `send`: no need to wait.
    let mut answer = vec![0; 512];
    let (length, _) = recv(&kernel, &mut answer[..], RecvFlags::empty())?;
    answer.truncate(length);
    Ok(answer)
}

/// A message header and a `unix_diag_req` for one socket.
fn question(inode: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + 24);
    bytes.extend_from_slice(&(HEADER as u32 + 24).to_ne_bytes());
    bytes.extend_from_slice(&BY_FAMILY.to_ne_bytes());
    bytes.extend_from_slice(&REQUEST.to_ne_bytes());
    bytes.extend_from_slice(&[0; 8]);
    // Family AF_UNIX, no protocol, padding; any state.
    bytes.extend_from_slice(&[1, 0, 0, 0]);
    for word in [u32::MAX, inode, SHOW_PEER, u32::MAX, u32::MAX] {
        bytes.extend_from_slice(&word.to_ne_bytes());
    }
    bytes
}

/// The peer among an answer's attributes.
fn peer_in(answer: &[u8]) -> Option<u32> {
    let short = |at: usize| Some(u16::from_ne_bytes(*answer.get(at..)?.first_chunk()?));
    if short(4)? != BY_FAMILY {
        return None;
    }
    let mut at = HEADER + ANSWER;
    loop {
        let (length, kind) = (usize::from(short(at)?), short(at + 2)?);
        if kind == PEER {
            return Some(u32::from_ne_bytes(*answer.get(at + 4..)?.first_chunk()?));
        }
        at += length.max(4).next_multiple_of(4);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_other_end_of_a_connection_is_recognized_by_the_kernel() {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let wanted = rustix::fs::fstat(&theirs).expect("it is open").st_ino;
        assert_eq!(peer_inode(&ours), Some(wanted));
        drop(theirs);
        assert_eq!(peer_inode(&ours), None);
    }

    #[test]
    fn an_answer_that_is_cut_or_an_error_tells_nothing() {
        let (ours, _theirs) = UnixStream::pair().expect("a pair");
        let own = rustix::fs::fstat(&ours).expect("it is open").st_ino;
        let answer = ask(u32::try_from(own).expect("inodes of sockets are small")).expect("an answer");
        assert!(peer_in(&answer).is_some());
        for length in 0..HEADER + ANSWER + 8 {
            assert_eq!(peer_in(&answer[..length]), None, "{length}");
        }
        let nobody = ask(u32::MAX).expect("an answer");
        assert_eq!(peer_in(&nobody), None);
    }
}
