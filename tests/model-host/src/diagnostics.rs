//! The diagnostics port: a socket where .NET has it, and who serves it, one connection after the other.

use crate::message::{self, Message};
use corprof::Guid;
use remora_clr_model::differences::Release;
use remora_clr_model::host::Environment;
use remora_clr_model::runtime::{NamedRequest, Runtime};
use remora_clr_model::schedule;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;

/// Sets and commands that are served (ipc-protocol.md).
const PROFILER_SET: u8 = 3;
const ATTACH_PROFILER: (u8, u8) = (PROFILER_SET, 1);
const STARTUP_PROFILER: (u8, u8) = (PROFILER_SET, 2);
const PROCESS_INFO: (u8, u8) = (4, 0);
const PROCESS_INFO_2: (u8, u8) = (4, 4);
const PROCESS_INFO_3: (u8, u8) = (4, 8);
const RESUME_RUNTIME: (u8, u8) = (4, 1);
/// The variable that holds a runtime at its start (clrconfignames.h).
const SUSPEND: &str = "DOTNET_DefaultDiagnosticPortSuspend";
/// What an attach is answered as long as the runtime does not run (live: att_04).
const NOT_YET_AVAILABLE: u32 = 0x8013_135B;
/// The first release that tells of its process, and that can be held; the first that tells its version as well; the first that tells what
/// it is made for.
const FIRST_WITH_PROCESS_INFO: u16 = 5;
const FIRST_WITH_PROCESS_INFO_2: u16 = 6;
const FIRST_WITH_PROCESS_INFO_3: u16 = 8;
/// The first release that takes a profiler for its start, while it is held there.
const FIRST_WITH_STARTUP_PROFILER: u16 = 6;
/// The first release whose settings have the newer prefix; the first with a setting for the port alone (clrconfignames.h).
const FIRST_DOTNET: u16 = 6;
const FIRST_WITH_PORT_SETTING: u16 = 8;
/// The owner's alone (ds-ipc-pal-socket.c, ipc_init_listener).
const OWNERS_ALONE: u32 = 0o600;
/// DS_IPC_E_UNKNOWN_COMMAND (ds-types.h).
const UNKNOWN_COMMAND: u32 = 0x8013_1385;
/// DS_IPC_E_BAD_ENCODING.
const BAD_ENCODING: u32 = 0x8013_1384;
/// Where in `/proc/self/stat`, behind the name, the time stands at which the process began.
const START_TIME: usize = 19;

/// Listens: whoever connects waits until [`serve`] or [`hold`] answers. The socket, and where it is.
///
/// # Errors
/// The system refuses the socket.
pub fn listen() -> std::io::Result<(UnixListener, PathBuf)> {
    let name = format!("dotnet-diagnostic-{}-{}-socket", std::process::id(), start_time()?);
    // $TMPDIR or /tmp (ds-ipc-pal-socket.c, ipc_transport_get_default_name).
    let path = std::env::temp_dir().join(name);
    let listener = UnixListener::bind(&path)?;
    std::fs::set_permissions(&path, Permissions::from_mode(OWNERS_ALONE))?;
    Ok((listener, path))
}

/// Whether there is a port at all, which the environment can forbid.
pub fn is_on(release: u16, environment: &Environment) -> bool {
    let settings: &[&str] = match release {
        FIRST_WITH_PORT_SETTING.. => &["EnableDiagnostics", "EnableDiagnostics_IPC"],
        _ => &["EnableDiagnostics"],
    };
    let prefixes: &[&str] = if release < FIRST_DOTNET { &["COMPlus"] } else { &["DOTNET", "COMPlus"] };
    let value = |setting: &str| prefixes.iter().find_map(|prefix| environment.get(&format!("{prefix}_{setting}")));
    !settings.iter().any(|setting| value(setting).is_some_and(|value| value == "0"))
}

/// Whether the environment has the runtime wait at its start until somebody lets it go on.
pub fn is_held(release: u16, environment: &Environment) -> bool {
    release >= FIRST_WITH_PROCESS_INFO && environment.get(SUSPEND).is_some_and(|value| value == "1")
}

/// Answers for a runtime that waits at its start, until it is let go on.
pub fn hold(release: Release, listener: &UnixListener) {
    for mut stream in listener.incoming().flatten() {
        // As below.
        if let Ok(true) = hold_one(release, &mut stream) {
            return;
        }
    }
}

fn hold_one(release: Release, stream: &mut UnixStream) -> std::io::Result<bool> {
    let command = Message::receive(stream)?.command;
    let result = match command {
        ATTACH_PROFILER => Err(NOT_YET_AVAILABLE),
        command if tells(release, command) => Ok(process_info(release, command)),
        RESUME_RUNTIME => Ok(0_u32.to_le_bytes().to_vec()),
        _ => Err(UNKNOWN_COMMAND),
    };
    message::answer(stream, result)?;
    Ok(command == RESUME_RUNTIME)
}

