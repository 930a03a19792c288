//! One round: runs its commands, interferes with them as planned, and then checks everything.

use crate::fleet::Seat;
use crate::growth;
use crate::judge::{Act, Case, Known, RECEIPT, judge};
use crate::place::{self, Place};
use crate::plan::{Actor, End, Plan, Task};
use remora_e2e::{Facts, Remora, Target, remora, until};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

/// Checks for leftovers. A thread inside the application's signal handler blocks that signal for a moment. The runtime closes its end of
/// a connection later than we do.
const CHECKS: u32 = 300;
/// The first version that ends an EventPipe session without a deadlock.
const FIRST_THAT_ENDS_SESSIONS: u32 = 5;
/// The program that the end of a session can crash, in every version: docs/guide/risks.md says why.
const UNLOADS: &str = "collectible";
/// Time between two checks.
const PAUSE: Duration = Duration::from_millis(10);

/// The result of a round.
pub struct Done {
    /// Its commands.
    pub acts: Vec<Act>,
    /// How `remora detach` ended, where it was needed.
    pub detached: Option<i32>,
    /// Its faults.
    pub faults: Vec<String>,
}

impl Done {
    /// Exit codes for the log.
    pub fn codes(&self) -> String {
        let codes = self.acts.iter().map(|act| act.finished.code().to_string()).collect::<Vec<_>>().join(" ");
        self.detached.map_or(codes.clone(), |code| format!("{codes}, detach {code}"))
    }
}

/// Runs a round.
pub fn run(plan: &Plan, seat: &mut Seat, place: &Place) -> Done {
    let folder = if plan.disk.is_some() { &place.disk } else { &place.roomy };
    if let Some(disk) = plan.disk {
        place::fill(&place.disk, disk.free);
    }
    let done = match plan.death {
        Some(death) => with_a_mortal(plan, seat, place, (folder, death)),
        None => with_the_target(plan, seat, place, folder),
    };
    place::empty(&place.disk);
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        // If a file cannot be removed, the next round reports the missing space.
        let _ = std::fs::remove_dir_all(entry.path());
    }
    done
}

fn with_the_target(plan: &Plan, seat: &mut Seat, place: &Place, folder: &Path) -> Done {
    let (program, temporary) = (seat.program, seat.temporary.clone());
    let known = Known { counts_profilers: seat.runtime.major() >= 6 };
    let actors = actors(plan, seat);
    let running = seat.rouse();
    running.goes_on();
    let pid = running.target.pid();
    let (before, files) = (Facts::of(pid), place::names(&temporary));
    if let Some(free) = plan.place {
        place::fill(&place.temporary, free);
    }
    let acts = thread::scope(|scope| {
        let acts: Vec<_> = actors.iter().map(|actor| begin(scope, *actor, pid, folder)).collect();
        full_later(scope, plan, place);
        match plan.halt {
            Some((after, pause)) => {
                wait(after);
                running.target.halt();
                wait(pause);
                running.target.go_on();
            }
            None => running.stir(program),
        }
        acts.into_iter().map(joined).collect::<Vec<_>>()
    });
    place::empty(&place.temporary);

    let mut done = Done { acts, detached: None, faults: Vec::new() };
    if !running.target.is_alive() {
        let status = running.target.wait();
        done.faults.push(format!("the target has ended with {status}: {}", running.target.errors()));
        return done;
    }
    running.owed += done.acts.iter().filter(|act| is_cut_off(act) && act.actor.task.is_main()).count() as u64;
    let case = Case { plan, acts: &done.acts, known };
    let judged = judge(&case, &mut running.owed);
    done.faults = judged;
    let mut stays = false;
    if done.acts.iter().any(is_cut_off) {
        let detached = remora(["detach", "-p", &pid.to_string()]);
        done.detached = Some(detached.code());
        stays = case.known.counts_profilers
            && inert(&detached.text()).is_some_and(|inert| (1..=running.owed).contains(&inert));
        running.owed -= if stays { inert(&detached.text()).unwrap_or(0) } else { 0 };
        if detached.code() != 0 && !stays {
            done.faults.push(format!("`remora detach` after a kill: {detached}"));
        }
    }
    let unexplained = |what: &String| !(stays && what.starts_with("mapping ") && what.contains("libremora_agent"));
    let left = left(pid, &before).into_iter().filter(unexplained);
    done.faults.extend(left.map(|what| format!("left in the target: {what}")));
    let new = place::names(&temporary).difference(&files).cloned().collect::<Vec<_>>();
    if !new.is_empty() {
        done.faults.push(format!("left in {}: {new:?}", temporary.display()));
    }
    done.faults.extend(locks_of(pid));
    if !done.faults.is_empty() {
        // What the commands said explains most leftovers.
        done.faults.extend(done.acts.iter().map(|act| format!("{:?}: {}", act.actor.task, act.finished)));
    }
    running.goes_on();
    running.rounds += 1;
    running.target.halt();
    done
}

