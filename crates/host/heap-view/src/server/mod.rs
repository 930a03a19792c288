//! The server: one user, one machine, one secret.
//!
//! Whoever shares the machine can open a connection, and any page in the user's browser can send a request. So the address carries a
//! secret that neither knows, and a request must name this machine as its host: a page whose own name was made to lead here names another.
//! What is refused is not told why, and nothing can be changed by any request.

mod connection;
mod reply;
mod request;
mod room;

use crate::view::View;
pub use request::read_any_request;
use room::Room;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::rand::{GetRandomFlags, getrandom};
use std::fmt::Write;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// Bytes of the secret.
const SECRET: usize = 16;
/// How long nobody looks whether the server is to end, milliseconds.
const LOOK: i64 = 100;

/// Answers on a port of 127.0.0.1.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    port: u16,
    site: Arc<Site>,
    room: Arc<Room>,
}

/// What every connection needs to know.
#[derive(Debug)]
struct Site {
    secret: String,
    view: View,
}

impl Server {
    /// Begins to listen, on `port`; on 0 at any that is free.
    ///
    /// # Errors
    /// The port is taken, or may not be had.
    pub fn listen(port: u16, view: View) -> io::Result<Server> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let site = Arc::new(Site { secret: secret()?, view });
        Ok(Server { listener, port, site, room: Arc::default() })
    }

    /// What the user opens. Whoever knows it sees the snapshot.
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}/{}/", self.port, self.site.secret)
    }

    /// Answers until `goes_on` says no.
    ///
    /// # Errors
    /// Those of the listening socket.
    pub fn serve(&self, goes_on: &mut dyn FnMut() -> bool) -> io::Result<()> {
        while goes_on() {
            let look = Timespec { tv_sec: 0, tv_nsec: LOOK * 1_000_000 };
            match poll(&mut [PollFd::new(&self.listener, PollFlags::IN)], Some(&look)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                Ok(_) => {}
                Err(errno) => return Err(errno.into()),
            }
            match self.listener.accept() {
                Ok((stream, _)) => self.begin(stream),
                // Gone before it was met, or there are no descriptors left: the next may do better.
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
        // Without a thread the connection is closed, and the browser says so.
        let _ = thread::Builder::new().name("remora-view".to_owned()).spawn(move || connection::serve(&turn, &site));
    }
}

/// Numbers that nobody guesses.
fn secret() -> io::Result<String> {
    let mut bytes = [0_u8; SECRET];
    let mut filled = 0;
    while filled < SECRET {
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
    }
    Ok(bytes.iter().fold(String::new(), |mut secret, byte| {
        let _ = write!(secret, "{byte:02x}");
        secret
    }))
}
