//! Remedies in words: the only module that knows which flag or command fixes which failure.

use super::{Before, Failure, ModelCause};
use remora_attach::{ProfilerFix, Remedy};
use remora_clr_model::desktop::HResult;
use remora_clr_model::machine::AttachError;
use std::path::Path;

/// How to fix a failed precondition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Remedies {
    /// Typed remedies of the library.
    Typed(Vec<Remedy>),
    /// A text of the command, which knows better here.
    Text(&'static str),
}

/// What the user wants of the process: not every remedy leads there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Goal {
    Recording,
    /// No other engine and no other command can take a snapshot.
    Heap,
}

/// `remedies` as an instruction; `None` if there are none.
pub(crate) fn in_words(remedies: &[Remedy], goal: Goal) -> Option<String> {
    let leads =
        |remedy: &&Remedy| goal == Goal::Recording || !matches!(remedy, Remedy::UseEventPipe | Remedy::RecordFromStart);
    let words: Vec<String> = remedies.iter().filter(leads).map(words).collect();
    match (words.is_empty(), remedies.is_empty()) {
        (false, _) => Some(words.join(", or ")),
        (true, false) => Some("take the snapshot after that has changed: only the agent can take one".to_owned()),
        (true, true) => None,
    }
}

fn words(remedy: &Remedy) -> String {
    let fixed = match remedy {
        Remedy::ListProcesses => "`remora ps` lists the processes that can be recorded",
        Remedy::CheckProcess => "run `remora check -p PID`, which distinguishes the causes",
        Remedy::TryAgain => "try again in a few seconds",
        Remedy::RepeatCommand => "give the same command again",
        Remedy::TryAgainWhenItRuns => "try again when the program runs",
        Remedy::RecordFromStart => "start the program with `remora record -- CMD`",
        Remedy::UseEventPipe => "use `--engine eventpipe`",
        Remedy::RecordWithoutRoots => "leave --roots out",
        Remedy::WaitForRecording => "wait for that recording to end, or end it",
        Remedy::DetachAgent { pid } => return format!("run `remora detach -p {pid}`"),
        Remedy::AttachOnceMore => {
            "attach once more with any command of Remora, before another vendor's notification-only profiler attaches"
        }
        Remedy::RunAs { user } if user == "root" => "run remora as root",
        Remedy::RunAs { user } => return format!("run remora as {user} or as root"),
        Remedy::RunAsOwner => "run remora as the target's user or as root",
        Remedy::RunAsTargetUser => "run remora as the target's user",
        Remedy::RunInTargetContext => "run remora where the target runs: its container, namespace or security profile",
        Remedy::AddCapabilities { missing } => {
            let flags: String = missing.iter().map(|capability| format!(" --cap-add {capability}")).collect();
            return format!("give remora {} (`docker run{flags}`)", if missing.len() > 1 { "them" } else { "it" });
        }
        Remedy::LookAtMounts { pid } => {
            return format!("see what the target has mounted there (`/proc/{pid}/mountinfo`)");
        }
        Remedy::Resume => "let it continue (`kill -CONT PID`, or leave the debugger)",
        Remedy::Restart => "start the program again",
        Remedy::RestartWithout { variable } => return format!("start the program again without {variable}"),
        Remedy::RestartWithStableTmpdir => "start the program again, with TMPDIR in a directory that no job cleans",
        Remedy::LookForDiagnosticsSetting => "look for EnableDiagnostics in its runtimeconfig.json",
        Remedy::UseNewerRuntime => "move the application to a newer .NET",
        Remedy::UseCoreClr => "run the program on CoreCLR (.NET 6 or later)",
        Remedy::UseNativeProfiler => "use a native profiler such as perf",
        Remedy::FreeMemory => {
            "free memory, or raise the limit of its container or of its address space (`prlimit --pid PID --as`, `ulimit -v`)"
        }
        Remedy::GiveLibraryDirectory => {
            "give it a directory without noexec that other users cannot write to, by TMPDIR or a mount, or name one with \
             --library-directory"
        }
        Remedy::GiveSocketDirectory => "give it a writable directory, by TMPDIR or a mount",
        Remedy::GiveOwnTmpdir => "find out what that process is, and give the target a TMPDIR of its own",
        Remedy::CheckPermissions => "check its permissions",
        Remedy::LookAtTarget => "look whether the target runs, then try again",
        Remedy::ReinstallRemora => "build remora again, or copy it again",
        Remedy::UsePortableBuild => "build remora by `cargo xtask dist`, whose library needs only glibc 2.17",
        Remedy::Report => "report this as a defect of Remora, with the runtime's version",
        Remedy::RaiseQueuedSignals => "raise RLIMIT_SIGPENDING (`prlimit --sigpending`)",
        Remedy::RaiseOpenFiles { pid } => {
            return format!("raise the limit, which needs no restart: prlimit --pid {pid} --nofile=65536");
        }
        Remedy::RaiseOwnThreads => {
            "raise the limit of threads or memory for remora (`ulimit -u`, `ulimit -v`, `pids.max`)"
        }
        Remedy::RaiseOwnFileSize => "raise the limit of file sizes for remora (`ulimit -f unlimited`)",
        Remedy::RaiseOwnOpenFiles => "raise the limit of open files for remora (`ulimit -n 1024`)",
        Remedy::RestartWithoutProfiler => "start the program without the other profiler",
        Remedy::DetachOthers => "have other profilers detached",
        Remedy::FreeMainSlot => "set CORECLR_ENABLE_PROFILING=0 for this command",
        Remedy::LeaveOneRecorderOut => "leave one of them out, or unset REMORA_STARTUP and CORECLR_ENABLE_PROFILING",
        Remedy::FreeStartupSlot => "unset CORECLR_NOTIFICATION_PROFILERS for this command, or leave --from-start out",
        Remedy::AttachNotificationOnly => "attach as a notification-only profiler (.NET 6 and later)",
        Remedy::FixProfiler(fix) => match fix {
            ProfilerFix::Attachable => "use a profiler with ICorProfilerCallback3 and InitializeForAttach",
            ProfilerFix::LoadAtStartup => "load the profiler at startup, or ask for less",
            ProfilerFix::OwnClassId => "give the library's own CLSID",
            ProfilerFix::Architecture => "use the library built for the target's architecture",
            ProfilerFix::Path => "give the path of a profiler",
            ProfilerFix::Runtime => "use a profiler made for this runtime",
        },
        Remedy::ReadMessages => "read what the target prints",
        Remedy::Nothing => "nothing need be done: it does not disturb a new one",
        Remedy::StaysOnMusl => {
            "musl never unmaps a library: after detach it stays, inert, and the next attach uses it again"
        }
        Remedy::OthersStay => "Remora attaches beside it; while both are there the other one should not detach first",
        Remedy::DetachedLeavesNoSign => {
            "one that detached leaves no sign: if attaching is refused, use `--engine eventpipe`"
        }
        Remedy::MayFallBack => {
            "if signals are refused inside, the agent reports it, and `record` uses the runtime's own sampler instead"
        }
        Remedy::CheckArchitecture => "make sure that it is for this machine's architecture",
    };
    fixed.to_owned()
}

