//! The worker thread with a fake operating system and runtime: from hello to detach, and the messages in between.

mod support;

use remora_holds::holds;
use remora_sampler::{Link, Links, UNKNOWN_LINK};
use remora_session::{CodeBody, Outcome, Progress, ResourceKind, ResourceRegistry, Shared, Worker, retry};
use remora_wire::{AgentErrorCode, FromAgent, Message, Place, Received, ToAgent, sample_flags};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use support::{Clr, Question, Script, Step, good_session, raw, raw_with_windows};

fn shared(script: Script) -> Shared<Script> {
    let shared = Shared::new(script, Arc::new(ResourceRegistry::default()));
    shared.attach_complete.store(true, Ordering::SeqCst);
    shared
}

fn run(shared: &Shared<Script>, runtime: &Clr) -> Outcome {
    Worker::new(shared, runtime).run()
}

#[test]
fn det_01_a_wish_from_outside_ends_in_detach_with_everything_closed_first() {
    let shared = shared(Script::default());
    let mut messages = good_session();
    // What comes after the request is not done any more.
    let wishes = [ToAgent::SetFrequency(50), ToAgent::Detach, ToAgent::SetFrequency(75)];
    messages.extend(wishes.map(Received::Message));
    shared.platform.hears(messages);
    let runtime = Clr::default();
    assert_eq!(run(&shared, &runtime), Outcome::Detach);
    assert!(runtime.silenced.get());
    let steps = shared.platform.said();
    let at = |wanted: &dyn Fn(&Step) -> bool| steps.iter().position(wanted).expect("it happened");
    let stopped = at(&|step| *step == Step::SamplingStopped);
    assert!(at(&|step| *step == Step::Frequency(50)) < stopped);
    holds!(DET_01 rem, !steps.contains(&Step::Frequency(75)));
    holds!(DET_01 rem, stopped < at(&|step| matches!(step, Step::Said(FromAgent::Leaving { .. }))));
}

#[test]
fn det_16_when_the_user_is_gone_the_agent_detaches_by_itself() {
    let shared = shared(Script::default());
    shared.platform.hears(good_session());
    holds!(DET_16 rem, run(&shared, &Clr::default()) == Outcome::Detach);
    assert!(shared.platform.said().contains(&Step::SamplingStopped));
}

#[test]
fn att_08_an_agent_whose_trigger_timed_out_detaches_without_sampling() {
    let shared = shared(Script::default());
    shared.platform.refuse_connection.store(true, Ordering::SeqCst);
    let runtime = Clr::default();
    holds!(ATT_08 rem, run(&shared, &runtime) == Outcome::Detach);
    holds!(ATT_08 rem, !shared.platform.said().contains(&Step::SamplingStarted));
    assert!(runtime.silenced.get());
}

#[test]
fn det_18_without_attach_complete_the_agent_stays_inert_and_says_so() {
    let shared = shared(Script::default());
    shared.attach_complete.store(false, Ordering::SeqCst);
    shared.platform.hears(good_session());
    let runtime = Clr::default();
    holds!(DET_18 rem, matches!(run(&shared, &runtime), Outcome::Inert(_)));
    assert!(runtime.silenced.get(), "no callback stays switched on");
    let steps = shared.platform.said();
    assert!(!steps.contains(&Step::SamplingStarted));
    holds!(DET_18 rem, steps.iter().any(|step| matches!(step, Step::Said(FromAgent::Inert { .. }))));
}

#[test]
fn det_18_callbacks_that_no_longer_arrive_forbid_the_detach() {
    let shared = shared(Script::default());
    shared.platform.hears(good_session());
    let runtime = Clr { callbacks_arrive: false, ..Clr::default() };
    holds!(DET_18 rem, matches!(run(&shared, &runtime), Outcome::Inert(_)));
    assert!(runtime.silenced.get());
    assert!(shared.platform.said().contains(&Step::SamplingStopped));
}

#[test]
fn det_04_an_entrance_that_is_still_open_forbids_the_detach() {
    let shared = shared(Script::default());
    shared.platform.hears(good_session());
    shared.resources.acquire(ResourceKind::Timer);
    let runtime = Clr::default();
    holds!(DET_04 rem, run(&shared, &runtime) == Outcome::Inert(AgentErrorCode::ResourceHeld.with(ResourceKind::Timer as u64)));
    assert!(runtime.silenced.get(), "no callback stays switched on");
}

