//! Every kind of process that may be .NET, made up.

use super::*;
use crate::proc::Viewer;
use crate::runtime::{Deployment, RuntimeKind};
use crate::tests::elf::{library_exporting, library_with};
use crate::tests::process::{INNER_PID, MadeUp, PID, socket_name};
use remora_holds::holds;
use remora_symbols::TargetPath;
use std::os::unix::net::UnixListener;
use std::path::Path;

const VERSION_8: &str = "@(#)Version 8.0.424.16909 @Commit: 2d7e";

/// A process whose executable is `program` and which maps nothing of .NET.
fn with_program(program: &[u8]) -> MadeUp {
    let made = MadeUp::plain();
    made.write("opt/app", "service", program);
    made.link("exe", &made.in_root("opt/app/service"));
    made
}

/// Maps this library, and nothing else of .NET.
fn map(made: &MadeUp, library: &str) {
    made.set("maps", format!("7f00-7f10 r-xp 00000000 08:01 42 {library}\n").as_bytes());
}

fn kind_and_version(made: &MadeUp) -> (RuntimeKind, Option<String>, Deployment) {
    let process = made.find();
    let runtime = process.runtime().expect("a runtime");
    (runtime.kind, runtime.version.map(|version| version.to_string()), runtime.deployment)
}

#[test]
fn att_03_single_file_programs_are_known_by_what_they_export() {
    for export in ["DotNetRuntimeInfo", "g_dacTable"] {
        let made = with_program(&library_with(export, VERSION_8));
        made.socket_in("tmp");
        made.listening(&["/tmp"]);
        holds!(ATT_03 rem, kind_and_version(&made) == (RuntimeKind::CoreClr, Some("8.0.4".into()), Deployment::SingleFile));
        assert_eq!(made.find().entry_assembly, Some("service".into()));
        assert_eq!(made.find().attachable, Ok(()));
    }
}

#[test]
fn att_03_native_aot_is_recognised_and_refused() {
    let made = with_program(&library_exporting("DotNetRuntimeDebugHeader"));
    holds!(ATT_03 rem, kind_and_version(&made).0 == RuntimeKind::NativeAot);
    holds!(ATT_03 rem, made.find().attachable == Err(Reason::NativeAot));
    made.socket_in("tmp");
    made.listening(&["/tmp"]);
    assert_eq!(made.find().attachable, Err(Reason::NativeAot), "even if it has a diagnostics port");
}

#[test]
fn att_03_mono_is_recognised_under_its_own_name_and_under_core_clrs() {
    let own = MadeUp::core_clr();
    map(&own, "/usr/lib/libmonosgen-2.0.so.1");
    let disguised = MadeUp::core_clr();
    disguised.write("opt/app", "libcoreclr.so", &library_exporting("mono_jit_init"));
    map(&disguised, "/opt/app/libcoreclr.so");
    for made in [own, disguised] {
        assert_eq!(kind_and_version(&made).0, RuntimeKind::Mono);
        holds!(ATT_03 rem, made.find().attachable == Err(Reason::Mono));
    }
}

#[test]
fn att_03_self_contained_programs_are_known_by_the_version_inside() {
    let made = MadeUp::core_clr();
    made.write("opt/app", "libcoreclr.so", &library_with("coreclr_initialize", VERSION_8));
    map(&made, "/opt/app/libcoreclr.so");
    holds!(ATT_03 rem, kind_and_version(&made) == (RuntimeKind::CoreClr, Some("8.0.4".into()), Deployment::Private));
    assert_eq!(made.find().entry_assembly, Some("program".into()));
}

#[test]
fn att_03_of_several_runtimes_the_one_that_can_be_profiled_is_chosen() {
    let made = MadeUp::core_clr();
    made.set(
        "maps",
        b"7f00-7f10 r-xp 00000000 08:01 41 /usr/lib/libmonosgen-2.0.so\n\
          7f20-7f30 r--p 00000000 08:01 42 /opt/shared/Microsoft.NETCore.App/9.0.7/libcoreclr.so\n\
          7f30-7f40 r-xp 00000000 08:01 42 /opt/shared/Microsoft.NETCore.App/9.0.7/libcoreclr.so\n",
    );
    let process = made.find();
    assert_eq!(process.runtimes.len(), 2);
    holds!(ATT_03 rem, process.runtime().and_then(|runtime| runtime.version).map(|version| version.major) == Some(9));
    assert_eq!(process.attachable, Ok(()));
}

#[test]
fn att_03_an_old_runtime_is_refused_with_its_version() {
    let made = MadeUp::core_clr();
    map(&made, "/opt/shared/Microsoft.NETCore.App/2.1.30/libcoreclr.so");
    holds!(ATT_03 rem, matches!(made.find().attachable, Err(Reason::TooOld { version }) if version.minor == 1));
}

