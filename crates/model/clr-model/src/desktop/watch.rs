//! The process that watches over a target: the target's parent, which knows how it ended, and ends what it has started.
//!
//! A profiler may start processes that leave their group, session and parent, or replace the target's program (exec). All of them stay
//! descendants of this process, which adopts orphans (`PR_SET_CHILD_SUBREAPER`). It signals only children that it has not waited for, so no
//! signal meets a number that is in use again.
//!
//! It also has the target's channel for profilers, whose text survives the target.

use super::channel::Channel;
use super::message::{Answer, Question, peer, receive, send};
use super::{PAUSE, Place};
use crate::lab::death::signal_name;
use crate::lab::run_processes::{children, end_all};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, set_child_subreaper, wait};
use std::fs::File;
use std::io;
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Signals that ask for an end: this process sends the first one, a terminal the others.
const ENDS: [Signal; 3] = [Signal::TERM, Signal::INT, Signal::HUP];
/// How long a target that was asked to end has, before it gets SIGKILL.
const ENDING: Duration = Duration::from_secs(5);

/// How long who has connected may take to ask, and to read the answer.
const ASKING: Duration = Duration::from_secs(1);

/// A name that this process has taken. See the module documentation.
#[derive(Debug)]
pub struct Watch {
    place: Place,
    name: String,
    /// Until it is given back.
    file: Option<File>,
    listener: UnixListener,
}

/// How a target ended.
#[derive(Debug)]
pub enum Ended {
    /// As asked, or by itself as it should.
    AsAsked,
    /// As in "ended by SIGSEGV".
    Otherwise(String),
    /// It has said why it cannot start.
    BeforeItStarted,
}

impl Watch {
    /// Takes a target's name. `None` if a target has it.
    ///
    /// # Errors
    /// The system's.
    pub fn begin(place: &Place, name: &str) -> io::Result<Option<Watch>> {
        let taken = place.take(name)?;
        Ok(taken.map(|(file, listener)| Watch {
            place: place.clone(),
            name: name.to_owned(),
            file: Some(file),
            listener,
        }))
    }

    /// Starts the target as a child, waits for its end, and ends what it has started. Ends the target, too, as soon as `ends` is set.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn run(&self, command: &mut Command, ends: &AtomicBool) -> io::Result<Ended> {
        set_child_subreaper(Some(getpid()))?;
        let mut channel = Channel::listen(&self.place, &self.name)?;
        let target = Pid::from_child(&command.spawn()?);
        let (status, is_killed) = self.wait_for(target, &mut channel, ends)?;
        let is_asked = ends.load(Ordering::SeqCst);
        let is_ordinary = match status.terminating_signal() {
            // One whose program has been replaced has no handler for them.
            Some(signal) => is_asked && ENDS.iter().any(|one| one.as_raw() == signal),
            // One that ends by itself as it should removes its socket.
            None => status.exit_status() == Some(0) && (is_asked || !self.place.socket(&self.name).exists()),
        };
        let left = end_children();
        channel.end();
        if is_ordinary && left.is_empty() {
            return Ok(Ended::AsAsked);
        }
        // From its start on, only this process removes its event log.
        if status.exit_status().is_some() && left.is_empty() && !self.place.event_log_file(&self.name).exists() {
            return Ok(Ended::BeforeItStarted);
        }
        let how = match status.terminating_signal() {
            Some(_) if is_killed => "by SIGKILL: it did not end by itself, and was killed".to_owned(),
            Some(signal) => format!("by {}", signal_name(signal)),
            None => format!("with exit code {}", status.exit_status().unwrap_or_default()),
        };
        Ok(Ended::Otherwise(if left.is_empty() {
            how
        } else {
            format!("{how}; what it started cannot be ended: {}", left.join(", "))
        }))
    }

    /// The target has ended, and nothing else needs to be done.
    ///
    /// # Errors
    /// The system's.
    pub fn end(mut self, how: Option<&str>) -> io::Result<()> {
        self.give_back(how)
    }

    fn give_back(&mut self, how: Option<&str>) -> io::Result<()> {
        self.file.take().map_or(Ok(()), |file| self.place.give_back(&self.name, file, how))
    }

    /// How the target has ended, and whether this process had to kill it.
    fn wait_for(&self, target: Pid, channel: &mut Channel, ends: &AtomicBool) -> io::Result<(WaitStatus, bool)> {
        let mut asked = None;
        let mut is_killed = false;
        loop {
            // Others are orphans of the target.
            match wait(WaitOptions::NOHANG)? {
                Some((process, status)) if process == target => return Ok((status, is_killed)),
                Some(_) => continue,
                None => channel.wait(PAUSE),
            }
            if self.is_asked(channel) {
                ends.store(true, Ordering::SeqCst);
            }
            if !ends.load(Ordering::SeqCst) {
                continue;
            }
            let signals: &[Signal] = match asked {
                None => &[Signal::TERM, Signal::CONT],
                Some(when) if Instant::now() >= when + ENDING => &[Signal::KILL],
                Some(_) => &[],
            };
            is_killed = signals == [Signal::KILL];
            asked = asked.or(Some(Instant::now()));
            for signal in signals {
                // If it has become another user's, nothing but its own end helps.
                let _ = kill_process(target, *signal);
            }
        }
    }

    /// Answers a question. Whether somebody asks for the target's end.
    fn is_asked(&self, channel: &mut Channel) -> bool {
        let question = self.listener.accept().and_then(|(mut stream, _)| {
            peer(&stream)?;
            let question = receive(&mut stream, ASKING)?;
            if matches!(question, Question::HangUp) {
                send(&mut stream, &Answer::HungUp(channel.hang_up()), ASKING)?;
            }
            Ok(question)
        });
        matches!(question, Ok(Question::Stop))
    }
}

impl Drop for Watch {
    /// Without [`Watch::end`], the target has not started.
    fn drop(&mut self) {
        let _ = self.give_back(None);
    }
}

/// Returns the processes that have not ended.
fn end_children() -> Vec<String> {
    let left = end_all(children);
    let waited = loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            waited => break waited,
        }
    };
    match waited {
        // There is no child.
        Err(_) => Vec::new(),
        // The kernel may not list them.
        Ok(_) if left.is_empty() => vec!["processes that /proc does not list".to_owned()],
        Ok(_) => left.iter().map(|child| format!("process {child}")).collect(),
    }
}
