//! Ids for tokens, on live runtimes and their models: of generic and plain methods and classes, loaded or not, run or not.
//!
//! Both worlds have the types of `tests/targets/obedient.cs`. The main class is loaded; the types below it are not, until somebody asks.
#![forbid(unsafe_code)]

#[path = "support/answers.rs"]
mod answers;

use answers::{ask, compiled};
use remora_conformance::in_every_world;
use remora_conformance::probe::{Seat, Stage};
use remora_e2e::until;
use std::os::unix::process::ExitStatusExt;

const CLASS_LOADS: u32 = 0x2;
const JIT: u32 = 0x20;

const DONE: u64 = 0;
const INVALID: u64 = 0x8007_0057;
const BAD_FORMAT: u64 = 0x8007_000B;
const NOT_COMPILED: u64 = 0x8013_1350;
const DATA_INCOMPLETE: u64 = 0x8013_1351;
const GENERIC_TYPE: u64 = 0x8013_135C;
const GENERIC_FUNCTION: u64 = 0x8013_135D;
const TYPE_LOAD: u64 = 0x8013_1522;

/// The probe's initial value of every output.
const UNTOUCHED: u64 = 0x77;

/// The program's module and main class.
struct Tokens {
    module: String,
    class: String,
}

impl Tokens {
    /// The probe listens to class loads. An instance of `Fresh` has just been compiled, in `Compile`.
    fn of(stage: &mut Stage) -> (Seat, Tokens) {
        let mut own = stage.attached(JIT | CLASS_LOADS, 0);
        let function = compiled(stage, &mut own);
        let known = own.done(&format!("ask function {function}"));
        (own, Tokens { module: known[2].clone(), class: known[1].clone() })
    }

    fn token(&self, seat: &mut Seat, question: &str) -> u64 {
        let found = ask(seat, &format!("meta {} {question}", self.module)).numbers;
        assert_eq!(found[0], DONE, "{question}");
        found[1]
    }

    fn class(&self, seat: &mut Seat, name: &str) -> u64 {
        self.token(seat, &format!("find-type {name} 0"))
    }

    fn method(&self, seat: &mut Seat, class: u64, name: &str) -> u64 {
        self.token(seat, &format!("find-method {name} {class}"))
    }

    /// The code and the id for a token and further words.
    fn id(&self, seat: &mut Seat, call: &str, token: u64, further: &str) -> [u64; 2] {
        let found = ask(seat, &format!("{call} {} {token} {further}", self.module)).numbers;
        [found[0], found[1]]
    }
}

/// A callback on one of the program's threads: a class is loaded only there.
fn in_callback(stage: &mut Stage, own: &mut Seat, test: impl FnOnce(&mut Seat)) {
    own.done("hold JITCompilationStarted");
    stage.act("start a jit");
    let mut held = stage.seat("JITCompilationStarted");
    own.done("let JITCompilationStarted");
    test(&mut held);
    held.leave(0);
    stage.act("finish a");
}

#[test]
fn a_method_of_a_loaded_class_has_an_id_before_it_runs_unless_it_is_generic() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        let (mut own, tokens) = Tokens::of(&mut stage);
        let main = tokens.class(&mut own, "Obedient");
        let often = tokens.method(&mut own, main, "Often");
        let [code, id] = tokens.id(&mut own, "token", often, "");
        assert!(code == DONE && id != UNTOUCHED && id != 0, "{code:#x}: {id:#x}");
        assert_eq!(tokens.id(&mut own, "token", often, ""), [DONE, id], "the same whenever it is asked for");
        assert_eq!(tokens.id(&mut own, "token-with", often, &tokens.class), [DONE, id]);
        let known = ask(&mut own, &format!("function {id}")).numbers;
        assert_eq!((known[0], known[3]), (DONE, often));
        assert_eq!(ask(&mut own, &format!("code {id}")).code(), NOT_COMPILED);
        assert!(!own.ids("JITCompilationFinished").contains(&format!("{id:#x}")));
        stage.act("a often");
        assert!(own.ids("JITCompilationFinished").contains(&format!("{id:#x}")), "it keeps its id when it runs");
        assert_eq!(ask(&mut own, &format!("code {id}")).code(), DONE);
        assert_eq!(tokens.id(&mut own, "token", often, ""), [DONE, id]);

        let fresh = tokens.method(&mut own, main, "Fresh");
        assert_eq!(tokens.id(&mut own, "token", fresh, ""), [GENERIC_FUNCTION, UNTOUCHED], "although instances ran");
    });
}

#[test]
fn a_generic_method_has_an_id_for_as_many_type_arguments_as_it_takes() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        let (mut own, tokens) = Tokens::of(&mut stage);
        let main = tokens.class(&mut own, "Obedient");
        let class = tokens.class.clone();
        let [fresh, called] = ["Fresh", "Called"].map(|name| tokens.method(&mut own, main, name));
        let one = format!("{class} {class}");
        let [code, id] = tokens.id(&mut own, "token-with", fresh, &one);
        assert!(code == DONE && id != UNTOUCHED && id != 0, "{code:#x}: {id:#x}");
        assert_eq!(tokens.id(&mut own, "token-with", fresh, &one), [DONE, id]);
        assert_eq!(ask(&mut own, &format!("code {id}")).code(), NOT_COMPILED);
        assert_eq!(ask(&mut own, &format!("function {id}")).numbers[3], fresh);
        for (method, further) in [(fresh, &class), (called, &one)] {
            assert_eq!(tokens.id(&mut own, "token-with", method, further), [BAD_FORMAT, UNTOUCHED], "{further}");
        }
        assert_eq!(tokens.id(&mut own, "token-with", fresh, "0"), [INVALID, UNTOUCHED], "without a class");
    });
}

