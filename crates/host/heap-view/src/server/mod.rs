//! The server: one user, one machine, one secret.
//!
//! Other users of the machine can open connections, and any page in the user's browser can send requests. So the address contains a secret
//! that neither knows. A request must also name this machine as its host: a page whose host name was made to resolve to this machine names
//! another.
//! A refusal gives no reason, and no request can change anything.

mod connection;
mod reply;
mod request;
mod room;

use crate::view::View;
pub use request::read_any_request;
use room::Room;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::rand::{GetRandomFlags, getrandom};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// Bytes of the secret.
const SECRET: usize = 16;
/// Interval of checks whether the server should stop, milliseconds.
const INTERVAL: i64 = 100;

/// Serves on a port of 127.0.0.1.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    port: u16,
    site: Arc<Site>,
    room: Arc<Room>,
}

/// State shared by all connections.
#[derive(Debug)]
struct Site {
    secret: String,
    view: View,
}

impl Server {
    /// Listens on `port`; on a free port if 0.
    ///
    /// # Errors
    /// The port is taken or forbidden.
    pub fn listen(port: u16, view: View) -> io::Result<Server> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let site = Arc::new(Site { secret: secret()?, view });
        Ok(Server { listener, port, site, room: Arc::default() })
    }

    /// The URL for the user. It gives access to the snapshot.
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}/{}/", self.port, self.site.secret)
    }

    /// Serves until `goes_on` returns false.
    ///
    /// # Errors
    /// Those of the listening socket.
    pub fn serve(&self, goes_on: &mut dyn FnMut() -> bool) -> io::Result<()> {
        while goes_on() {
            let look = Timespec { tv_sec: 0, tv_nsec: INTERVAL * 1_000_000 };
            match poll(&mut [PollFd::new(&self.listener, PollFlags::IN)], Some(&look)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                Ok(_) => {}
                Err(errno) => return Err(errno.into()),
            }
            match self.listener.accept() {
                Ok((stream, _)) => self.begin(stream),
                // The client closed before the accept, or no descriptors are left: the next accept may succeed.
                Err(_) => thread::yield_now(),
            }
        }
        Ok(())
    }

    fn begin(&self, stream: TcpStream) {
        if stream.set_nonblocking(false).is_err() {
            return;
        }
        let Some(turn) = Room::enter(&self.room, stream) else { return };
        let site = Arc::clone(&self.site);
        // Without a thread the connection is closed, and the browser reports it.
        let _ = thread::Builder::new().name("remora-view".to_owned()).spawn(move || connection::serve(&turn, &site));
    }
}

/// A random secret.
fn secret() -> io::Result<String> {
    let mut bytes = [0_u8; SECRET];
    let mut filled = 0;
    while filled < SECRET {
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
    }
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}
