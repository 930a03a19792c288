//! The diagnostics port: its answers, the accepted commands, and permitted users. On live runtimes and their models.
//!
//! The profiler is `tests/probe`. Remora takes no part. Needs root for other users.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

mod support;

use remora_conformance::in_every_world;
use remora_conformance::probe::{CLASS, Stage, library};
use remora_e2e::{Runtime, diagnostics};
use remora_holds::holds;
use std::os::unix::fs::MetadataExt;
use support::{AS_NOBODY, AS_SOMEBODY, NOBODY};

const FAIL: u32 = 0x8000_4005;
const BAD_ENCODING: u32 = 0x8013_1384;
const UNKNOWN_COMMAND: u32 = 0x8013_1385;
const MODULE_LOADS: u32 = 0x4;

/// The forms of the process info request, and the first release that knows each.
const PROCESS_INFO: [(u8, u32); 3] = [(0, 5), (4, 6), (8, 8)];
const PROCESS_SET: u8 = 4;
const PROFILER_SET: u8 = 3;
/// Of that set: attach, and the startup profiler, which .NET 6 and later accept while suspended at startup.
const ATTACH: u8 = 1;
const STARTUP: u8 = 2;
/// The highest command id tried: three times as many as there are commands.
const TRIED: u8 = 9;

/// Exit codes of `attach`: the runtime refused, or the system permitted no connection.
const REFUSED: i32 = 1;
const NO_CONNECTION: i32 = 3;

#[test]
fn att_03_a_runtime_says_who_it_is_in_each_form_that_it_knows() {
    in_every_world(|runtime| {
        let (stage, other) = (Stage::start(runtime), Stage::start(runtime));
        for (form, since) in PROCESS_INFO {
            let answer = diagnostics::command(stage.pid(), PROCESS_SET, form, &[]);
            if runtime.major() < since {
                assert_eq!(answer, Err(UNKNOWN_COMMAND), "form {form}");
                continue;
            }
            let info = Info::read(form, &answer.unwrap());
            holds!(ATT_03 sim clr, info.pid == u64::from(stage.pid()), "form {form}");
            assert!(info.texts[0].contains("obedient"), "form {form}: {info:?}");
            assert_eq!(info.texts[1..3], ["Linux", "x64"], "form {form}");
            if form > 0 {
                assert_eq!(info.texts[3], "obedient", "form {form}");
                // The live runtime adds the commit.
                let version = info.texts[4].split('+').next();
                holds!(ATT_03 sim clr, version == Some(runtime.version_text().as_str()), "form {form}");
            }
            if form > 4 {
                assert_eq!(info.texts[5], "linux-x64");
            }
            // It differs from another runtime's, and is the same each time.
            let again = Info::read(form, &diagnostics::command(stage.pid(), PROCESS_SET, form, &[]).unwrap());
            assert_eq!(again, info);
            let another = Info::read(form, &diagnostics::command(other.pid(), PROCESS_SET, form, &[]).unwrap());
            assert_ne!(another.cookie, info.cookie, "form {form}");
        }
    });
}

#[test]
fn att_03_a_runtime_whose_diagnostics_are_switched_off_has_no_port() {
    in_every_world(|runtime| {
        for (setting, works) in switches(runtime) {
            let mut stage = Stage::start_with(runtime, &[(setting, "0")]);
            let socket = diagnostics::found_socket_of(stage.pid());
            holds!(ATT_03 sim clr, socket.is_none() == works, "{setting}: {socket:?}");
            assert_eq!(stage.act("a load"), "obedient");
        }
    });
}

/// The settings that disable it, and some that do not.
fn switches(runtime: &Runtime) -> Vec<(&'static str, bool)> {
    let (is_dotnet, has_own) = (runtime.major() >= 6, runtime.major() >= 8);
    vec![
        ("COMPlus_EnableDiagnostics", true),
        ("DOTNET_EnableDiagnostics", is_dotnet),
        ("DOTNET_EnableDiagnostics_IPC", has_own),
        ("DOTNET_EnableDiagnostics_Debugger", false),
    ]
}

