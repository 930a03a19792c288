//! Answers of ICorProfilerInfo on live runtimes and their models: short buffers, invalid ids, wrong callers.
//!
//! The profiler is `tests/probe`, which makes each raw call and returns the code and the outputs. Remora takes no part. Stale ids are not
//! tested here: a live runtime crashes.
#![forbid(unsafe_code)]

#[path = "support/answers.rs"]
mod answers;

use answers::{ask, compiled};
use remora_conformance::probe::{Seat, Stage};
use remora_conformance::{in_every_world, on_runtimes, worlds};
use remora_holds::holds;

const MODULE_LOADS: u32 = 0x4;
const JIT: u32 = 0x20;
const EXCEPTIONS: u32 = 0x40;
const MONITOR_GC: u32 = 0x80;
const BASIC_GC: u32 = 0x10;

const DONE: u64 = 0;
const LESS: u64 = 1;
const INVALID: u64 = 0x8007_0057;
const FAIL: u64 = 0x8000_4005;
const INSUFFICIENT_BUFFER: u64 = 0x8007_007A;
const NOT_MANAGED: u64 = 0x8013_1355;
const NOT_COMPILED: u64 = 0x8013_1350;
const CALL_SEQUENCE: u64 = 0x8013_1363;
const NOT_GC_OBJECT: u64 = 0x8013_1389;
const SUSPENSION_IN_PROGRESS: u64 = 0x8013_1388;

fn code(seat: &mut Seat, question: &str) -> u64 {
    ask(seat, question).code()
}

#[test]
fn an_id_of_zero_is_a_wrong_argument_to_every_question_that_looks() {
    in_every_world(|runtime| {
        let stage = Stage::start(runtime);
        let mut own = stage.attached(0, 0);
        let questions = [
            "function 0",
            "code 0",
            "pieces 0 1",
            "starts 0 1",
            "map 0 1",
            "versions 0 1",
            "module 0 8",
            "assembly 0 8",
            "domain 0 8",
            "domains 0 1",
            "metadata 0",
            "thread 0",
            "thread-context 0",
            "thread-handle 0",
            "class 0",
            "layout 0",
            "object-class 0",
            "object-size 0",
            "token 0 0x6000001",
        ];
        let codes: Vec<(&str, u64)> = questions.into_iter().map(|one| (one, code(&mut own, one))).collect();
        let others: Vec<_> = codes.iter().filter(|(_, code)| *code != INVALID).collect();
        assert!(others.is_empty(), "{others:#x?}");
        assert_eq!(code(&mut own, "thread-domain 0"), NOT_MANAGED, "0 is the running thread");
    });
}

#[test]
fn a_list_is_cut_where_room_ends_and_its_true_length_reported() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        let mut own = stage.attached(JIT, 0);
        let function = compiled(&mut stage, &mut own);
        let whole = ask(&mut own, &format!("pieces {function} 8"));
        assert_eq!((whole.code(), whole.count()), (DONE, 1));
        let nothing = ask(&mut own, &format!("pieces {function} 0"));
        assert_eq!(nothing.numbers, [DONE, 1, 0, 0]);
        let one = ask(&mut own, &format!("code {function}"));
        assert_eq!(one.numbers, [DONE, whole.numbers[2], whole.numbers[3]], "the first piece");
        assert_eq!(code(&mut own, &format!("pieces {function} 1 nowhere")), INVALID);
        assert_eq!(code(&mut own, "pieces-at 0 1"), NOT_COMPILED);
        assert_eq!(code(&mut own, "pieces-at 0 1 nowhere"), INVALID);
        let starts = ask(&mut own, &format!("starts {function} 8"));
        assert_eq!((starts.code(), starts.count()), (DONE, 1));
        assert_eq!(ask(&mut own, &format!("starts {function} 0")).numbers, [DONE, 1, 0], "it was not asked for");
        assert_eq!(ask(&mut own, &format!("starts {function} 1 nowhere")).numbers, [DONE, 1, 0]);
        let map = ask(&mut own, &format!("map {function} 0"));
        assert!(map.code() == DONE && map.count() > 0, "{:?}", map.numbers);
        assert_eq!(code(&mut own, &format!("map {function} 1 nowhere")), INVALID);
        assert_eq!(ask(&mut own, &format!("versions {function} 4")).numbers, [DONE, 1, 0], "what it came with");
        let without_room = ask(&mut own, &format!("versions {function} 0")).numbers;
        let refused = runtime.major() < 5;
        assert_eq!(without_room[..2], if refused { [INVALID, 0] } else { [LESS, 1] });
        assert_eq!(code(&mut own, &format!("versions {function} 1 nowhere")), INVALID);
    });
}

