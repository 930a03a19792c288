//! A module's metadata on live runtimes and their models: names, tokens, lists, and answers for missing rows.
//!
//! The profiler is `tests/probe`, which makes each raw call through the three metadata interfaces.
#![forbid(unsafe_code)]

#[path = "support/answers.rs"]
mod answers;

use answers::{Answer, ask, compiled};
use remora_conformance::in_every_world;
use remora_conformance::probe::{Seat, Stage};

const MODULE_LOADS: u32 = 0x4;
const JIT: u32 = 0x20;

const DONE: u64 = 0;
const LESS: u64 = 1;
const CUT: u64 = 0x0013_1106;
const INVALID: u64 = 0x8007_0057;
const NO_INTERFACE: u64 = 0x8000_4002;
const NOT_IMPLEMENTED: u64 = 0x8000_4001;
const NOT_SUPPORTED: u64 = 0x8013_1515;
const NO_ROW: u64 = 0x8013_1124;
const NOT_FOUND: u64 = 0x8013_1130;
const WRONG_KIND: u64 = 0x8013_115F;
const BAD_INPUT: u64 = 0x8013_1193;
const UNRESOLVED: u64 = 0x8013_1196;

/// The probe's initial value of every output.
const UNTOUCHED: u64 = 0x77;
const NO_TYPE: u64 = 0x0200_0000;
const GLOBAL: u64 = 0x0200_0001;
const NO_METHOD: u64 = 0x0600_0000;

/// A probe with the program's module, and its class and token of `Main`, which has no parameters.
struct Reader {
    stage: Stage,
    own: Seat,
    module: String,
    function: String,
    class: u64,
    main: u64,
}

impl Reader {
    fn of(stage: Stage) -> Reader {
        let mut stage = stage;
        let mut own = stage.attached(JIT, 0);
        let function = compiled(&mut stage, &mut own);
        let module = own.done(&format!("ask function {function}")).remove(2);
        let mut reader = Reader { stage, own, module, function, class: 0, main: 0 };
        let found = reader.ask("find-type Obedient 0");
        reader.class = found.count();
        let found = reader.ask(&format!("find-method Main {}", reader.class));
        reader.main = found.count();
        assert_eq!((reader.class >> 24, reader.main >> 24), (0x02, 0x06));
        reader
    }

    fn ask(&mut self, question: &str) -> Answer {
        let module = self.module.clone();
        self.of_module(&module, question)
    }

    fn of_module(&mut self, module: &str, question: &str) -> Answer {
        ask(&mut self.own, &format!("meta {module} {question}"))
    }

    fn numbers(&mut self, question: &str) -> Vec<u64> {
        self.ask(question).numbers
    }

    /// The framework's own module is the first.
    fn framework(&mut self) -> String {
        self.own.done("modules").remove(0)
    }
}

fn in_metadata(test: impl Fn(&mut Reader)) {
    in_every_world(|runtime| test(&mut Reader::of(Stage::start(runtime))));
}

#[test]
fn metadata_is_one_object_with_all_its_interfaces() {
    in_metadata(|reader| {
        let writing = ["emit", "emit2", "assembly-emit", "tables", "tables2"];
        for first in ["import", "import2", "assembly", "unknown"].into_iter().chain(writing) {
            assert_eq!(reader.numbers(&format!("open {first}")), [DONE, 1], "{first}");
        }
        assert_eq!(reader.numbers("open stranger"), [NO_INTERFACE, 0]);
        let all = "open unknown import assembly import2 assembly unknown import";
        assert_eq!(reader.numbers(all), [DONE, 1, 0, 0, 0, 0, 0, 0], "from each to each");
        let all = "open import emit2 tables2 assembly-emit tables import emit";
        assert_eq!(reader.numbers(all), [DONE, 1, 0, 0, 0, 0, 0, 0], "the writable ones, too");
        assert_eq!(reader.numbers("open assembly stranger import"), [DONE, 1, NO_INTERFACE, 0]);
    });
}

