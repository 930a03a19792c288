//! Every block of docs/authors/desktop-attach.md, run in one shell: what it prints is what the page shows.
//!
//! `UPDATE_EXPECT=1` writes what was printed into the page.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The mark behind the output of each command.
const END: &str = "-- end of the command --";

/// A shell in the repository's folder that finds `remora`, and whose targets nobody else sees.
struct Shell {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    _targets: tempfile::TempDir,
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
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        Shell { child, input, output, _targets: targets }
    }

    /// The output of a command. The next one still finds its status in `$?`.
    fn run(&mut self, command: &str) -> Vec<String> {
        writeln!(self.input, "{command}\nstatus=$?; echo '{END}'; (exit $status)").expect("written");
        let lines = (&mut self.output).lines().map(|line| line.expect("the shell answers"));
        lines.take_while(|line| line != END).collect()
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

/// Compares line by line: the first difference is the message.
fn similar(page: &str, printed: &str) {
    for (number, (shown, printed)) in page.lines().zip(printed.lines()).enumerate() {
        assert_eq!(printed, shown, "line {} of the page", number + 1);
    }
    assert_eq!(printed.lines().count(), page.lines().count(), "the page has other lines at its end");
}

/// A process number is another one each time.
fn harmless(line: &str) -> String {
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
