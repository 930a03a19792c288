//! Sends requests to a server on the loopback address, over kept-alive connections. Needs no other tool.

use crate::Outcome;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Timeout for an answer.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The end of a chunked answer.
const END: &[u8] = b"0\r\n\r\n";

/// Clients that send requests until the value is dropped.
pub struct Load {
    over: Arc<AtomicBool>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    /// Starts this many clients.
    pub fn start(port: u16, clients: usize) -> Outcome<Load> {
        let mut load = Load { over: Arc::new(AtomicBool::new(false)), clients: Vec::new() };
        for _ in 0..clients {
            let mut stream = TcpStream::connect(("127.0.0.1", port))?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            let over = Arc::clone(&load.over);
            // A failed client stops sending, which the server's requests show.
            load.clients.push(std::thread::spawn(move || {
                let _ = ask(&mut stream, &over);
            }));
        }
        Ok(load)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for client in self.clients.drain(..) {
            // A client returns nothing.
            let _ = client.join();
        }
    }
}

fn ask(stream: &mut TcpStream, over: &AtomicBool) -> std::io::Result<()> {
    let mut answer = Vec::new();
    let mut bytes = [0; 4096];
    for number in 0.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        // In one write: `write!` would send each part separately.
        stream.write_all(format!("GET /orders/{} HTTP/1.1\r\nHost: localhost\r\n\r\n", number % 100).as_bytes())?;
        answer.clear();
        while !answer.ends_with(END) {
            let count = stream.read(&mut bytes)?;
            if count == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            answer.extend_from_slice(&bytes[..count]);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_connection_is_kept_for_many_requests() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let load = Load::start(listener.local_addr().unwrap().port(), 1).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        let mut bytes = [0; 1024];
        for number in 0..3 {
            let count = stream.read(&mut bytes).unwrap();
            assert!(bytes[..count].starts_with(format!("GET /orders/{number} ").as_bytes()));
            // In two pieces.
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n1\r\na\r\n0\r").unwrap();
            stream.write_all(b"\n\r\n").unwrap();
        }
        drop(stream);
        drop(load);
    }
}
