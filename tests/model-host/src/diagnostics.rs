//! The diagnostics port: a socket where .NET has it, and who serves it, one connection after the other.

use crate::message::{self, Message};
use corprof::Guid;
use remora_clr_sim::host::Environment;
use remora_clr_sim::runtime::{NamedRequest, Runtime};
use remora_clr_sim::schedule;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;

/// Sets and commands that are served (ipc-protocol.md).
const ATTACH_PROFILER: (u8, u8) = (3, 1);
const PROCESS_INFO: (u8, u8) = (4, 0);
const RESUME_RUNTIME: (u8, u8) = (4, 1);
/// The variable that holds a runtime at its start (clrconfignames.h).
const SUSPEND: &str = "DOTNET_DefaultDiagnosticPortSuspend";
/// What an attach is answered as long as the runtime does not run (live: att_04).
const NOT_YET_AVAILABLE: u32 = 0x8013_135B;
/// The first release that tells of its process, and that can be held.
const FIRST_WITH_PROCESS_INFO: u16 = 5;
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
    Ok((UnixListener::bind(&path)?, path))
}

/// Whether the environment has the runtime wait at its start until somebody lets it go on.
pub fn is_held(release: u16, environment: &Environment) -> bool {
    release >= FIRST_WITH_PROCESS_INFO && environment.get(SUSPEND).is_some_and(|value| value == "1")
}

/// Answers for a runtime that waits at its start, until it is let go on.
pub fn hold(listener: &UnixListener) {
    for mut stream in listener.incoming().flatten() {
        // As below.
        if let Ok(true) = hold_one(&mut stream) {
            return;
        }
    }
}

fn hold_one(stream: &mut UnixStream) -> std::io::Result<bool> {
    let command = Message::receive(stream)?.command;
    let result = match command {
        ATTACH_PROFILER => Err(NOT_YET_AVAILABLE),
        PROCESS_INFO => Ok(process_info()),
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
    let has_process_info = runtime.version().0 >= FIRST_WITH_PROCESS_INFO;
    let result = match message.command {
        ATTACH_PROFILER => match requested(&mut message) {
            Ok(request) => attach(runtime, request),
            Err(_) => Err(BAD_ENCODING),
        },
        PROCESS_INFO if has_process_info => Ok(process_info()),
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

/// Process id, a number of this runtime's own, command line, system, architecture.
fn process_info() -> Vec<u8> {
    let line = std::env::args().collect::<Vec<_>>().join(" ");
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let mut payload = u64::from(std::process::id()).to_le_bytes().to_vec();
    payload.extend(*b"remora-model-pid");
    payload.extend([line.as_str(), "Linux", architecture].into_iter().flat_map(message::text));
    payload
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
