//! Remora's own agent tracks a heap of the model. Covers every timeline of the founding documents with a heap mirror, in every GC mode,
//! under many schedules.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

mod support;

use corprof::Guid;
use remora_clr_model::agent::{AgentLibrary, Link, Process, Sampler, SystemFaults, enter_process};
use remora_clr_model::library::Library;
use remora_clr_model::runtime::{AttachRequest, ClassId, GcMode, LARGE, ObjectKey, Runtime, Shape};
use remora_clr_model::schedule::{self, Task};
use remora_heap_tracking::{Compared, Watch};
use remora_holds::holds;
use remora_wire::{CLSID_MAIN, Config, FromAgent, ToAgent};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use support::{CORES, SECOND, World, application, how_often, in_worlds, join};

const MODES: [GcMode; 3] = [GcMode::Blocking, GcMode::Server, GcMode::Concurrent];

/// The state of a tracked heap.
#[derive(Default)]
struct Kept {
    watch: Mutex<Watch>,
    /// Comparisons of snapshots with the heap mirror.
    compared: Mutex<Vec<Option<Compared>>>,
    /// The last snapshot is requested.
    ends: AtomicBool,
    over: AtomicBool,
    is_killed: AtomicBool,
}

/// The agent in its own process, and its recorder. The recorder requests another snapshot after a loss and at the end.
struct Watched {
    process: Arc<Process>,
    kept: Arc<Kept>,
    user: Task,
}

impl Watched {
    /// Attaches, with room for this many heap tracking pieces.
    fn attach(world: &World, room: usize) -> Watched {
        let process = Arc::new(Process {
            library: Library::new(AgentLibrary, world.faults.clone()),
            link: Arc::new(Link::new(64)),
            sampler: Arc::new(Sampler::new(100)),
            system_faults: SystemFaults::default(),
            runtime: world.runtime.clone(),
        });
        process.link.collections.limit(room);
        enter_process(Some(process.clone()));
        let answer = world.runtime.ask_for_attach(request(&process));
        let kept = Arc::new(Kept::default());
        let (of_user, link) = (kept.clone(), process.link.clone());
        let user = schedule::spawn("the recording process", move || {
            schedule::wait_until(None, || answer.get().is_some());
            link.say(ToAgent::Begin);
            use_it(&link, &of_user);
        });
        Watched { process, kept, user }
    }

    /// Waits for the first snapshot.
    fn begun(self) -> Watched {
        schedule::wait_until(None, || !self.kept.compared.lock().unwrap().is_empty());
        self
    }

    /// Takes the last snapshot, and detaches the agent.
    fn end(self) -> Arc<Kept> {
        self.kept.ends.store(true, Ordering::SeqCst);
        schedule::wait_until(None, || self.kept.over.load(Ordering::SeqCst));
        self.until_gone()
    }

    /// Kills the recorder.
    fn kill(self) {
        self.kept.is_killed.store(true, Ordering::SeqCst);
        self.process.link.kill();
        let process = self.process.clone();
        self.until_gone();
        holds!(DET_16 sim rem, process.runtime.profilers().is_empty() && !process.library.is_mapped());
    }

    fn until_gone(self) -> Arc<Kept> {
        join(&[self.user]);
        let library = &self.process.library;
        let is_gone = || self.process.runtime.profilers().is_empty() && !library.is_mapped();
        assert!(schedule::wait_until(Some(1_300 * SECOND), is_gone), "the agent is still there");
        enter_process(None);
        self.kept
    }
}

fn request(process: &Process) -> AttachRequest {
    let (data1, data2, data3, data4) = CLSID_MAIN;
    let config = Config { nonce: [0; 16], socket_path: "/tmp/remora".into(), task: remora_wire::Task::HeapTracking };
    AttachRequest {
        class: Guid { data1, data2, data3, data4 },
        library: Some(process.library.clone()),
        client_data: config.encode(),
    }
}