#[test]
fn a_modules_name_is_given_whole_or_not_at_all_and_the_others_are_cut() {
    in_every_world(|runtime| {
        let stage = Stage::start(runtime);
        let mut own = stage.attached(0, 0);
        let module = own.done("modules").remove(0);
        let whole = ask(&mut own, &format!("module {module} 500"));
        let (length, assembly) = (whole.count(), whole.numbers[2]);
        assert_eq!((whole.code(), length as usize), (DONE, whole.text.len() + 1), "{}", whole.text);
        let exact = ask(&mut own, &format!("module {module} {length}"));
        assert_eq!((exact.code(), &exact.text), (DONE, &whole.text));
        let short = ask(&mut own, &format!("module {module} {}", length - 1));
        assert_eq!((short.code(), short.count(), short.text.as_str()), (INSUFFICIENT_BUFFER, length, "-"));
        assert_eq!(short.numbers[2], assembly, "the rest is told all the same");
        let none = ask(&mut own, &format!("module {module} 0"));
        assert_eq!((none.code(), none.count()), (DONE, length));
        assert_eq!(ask(&mut own, &format!("module {module} 9 nowhere")).code(), DONE, "it was not asked for");

        let whole = ask(&mut own, &format!("assembly {assembly:#x} 500"));
        let (domain, of) = (whole.numbers[2], whole.numbers[3]);
        assert_eq!((whole.code(), whole.count() as usize), (DONE, whole.text.len() + 1));
        assert_eq!(format!("{of:#x}"), module, "the module with its manifest");
        let short = ask(&mut own, &format!("assembly {assembly:#x} 4"));
        assert_eq!((short.code(), short.count(), short.text.as_str()), (DONE, whole.count(), &whole.text[..3]));

        let domains = ask(&mut own, &format!("domains {module} 4"));
        assert_eq!(domains.numbers, [DONE, 1, domain]);
        assert_eq!(code(&mut own, &format!("domains {module} 1 nowhere")), INVALID);
        let whole = ask(&mut own, &format!("domain {domain:#x} 500"));
        assert_eq!((whole.code(), whole.numbers[2]), (DONE, u64::from(stage.pid())));
        assert_eq!(whole.text, "clrhost");
        let short = ask(&mut own, &format!("domain {domain:#x} 4"));
        assert_eq!((short.code(), short.count(), short.text.as_str()), (DONE, 8, "clr"));
    });
}

#[test]
fn a_token_that_is_no_methods_or_nobodys_is_a_wrong_argument() {
    in_every_world(|runtime| {
        let stage = Stage::start(runtime);
        let mut own = stage.attached(0, 0);
        let module = own.done("modules").remove(0);
        for token in ["0", "0x2000002", "0x6ffffff"] {
            assert_eq!(code(&mut own, &format!("token {module} {token}")), INVALID, "{token}");
        }
        // An unknown flag, and only the flags.
        assert_eq!(code(&mut own, &format!("metadata {module} 2")), INVALID);
    });
}

#[test]
fn generations_are_known_from_the_first_collection_that_is_reported() {
    in_every_world(|runtime| {
        let stage = Stage::start(runtime);
        let mut own = stage.attached(0, 0);
        assert_eq!(code(&mut own, "generations 64"), FAIL);
        own.done("gc");
        assert_eq!(code(&mut own, "generations 64"), FAIL, "nobody was told of it");
        own.done(&format!("mask 0 {BASIC_GC:#x}"));
        assert_eq!(code(&mut own, "generations 64"), FAIL);
        own.done("gc");
        let whole = ask(&mut own, "generations 500");
        let pinned = u64::from(runtime.major() >= 5);
        assert_eq!((whole.code(), whole.numbers[2]), (DONE, 3 + pinned), "the highest generation");
        let one = ask(&mut own, "generations 1");
        assert_eq!((one.code(), one.count()), (DONE, whole.count()), "how many there are, whatever the room");
        own.done("mask 0 0");
        assert_eq!(code(&mut own, "generations 0"), DONE, "what is known stays known");
    });
}

