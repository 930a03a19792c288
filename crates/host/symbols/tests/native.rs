//! Names of native addresses: of a module with known symbols, and of this very process.
#![allow(clippy::unwrap_used, reason = "a test may stop")]

use remora_symbols::{
    ElfImage, NativeName, TargetPath, demangle_native, demangle_raw, find_mapping, mapped_name, parse_maps,
    short_type_name,
};
use std::os::unix::fs::FileExt;

const FULL: &[u8] = include_bytes!("../fixtures/native.so");
const STRIPPED: &[u8] = include_bytes!("../fixtures/native.stripped.so");
const DEBUG: &[u8] = include_bytes!("../fixtures/native.debug");

fn full() -> ElfImage {
    ElfImage::parse(FULL).unwrap()
}

#[test]
fn only_addresses_inside_a_symbol_have_its_name() {
    let image = full();
    for (address, name) in [
        (0x10af, Some("_Z18main_of_everythingi@plt")),
        (0x10b0, Some("sized_outer")),
        (0x10bf, Some("sized_outer")),
        (0x10c0, Some("sized_inner")),
        (0x10c7, Some("sized_inner")),
        (0x10c8, Some("sized_outer")),
        (0x10cf, Some("sized_outer")),
        (0x10d0, None),
        (0x10df, None),
        (0x10e0, None),
        (0x10ef, None),
        (0x10f0, Some("_ZNK6shapes6Circle4areaEd")),
        (0x1100, Some("_ZNK6shapes6Circle4areaEd")),
        (0x1101, Some("_ZL12hidden_locali")),
        (0x1136, Some("aliased")),
        (0x1000, None),
        (0x106f, Some("strlen@plt")),
        (0, None),
        (u64::MAX, None),
    ] {
        // The order of the stubs is the linker's; only that each has one target's name is asserted below.
        if address == 0x10af {
            assert!(image.symbol(address).unwrap().ends_with("@plt"));
        } else {
            assert_eq!(image.symbol(address), name, "{address:x}");
        }
    }
}

#[test]
fn jump_stubs_are_named_by_their_targets() {
    let image = full();
    let mut names: Vec<_> = (0x1060..0x10b0).step_by(16).map(|address| image.function(address).unwrap().0).collect();
    names.sort();
    assert_eq!(
        names,
        [
            "memmove@plt",
            "mycrate::foo@plt",
            "plain_function@plt",
            "shapes::Circle::area(double) const@plt",
            "strlen@plt"
        ]
    );
}

#[test]
fn functions_of_every_language_are_readable() {
    let image = full();
    for (address, name) in [
        (0x10f5, "shapes::Circle::area(double) const"),
        (0x1101, "hidden_local(int)"),
        (0x1110, "plain_function"),
        (0x113d, "mycrate::foo"),
        (0x1150, "main_of_everything(int)"),
    ] {
        assert_eq!(image.function(address).unwrap().0, name, "{address:x}");
    }
    assert_eq!(image.function(0x1110).unwrap().1, 0x110f);
    for (symbol, name) in [
        ("memcpy@@GLIBC_2.14", "memcpy"),
        ("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt"),
        ("_Z", "_Z"),
        ("_ZNothing", "_ZNothing"),
        ("", ""),
    ] {
        assert_eq!(demangle_native(symbol), name);
    }
    let endless = format!("_Z{}", "1a".repeat(5000));
    assert!(demangle_native(&endless).ends_with('…'));
}

#[test]
fn a_stripped_module_gets_its_names_back_from_its_debug_file() {
    let mut image = ElfImage::parse(STRIPPED).unwrap();
    assert_eq!(image.symbol(0x1101), None);
    assert_eq!(image.symbol(0x110f), Some("plain_function"));
    let id: String = image.build_id().unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        image.debug_file_paths(&"/opt/lib/native.so".into()),
        [
            TargetPath::from("/opt/lib/native.debug"),
            "/opt/lib/native.so.dbg".into(),
            "/opt/lib/native.so.debug".into(),
            "/opt/lib/.debug/native.debug".into(),
            "/opt/lib/.debug/native.so.dbg".into(),
            "/opt/lib/.debug/native.so.debug".into(),
            format!("/usr/lib/debug/.build-id/{}/{}.debug", &id[..2], &id[2..]).into(),
            "/usr/lib/debug/opt/lib/native.debug".into(),
        ]
    );
    let mut other = DEBUG.to_vec();
    let at = other.windows(20).position(|window| window == image.build_id().unwrap()).unwrap();
    other[at] ^= 1;
    assert!(!image.add_debug_file(&other).unwrap());
    assert_eq!(image.symbol(0x1101), None);
    assert!(image.add_debug_file(DEBUG).unwrap());
    assert_eq!(image.symbol(0x1101), Some("_ZL12hidden_locali"));
}

