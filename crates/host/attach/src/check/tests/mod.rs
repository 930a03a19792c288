//! Breaks each precondition once, in made-up processes, with everything else in order.

use super::*;
use crate::tests::process::{MadeUp, socket_name};
use remora_holds::holds;

fn requirements() -> Requirements {
    let ourselves = std::fs::read("/proc/self/exe").expect("readable");
    Requirements { names: Vec::new(), glibc: None, ..Requirements::of_library(&ourselves).expect("a shared object") }
}

fn failed(made: &MadeUp, requirements: &Requirements) -> Vec<Check> {
    match made.try_find() {
        Ok(process) => check(&process, requirements),
        Err(error) => vec![unfound(&error)],
    }
    .into_iter()
    .filter(Check::has_failed)
    .collect()
}

/// Asserts that exactly this check fails, with this cause and a remedy.
fn only(made: &MadeUp, requirements: &Requirements, name: &str, cause: &str) {
    let failed = failed(made, requirements);
    let names: Vec<&str> = failed.iter().map(|check| check.subject.name()).collect();
    assert_eq!(names, [name], "{failed:?}");
    assert!(failed[0].found.contains(cause), "{failed:?}");
    assert!(!failed[0].remedies.is_empty(), "{failed:?}");
}

fn needs(change: impl FnOnce(&mut Requirements)) -> Requirements {
    let mut requirements = Requirements { libraries: Vec::new(), ..requirements() };
    change(&mut requirements);
    requirements
}

#[test]
fn a_process_in_order_passes_everything() {
    let made = MadeUp::core_clr();
    assert_eq!(failed(&made, &needs(|_| {})), Vec::new());
    assert!(check(&made.find(), &needs(|_| {})).len() >= 12);
}

#[test]
fn what_cannot_be_profiled_is_named() {
    let cases = [
        ("/usr/lib/libmonosgen-2.0.so", "Mono"),
        (
            "/usr/share/dotnet/shared/Microsoft.NETCore.App/2.1.30/libcoreclr.so",
            ".NET Core 2.1.30 has no diagnostics port",
        ),
    ];
    for (library, cause) in cases {
        let made = MadeUp::core_clr();
        made.set("maps", format!("7f00-7f10 r-xp 00000000 08:01 42 {library}\n").as_bytes());
        only(&made, &needs(|_| {}), "runtime", cause);
    }
}

#[test]
fn att_04_a_runtime_that_is_not_loaded_yet_is_distinguished_from_no_net_at_all() {
    let starting = MadeUp::plain();
    starting.set("maps", b"7f00-7f10 r-xp 00000000 08:01 42 /usr/share/dotnet/host/fxr/8.0.4/libhostfxr.so\n");
    let checks = failed(&starting, &needs(|_| {}));
    assert_eq!(checks[0].subject.name(), "runtime");
    holds!(ATT_04 rem, checks[0].found.contains("has not loaded the .NET runtime yet"), "{checks:?}");
    holds!(ATT_04 rem, checks[0].remedies.contains(&Remedy::RecordFromStart), "{checks:?}");
    only(&MadeUp::plain(), &needs(|_| {}), "runtime", "has not loaded a .NET runtime");
}

#[test]
fn a_process_that_is_gone_is_the_only_thing_said() {
    let made = MadeUp::core_clr();
    made.end();
    only(&made, &needs(|_| {}), "process", "there is no process 777");
}

#[test]
fn switched_off_diagnostics_name_the_variable() {
    for variable in ["DOTNET_EnableDiagnostics=0", "COMPlus_EnableDiagnostics=0", "DOTNET_EnableDiagnostics_IPC=0"] {
        let made = MadeUp::core_clr();
        std::fs::remove_file(made.in_root("tmp").join(socket_name())).expect("removed");
        made.listening(&[]);
        made.set("environ", format!("TMPDIR=/scratch\0{variable}\0").as_bytes());
        only(&made, &needs(|_| {}), "diagnostics port", variable);
    }
}