#[test]
fn att_05_the_port_is_its_owners_and_roots() {
    in_every_world(|runtime| {
        let of_root = Stage::start(runtime);
        let of_nobody = Stage::start_behind(runtime, &format!("exec {} \"$@\"", AS_NOBODY.join(" ")), &[]);
        let cases = [
            (&of_root, 0, &[][..], true),
            (&of_root, 0, &AS_NOBODY[..], false),
            (&of_nobody, NOBODY, &[][..], true),
            (&of_nobody, NOBODY, &AS_NOBODY[..], true),
            (&of_nobody, NOBODY, &AS_SOMEBODY[..], false),
        ];
        for (stage, owner, asks, may) in cases {
            let file = std::fs::metadata(diagnostics::socket_of(stage.pid())).unwrap();
            holds!(ATT_05 sim clr, (file.uid(), file.mode() & 0o777) == (owner, 0o600));
            let mut trigger = stage.attach_from_process(asks);
            if may {
                stage.seat("InitializeForAttach").leave(FAIL);
            }
            let code = trigger.wait().code();
            holds!(ATT_05 sim clr, code == Some(if may { REFUSED } else { NO_CONNECTION }), "{asks:?} to user {owner}");
            assert!(!stage.has_come("InitializeForAttach"));
        }
        for mut stage in [of_root, of_nobody] {
            assert_eq!(stage.act("a load"), "obedient");
        }
    });
}

#[test]
fn det_01_nobody_outside_can_ask_for_a_detach_but_through_the_profilers_own_channel() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        let mut own = stage.attached(MODULE_LOADS, 0);
        // .NET Core 3.1 treats any command of this set as an attach.
        let unknown = if runtime.major() < 5 { BAD_ENCODING } else { UNKNOWN_COMMAND };
        for command in (0..=TRIED).filter(|command| ![ATTACH, STARTUP].contains(command)) {
            let answer = diagnostics::command(stage.pid(), PROFILER_SET, command, &[]);
            holds!(DET_01 sim clr, answer == Err(unknown), "{command}");
        }
        // After the start, a startup profiler is accepted without effect.
        let answer = diagnostics::command(stage.pid(), PROFILER_SET, STARTUP, &for_the_start());
        assert_eq!(answer.map(|_| ()), if runtime.major() < 6 { Err(BAD_ENCODING) } else { Ok(()) });
        assert!(!stage.has_come("Initialize"));
        stage.is_alive(&mut own);
        // This request goes through the profiler's socket, and the profiler's own thread makes it.
        let asks = own.thread();
        assert!(stage.threads().contains(&asks));
        own.done("detach 300");
        own.leave(0);
        let shown = stage.gone();
        holds!(DET_01 sim clr, shown != asks, "the end is told on the thread that asked");
        assert_eq!(stage.act("a load"), "obedient");
    });
}

/// The probe, as payload of the startup profiler command.
fn for_the_start() -> Vec<u8> {
    let path: Vec<u16> = library().to_string_lossy().encode_utf16().chain([0]).collect();
    let length = (path.len() as u32).to_le_bytes();
    CLASS.into_iter().chain(length).chain(path.into_iter().flat_map(u16::to_le_bytes)).collect()
}

/// The process info of a runtime.
#[derive(Debug, PartialEq, Eq)]
struct Info {
    pid: u64,
    cookie: Vec<u8>,
    texts: Vec<String>,
}

impl Info {
    /// Parses a whole answer.
    fn read(form: u8, payload: &[u8]) -> Info {
        let rest = if form == 8 { &payload[4..] } else { payload };
        let (pid, rest) = rest.split_at(8);
        let (cookie, mut rest) = rest.split_at(16);
        let mut texts = Vec::new();
        while !rest.is_empty() {
            let (length, behind) = rest.split_at(4);
            let units = u32::from_le_bytes(length.try_into().unwrap()) as usize;
            let (text, behind) = behind.split_at(2 * units);
            let units: Vec<u16> = text.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]])).collect();
            texts.push(String::from_utf16(&units).unwrap().trim_end_matches('\0').to_owned());
            rest = behind;
        }
        Info { pid: u64::from_le_bytes(pid.try_into().unwrap()), cookie: cookie.to_vec(), texts }
    }
}
