//! Limits the connections served at once, and selects which to close. Anyone on this machine can open idle connections and take all places.
//! A browser sends its request at once, so it is answered before it would be closed.

use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum connections. A browser opens six.
const PLACES: usize = 32;

/// The stage of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The request is incomplete, maybe forever.
    Asking,
    /// It waits for its answer.
    Answered,
    /// It has its answer, and is not closed yet.
    Leaving,
}

/// The connections served at once.
#[derive(Debug, Default)]
pub(super) struct Room(Mutex<Places>);

/// Oldest connections first.
#[derive(Debug, Default)]
struct Places {
    taken: Vec<Place>,
    /// Number of connections so far.
    come: u64,
}

#[derive(Debug)]
struct Place {
    number: u64,
    stream: Arc<TcpStream>,
    stage: Stage,
}

impl Room {
    /// Admits a connection. If all places are taken, it closes the oldest without a request, or else the oldest with an answer. `None`, and
    /// the connection is closed, if all wait for answers.
    pub(super) fn enter(room: &Arc<Room>, stream: TcpStream) -> Option<Turn> {
        let mut places = room.places();
        if places.taken.len() >= PLACES {
            let at = |stage| places.taken.iter().position(|place| place.stage == stage);
            let gone = at(Stage::Asking).or_else(|| at(Stage::Leaving))?;
            let gone = places.taken.remove(gone);
            // Its thread reads end of file, and ends. If the client closed before, there is nothing to close.
            let _ = gone.stream.shutdown(Shutdown::Both);
        }
        places.come += 1;
        let (number, stream) = (places.come, Arc::new(stream));
        places.taken.push(Place { number, stream: Arc::clone(&stream), stage: Stage::Asking });
        Some(Turn { room: Arc::clone(room), number, stream })
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection's place, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    room: Arc<Room>,
    number: u64,
    stream: Arc<TcpStream>,
}

impl Turn {
    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// A connection closed by [`Room::enter`] has no place any more, and no stage to set.
    pub(super) fn reaches(&self, stage: Stage) {
        if let Some(place) = self.room.places().taken.iter_mut().find(|place| place.number == self.number) {
            place.stage = stage;
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.room.places().taken.retain(|place| place.number != self.number);
    }
}
