//! Native code without symbols has its real names as soon as its debug file is there.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

#[path = "support/recorded.rs"]
mod recorded;
mod support;

use recorded::{recorded_while_it_uses, target_is_well};
use remora_e2e::read_back::{ReadBack, report};
use remora_e2e::{Recorded, Recording, Runtime, Start, Target, remora};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::compile;

/// The function of `spins.c` that its dynamic symbols do not have.
const SECRET: &str = "spin_in_secret";
/// CPU time in which a program that allocates has collections, milliseconds.
const SOME_COLLECTIONS: u64 = 3000;
/// The only name in the debug file that is made for the runtime.
const NAMED: &str = "runtime_code";

/// Runs a command and returns its output.
fn output(command: &mut Command) -> String {
    let ran = command.output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    assert!(ran.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

/// A library without symbols in `folder`, and its debug file in the new folder `name` in it.
fn stripped(folder: &Path, name: &str, build_id: &str) -> (PathBuf, PathBuf) {
    let symbols = folder.join(name);
    fs::create_dir(&symbols).unwrap();
    let id = format!("-Wl,--build-id=0x{build_id}");
    let library = compile("spins", &["-shared", "-fPIC", "-lpthread", &id], &symbols.join("libspins.so"));
    let debug = symbols.join("libspins.so.dbg");
    output(Command::new("objcopy").arg("--only-keep-debug").arg(&library).arg(&debug));
    output(Command::new("strip").arg(&library));
    (library, debug)
}

/// Whether the recording has the function's name; otherwise it must have its address.
#[track_caller]
fn has_the_name(recorded: &Recorded) -> bool {
    let read = ReadBack::of(recorded);
    let spinning = |wanted: &dyn Fn(&str) -> bool| read.weight_where(|names| names.iter().any(|name| wanted(name)));
    let (named, nameless) = (spinning(&|name| name == SECRET), spinning(&|name| name.starts_with("libspins.so+0x")));
    assert!((named == 0) != (nameless == 0), "{named} and {nameless} of {}", read.weight());
    named > 0
}

fn notes(recorded: &Recorded) -> String {
    report(&recorded.output())["notes"].to_string()
}

#[test]
fn a_stripped_library_has_names_with_its_own_debug_file_only() {
    let folder = remora_e2e::folder();
    let (library, debug) = stripped(folder.path(), "symbols", "0123456789abcdef0123456789abcdef01234567");
    let (_, of_other) = stripped(folder.path(), "other", "fedcba9876543210fedcba9876543210fedcba98");
    let beside = folder.path().join("libspins.so");
    fs::rename(&library, &beside).unwrap();
    let target = Start::managed(&Runtime::newest(), "idle").env("LD_PRELOAD", &beside).ready();
    let record = |arguments: &[&str]| {
        let recorded = Recording::of(&target, arguments);
        recorded.is_clean();
        recorded
    };
    let with = |file: &Path| record(&["--symbols", file.parent().unwrap().to_str().unwrap()]);
    assert!(!has_the_name(&record(&[])));
    let named = with(&debug);
    assert!(has_the_name(&named) && !notes(&named).contains("debug file"), "{}", notes(&named));
    let refused = with(&of_other);
    let note = format!("the debug file {} is of another build, and was not used", of_other.display());
    assert!(!has_the_name(&refused) && notes(&refused).contains(&note), "{}", notes(&refused));
    fs::rename(&debug, folder.path().join("libspins.so.dbg")).unwrap();
    assert!(has_the_name(&record(&[])), "beside the library");
}

/// Makes a debug file for a library of the runtime in `folder`. It names all of the library's code.
fn debug_file_for(library: &Path, folder: &Path) {
    let sections = output(Command::new("readelf").arg("-SW").arg(library));
    let code = sections.lines().find_map(|line| line.split_once(" .text ")).expect("it has code").1;
    let code: Vec<&str> = code.split_ascii_whitespace().collect();
    let (address, size) = (code[1], code[3]);
    let notes = output(Command::new("readelf").arg("-nW").arg(library));
    let id = notes.lines().find_map(|line| line.split_once("Build ID: ")).expect("it has a build id").1;
    let source = folder.join("named.s");
    let text = format!(
        ".section .named,\"ax\",@nobits\n.globl {NAMED}\n.type {NAMED},@function\n{NAMED}: .skip 0x{size}\n\
         .size {NAMED}, 0x{size}\n.section .note.GNU-stack,\"\",@progbits\n"
    );
    fs::write(&source, text).unwrap();
    let file = folder.join(format!("{}.dbg", library.file_name().unwrap().display()));
    let linked = ["-shared", "-nostdlib"].map(str::to_owned).into_iter();
    let linked = linked.chain([format!("-Wl,--build-id=0x{id}"), format!("-Wl,--section-start=.named=0x{address}")]);
    output(Command::new("cc").args(linked).arg("-o").arg(&file).arg(&source));
}

#[test]
fn frames_of_the_runtime_with_names_are_shown_by_them_and_are_no_run() {
    // This runtime has no symbols.
    let runtime = Runtime::major_is(8);
    let symbols = remora_e2e::folder();
    debug_file_for(&runtime.core_folder().join("libcoreclr.so"), symbols.path());
    let mut target = Target::start(&runtime, "gc", &["1", "200000"]);
    let shown = |arguments: &[&str]| {
        let recorded = recorded_while_it_uses(&target, SOME_COLLECTIONS, arguments);
        let file = recorded.output();
        let convert = ["convert", file.to_str().unwrap(), "--format", "folded", "-o", "-"];
        let of = |flags: &[&str]| remora(convert.into_iter().chain(flags.iter().copied())).succeeded().text();
        (of(&[]), of(&["--expand-runtime"]))
    };
    let (folded, expanded) = shown(&[]);
    assert!(folded.contains("[GC]") && !folded.contains(NAMED), "{folded}");
    assert!(expanded.contains("libcoreclr.so+0x"), "{expanded}");
    let (folded, expanded) = shown(&["--symbols", symbols.path().to_str().unwrap()]);
    assert!(!expanded.contains("libcoreclr.so+0x"), "{expanded}");
    // The recorder's mark of a suspension is no name that was guessed: it stays, with the names below it.
    assert!(folded.contains(&format!("[GC];{NAMED};{NAMED}")), "{folded}");
    target_is_well(&mut target);
}
