//! The parsers of `/proc`, on lines as kernels write them and on damaged ones.

use super::*;

#[test]
fn a_name_with_parentheses_does_not_shift_the_start_time() {
    let line = b"77 (a) b \xff(c)) T 1 77 77 0 -1 4194304 1 0 0 0 5 6 0 0 20 0 21 0 123456 1 2 18446744073709551615 1";
    let stat = parse_stat(line).expect("valid");
    assert_eq!((stat.name.as_str(), stat.state, stat.start_time), ("a) b \u{fffd}(c)", 'T', 123_456));
    assert_eq!((stat.processor_time, stat.exiting, stat.is_ending()), (11, false, false));
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
    assert_eq!((status.namespaced_pid, status.tracer_pid, status.threads), (Some(1), 9, 12));
    assert_eq!((status.groups, status.queued_signals, status.seccomp), (vec![10, 11], Some((3, 900)), 2));
    let capable = parse_status(b"CapEff:\t0000000000080004\n");
    assert!(capable.is_capable(Capability::SysPtrace) && capable.is_capable(Capability::DacReadSearch));
    assert!(!capable.is_capable(Capability::DacOverride));
}

#[test]
fn maps_keep_spaces_and_tell_deleted_files() {
    let maps = parse_maps(
        b"7f00-7f10 r-xp 00000000 08:01 42                         /opt/my app/libx.so (deleted)\n\
          7f20-7f30 rw-p 00000000 00:00 0\n\
          7f40-7f50 rw-p 00000000 00:00 0                          [heap]\n\
          7f60-7f70 r--p 00000000 08:01 43                         /a\\012b\n\
          zz-7f70 r--p 00000000 08:01 43 /bad\n",
    );
    assert_eq!(maps.len(), 2);
    assert_eq!((maps[0].file_name(), maps[0].deleted, maps[0].executable, maps[0].inode), ("libx.so", true, true, 42));
    assert_eq!((maps[1].path.to_str(), maps[1].executable), (Some("/a\nb"), false));
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
    assert_eq!((mounts[1].kind.as_str(), mounts[1].no_execute, mounts[1].read_only), ("overlay", false, true));
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
        assert_eq!(in_view(Path::new(root), Path::new(path)), Path::new(expected), "{root} {path}");
    }
}
