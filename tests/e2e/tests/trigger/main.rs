//! `remora-attach` on live runtimes: finding processes, placing the library, attaching.
//!
//! Needs root, for namespaces and other users, and `unshare`, `setpriv` and `chroot`.
#![forbid(unsafe_code)]

mod support;

use remora_attach::codec::ProcessInfoVersion;
use remora_attach::*;
use remora_holds::holds;
use std::io::Read;
use std::time::Duration;
use support::{HAS_NO_CLASS, PATIENT, Sleeper, each_root, each_root_from, library_loads, probe};

#[test]
fn att_03_every_runtime_is_found_with_its_version() {
    each_root(|root| {
        let sleeper = Sleeper::start(root, &[], &[]);
        let process = sleeper.find();
        assert_eq!(process.attachable, Ok(()));
        assert_eq!(process.entry_assembly.as_ref().map(|name| name.to_string()).as_deref(), Some("Sleeper"));
        holds!(ATT_03 clr rem, process.runtime().and_then(|runtime| runtime.version) == Some(root.version()));
        assert_eq!(process.architecture.map(|one| one.to_string()).as_deref(), Some("x64"));
        assert!(matches!(process.libc, Libc::Glibc { version: Some(_), .. }), "{:?}", process.libc);
        assert!(processes().expect("listed").iter().any(|found| found.pid == process.pid));
    });
}

#[test]
fn att_03_a_runtime_says_who_it_is_from_version_5_on() {
    each_root(|root| {
        let sleeper = Sleeper::start(root, &[], &[]);
        match (ask(&sleeper.find(), PATIENT), root.version().major) {
            (Err(Error::RuntimeRefused(code)), 3) => holds!(ATT_03 clr rem, code == HResult::UNKNOWN_COMMAND),
            (Ok(info), _) => {
                assert_eq!(info.pid, u64::from(sleeper.find().pid));
                assert_eq!(info.entry_assembly.map(|name| name.to_string()).as_deref(), Some("Sleeper"));
                let version = info.runtime_version.and_then(|version| Version::parse(&version.to_string()));
                holds!(ATT_03 clr rem, version == Some(root.version()));
            }
            (answer, _) => unreachable_answer(&answer),
        }
        assert_eq!(check_answer(&sleeper.find(), PATIENT).passed, Some(true));
    });
}

#[test]
fn att_03_a_runtime_inside_another_program_is_found_by_the_version_inside() {
    each_root(|root| {
        let sleeper = Sleeper::start_hosted(root);
        let process = sleeper.find();
        let runtime = process.runtime().expect("found");
        assert_eq!((runtime.kind, runtime.deployment), (RuntimeKind::CoreClr, Deployment::Private));
        // The oldest runtimes have only the release in their file.
        let inside = Version { patch: root.version().patch.filter(|_| root.version().major > 3), ..root.version() };
        holds!(ATT_03 clr rem, runtime.version == Some(inside));
        assert_eq!((&process.entry_assembly, process.name()), (&None, "host".into()));
        library_loads(&process);
    });
}

#[test]
fn att_06_the_placed_library_is_loaded_and_a_missing_one_is_not() {
    each_root(|root| {
        let sleeper = Sleeper::start(root, &[], &[]);
        library_loads(&sleeper.find());
        let missing = attach(&sleeper.find(), &Attach::new(Guid([1; 16]), "/nonexistent/x.so"));
        holds!(ATT_06 clr rem, matches!(missing, Err(Error::RuntimeRefused(HResult::MODULE_NOT_FOUND))), "{missing:?}");
    });
}

#[test]
fn att_18_nothing_stays_of_what_was_placed() {
    each_root(|root| {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().to_str().expect("text");
        let sleeper = Sleeper::start(root, &[], &[("TMPDIR", path)]);
        let process = sleeper.find();
        assert!(process.diagnostics.as_ref().is_ok_and(|socket| socket.target_path.starts_with(path)));
        let before = std::fs::read_dir(path).expect("readable").count();
        library_loads(&process);
        drop(place_socket(&process).expect("placed"));
        holds!(ATT_18 clr rem, std::fs::read_dir(path).expect("readable").count() == before);
        assert!(before > 0, "the runtime's own sockets are there");
    });
}