#[test]
fn the_socket_is_found_in_the_targets_own_directory_for_temporary_files() {
    let made = MadeUp::core_clr();
    std::fs::remove_file(made.in_root("tmp").join(crate::tests::process::socket_name())).expect("removed");
    made.set("environ", b"TMPDIR=/own/place/\0");
    made.socket_in("own/place");
    made.listening(&["/own/place/"]);
    let process = made.find();
    assert_eq!(process.attachable, Ok(()));
    assert_eq!(process.namespaced_pid, INNER_PID);
    let socket = process.diagnostics.expect("found");
    assert!(socket.target_path.starts_with("/own/place"), "{socket:?}");
}

#[test]
fn a_socket_of_an_earlier_process_with_the_same_id_is_not_taken() {
    let made = MadeUp::core_clr();
    let name = crate::tests::process::socket_name();
    let earlier = made.in_root("tmp").join(name.replace("123456", "99"));
    std::fs::rename(made.in_root("tmp").join(&name), earlier).expect("renamed");
    made.listening(&[]);
    assert!(matches!(made.find().attachable, Err(Reason::NoSocket { .. })));
}

#[test]
fn a_listener_of_another_container_with_the_same_inner_id_is_not_taken() {
    let made = MadeUp::core_clr();
    let name = crate::tests::process::socket_name();
    std::fs::remove_file(made.in_root("tmp").join(&name)).expect("removed");
    let other = name.replace("123456", "99");
    made.set("net/unix", format!("0: 00000002 00000000 00010000 0001 01 4711 /tmp/{other}\n").as_bytes());
    assert!(matches!(made.find().attachable, Err(Reason::NoSocket { .. })), "{:?}", made.find().attachable);
}

/// Sockets that another user bound to the right name, each in a directory of its own.
fn of_others(count: u64) -> Vec<(u64, String)> {
    (0..count).map(|inode| (inode, format!("/others/{inode}"))).collect()
}

#[test]
fn another_user_who_listens_under_the_name_of_a_processs_socket_made_it_one_of_dotnet() {
    let made = MadeUp::plain();
    made.listening_on(&of_others(1));
    made.descriptors(&["socket:[4711]", "pipe:[1]"]);
    assert!(matches!(made.try_find(), Err(Error::NotDotNet { .. })), "{:?}", made.try_find());
}

#[test]
fn another_user_who_listens_under_the_name_in_many_directories_had_them_all_searched() {
    let made = MadeUp::core_clr();
    let mut sockets = of_others(1000);
    sockets.push((4711, "/own/place".into()));
    made.listening_on(&sockets);
    made.socket_in("own/place");
    std::fs::remove_file(made.in_root("tmp").join(socket_name())).expect("removed");
    // Without the right to see whose they are, only the first ones are searched.
    let searched = made.find().diagnostics;
    assert!(matches!(searched, Err(Reason::SocketDeleted { .. })), "{searched:?}");
    made.descriptors(&["pipe:[1]", "socket:[4711]"]);
    let found = made.find().diagnostics.expect("its own");
    assert_eq!(found.target_path, TargetPath::from("/own/place").join(socket_name()));
}

#[test]
fn another_users_file_of_the_form_of_a_sockets_name_hid_the_one_of_a_process_with_another_clock() {
    let made = MadeUp::core_clr();
    made.link("ns/time", Path::new("time:[1]"));
    for time in 0..200 {
        let other = made.in_root("tmp").join(socket_name().replace("123456", &time.to_string()));
        drop(UnixListener::bind(&other).expect("bound"));
        std::os::unix::fs::chown(&other, Some(4_000_000), None).expect("given away");
    }
    let found = made.find().diagnostics.expect("its own");
    assert_eq!(found.target_path, TargetPath::from("/tmp").join(socket_name()));
}

#[test]
fn att_04_a_host_without_a_runtime_is_distinguished() {
    let made = MadeUp::plain();
    made.link("exe", std::path::Path::new("/usr/bin/dotnet"));
    holds!(ATT_04 rem, made.find().attachable == Err(Reason::RuntimeNotLoaded));
    let error = MadeUp::plain().try_find().expect_err("no .NET");
    assert!(matches!(error, Error::NotDotNet { pid: PID, .. }), "{error:?}");
    assert_eq!(error.remedies(), [crate::Remedy::ListProcesses, crate::Remedy::RecordFromStart]);
}

#[test]
fn att_05_what_may_not_be_looked_into_is_listed_by_its_socket_alone() {
    let made = MadeUp::core_clr();
    made.hide("maps");
    made.identity('S', 0, 1_000);
    let stranger = Viewer { uid: 4_000_000, capabilities: 0 };
    let found = processes_in(&made.proc().seen_by(stranger)).expect("listed");
    assert_eq!(found.len(), 1);
    assert!(found[0].runtimes.is_empty());
    let attachable = &found[0].attachable;
    holds!(ATT_05 rem, matches!(attachable, Err(Reason::NotOwner { viewer: 4_000_000, .. })), "{attachable:?}");
}