#[test]
fn without_a_build_id_the_checksum_in_the_debug_link_decides() {
    let mut bytes = STRIPPED.to_vec();
    let id = ElfImage::parse(STRIPPED).unwrap().build_id().unwrap().to_vec();
    let at = bytes.windows(20).position(|window| window == id).unwrap();
    // The kind of the note: its heading ends with the kind and the name `GNU`.
    bytes[at - 8] = 1;
    let mut image = ElfImage::parse(&bytes).unwrap();
    assert_eq!(image.build_id(), None);
    let last = DEBUG.len() - 1;
    let mut other = DEBUG.to_vec();
    other[last] ^= 1;
    assert!(!image.add_debug_file(&other).unwrap());
    assert_eq!(image.symbol(0x1101), None);
    assert!(image.add_debug_file(DEBUG).unwrap());
    assert_eq!(image.symbol(0x1101), Some("_ZL12hidden_locali"));
}

#[test]
fn a_damaged_debug_file_adds_nothing_and_spoils_nothing() {
    for length in (0..DEBUG.len()).step_by(97) {
        let mut image = ElfImage::parse(STRIPPED).unwrap();
        // Cut in a table, it has fewer names or is refused. What the module has itself remains.
        let _ = image.add_debug_file(&DEBUG[..length]);
        assert_eq!(image.symbol(0x110f), Some("plain_function"), "{length}");
    }
}

#[test]
fn a_stripped_module_tells_where_its_functions_start() {
    let image = ElfImage::parse(STRIPPED).unwrap();
    for (address, bounds) in [
        (0x10ef, None),
        (0x10f0, Some((0x10f0, 0x11))),
        (0x1100, Some((0x10f0, 0x11))),
        (0x1101, Some((0x1101, 0xe))),
        (0x110e, Some((0x1101, 0xe))),
        (0x110f, Some((0x110f, 0xd))),
        (0x117f, Some((0x1145, 0x3b))),
        (0x1180, None),
        // Assembly without unwind information.
        (0x10c0, None),
        (0, None),
        (u64::MAX, None),
    ] {
        assert_eq!(image.function_bounds(address), bounds, "{address:x}");
    }
    let full = full();
    for address in (0x1000..0x1200).filter(|&address| full.function_bounds(address).is_some()) {
        assert_eq!(image.function_bounds(address), full.function_bounds(address), "{address:x}");
    }
    // What a debug file keeps of the table is its heading alone.
    assert_eq!(ElfImage::parse(DEBUG).unwrap().function_bounds(0x1101), None);
}

/// Where `.eh_frame` lies in the fixture, and its length.
fn unwind_table(bytes: &[u8]) -> std::ops::Range<usize> {
    // The first entry: its length, no reference, version 1, augmentation `zR`.
    let start = bytes.windows(12).position(|window| window == b"\x14\0\0\0\0\0\0\0\x01zR\0").unwrap();
    start..start + 0xfc
}