#[test]
fn a_name_of_metadata_is_cut_where_room_ends_with_a_code_that_says_so() {
    in_every_world(|runtime| {
        let mut reader = Reader::of(Stage::start(runtime));
        let (class, main) = (reader.class, reader.main);
        let version = "v4.0.30319".len() as u64 + 1;
        let method = format!("method {main}");
        let kept = [("scope", 13), (method.as_str(), 5), ("identity 0x20000001", 9), ("version", version)];
        for (question, length) in kept {
            let whole = reader.ask(&format!("{question} {length}"));
            assert_eq!((whole.code(), whole.count()), (DONE, length), "{question}");
            assert_eq!(whole.text.len() as u64 + 1, length, "{question}");
            let none = reader.ask(&format!("{question} 0"));
            assert_eq!((none.code(), none.count(), none.text.as_str()), (DONE, length, "-"), "{question}");
            let short = reader.ask(&format!("{question} 3"));
            // Older runtimes write only the final zero.
            let cut = if runtime.major() < 8 { "-" } else { &whole.text[..2] };
            assert_eq!((short.code(), short.count(), short.text.as_str()), (CUT, length, cut), "{question}");
        }
        for question in ["scope", &method, "identity 0x20000001"] {
            assert_eq!(reader.ask(&format!("{question} 3 nowhere")).code(), CUT, "{question}");
        }
        // A type's name consists of two parts, and is truncated differently.
        let question = format!("type {class}");
        assert_eq!(reader.ask(&format!("{question} 9")).text, "Obedient");
        let short = reader.ask(&format!("{question} 3"));
        assert_eq!((short.code(), short.count(), short.text.as_str()), (CUT, 9, "Ob"));
        assert_eq!(reader.ask(&format!("{question} 0")).numbers[..2], [DONE, 9]);
        assert_eq!(reader.ask(&format!("{question} 3 nowhere")).numbers[..2], [DONE, 9]);
    });
}

#[test]
fn what_metadata_tells_is_what_info_tells() {
    in_metadata(|reader| {
        let (module, function) = (reader.module.clone(), reader.function.clone());
        let known = ask(&mut reader.own, &format!("function {function}")).numbers;
        let (class, token) = (known[1], known[3]);
        let found = ask(&mut reader.own, &format!("class {class:#x}")).numbers;
        assert_eq!(format!("{:#x}", found[1]), module);
        assert_eq!(found[2], reader.class, "the class that is found by its name");
        assert_eq!(ask(&mut reader.own, &format!("function-metadata {function}")).numbers, [DONE, 1, token]);

        let method = reader.ask(&format!("method {token} 100"));
        assert_eq!((method.code(), method.numbers[2], method.text.as_str()), (DONE, reader.class, "Fresh"));
        assert_eq!(reader.ask(&format!("member {token} 100")).numbers, method.numbers);
        assert_eq!(reader.numbers(&format!("address {token}")), [DONE, method.numbers[5], method.numbers[4]]);
        let named = reader.ask(&format!("find-method Fresh {} {token}", reader.class));
        assert_eq!((named.code(), named.count() >> 24), (DONE, 0x06));
        let listed = reader.numbers(&format!("methods 500 {}", reader.class));
        assert!(listed[0] == DONE && listed[1] >= 2, "{listed:x?}");

        let scope = reader.ask("scope 100");
        assert!(scope.code() == DONE && scope.numbers[2] == 1, "it has an id");
        assert_eq!(scope.text, "obedient.dll");
        let path = ask(&mut reader.own, &format!("module {module} 500"));
        assert!(path.text.ends_with(&format!("/{}", scope.text)), "{}", path.text);
        let assembly = ask(&mut reader.own, &format!("assembly {:#x} 500", path.numbers[2])).text;
        assert_eq!(reader.ask("identity 0x20000001 100").text, assembly);
        assert_eq!(reader.numbers("assembly"), [DONE, 0x2000_0001]);
        assert_eq!(reader.numbers("module"), [DONE, 1]);
        assert_eq!(reader.numbers("kind"), [LESS, 0, 0], "it was not opened as a file");
        for (token, name) in [(1, "obedient.dll"), (reader.class, "Obedient"), (reader.main, "Main")] {
            let named = reader.ask(&format!("name {token}"));
            assert_eq!((named.code(), named.text.as_str()), (DONE, name));
        }
    });
}