#[test]
fn stale_deleted_and_absent_sockets_are_distinguished() {
    let stale = MadeUp::core_clr();
    stale.listening(&[]);
    only(&stale, &needs(|_| {}), "diagnostics port", "no process listens");
    let deleted = MadeUp::core_clr();
    std::fs::remove_file(deleted.in_root("tmp").join(socket_name())).expect("removed");
    only(&deleted, &needs(|_| {}), "diagnostics port", "was deleted");
    deleted.listening(&[]);
    only(
        &deleted,
        &needs(|_| {}),
        "diagnostics port",
        "no diagnostics socket dotnet-diagnostic-7-123456-socket in /scratch, /tmp",
    );
}

#[test]
fn att_16_a_stopped_target_is_seen_before_it_is_asked() {
    let cases = [('T', 0, "stop signal"), ('t', 99, "process 99"), ('T', 99, "process 99")];
    for (state, tracer, cause) in cases {
        let made = MadeUp::core_clr();
        made.state(state, tracer);
        only(&made, &needs(|_| {}), "running", cause);
    }
    let traced_but_running = MadeUp::core_clr();
    traced_but_running.state('S', 99);
    holds!(ATT_16 rem, failed(&traced_but_running, &needs(|_| {})) == Vec::new());
}

#[test]
fn att_05_another_users_process_is_refused_with_the_user_to_be() {
    let made = MadeUp::core_clr();
    let stranger = crate::proc::Viewer { uid: 4_000_000, capabilities: 0 };
    let process = crate::discovery::find_in(&made.proc().seen_by(stranger), crate::tests::process::PID).expect("found");
    assert!(matches!(process.attachable, Err(Reason::NotOwner { viewer: 4_000_000, .. })), "{:?}", process.attachable);
    let failed: Vec<Check> = check(&process, &needs(|_| {})).into_iter().filter(Check::has_failed).collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    holds!(ATT_05 rem, (failed[0].subject.name(), failed[0].found.contains("access denied")) == ("rights", true));
}

#[test]
fn att_05_a_container_that_may_not_take_another_users_rights_learns_which_capabilities_it_lacks() {
    let made = MadeUp::core_clr();
    use crate::proc::Capability::{DacOverride, SetGid, SetUid};
    let without = |missing: &[crate::proc::Capability]| {
        let capabilities = missing.iter().fold(u64::MAX, |all, capability| all & !(1 << *capability as u32));
        crate::proc::Viewer { uid: 0, capabilities }
    };
    let cases: [(u32, &[_], &str); 6] = [
        (0, &[DacOverride, SetGid, SetUid], ""),
        (1, &[], ""),
        (1, &[SetUid], "cannot take the rights of daemon: Remora lacks CAP_SETUID"),
        (1, &[SetGid], "cannot take the rights of daemon: Remora lacks CAP_SETGID"),
        (1, &[SetUid, SetGid], "cannot take the rights of daemon: Remora lacks CAP_SETUID and CAP_SETGID"),
        (1, &[DacOverride], "cannot use the diagnostics socket of daemon: Remora lacks CAP_DAC_OVERRIDE"),
    ];
    for (uid, missing, cause) in cases {
        made.identity('S', 0, uid);
        let proc = made.proc().seen_by(without(missing));
        let process = crate::discovery::find_in(&proc, crate::tests::process::PID).expect("found");
        let checks = check(&process, &needs(|_| {}));
        let rights = checks.iter().find(|check| check.subject == Subject::Rights).expect("it is checked");
        holds!(ATT_05 rem, rights.passed == Some(cause.is_empty()), "user {uid}: {rights:?}");
        assert!(cause.is_empty() || rights.found == cause, "{rights:?}");
        let remedies = [Remedy::AddCapabilities { missing: missing.to_vec() }, Remedy::RunAsTargetUser];
        assert!(cause.is_empty() || rights.remedies == remedies, "{rights:?}");
    }
}

#[test]
fn what_could_not_be_looked_at_was_said_to_have_passed() {
    let made = MadeUp::core_clr();
    made.remove("exe");
    let checks = check(&made.find(), &needs(|_| {}));
    let unknown = |subject: Subject| checks.iter().any(|check| check.subject == subject && check.passed.is_none());
    assert!(unknown(Subject::Architecture) && unknown(Subject::Libc) && unknown(Subject::Descriptors), "{checks:?}");
    let stranger = crate::proc::Viewer { uid: 4_000_000, capabilities: 0 };
    made.hide("maps");
    let hidden = crate::discovery::find_in(&made.proc().seen_by(stranger), crate::tests::process::PID).expect("found");
    let checks = check(&hidden, &needs(|_| {}));
    let runtime = checks.iter().find(|check| check.subject == Subject::Runtime).expect("it is checked");
    assert_eq!((runtime.passed, &*runtime.found), (None, "hidden from you"));
}