#[test]
fn att_06_a_private_mount_namespace_is_reached() {
    each_root(|root| {
        let script = "mount -t tmpfs tmpfs /tmp && exec \"$@\"";
        let sleeper = Sleeper::start(root, &["unshare", "-m", "sh", "-c", script, "sh"], &[]);
        let process = sleeper.find();
        holds!(ATT_06 rem, process.container.as_ref().is_some_and(|container| container.apart.contains(&"mnt")));
        library_loads(&process);
    });
}

#[test]
fn att_06_a_pid_namespace_is_reached() {
    each_root(|root| {
        let prefix = ["unshare", "-p", "-f", "--mount-proc", "--kill-child"];
        let sleeper = Sleeper::start(root, &prefix, &[]);
        let process = sleeper.find();
        assert_eq!(process.namespaced_pid, 1);
        assert_ne!(process.pid, 1);
        library_loads(&process);
    });
}

#[test]
fn att_06_a_chroot_is_reached() {
    each_root(|root| {
        let new_root = tempfile::tempdir().expect("a directory");
        let script = "cd $NEW_ROOT && for each in usr lib lib64 proc dev $(dirname $PROGRAM) $DOTNET_DIRECTORY; do \
                      mkdir -p ./$each && { [ ! -e /$each ] || mount --rbind /$each ./$each; } || exit 1; done; \
                      mkdir tmp && exec chroot . \"$@\"";
        let environment = [
            ("NEW_ROOT", new_root.path().to_str().expect("text")),
            ("DOTNET_DIRECTORY", root.directory.to_str().expect("text")),
        ];
        let sleeper = Sleeper::start(root, &["unshare", "-m", "sh", "-c", script, "sh"], &environment);
        let process = sleeper.find();
        assert!(process.container.as_ref().is_some_and(|container| container.apart.contains(&"root")));
        let requirements = Requirements::of_library(&probe()).expect("a library");
        let failed: Vec<Check> =
            check(&process, &requirements).into_iter().filter(|check| check.has_failed()).collect();
        assert_eq!(failed, Vec::new());
        let names = || std::fs::read_dir(new_root.path().join("tmp")).expect("readable").count();
        let before = names();
        library_loads(&process);
        assert_eq!(names(), before);
    });
}

#[test]
fn att_06_a_directory_mounted_noexec_is_passed_over() {
    each_root(|root| {
        let script = "mount -t tmpfs -o noexec tmpfs /tmp && exec \"$@\"";
        let sleeper = Sleeper::start(root, &["unshare", "-m", "sh", "-c", script, "sh"], &[]);
        let process = sleeper.find();
        let placed = place_library(&process, &probe()).expect("placed elsewhere");
        holds!(ATT_06 rem, !placed.target_path.starts_with("/tmp"), "{:?}", placed.target_path);
        library_loads(&process);
        let (_listener, socket) = place_socket(&process).expect("a socket needs no execution");
        assert!(socket.target_path.starts_with("/tmp"));
    });
}

/// Makes every directory for the library read-only, but leaves the runtime one for its socket.
const ALL_READ_ONLY: &str = "mount -o remount,bind,ro / && mount -t tmpfs -o noexec tmpfs /tmp && \
    for each in /var/tmp /dev/shm /dev; do mount -o bind,ro $each $each && mount -o remount,bind,ro $each || exit 1; done && \
    export TMPDIR=/tmp && exec \"$@\"";

#[test]
fn att_06_where_no_directory_serves_our_own_memory_does() {
    each_root(|root| {
        let sleeper = Sleeper::start(root, &["unshare", "-m", "sh", "-c", ALL_READ_ONLY, "sh"], &[]);
        let process = sleeper.find();
        let placed = place_library(&process, &probe()).expect("placed");
        holds!(ATT_06 rem, placed.target_path.starts_with("/proc"), "{placed:?}");
        drop(placed);
        library_loads(&process);
    });
}

#[test]
fn att_06_where_nothing_serves_each_directory_is_named_and_nothing_is_asked() {
    each_root(|root| {
        let nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups";
        let script = ALL_READ_ONLY.replace("exec \"$@\"", &format!("chmod 1777 /tmp && exec {nobody} \"$@\""));
        let sleeper = Sleeper::start(root, &["unshare", "-m", "sh", "-c", &script, "sh"], &[]);
        let process = sleeper.find();
        let error = place_library(&process, &probe()).expect_err("no place");
        let text = error.to_string();
        holds!(ATT_06 rem, text.contains("/tmp: mounted noexec") && text.contains("/var/tmp: read-only"), "{text}");
        let requirements = Requirements::of_library(&probe()).expect("a library");
        let checks = check(&process, &requirements);
        let failed: Vec<&str> =
            checks.iter().filter(|check| check.has_failed()).map(|check| check.subject.name()).collect();
        assert_eq!(failed, ["directory"], "{checks:?}");
    });
}