/// Uses a separate target that ends in the middle.
fn with_a_mortal(plan: &Plan, seat: &Seat, place: &Place, (folder, (order, after)): (&Path, (&str, u64))) -> Done {
    let known = Known { counts_profilers: seat.runtime.major() >= 6 };
    let (mut target, actors) = (seat.mortal(), actors(plan, seat));
    if let Some(free) = plan.place {
        place::fill(&place.temporary, free);
    }
    let pid = target.pid();
    let acts = thread::scope(|scope| {
        let acts: Vec<_> = actors.iter().map(|actor| begin(scope, *actor, pid, folder)).collect();
        full_later(scope, plan, place);
        wait(after);
        target.tell(order);
        acts.into_iter().map(joined).collect::<Vec<_>>()
    });
    place::empty(&place.temporary);
    let mut faults = judge(&Case { plan, acts: &acts, known }, &mut 0);
    if order == "exec" {
        faults.extend(other_program(&mut target));
    }
    drop(target);
    let ours = |name: &std::ffi::OsString| name.to_string_lossy().contains("remora");
    let temporary = seat.mortals_folder();
    let new: Vec<_> = place::names(&temporary).into_iter().filter(ours).collect();
    if !new.is_empty() {
        faults.push(format!("left in {}: {new:?}", temporary.display()));
    }
    faults.extend(locks_of(pid));
    Done { acts, detached: None, faults }
}

/// The target has replaced itself by `cat`, which must have nothing of Remora.
fn other_program(target: &mut Target) -> Vec<String> {
    let name = format!("/proc/{}/comm", target.pid());
    // Until then the .NET program may read the question, too.
    until("it has replaced itself", || std::fs::read_to_string(&name).is_ok_and(|name| name == "cat\n"));
    assert_eq!(target.ask("are you there?"), "are you there?", "cat repeats what it reads");
    Facts::of(target.pid()).remora().into_iter().map(|what| format!("left in the other program: {what}")).collect()
}

/// The plan's commands. Where ending an EventPipe session can crash the target, only the agent is used. In every .NET Core 3.1 it can
/// also deadlock with threads that write events: <https://github.com/dotnet/runtime/issues/51579>.
fn actors(plan: &Plan, seat: &Seat) -> Vec<Actor> {
    let mut actors = plan.actors.clone();
    if seat.program == UNLOADS || seat.runtime.major() < FIRST_THAT_ENDS_SESSIONS {
        for actor in &mut actors {
            if let Task::Record { engine, .. } = &mut actor.task {
                *engine = "agent";
            }
        }
    }
    actors
}

/// Whether no command of ours saw the agent detach.
fn is_cut_off(act: &Act) -> bool {
    use std::os::unix::process::ExitStatusExt;
    let killed = act.finished.status.signal() == Some(Signal::KILL.as_raw());
    killed || matches!(act.actor.end, End::Twice { .. })
}

fn begin<'scope>(
    scope: &'scope Scope<'scope, '_>,
    actor: Actor,
    target: u32,
    folder: &Path,
) -> ScopedJoinHandle<'scope, Act> {
    let folder = folder.to_owned();
    scope.spawn(move || {
        wait(actor.start);
        let own = tempfile::tempdir_in(&folder).unwrap_or_else(|error| panic!("cannot make a folder: {error}")).keep();
        let mut command = Remora::command();
        command.args(arguments(&actor, target, &own)).process_group(0);
        let running = Remora::spawn(command);
        interfere(&running, actor.end);
        Act { actor, pid: running.pid(), finished: running.finish(), folder: own }
    })
}