#[test]
fn a_method_has_a_signature_and_is_found_by_it() {
    in_metadata(|reader| {
        let (class, main) = (reader.class, reader.main);
        let method = reader.ask(&format!("method {main} 100"));
        // Length, class, flags (private, static, hidebysig), code kind, address; the three signature bytes for no parameters and no
        // result.
        let expected = [DONE, 5, class, 0x91, 0, method.numbers[5], 0x0100_0001, 3, UNTOUCHED];
        assert_eq!(method.numbers, expected);
        assert_ne!(method.numbers[5], 0, "where its code lies");
        assert_eq!(reader.numbers(&format!("find-method Main {class} {main}")), [DONE, main]);
        assert_eq!(reader.numbers(&format!("find-member Main {class} {main}")), [DONE, main]);
        assert_eq!(reader.numbers(&format!("find-method Nobody {class}")), [NOT_FOUND, NO_METHOD]);
        assert_eq!(reader.numbers(&format!("find-member Nobody {class}")), [NOT_FOUND, 0x0400_0000], "nor a field");
        assert_eq!(reader.numbers("find-method Main 0x2ffffff"), [NOT_FOUND, NO_METHOD]);
        assert_eq!(reader.numbers("find-method Main 0"), [NOT_FOUND, NO_METHOD], "in no type");
        assert_eq!(reader.numbers("find-type Nobody 0"), [NOT_FOUND, NO_TYPE]);
        assert_eq!(reader.numbers(&format!("find-type Obedient {class}")), [NOT_FOUND, NO_TYPE], "inside itself");
        assert_eq!(reader.numbers("find-type <Module> 0"), [DONE, GLOBAL]);
        assert_eq!(reader.numbers("find-foreign Nobody 0x1000001"), [NOT_FOUND, 0x0A00_0000]);
        assert_eq!(reader.numbers("find-resource Nobody"), [NOT_FOUND, 0x2800_0000]);
        assert_eq!(reader.numbers("find-exported Nobody 0"), [NOT_FOUND, 0]);
        for find in ["type", "method", "member", "field", "resource", "exported"] {
            assert_eq!(reader.numbers(&format!("find-{find} nowhere {class}")), [INVALID, UNTOUCHED], "{find}");
        }
        assert_eq!(reader.numbers(&format!("attribute Nobody {class}")), [LESS, 0, UNTOUCHED], "nothing is written");
        assert_eq!(reader.numbers("convention"), [DONE, 0x100]);
    });
}

#[test]
fn a_list_of_metadata_goes_on_where_it_was_left_and_begins_again_on_demand() {
    in_metadata(|reader| {
        let class = reader.class;
        for question in ["types", "refs", "references", "methods", "members"] {
            let whole = reader.numbers(&format!("{question} 500 {class}"));
            let [code, count, all, is_open, first, then, others, again, third, counted, reset] = whole[..] else {
                panic!("{whole:x?}")
            };
            assert!(code == DONE && count > 0 && count == all && is_open == 1, "{question}: {whole:x?}");
            assert_eq!((then, others), (LESS, 0), "{question}: its end");
            // The third call is at the end, too, and then the list is reset.
            assert_eq!((again, third, counted, reset), (DONE, count, DONE, DONE), "{question}");
            let one = reader.numbers(&format!("{question} 1 {class}"));
            assert_eq!(one[..5], [DONE, 1, all, 1, first], "{question}");
            let none = reader.numbers(&format!("{question} 0 {class}"));
            assert_eq!(none[..8], [LESS, 0, all, 1, UNTOUCHED, LESS, 0, LESS], "{question}: no room");
        }
        assert_eq!(reader.numbers("types 1")[4], 0x0200_0002, "what is in no type is of one that is not listed");
    });
}

#[test]
fn an_empty_list_of_metadata_is_none_and_needs_no_end() {
    in_metadata(|reader| {
        let (class, main) = (reader.class, reader.main);
        let lists = [
            ("files", 0),
            ("exported", 0),
            ("resources", 0),
            ("module-refs", 0),
            ("unresolved", 0),
            ("interfaces", class),
            ("overrides", class),
            ("properties", class),
            ("events", class),
            ("attributes", class),
            ("type-parameters", class),
            ("permissions", class),
            ("member-refs", class),
            ("members-of-name", class),
            ("methods-of-name", class),
            ("fields-of-name", class),
            ("methods", GLOBAL),
            ("methods", NO_TYPE),
            ("methods", 0),
            ("fields", GLOBAL),
            ("members", GLOBAL),
            ("parameters", main),
            ("type-parameters", main),
            ("semantics", main),
            ("attributes", main),
            ("permissions", main),
            ("method-specs", main),
            ("member-refs", 0x02FF_FFFF),
            ("constraints", 0x2AFF_FFFF),
        ];
        for (question, token) in lists {
            let found = reader.numbers(&format!("{question} 4 {token}"));
            let nothing = [LESS, 0, 0, 0, UNTOUCHED, LESS, 0, LESS, 0, DONE, DONE];
            assert_eq!(found, nothing, "{question} of {token:#x}");
        }
        let of_nobody = [
            ("methods", 0x02FF_FFFF, NO_ROW),
            ("members", 0x02FF_FFFF, NO_ROW),
            ("fields", 0x02FF_FFFF, NO_ROW),
            ("methods-of-name", 0x02FF_FFFF, NO_ROW),
            ("parameters", 0x06FF_FFFF, NO_ROW),
            ("parameters", NO_METHOD, NO_ROW),
            ("constraints", 0, BAD_INPUT),
        ];
        for (question, token, code) in of_nobody {
            let found = reader.numbers(&format!("{question} 4 {token}"));
            assert_eq!(found[..4], [code, UNTOUCHED, 0, 0], "{question} of {token:#x}: no number is told");
        }
    });
}

