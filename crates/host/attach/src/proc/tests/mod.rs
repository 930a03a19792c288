//! The parsers of `/proc`, on lines as kernels write them and on damaged ones.

use super::*;
use crate::program::Program;
use crate::tests::process::{MadeUp, PID};

#[test]
fn a_name_with_parentheses_does_not_shift_the_start_time() {
    let line = b"77 (a) b \xff(c)) T 1 77 77 0 -1 4194304 1 0 0 0 5 6 0 0 20 0 21 0 123456 1 2 18446744073709551615 1";
    let stat = parse_stat(line).expect("valid");
    assert_eq!((stat.name.to_string().as_str(), stat.state, stat.start_time), ("a) b \u{fffd}(c)", 'T', 123_456));
    assert_eq!((stat.cpu_time, stat.exiting, stat.is_ending()), (11, false, false));
    let digits = line.windows(6).position(|window| window == b"123456").expect("there");
    for end in 0..digits {
        assert_eq!(parse_stat(&line[..end]), None, "cut at {end}");
    }
}

#[test]
fn status_gives_the_innermost_pid_and_the_ids_for_files() {
    let status = parse_status(
        b"Name:\tdotnet\nTracerPid:\t9\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nGroups:\t10 11\nNSpid:\t500\t31\t1\nThreads:\t12\nSigQ:\t3/900\nCapEff:\t0000000000080004\nSeccomp:\t2\n",
    );
    assert_eq!((status.effective_uid, status.file_uid, status.file_gid), (2, 4, 8));
    assert_eq!((status.real_uid, status.real_gid), (1, 5));
    assert_eq!((status.namespaced_pid, status.tracer_pid, status.threads), (Some(1), 9, 12));
    assert_eq!((status.groups, status.queued_signals, status.seccomp), (vec![10, 11], Some((3, 900)), 2));
    let capable = parse_status(b"CapEff:\t0000000000080004\n");
    assert!(capable.is_capable(Capability::SysPtrace) && capable.is_capable(Capability::DacReadSearch));
    assert!(!capable.is_capable(Capability::DacOverride));
}

#[test]
fn mounts_tell_noexec_and_read_only() {
    let mounts = parse_mounts(
        b"22 1 0:20 / /my\\040tmp rw,nosuid,noexec shared:5 - tmpfs tmpfs rw,size=1k\n\
          23 1 0:21 / / rw,relatime - overlay overlay ro,lowerdir=/x\n\
          garbage\n",
    );
    assert_eq!(mounts.len(), 2);
    assert_eq!((mounts[0].point.to_str(), mounts[0].no_execute, mounts[0].read_only), (Some("/my tmp"), true, false));
    assert_eq!(
        (mounts[1].kind.to_string(), mounts[1].no_execute, mounts[1].read_only),
        ("overlay".to_owned(), false, true)
    );
}

#[test]
fn only_listening_sockets_with_a_path_are_seen() {
    let sockets = parse_listening(
        b"Num       RefCount Protocol Flags    Type St Inode Path\n\
          0000000000000000: 00000002 00000000 00010000 0001 01 4711 /tmp/my socket\n\
          0000000000000000: 00000003 00000000 00000000 0001 03 4712 /tmp/connected\n\
          0000000000000000: 00000002 00000000 00010000 0001 01 4713 @abstract\n\
          0000000000000000: 00000002 00000000 00010000 0001 01 4714\n",
    );
    assert_eq!(sockets, vec![ListeningSocket { path: "/tmp/my socket".into(), inode: 4711 }]);
}

#[test]
fn regression_the_paths_of_a_process_that_changed_its_root_were_those_outside_of_it() {
    for (root, path, expected) in [
        ("/srv/root", "/srv/root/lib/libc.so", "/lib/libc.so"),
        ("/srv/root", "/srv/rooted/lib/libc.so", "/srv/rooted/lib/libc.so"),
        ("/srv/root", "[vdso]", "[vdso]"),
        ("/", "/lib/libc.so", "/lib/libc.so"),
        ("/", "/memfd:doublemapper", "/memfd:doublemapper"),
        ("", "/lib/libc.so", "/lib/libc.so"),
    ] {
        assert_eq!(in_view(&root.into(), path.into()), expected, "{root} {path}");
    }
}

/// The runtime's version was unreadable in a service that had dropped its rights.
#[test]
fn regression_a_file_that_only_a_mapping_gives_access_to_was_not_read() {
    let made = MadeUp::core_clr();
    made.identity('S', 0, 4_000_001);
    let maps = b"7f00-7f10 r-xp 0 08:01 42 /opt/own\n7f20-7f30 r-xp 0 08:01 43 /opt/gone (deleted)\n";
    made.set("maps", maps);
    std::fs::create_dir(made.proc().path(PID, "map_files")).expect("made");
    for (name, mapping) in [("own", "7f00-7f10"), ("gone", "7f20-7f30"), ("other", "7f40-7f50")] {
        made.write("opt", name, name.as_bytes());
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(made.in_root(&format!("opt/{name}")), mode).expect("set");
        made.link(&format!("map_files/{mapping}"), &made.in_root(&format!("opt/{name}")));
    }
    let read = |path: &str| {
        let mut text = String::new();
        Program::of(&made.proc(), PID)?.open(&path.into())?.read_to_string(&mut text).map(|_| text)
    };
    assert_eq!(read("/opt/own").expect("mapped"), "own");
    for path in ["/opt/gone", "/opt/other"] {
        assert_eq!(read(path).expect_err("not to be had").kind(), io::ErrorKind::PermissionDenied, "{path}");
    }
}

#[test]
fn capabilities_in_another_user_namespace_do_not_count() {
    let made = MadeUp::plain();
    let counts = || made.proc().status(PID).expect("there").is_capable(Capability::DacOverride);
    assert!(counts());
    made.link("ns/user", Path::new("user:[1]"));
    assert!(!counts());
    made.remove("ns/user");
    assert!(!counts(), "nobody knows in which one it is");
}

/// A process can have the kernel show gigabytes of zeros as its arguments: each was kept as a text of its own.
#[test]
fn arguments_without_end_are_kept_up_to_a_sum() {
    let made = MadeUp::plain();
    let kept = |bytes: &[u8]| {
        made.set("cmdline", bytes);
        made.set("environ", bytes);
        let arguments = made.proc().command_line(PID).expect("it is there");
        (arguments, made.proc().environment(PID).expect("it is there").len())
    };
    assert_eq!(kept(b"a\0\0b\0"), (["a", "", "b"].map(TargetText::from).into(), 0));
    assert_eq!(kept(b""), (Vec::new(), 0));
    let (arguments, _) = kept(&vec![0; 8 << 20]);
    assert_eq!((arguments.len(), arguments.last().cloned()), (MOST_TEXTS + 1, Some("…".into())));
    let (arguments, _) = kept(&vec![b'x'; 8 << 20]);
    assert_eq!((arguments.len(), arguments[0].to_string().len() as u64), (2, MOST_ARGUMENT_BYTES));
    assert_eq!(kept(&b"a=\0".repeat(1 << 20)).1, MOST_TEXTS);
}
