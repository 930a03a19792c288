//! The kernel's own profiler, `perf record -e cpu-clock`, where it is installed. It needs rights that Remora does not need.
//!
//! It reads method names from a file that the runtime writes with `DOTNET_PerfMapEnabled`.

use crate::Outcome;
use crate::agent::HERTZ;
use crate::shares::Shares;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Makes old and new runtimes write method names. `perf` uses them for private memory only, so compiled code must not be in a memory
/// file.
pub const NAMES: [(&str, &str); 3] =
    [("COMPlus_PerfMapEnabled", "1"), ("DOTNET_PerfMapEnabled", "1"), ("DOTNET_EnableWriteXorExecute", "0")];

/// By then `perf` has opened its events.
const START: Duration = Duration::from_millis(500);

/// Records a process for this long. Returns the shares of `methods`, `None` if it saw none of them; an error where `perf` cannot record.
pub fn record(process_id: u32, duration: Duration, methods: &[String]) -> Outcome<Option<Shares>> {
    let file = std::env::temp_dir().join(format!("remora-bench-{process_id}.perf"));
    let recorded = run(recorder(process_id, &file).args(["--", "sleep", &duration.as_secs().to_string()]));
    let script = recorded
        .and_then(|_| run(Command::new("perf").args(["script", "-F", "tid,ip,sym", "-i", &file.to_string_lossy()])));
    // There may be no file.
    let _ = std::fs::remove_file(&file);
    Ok(shares_in(&script?, methods))
}

/// Runs a closure while `perf` records a process, and drops the recording; an error where `perf` cannot record.
pub fn while_recording<T>(process_id: u32, does: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    let mut perf = recorder(process_id, Path::new("/dev/null")).stderr(Stdio::null()).spawn()?;
    std::thread::sleep(START);
    let done = if perf.try_wait()?.is_some() { Err("perf cannot record here".into()) } else { does() };
    // It may have ended already.
    let _ = kill(Pid::from_raw(i32::try_from(perf.id())?), Signal::SIGINT);
    perf.wait()?;
    done
}

fn recorder(process_id: u32, file: &Path) -> Command {
    let mut perf = Command::new("perf");
    perf.args(["record", "-q", "-e", "cpu-clock", "--call-graph", "fp", "-F", &HERTZ.to_string()]);
    perf.args(["-p", &process_id.to_string(), "-o"]).arg(file);
    perf
}

/// The runtime's files with method names.
pub fn names_of(process_id: u32) -> [PathBuf; 2] {
    ["map", "info"].map(|what| {
        let (folder, name) = (std::env::temp_dir(), if what == "map" { "perf-" } else { "perfinfo-" });
        folder.join(format!("{name}{process_id}.map"))
    })
}

fn run(command: &mut Command) -> Outcome<String> {
    let output = command.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or("it failed").into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Samples are separated by empty lines. Each has a line with its thread, then one for each frame. All samples weigh the same.
fn shares_in(script: &str, methods: &[String]) -> Option<Shares> {
    let marks: Vec<String> = methods.iter().map(|method| format!("::{method}(")).collect();
    let mut counts = vec![0_u32; methods.len() + 1];
    for sample in script.split("\n\n").filter(|sample| !sample.trim().is_empty()) {
        let found = marks.iter().position(|mark| sample.contains(mark.as_str()));
        counts[found.unwrap_or(methods.len())] += 1;
    }
    let elsewhere = f64::from(counts.pop()?);
    let inside = f64::from(counts.iter().sum::<u32>());
    let shares = counts.iter().map(|count| f64::from(*count) / inside).collect();
    (inside > 0.0).then_some(Shares { shares, elsewhere: elsewhere / (inside + elsewhere) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_found_by_the_names_of_the_runtime() {
        let methods = ["Alpha".to_owned(), "Beta".to_owned()];
        let script = "   17 \n\t  7f01 void [b] Bursts::Alpha(int64,int64)[Optimized]\n\t  7f02 void [b] Bursts::Run()\n\n\
                      \x20  17 \n\t  7f03 __read\n\t  7f04 void [b] Bursts::Beta(int64,int64)[Optimized]\n\n\
                      \x20  18 \n\t  7f05 void [b] Bursts::NotBeta(int64)\n\n   18 \n\t  7f06 [unknown]\n\n";
        let expected = Shares { shares: vec![0.5, 0.5], elsewhere: 0.5 };
        assert_eq!(shares_in(script, &methods), Some(expected));
        assert_eq!(shares_in("", &methods), None);
    }
}
