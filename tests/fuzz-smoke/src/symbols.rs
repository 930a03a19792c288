//! Modules, symbols and names, read from files that a target names.

use remora_symbols::{
    Bundle, ElfImage, ManagedImage, PortablePdb, UnwindRules, demangle_native, demangle_raw, find_mapping, mapped_name,
    parse_maps, short_type_name,
};

/// Number of methods read in one module.
const MOST_METHODS: usize = 300;
/// Offsets tried in a method.
const LONGEST_METHOD: u32 = 128;
/// A name is one word; longer input would add nothing new.
const LONGEST_NAME: usize = 512;

pub(crate) fn image(bytes: &[u8]) -> bool {
    let Ok(mut image) = ManagedImage::parse(bytes) else { return false };
    let _ = (image.mvid(), image.module_name(), image.assembly_name(), image.pdb_paths(&"/a/b.dll".into()));
    if !matches!(image.use_embedded_pdb(), Ok(true)) {
        // Only the module that it belongs to takes it.
        let _ = image.use_pdb(crate::seeds::LOCKS_PDB);
    }
    image.find_locks(bytes);
    assert!(image.static_fields().map(|of_type| of_type.fields.len()).sum::<usize>() <= bytes.len());
    for token in image.method_tokens().take(MOST_METHODS) {
        let _ = image.method_name(token, &[], &[]).map(|name| name.to_string());
        look_up(image.pdb(), token);
        look_for_locks(&image, token);
    }
    for token in image.type_tokens().take(MOST_METHODS) {
        let _ = (image.declares_finalizer(token), image.declared_events(token).len());
        let fields = image.fields(token);
        assert!(fields.len() <= bytes.len());
        let _ = (image.nature(token), image.declared_layout(token));
        let _ = image.names_of(token).map(|(namespace, names)| image.forwarded(&namespace, &names.join(".")));
    }
    image.method_tokens().next().is_some()
}

/// The number of offsets at which a `lock` begins. Each of the first offsets is tried: methods of the fixtures are short.
fn look_for_locks(image: &ManagedImage, token: u32) -> usize {
    (0..LONGEST_METHOD).chain([u32::MAX]).filter(|offset| image.enters_lock(token, *offset)).count()
}

pub(crate) fn pdb(bytes: &[u8]) -> bool {
    let Ok(mut locks) = ManagedImage::parse(crate::seeds::LOCKS_DLL) else { panic!("the fixture is whole") };
    if locks.use_pdb(bytes).is_ok() {
        locks.find_locks(crate::seeds::LOCKS_DLL);
        let found: usize = locks.method_tokens().map(|token| look_for_locks(&locks, token)).sum();
        assert!(found > 0 || bytes != crate::seeds::LOCKS_PDB, "the fixture has locks");
        return true;
    }
    let Ok(image) = ManagedImage::parse(crate::seeds::NAMES_DLL) else { panic!("the fixture is whole") };
    let Some(expected) = image.code_view() else { panic!("the fixture names its PDB") };
    let Ok(pdb) = PortablePdb::parse(bytes, expected) else { return false };
    for token in image.method_tokens().take(MOST_METHODS) {
        look_up(Some(&pdb), token);
    }
    look_up(Some(&pdb), u32::MAX);
    true
}

fn look_up(pdb: Option<&PortablePdb>, token: u32) {
    if let Some(pdb) = pdb {
        let _ = (pdb.line(token, 7), pdb.first_line(token), pdb.kickoff_method(token));
    }
}

pub(crate) fn elf(bytes: &[u8]) -> bool {
    let Ok(mut image) = ElfImage::parse(bytes) else { return false };
    for address in (0..0x4000).step_by(64).chain([u64::MAX]) {
        let _ = (image.function(address), image.symbol(address).map(str::len));
        let _ = (image.offset_of_address(address), image.address_of_offset(address));
    }
    let _ = (
        image.debug_file_paths(&"/a/b".into()),
        image.debug_file_names(&"/a/b".into()),
        image.build_id().map(<[u8]>::len),
    );
    let _ = image.add_debug_file(bytes);
    if let Some(rules) = UnwindRules::parse(bytes) {
        assert!(rules.rows.is_sorted_by(|a, b| a >> 32 < b >> 32), "a search relies on it");
    }
    true
}

pub(crate) fn bundle(bytes: &[u8]) -> bool {
    let Ok(bundle) = Bundle::parse(bytes) else { return false };
    assert!(bundle.len() * 17 <= bytes.len(), "each file takes some bytes of the list");
    if let Some(file) = bundle.file("a.dll") {
        let unpacked = file.unpack(bytes.to_vec());
        assert!(
            unpacked.is_err() || unpacked.is_ok_and(|unpacked| unpacked.len() as u64 == file.size || unpacked == bytes)
        );
    }
    !bundle.is_empty()
}

pub(crate) fn maps(bytes: &[u8]) -> bool {
    let entries = parse_maps(bytes);
    assert!(entries.len() <= bytes.split(|byte| *byte == b'\n').count());
    for address in [0, 0x7f00_0000_1010, u64::MAX] {
        assert!(find_mapping(&entries, address).is_none_or(|entry| entry.contains(address)));
        let _ = mapped_name(address, &entries, |_| None);
    }
    !entries.is_empty()
}

pub(crate) fn names(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes.get(..LONGEST_NAME).unwrap_or(bytes));
    let (type_name, method_name) = text.split_once(' ').unwrap_or((&text, &text));
    let _ = demangle_raw(type_name, method_name).to_string();
    let _ = (demangle_native(&text), short_type_name(&text));
    true
}