#[test]
fn det_04_a_handler_that_does_not_return_forbids_the_detach() {
    let shared = shared(Script::default());
    shared.platform.hears(good_session());
    shared.platform.refuse_stop.store(true, Ordering::SeqCst);
    let runtime = Clr::default();
    holds!(DET_04 rem, run(&shared, &runtime) == Outcome::Inert(AgentErrorCode::HandlerRuns.with(23)));
    assert!(runtime.silenced.get(), "no callback stays switched on");
}

#[test]
fn a_panic_in_a_callback_ends_the_recording_and_not_the_target() {
    let shared = shared(Script::default());
    let mut messages = good_session();
    messages.extend(std::iter::repeat_n(Received::Nothing, 100));
    shared.platform.hears(messages);
    shared.panicked.store(true, Ordering::SeqCst);
    assert_eq!(run(&shared, &Clr::default()), Outcome::Detach);
    assert!(shared.platform.said().iter().any(|step| matches!(step, Step::Said(FromAgent::Failed { .. }))));
}

#[test]
fn cat_08_what_a_sample_meets_is_described_once_and_before_it() {
    let shared = shared(Script::default());
    shared.platform.hears(good_session());
    shared.platform.arrive([raw(9, 0, &[0x1010, 0x2021, 0x9_0001], &[]), raw(9, 0, &[0x1010, 0x2021, 0x9_0001], &[])]);
    assert_eq!(run(&shared, &Clr::default()), Outcome::Detach);
    let messages = shared.platform.messages();
    let sample = messages.iter().position(|message| matches!(message, Message::Sample { .. })).expect("a sample");
    let described: Vec<u64> = messages[..sample]
        .iter()
        .filter_map(|message| if let Message::Address { address, .. } = message { Some(*address) } else { None })
        .collect();
    // Return addresses are moved back into the call.
    holds!(CAT_08 rem, described == [0x1010, 0x2020, 0x9_0000]);
    holds!(CAT_08 rem, messages[..sample].iter().any(|message| matches!(message, Message::Module { .. })));
    assert!(!messages[sample + 1..].iter().any(|message| matches!(message, Message::Address { .. })));
    let native = Message::Address { address: 0x9_0000, place: Place::Native };
    assert!(messages.contains(&native));
    let method = |message: &&Message| matches!(message, Message::Method { .. });
    assert_eq!(messages.iter().filter(method).count(), 2);
}

#[test]
fn the_caller_that_a_frameless_leaf_hides_is_put_back_and_the_sample_marked() {
    let shared = shared(Script::default());
    shared.platform.hears(good_session());
    let mut runtime = Clr::default();
    // lea eax,[rdi+1]; ret: no frame at all, its caller is the word at the stack pointer.
    runtime.code.insert(1, vec![0x8d, 0x47, 0x01, 0xc3]);
    shared.platform.arrive([raw(9, 0, &[0x1000, 0x3005], &[0x2005, 0])]);
    assert_eq!(run(&shared, &runtime), Outcome::Detach);
    let sample = shared.platform.messages().into_iter().find_map(|message| match message {
        Message::Sample { flags, addresses, .. } => Some((flags, addresses)),
        _ => None,
    });
    assert_eq!(sample, Some((sample_flags::REPAIRED, vec![0x1000, 0x2004, 0x3004])));
}

#[test]
fn the_caller_that_a_leaf_of_the_c_library_hides_is_put_back_and_marked_as_a_guess() {
    let shared = shared(Script::default());
    shared.platform.hears(good_session());
    // A local, a code address without a call before it, the return address; RBP is the caller's frame.
    let window = [7, 0x2010, 0x2025, 0x2035];
    shared.platform.arrive([raw(9, 0, &[0xc000, 0x3005], &window)]);
    assert_eq!(run(&shared, &Clr::default()), Outcome::Detach);
    let sample = shared.platform.messages().into_iter().find_map(|message| match message {
        Message::Sample { flags, addresses, .. } => Some((flags, addresses)),
        _ => None,
    });
    let flags = sample_flags::REPAIRED | sample_flags::CALLERS_UNKNOWN;
    assert_eq!(sample, Some((flags, vec![0xc000, 0x2024, 0x3004])));
}