#[test]
fn a_process_that_vanishes_while_it_is_read_is_left_out() {
    for file in ["stat", "status", "cmdline", "maps"] {
        let made = MadeUp::core_clr();
        made.remove(file);
        assert_eq!(processes_in(&made.proc()).expect("listed").len(), 0, "{file}");
    }
    let made = MadeUp::core_clr();
    made.remove("environ");
    assert_eq!(processes_in(&made.proc()).expect("listed").len(), 1, "what is not needed is not missed");
}

#[test]
fn att_03_a_dead_process_that_nobody_has_collected_is_refused() {
    let made = MadeUp::core_clr();
    made.state('Z', 0);
    holds!(ATT_03 rem, made.find().attachable == Err(Reason::Ended));
}

#[test]
fn a_pipe_in_place_of_the_runtimes_file_does_not_hold_us() {
    let made = MadeUp::core_clr();
    made.write("opt/app", "other", b"");
    let pipe = made.in_root("opt/app/libcoreclr.so");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, pipe, rustix::fs::FileType::Fifo, mode, 0).expect("made");
    map(&made, "/opt/app/libcoreclr.so");
    assert_eq!(kind_and_version(&made), (RuntimeKind::CoreClr, None, Deployment::Private));
}

/// A process had its mappings read, and executed a program that calls `setuid(0)`. Then the path that it had mapped and replaced by a link
/// was opened with root's rights.
#[test]
fn a_path_that_was_read_before_another_program_is_not_opened_with_the_rights_of_that_one() {
    const USER: u32 = 4_000_001;
    const MAPS: &[u8] = b"7f00-7f10 r-xp 0 08:01 42 /opt/app/libcoreclr.so\n";
    let version = |mode, (before, after): (u32, u32), vector: &[u8]| {
        let made = MadeUp::core_clr();
        made.write("opt/app", "libcoreclr.so", &library_with("coreclr_initialize", VERSION_8));
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(made.in_root("opt/app/libcoreclr.so"), mode).expect("set");
        made.set("auxv", b"before");
        made.user(before);
        made.becomes_a_pipe("maps");
        std::thread::scope(|scope| {
            let found = scope.spawn(|| made.find());
            made.write_when_read("maps", MAPS, || {
                // Read again where a path is refused.
                made.remove("maps");
                made.set("maps", MAPS);
                made.set("auxv", vector);
                made.user(after);
            });
            let process = found.join().expect("no panic");
            process.runtime().expect("a runtime").version.map(|version| version.to_string())
        })
    };
    let known = Some("8.0.4".to_owned());
    assert_eq!(version(0o600, (0, 0), b"before"), known, "root's own");
    assert_eq!(version(0o644, (USER, USER), b"before"), known, "a user's own");
    assert_eq!(version(0o600, (USER, 0), b"before"), None, "the rights of the program after it");
    assert_eq!(version(0o600, (0, USER), b"before"), None, "the rights of the program before it");
    assert_eq!(version(0o600, (0, 0), b"after"), None, "a program of root's between others");
    assert_eq!(version(0o644, (USER, USER), b"after"), None, "whose path it is, is not known");
}

#[test]
fn a_process_that_keeps_its_reader_waiting_is_listed_with_the_reason() {
    let made = MadeUp::core_clr();
    made.becomes_a_pipe("cmdline");
    let proc = made.proc();
    let mut inspectors = Inspectors::new(&proc, Duration::ZERO);
    inspectors.begin(PID).expect("a thread");
    let found = inspectors.next(Duration::MAX).expect("inspected").found.expect("it lives").expect("listed");
    assert_eq!((found.pid, found.namespaced_pid), (PID, INNER_PID));
    assert_eq!(found.attachable, Err(Reason::NotExamined { limit: Limit::Time }));
    made.write_when_read("cmdline", b"dotnet\0", || {});
}

/// Each of hundreds of processes had a thread of its own. Where the system refused one, its process was missing from the list.
#[test]
fn regression_processes_were_missing_for_lack_of_threads_which_are_used_again() {
    let made = MadeUp::core_clr();
    let proc = made.proc();
    let mut inspectors = Inspectors::new(&proc, TIME_ALONE);
    for _ in 0..20 {
        inspectors.begin(PID).expect("a thread");
        let inspected = inspectors.next(Duration::MAX).expect("inspected");
        assert_eq!((inspected.pid, inspected.found.expect("it lives").is_some()), (PID, true));
    }
    assert_eq!((inspectors.started(), inspectors.busy(), inspectors.next(Duration::MAX).is_none()), (1, 0, true));
}