#[test]
fn att_06_architecture_libc_and_libraries_are_distinguished() {
    let made = MadeUp::core_clr();
    made.link("exe", std::path::Path::new("/proc/self/exe"));
    only(
        &made,
        &needs(|needs| needs.architecture = Some(crate::Architecture::Arm64)),
        "architecture",
        "the library is arm64",
    );
    only(&made, &needs(|needs| needs.libraries = vec!["libfoo.so.1".into()]), "libraries", "libfoo.so.1");
    let own_maps = crate::proc::Proc::default().maps(std::process::id()).expect("readable");
    let libc = own_maps.iter().find(|mapping| mapping.file_name() == "libc.so.6").expect("mapped").path.to_string();
    std::fs::create_dir_all(made.in_root("lib")).expect("made");
    std::fs::copy(libc, made.in_root("lib/libc.so.6")).expect("copied");
    made.set(
        "maps",
        b"7f00-7f10 r-xp 00000000 08:01 42 /usr/share/dotnet/shared/Microsoft.NETCore.App/8.0.4/libcoreclr.so\n\
          7f20-7f30 r-xp 00000000 08:01 43 /lib/libc.so.6\n",
    );
    let newer = crate::GlibcVersion { major: 2, minor: 999 };
    only(&made, &needs(|needs| needs.glibc = Some(newer)), "libc", "the library needs 2.999");
    let old = crate::GlibcVersion { major: 2, minor: 17 };
    holds!(ATT_06 rem, failed(&made, &needs(|needs| needs.glibc = Some(old))) == Vec::new());
}

#[test]
fn att_06_on_musl_each_missing_name_is_reported() {
    let made = MadeUp::core_clr();
    std::fs::create_dir_all(made.in_root("lib")).expect("made");
    let own_maps = crate::proc::Proc::default().maps(std::process::id()).expect("readable");
    let libc = own_maps.iter().find(|mapping| mapping.file_name() == "libc.so.6").expect("mapped").path.to_string();
    std::fs::copy(libc, made.in_root("lib/ld-musl-x86_64.so.1")).expect("copied");
    made.set(
        "maps",
        b"7f00-7f10 r-xp 00000000 08:01 42 /opt/shared/Microsoft.NETCore.App/8.0.4/libcoreclr.so\n\
          7f20-7f30 r-xp 00000000 08:01 43 /lib/ld-musl-x86_64.so.1\n",
    );
    let wants = |names: &[&str]| needs(|needs| needs.names = names.iter().map(|name| (*name).to_owned()).collect());
    only(&made, &wants(&["malloc", "no_such_name"]), "libc", "lacks no_such_name");
    assert_eq!(failed(&made, &wants(&["malloc"])), Vec::new());
    // A musl since 1.2.4 exports no `getrandom64` (nor does this stand-in); its linker resolves the name without the suffix.
    holds!(ATT_06 rem, failed(&made, &wants(&["getrandom64"])) == Vec::new());
}

/// A plain build was refused on every musl, since musl itself does not export the names of libgcc_s.
#[test]
fn regression_on_musl_a_name_may_be_in_a_library_that_is_needed_and_mapped() {
    let made = MadeUp::core_clr();
    made.write("lib", "ld-musl-x86_64.so.1", &crate::tests::elf::library_exporting("malloc"));
    made.write("lib", "libgcc_s.so.1", &crate::tests::elf::library_exporting("_Unwind_Resume"));
    let maps = "7f00-7f10 r-xp 00000000 08:01 42 /opt/shared/Microsoft.NETCore.App/8.0.4/libcoreclr.so\n\
                7f20-7f30 r-xp 00000000 08:01 43 /lib/ld-musl-x86_64.so.1\n\
                7f40-7f50 r-xp 00000000 08:01 44 /lib/libgcc_s.so.1\n";
    made.set("maps", maps.as_bytes());
    let wants = |libraries: &[&str]| {
        needs(|needs| {
            needs.names = vec!["malloc".to_owned(), "_Unwind_Resume".to_owned()];
            needs.libraries = libraries.iter().map(|name| (*name).to_owned()).collect();
        })
    };
    assert_eq!(failed(&made, &wants(&["libgcc_s.so.1"])), Vec::new());
    only(&made, &wants(&[]), "libc", "lacks _Unwind_Resume");
}