#[test]
fn att_15_a_failed_attach_is_reported_to_listeners_of_the_runtimes_events() {
    each_root(|root| {
        let sleeper = Sleeper::start(root, &[], &[]);
        let process = sleeper.find();
        let name = "Microsoft-Windows-DotNETRuntime".to_owned();
        let providers = vec![Provider { name, keywords: u64::MAX, level: 5, filter: String::new() }];
        let config =
            EventPipeConfig { buffer_mebibytes: 16, rundown: Rundown::None, stacks: Stacks::Walked, providers };
        let mut session = EventPipeSession::start(&process, &config).expect("started");
        let path = "/nonexistent/libremora_agent-att15.so";
        assert!(attach(&process, &Attach::new(Guid([1; 16]), path)).is_err());
        session.stop(PATIENT).expect("asked");
        let mut bytes = Vec::new();
        session.read_to_end(&mut bytes).expect("read to its end");
        let is_reported = |text: &str| {
            let units: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
            bytes.windows(units.len()).any(|window| window == units)
        };
        let reported = ["received a request to attach a profiler", "HRESULT: 0x8007007e"].map(is_reported);
        // .NET Core 3.1 reports nothing.
        if root.version().major == 3 {
            assert_eq!(reported, [false; 2]);
        } else {
            holds!(ATT_15 clr rem, reported == [true; 2], "on {}", root.version());
        }
    });
}

#[test]
fn att_05_another_users_process_is_reached_by_root_and_its_socket_belongs_to_it() {
    use std::os::unix::fs::MetadataExt;
    each_root(|root| {
        let nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"];
        let sleeper = Sleeper::start(root, &nobody, &[]);
        let process = sleeper.find();
        assert_eq!(process.uid, 65534);
        holds!(ATT_05 clr rem, library_loads(&process) == HAS_NO_CLASS, "root reaches it");
        let (_listener, socket) = place_socket(&process).expect("placed");
        holds!(ATT_05 rem, std::fs::metadata(&socket.host_path).expect("there").uid() == 65534);
    });
}

#[test]
fn att_16_a_stopped_target_is_reported_at_once_and_serves_again_when_it_goes_on() {
    each_root(|root| {
        let sleeper = Sleeper::start(root, &[], &[]);
        let process = sleeper.find();
        sleeper.stop();
        let refused = attach(&process, &Attach::new(Guid([1; 16]), "/x.so"));
        holds!(
            ATT_16 rem, matches!(refused, Err(Error::NotAttachable { reason: Reason::Stopped { .. }, .. })),
            "{refused:?}"
        );
        assert!(matches!(sleeper.find().attachable, Err(Reason::Stopped { .. })));
        sleeper.go_on();
        holds!(ATT_16 clr rem, library_loads(&process) == HAS_NO_CLASS, "it goes on");
    });
}

#[test]
fn switched_off_diagnostics_are_named() {
    each_root(|root| {
        // Before .NET 6 the variable has the older prefix only.
        let variable = if root.version().major < 6 { "COMPlus_EnableDiagnostics" } else { "DOTNET_EnableDiagnostics" };
        let sleeper = Sleeper::start(root, &[], &[(variable, "0")]);
        let process = sleeper.find();
        let expected = Err(Reason::DiagnosticsDisabled { variable: format!("{variable}=0") });
        assert_eq!(process.attachable, expected);
    });
}

#[test]
fn a_process_that_ended_is_not_taken_for_another() {
    each_root(|root| {
        let sleeper = Sleeper::start(root, &[], &[]);
        let process = sleeper.find();
        let target = Target::hold(&process).expect("held");
        assert_eq!(target.fate(), Fate::Same);
        drop(sleeper);
        assert_eq!(target.fate(), Fate::Ended);
        let refused = attach(&process, &Attach::new(Guid([1; 16]), "/x.so"));
        assert!(matches!(refused, Err(Error::Changed { .. })), "{refused:?}");
        assert!(matches!(find(process.pid), Err(Error::NoSuchProcess { .. })));
    });
}

