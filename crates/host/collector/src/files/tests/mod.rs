//! What is read of a target's files, and which files with symbols are found.

use super::*;
use std::io::Write;

#[test]
fn all_parts_of_a_command_share_one_limit_of_bytes_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file");
    std::fs::write(&path, [1; 100]).expect("written");
    let files = Files::of_ourselves();
    let others = files.for_another();
    files.budget.left.set(250);
    let read = |files: &Files| files.read(&path.clone().into()).map(|bytes| bytes.len());
    assert_eq!((files.note(), others.note()), (None, None));
    assert_eq!([read(&files), read(&others), read(&files), read(&others)], [Some(100), Some(100), None, None]);
    assert_eq!(files.note(), others.note());
    let said = files.note().expect("one was not read");
    assert!(said.starts_with("2 files of the process were not read"), "{said}");
}

#[test]
fn no_file_is_read_once_decoding_others_has_taken_its_time() {
    let files = Files::of_ourselves();
    let own = std::env::current_exe().expect("a path");
    let read = || files.read(&own.clone().into_os_string().into()).is_some();
    files.budget.decode(|| until_used(Duration::from_millis(1)));
    assert!(files.budget.decoding.get() >= Duration::from_millis(1) && read());
    files.budget.decoding.set(MOST_TIME + Duration::from_nanos(1));
    assert!(!read() && files.note().is_some());
}

/// Uses this CPU time.
fn until_used(time: Duration) {
    let begun = thread_time();
    while thread_time() - begun < time {}
}

#[test]
fn mappings_are_read_once_a_look_and_seldom_if_that_does_not_help() {
    let mut files = Files::of_ourselves();
    let begun = Instant::now();
    let own_code = Files::of as *const () as u64;
    let mut reads = |milliseconds: u64, addresses: &[u64]| {
        files.begin_pass(begun + Duration::from_millis(milliseconds));
        addresses
            .iter()
            .filter(|address| {
                files.maps.clear();
                files.is_settled(**address)
            })
            .count()
    };
    // No process maps its first page.
    let nowhere: Vec<u64> = (0..1000).collect();
    assert_eq!(reads(0, &nowhere), 1);
    assert_eq!(reads(49, &nowhere), 0);
    assert_eq!(reads(50, &nowhere), 1);
    assert_eq!(reads(149, &nowhere), 0, "twice as long");
    assert_eq!((0..10_000).map(|time| reads(150 + time, &nowhere)).sum::<usize>(), 12);
    assert_eq!(reads(20_000, &[own_code; 3]), 1);
    assert_eq!(reads(20_000, &[own_code; 3]), 1, "the next look after one that has helped");
}

#[test]
fn memory_with_a_name_is_not_read_and_neither_is_what_only_looks_like_a_library_by_its_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("library.so");
    let mut file = File::create(&path).expect("a file");
    // Sparse, like the runtime's own memory for code.
    file.set_len(LARGEST_FILE).expect("room for nothing");
    let files = Files::of_ourselves();
    let read = || files.read_elf(File::open(&path).expect("a file"));
    assert_eq!((read(), files.budget.left.get()), (None, MOST_BYTES));
    file.write_all(&ELF_MAGIC).expect("room");
    file.set_len(LARGEST_FILE + 1).expect("room for nothing");
    assert_eq!((read(), files.budget.unread.get()), (None, 1), "too large");
    file.set_len(100).expect("less");
    assert_eq!(read().map(|bytes| bytes.len()), Some(100));
    let code = parse_maps(b"1000-2000 r-xs 00000000 00:01 7   /memfd:doublemapper (deleted)\n").remove(0);
    assert!(code.deleted);
    assert_eq!(Files::of_ourselves().native_bytes(&code), None);
}

const STRIPPED: &[u8] = include_bytes!("../../../../symbols/fixtures/native.stripped.so");
const DEBUG: &[u8] = include_bytes!("../../../../symbols/fixtures/native.debug");
/// In the fixture, code whose symbol only the debug file has.
const HIDDEN: u64 = 0x1101;

/// A folder with a stripped library `lib/native.so`, and these files.
fn library_beside(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, bytes) in [("lib/native.so", STRIPPED)].iter().chain(files) {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, bytes).expect("written");
    }
    folder
}

/// The name of [`HIDDEN`] in the library of this folder, with symbols from `symbols` in it; and the note.
fn hidden_name(folder: &tempfile::TempDir, symbols: &[&str]) -> (Option<String>, Option<String>) {
    let folders = symbols.iter().map(|name| folder.path().join(name)).collect();
    let mut files = Files::of_ourselves().with_symbols(folders);
    let line = format!("1000-9000 r-xp 00000000 08:01 7   {}/lib/native.so\n", folder.path().display());
    let entry = parse_maps(line.as_bytes()).remove(0);
    let name = files.native(&entry).expect("a library").function(HIDDEN).map(|(name, _)| name);
    (name, files.notes_on_symbols().next())
}

/// The debug file of another build: it has another build id.
fn of_another_build() -> Vec<u8> {
    let id = ElfImage::parse(STRIPPED).expect("a library").build_id().expect("an id").to_vec();
    let at = memchr::memmem::find(DEBUG, &id).expect("the same id");
    let mut other = DEBUG.to_vec();
    other[at] ^= 1;
    other
}