/// Flags and addresses of the only sample, and the learnt links of these return addresses.
fn resolved(sample: Vec<u64>, code: &[(usize, &[u8])], learnt: &[u64]) -> (u8, Vec<u64>, Vec<Option<Link>>) {
    let mut runtime = Clr::default();
    runtime.code.extend(code.iter().map(|(function, code)| (*function, code.to_vec())));
    explained_by(runtime, sample, learnt)
}

fn explained_by(runtime: Clr, sample: Vec<u64>, learnt: &[u64]) -> (u8, Vec<u64>, Vec<Option<Link>>) {
    let shared = shared(Script::default());
    shared.platform.hears(good_session());
    shared.platform.arrive([sample]);
    assert_eq!(run(&shared, &runtime), Outcome::Detach);
    let samples = shared.platform.messages().into_iter().find_map(|message| match message {
        Message::Sample { flags, addresses, .. } => Some((flags, addresses)),
        _ => None,
    });
    let (flags, addresses) = samples.expect("a sample");
    let links = Links::new(&shared.platform.links.0);
    (flags, addresses, learnt.iter().map(|address| links.find(*address)).collect())
}

/// Word of a raw sample: its time.
const TIME: usize = 2;

fn unknown(address: u64) -> u64 {
    address | UNKNOWN_LINK
}

/// sub rsp, 8
const FRAMELESS: [u8; 5] = [0x48, 0x83, 0xec, 8, 0x90];
/// push r14; push rbx; sub rsp, 8
const FRAMELESS_24: [u8; 8] = [0x41, 0x56, 0x53, 0x48, 0x83, 0xec, 8, 0x90];

#[test]
fn the_callers_that_frameless_methods_hide_in_the_middle_are_put_back_and_learnt() {
    let sample = raw_with_windows(&[0x1004, unknown(0x2025), unknown(0x5005)], &[&[7, 0x3025, 7, 7, 7, 0x4025], &[]]);
    let code: [(usize, &[u8]); 2] = [(2, &FRAMELESS), (3, &FRAMELESS_24)];
    let (flags, addresses, learnt) = resolved(sample, &code, &[0x2025, 0x3025, 0x4025, 0x5005]);
    assert_eq!((flags, addresses), (sample_flags::REPAIRED, vec![0x1004, 0x2024, 0x3024, 0x4024, 0x5004]));
    let links = [Link::Frameless(8), Link::Frameless(24), Link::Framed, Link::Framed];
    assert_eq!(learnt, links.map(Some));
}

#[test]
fn where_a_caller_cannot_be_known_the_sample_is_marked() {
    let frameless: [(usize, &[u8]); 1] = [(2, &FRAMELESS)];
    let marked = |window: &[&[u64]], code: &[(usize, &[u8])]| {
        let (flags, addresses, _) = resolved(raw_with_windows(&[0x1004, unknown(0x2025), 0x5005], window), code, &[]);
        assert_eq!(addresses, [0x1004, 0x2024, 0x5004]);
        flags == sample_flags::CALLERS_UNKNOWN
    };
    assert!(marked(&[], &frameless), "there is no window");
    assert!(marked(&[&[7, 0x9_0000]], &frameless), "no code lies there");
    // sub rsp, 128: beyond the window. sub rsp, 16: not aligned for a call, and without a call before that word.
    assert!(marked(&[&[0x3025; 16]], &[(2, &[0x48, 0x81, 0xec, 0x88, 0, 0, 0, 0x90])]));
    assert!(marked(&[&[0x3020; 16]], &[(2, &[0x48, 0x83, 0xec, 16, 0x90])]));
    assert!(!marked(&[], &[]), "a method with a frame hides nobody");
}

#[test]
fn the_caller_of_a_write_barrier_or_a_stub_is_its_return_address() {
    // A stub may have pushed a word. The caller did not align the stack: it has no prolog at all.
    for window in [&[0x2025, 0x3025][..], &[7, 0x2025, 0x3025]] {
        let sample = raw(9, 0, &[0xd000, 0x4005], window);
        let (flags, addresses, learnt) = resolved(sample, &[(2, &[0xe8, 1, 2, 3, 4])], &[0x2025]);
        assert_eq!((flags, addresses), (sample_flags::REPAIRED, vec![0xd000, 0x2024, 0x3024, 0x4004]));
        assert_eq!(learnt, [None], "the prolog alone does not prove it");
    }
    let (flags, addresses, _) = resolved(raw(9, 0, &[0xd000, 0x4005], &[7, 7, 0x2025]), &[], &[]);
    assert_eq!((flags, addresses), (sample_flags::CALLERS_UNKNOWN, vec![0xd000, 0x4004]));
}

