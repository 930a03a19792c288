//! A hostile index for `remora heap view`.

/// Number of nodes queried in an index.
const ASKED: u32 = 1000;

/// The bytes are an index without its checksums: an attacker computes valid ones.
pub(crate) fn heap_index(bytes: &[u8]) -> bool {
    let (sealed, key) = sealed(bytes);
    let Ok(index) = remora_heap_view::Index::open(file_of(&sealed), key) else { return false };
    let mut understood = true;
    for id in (0..ASKED).filter_map(|number| index.id(number)).chain([index.all()]) {
        let asked = index.record(id).and_then(|record| {
            let all = [record.children, record.references, record.referrers];
            all.into_iter().try_for_each(|list| index.part(list, 0..list.length).map(drop))?;
            let left = remora_heap::Allowance::new(1 << 20);
            if let Some(fields) = index.fields(&record)? {
                index.part(record.references, 0..2)?.into_iter().for_each(|target| _ = fields.to(target, &left));
            }
            index.object_before(record.address).map(drop)
        });
        understood &= asked.is_ok();
    }
    let objects = index.types().iter().map(|known| index.of_type(known).and_then(|list| index.part(list, 0..500)));
    understood & objects.fold(true, |understood, asked| understood & asked.is_ok())
}

/// An index with matching checksums, and its key. Layout: `crates/host/heap-view/src/index/mod.rs`.
fn sealed(bytes: &[u8]) -> (Vec<u8>, remora_heap_view::Key) {
    let (fields, data) = bytes.split_at(bytes.len().min(INDEX_FIELDS));
    let mut sealed = fields.to_vec();
    sealed.resize(INDEX_FIELDS, 0);
    sealed.extend(crc32fast::hash(&sealed).to_le_bytes());
    sealed.resize(INDEX_HEADER, 0);
    let number = |at: usize| sealed[at..at + 8].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
    let key = remora_heap_view::Key { length: number(8), digest: number(16) };
    sealed.extend_from_slice(data);
    let sums: Vec<u8> = data.chunks(INDEX_BLOCK).flat_map(|block| crc32fast::hash(block).to_le_bytes()).collect();
    sealed.extend_from_slice(&sums);
    sealed.extend(crc32fast::hash(&sums).to_le_bytes());
    (sealed, key)
}

/// Bytes before the header's checksum, bytes of the header, and bytes covered by each other checksum.
pub(crate) const INDEX_FIELDS: usize = 80;
pub(crate) const INDEX_HEADER: usize = 128;
pub(crate) const INDEX_BLOCK: usize = 16 << 10;

fn file_of(bytes: &[u8]) -> std::fs::File {
    use std::io::Write;
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(bytes).expect("it can be written to");
    file
}