/// One process that kept its reader waiting took the only thread that there may be, and the whole list failed.
#[test]
fn regression_a_process_that_keeps_its_reader_waiting_took_the_thread_of_all_others() {
    let made = MadeUp::core_clr();
    made.becomes_a_pipe("cmdline");
    let other = PID + 1;
    made.link(&format!("../{other}"), std::path::Path::new(&PID.to_string()));
    let proc = made.proc();
    let mut inspectors = Inspectors::new(&proc, Duration::ZERO);
    inspectors.most = 1;
    let found = list(&proc, inspectors).expect("a list");
    assert_eq!(found.iter().map(|process| process.pid).collect::<Vec<_>>(), [PID, other]);
    let limit = Limit::Time;
    assert!(found.iter().all(|process| process.attachable == Err(Reason::NotExamined { limit })), "{found:?}");
    made.write_when_read("cmdline", b"dotnet\0", || {});
    // Without any thread there is no list.
    let mut inspectors = Inspectors::new(&proc, Duration::ZERO);
    inspectors.most = 0;
    assert!(list(&proc, inspectors).is_err());
}

/// A program with gigabytes of names was read to its end, and `ps` ran out of memory.
#[test]
fn a_program_whose_tables_are_not_read_to_the_end_is_listed_with_the_reason() {
    let mut program = library_exporting("main");
    let sections = u64::from_le_bytes(program[40..48].try_into().expect("eight bytes")) as usize;
    program[sections + 64 + 32..][..8].copy_from_slice(&(24_u64 * 4_000_000).to_le_bytes());
    let made = with_program(&program);
    let file = std::fs::File::options().write(true).open(made.in_root("opt/app/service")).expect("it is there");
    file.set_len(200 << 20).expect("sparse");
    let found = made.find();
    assert_eq!(found.attachable, Err(Reason::NotExamined { limit: Limit::Bytes }));
    // Proof that it runs .NET makes it attachable, whatever else it has.
    made.socket_in("tmp");
    made.listening(&["/tmp"]);
    assert_eq!((made.find().attachable, made.find().limit), (Ok(()), Some(Limit::Bytes)));
}

/// Each mapped runtime is a file to read.
#[test]
fn of_a_process_that_maps_many_runtimes_four_are_looked_at() {
    let made = MadeUp::core_clr();
    let mapped = |number: u32| {
        format!("7f{number:02x}0-7f{number:02x}8 r-xp 00000000 08:01 {number} /opt/{number}/libcoreclr.so\n")
    };
    made.set("maps", (1..=9).map(mapped).collect::<String>().as_bytes());
    assert_eq!(made.find().runtimes.len(), 4);
}

#[test]
fn twenty_processes_of_one_user_that_keep_us_waiting_hid_those_of_all_others() {
    let user = |pid: u32| if pid < 20 { 1000 } else { 1001 };
    let mut queue = Queue::of(10..25);
    let mut order = Vec::new();
    while let Some(pid) = queue.next(user) {
        order.push(pid);
        if user(pid) == 1000 {
            queue.was_slow(1000);
        }
    }
    assert_eq!(order, [10, 11, 20, 21, 22, 23, 24, 12, 13, 14, 15, 16, 17, 18, 19]);
}

/// One user can have 65,536 user ids, and the first two processes of each took three seconds.
#[test]
fn regression_slow_processes_with_a_user_id_each_hid_all_others() {
    let mut queue = Queue::of(10..15);
    let patience = |user| {
        queue.was_slow(user);
        queue.patience()
    };
    assert_eq!(
        [10, 11, 12, 13, 14].map(patience),
        [Duration::MAX, Duration::MAX, Duration::MAX, SHORT_TIME, SHORT_TIME]
    );
    let made = MadeUp::core_clr();
    let proc = made.proc();
    let mut inspectors = Inspectors::new(&proc, TIME_IN_A_LIST);
    made.set("auxv", b"before");
    made.becomes_a_pipe("auxv");
    inspectors.begin(777).expect("begun");
    let inspected = inspectors.next(SHORT_TIME).expect("one");
    assert!(inspected.took < TIME_IN_A_LIST && inspected.found.expect("listed").is_some());
}

/// The main thread read the auxiliary vector of a process again after its inspector was abandoned. While a program is executed, that read
/// can be kept waiting for ever, by any user.
#[test]
fn regression_a_list_waited_for_the_vector_of_a_process_that_was_executing_a_program() {
    let made = MadeUp::core_clr();
    made.set("auxv", b"before");
    made.becomes_a_pipe("auxv");
    let listed = list(&made.proc(), Inspectors::new(&made.proc(), Duration::ZERO)).expect("a list");
    let limits: Vec<_> = listed.iter().map(|process| (process.pid, process.limit)).collect();
    assert_eq!(limits, [(777, Some(Limit::Time))]);
}