#[test]
fn a_row_that_there_is_not_has_a_code_of_its_own_by_question() {
    in_metadata(|reader| {
        let (class, main) = (reader.class, reader.main);
        let nobody = [
            ("type 0x2ffffff", NO_ROW),
            ("type 0x6000001", LESS),
            ("type 0", LESS),
            ("ref 0x1ffffff", NO_ROW),
            ("ref 0x2000002", LESS),
            ("method 0x6ffffff", NO_ROW),
            ("method 0x6000000", NO_ROW),
            ("member 0x6ffffff", NO_ROW),
            ("member 0x4ffffff", NO_ROW),
            ("field 0x4ffffff", NO_ROW),
            ("parameter 0x8ffffff", NO_ROW),
            ("member-ref 0xaffffff", NO_ROW),
            ("module-ref 0x1affffff", NO_ROW),
            ("text 0x70ffffff", NO_ROW),
            ("identity 0x20000002", NO_ROW),
            ("reference 0x23ffffff", NO_ROW),
            ("signature 0x11ffffff", NO_ROW),
            ("spec 0x1bffffff", NO_ROW),
            ("method-spec 0x2bffffff", NO_ROW),
            ("constraint 0x2cffffff", NO_ROW),
            ("constraint 0x2c000000", BAD_INPUT),
            ("type-parameter 0x2affffff", NO_ROW),
            ("type-parameter 0x2a000000", BAD_INPUT),
            ("permission 0xeffffff", NO_ROW),
            ("attribute-at 0xcffffff", NO_ROW),
            ("implemented 0x9ffffff", NO_ROW),
            ("name 0x2ffffff", NO_ROW),
            ("name 0x8ffffff", NO_ROW),
            ("name 0", NO_ROW),
            ("name 0x20000001", INVALID),
            ("nested 0x2000001", NOT_FOUND),
            ("nested 0x6000001", WRONG_KIND),
            ("address 0x6ffffff", NO_ROW),
            ("layout 0x2ffffff", NO_ROW),
            ("layout 0x2000001", NOT_FOUND),
            ("parameter-at 0x6ffffff", NO_ROW),
            ("global 0x2ffffff", INVALID),
            ("global 0x6ffffff", INVALID),
            ("resolve 0x1ffffff", NO_ROW),
            ("resolve 0x1000000", INVALID),
            ("resolve 0x1000001", UNRESOLVED),
        ];
        let codes: Vec<_> = nobody.map(|(question, code)| (question, code, reader.ask(question).code())).into();
        let others: Vec<_> = codes.iter().filter(|(_, expected, code)| expected != code).collect();
        assert!(others.is_empty(), "{others:x?}");
        for question in ["nested", "layout", "marshalled", "imported", "parameter-at", "semantics-of"] {
            let token = if ["nested", "layout"].contains(&question) { class } else { main };
            assert_eq!(reader.ask(&format!("{question} {token}")).code(), NOT_FOUND, "{question}");
        }
        // Nil tokens get answers, as if there were such a row.
        assert_eq!(reader.numbers("type 0x2000000 9"), [DONE, 1, 0, 0x0100_0000]);
        assert_eq!(reader.numbers("ref 0x1000000 9"), [DONE, 1, 0]);
        assert_eq!(reader.numbers("address 0x6000000"), [DONE, 0, 0]);
        assert_eq!(reader.numbers("address 0x2000000"), [NOT_FOUND, 0, UNTOUCHED]);
        let global = reader.ask("type 0x2000001 100");
        assert_eq!((global.numbers, global.text.as_str()), (vec![DONE, 9, 0, 0x0100_0000], "<Module>"));
        assert_eq!(reader.numbers("global 0x2000001"), [DONE, 1]);
        assert_eq!(reader.numbers(&format!("global {class}")), [DONE, 0]);
        assert_eq!(
            reader.numbers(&format!("resolve {class}")),
            [DONE, 1, class],
            "what is here need not be looked for"
        );
        let valid = [1, 0x0200_0001, class, main, 0x2000_0001, 0x0100_0001, 0x2300_0001, 0x7000_0000];
        let invalid = [0, 2, NO_TYPE, 0x02FF_FFFF, NO_METHOD, 0x06FF_FFFF, 0x2000_0002, 0x70FF_FFFF, 0x11FF_FFFF];
        for (tokens, answer) in [(&valid[..], 1), (&invalid, 0)] {
            for token in tokens {
                assert_eq!(reader.numbers(&format!("valid {token}")), [answer], "{token:#x}");
            }
        }
    });
}