impl Failure {
    /// The fix; `None` where the message says all.
    pub(crate) fn remedy(&self) -> Option<String> {
        self.remedy_for(Goal::Recording)
    }

    fn remedy_for(&self, goal: Goal) -> Option<String> {
        let after = |failure: &Failure, own: String| match failure.remedy_for(goal) {
            Some(first) => format!("{first}; {own}"),
            None => own,
        };
        Some(match self {
            Failure::Attach(error) => return in_words(&error.remedies(), goal),
            Failure::Collector(error) => return in_words(&error.remedies(), goal),
            Failure::Precondition { remedies: Remedies::Typed(remedies), .. } => return in_words(remedies, goal),
            Failure::Precondition { remedies: Remedies::Text(text), .. } => (*text).to_owned(),
            Failure::OfAHeap(failure) => return failure.remedy_for(Goal::Heap),
            Failure::LeftBehind(failure) => after(failure, "the receipt lists it".to_owned()),
            Failure::Saved { failure, path: None } | Failure::Kept { failure, path: None } => {
                after(failure, "what was recorded is lost, since its file was removed meanwhile".to_owned())
            }
            Failure::Saved { failure, path: Some(path) } => {
                let path = path.display();
                let converts = format!("`remora convert {path} -o FILE` makes any format from it");
                after(failure, format!("what was recorded is in {path}: {converts}"))
            }
            Failure::Kept { failure, path: Some(path) } => {
                after(failure, format!("the snapshot is in {}: {}", path.display(), shows("remora heap report", path)))
            }
            Failure::NoSuchName { hint, .. } => hint.clone(),
            Failure::NoSuchTarget { there, .. } if !there.is_empty() => format!("there are {there}"),
            Failure::TargetExists { name } => {
                format!("stop it with `remora model stop {name}`, or give --name another name")
            }
            Failure::NoRoomForACopy { remedy, .. } => (*remedy).to_owned(),
            Failure::ProcessNotNamed { pid, .. } => format!("add -p {pid}, -n NAME or --yes"),
            Failure::StdoutWithoutFormat { example } => format!("add --format, for example --format {example}"),
            Failure::Exists(place) => format!("add --force, or {} another name", place.how_to_give()),
            Failure::IsDirectory(place) => format!("{} the name of a file in it", place.how_to_give()),
            Failure::NoDirectory { place, .. } => format!("create it, or {} another place", place.how_to_give()),
            Failure::DiskFull { place, .. } => {
                format!("free some space, or {} a place on another disk", place.how_to_give())
            }
            Failure::Output { place, .. } => format!("check its permissions, or {} another place", place.how_to_give()),
            Failure::IsASnapshot { file } => shows("remora heap report", file),
            Failure::NotShown { file } => shows("remora heap report", file) + " where more memory is free",
            Failure::IsARecording { file } => shows("remora report", file),
            Failure::ConditionMet { file, .. } => {
                format!("`remora heap show {} TYPE` shows what keeps objects of a type alive", file.display())
            }
            Failure::Recording { error, .. } => return of_a_recording(error),
            Failure::HeapFile { error, .. } => return of_a_snapshot(error),
            other => return other.fixed_remedy().map(str::to_owned),
        })
    }

