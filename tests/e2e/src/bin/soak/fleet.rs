//! The targets: each program on each runtime, started when its first round comes, stopped between its rounds, and asked to end at the last.

use crate::growth::{self, Window};
use crate::place::{self, Place};
use remora_e2e::{Runtime, Start, Target, until};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

/// The programs, with their arguments: allocation, exceptions, types and methods that are thrown away, threads that come and go, and child
/// processes. No null references: docs/guide/live-server.md says what these do.
const PROGRAMS: [(&str, &[&str]); 6] = [
    ("gc", &["2"]),
    ("exceptions", &[]),
    ("collectible", &[]),
    ("dynamic", &[]),
    ("short_threads", &["2", "5"]),
    (UNSTEADY, &[]),
];
/// Rounds after which what comes once has come.
const SETTLED: u64 = 3;
/// It starts threads and children when it is asked to.
const UNSTEADY: &str = "unsteady";
/// It ends as it is told.
const MORTAL: &str = "crash";
/// A user that nobody else is. Every third target is this user's: Remora then works with that user's rights for files.
const USER: u32 = 64_203;

/// A target of many rounds.
pub struct Seat {
    /// What it runs on.
    pub runtime: Runtime,
    /// What it runs.
    pub program: &'static str,
    arguments: &'static [&'static str],
    /// Whose it is, if not root's.
    pub user: Option<u32>,
    /// Where it has its temporary files.
    pub temporary: PathBuf,
    /// What runs, once a round has wanted it.
    pub running: Option<Running>,
}

/// What runs in a seat.
pub struct Running {
    /// The process.
    pub target: Target,
    /// What it took before Remora came.
    pub control: Window,
    /// What it took after [`SETTLED`] rounds, once there have been so many.
    pub settled: Option<Window>,
    /// Rounds so far.
    pub rounds: u64,
    /// Main profilers that were killed and of which no receipt has told yet.
    pub owed: u64,
}

/// What a target's line in the table says.
pub struct Ended {
    /// Program and runtime.
    pub name: String,
    /// Its rounds.
    pub rounds: u64,
    /// Before Remora came.
    pub control: Window,
    /// After [`SETTLED`] rounds, if there were more.
    pub settled: Option<Window>,
    /// After the last round.
    pub end: Window,
    /// What is wrong with it.
    pub faults: Vec<String>,
}

/// The seats of one lane out of so many.
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

    /// Lets the target work, and starts it if it is not there yet.
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
            // Only then the runtime listens for the end of children.
            assert_eq!(target.ask("run 1"), "run 1");
        }
        let control = Window::of(&target);
        running.insert(Running { target, control, settled: None, rounds: 0, owed: 0 })
    }

    /// Asks the target to end, and says what it has been through.
    pub fn end(mut self) -> Option<Ended> {
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

    /// A target that one round takes to its end.
    pub fn mortal(&self) -> Target {
        start(Start::managed(&self.runtime, MORTAL), self.user, &self.temporary.with_extension("mortal"))
    }

    /// Where [`Seat::mortal`] has its temporary files.
    pub fn mortals_folder(&self) -> PathBuf {
        self.temporary.with_extension("mortal")
    }
}

impl Running {
    /// Has it do what it does only when asked.
    pub fn stir(&mut self, program: &str) {
        if program == UNSTEADY {
            for order in ["start 20", "run 3"] {
                assert_eq!(self.target.ask(order), order);
            }
        }
    }

    /// Waits until its counter has moved.
    pub fn goes_on(&mut self) {
        let first = self.target.ask_number("count");
        until("the target's counter moves", || self.target.ask_number("count") != first);
    }
}

fn start(start: Start, user: Option<u32>, temporary: &Path) -> Target {
    place::make(temporary).unwrap_or_else(|error| panic!("{error}"));
    chown(temporary, user, user).unwrap_or_else(|error| panic!("cannot give {} away: {error}", temporary.display()));
    let mut start = start.env("TMPDIR", temporary);
    // Collections come often, which is harder on a sampler, and what a heap swings by hides no growth. Each version knows one of the names.
    for (name, bytes) in [("GCgen0size", "400000"), ("GCgen0MaxBudget", "600000")] {
        start = start.env(format!("DOTNET_{name}"), bytes).env(format!("COMPlus_{name}"), bytes);
    }
    // The terminal's Ctrl-C is for the soak alone.
    let mut start = user.into_iter().fold(start, Start::as_user);
    start.command().process_group(0);
    start.ready()
}