fn arguments(actor: &Actor, target: u32, folder: &Path) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut add = |more: &[&str]| words.extend(more.iter().map(|word| (*word).to_owned()));
    let output = |name: &str| folder.join(name).display().to_string();
    match actor.task {
        Task::Record { engine, event, frequency, duration } => {
            add(&["record", "--engine", engine, "--event", event, "--frequency", &frequency.to_string()]);
            add(&["-o", &output("recording.remora")]);
            if matches!(actor.end, End::ByItself | End::Halted { .. }) {
                add(&["--duration", &format!("{duration}ms")]);
            }
        }
        Task::Snapshot { roots, values } => {
            add(&["heap", "--top", "1", "-o", &output("heap.remora-heap")]);
            add(if roots { &["--roots"] } else { &[] });
            add(if values { &["--values"] } else { &[] });
        }
        Task::Watch { duration } => add(&["heap", "--top", "1", "--watch", &format!("{duration}ms")]),
        Task::Check => add(&["check"]),
        Task::Detach => add(&["detach"]),
    }
    if !matches!(actor.task, Task::Check | Task::Detach) {
        add(&["--receipt", &output(RECEIPT)]);
    }
    add(&["--json", "-p", &target.to_string()]);
    words
}

fn interfere(running: &Remora, end: End) {
    match end {
        End::ByItself => {}
        End::Asked { signal, after } => {
            wait(after);
            running.signal(match signal {
                "TERM" => Signal::TERM,
                "HUP" => Signal::HUP,
                _ => Signal::INT,
            });
        }
        End::Twice { after, gap } => {
            wait(after);
            running.signal(Signal::INT);
            wait(gap);
            running.signal(Signal::INT);
        }
        End::Killed { after } => {
            wait(after);
            running.signal(Signal::KILL);
        }
        End::Halted { after, pause } => {
            wait(after);
            running.signal(Signal::STOP);
            wait(pause);
            running.signal(Signal::CONT);
        }
    }
}

/// Fills the disk while the commands run.
fn full_later<'scope>(scope: &'scope Scope<'scope, '_>, plan: &Plan, place: &Place) {
    if let Some(after) = plan.disk.and_then(|disk| disk.full_after) {
        let disk = place.disk.clone();
        scope.spawn(move || {
            wait(after);
            place::fill(&disk, 4);
        });
    }
}

/// The leftovers, once checks find none or all checks find the same.
fn left(pid: u32, before: &Facts) -> Vec<String> {
    let staying = growth::staying(before).len();
    let mut before = before.clone();
    before.blocked.retain(|_, mask| *mask == 0);
    let mut left = Vec::new();
    for _ in 0..CHECKS {
        let facts = Facts::of(pid);
        left = facts.left_since(&before);
        left.retain(|what| !what.contains("-stays.so"));
        let sockets = |facts: &Facts| facts.descriptors.values().filter(|link| link.starts_with("socket:")).count();
        if sockets(&facts) > sockets(&before) {
            left.push(format!("sockets: {}, before {}", sockets(&facts), sockets(&before)));
        }
        if growth::staying(&facts).len() < staying {
            left.push("a library that stays has gone".to_owned());
        }
        if left.is_empty() {
            break;
        }
        thread::sleep(PAUSE);
    }
    left
}

/// Our lock files for this process.
fn locks_of(pid: u32) -> Vec<String> {
    let names: BTreeSet<_> = place::names(Path::new("/run/remora"));
    let part = format!("-{pid}-");
    let own = names.iter().map(|name| name.to_string_lossy()).filter(|name| name.contains(&part));
    own.map(|name| format!("left in /run/remora: {name}")).collect()
}

fn joined(act: ScopedJoinHandle<'_, Act>) -> Act {
    act.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause))
}

/// Waits by the wall clock: the kernel decides what happens at that instant.
fn wait(milliseconds: u64) {
    thread::sleep(Duration::from_millis(milliseconds));
}

/// The number of libraries that `remora detach` could not remove, if nothing else is left: no thread of them runs. After a killed main
/// profiler, .NET never calls the next one, so its library stays.
fn inert(said: &str) -> Option<u64> {
    let mut left = said.lines().filter(|line| line.starts_with("left: "));
    let is_inert = |line: &str| line.starts_with("left: mapping ") && line.contains("no thread of it runs");
    left.clone().all(is_inert).then(|| left.by_ref().count() as u64)
}
