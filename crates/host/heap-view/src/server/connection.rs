//! One connection: one request, one reply, then it closes.

use super::Site;
use super::reply::Reply;
use super::request::Request;
use super::room::{Stage, Turn};
use crate::answers::NoAnswer;
use crate::pages;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// Maximum length of a request's head. No browser sends more.
const HEAD: usize = 16 << 10;
/// Time limit for a request, and for a reply.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// How long the remaining input is read after the reply.
const REST: Duration = Duration::from_secs(1);

/// Serves a connection. Errors affect only the client.
pub(super) fn serve(turn: &Turn, site: &Site) {
    let mut stream = turn.stream();
    let Some(head) = head(stream) else { return };
    turn.reaches(Stage::Answered);
    let reply = reply(&head, site);
    let written = stream.set_write_timeout(Some(TIME_LIMIT)).and_then(|()| stream.write_all(&reply.bytes()));
    turn.reaches(Stage::Leaving);
    // Unread input would make the kernel discard data that the client has not received yet.
    if written.is_ok() && stream.shutdown(Shutdown::Write).is_ok() {
        drain(stream);
    }
}

/// Reads further input, for this long in total: a client that sends a byte now and then would keep others out.
fn drain(mut stream: &TcpStream) {
    let (end, mut piece, mut taken) = (Instant::now() + REST, [0; 4096], 0);
    while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        let read = stream.set_read_timeout(Some(left)).and_then(|()| stream.read(&mut piece));
        match read {
            Ok(length) if length > 0 && taken < HEAD => taken += length,
            _ => return,
        }
    }
}

/// Reads up to the empty line.
fn head(mut stream: &TcpStream) -> Option<Vec<u8>> {
    let end = Instant::now() + TIME_LIMIT;
    let mut head = Vec::new();
    let mut piece = [0; 4096];
    while head.len() < HEAD {
        let left = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
        stream.set_read_timeout(Some(left)).ok()?;
        match stream.read(&mut piece) {
            Ok(0) => return None,
            Ok(length) => head.extend_from_slice(&piece[..length]),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return None,
        }
        if head.windows(4).any(|four| four == b"\r\n\r\n") {
            break;
        }
    }
    Some(head)
}

/// The reply to a request.
pub(super) fn reply(head: &[u8], site: &Site) -> Reply {
    let Some(request) = Request::read(head) else { return Reply::refusal(400) };
    if !request.is_for_this_machine() {
        return Reply::refusal(403);
    }
    let Some(name) = request.behind(&site.secret) else { return Reply::refusal(404) };
    if !request.is_get {
        return Reply::refusal(405);
    }
    if let Some(file) = pages::file(name) {
        return Reply::file(file);
    }
    match name.strip_prefix("api/").map(|question| site.view.answer(question, request.query)) {
        Some(Ok(answer)) => Reply::answer(200, &answer),
        Some(Err(NoAnswer::Senseless(why))) => Reply::error(400, &why),
        Some(Err(NoAnswer::Index(error))) => Reply::error(500, &error.to_string()),
        Some(Err(NoAnswer::Failed(why))) => Reply::error(500, &why),
        Some(Err(NoAnswer::Unknown)) | None => Reply::error(404, "there is no such thing in this snapshot"),
    }
}