#[test]
fn no_room_for_the_library_names_every_directory() {
    let made = MadeUp::core_clr();
    only(&made, &needs(|needs| needs.bytes = u64::MAX / 2), "directory", "/scratch: full");
}

#[test]
fn att_07_a_taken_slot_fails_where_there_is_only_one() {
    let profiler = b"7f50-7f60 r-xp 00000000 08:01 44 /opt/apm/libapm.so\n";
    let cases = [("3.1.23", Slot::Beside, false), ("8.0.4", Slot::Beside, true), ("8.0.4", Slot::Main, false)];
    for (version, slot, passes) in cases {
        let made = MadeUp::core_clr();
        std::fs::create_dir_all(made.in_root("opt/apm")).expect("made");
        std::fs::write(made.in_root("opt/apm/libapm.so"), crate::tests::elf::library_exporting("DllGetClassObject"))
            .expect("written");
        let runtime =
            format!("7f00-7f10 r-xp 00000000 08:01 42 /opt/shared/Microsoft.NETCore.App/{version}/libcoreclr.so\n");
        made.set("maps", &[runtime.as_bytes(), profiler].concat());
        let requirements = needs(|needs| needs.slot = slot);
        match passes {
            true => holds!(ATT_07 rem, failed(&made, &requirements) == Vec::new(), "{version}"),
            false => only(&made, &requirements, "profiler slot", "taken by /opt/apm/libapm.so"),
        }
    }
}

#[test]
fn an_agent_of_ours_in_the_target_is_found() {
    let made = MadeUp::core_clr();
    made.set(
        "maps",
        b"7f00-7f10 r-xp 00000000 08:01 42 /opt/shared/Microsoft.NETCore.App/8.0.4/libcoreclr.so\n\
          7f20-7f30 r-xp 00000000 08:01 43 /tmp/libremora_agent-00.so (deleted)\n",
    );
    only(&made, &needs(|_| {}), "remora's agent", "already loaded as /tmp/libremora_agent-00.so");
}

#[test]
fn a_crowded_signal_queue_is_found() {
    let made = MadeUp::core_clr();
    made.identity_with_signals(990, 1000);
    only(&made, &needs(|_| {}), "signals", "990 of 1000");
}

#[test]
fn each_thread_wants_room_for_two_timers() {
    let threads =
        u64::from(MadeUp::core_clr().find().proc.status(crate::tests::process::PID).expect("it is shown").threads);
    let wanted = 64 + threads;
    let enough = MadeUp::core_clr();
    enough.identity_with_signals(0, wanted);
    assert_eq!(failed(&enough, &needs(|_| {})), Vec::new());
    let short = MadeUp::core_clr();
    short.identity_with_signals(0, wanted - 1);
    only(&short, &needs(|_| {}), "signals", &format!("a recording wants {wanted}"));
}

/// Remedies name only existing builds and engines.
#[test]
fn remedies_name_only_what_there_is() {
    for source in [include_str!("../../check.rs"), include_str!("../../error.rs")] {
        for made_up in ["perf_event", "a build for", "a build of remora", "released build", "with more time"] {
            assert!(!source.contains(made_up), "{made_up}");
        }
    }
}

#[test]
fn what_is_no_library_is_refused() {
    for bytes in [&b""[..], b"\x7fELF", b"#!/bin/sh\n", &[0x7f; 4096]] {
        assert!(matches!(Requirements::of_library(bytes), Err(Error::BadLibrary { .. })));
    }
}

#[test]
fn a_session_of_events_needs_address_space_and_a_process_without_a_limit_has_it() {
    let made = MadeUp::core_clr();
    let process = made.find();
    let status = String::from_utf8_lossy(&made.read("status")).into_owned() + "VmSize:\t1024 kB\n";
    made.set("status", status.as_bytes());
    for (limit, passed) in [("unlimited", true), ("105906176", true), ("101711871", false), ("1000", false)] {
        made.set(
            "limits",
            format!("Max address space         {limit}            unlimited            bytes\n").as_bytes(),
        );
        assert_eq!(check_address_space(&process).passed, Some(passed), "{limit}");
    }
}