#[test]
fn objects_are_inspected_where_they_hold_still_and_nowhere_else() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        // The first load and throw also load their own dependencies.
        stage.act("a load");
        stage.act("a throw");
        let mut own = stage.attached(MODULE_LOADS | EXCEPTIONS, BASIC_GC);
        // The address is not even read: the call comes at the wrong time.
        assert_eq!(code(&mut own, "object-class 0x10"), NOT_MANAGED);
        assert_eq!(code(&mut own, "object-size 0x10"), NOT_MANAGED);
        own.done("hold ModuleLoadFinished");
        stage.act("start a load");
        let mut held = stage.seat("ModuleLoadFinished");
        assert_eq!(code(&mut held, "object-class 0x10"), CALL_SEQUENCE);
        assert_eq!(code(&mut held, "object-size 0"), INVALID, "that is looked at first");
        own.done("let ModuleLoadFinished");
        held.leave(0);
        assert_eq!(stage.act("finish a"), "obedient");
        own.done("hold ExceptionThrown");
        stage.act("start a throw");
        let mut held = stage.seat("ExceptionThrown");
        let object = held.id().to_owned();
        let class = ask(&mut held, &format!("object-class {object}"));
        assert!(class.code() == DONE && class.count() != 0, "{:?}", class.numbers);
        let size = ask(&mut held, &format!("object-size {object}"));
        assert!(size.code() == DONE && size.count() >= 24, "{:?}", size.numbers);
        assert_eq!(ask(&mut held, &format!("frozen {object}")).numbers, [DONE, 0]);
        let known = ask(&mut held, &format!("class {:#x}", class.count()));
        assert!(known.code() == DONE && known.numbers[2] >> 24 == 0x02, "{:x?}", known.numbers);
        assert_eq!(code(&mut held, &format!("class {:#x} 1 nowhere", class.count())), INVALID);
        own.done("let ExceptionThrown");
        held.leave(0);
        stage.act("finish a");
    });
}

#[test]
fn what_holds_of_every_heap_is_reported_as_it_is() {
    in_every_world(|runtime| {
        let stage = Stage::start(runtime);
        let mut own = stage.attached(0, 0);
        assert_eq!(ask(&mut own, "large").numbers, [DONE, 85_000]);
        assert_eq!(ask(&mut own, "strings").numbers, [DONE, 8, 12]);
    });
    let shown = |runtime: &_| {
        let stage = Stage::start(runtime);
        let mut own = stage.attached(0, 0);
        let whole = ask(&mut own, "frozen-ranges 64");
        let none = ask(&mut own, "frozen-ranges 0");
        assert_eq!(
            (whole.code(), none.numbers),
            (DONE, vec![DONE, whole.count()]),
            "how many there are, whatever the room"
        );
        assert_eq!(code(&mut own, "frozen-ranges 1 nowhere"), INVALID);
    };
    on_runtimes(&worlds(|world| world.major() >= 8), shown);
}

#[test]
fn since_dotnet_9_the_heap_is_walked_without_a_collection() {
    let walked = |runtime: &_| {
        let mut stage = Stage::start(runtime);
        // The first load also loads its own dependencies.
        stage.act("a load");
        stage.act("a small");
        let mut own = stage.attached(MODULE_LOADS, BASIC_GC);
        // For threads known to the runtime it suspends the program; it assumes that other threads have done so already.
        assert_eq!(code(&mut own, "walk"), SUSPENSION_IN_PROGRESS);
        assert_eq!(code(&mut own, "suspend"), DONE);
        let all = ask(&mut own, "walk");
        assert!(all.code() == DONE && all.count() > 0, "{:?}", all.numbers);
        assert_eq!(code(&mut own, "resume"), DONE);
        assert_eq!(code(&mut own, "walk"), SUSPENSION_IN_PROGRESS);
        own.done("hold ModuleLoadFinished");
        stage.act("start a load");
        let mut held = stage.seat("ModuleLoadFinished");
        let all = ask(&mut held, "walk");
        assert!(all.code() == DONE && all.count() > 0, "{:?}", all.numbers);
        own.done("let ModuleLoadFinished");
        held.leave(0);
        stage.act("finish a");
        assert_eq!(own.count("GarbageCollectionStarted"), 0);
    };
    on_runtimes(&worlds(|world| world.major() >= 9), walked);
}

#[test]
fn a_thread_and_its_context_are_in_the_domain_of_its_modules() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        let (mut own, mut held) = stage.held_in_load();
        let module = held.done("modules").remove(0);
        let domain = ask(&mut own, &format!("domains {module} 1")).numbers[2];
        assert_eq!(ask(&mut held, "thread-domain 0").numbers, [DONE, domain]);
        let this = held.done("thread current").remove(0);
        assert_eq!(ask(&mut own, &format!("thread-domain {this}")).numbers, [DONE, domain]);
        assert_eq!(ask(&mut own, &format!("thread-context {this}")).numbers, [DONE, domain]);
        assert_eq!(ask(&mut own, &format!("thread {this}")).numbers, [DONE, u64::from(held.thread())]);
        let handle = ask(&mut own, &format!("thread-handle {this}"));
        assert!(handle.code() == DONE && handle.count() != 0, "{:?}", handle.numbers);
        own.done("let ModuleLoadFinished");
        held.leave(0);
        stage.act("finish a");
    });
}

