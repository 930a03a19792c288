//! Threads that inspect processes, a few at a time.
//!
//! A process can block readers of its files in `/proc`: its arguments, for one, are in its own memory, which its own file system may back.
//! A thread that takes too long is abandoned. The others are used again: each thread costs address space, and a limit of it or of
//! processes may leave room for few.

use crate::proc::{Proc, this_thread_may_wait};
use crate::process::{Process, inspect, unexamined};
use crate::survey::Survey;
use crate::windowed::Limit;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

/// Time for all else that is read of a process: little, unless it keeps us waiting.
const TIME_BESIDE: Duration = Duration::from_secs(1);

/// Result of inspecting a process; `None`: it runs no .NET, or has ended.
type Found = io::Result<Option<Process>>;

/// An inspected process.
#[derive(Debug)]
pub(super) struct Inspected {
    pub(super) pid: u32,
    pub(super) took: Duration,
    pub(super) found: Found,
}

/// A thread. It ends when `pids` is dropped.
#[derive(Debug)]
struct Inspector {
    number: usize,
    pids: Sender<u32>,
}

/// The threads.
pub(super) struct Inspectors<'a> {
    proc: &'a Proc,
    /// For the files of each process.
    time: Duration,
    survey: Arc<Survey>,
    idle: Vec<Inspector>,
    /// With the process that each inspects, and since when: the oldest first.
    busy: Vec<(Inspector, u32, Instant)>,
    started: usize,
    /// Threads that the system lets us start.
    #[cfg(test)]
    pub(super) most: usize,
    answers: Receiver<(usize, Found)>,
    sender: Sender<(usize, Found)>,
}

impl<'a> Inspectors<'a> {
    pub(super) fn new(proc: &'a Proc, time: Duration) -> Inspectors<'a> {
        let (sender, answers) = mpsc::channel();
        let survey = Arc::new(Survey::begin());
        Inspectors {
            proc,
            time,
            survey,
            idle: Vec::new(),
            busy: Vec::new(),
            started: 0,
            #[cfg(test)]
            most: usize::MAX,
            answers,
            sender,
        }
    }

    /// Processes that are being inspected.
    pub(super) fn busy(&self) -> usize {
        self.busy.len()
    }

    /// Threads that were ever started.
    pub(super) fn started(&self) -> usize {
        self.started
    }

    /// Begins to inspect a process.
    ///
    /// # Errors
    /// No thread can be started for it.
    pub(super) fn begin(&mut self, pid: u32) -> io::Result<()> {
        let inspector = self.idle.pop().map_or_else(|| self.start(), Ok)?;
        // The thread catches its panics and ends no sooner than we drop `pids`.
        _ = inspector.pids.send(pid);
        self.busy.push((inspector, pid, Instant::now()));
        Ok(())
    }

    fn start(&mut self) -> io::Result<Inspector> {
        #[cfg(test)]
        if self.started >= self.most {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let (pids, queue) = mpsc::channel();
        let (proc, survey, time) = (self.proc.clone(), Arc::clone(&self.survey), self.time);
        let (number, answers) = (self.started, self.sender.clone());
        let run = move || {
            this_thread_may_wait();
            for pid in queue {
                let look = || inspect(&proc, pid, &survey, time);
                // A fault of ours must not hide the other processes.
                let found =
                    catch_unwind(AssertUnwindSafe(look)).unwrap_or_else(|_| Ok(unexamined(&proc, pid, Limit::Fault)));
                if answers.send((number, found)).is_err() {
                    break;
                }
            }
        };
        std::thread::Builder::new().name("inspect".to_owned()).spawn(run)?;
        self.started += 1;
        Ok(Inspector { number, pids })
    }

    /// Waits for the next process that is inspected or takes too long, also by `patience`. `None`: none is being inspected.
    pub(super) fn next(&mut self, patience: Duration) -> Option<Inspected> {
        let due = self.busy.first()?.2 + patience.min(self.time + TIME_BESIDE);
        loop {
            let Ok((number, found)) = self.answers.recv_timeout(due.saturating_duration_since(Instant::now())) else {
                let (_, pid, begun) = self.busy.remove(0);
                let found = Ok(unexamined(self.proc, pid, Limit::Time));
                return Some(Inspected { pid, took: begun.elapsed(), found });
            };
            // An abandoned thread answers, too, as soon as it can.
            let Some(place) = self.busy.iter().position(|(inspector, ..)| inspector.number == number) else { continue };
            let (inspector, pid, begun) = self.busy.remove(place);
            self.idle.push(inspector);
            return Some(Inspected { pid, took: begun.elapsed(), found });
        }
    }
}