/// Reads the messages piece by piece, so that other threads may run in between.
fn use_it(link: &Link, kept: &Kept) {
    let (mut walked, mut is_taking, mut is_last) = (0, true, false);
    loop {
        if kept.is_killed.load(Ordering::SeqCst) {
            return;
        }
        let ended = link.said().iter().filter(|said| matches!(said, FromAgent::Walked { .. })).count();
        // Everything reported before the end of a copy has arrived before it.
        while let Some(piece) = link.collections.pop() {
            kept.watch.lock().unwrap().piece((&piece).into()).expect("the agent's own piece");
        }
        if ended > walked {
            walked = ended;
            let mut watch = kept.watch.lock().unwrap();
            watch.stream((&link.snapshots.pop().expect("the copy has sent all")).into());
            let compared = watch.snapshot();
            if is_last {
                watch.end()
            } else {
                watch.go_on()
            }
            kept.compared.lock().unwrap().push(compared);
            is_taking = false;
        }
        let is_stale = kept.watch.lock().unwrap().is_stale();
        match (is_taking, kept.ends.load(Ordering::SeqCst)) {
            (false, true) if is_last => break,
            (false, true) => {
                (is_taking, is_last) = (true, true);
                link.say(ToAgent::TakeAnother);
            }
            (false, false) if is_stale => {
                is_taking = true;
                link.say(ToAgent::TakeAnother);
            }
            _ => {}
        }
        assert!(
            !link.has_said(|said| matches!(said, FromAgent::Failed { .. } | FromAgent::Inert { .. })),
            "{:?}",
            link.said()
        );
        schedule::wait_until(Some(1_000_000), || false);
        if schedule::is_stopped() {
            return;
        }
    }
    link.say(ToAgent::Detach);
    schedule::wait_until(Some(10 * SECOND), || link.has_said(|said| matches!(said, FromAgent::Detached)));
    link.kill();
    kept.over.store(true, Ordering::SeqCst);
}

fn small(size: usize, references: &[ObjectKey]) -> Shape {
    Shape { size, references: references.to_vec(), ..Shape::default() }
}

/// A program that allocates, keeps and drops objects, and collects in between. Every third GC moves nothing.
fn churn(runtime: &Arc<Runtime>, class: ClassId, rounds: usize) {
    let mut kept = Vec::new();
    for round in 0..rounds {
        let inner = runtime.allocate(class, small(24, &[]));
        let size = if round % 5 == 4 { LARGE } else { 32 + round * 8 };
        let outer = runtime.allocate(class, small(size, &[inner]));
        runtime.forget(inner);
        kept.push(outer);
        if round % 3 == 2 {
            runtime.forget(kept.swap_remove(0));
        }
        runtime.collect((round % 3) as u8);
    }
}

/// What is wrong with the last snapshot and the sums; earlier losses do not count.
fn wrong(kept: &Kept) -> Option<String> {
    let compared = kept.compared.lock().unwrap().clone();
    let Some(Some(Compared::With(difference))) = compared.last() else { return Some(format!("{compared:?}")) };
    let watch = kept.watch.lock().unwrap();
    let sums = (watch.sum().contradictions, watch.sum().unexplained, watch.stales());
    let is_right = difference.is_none() && sums == (0, 0, 0) && watch.is_complete();
    (!is_right).then(|| format!("{difference:?}, {sums:?}, complete: {}", watch.is_complete()))
}

#[test]
fn gch_01_a_watch_that_comes_in_mid_collection_ignores_what_is_left_of_it() {
    for mode in MODES {
        in_worlds(CORES, move |world| {
            world.runtime.set_gc_mode(mode);
            let class = world.runtime.define_class(None, None);
            // They collect while the agent attaches, and while it requests more callbacks.
            let threads = [(), ()].map(|()| application(world, move |runtime| churn(runtime, class, 6)));
            let watched = Watched::attach(world, usize::MAX).begun();
            join(&threads);
            holds!(GCH_01 rem, wrong(&watched.end()) == None);
        });
    }
}

#[test]
fn gch_02_the_catch_up_collection_of_a_watch_has_every_object_that_is_alive() {
    in_worlds(CORES, |world| {
        let class = world.runtime.define_class(None, None);
        let keeps = Arc::new(AtomicBool::new(true));
        let of_thread = keeps.clone();
        let thread = application(world, move |runtime| {
            let dead = runtime.allocate(class, small(24, &[]));
            runtime.forget(dead);
            for _ in 0..3 {
                runtime.allocate(class, small(40, &[]));
            }
            while of_thread.load(Ordering::SeqCst) {
                schedule::sleep(1_000_000);
                runtime.safepoint();
            }
        });
        schedule::wait_until(None, || world.runtime.objects().len() == 4);
        let watched = Watched::attach(world, usize::MAX).begun();
        let known = watched.kept.watch.lock().unwrap().account().tallies()[0];
        holds!(GCH_02 sim rem, (known.objects_at_start, known.bytes_at_start) == (3, 120));
        keeps.store(false, Ordering::SeqCst);
        join(&[thread]);
        holds!(GCH_02 sim rem, wrong(&watched.end()) == None);
    });
}

