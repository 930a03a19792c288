//! The command without a target: help, flags, report, convert, unwritable outputs.

mod command;

use command::{Directory, golden, remora};
use expect_test::{expect, expect_file};
use std::os::unix::fs::PermissionsExt;

#[test]
fn help_is_as_it_was_read_and_approved() {
    expect_file!["help/remora.txt"].assert_eq(&remora(["--help"]).succeeds());
    for name in ["record", "trace", "report", "convert", "ps", "check", "detach", "lab", "completions", "man"] {
        expect_file![format!("{}/tests/help/{name}.txt", env!("CARGO_MANIFEST_DIR"))]
            .assert_eq(&remora([name, "--help"]).succeeds());
        assert_eq!(remora([name, "-h"]).succeeds(), remora([name, "--help"]).succeeds());
    }
    expect_file!["help/model.txt"].assert_eq(&remora(["model", "--help"]).succeeds());
    for name in ["run", "ps", "attach", "detach", "tell", "channel", "log", "stop"] {
        expect_file![format!("{}/tests/help/model-{name}.txt", env!("CARGO_MANIFEST_DIR"))]
            .assert_eq(&remora(["model", name, "--help"]).succeeds());
    }
    expect_file!["help/heap.txt"].assert_eq(&remora(["heap", "--help"]).succeeds());
    for name in ["report", "show", "view", "diff", "convert"] {
        expect_file![format!("{}/tests/help/heap-{name}.txt", env!("CARGO_MANIFEST_DIR"))]
            .assert_eq(&remora(["heap", name, "--help"]).succeeds());
    }
}

#[test]
fn no_arguments_at_all_show_the_help_and_are_an_error() {
    let ran = remora([] as [&str; 0]);
    assert_eq!(ran.code, 2);
    assert_eq!(ran.stderr, remora(["--help"]).stdout);
}