#[test]
fn since_dotnet_5_a_providers_name_is_reported_with_its_length() {
    let shown = |runtime: &_| {
        let stage = Stage::start(runtime);
        let mut own = stage.attached(0, 0);
        let whole = ask(&mut own, "provider 16");
        assert_eq!((whole.code(), whole.count(), whole.text.as_str()), (DONE, 6, "Probe"));
        assert_eq!(code(&mut own, "provider 1 nowhere"), INVALID);
        let short = ask(&mut own, "provider 3");
        let none = ask(&mut own, "provider 0");
        let both = [(short.code(), short.count()), (none.code(), none.count())];
        assert_eq!(both, [(INSUFFICIENT_BUFFER, 6); 2], "no room is too little");
    };
    on_runtimes(&worlds(|world| world.major() >= 5), shown);
}

#[test]
fn a_function_without_metadata_has_code_and_a_token_that_is_nobodys_and_no_map() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        let mut own = stage.attached(JIT, 0);
        stage.act("a dynamic");
        let Some(function) = own.ids("DynamicMethodJITCompilationFinished").pop() else { panic!("nothing was made") };
        let known = ask(&mut own, &format!("function {function}"));
        assert_eq!((known.code(), known.numbers[3]), (DONE, 0x0600_0000));
        assert!(known.numbers[2] != 0, "it is said to be of some module");
        let pieces = ask(&mut own, &format!("pieces {function} 4"));
        assert_eq!((pieces.code(), pieces.count()), (DONE, 1));
        assert_eq!(code(&mut own, &format!("map {function} 4")), FAIL);
    });
}

#[test]
fn since_dotnet_8_a_thread_that_begins_a_session_is_one_of_the_runtimes_from_then_on() {
    let known = |runtime: &_| {
        let stage = Stage::start(runtime);
        let mut own = stage.attached(0, 0);
        assert_eq!(u64::from(own.refused("thread current")), NOT_MANAGED);
        own.done("modules");
        let session = own.done("listen 1").remove(0);
        own.done("thread current");
        // Calls allowed only in callbacks are refused now, and so are calls that may start a GC.
        assert_eq!(u64::from(own.refused("modules")), CALL_SEQUENCE);
        assert_eq!(code(&mut own, "strings"), CALL_SEQUENCE);
        own.done(&format!("unlisten {session}"));
        assert_eq!(u64::from(own.refused("modules")), CALL_SEQUENCE);
        // Stopping an unknown session succeeds.
        own.done("unlisten 99");
        own.done("gc");
        own.done("modules");
    };
    // 6 has no live runtime here.
    on_runtimes(&worlds(|world| world.major() >= 8), known);
}

#[test]
fn a_runtime_reports_its_version_since_dotnet_5_and_the_desktops_before() {
    in_every_world(|runtime| {
        let stage = Stage::start(runtime);
        let mut own = stage.attached(0, 0);
        let version = ask(&mut own, "version 64");
        let expected = if runtime.major() < 5 {
            (vec![DONE, 11, 4, 0, 30319], "v4.0.30319".to_owned())
        } else {
            let text = runtime.version_text();
            let parts = text.split('.').map(|part| part.parse().unwrap_or_default());
            ([DONE, text.len() as u64 + 1].into_iter().chain(parts).collect(), text.to_owned())
        };
        assert_eq!((version.numbers, version.text), expected);
    });
}

#[test]
fn a_generation_is_known_by_the_address_whatever_lies_there() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        // The first throw also loads its own dependencies.
        stage.act("a throw");
        let mut own = stage.attached(EXCEPTIONS, BASIC_GC);
        let outside = if runtime.major() >= 8 { NOT_GC_OBJECT } else { FAIL };
        assert_eq!(code(&mut own, "object-generation 0x10"), outside);
        own.done("hold ExceptionThrown");
        stage.act("start a throw");
        let mut held = stage.seat("ExceptionThrown");
        let object = held.id().to_owned();
        let unreported = code(&mut held, &format!("object-generation {object}"));
        assert_eq!(unreported, if runtime.major() >= 8 { DONE } else { FAIL });
        own.done("let ExceptionThrown");
        held.leave(0);
        stage.act("finish a");
        own.done("gc");
        own.done("gc");
        let old = u64::from_str_radix(object.trim_start_matches("0x"), 16).unwrap_or_default();
        for address in [old, old + 8] {
            assert_eq!(code(&mut own, &format!("object-generation {address:#x}")), DONE);
        }
        for address in ["0", "0x10"] {
            assert_eq!(code(&mut own, &format!("object-generation {address}")), outside, "{address}");
        }
    });
}

#[test]
fn gch_03_the_first_version_of_a_callback_follows_the_second() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        let mut own = stage.attached(MONITOR_GC, 0);
        for _ in 0..4 {
            stage.act("a small");
            own.done("gc");
        }
        let mut counts = |name: &str| (own.count(&format!("{name}2")), own.count(name));
        let (moved, survived) = (counts("MovedReferences"), counts("SurvivingReferences"));
        holds!(GCH_03 sim clr, (moved.0, survived.0) == (moved.1, survived.1));
        holds!(GCH_03 sim clr, moved.0 + survived.0 > 0);
    });
}