#[test]
fn gch_03_a_watch_is_true_after_collections_that_move_and_that_do_not() {
    for mode in MODES {
        let moved = how_often(CORES, move |world| {
            world.runtime.set_gc_mode(mode);
            let class = world.runtime.define_class(None, None);
            let watched = Watched::attach(world, usize::MAX).begun();
            let threads = [(), ()].map(|()| application(world, move |runtime| churn(runtime, class, 7)));
            join(&threads);
            let kept = watched.end();
            holds!(GCH_03 sim rem, wrong(&kept) == None);
            let watch = kept.watch.lock().unwrap();
            watch.sum().moved > 0 && watch.sum().survived > watch.sum().moved && watch.sum().died > 0
        });
        holds!(GCH_03 sim rem, moved.iter().all(|count| *count > 0), "{mode:?}: {moved:?}");
    }
}

#[test]
fn gch_03_a_watch_that_loses_a_piece_begins_anew_and_is_true_again() {
    let lost = how_often(CORES, |world| {
        let class = world.runtime.define_class(None, None);
        // If the recorder does not read, not even the data of one GC fits.
        let watched = Watched::attach(world, 5).begun();
        join(&[application(world, move |runtime| churn(runtime, class, 5))]);
        let (process, kept) = (watched.process.clone(), watched.kept.clone());
        // From now on there is room, and nothing more is lost.
        process.link.collections.limit(usize::MAX);
        schedule::wait_until(None, || !kept.watch.lock().unwrap().is_stale());
        join(&[application(world, move |runtime| churn(runtime, class, 3))]);
        watched.end();
        let (watch, compared) = (kept.watch.lock().unwrap(), kept.compared.lock().unwrap().clone());
        match compared.last() {
            Some(Some(Compared::With(difference))) => holds!(GCH_03 sim rem, difference.is_none(), "{difference:?}"),
            other => assert!(watch.stales() > 0, "{other:?}"),
        }
        holds!(GCH_03 sim rem, (watch.sum().contradictions, watch.sum().unexplained) == (0, 0));
        watch.stales() > 0 && compared.len() > 2
    });
    assert!(lost.iter().all(|count| *count > 0), "nothing was ever lost: {lost:?}");
}

#[test]
fn gch_04_a_watch_knows_nothing_of_the_newborn_until_the_next_collection() {
    in_worlds(CORES, |world| {
        let class = world.runtime.define_class(None, None);
        let watched = Watched::attach(world, usize::MAX).begun();
        let kept = watched.kept.clone();
        join(&[application(world, move |runtime| {
            let alive = runtime.allocate(class, small(48, &[]));
            let dead = runtime.allocate(class, small(48, &[]));
            runtime.forget(dead);
            let before = runtime.object(alive).unwrap().0 as u64;
            holds!(GCH_04 sim rem, kept.watch.lock().unwrap().cache().unwrap().get(before) == None);
            runtime.collect(0);
            let after = runtime.object(alive).unwrap().0 as u64;
            schedule::wait_until(None, || kept.watch.lock().unwrap().collections().count() == 1);
            let known = kept.watch.lock().unwrap().cache().unwrap().get(after);
            let facts = known.as_ref().map(|known| (known.bytes, known.survived, known.is_of_the_start));
            holds!(GCH_04 sim rem, facts == Some((48, 1, false)), "added by the collection");
            let known = known.unwrap();
            let tally = kept.watch.lock().unwrap().account().tallies()[known.class as usize];
            holds!(GCH_04 sim rem, (tally.allocated, tally.born, tally.ages.none) == (2, 1, 1));
        })]);
        holds!(GCH_04 sim rem, wrong(&watched.end()) == None);
    });
}

#[test]
fn det_16_if_the_recorder_of_a_watch_dies_the_agent_detaches() {
    for mode in MODES {
        in_worlds(CORES, move |world| {
            world.runtime.set_gc_mode(mode);
            let class = world.runtime.define_class(None, None);
            let watched = Watched::attach(world, usize::MAX).begun();
            let thread = application(world, move |runtime| churn(runtime, class, 6));
            watched.kill();
            join(&[thread]);
        });
    }
}
