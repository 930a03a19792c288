//! Who is served at once, and who goes when somebody comes and there is no place: anybody on this machine can open connections, ask
//! nothing, and so take all places. A browser asks at once, and so is answered before its turn to go comes.

use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Connections that are served at once. A browser opens six.
const PLACES: usize = 32;

/// How far a connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// It has not asked to the end yet, and maybe never will.
    Asking,
    /// It waits for its answer.
    Answered,
    /// It has its answer, and has not closed yet.
    Leaving,
}

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Room(Mutex<Places>);

/// Those who have come longest ago first.
#[derive(Debug, Default)]
struct Places {
    taken: Vec<Place>,
    /// How many have come.
    come: u64,
}

#[derive(Debug)]
struct Place {
    number: u64,
    stream: Arc<TcpStream>,
    stage: Stage,
}

impl Room {
    /// Gives it a place; where there is none, that of who has asked nothing for longest, or else of who has an answer. `None`, and it is
    /// closed, if all wait for answers.
    pub(super) fn enter(room: &Arc<Room>, stream: TcpStream) -> Option<Turn> {
        let mut places = room.places();
        if places.taken.len() >= PLACES {
            let at = |stage| places.taken.iter().position(|place| place.stage == stage);
            let gone = at(Stage::Asking).or_else(|| at(Stage::Leaving))?;
            let gone = places.taken.remove(gone);
            // Its thread reads an end, and ends. Where the other side has closed before, there is nothing to close.
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

/// A connection that has a place, until this goes.
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

    /// Whoever was closed meanwhile has no place any more, and nothing to reach.
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