#[test]
fn entries_of_no_code_and_damaged_tables_give_no_bounds() {
    let table = unwind_table(STRIPPED);
    let first = table.start + 0x18;
    assert_eq!(&STRIPPED[first..first + 8], b"\x10\0\0\0\x1c\0\0\0");
    let changed = |at: usize, bytes: &[u8]| {
        let mut file = STRIPPED.to_vec();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        ElfImage::parse(file).unwrap()
    };
    for length in [0u32, 0x91, 0x7fff_ffff] {
        // Empty, past the end of the code by one byte, and past everything.
        let image = changed(first + 12, &length.to_le_bytes());
        assert_eq!(image.function_bounds(0x10f0), None, "{length:x}");
        assert_eq!(image.function_bounds(0x1101), Some((0x1101, 0xe)), "{length:x}");
    }
    // As long as the code: what starts in it is not covered.
    let image = changed(first + 12, &0x90u32.to_le_bytes());
    assert_eq!(image.function_bounds(0x10f0), Some((0x10f0, 0x90)));
    assert_eq!(image.function_bounds(0x1101), Some((0x1101, 0xe)));
    // The data before the code, though the entry says it is a function.
    let image = changed(first + 8, &(0x200i32 - (0x2060 + 0x20)).to_le_bytes());
    assert_eq!((image.function_bounds(0x200), image.function_bounds(0x10f0)), (None, None));
    // A length that leads out of the table hides what comes after it.
    let image = changed(first + 0x14, &0x7fff_ffffu32.to_le_bytes());
    assert_eq!((image.function_bounds(0x10f0), image.function_bounds(0x1101)), (Some((0x10f0, 0x11)), None));
}

#[test]
fn all_samples_of_a_function_without_symbol_have_one_name() {
    let maps = parse_maps(MAPS.as_bytes());
    let image = ElfImage::parse(STRIPPED).unwrap();
    let name = |own: u64| mapped_name(0x7f00_0000_0000 + own, &maps, |_| Some(&image));
    for own in 0x1101..0x110f {
        let expected =
            NativeName { name: "native.so+0x1101".into(), module: Some("/lib/native.so".into()), is_function: false };
        assert_eq!(name(own), expected);
    }
    for (own, expected) in [
        (0x110f, "plain_function"),
        (0x10d0, "native.so+0x10d0"),
        (0x10d1, "native.so+0x10d1"),
        (0x1180, "native.so+0x1180"),
    ] {
        assert_eq!(name(own).name, expected, "{own:x}");
    }
}

#[test]
fn offsets_and_addresses_follow_the_segments() {
    let image = full();
    for (offset, address) in [(0, 0), (0x1101, 0x1101), (0x2eb8, 0x3eb8)] {
        assert_eq!(image.address_of_offset(offset), Some(address));
        assert_eq!(image.offset_of_address(address), Some(offset));
    }
    assert_eq!(image.address_of_offset(0x1fff), None);
    assert_eq!(image.offset_of_address(0x1fff), None);
    assert_eq!(image.address_of_offset(u64::MAX), None);
}

const MAPS: &str = "\
7f0000000000-7f0000001000 r--p 00000000 08:01 7 /lib/native.so
7f0000001000-7f0000002000 r-xp 00001000 08:01 7 /lib/native.so
7f0000010000-7f0000011000 r-xp 00000000 00:00 0
7f0000020000-7f0000021000 r-xp 00000000 00:01 8 /memfd:doublemapper (deleted)
7f0000040000-7f0000041000 r--p 00000000 08:01 9 /lib/gap.so
7f0000042000-7f0000043000 r-xp 00001000 08:01 9 /lib/gap.so
7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0 [vdso]
";

#[test]
fn addresses_of_a_process_are_named_through_its_mappings() {
    let maps = parse_maps(MAPS.as_bytes());
    let image = full();
    for (address, with_file, without_file) in [
        (0x7f00000010c0, "sized_inner", "native.so+0x10c0"),
        (0x7f00000010d0, "native.so+0x10d0", "native.so+0x10d0"),
        (0x7f0000001fff, "native.so+0x1fff", "native.so+0x1fff"),
        (0x7f0000010010, "[unknown]", "[unknown]"),
        (0x7f0000020010, "[unknown]", "[unknown]"),
        (0x7f0000030000, "[unknown]", "[unknown]"),
        (0, "[unknown]", "[unknown]"),
    ] {
        assert_eq!(mapped_name(address, &maps, |_| Some(&image)).name, with_file, "{address:x}");
        assert_eq!(mapped_name(address, &maps, |_| None).name, without_file, "{address:x}");
    }
    // Without its file, a module's offsets count from where its first mapping lies: segments may have gaps in memory only.
    assert_eq!(mapped_name(0x7f0000042010, &maps, |_| None).name, "gap.so+0x2010");
    let vdso = mapped_name(0x7ffd00000010, &maps, |_| None);
    let expected = NativeName { name: "[vdso]+0x10".into(), module: Some("[vdso]".into()), is_function: false };
    assert_eq!(vdso, expected);
}