#[test]
fn behind_a_leaf_whose_caller_was_put_back_the_next_ones_are_too() {
    // lea eax,[rdi+1]; ret
    let code: [(usize, &[u8]); 2] = [(1, &[0x8d, 0x47, 0x01, 0xc3]), (2, &FRAMELESS)];
    let sample = |window| raw(9, 0, &[0x1000, 0x4005], window);
    let (flags, addresses, _) = resolved(sample(&[0x2025, 7, 0x3025]), &code, &[]);
    assert_eq!((flags, addresses), (sample_flags::REPAIRED, vec![0x1000, 0x2024, 0x3024, 0x4004]));
    let (flags, addresses, _) = resolved(sample(&[0x2025, 7]), &code, &[]);
    assert_eq!(addresses, [0x1000, 0x2024, 0x4004]);
    assert_eq!(flags, sample_flags::REPAIRED | sample_flags::CALLERS_UNKNOWN, "the piece of the stack is too short");
}

#[test]
fn a_method_that_was_exchanged_while_it_ran_before_the_walk_knew_is_marked_and_its_calls_are_not() {
    let first = CodeBody { start: 0x2000, end: 0x2080 };
    let optimised = CodeBody { start: 0x2080, end: 0x2100 };
    // push rbp; sub rsp,0x40; lea rbp,[rsp+0x40] and mov rax,[rbp]; push rax
    let code = vec![0x55, 0x48, 0x83, 0xec, 0x40, 0x48, 0x8d, 0x6c, 0x24, 0x40, 0x90, 0x90];
    let replacement = [0x48, 0x8b, 0x45, 0x00, 0x50, 0x90].repeat(8);
    let runtime = || {
        let bodies = vec![(first, code.clone()), (optimised, replacement.clone())];
        Clr { bodies: HashMap::from([(2, bodies)]), ..Clr::default() }
    };
    let stack = |addresses: &[u64]| {
        let (flags, addresses, learnt) = explained_by(runtime(), raw(9, 0, addresses, &[]), &[0x2025]);
        assert_eq!(learnt, [Some(Link::Replaced(0x40))]);
        (flags, addresses)
    };
    // The walk has the method twice, and its caller never. It is shown once.
    let once = (sample_flags::CALLERS_UNKNOWN, vec![0x2090, 0x3004]);
    assert_eq!(stack(&[0x2090, 0x2025, 0x3005]), once);
    assert_eq!(stack(&[0x2090, unknown(0x2025), 0x3005]), once);
    assert_eq!(
        stack(&[0x1004, unknown(0x2025), 0x3005]),
        (0, vec![0x1004, 0x2024, 0x3004]),
        "a call out of the first body"
    );
    // A recursion into the method. The walk knew the replacement, and skipped one frame.
    let mut later = raw(9, 0, &[0x2090, 0x2025, 0x3005], &[]);
    later[TIME] = u64::MAX - 1;
    let shared = shared(Script::default());
    shared.platform.hears(good_session());
    shared.platform.arrive([raw(9, 0, &[0x2090, unknown(0x2025), 0x3005], &[]), later]);
    assert_eq!(run(&shared, &runtime()), Outcome::Detach);
    let flags_of = |message| if let Message::Sample { flags, .. } = message { Some(flags) } else { None };
    let all: Vec<u8> = shared.platform.messages().into_iter().filter_map(flags_of).collect();
    assert_eq!(all, [sample_flags::CALLERS_UNKNOWN, 0]);
}

/// The recorder is gone. In the pause with this number, the runtime confirms the attach, after an hour on the clock of a stopped process.
fn confirmed_in(pause: u64) -> (Outcome, u64) {
    let shared = Arc::new(shared(Script::default()));
    shared.attach_complete.store(false, Ordering::SeqCst);
    shared.platform.refuse_connection.store(true, Ordering::SeqCst);
    let (inside, mut pauses) = (Arc::clone(&shared), 0);
    *shared.platform.on_pause.lock().expect("no panic") = Some(Box::new(move || {
        pauses += 1;
        inside.platform.time.fetch_add(3_600_000_000_000, Ordering::SeqCst);
        inside.attach_complete.store(pauses == pause, Ordering::SeqCst);
    }));
    let outcome = run(&shared, &Clr::default());
    // It holds the session that it belongs to.
    *shared.platform.on_pause.lock().expect("no panic") = None;
    let waits = shared.platform.waits.load(Ordering::SeqCst);
    assert_eq!(waits, 0, "a channel that has hung up would end every such wait at once");
    (outcome, shared.platform.pauses.load(Ordering::SeqCst))
}

