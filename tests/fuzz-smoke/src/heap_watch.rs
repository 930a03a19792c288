//! A hostile watch stream: pieces and snapshots in any order.

use remora_heap_stream::watch::{
    ALLOCATED, BEGINS, BORN, BOUNDS, CLASS, ENDS, MOVED, PieceWriter, SURVIVED, WatchPiece,
};
use remora_heap_stream::{CLASS as CLASS_RECORD, END, FIRST_CLASS, PLAIN_CLASS, RANGE, written};
use remora_heap_tracking::Watch;

/// The kind of a frame, in the upper two bits of its first byte. The rest of that byte and the next one are its length.
const PIECE: u8 = 0;
const STREAM: u8 = 1;
const SNAPSHOT: u8 = 2;

/// The bytes are frames. Whatever they claim, the counts must stay consistent.
pub(crate) fn heap_watch(bytes: &[u8]) -> bool {
    let (mut watch, mut rest, mut understood) = (Watch::default(), bytes, true);
    while let Some(([first, second], behind)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_be_bytes([first & 0x3f, *second]));
        let (frame, left) = behind.split_at(length.min(behind.len()));
        rest = left;
        match first >> 6 {
            PIECE => understood &= watch.piece(frame.into()).is_ok(),
            STREAM => watch.stream(frame.into()),
            _ => {
                understood &= watch.snapshot().is_some();
                watch.go_on();
            }
        }
    }
    let known = watch.cache().map_or(0, remora_heap_tracking::ObjectCache::count);
    assert_eq!(known, watch.cache().map_or(0, |cache| cache.iter().count() as u64));
    let classes = watch.classes().all().len();
    let account = watch.account();
    assert!(account.tallies().len() <= classes.max(1), "a class that nobody has told of");
    let there: u64 = account.tallies().iter().map(|tally| tally.objects).sum();
    understood && there == known
}

fn frame(kind: u8, bytes: &[u8]) -> Vec<u8> {
    let [high, low] = (bytes.len() as u16).to_be_bytes();
    [&[kind << 6 | high & 0x3f, low], bytes].concat()
}

fn piece(kind: u64, collection: u64, numbers: &[u64]) -> PieceWriter {
    let mut piece = PieceWriter::new(kind, collection);
    numbers.iter().for_each(|number| piece.number(*number));
    piece
}

fn stream() -> Vec<u8> {
    let numbers = [CLASS_RECORD, 0x70, PLAIN_CLASS, 1, 2, 0, 0, RANGE, 2, 0x2000, 96, FIRST_CLASS, 24, 0, END, 1];
    written(&numbers)
}

/// A snapshot, a GC with a new, a moved and a dead object, and another snapshot.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut bounds = PieceWriter::new(BOUNDS, 2);
    bounds.bounds(0, 0x1000, 0x1000);
    let mut moved = PieceWriter::new(MOVED, 2);
    moved.range(0x1000, 0x3000, 24);
    let mut stays = PieceWriter::new(SURVIVED, 2);
    stays.range(0x1100, 0x1100, 24);
    let mut born = PieceWriter::new(BORN, 2);
    born.born_at(0x3000);
    born.born(0, 24, 24);
    born.born_at(0x1100);
    born.born(0, 22, 24);
    let first = [piece(BEGINS, 1, &[1, 2, 1]), piece(ENDS, 1, &[2, 0, 1, 0])];
    let second = [
        piece(BEGINS, 2, &[3, 0, 0]),
        bounds,
        piece(CLASS, 0, &[2, 0x71, PLAIN_CLASS, 1, 3, 0, 0]),
        piece(ALLOCATED, 2, &[0, 4]),
        moved,
        stays,
        born,
        piece(ENDS, 2, &[9, 0, 0, 1]),
    ];
    for one in first.iter().chain(&second) {
        assert!(WatchPiece::decode(one.bytes().into()).is_ok(), "an own piece");
    }
    let pieces = |all: &[PieceWriter]| all.iter().flat_map(|one| frame(PIECE, one.bytes())).collect::<Vec<u8>>();
    let picture = [frame(STREAM, &stream()), frame(SNAPSHOT, &[])].concat();
    let whole = [pieces(&first), picture.clone(), pieces(&second)].concat();
    // The snapshot arrives after the GC that follows it.
    let late = [pieces(&first), pieces(&second), picture].concat();
    vec![whole, late]
}
