//! The target's end of the control channel: a Unix socket to the recorder.

use remora_wire::{AgentError, Frame, FromAgent, Received, ToAgent};
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// How long an important message may wait for the recorder to read, milliseconds.
const SEND_TIMEOUT: i32 = 200;

/// A connected channel.
pub struct Channel {
    stream: UnixStream,
    frame: Frame,
    hung_up: bool,
    /// The descriptor that came with a message and that nothing has taken yet.
    received: Option<OwnedFd>,
}

impl Channel {
    /// Connects as [`connect`] does, and never waits for data.
    ///
    /// # Errors
    /// As there.
    pub fn connect(path: &str) -> Result<Channel, AgentError> {
        let stream = connect(path)?;
        stream.set_nonblocking(true)?;
        Ok(Channel { stream, frame: Frame::default(), hung_up: false, received: None })
    }

    /// The descriptor, for waiting.
    pub fn descriptor(&self) -> i32 {
        self.stream.as_raw_fd()
    }

    /// The next message, if it has arrived whole.
    pub fn receive(&mut self) -> Received {
        loop {
            match self.frame.take() {
                Ok(Some(body)) => match ToAgent::decode(body.all()) {
                    Ok(message) => return Received::Message(message),
                    Err(_) => return Received::HungUp,
                },
                Ok(None) if self.hung_up => return Received::HungUp,
                Ok(None) => {}
                Err(_) => return Received::HungUp,
            }
            if !self.read() {
                return if self.hung_up { Received::HungUp } else { Received::Nothing };
            }
        }
    }

    /// The descriptor that came with a message.
    pub fn take_descriptor(&mut self) -> Option<OwnedFd> {
        self.received.take()
    }

    /// Sends a message; gives up if the recorder does not read.
    pub fn send(&mut self, message: &FromAgent) {
        let bytes = message.encode();
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            match self.write(rest) {
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock && self.writable() => {}
                Err(_) => return,
            }
        }
    }

    /// Sends a message if there is room for it now; never waits (contract DET-21).
    pub fn send_at_once(&self, message: &FromAgent) {
        // A message has a few bytes: it fits whole or not at all. Without a reader it is not missed.
        let _ = self.write(&message.encode());
    }

    /// Writes as much as there is room for. The standard library does not promise to suppress SIGPIPE. The recorder may be gone, and the
    /// application may have made that signal deadly again.
    fn write(&self, bytes: &[u8]) -> std::io::Result<usize> {
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        // SAFETY: the bytes are live for the call.
        let written = unsafe { libc::send(self.descriptor(), bytes.as_ptr().cast(), bytes.len(), flags) };
        usize::try_from(written).map_err(|_| std::io::Error::last_os_error())
    }

    fn writable(&self) -> bool {
        let mut poll = libc::pollfd { fd: self.descriptor(), events: libc::POLLOUT, revents: 0 };
        // SAFETY: one live pollfd.
        (unsafe { libc::poll(&raw mut poll, 1, SEND_TIMEOUT) }) == 1 && poll.revents & libc::POLLOUT != 0
    }

    /// Reads available bytes; false if there were none.
    fn read(&mut self) -> bool {
        let mut bytes = [0_u8; 4096];
        let (read, descriptor) = receive_with_descriptor(self.descriptor(), &mut bytes);
        if let Some(descriptor) = descriptor {
            self.received = Some(descriptor);
        }
        match read {
            0 => {
                self.hung_up = true;
                false
            }
            length if length > 0 => {
                self.frame.push(bytes.get(..length as usize).unwrap_or_default());
                true
            }
            _ => {
                let error = std::io::Error::last_os_error().kind();
                self.hung_up = !matches!(error, std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted);
                false
            }
        }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // Read the rest unused, so that the recorder can still read what was sent to it.
        let mut rest = [0_u8; 64];
        while matches!(self.stream.read(&mut rest), Ok(length) if length > 0) {}
    }
}

/// Connects, and checks that the recorder may command us: root, or this process's user.
///
/// # Errors
/// A system error; `EACCES` if the socket belongs to somebody else.
pub fn connect(path: &str) -> Result<UnixStream, AgentError> {
    let stream = UnixStream::connect(path)?;
    let owner = peer(&stream)?;
    // SAFETY: takes no arguments.
    let own = unsafe { libc::geteuid() };
    // Inside a user namespace, root from outside shows as the overflow user. Elsewhere that is an ordinary user.
    const OVERFLOW_USER: u32 = 65534;
    let is_root_from_outside = || owner == OVERFLOW_USER && !is_whole(&read_map());
    if owner != 0 && owner != own && !is_root_from_outside() {
        return Err(AgentError::system(libc::EACCES));
    }
    Ok(stream)
}

/// The user ids of this user namespace, and those outside that they stand for. Empty if unreadable.
fn read_map() -> String {
    std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default()
}

/// Whether such a map has each user id as itself: then nobody from outside is shown by another one.
fn is_whole(map: &str) -> bool {
    map.split_ascii_whitespace().eq(["0", "0", "4294967295"])
}

fn peer(stream: &UnixStream) -> Result<u32, AgentError> {
    let mut credentials = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `credentials` and `length` are live and agree.
    let answer = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &raw mut length,
        )
    };
    if answer == 0 { Ok(credentials.uid) } else { Err(std::io::Error::last_os_error().into()) }
}

/// One `recvmsg` that does not wait, with room for one descriptor, which arrives closed-on-exec. Returns what `recvmsg` returns.
pub fn receive_with_descriptor(socket: i32, bytes: &mut [u8]) -> (isize, Option<OwnedFd>) {
    #[repr(align(8))]
    struct Control([u8; 64]);
    let mut control = Control([0; 64]);
    let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut vector;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len();
    // SAFETY: `message` points to live buffers of the lengths it names.
    let read = unsafe { libc::recvmsg(socket, &raw mut message, libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT) };
    if read <= 0 {
        return (read, None);
    }
    // SAFETY: `message` was filled by recvmsg.
    let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    if header.is_null() {
        return (read, None);
    }
    // SAFETY: CMSG_FIRSTHDR returns null or a whole header inside the control buffer.
    let (level, kind, length) = unsafe { ((*header).cmsg_level, (*header).cmsg_type, (*header).cmsg_len) };
    // SAFETY: only computes a length.
    let wanted = unsafe { libc::CMSG_LEN(4) } as usize;
    if level != libc::SOL_SOCKET || kind != libc::SCM_RIGHTS || length < wanted {
        return (read, None);
    }
    // SAFETY: the header says that a descriptor's four bytes follow.
    let descriptor = unsafe { std::ptr::read_unaligned(libc::CMSG_DATA(header).cast::<i32>()) };
    // SAFETY: the kernel has just given us this descriptor.
    (read, Some(unsafe { OwnedFd::from_raw_fd(descriptor) }))
}

#[cfg(test)]
mod tests {
    use super::is_whole;

    #[test]
    fn the_user_nobody_was_taken_for_root_from_outside_where_there_is_no_outside() {
        assert!(is_whole("         0          0 4294967295\n"));
        assert!(!is_whole("         0       1000          1\n         1     100000      65536\n"));
        assert!(!is_whole(""));
    }
}