#[test]
fn absurd_flags_are_refused_on_one_line() {
    let cases: [(&[&str], expect_test::Expect); 23] = [
        (
            &["attach"],
            expect!["remora: unrecognized subcommand 'attach'; there is `remora record`; see `remora --help`"],
        ),
        (
            &["record", "17140"],
            expect![
                "remora: unexpected argument '17140' found; for a process id write `-p 17140`; see `remora record --help`"
            ],
        ),
        (
            &["record", "dotnet", "Orders.dll"],
            expect![
                "remora: unexpected argument 'dotnet' found; to start a command and record it put `--` before it: `remora record -- dotnet`; for a process that runs write `-n dotnet`; see `remora record --help`"
            ],
        ),
        (
            &["record", "-d", "1.5s"],
            expect![
                "remora: invalid value '1.5s' for '--duration <TIME>': write whole numbers: 1s500ms for a second and a half, 30s, 5m, 1h30m, or dd:hh:mm:ss; see `remora record --help`"
            ],
        ),
        (
            &["detach", "-p", "Orders"],
            expect![
                "remora: invalid value 'Orders' for '--process-id <PID>': a process id is a number from 1; `remora ps` lists them; see `remora detach --help`"
            ],
        ),
        (
            &["recrod"],
            expect!["remora: unrecognized subcommand 'recrod'; there is `remora record`; see `remora --help`"],
        ),
        (
            &["record", "-f", "0"],
            expect![
                "remora: invalid value '0' for '--frequency <HZ>': give a whole number from 1 to 10000; see `remora record --help`"
            ],
        ),
        (
            &["record", "-f", "10001"],
            expect![
                "remora: invalid value '10001' for '--frequency <HZ>': give a whole number from 1 to 10000; see `remora record --help`"
            ],
        ),
        (
            &["record", "-f", "many"],
            expect![
                "remora: invalid value 'many' for '--frequency <HZ>': give a whole number from 1 to 10000; see `remora record --help`"
            ],
        ),
        (
            &["record", "-d", "30"],
            expect![
                "remora: invalid value '30' for '--duration <TIME>': a number needs a unit: 30s or 30m; see `remora record --help`"
            ],
        ),
        (
            &["record", "-d", "0s"],
            expect![
                "remora: invalid value '0s' for '--duration <TIME>': it must last longer than nothing; see `remora record --help`"
            ],
        ),
        (
            &["record", "-d", "400d"],
            expect![
                "remora: invalid value '400d' for '--duration <TIME>': a recording may last 31 days at most; see `remora record --help`"
            ],
        ),
        (
            &["record", "-p", "0"],
            expect![
                "remora: invalid value '0' for '--process-id <PID>': a process id is a number from 1; for a name there is --name; see `remora record --help`"
            ],
        ),
        (
            &["record", "-p", "Orders"],
            expect![
                "remora: invalid value 'Orders' for '--process-id <PID>': a process id is a number from 1; for a name there is --name; see `remora record --help`"
            ],
        ),
        (
            &["record", "-p", "1", "-n", "a"],
            expect![
                "remora: the argument '--process-id <PID>' cannot be used with '--name <NAME>'; see `remora record --help`"
            ],
        ),
        (
            &["trace", "-p", "1", "-m", "A.*", "--event", "alloc-exact"],
            expect![
                "remora: the argument '--process-id <PID>' cannot be used with '--event <EVENT>'; see `remora trace --help`"
            ],
        ),
        (
            &["record", "-e", "gc"],
            expect![
                "remora: invalid value 'gc' for '--event <EVENT>' [possible values: cpu, wall]; see `remora record --help`"
            ],
        ),
        (
            &["record", "--engine", "perf"],
            expect![
                "remora: invalid value 'perf' for '--engine <ENGINE>' [possible values: auto, agent, eventpipe]; see `remora record --help`"
            ],
        ),
        (
            &["record", "--nothing"],
            expect!["remora: unexpected argument '--nothing' found; see `remora record --help`"],
        ),
        (
            &["report"],
            expect!["remora: the following required arguments were not provided: <FILE>; see `remora report --help`"],
        ),
        (
            &["report", "x", "--top", "0"],
            expect![
                "remora: invalid value '0' for '--top <N>': give a whole number from 1 to 1000000; see `remora report --help`"
            ],
        ),
        (
            &["convert", "x"],
            expect![
                "remora: the following required arguments were not provided: --output <FILE>; see `remora convert --help`"
            ],
        ),
        (
            &["detach"],
            expect![
                "remora: the following required arguments were not provided: --process-id <PID>; see `remora detach --help`"
            ],
        ),
    ];
    for (args, message) in cases {
        message.assert_eq(&remora(args).fails(2));
    }
}

#[test]
fn a_report_is_as_it_was_read_and_approved() {
    expect_file!["report/golden.txt"].assert_eq(&remora(["report", golden()]).succeeds());
    expect_file!["report/golden-threads.txt"]
        .assert_eq(&remora(["report", golden(), "--thread", "all", "--top", "2"]).succeeds());
    expect_file!["report/golden.json"].assert_eq(&remora(["report", golden(), "--json", "--top", "2"]).succeeds());
}