#[test]
fn a_method_has_an_id_only_once_its_class_is_loaded() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        let (mut own, tokens) = Tokens::of(&mut stage);
        let classes = ["Shelves", "NoteAttribute", "ISized", "Shelf`1"].map(|name| tokens.class(&mut own, name));
        let slip = tokens.token(&mut own, &format!("find-type Slip {}", classes[3]));
        let [shelves, note, sized, shelf] = classes;
        let plain = [(shelves, "Use"), (note, ".ctor"), (sized, "get_Size")];
        let generic = [(shelf, "get_Size"), (shelf, "Put"), (slip, ".ctor")];
        let method = |seat: &mut Seat, (class, name)| tokens.method(seat, class, name);
        let [plain_methods, generic_methods] = [plain, generic].map(|all| all.map(|one| method(&mut own, one)));
        for method in plain_methods.into_iter().chain(generic_methods) {
            assert_eq!(tokens.id(&mut own, "token", method, ""), [INVALID, UNTOUCHED], "{method:#x}");
            let with_class = tokens.id(&mut own, "token-with", method, &tokens.class);
            assert_eq!(with_class, [DATA_INCOMPLETE, UNTOUCHED], "{method:#x}");
        }
        in_callback(&mut stage, &mut own, |held| {
            for ((class, name), method) in plain.into_iter().zip(plain_methods) {
                let [code, id] = tokens.id(held, "class-token", class, "");
                assert!(code == DONE && id != UNTOUCHED && id != 0, "{name}: {code:#x}");
                assert_eq!(tokens.id(held, "class-token-with", class, ""), [DONE, id], "{name}");
                assert!(held.ids("ClassLoadFinished").contains(&format!("{id:#x}")), "{name}: its load is reported");
                let known = ask(held, &format!("class {id}")).numbers;
                assert_eq!((known[0], known[2]), (DONE, class), "{name}");
                let [code, function] = tokens.id(held, "token", method, "");
                assert!(code == DONE && function != UNTOUCHED, "{name}: {code:#x}");
                assert_eq!(tokens.id(held, "token-with", method, &format!("{id}")), [DONE, function], "{name}");
            }
            for ((class, name), method) in generic.into_iter().zip(generic_methods) {
                assert_eq!(tokens.id(held, "class-token", class, ""), [GENERIC_TYPE, UNTOUCHED], "{name}");
                assert_eq!(tokens.id(held, "token", method, ""), [GENERIC_FUNCTION, UNTOUCHED], "{name}");
            }
        });
    });
}

#[test]
fn a_class_with_other_type_arguments_than_it_takes_is_no_type() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        let (mut own, tokens) = Tokens::of(&mut stage);
        let [main, shelf] = ["Obedient", "Shelf`1"].map(|name| tokens.class(&mut own, name));
        let class = tokens.class.clone();
        in_callback(&mut stage, &mut own, |held| {
            let expected = u64::from_str_radix(class.trim_start_matches("0x"), 16).unwrap_or_default();
            for call in ["class-token", "class-token-with"] {
                assert_eq!(tokens.id(held, call, main, ""), [DONE, expected], "{call}");
                for nobody in [0x02FF_FFFF, 0x0600_0001] {
                    assert_eq!(tokens.id(held, call, nobody, ""), [TYPE_LOAD, UNTOUCHED], "{call} {nobody:#x}");
                }
            }
            assert_eq!(tokens.id(held, "class-token-with", main, &class), [TYPE_LOAD, UNTOUCHED]);
            for further in [String::new(), class.clone(), format!("{class} {class}")] {
                let found = tokens.id(held, "class-token-with", shelf, &further);
                assert_eq!(found, [TYPE_LOAD, UNTOUCHED], "none, one that T excludes, and two: {further}");
            }
            assert_eq!(tokens.id(held, "class-token", 0x0200_0000, ""), [INVALID, UNTOUCHED]);
        });
    });
}

#[test]
fn a_thread_that_the_runtime_does_not_know_crashes_the_process_if_it_loads_a_class() {
    in_every_world(|runtime| {
        for (call, name) in [("class-token", "Shelves"), ("class-token-with", "Shelves"), ("class-token", "Shelf`1")] {
            let mut stage = Stage::start(runtime);
            let (mut own, tokens) = Tokens::of(&mut stage);
            let [main, class] = ["Obedient", name].map(|name| tokens.class(&mut own, name));
            assert_eq!(tokens.id(&mut own, call, main, "")[0], DONE, "{call}: that one is loaded");
            own.begin(&format!("ask {call} {} {class}", tokens.module));
            crashes(&mut stage, call);
        }
    });
}

#[test]
fn the_callbacks_of_an_attach_run_on_such_a_thread() {
    in_every_world(|runtime| {
        for place in ["InitializeForAttach", "ProfilerAttachComplete"] {
            let mut stage = Stage::start(runtime);
            let (mut own, tokens) = Tokens::of(&mut stage);
            let shelves = tokens.class(&mut own, "Shelves");
            stage.leave(own);
            let _attaching = stage.attach(b"");
            let mut held = stage.seat("InitializeForAttach");
            if place != "InitializeForAttach" {
                held.done(&format!("hold {place}"));
                held.leave(0);
                held = stage.seat(place);
            }
            held.begin(&format!("ask class-token {} {shelves}", tokens.module));
            crashes(&mut stage, place);
        }
    });
}

/// Waiting for its end ends the target's input, which would end it, too.
fn crashes(stage: &mut Stage, what: &str) {
    until("the target has crashed", || !stage.target().is_alive());
    let status = stage.target().wait();
    assert!(status.signal().is_some(), "{what}: {status}");
}