    /// Remedies with fixed text.
    fn fixed_remedy(&self) -> Option<&'static str> {
        Some(match self {
            Failure::LockTaken { .. } => {
                "remove it as root, use a login that has /run/user/UID, or set HOME to a directory that only you can write to"
            }
            Failure::TooLargeToRead { .. } => "read it where more is free",
            Failure::NoSuchScenario { .. } => "`remora model run --list` describes them",
            Failure::NoTarget | Failure::NoSuchTarget { .. } => "start one with `remora model run`",
            Failure::TargetNotNamed { .. } => "give the name of one",
            Failure::ModelTargetEnded { .. } => {
                "read `remora model log` and `remora model channel`, and test the profiler with `remora lab`"
            }
            Failure::ModelTargetSilent { .. } => {
                "let its process go on if something has stopped it (`remora model ps` has its number), or end it with `remora model stop`"
            }
            Failure::NoSuchRuntime { .. } => "leave --runtime out, or give one of these",
            Failure::ModelAttach { error, .. } => return of_a_modelled_attach(*error),
            Failure::NoChannel { .. } => {
                "attach one that connects to the socket {channel} of its --client-data and detaches when that ends"
            }
            Failure::NotWritten { .. } => "attach one with {channel} in its --client-data, or wait longer with --wait",
            Failure::NotUnloaded { is_asked: false, .. } => {
                "its own thread must request it when the channel ends; `remora lab` finds a hang"
            }
            Failure::NotUnloaded { .. } => "the runtime looks again: wait with another `remora model detach`",
            Failure::Model { cause, .. } => return of_a_model(*cause),
            Failure::NoProcess => "start one, or run remora as root to see those of other users",
            Failure::NoneAttachable { .. } => {
                "`remora ps` has the reason for each; run remora as their user or as root"
            }
            Failure::SeveralProcesses { .. } => "choose one with -p PID",
            Failure::Held { .. } => "wait for that recording to end, or end it",
            Failure::Snapshot(remora_receipt::Error::Gone { .. }) => "`remora ps` lists the processes that run",
            Failure::Snapshot(_) => "run remora as its user or as root, with /proc mounted",
            Failure::Signals(_) => "run remora where it may handle signals: a sandbox forbids that here",
            Failure::InterruptedTwice => "`remora detach -p PID` shows whether the agent has left",
            Failure::CommandEnded { before: Before::Attach, .. } => {
                "add --from-start, which records short programs, too, or check the command after `--`"
            }
            Failure::Command { .. } | Failure::CommandEnded { .. } => "check the command after `--`",
            Failure::NoRuntime { .. } => "record it with -p once it has one",
            Failure::NotLoadedAtStart { .. } => {
                "unset DOTNET_EnableDiagnostics and DOTNET_EnableDiagnostics_Profiler, and give the program itself, not one that starts it; `record` also works without --from-start"
            }
            Failure::NoMethodMatches(_) => {
                "give full names, such as 'Shop.Orders.*', or '*.Orders.*' for any namespace; `remora record` shows the names of methods that run"
            }
            Failure::TooManyMethods(_) => "give a narrower pattern, or add --yes",
            Failure::NotConfirmed => "add --yes, or answer y on a terminal",
            Failure::NotRestored(_) => {
                "their probes do nothing any more; restart the program to have the methods as they were"
            }
            Failure::NothingTraced(_) => "give --methods other patterns: whole names with `*`, like 'Shop.Orders.*'",
            Failure::EndedByFullDisk => "free some space to record longer",
            Failure::EndedByLimit(_) => "record for a shorter time",
            Failure::NotTrue(_) => "watch for a shorter time, or compare two snapshots with `remora heap diff`",
            Failure::NoSnapshot(_) => "look what limits the process (processes, memory, seccomp), then try again",
            Failure::NoRoomForASnapshot => "free some space, or give -o a place on another disk",
            Failure::TooMuchMade => {
                "leave --roots out; in place of --watch take two snapshots and compare them with `remora heap diff`"
            }
            Failure::NeedsACollection { .. } => "leave --no-gc out",
            Failure::EndsWithTheCopy { .. } => "raise the group's limit, or set --max-extra-memory",
            Failure::UnknownFormat { .. } => {
                "give -o a file with one of these extensions, or --format one of these names"
            }
            Failure::NoReader(_) => "start its reader first",
            Failure::TablesToStdout => "give -o a name, FILE.parquet",
            Failure::BinaryToTerminal { .. } => "redirect it or use `-o FILE`",
            Failure::Input { .. } | Failure::Library { .. } => "check the name and the permissions",
            Failure::NotAFile { .. } => "write the snapshot into a file first: it is read more than once",
            Failure::Index(remora_heap_view::Error::Damaged(_) | remora_heap_view::Error::Read(_)) => {
                "copy the snapshot to another disk"
            }
            Failure::Index(remora_heap_view::Error::TooLarge { .. }) => {
                "look into the snapshot with `remora heap report` and `remora heap show`"
            }
            Failure::Port { .. } => "give another port with --port, or none for any that is free",
            Failure::ConditionNotProven { .. } => {
                "give a bound that the objects of types without names cannot reach, or count all objects with count()"
            }
            Failure::PartOfTheHeap { .. } => "take another snapshot, unless the notes say that it would lack the same",
            Failure::TooLargeToExport(_) => {
                "read the snapshot with `remora heap report` and `remora heap show`, or take one of a smaller process"
            }
            Failure::StacksTooLarge(_) => {
                "write it as .html or read it with `remora report`: both keep stacks as a tree"
            }
            Failure::Incomplete { .. } => "nothing more can be read from it",
            Failure::Laboratory(_) => "run it again, and report this if it stays",
            Failure::NoThread { .. } => "give --thread one of these, or `all`",
            _ => return None,
        })
    }
}