#[test]
fn a_report_of_one_thread_is_found_by_id_and_name() {
    let by_id = remora(["report", golden(), "--thread", "4250"]).succeeds();
    assert_eq!(by_id, remora(["report", golden(), "--thread", ".NET TP Worker"]).succeeds());
    assert!(by_id.contains(".NET TP Worker (4250): 16 samples"), "{by_id}");
    expect![[r#"remora: no thread "nobody" in the recording: it has Orders (4242), .NET TP Worker (4250); give --thread one of these, or `all`"#]]
        .assert_eq(&remora(["report", golden(), "--thread", "nobody"]).fails(2));
}

#[test]
fn names_in_a_recording_cannot_drive_the_terminal() {
    let directory = Directory::new();
    let mut profile = remora_profile::Profile::default();
    profile.meta.application = "\x1b[2Jevil\r".into();
    profile.meta.notes.push("\u{9b}31m\nwrote /etc/passwd\u{202e}".into());
    profile.add_thread(remora_profile::Thread { id: 1, name: "\x1b]0;title\x07".into() });
    let name = profile.string("\x1b[31mRed()\n");
    let frame = profile.frame(remora_profile::Frame::unknown(name));
    let stack = profile.stack(None, frame);
    let thread = remora_profile::ThreadIx(0);
    let state = remora_profile::State::Running;
    profile.add_sample(remora_profile::Sample { time: 0, thread, stack, weight: 1000, state });
    let file = directory.path("evil.remora");
    let out = std::fs::File::create(&file).expect("created");
    remora_recording::Writer::create(out).and_then(|writer| writer.finish(&profile)).expect("written");
    let drives = |letter: char| letter != '\n' && letter.is_control() || letter == '\u{202e}';
    let report = remora(["report", &file]).succeeds();
    assert!(!report.contains(drives), "{report:?}");
    assert!(report.contains("\\u{1b}[31mRed()\\n"), "{report}");
    assert!(report.contains("\nnote: \\u{9b}31m\\nwrote /etc/passwd\\u{202e}\n"), "a note is one line: {report}");
    let json = remora(["report", &file, "--json"]).succeeds();
    assert!(!json.contains(drives), "{json:?}");
    let reported: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    assert_eq!(reported["notes"][0], "\u{9b}31m\nwrote /etc/passwd\u{202e}", "the same text for programs");
    assert_eq!(reported["application"], "\x1b[2Jevil\r");
    for format in ["folded", "speedscope", "html"] {
        let shown = on_a_terminal(&format!("{} convert {file} -o - --format {format}", env!("CARGO_BIN_EXE_remora")));
        let drives = |letter: char| drives(letter) && !['\r', '\t'].contains(&letter);
        assert!(shown.contains("Red()") && !shown.contains(drives), "{format}: {shown:?}");
    }
}

/// What a command writes to a terminal (script(1) of util-linux). The terminal adds a carriage return to each line.
fn on_a_terminal(command: &str) -> String {
    let mut script = std::process::Command::new("script");
    let piped = std::process::Stdio::piped;
    let child = script.args(["-qec", command, "/dev/null"]).stdin(piped()).stdout(piped()).spawn();
    let mut child = child.expect("script starts");
    // The end of its input would end it before the command.
    let input = child.stdin.take();
    let ran = child.wait_with_output().expect("it ends");
    drop(input);
    String::from_utf8(ran.stdout).expect("UTF-8")
}

#[test]
fn a_recording_is_converted_to_every_format() {
    let directory = Directory::new();
    for ending in ["html", "folded", "speedscope.json", "pb.gz", "firefox.json.gz", "remora"] {
        let file = directory.path(&format!("out.{ending}"));
        let ran = remora(["convert", golden(), "-o", &file]);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{}", ran.stderr);
        assert_eq!(ran.stderr, format!("wrote {file}\n"));
        let bytes = std::fs::read(&file).expect("it is there");
        assert!(!bytes.is_empty(), "{ending}");
        if ending.ends_with("gz") {
            assert!(bytes.starts_with(&[0x1f, 0x8b]), "{ending}");
        }
    }
    assert_eq!(
        remora(["report", golden(), "--json"]).succeeds(),
        remora(["report", &directory.path("out.remora"), "--json"]).succeeds()
    );
    assert_eq!(directory.names().len(), 6, "nothing else is left: {:?}", directory.names());
}

#[test]
fn a_recording_that_is_gigabytes_in_a_format_is_refused_and_leaves_nothing() {
    let directory = Directory::new();
    let mut profile = remora_profile::Profile::default();
    let thread = profile.add_thread(remora_profile::Thread { id: 1, name: String::new() });
    let name = profile.string("Recurse(long)");
    let frame = profile.frame(remora_profile::Frame::unknown(name));
    let (mut stack, state) = (None, remora_profile::State::Running);
    for time in 0..16_000 {
        let deeper = profile.stack(stack, frame);
        profile.add_sample(remora_profile::Sample { time, thread, stack: deeper, weight: 1000, state });
        stack = Some(deeper);
    }
    let file = directory.path("deep.remora");
    let out = std::fs::File::create(&file).expect("created");
    remora_recording::Writer::create(out).and_then(|writer| writer.finish(&profile)).expect("written");
    expect!["remora: as folded the recording takes more than 1 GiB: this format repeats what stacks have in common; write it as .html or read it with `remora report`: both keep stacks as a tree"]
    .assert_eq(&remora(["convert", &file, "-o", &directory.path("deep.folded")]).fails(20));
    assert_eq!(directory.names(), ["deep.remora"]);
    remora(["convert", &file, "-o", &directory.path("deep.html")]).succeeds();
}

#[test]
fn a_page_states_which_code_is_the_applications() {
    let page = |more: &[&str]| {
        remora(["convert", golden(), "-o", "-", "--format", "html"].iter().chain(more).copied()).succeeds()
    };
    assert!(page(&[]).contains(r#""rule":"application: all assemblies but System.* and Microsoft.*""#));
    let given = page(&["--application", "Orders.*", "--application", "Cart"]);
    assert!(given.contains(r#""rule":"application: the assemblies Orders.*, Cart""#));
}

#[test]
fn stdout_takes_a_format_by_name() {
    let folded = remora(["convert", golden(), "-o", "-", "--format", "folded"]).succeeds();
    assert!(folded.contains("Orders.Program.Main(string[]);Orders.Cart<T>.Handle(HttpContext)"), "{folded}");
    expect!["remora: standard output has no extension that says the format; add --format, for example --format folded"]
        .assert_eq(&remora(["convert", golden(), "-o", "-"]).fails(2));
}

#[test]
fn an_unknown_format_is_refused() {
    expect![[r#"remora: unknown format "out.svg": there are remora (.remora), html (.html), folded (.folded), speedscope (.speedscope.json), pprof (.pb.gz), firefox (.firefox.json.gz); give -o a file with one of these extensions, or --format one of these names"#]]
        .assert_eq(&remora(["convert", golden(), "-o", "out.svg"]).fails(2));
    expect![[r#"remora: unknown format "svg": there are remora (.remora), html (.html), folded (.folded), speedscope (.speedscope.json), pprof (.pb.gz), firefox (.firefox.json.gz); give -o a file with one of these extensions, or --format one of these names"#]]
        .assert_eq(&remora(["convert", golden(), "-o", "out", "--format", "svg"]).fails(2));
}

#[test]
fn an_existing_file_is_overwritten_only_by_force() {
    let directory = Directory::new();
    let file = directory.path("out.folded");
    std::fs::write(&file, "precious").expect("written");
    let message = remora(["convert", golden(), "-o", &file]).fails(20);
    assert_eq!(message, format!("remora: {file} exists and is not overwritten; add --force, or give -o another name"));
    assert_eq!(std::fs::read(&file).expect("it is there"), b"precious");
    remora(["convert", golden(), "-o", &file, "--force"]).succeeds();
    assert_ne!(std::fs::read(&file).expect("it is there"), b"precious");
    assert_eq!(directory.names(), ["out.folded"]);
}

#[test]
fn a_link_to_nowhere_is_not_followed() {
    let directory = Directory::new();
    let link = directory.path("out.folded");
    std::os::unix::fs::symlink(directory.path("elsewhere"), &link).expect("linked");
    remora(["convert", golden(), "-o", &link]).fails(20);
    assert_eq!(directory.names(), ["out.folded"]);
}

#[test]
fn an_output_without_a_place_is_refused() {
    let directory = Directory::new();
    let (missing, itself) = (directory.path("no/out.folded"), directory.path("dir.folded"));
    std::fs::create_dir(&itself).expect("created");
    for command in [["convert", golden(), "-o", "/tmp"], ["record", "--force", "-o", "/tmp"]] {
        assert_eq!(remora(command).fails(20), "remora: /tmp is a directory; give -o the name of a file in it");
    }
    assert_eq!(
        remora(["convert", golden(), "-o", &missing]).fails(20),
        format!(
            "remora: {missing} cannot be written: there is no directory {}; create it, or give -o another place",
            directory.path("no")
        )
    );
    assert_eq!(
        remora(["convert", golden(), "-o", &itself]).fails(20),
        format!("remora: {itself} is a directory; give -o the name of a file in it")
    );
}

#[test]
fn regression_a_slash_at_the_end_of_the_output_was_left_out() {
    let directory = Directory::new();
    for end in ["/", "/."] {
        let output = directory.path("out.folded") + end;
        let message = remora(["convert", golden(), "--format", "folded", "-o", &output]).fails(20);
        assert_eq!(message, format!("remora: {output} is a directory; give -o the name of a file in it"));
        assert_eq!(directory.names(), [""; 0]);
    }
}

#[test]
fn a_pipe_that_nobody_reads_is_refused() {
    let directory = Directory::new();
    let pipe = directory.path("out.folded");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("it runs").success());
    assert_eq!(
        remora(["convert", golden(), "-o", &pipe]).fails(20),
        format!("remora: {pipe} is a pipe that nobody reads; start its reader first")
    );
}

#[test]
fn a_directory_without_rights_is_refused() {
    let directory = Directory::new();
    let file = directory.path("out.folded");
    std::fs::set_permissions(directory.path(""), std::fs::Permissions::from_mode(0o555)).expect("set");
    let message = directory.remora_as_nobody(["convert", golden(), "-o", &file]).fails(20);
    let expected =
        "cannot be written: Permission denied (os error 13); check its permissions, or give -o another place";
    assert_eq!(message, format!("remora: {file} {expected}"));
}

#[test]
fn a_disk_without_room_is_refused_before_anything_is_written() {
    let directory = Directory::new();
    let file = directory.path("out.folded");
    let message = directory.remora_on_a_small_disk("1m", ["convert", golden(), "-o", &file]).fails(21);
    assert!(message.contains("the disk is full (1.0 MiB are free, 16 MiB are needed)"), "{message}");
}

#[test]
fn a_full_disk_is_reported() {
    expect!["remora: /dev/full cannot be written: the disk is full (no space left); free some space, or give -o a place on another disk"]
        .assert_eq(&remora(["convert", golden(), "-o", "/dev/full", "--format", "html"]).fails(21));
}

#[test]
fn a_file_that_may_not_grow_further_is_reported() {
    let directory = tempfile::tempdir().expect("there is room for a directory");
    let line = "ulimit -f 1; exec \"$0\" convert \"$1\" -o \"$2\"";
    let run = std::process::Command::new("sh")
        .args(["-c", line, env!("CARGO_BIN_EXE_remora"), golden()])
        .arg(directory.path().join("recording.html"))
        .output()
        .expect("there is a shell");
    let reported = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(21), "{reported}");
    assert!(
        reported.contains("cannot be written: the disk is full (a file may not grow further, see `ulimit -f`)"),
        "{reported}"
    );
}

#[test]
fn help_that_cannot_be_written_is_reported() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("the system has it");
    let run = std::process::Command::new(env!("CARGO_BIN_EXE_remora")).arg("--help").stdout(full).output();
    let run = run.expect("it starts");
    assert_eq!(run.status.code(), Some(21));
    assert!(String::from_utf8_lossy(&run.stderr).starts_with("remora: standard output cannot be written"), "{run:?}");
}

#[test]
fn a_device_needs_no_force() {
    remora(["convert", golden(), "-o", "/dev/null", "--format", "html"]).succeeds();
}

#[test]
fn a_reader_that_has_gone_is_no_failure() {
    let ran = command::remora_into_a_closed_pipe(["report", golden()]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
}

#[test]
fn a_reader_that_has_gone_is_no_failure_of_any_format() {
    for format in ["folded", "html", "speedscope", "pprof", "firefox", "remora"] {
        let ran = command::remora_into_a_closed_pipe(["convert", golden(), "-o", "-", "--format", format]);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{format}");
    }
}

/// A killed recording with `--engine eventpipe` leaves such a stream.
#[test]
fn a_stream_that_was_cut_off_says_what_is_known() {
    let directory = Directory::new();
    let whole = concat!(env!("CARGO_MANIFEST_DIR"), "/../host/nettrace/tests/fixtures/shapes-10.0.nettrace.gz");
    let unpacked = std::process::Command::new("gzip").args(["-dc", whole]).output().expect("gzip is there").stdout;
    let file = directory.path("app.unfinished.nettrace");
    std::fs::write(&file, &unpacked[..unpacked.len() / 3]).expect("written");
    let ran = remora(["report", &file]);
    assert_eq!(ran.code, 31, "{}", ran.stderr);
    for words in ["shapes (process 19165), .NET: wall", "does not say which --event was asked for", "[unknown]"] {
        assert!(ran.stdout.contains(words), "{}", ran.stdout);
    }
    assert!(ran.stderr.contains("is truncated"), "{}", ran.stderr);
}

#[test]
fn both_names_of_the_flag_for_a_process_mean_the_same() {
    for command in ["record", "check", "detach"] {
        let by = |flag| remora([command, flag, "2147483647"]).fails(10);
        assert_eq!(by("--pid"), by("--process-id"));
    }
}

#[test]
fn a_recording_that_cannot_be_read_is_reported() {
    let directory = Directory::new();
    let whole = std::fs::read(golden()).expect("it is there");
    let place = |bytes: &[u8]| {
        let file = directory.path("in.remora");
        std::fs::write(&file, bytes).expect("written");
        file
    };
    let mut damaged = whole.clone();
    damaged[60] ^= 1;
    let mut newer = whole.clone();
    newer[6] = 9;
    let cases: [(&[u8], u8, expect_test::Expect); 5] = [
        (
            b"",
            30,
            expect![
                "not a Remora recording: it does not begin with REMORA; give a file that `remora record -o FILE.remora` wrote"
            ],
        ),
        (
            b"<html>",
            30,
            expect![
                "not a Remora recording: it does not begin with REMORA; give a file that `remora record -o FILE.remora` wrote"
            ],
        ),
        (
            &whole[..40],
            31,
            expect![
                "truncated: it ends after 40 bytes, before the first sample was complete, and nothing is readable; copy it again if it was copied, else record again"
            ],
        ),
        (
            &damaged,
            32,
            expect![
                "damaged at byte 28: the checksum of a chunk is wrong (0 samples before it were readable); copy it again from where it was written"
            ],
        ),
        (
            &newer,
            33,
            expect!["a recording of format version 9; this Remora reads versions up to 1; use a newer Remora"],
        ),
    ];
    for (bytes, code, message) in cases {
        let file = place(bytes);
        let out = directory.path("out.html");
        let reported = remora(["report", &file]).fails(code);
        assert_eq!(reported, remora(["convert", &file, "-o", &out]).fails(code));
        let reported = reported.strip_prefix(&format!("remora: {file} cannot be read: ")).expect(&reported).to_owned();
        message.assert_eq(&reported);
        assert!(!std::path::Path::new(&out).exists());
    }
    let missing = directory.path("none.remora");
    let error = "No such file or directory (os error 2); check the name and the permissions";
    assert_eq!(remora(["report", &missing]).fails(30), format!("remora: {missing} cannot be read: {error}"));
}

#[test]
fn a_truncated_recording_is_used_as_far_as_it_goes_and_reported() {
    let directory = Directory::new();
    let whole = std::fs::read(golden()).expect("it is there");
    let file = directory.path("cut.remora");
    std::fs::write(&file, &whole[..whole.len() - 3]).expect("written");
    let reported = format!(
        "remora: {file} is truncated: what could be read, 40 samples (2.0 s), is in the output; \
         nothing more can be read from it"
    );
    let report = remora(["report", &file]);
    assert_eq!((report.code, report.stderr.trim_end()), (31, reported.as_str()));
    assert_eq!(report.stdout, remora(["report", golden()]).stdout);
    let out = directory.path("out.folded");
    let converted = remora(["convert", &file, "-o", &out]);
    assert_eq!((converted.code, converted.stderr), (31, format!("wrote {out}\n{reported}\n")));
    assert!(std::path::Path::new(&out).exists());
}

#[test]
fn a_process_that_is_not_there_or_not_dotnet_is_reported() {
    let ourselves = std::process::id().to_string();
    for command in ["record", "check"] {
        expect!["remora: there is no process 2147483647; `remora ps` lists the processes that can be recorded"]
            .assert_eq(&remora([command, "-p", "2147483647"]).fails(10));
        let message = remora([command, "-p", &ourselves]).fails(11);
        assert!(message.contains("has not loaded a .NET runtime"), "{message}");
        let message = remora([command, "-n", "no such program"]).fails(10);
        assert!(message.starts_with("remora: no .NET process is called \"no such program\""), "{message}");
    }
}

#[test]
fn processes_are_listed_as_json() {
    let json: serde_json::Value = serde_json::from_str(&remora(["ps", "--json"]).succeeds()).expect("it is JSON");
    assert!(json.is_array());
}