#[test]
fn a_debug_file_is_found_wherever_tools_put_it() {
    let found = (Some("hidden_local(int)".to_owned()), None);
    let id = ElfImage::parse(STRIPPED).expect("a library").build_id().expect("an id").to_vec();
    let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let (first, rest) = id.split_at(2);
    for name in [
        format!("symbols/.build-id/{first}/{rest}.debug"),
        format!("symbols/{first}/{rest}.debug"),
        format!("symbols/_.debug/elf-buildid-sym-{id}/_.debug"),
        "symbols/native.debug".to_owned(),
        "symbols/native.so.dbg".to_owned(),
        "symbols/native.so.debug".to_owned(),
    ] {
        let folder = library_beside(&[(&name, DEBUG)]);
        assert_eq!(hidden_name(&folder, &["none", "symbols"]), found, "{name}");
        assert_eq!(hidden_name(&folder, &[]), (None, None), "{name} is not beside the library");
    }
    for name in ["lib/native.debug", "lib/native.so.dbg", "lib/native.so.debug", "lib/.debug/native.debug"] {
        assert_eq!(hidden_name(&library_beside(&[(name, DEBUG)]), &[]), found, "{name}");
    }
}

#[test]
fn a_debug_file_of_another_build_is_not_used_and_reported_unless_the_right_one_is_elsewhere() {
    let other = of_another_build();
    let folder = library_beside(&[("symbols/native.so.dbg", &other)]);
    let shown = folder.path().join("symbols/native.so.dbg").display().to_string();
    let note = Some(format!("the debug file {shown} is of another build, and was not used"));
    assert_eq!(hidden_name(&folder, &["symbols"]), (None, note));
    assert_eq!(hidden_name(&library_beside(&[("lib/native.debug", &other)]), &[]).0, None);
    let both = library_beside(&[("symbols/native.debug", &other), ("lib/native.debug", DEBUG)]);
    assert_eq!(hidden_name(&both, &["symbols"]), (Some("hidden_local(int)".to_owned()), None));
}

#[test]
fn a_hostile_debug_file_costs_no_more_than_any_other_file_and_waits_for_nobody() {
    let damaged = &DEBUG[..DEBUG.len() / 2];
    let folder = library_beside(&[("lib/native.so.dbg", damaged), ("symbols/native.debug", damaged)]);
    let sparse = File::create(folder.path().join("lib/native.debug")).expect("a file");
    sparse.set_len(LARGEST_FILE + 1).expect("room for nothing");
    // One without the first bytes of such a file is not read at all.
    sparse.write_all_at(b"\x7fELF", 0).expect("room for four bytes");
    let nowhere = folder.path().join("symbols/native.so.dbg");
    std::os::unix::fs::symlink("native.so.dbg", &nowhere).expect("a link to itself");
    let pipe = folder.path().join("symbols/native.so.debug");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).expect("a pipe");
    let (name, note) = hidden_name(&folder, &["symbols", "lib"]);
    assert_eq!(name, None);
    assert!(note.is_some_and(|note| note.contains("native.so.dbg may not be opened")));
    let mut files = Files::of_ourselves();
    let line = format!("1000-9000 r-xp 00000000 08:01 7   {}/lib/native.so\n", folder.path().display());
    assert!(files.native(&parse_maps(line.as_bytes()).remove(0)).is_some());
    assert_eq!(files.budget.unread.get(), 1, "the sparse one");
    let used = (STRIPPED.len() + damaged.len()) as u64;
    assert_eq!(files.budget.left.get(), MOST_BYTES - used);
}

#[test]
fn a_pdb_is_found_in_a_directory_with_symbols_by_its_id_else_it_is_known_why_not() {
    let dll: &[u8] = include_bytes!("../../../../symbols/fixtures/toplevel.dll");
    let pdb: &[u8] = include_bytes!("../../../../symbols/fixtures/toplevel.pdb");
    let other: &[u8] = include_bytes!("../../../../symbols/fixtures/names.pdb");
    let id = ManagedImage::parse(dll).expect("a module").code_view().expect("a PDB").guid.to_string();
    let in_store = format!("symbols/toplevel.pdb/{}FFFFFFFF/toplevel.pdb", id.replace('-', ""));
    let why_none = |extra: &[(&str, &[u8])]| {
        let folder = library_beside(&[&[("app/toplevel.dll", dll)], extra].concat());
        let mut files = Files::of_ourselves().with_symbols(vec![folder.path().join("symbols")]);
        let path = folder.path().join("app/toplevel.dll").into_os_string().into();
        let image = files.managed(&path, None).expect("a module");
        let without_lines = files.without_lines();
        assert_eq!(image.pdb().is_some(), without_lines.is_empty());
        without_lines.first().map(|(assembly, why)| {
            assert_eq!(assembly, "toplevel.dll");
            *why
        })
    };
    assert_eq!(why_none(&[]), Some(NoSymbols::Missing));
    assert_eq!(why_none(&[(&in_store, pdb)]), None);
    assert_eq!(why_none(&[("symbols/toplevel.pdb", pdb)]), None);
    assert_eq!(why_none(&[("symbols/toplevel.pdb", other)]), Some(NoSymbols::OtherBuild));
    assert_eq!(why_none(&[("symbols/toplevel.pdb", other), ("app/toplevel.pdb", pdb)]), None);
    let beside = |bytes: &[u8]| why_none(&[("app/toplevel.pdb", bytes)]);
    assert_eq!(beside(&[]), Some(NoSymbols::Damaged), "empty");
    assert_eq!(beside(&pdb[..pdb.len() / 2]), Some(NoSymbols::Damaged), "truncated");
    assert_eq!(beside(b"Microsoft C/C++ MSF 7.00\r\n"), Some(NoSymbols::NotPortable));
    let folder = library_beside(&[("app/toplevel.dll", dll), ("app/toplevel.pdb", pdb)]);
    let mut files = Files::of_ourselves();
    files.budget.left.set(dll.len() as u64);
    files.managed(&folder.path().join("app/toplevel.dll").into_os_string().into(), None).expect("a module");
    assert_eq!(files.without_lines(), [("toplevel.dll".to_owned(), NoSymbols::TooLarge)]);
}