#[test]
fn a_module_refers_to_the_framework_and_the_framework_to_nothing() {
    in_metadata(|reader| {
        let object = reader.ask("find-ref System.Object 0x23000001");
        assert_eq!((object.code(), object.count() >> 24), (DONE, 0x01));
        assert_eq!(reader.numbers(&format!("type {} 0", reader.class))[3], object.count(), "what it extends");
        let shown = reader.ask(&format!("ref {} 100", object.count()));
        assert_eq!((shown.code(), shown.numbers[2], shown.text.as_str()), (DONE, 0x2300_0001, "System.Object"));
        assert_eq!(reader.ask(&format!("name {}", object.count())).text, "Object", "without its namespace");
        assert_eq!(reader.ask("reference 0x23000001 100").text, "System.Private.CoreLib");
        assert_eq!(reader.numbers("find-ref Nobody 0x23000001"), [NOT_FOUND, 0x0100_0000]);

        let framework = reader.framework();
        assert_eq!(reader.of_module(&framework, "scope 100").text, "System.Private.CoreLib.dll");
        assert_eq!(reader.of_module(&framework, "identity 0x20000001 100").text, "System.Private.CoreLib");
        for question in ["refs 5", "references 5"] {
            assert_eq!(reader.of_module(&framework, question).numbers[..4], [LESS, 0, 0, 0], "{question}");
        }
        for question in ["ref 0x1000001 100", "reference 0x23000001 100"] {
            assert_eq!(reader.of_module(&framework, question).code(), NO_ROW, "{question}");
        }
        assert_eq!(reader.of_module(&framework, "kind").numbers, [LESS, 0, 0]);
    });
}

#[test]
fn a_dynamic_functions_metadata_is_its_modules_and_its_token_is_nobodys() {
    in_metadata(|reader| {
        reader.stage.act("a dynamic");
        let Some(function) = reader.own.ids("DynamicMethodJITCompilationFinished").pop() else {
            panic!("none was made")
        };
        assert_eq!(ask(&mut reader.own, &format!("function-metadata {function}")).numbers, [DONE, 1, NO_METHOD]);
        assert_eq!(ask(&mut reader.own, "function-metadata 0").code(), INVALID);
    });
}

#[test]
fn a_module_that_is_being_loaded_is_read_from_its_callback() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        // The first load also loads its own dependencies.
        stage.act("a load");
        let mut own = stage.attached(MODULE_LOADS, 0);
        own.done("hold ModuleLoadFinished");
        stage.act("start a load");
        let mut held = stage.seat("ModuleLoadFinished");
        let module = held.id().to_owned();
        let scope = ask(&mut held, &format!("meta {module} scope 100"));
        assert_eq!((scope.code(), scope.count()), (DONE, scope.text.len() as u64 + 1));
        let types = ask(&mut held, &format!("meta {module} types 500"));
        assert!(types.code() == DONE && types.count() > 0, "{:x?}", types.numbers);
        own.done("let ModuleLoadFinished");
        held.leave(0);
        stage.act("finish a");
    });
}

#[test]
fn assemblies_are_not_looked_for() {
    in_every_world(|runtime| {
        let mut reader = Reader::of(Stage::start(runtime));
        let code = if runtime.major() < 10 { NOT_SUPPORTED } else { NOT_IMPLEMENTED };
        assert_eq!(reader.numbers("assemblies"), [code, UNTOUCHED]);
    });
}