#[test]
fn an_event_session_streams_and_ends_with_its_rundown() {
    each_root(|root| {
        let understands_all = root.version().major >= 9;
        let forms =
            [(Rundown::Default, Stacks::Walked), (Rundown::None, Stacks::None), (Rundown::Keywords(0), Stacks::Walked)];
        for (rundown, stacks) in forms {
            let sleeper = Sleeper::start(root, &[], &[]);
            let name = "Microsoft-Windows-DotNETRuntime".to_owned();
            let providers = vec![Provider { name, keywords: 0x8, level: 4, filter: String::new() }];
            let wanted = EventPipeConfig { buffer_mebibytes: 16, rundown, stacks, providers };
            let mut session = EventPipeSession::start(&sleeper.find(), &wanted).expect("started");
            let agreed = if understands_all { None } else { wanted.for_older_runtimes() };
            assert_eq!(session.config(), &agreed.unwrap_or(wanted), "on {}", root.version());
            session.stop(PATIENT).expect("asked");
            let mut bytes = Vec::new();
            session.read_to_end(&mut bytes).expect("read to its end");
            session.finish(PATIENT).expect("ended");
            assert!(bytes.starts_with(b"Nettrace"), "{rundown:?}");
            assert_eq!(bytes.len() > 30_000, rundown == Rundown::Default, "{rundown:?}: {} bytes", bytes.len());
        }
    });
}

#[test]
fn att_04_a_program_is_held_at_its_start_and_attached_to_when_it_goes_on() {
    each_root_from(5, |root| {
        let port = ReversePort::open().expect("opened");
        let (name, value) = port.variable();
        let mut sleeper = Sleeper::start_without_waiting(root, &[], &[(name, &value)]);
        let waiting = port.accept(PATIENT).expect("it connects");
        assert_eq!(waiting.advertisement().pid, u64::from(sleeper.pid()));
        let info = waiting.process_info(ProcessInfoVersion::One, PATIENT).expect("answered");
        // The runtime does not know its arguments yet.
        assert!(info.command_line.to_string().contains("dotnet"), "{info:?}");
        let too_early = port.accept(PATIENT).expect("it connects again").attach(&Attach::new(Guid([1; 16]), "/x.so"));
        holds!(ATT_04 clr rem, too_early.as_ref().is_err_and(Error::is_too_early), "{too_early:?}");
        let process = find(sleeper.pid()).expect("found");
        let library = place_library(&process, &probe()).expect("placed");
        port.accept(PATIENT).expect("it connects again").resume(PATIENT).expect("resumed");
        let request = Attach { timeout: PATIENT, ..Attach::new(Guid([1; 16]), library.target_path.clone()) };
        let answer = attach_when_ready(&process, &request);
        assert!(matches!(answer, Err(Error::RuntimeRefused(HResult(0x8004_0111)))), "{answer:?}");
        sleeper.wait_until_ready();
    });
}

#[test]
fn att_04_a_process_without_net_is_distinguished_from_one_that_is_gone() {
    // Not process 1: a container's root may lack a capability that process 1 has, and is then refused its files.
    let mut native = std::process::Command::new("sleep").arg("600").spawn().expect("a process without .NET");
    let (pid, requirements) = (native.id(), Requirements::of_library(&probe()).expect("a library"));
    let (found, checks) = (find(pid), check_pid(pid, &requirements));
    native.kill().expect("killed");
    native.wait().expect("waited for");
    holds!(ATT_04 rem, matches!(&found, Err(Error::NotDotNet { pid: of, .. }) if *of == pid), "{found:?}");
    assert!(checks[0].has_failed(), "{checks:?}");
    assert!(matches!(find(u32::MAX), Err(Error::NoSuchProcess { .. })));
}

#[test]
fn att_08_a_short_time_out_is_ours_to_keep() {
    each_root(|root| {
        let sleeper = Sleeper::start(root, &[], &[]);
        let process = sleeper.find();
        let request = Attach { timeout: Duration::ZERO, ..Attach::new(Guid([1; 16]), "/x.so") };
        let answer = attach(&process, &request);
        holds!(ATT_08 rem, matches!(answer, Err(Error::TimedOut { .. })), "{answer:?}");
        library_loads(&process);
    });
}

fn unreachable_answer(answer: &Result<ProcessInfo, Error>) {
    assert!(answer.is_ok(), "{answer:?}");
}
