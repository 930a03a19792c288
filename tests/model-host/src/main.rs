//! A process of .NET as the model has it: `remora-model-host RUNTIME_VERSION obedient`.
//!
//! # Purpose
//! To stand where a live runtime stands in `tests/conformance`: a real process with a real diagnostics socket, into which a real profiler's
//! library is attached. Behind all of it is the model (`crates/model/clr-model`), so that where it answers otherwise than a live runtime, a test
//! says so.
//!
//! # Design constraints
//! It has the manners of a program of .NET, as far as tests can see them: what `tests/targets/obedient.cs` says and does, where the socket
//! is and what is answered there, which variables of the environment are heeded, and how the process ends.
//!
//! # Rejected
//! Judging what the profiler does: the tests do.
#![forbid(unsafe_code)]
#![allow(clippy::print_stderr, reason = "a program that cannot go on says why")]

mod diagnostics;
mod message;
mod obedient;
mod obedient_metadata;

use remora_clr_model::differences::RuntimeVersion;
use remora_clr_model::host;
use remora_clr_model::runtime::write_own_library;
use std::path::PathBuf;
use std::process::ExitCode;

/// What the runtime's side does at each point is drawn from this. It is always the same: what varies is the system's scheduler.
const SEED: u64 = 1;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [runtime_version, program] = &arguments[..] else {
        return refused("it takes two arguments: RUNTIME_VERSION PROGRAM");
    };
    let Some(runtime_version) = RuntimeVersion::by_name(runtime_version) else {
        return refused(&format!("no runtime is called {runtime_version}"));
    };
    if program != "obedient" {
        return refused(&format!("there is no program {program} on the model, only `obedient`"));
    }
    // A thread that is lost would leave whoever waits for it waiting.
    let say = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        say(panic);
        std::process::abort();
    }));
    let environment = environment();
    let release = runtime_version.differences().release;
    let port = match diagnostics::is_on(release.0, &environment).then(diagnostics::listen).transpose() {
        Ok(port) => port,
        Err(error) => return refused(&format!("there is no diagnostics socket: {error}")),
    };
    let (listener, socket) = port.unzip();
    if let Some(listener) = &listener
        && diagnostics::is_held(release.0, &environment)
    {
        diagnostics::hold(release, listener);
    }
    // Who may not write beside the program has none.
    let library = own_library().ok();
    let runtime = host::start(runtime_version, SEED, environment, library.as_deref());
    if let Some(listener) = listener {
        diagnostics::serve(&runtime, listener);
    }
    obedient::run(&runtime);
    // Profilers are told on the thread that ends the process; what other threads are in does not hold it up.
    runtime.exit();
    if let Some(socket) = socket {
        // As the runtime does. Whoever is killed leaves it behind, also as there.
        let _ = std::fs::remove_file(socket);
    }
    ExitCode::SUCCESS
}

/// The runtime's own library, in a folder beside this program, which all its processes share.
fn own_library() -> std::io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let folder = program.with_file_name("model-runtime");
    std::fs::create_dir_all(&folder)?;
    write_own_library(&folder)
}

/// The variables whose name and value are texts: the runtime asks for no others.
fn environment() -> host::Environment {
    let variables = std::env::vars_os();
    variables.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))).collect()
}

fn refused(why: &str) -> ExitCode {
    eprintln!("remora-model-host: {why}");
    ExitCode::from(2)
}
