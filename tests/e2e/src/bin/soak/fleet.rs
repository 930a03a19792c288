//! The targets: each program on each runtime. A target starts with its first round, is stopped between rounds, and is asked to end after
//! the last.

use crate::growth::{self, Window};
use crate::place::{self, Place};
use remora_e2e::{Facts, Runtime, Start, Target, until};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

/// The programs with their arguments: allocation, exceptions, discarded types and methods, short-lived threads, and child processes. No
/// null references: docs/guide/risks.md says what these do.
const PROGRAMS: [(&str, &[&str]); 6] = [
    ("gc", &["2"]),
    ("exceptions", &[]),
    ("collectible", &[]),
    ("dynamic", &[]),
    ("short_threads", &["2", "5"]),
    (UNSTEADY, &[]),
];
/// Rounds after which one-time growth is over.
const SETTLED: u64 = 3;
/// Libraries that may stay in a target, after main profilers that were killed. Each holds one of the runtime's 32 places for profilers, and
/// only the end of the target frees them.
const MOST_STAYING: usize = 24;
/// It starts threads and children on request.
const UNSTEADY: &str = "unsteady";
/// It ends as requested.
const MORTAL: &str = "crash";
/// A user without other processes. Every third target runs as this user: Remora then works with that user's file permissions.
const USER: u32 = 64_203;

/// A target of many rounds.
pub struct Seat {
    /// Its runtime.
    pub runtime: Runtime,
    /// Its program.
    pub program: &'static str,
    arguments: &'static [&'static str],
    /// Its user, if not root.
    pub user: Option<u32>,
    /// Its folder for temporary files.
    pub temporary: PathBuf,
    /// The running target, once a round has needed it.
    pub running: Option<Running>,
}

/// A running target.
pub struct Running {
    /// The process.
    pub target: Target,
    /// Its resources before the first attach.
    pub control: Window,
    /// Its resources after [`SETTLED`] rounds.
    pub settled: Option<Window>,
    /// Rounds so far.
    pub rounds: u64,
    /// Killed main profilers that no receipt has reported yet.
    pub owed: u64,
}

/// A target's line in the table.
pub struct Ended {
    /// Program and runtime.
    pub name: String,
    /// Its rounds.
    pub rounds: u64,
    /// Before the first attach.
    pub control: Window,
    /// After [`SETTLED`] rounds, if there were more.
    pub settled: Option<Window>,
    /// After the last round.
    pub end: Window,
    /// Its faults.
    pub faults: Vec<String>,
}

/// The seats of one of `lanes` lanes.
pub fn of_lane(lane: usize, lanes: usize, place: &Place) -> Vec<Seat> {
    let runtimes = Runtime::all();
    let all = PROGRAMS.iter().flat_map(|program| runtimes.iter().map(move |runtime| (program, runtime)));
    let own = all.enumerate().filter(|(number, _)| number % lanes == lane);
    let seat = |(number, (&(program, arguments), runtime)): (usize, (&(&'static str, _), &Runtime))| Seat {
        runtime: runtime.clone(),
        program,
        arguments,
        user: (number / lanes % 3 == 2).then_some(USER),
        temporary: place.temporary.join(number.to_string()),
        running: None,
    };
    own.map(seat).collect()
}

impl Seat {
    /// Program and runtime.
    pub fn name(&self) -> String {
        let whose = if self.user.is_some() { ", another user's" } else { "" };
        format!("{} on {}{whose}", self.program, self.runtime.name())
    }

    /// Resumes the target, and starts it if necessary.
    pub fn rouse(&mut self) -> &mut Running {
        let Seat { runtime, program, arguments, user, temporary, running } = self;
        if let Some(running) = running {
            running.target.go_on();
            if running.rounds == SETTLED {
                running.settled = Some(Window::of(&running.target));
            }
            return running;
        }
        let mut target = start(Start::managed(runtime, program).args(*arguments), *user, temporary);
        if *program == UNSTEADY {
            // Only after this the runtime listens for the end of children.
            assert_eq!(target.ask("run 1"), "run 1");
        }
        let control = Window::of(&target);
        running.insert(Running { target, control, settled: None, rounds: 0, owed: 0 })
    }

    /// Whether so many libraries stay in the target that the runtime will soon refuse another one.
    pub fn is_full(&self) -> bool {
        let staying = |running: &Running| growth::staying(&Facts::of(running.target.pid())).len();
        self.running.as_ref().is_some_and(|running| staying(running) >= MOST_STAYING)
    }

    /// Asks the target to end, and returns its measurements.
    pub fn end(&mut self) -> Option<Ended> {
        let name = self.name();
        let Running { target, control, settled, rounds, .. } = self.running.take()?;
        target.go_on();
        let end = Window::of(&target);
        let mut faults = growth::since_control(&control, &end);
        faults.extend(settled.iter().flat_map(|settled| growth::since_settled(settled, &end)));
        let status = target.quit();
        if !status.success() {
            faults.push(format!("it ended with {status}"));
        }
        Some(Ended { name, rounds, control, settled, end, faults })
    }

    /// A target that one round ends.
    pub fn mortal(&self) -> Target {
        start(Start::managed(&self.runtime, MORTAL), self.user, &self.temporary.with_extension("mortal"))
    }

    /// The folder for the temporary files of [`Seat::mortal`].
    pub fn mortals_folder(&self) -> PathBuf {
        self.temporary.with_extension("mortal")
    }
}

impl Running {
    /// Makes it do the actions that it performs only on request.
    pub fn stir(&mut self, program: &str) {
        if program == UNSTEADY {
            for order in ["start 20", "run 3"] {
                assert_eq!(self.target.ask(order), order);
            }
        }
    }

    /// Waits until its counter changes.
    pub fn goes_on(&mut self) {
        let first = self.target.ask_number("count");
        until("the target's counter moves", || self.target.ask_number("count") != first);
    }
}

fn start(start: Start, user: Option<u32>, temporary: &Path) -> Target {
    place::make(temporary).unwrap_or_else(|error| panic!("{error}"));
    chown(temporary, user, user).unwrap_or_else(|error| panic!("cannot give {} away: {error}", temporary.display()));
    let mut start = start.env("TMPDIR", temporary);
    // Frequent GCs are harder on a sampler, and a small heap's swings hide no growth. Each version knows one of the names.
    for (name, bytes) in [("GCgen0size", "400000"), ("GCgen0MaxBudget", "600000")] {
        start = start.env(format!("DOTNET_{name}"), bytes).env(format!("COMPlus_{name}"), bytes);
    }
    // The terminal's Ctrl-C is for the soak alone.
    let mut start = user.into_iter().fold(start, Start::as_user);
    start.command().process_group(0);
    start.ready()
}