/// Answers from now on.
pub fn serve(runtime: &Arc<Runtime>, listener: UnixListener) {
    let runtime = runtime.clone();
    schedule::spawn("the diagnostics server", move || {
        for mut stream in listener.incoming().flatten() {
            // Who breaks off, or speaks something else, is no affair of the next one's.
            let _ = serve_one(&runtime, &mut stream);
        }
    });
}

fn serve_one(runtime: &Arc<Runtime>, stream: &mut UnixStream) -> std::io::Result<()> {
    let mut message = Message::receive(stream)?;
    let release = runtime.version();
    let result = match message.command {
        ATTACH_PROFILER => match requested(&mut message) {
            Ok(request) => attach(runtime, request),
            Err(_) => Err(BAD_ENCODING),
        },
        // The start is over: it is kept, and comes to nothing (live: det_01).
        STARTUP_PROFILER if release.0 >= FIRST_WITH_STARTUP_PROFILER => Ok(0_u32.to_le_bytes().to_vec()),
        // Taken for an attach, whatever it is (live: det_01).
        (PROFILER_SET, _) if release.0 < FIRST_WITH_PROCESS_INFO => Err(BAD_ENCODING),
        command if tells(release, command) => Ok(process_info(release, command)),
        _ => Err(UNKNOWN_COMMAND),
    };
    message::answer(stream, result)
}

fn requested(message: &mut Message) -> std::io::Result<NamedRequest> {
    let milliseconds = message.number()?;
    let class = class_of(message.take(16)?);
    let path = Some(message.text()?);
    let client_data = message.bytes()?;
    Ok(NamedRequest { class, path, milliseconds, client_data })
}

fn attach(runtime: &Arc<Runtime>, request: NamedRequest) -> Result<Vec<u8>, u32> {
    let milliseconds = request.milliseconds;
    let answer = runtime.ask_for_attach_by_name(request);
    match runtime.wait_for(&answer, milliseconds) {
        code if code.is_success() => Ok(code.0.to_le_bytes().to_vec()),
        code => Err(code.0 as u32),
    }
}

/// Whether it is a question for the process that this release knows.
fn tells(release: Release, command: (u8, u8)) -> bool {
    let first = match command {
        PROCESS_INFO => FIRST_WITH_PROCESS_INFO,
        PROCESS_INFO_2 => FIRST_WITH_PROCESS_INFO_2,
        PROCESS_INFO_3 => FIRST_WITH_PROCESS_INFO_3,
        _ => return false,
    };
    release.0 >= first
}

/// Process id, a number of this runtime's own, command line, system, architecture; then the program's name and the release; at last what the
/// runtime is made for, and the form's number before it all.
fn process_info(release: Release, command: (u8, u8)) -> Vec<u8> {
    let arguments: Vec<String> = std::env::args().collect();
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let version = release.to_string();
    let made_for = format!("linux-{architecture}");
    let line = arguments.join(" ");
    let mut texts = vec![line.as_str(), "Linux", architecture];
    if command != PROCESS_INFO {
        texts.extend([arguments.last().map_or("", String::as_str), version.trim_start_matches('v')]);
    }
    let mut payload = Vec::new();
    if command == PROCESS_INFO_3 {
        texts.push(&made_for);
        payload.extend(1_u32.to_le_bytes());
    }
    payload.extend(u64::from(std::process::id()).to_le_bytes());
    payload.extend(cookie());
    payload.extend(texts.into_iter().flat_map(message::text));
    payload
}

/// Not the same in two processes that live at once.
fn cookie() -> [u8; 16] {
    let mut cookie = *b"remora-model....";
    cookie[12..].copy_from_slice(&std::process::id().to_le_bytes());
    cookie
}

/// A class as it is stored: three numbers with their lowest byte first, then eight bytes.
fn class_of(bytes: &[u8]) -> Guid {
    let at = |place: usize| u128::from(bytes[place]);
    let order = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    Guid::from_u128(order.into_iter().fold(0, |whole, place| whole << 8 | at(place)))
}

fn start_time() -> std::io::Result<String> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let behind_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let time = behind_name.split(' ').nth(START_TIME);
    time.map(str::to_owned).ok_or_else(|| std::io::Error::other("/proc/self/stat has too few words"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_read_as_windows_stores_it() {
        let class = class_of(b"omeRarrPobe\0\0\0\0\x01");
        assert_eq!(class, Guid::from_u128(0x5265_6D6F_7261_5072_6F62_6500_0000_0001));
    }
}