fn shows(command: &str, file: &Path) -> String {
    format!("`{command} {}` shows it", file.display())
}

fn of_a_recording(error: &remora_recording::Error) -> Option<String> {
    use remora_recording::Error;
    Some(match error {
        Error::NotARecording => "give a file that `remora record -o FILE.remora` wrote".to_owned(),
        Error::Newer { needs, .. } => format!("use {needs}"),
        Error::Truncated { .. } => "copy it again if it was copied, else record again".to_owned(),
        Error::Damaged { .. } => "copy it again from where it was written".to_owned(),
        Error::TooLarge { .. } => "record for a shorter time, or at a lower frequency".to_owned(),
        Error::Read(_) => "copy it to a local disk".to_owned(),
        _ => return None,
    })
}

fn of_a_snapshot(error: &remora_heap_file::Error) -> Option<String> {
    use remora_heap_file::Error;
    Some(match error {
        Error::NotASnapshot => "give a file that `remora heap -p PID -o FILE` wrote".to_owned(),
        Error::Newer { needs, .. } => format!("use {needs}"),
        Error::Truncated { .. } => "copy it again if it was copied, else take another snapshot".to_owned(),
        Error::Damaged { .. } => "copy it again from where it was written".to_owned(),
        Error::Graph(_) => "take the snapshot again, or one of a smaller process".to_owned(),
        Error::Read(_) => "copy it to a local disk".to_owned(),
        _ => return None,
    })
}

