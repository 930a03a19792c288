//! `remora report`: the hottest methods of a recording, as text or JSON.

mod application;
mod exceptions;
mod findings;
mod hint;
mod in_short;
mod json;
mod method;
mod text;

pub(crate) use application::tables;
pub(crate) use exceptions::{ExceptionsJson, exceptions};
pub(crate) use findings::advice;
pub(crate) use in_short::in_short;
pub(crate) use json::{Part, Summed};
pub(crate) use text::{ENDED_EARLY, head, hottest, notes};

use crate::args::ReportArgs;
use crate::bounded::{Bounded, takes_too_much};
use crate::console::{counted, out};
use crate::failure::Failure;
use crate::kind::or_other;
use remora_nettrace::SampledProfile;
use remora_profile::{Event, Meta, Profile, Summary, ThreadIx};
use remora_recording::Recording;
use remora_terminal::duration::show;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// The magic of the runtime's own streams.
const NETTRACE: &[u8] = b"Nettrace";
/// A note about facts that such a stream lacks.
const AS_IT_CAME: &str = "This is the runtime's own stream as it came. It does not say which --event was asked for, and is shown as wall-clock time.";
/// A truncated stream does not name its program.
const NOBODY: &str = "unknown application";

/// Which threads are shown.
#[derive(Debug, PartialEq, Eq)]
enum Threads {
    /// All as one.
    Together,
    /// Each separately, in this order.
    Apart(Vec<ThreadIx>),
}

/// Runs the command.
pub(crate) fn run(args: &ReportArgs) -> Result<(), Failure> {
    let mut recording = open(&args.file)?;
    recording.profile = args.runtime_frames.shown(recording.profile, None);
    let profile = &recording.profile;
    let threads = choose(profile, args.thread.as_deref())?;
    let summaries: Vec<(Option<ThreadIx>, Summary)> = match threads {
        Threads::Together => vec![(None, Summary::of(profile, None))],
        Threads::Apart(threads) => {
            threads.into_iter().map(|thread| (Some(thread), Summary::of(profile, Some(thread)))).collect()
        }
    };
    let top = args.top as usize;
    let rule = args.application.rule();
    out(&match args.json {
        true => json::render(&recording, &summaries, &rule, top),
        false => text::render(profile, &summaries, &rule, top),
    })?;
    fail_if_incomplete(&args.file, &recording)
}

/// Reads the recording `file`, or a raw stream of the runtime's own sampler that an interrupted recording left.
pub(crate) fn open(file: &Path) -> Result<Recording, Failure> {
    let input = |error| Failure::Input { file: file.to_owned(), error };
    let opened = File::open(file).map_err(input)?;
    if opened.metadata().map_err(input)?.is_dir() {
        return Err(input(std::io::ErrorKind::IsADirectory.into()));
    }
    let mut opened = BufReader::new(opened);
    if opened.fill_buf().map_err(input)?.starts_with(NETTRACE) {
        return stream(BufReader::new(Bounded::of_an_eighth(opened))).map_err(|error| match takes_too_much(&error) {
            true => Failure::too_large(file, "an eighth"),
            false => input(error),
        });
    }
    remora_recording::read(Bounded::of_a_quarter(opened))
        .map_err(|error| or_other(file, Failure::recording(file, error)))
}

/// Decodes a raw stream.
fn stream(mut opened: impl BufRead) -> std::io::Result<Recording> {
    let mut sampled = SampledProfile::new(Event::Wall);
    loop {
        let piece = opened.fill_buf()?;
        let length = piece.len();
        // Undecodable data ends the profile, and its notes say so.
        if length == 0 || sampled.push(piece.into()).is_err() {
            break;
        }
        opened.consume(length);
    }
    let complete = sampled.ended();
    let meta = Meta { runtime: ".NET".to_owned(), notes: vec![AS_IT_CAME.to_owned()], ..Meta::default() };
    let mut profile = sampled.finish(meta);
    profile.meta.application = application(&profile.meta.command_line);
    Ok(Recording { profile, complete, unknown_chunks: 0, torn_bytes: 0 })
}

/// The program's name from a command line: its assembly, otherwise its executable.
fn application(command_line: &str) -> String {
    let words = || command_line.split_ascii_whitespace().map(Path::new);
    let assembly = words().find(|word| word.extension().is_some_and(|ending| ending == "dll"));
    let name = assembly.and_then(Path::file_stem).or_else(|| words().next()?.file_name());
    name.map_or(NOBODY.to_owned(), |name| name.to_string_lossy().into_owned())
}

/// A recording that ended early is used as far as possible. Then a message and the exit status say so.
pub(crate) fn fail_if_incomplete(file: &Path, recording: &Recording) -> Result<(), Failure> {
    if recording.complete {
        return Ok(());
    }
    Err(Failure::Incomplete {
        file: file.to_owned(),
        samples: counted(recording.profile.samples().len() as u64, "sample"),
        lasted: show(recording.profile.meta.duration),
    })
}

fn choose(profile: &Profile, asked: Option<&str>) -> Result<Threads, Failure> {
    let Some(asked) = asked else {
        return Ok(Threads::Together);
    };
    let busiest = || Summary::of(profile, None).threads.into_iter().map(|share| share.thread);
    if asked == "all" {
        return Ok(Threads::Apart(busiest().collect()));
    }
    let matches = |thread: &ThreadIx| {
        let thread = &profile.threads()[thread.0 as usize];
        thread.name == asked || asked.parse() == Ok(thread.id)
    };
    let chosen: Vec<ThreadIx> = busiest().filter(matches).collect();
    if chosen.is_empty() {
        const SHOWN: usize = 8;
        let label = |thread: ThreadIx| profile.threads()[thread.0 as usize].label();
        let mut there: Vec<String> = busiest().take(SHOWN).map(label).collect();
        let more = profile.threads().len().saturating_sub(there.len());
        if more > 0 {
            there.push(format!("{more} more"));
        }
        return Err(Failure::NoThread { asked: asked.to_owned(), there: there.join(", ") });
    }
    Ok(Threads::Apart(chosen))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_called_by_its_assembly_else_by_its_executable() {
        let cases = [
            ("/usr/bin/dotnet exec /opt/Orders.dll --urls x", "Orders"),
            ("/opt/Orders --fast", "Orders"),
            ("", "unknown application"),
        ];
        for (line, name) in cases {
            assert_eq!(application(line), name);
        }
    }
}
