//! Every block of docs/authors/desktop-attach.md, run in one shell: what it prints is what the page shows.
//!
//! `UPDATE_EXPECT=1` writes what was printed into the page.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// A class that nothing has.
const CLASS: &str = "6c1f3a52-0d7e-4b0a-9a55-2f1f6d0b8e11";
/// The mark behind the output of each command.
const END: &str = "-- end of the command --";

/// A command that writes nothing for this long hangs: the longest one compiles the examples.
const HANGS: Duration = Duration::from_secs(600);

/// A shell in the repository's folder that finds `remora`, and whose targets nobody else sees.
struct Shell {
    child: Child,
    input: ChildStdin,
    /// The lines of its output, which a thread reads.
    output: Receiver<String>,
    targets: tempfile::TempDir,
}

impl Shell {
    fn new() -> Shell {
        let targets = tempfile::tempdir().expect("a directory");
        let program = Path::new(env!("CARGO_BIN_EXE_remora")).parent().expect("a folder");
        let path = std::env::var("PATH").unwrap_or_default();
        let mut child = Command::new("sh")
            .current_dir(root())
            .env("PATH", format!("{}:{path}", program.display()))
            .env("XDG_RUNTIME_DIR", targets.path())
            .env_remove("CARGO_TARGET_DIR")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh starts");
        let mut input = child.stdin.take().expect("a pipe");
        writeln!(input, "exec 2>&1").expect("written");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let (lines, output) = std::sync::mpsc::channel();
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| lines.send(line)));
        Shell { child, input, output, targets }
    }

    /// The output of a command. The next one still finds its status in `$?`.
    fn run(&mut self, command: &str) -> Vec<String> {
        writeln!(self.input, "{command}\nstatus=$?; echo '{END}'; (exit $status)").expect("written");
        let next = || self.output.recv_timeout(HANGS).unwrap_or_else(|_| panic!("it does not end: {command}"));
        std::iter::repeat_with(next).take_while(|line| line != END).collect()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // A failed test leaves its targets running otherwise.
        let _ = writeln!(self.input, "for target in \"$XDG_RUNTIME_DIR\"/*/*.socket; do target=${{target##*/}}");
        let _ = writeln!(self.input, "remora model stop ${{target%.socket}} >/dev/null; done; exit");
        let _ = self.child.wait();
    }
}

#[test]
fn the_walk_through_prints_what_its_page_shows() {
    let file = root().join("docs/authors/desktop-attach.md");
    let page = std::fs::read_to_string(&file).expect("the page is there");
    let mut shell = Shell::new();
    let (mut printed, mut is_block, mut blocks) = (Vec::new(), false, 0);
    for line in page.lines() {
        if line.starts_with("```") {
            assert!(is_block || line == "```console", "a block that nothing runs: {line}");
            is_block = !is_block;
            blocks += usize::from(is_block);
            printed.push(line.to_owned());
        } else if !is_block {
            printed.push(line.to_owned());
        } else if let Some(command) = line.strip_prefix("$ ") {
            printed.push(line.to_owned());
            printed.extend(shell.run(command).iter().map(|line| harmless(line)));
        }
    }
    drop(shell);
    let printed = printed.join("\n") + "\n";
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&file, &printed).expect("written");
    } else {
        similar(&harmless_page(&page), &printed);
    }
    assert!(blocks > 10, "only {blocks} blocks were run");
}

/// What the profiler's first export does, and what the trigger says then.
const ENDS: [(&str, &str, &str); 3] = [
    (
        "crash",
        "fputs(\"last words\\n\", stderr); *(volatile int *)8 = 1;",
        "ended by SIGSEGV, after it wrote: last words",
    ),
    ("exit", "exit(3);", "ended with exit code 3"),
    ("refuse", "return 0x80004005;", "the profiler's DllGetClassObject failed"),
];

#[test]
fn a_trigger_says_how_a_target_ended_or_which_call_failed() {
    let mut shell = Shell::new();
    let folder = shell.targets.path().to_str().expect("text").to_owned();
    for (name, body, said) in ENDS {
        let source =
            format!("#include <stdio.h>\n#include <stdlib.h>\nint DllGetClassObject(void) {{ {body} return 0; }}\n");
        std::fs::write(format!("{folder}/{name}.c"), source).expect("written");
        let compiled = shell.run(&format!("cc -shared -fPIC -o {folder}/{name}.so {folder}/{name}.c"));
        assert!(compiled.is_empty(), "{compiled:?}");
        shell.run(&format!("remora model run plain --background --name {name}"));
        let attach = format!("remora model attach {name} --clsid {CLASS} --library {folder}/{name}.so");
        let lines = shell.run(&attach).join("\n");
        assert!(lines.contains(said), "{name}: {lines}");
        if name != "refuse" {
            // So do later commands, until another target has the name.
            let later = shell.run(&format!("remora model tell {name} collect")).join("\n");
            assert!(later.contains(said), "{name}: {later}");
            shell.run(&format!("remora model run plain --background --name {name}"));
            assert_eq!(shell.run(&format!("remora model tell {name} debugger-stops")), ["done"]);
        }
    }
}

#[test]
fn a_trigger_hears_that_an_event_changed_nothing_and_that_an_attach_waits() {
    let mut shell = Shell::new();
    shell.run("remora model run plain --background");
    for event in ["debugger-continues", "finalizer-returns", "thread-leaves"] {
        assert_eq!(
            shell.run(&format!("remora model tell plain {event}")),
            ["nothing changed: it was so already"],
            "{event}"
        );
    }
    for expected in ["done", "nothing changed: it was so already"] {
        assert_eq!(shell.run("remora model tell plain debugger-stops"), [expected]);
    }
    shell.run(&format!("remora model attach plain --clsid {CLASS} --library /nowhere.so --timeout 1ms"));
    let detached = shell.run("remora model detach plain").join("\n");
    assert!(detached.contains("an attach to plain waits, and may still succeed"), "{detached}");
}

/// Compares line by line: the first difference is the message.
fn similar(page: &str, printed: &str) {
    for (number, (shown, printed)) in page.lines().zip(printed.lines()).enumerate() {
        assert_eq!(printed, shown, "line {} of the page", number + 1);
    }
    assert_eq!(printed.lines().count(), page.lines().count(), "the page has other lines at its end");
}

/// A process number is another one each time.
fn harmless(line: &str) -> String {
    // A row of `ps`, whose column is as wide as its head.
    let columns: Vec<&str> = line.split("  ").map(str::trim).filter(|column| !column.is_empty()).collect();
    if let [_, process, _, _, _] = columns[..]
        && process.bytes().all(|letter| letter.is_ascii_digit())
    {
        return line.replacen(&format!("{process:7}"), "4711   ", 1);
    }
    let Some((before, rest)) = line.split_once("process ") else { return line.to_owned() };
    let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    if digits == 0 { line.to_owned() } else { format!("{before}process 4711{}", &rest[digits..]) }
}

fn harmless_page(page: &str) -> String {
    page.lines().map(|line| harmless(line) + "\n").collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}