#[test]
fn det_16_an_attach_that_is_confirmed_late_is_waited_for_in_rounds_of_the_process_not_by_the_clock() {
    assert_eq!(confirmed_in(1), (Outcome::Detach, 1));
    holds!(DET_16 rem, confirmed_in(400) == (Outcome::Detach, 400));
}

/// After a killed main profiler, .NET calls the next profiler never. Its threads stayed for ever, and every later command was refused.
#[test]
fn regression_an_attach_that_is_never_confirmed_leaves_no_threads() {
    let (outcome, pauses) = confirmed_in(u64::MAX);
    assert_eq!(outcome, Outcome::Inert(AgentErrorCode::NoCallbacks.into()));
    assert!(pauses >= 500, "{pauses}");
}

#[test]
fn det_18_callbacks_that_never_arrive_are_switched_off_when_nobody_uses_us() {
    let shared = shared(Script::default());
    shared.platform.refuse_connection.store(true, Ordering::SeqCst);
    let runtime = Clr { callbacks_arrive: false, ..Clr::default() };
    holds!(DET_18 rem, matches!(run(&shared, &runtime), Outcome::Inert(_)));
    assert!(runtime.silenced.get());
}

#[test]
fn det_17_a_runtime_that_shuts_down_is_asked_nothing_any_more() {
    let shared = shared(Script::default());
    shared.platform.hears(good_session());
    shared.platform.arrive([raw(9, 0, &[0x1010, 0x2021], &[])]);
    shared.shutdown.store(true, Ordering::SeqCst);
    let runtime = Clr::default();
    assert!(matches!(run(&shared, &runtime), Outcome::Inert(_)));
    holds!(DET_17 rem, *runtime.questions.borrow() == []);
    assert!(shared.platform.said().contains(&Step::SamplingStopped));
    assert!(shared.platform.messages().iter().any(|message| matches!(message, Message::Sample { .. })));
}

#[test]
fn det_17_a_shutdown_ends_the_wait_for_a_confirmation() {
    let shared = shared(Script::default());
    shared.attach_complete.store(false, Ordering::SeqCst);
    shared.shutdown.store(true, Ordering::SeqCst);
    shared.platform.refuse_connection.store(true, Ordering::SeqCst);
    let runtime = Clr::default();
    assert!(matches!(run(&shared, &runtime), Outcome::Inert(_)));
    holds!(DET_17 rem, runtime.times(Question::Silence) == 0);
}

#[test]
fn the_runtime_is_tried_again_while_it_is_busy_and_for_a_minute_at_most() {
    let script = Script::default();
    let mut tries = 0;
    // A GC of thirty seconds.
    assert!(retry(&script, || {
        tries += 1;
        if tries > 30_000 { Progress::Done } else { Progress::Busy }
    }));
    let mut tries = 0;
    assert!(!retry(&script, || {
        tries += 1;
        Progress::Refused
    }));
    assert_eq!(tries, 1, "a refusal is final");
    script.time.store(0, Ordering::SeqCst);
    assert!(!retry(&script, || Progress::Busy));
    assert_eq!(script.time.load(Ordering::SeqCst), 60_000_000_000);
}

#[test]
fn det_15_the_longest_callback_is_measured_and_a_shorter_one_after_it_changes_nothing() {
    let shared = shared(Script::default());
    // The monotonic clock is never zero.
    shared.platform.time.store(1, Ordering::SeqCst);
    for (lasts, longest) in [(7_000_000, 8_000_000), (450_000_000, 451_000_000), (1_000_000, 451_000_000)] {
        let begun = shared.enter_callback();
        shared.platform.time.fetch_add(lasts, Ordering::SeqCst);
        shared.leave_callback(begun);
        // The fake clock advances by a millisecond at each reading.
        holds!(DET_15 rem, shared.running_callbacks.longest() == longest);
    }
}