fn of_a_model(cause: ModelCause) -> Option<&'static str> {
    Some(match cause {
        ModelCause::Directory => {
            "set XDG_RUNTIME_DIR to a short path that only you can write to, on a disk with free space"
        }
        ModelCause::Limits => {
            "raise the limit of processes, memory or open files (`ulimit -u`, `ulimit -v`, `ulimit -n`)"
        }
        ModelCause::StaticBuild => "use a dynamically linked build, such as that of `cargo xtask dist`",
        ModelCause::Other => return None,
    })
}

fn of_a_modelled_attach(error: AttachError) -> Option<&'static str> {
    Some(match error {
        AttachError::AccessDenied => {
            "run the trigger as the target's user, at its integrity level, or as an administrator with SE_DEBUG_NAME"
        }
        AttachError::Answered(HResult::ERROR_TIMEOUT) => {
            "try again: CORPROF_E_PROFILER_ALREADY_ACTIVE then says that it has succeeded meanwhile"
        }
        AttachError::Answered(HResult::CORPROF_E_PROFILER_ALREADY_ACTIVE) => {
            "detach the other profiler first: the desktop takes one"
        }
        AttachError::Answered(HResult::CORPROF_E_CONCURRENT_GC_NOT_PROFILABLE) => {
            "start the target with <gcConcurrent enabled=\"false\"/> in its configuration, or with the profiler"
        }
        AttachError::Answered(HResult::CLASS_E_CLASSNOTAVAILABLE) => {
            "check the CLSID, and that the library exports DllGetClassObject (in C++ with extern \"C\"); the event log has an entry: \
             `remora model log`"
        }
        AttachError::Answered(_) => "the event log has an entry: `remora model log`",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;
    use remora_attach::{Error, Reason, Subject};

    #[test]
    fn a_heap_has_no_other_engine_and_nobody_is_sent_to_it() {
        let remedy = |remedies: &[Remedy]| in_words(remedies, Goal::Heap).expect("there is one");
        assert_eq!(remedy(&[Remedy::Restart, Remedy::UseEventPipe]), "start the program again");
        assert!(remedy(&[Remedy::UseEventPipe]).contains("only the agent"));
        let failure = || Failure::Precondition {
            process_id: 7,
            subject: Subject::Libc,
            found: "musl".into(),
            remedies: Remedies::Typed(vec![Remedy::UseEventPipe]),
        };
        assert!(failure().line().contains("eventpipe"));
        for failure in [failure().of_a_heap(), Failure::LeftBehind(Box::new(failure())).of_a_heap()] {
            assert!(!failure.line().contains("eventpipe"), "{}", failure.line());
        }
        assert_eq!(failure().of_a_heap().exit(), Exit::CannotLoad);
        assert_eq!(Failure::LeftBehind(Box::new(failure())).of_a_heap().exit(), Exit::Unclean);
    }

    #[test]
    fn a_refused_snapshot_is_not_advised_to_record() {
        let not_dotnet = Error::NotDotNet { pid: 1, name: "init".into() };
        let reason = Reason::NoSocket { name: "dotnet-diagnostic-7".into(), searched: "/tmp".into() };
        for error in [not_dotnet, Error::NotAttachable { pid: 7, reason }] {
            let failure = Failure::from(error);
            assert!(failure.line().contains("remora record"), "{}", failure.line());
            let failure = failure.of_a_heap();
            assert!(!failure.line().contains("remora record"), "{}", failure.line());
        }
    }

    #[test]
    fn who_records_with_the_other_engine_is_named() {
        let holder = "process 9 (remora record --engine eventpipe -p 7)".to_owned();
        let line = Failure::Held { process_id: 7, holder }.of_a_heap().line();
        assert!(line.contains("process 9 (remora record"), "{line}");
    }
}