#[inline(never)]
fn a_function_of_this_test() -> u32 {
    std::hint::black_box(std::process::id())
}

#[test]
fn this_process_is_named_through_its_own_files() {
    let maps = parse_maps(&std::fs::read("/proc/self/maps").unwrap());
    assert_ne!(a_function_of_this_test(), 0);
    let address = a_function_of_this_test as *const () as u64;
    let file = ElfImage::parse(std::fs::read("/proc/self/exe").unwrap()).unwrap();
    let name = mapped_name(address, &maps, |_| Some(&file));
    assert_eq!(name.name, "native::a_function_of_this_test");
    assert!(name.is_function && name.module.is_some());
}

#[test]
fn the_vdso_is_named_from_its_bytes() {
    let maps = parse_maps(&std::fs::read("/proc/self/maps").unwrap());
    let entry = maps.iter().find(|entry| entry.path == "[vdso]").unwrap();
    let mut bytes = vec![0; (entry.end - entry.start) as usize];
    std::fs::File::open("/proc/self/mem").unwrap().read_exact_at(&mut bytes, entry.start).unwrap();
    let image = ElfImage::parse(&bytes).unwrap();
    let names: Vec<_> = (entry.start..entry.end)
        .map(|address| mapped_name(address, &maps, |_| Some(&image)))
        .filter(|name| name.is_function)
        .map(|name| name.name)
        .collect();
    assert!(names.iter().any(|name| name.contains("clock_gettime")), "{names:?}");
    assert_eq!(find_mapping(&maps, entry.start).unwrap(), entry);
}

#[test]
fn names_read_in_the_target_are_made_readable() {
    for (type_name, method, expected) in [
        ("System.String", "Concat", "System.String.Concat"),
        ("App.Outer+Inner`1", "Go", "App.Outer.Inner.Go"),
        ("App.Program+<>c", "<Main>b__0_1", "App.Program.Main.lambda#1"),
        ("App.Program/<>c__DisplayClass3_0", "<Main>b__1", "App.Program.Main.lambda#1"),
        ("App.Program+<Run>d__5", "MoveNext", "App.Program.Run"),
        ("App.Program+<Run>d__5", "SetStateMachine", "App.Program.Run.SetStateMachine"),
        ("App.Program+<System-IFoo-Run>d__5", "MoveNext", "App.Program.IFoo.Run"),
        ("App.Program+<>c+<<Main>b__0_1>d", "MoveNext", "App.Program.Main.lambda#1"),
        ("App.Program", "<Main>g__Local|0_1", "App.Program.Main.Local"),
        ("App.Program+<>c", ".cctor", "App.Program.<>c..cctor"),
        ("App.Shape", "get_Size", "App.Shape.Size.get"),
        ("App.Shape", "op_Addition", "App.Shape.operator +"),
        ("Program", "<Main>$", "Program.Main"),
        ("System.Collections.Generic.List`1[System.__Canon]", "Add", "System.Collections.Generic.List<T>.Add"),
        (
            "System.Collections.Generic.Dictionary`2[System.__Canon,System.Int32]",
            "Add",
            "System.Collections.Generic.Dictionary<T1, int>.Add",
        ),
        ("A.B`1[[System.Int32, System.Private.CoreLib]]", "C", "A.B<int>.C"),
        ("A.B`1[System.Collections.Generic.List`1[System.Int32]]", "C", "A.B<List<int>>.C"),
        ("A.B`1[System.Int32[]]", "C", "A.B<int[]>.C"),
        ("", "lambda_method1", "lambda_method1"),
        ("dynamicClass", "IL_STUB_PInvoke", "dynamicClass.IL_STUB_PInvoke"),
        ("", "", ""),
        ("[", "]", "[.]"),
        ("+", "<", "<"),
    ] {
        assert_eq!(demangle_raw(type_name, method).to_string(), expected, "{type_name} {method}");
    }
}

