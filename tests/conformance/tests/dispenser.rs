//! Metadata without Info, on live runtimes and their models: MetaDataGetDispenser of the runtime's library, and what its dispenser opens.
#![forbid(unsafe_code)]

#[path = "support/answers.rs"]
mod answers;

use answers::{Answer, ask, compiled};
use remora_conformance::probe::{Seat, Stage};
use remora_conformance::{in_every_world, in_live_worlds};
use remora_e2e::Runtime;
use std::fs;

const JIT: u32 = 0x20;

const DONE: u64 = 0;
const NO_INTERFACE: u64 = 0x8000_4002;
const NO_CLASS: u64 = 0x8004_0111;
const ABSENT: u64 = 0x8007_0002;
const DENIED: u64 = 0x8007_0005;
const INVALID: u64 = 0x8007_0057;
const NO_DATA: u64 = 0x8013_110B;
const CORRUPT: u64 = 0x8013_110E;

/// Nothing was opened, with this code.
fn nothing(code: u64) -> [u64; 2] {
    [code, 0]
}

/// A probe in a process, with the program's module and the path of its file.
struct Reader {
    _stage: Stage,
    own: Seat,
    module: String,
    path: String,
}

impl Reader {
    fn of(runtime: &Runtime) -> Reader {
        let mut stage = Stage::start(runtime);
        let mut own = stage.attached(JIT, 0);
        let function = compiled(&mut stage, &mut own);
        let module = own.done(&format!("ask function {function}")).remove(2);
        let path = own.done(&format!("module {module}")).remove(1);
        Reader { _stage: stage, own, module, path }
    }

    fn numbers(&mut self, question: &str) -> Vec<u64> {
        self.scope(question).numbers
    }

    /// The code, whether there is an object, the module's id and the token of the main class; the module's name.
    fn scope(&mut self, question: &str) -> Answer {
        let words = self.own.done(&format!("dispenser {question}"));
        let number = |word: &String| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
        let numbers: Vec<u64> = words.iter().map_while(number).collect();
        Answer { text: words[numbers.len()..].join(" "), numbers }
    }
}

#[test]
fn the_runtimes_library_is_found_by_name_in_the_linkers_list_and_in_the_mappings_and_its_export_only_in_it() {
    in_every_world(|runtime| {
        let mut reader = Reader::of(runtime);
        for way in ["name", "listed", "mapped"] {
            assert_eq!(reader.numbers(&format!("found {way} MetaDataGetDispenser")), [DONE, 1, 1], "{way}");
            assert_eq!(reader.numbers(&format!("found {way} DllGetClassObject")), [DONE, 1, 0], "{way}");
        }
        assert_eq!(reader.numbers("found default MetaDataGetDispenser"), [DONE, 1, 0], "it is not global");
    });
}

#[test]
fn only_the_dispensers_class_has_an_object_and_only_with_its_interfaces() {
    in_every_world(|runtime| {
        let mut reader = Reader::of(runtime);
        for interface in ["unknown", "dispenser", "dispenser-ex"] {
            assert_eq!(reader.numbers(&format!("make dispenser {interface}")), [DONE, 1], "{interface}");
            for class in ["runtime", "other"] {
                assert_eq!(reader.numbers(&format!("make {class} {interface}")), nothing(NO_CLASS), "{class}");
            }
        }
        for interface in ["import", "nonsense"] {
            assert_eq!(reader.numbers(&format!("make dispenser {interface}")), nothing(NO_INTERFACE), "{interface}");
            assert_eq!(reader.numbers(&format!("make other {interface}")), nothing(NO_CLASS), "the class comes first");
        }
    });
}

#[test]
fn a_modules_file_has_the_metadata_that_info_shows_of_the_module() {
    in_every_world(|runtime| {
        let mut reader = Reader::of(runtime);
        let (module, path) = (reader.module.clone(), reader.path.clone());
        let name = ask(&mut reader.own, &format!("meta {module} scope 200")).text;
        let class = ask(&mut reader.own, &format!("meta {module} find-type Obedient 0")).count();
        for flags in ["0", "1", "2", "0x10", "0x80", "0x1000"] {
            for interface in ["import", "import2"] {
                let found = reader.scope(&format!("open {flags} {interface} {path}"));
                assert_eq!((found.numbers[..2].to_vec(), found.numbers[3]), (vec![DONE, 1], class), "{flags}");
                assert_eq!(found.text, name);
                assert!(found.numbers[2] != 0, "a module has an id");
            }
        }
        for interface in ["unknown", "assembly", "emit", "tables"] {
            assert_eq!(reader.numbers(&format!("open 0 {interface} {path}")), [DONE, 1], "{interface}");
        }
        for interface in ["dispenser", "nonsense"] {
            assert_eq!(reader.numbers(&format!("open 0 {interface} {path}")), nothing(NO_INTERFACE), "{interface}");
        }
    });
}

#[test]
fn what_is_no_file_with_metadata_is_not_opened() {
    in_every_world(|runtime| {
        let mut reader = Reader::of(runtime);
        let folder = remora_e2e::folder();
        let write = |name: &str, content: &str| {
            let path = folder.path().join(name);
            fs::write(&path, content).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            path.display().to_string()
        };
        let absent = folder.path().join("absent.dll").display().to_string();
        let cases = [
            (write("short.dll", "no PE"), CORRUPT),
            (write("long.dll", &"no PE at all ".repeat(200)), CORRUPT),
            (write("empty.dll", ""), NO_DATA),
            (absent, ABSENT),
            ("/nowhere/absent.dll".to_owned(), ABSENT),
            ("relative.dll".to_owned(), ABSENT),
            ("no-path".to_owned(), INVALID),
            (folder.path().display().to_string(), DENIED),
        ];
        for (path, code) in cases {
            assert_eq!(reader.numbers(&format!("open 0 import {path}")), nothing(code), "{path}");
        }
        assert_eq!(reader.numbers("memory 0 import text"), nothing(CORRUPT));
        assert_eq!(reader.numbers("memory 0 import nothing"), nothing(NO_DATA));
    });
}

/// Live only: the model reads no bytes of metadata, and answers E_NOTIMPL.
#[test]
fn metadata_in_memory_is_opened_from_a_whole_file_and_from_its_part() {
    in_live_worlds(|runtime| {
        let mut reader = Reader::of(runtime);
        let path = reader.path.clone();
        let from_file = reader.numbers(&format!("open 0 import {path}"));
        assert_eq!(from_file[..2], [DONE, 1]);
        for content in [path.clone(), format!("metadata-of:{path}")] {
            assert_eq!(reader.numbers(&format!("memory 0 import {content}")), from_file, "{content}");
            assert_eq!(reader.numbers(&format!("memory 0 nonsense {content}")), nothing(NO_INTERFACE), "{content}");
        }
    });
}