#[test]
fn types_read_in_the_target_are_made_readable() {
    for (type_name, expected) in [
        ("System.Int32", "int"),
        ("App.Order", "Order"),
        ("App.Outer+Inner`1[System.String]", "Outer.Inner<string>"),
        ("System.Nullable`1[System.Int32]", "int?"),
        ("System.ValueTuple`2[System.Int32,App.Order[,]][]", "(int, Order[,])[]"),
        ("", ""),
    ] {
        assert_eq!(short_type_name(type_name), expected, "{type_name}");
    }
}

/// Each parameter is a template of twelve times the one before: 363 bytes stand for twelve to the ninth names.
#[test]
fn a_symbol_that_stands_for_gigabytes_is_shown_as_far_as_a_name_goes() {
    let first = format!("_Z1f1PI1A{}E", "S0_".repeat(11));
    let rest = (1..9).map(|level| format!("S_I{}E", format!("S{level}_").repeat(12)));
    let name = demangle_native(&(first + &rest.collect::<String>()));
    assert!(name.starts_with("f(P<A, A") && name.ends_with('…'), "{name:.80}");
}

/// An ELF file with these offsets of names, one for each symbol, in a section with these strings.
fn with_names(offsets: &[u32], strings: &[u8]) -> Vec<u8> {
    let (symbols_at, symbols_bytes) = (64, 24 * offsets.len());
    let strings_at = symbols_at + symbols_bytes;
    let sections_at = (strings_at + strings.len()) as u64;
    let mut bytes = [&b"\x7fELF\x02\x01\x01"[..], &[0; 57]].concat();
    bytes[16..20].copy_from_slice(&[3, 0, 62, 0]);
    bytes[20] = 1;
    bytes[40..48].copy_from_slice(&sections_at.to_le_bytes());
    bytes[52..64].copy_from_slice(&[64, 0, 56, 0, 0, 0, 64, 0, 3, 0, 2, 0]);
    for (index, offset) in offsets.iter().enumerate() {
        bytes.extend(offset.to_le_bytes());
        bytes.extend([0x12, 0, 1, 0]);
        bytes.extend([0x1000 + index as u64, 1].map(u64::to_le_bytes).concat());
    }
    bytes.extend(strings);
    for (kind, at, size, link, entry) in
        [(0_u32, 0, 0, 0_u32, 0_u64), (2, symbols_at, symbols_bytes, 2, 24), (3, strings_at, strings.len(), 0, 0)]
    {
        let mut header = [0; 64];
        header[4..8].copy_from_slice(&kind.to_le_bytes());
        header[24..32].copy_from_slice(&(at as u64).to_le_bytes());
        header[32..40].copy_from_slice(&(size as u64).to_le_bytes());
        header[40..44].copy_from_slice(&link.to_le_bytes());
        header[56..].copy_from_slice(&entry.to_le_bytes());
        bytes.extend(header);
    }
    bytes
}

/// Each symbol's name was searched for its end, up to the end of the strings: 59 hours for a file of 512 MiB.
#[test]
fn regression_names_without_an_end_were_searched_for_it_again_for_each_symbol() {
    let strings = [&b"\0last\0"[..], &vec![b'a'; 1 << 20], &[0]].concat();
    let last_of = |endless: usize| {
        let offsets: Vec<u32> = [vec![6; endless], vec![1]].concat();
        let image = ElfImage::parse(with_names(&offsets, &strings)).expect("an ELF file");
        image.symbol(0x1000 + endless as u64).map(str::to_owned)
    };
    assert_eq!(last_of(10).as_deref(), Some("last"));
    // All of them together may take some times the file's length.
    assert_eq!(last_of(100), None);
}

#[test]
fn a_file_with_more_sections_than_a_linker_makes_is_refused() {
    let mut bytes = with_names(&[], b"\0");
    bytes.extend(vec![0; 64 * 5_000]);
    assert!(ElfImage::parse(&bytes).is_ok());
    bytes[60..62].copy_from_slice(&5_000_u16.to_le_bytes());
    let refused = ElfImage::parse(&bytes).expect_err("too many").to_string();
    assert!(refused.contains("5000 sections"), "{refused}");
}
