//! The streams in which the agent describes the heap of the target.
//!
//! # Purpose
//! - The stream of a heap snapshot: the forked copy describes its heap object by object. The agent writes it, [`HeapDecoder`] reads it.
//! - [`statics`]: questions about static fields, and the answers after that stream.
//! - [`watch`]: what heap tracking reports about each GC.
//!
//! # Design constraints
//! Depends only on `remora-wire`, for [`Foreign`] data. Writers neither allocate nor lock, because they run in a forked copy and in callbacks. Every decoder accepts hostile
//! bytes: it returns [`Malformed`], never panics, and bounds its allocations.
//!
//! # Supported
//! The stream of a snapshot is bytes, carried in chunks by their own ring. Numbers are LEB128. Each record begins with a number. From
//! [`FIRST_CLASS`] on the record is an object: its class number is that number minus [`FIRST_CLASS`]. A lower number is the kind of the
//! record:
//! ```text
//! RANGE   kind of the range, address, length
//! CLASS   the class with the next number: its id, then
//!           0 and an HRESULT; or
//!           1, ModuleID, token, ClassID of the parent, count and ClassIDs of the type arguments; or
//!           2, ClassID of the element, CorElementType of the element, rank
//!         in BESIDE pieces also the layout of an earlier class: its number, then
//!           3, bytes of an object as the runtime reports them, number of declared fields, how many of them follow here, token and
//!           offset of each; a class with many fields has several of these
//! GAP     bytes without an object
//! BROKEN  the address from which on a range cannot be walked
//! END     number of objects in all
//! ROOT    a root outside the heap: its kind, the object's address, and a detail of that kind or 0
//! CONTENT of the last object, if requested: its bytes, bytes that follow, those bytes; for a string its UTF-16 characters
//! VALUES  of the last object, if requested and not a string: bytes after its class, bytes that follow, those bytes
//! FORM    of a class by its number, from here on: the size of its objects, or 0 if each object states its own; how many
//!         reference slots each object has
//! LENGTHY the next object is written as if its class had no form: its class number, then the rest
//! object  size in bytes; each reference as the zigzag of its distance in words from the object, plus 1; 0 after the last one
//! object  of a class with a form: its size, unless the form states it; for each slot the reference, or 0 for none
//! ```
//! Most objects belong to a few classes with uniform objects. A form reduces them to two thirds of the bytes, and half of the work.
//!
//! The reader needs classes and the end at once. So the copy repeats them outside the stream, in pieces marked by [`BESIDE`], and the
//! reader can store the incoming stream unread. Layouts are sent only there: the reader resolves them while the process exists, and stores
//! the result.
//!
//! The reader asks for the contents of static fields, and gets the answers after the end of the stream: [`statics`].
//!
//! Objects follow each other, each at a multiple of eight bytes: only ranges have an address.
//!
//! # Rejected
//! Versions: `.remora-heap` files store the stream, so their version (`crates/host/heap-file`) stands for it too.
#![forbid(unsafe_code)]

mod decoder;
mod number;
mod piece;
mod reader;

pub mod statics;
pub mod watch;

pub use decoder::{ClassFacts, HeapDecoder, HeapVisitor, Layout};
pub use number::{BEYOND_SHORT, LONGEST_NUMBER, distance, short_number, write_number, written};
pub use piece::HeapPiece;
pub use reader::Malformed;
pub use remora_wire::Foreign;

/// Record kind.
pub const END: u64 = 0;
/// Record kind.
pub const RANGE: u64 = 1;
/// Record kind.
pub const CLASS: u64 = 2;
/// Record kind.
pub const GAP: u64 = 3;
/// Record kind.
pub const BROKEN: u64 = 4;
/// Record kind.
pub const CONTENT: u64 = 5;
/// Record kind.
pub const ROOT: u64 = 6;
/// Record kind.
pub const VALUES: u64 = 7;
/// Record kind.
pub const FORM: u64 = 8;
/// Record kind.
pub const LENGTHY: u64 = 9;
/// The first number that means an object.
pub const FIRST_CLASS: u64 = 16;

/// Reference slots of a form, at most.
pub const MOST_PLACES: usize = 16;

/// Kind of a class without a description by the runtime.
pub const UNKNOWN_CLASS: u64 = 0;
/// Kind of a class or value type.
pub const PLAIN_CLASS: u64 = 1;
/// Kind of an array.
pub const ARRAY_CLASS: u64 = 2;
/// Kind of a CLASS record with the layout of an earlier class.
pub const LAYOUT: u64 = 3;

/// Kind of a root: a local variable or parameter of a running method; the detail is its FunctionID.
pub const STACK_ROOT: u64 = 1;
/// Kind of a root: a strong handle; the detail is its HandleID.
pub const HANDLE_ROOT: u64 = 2;
/// Kind of a root: the finalizer queue.
pub const FINALIZER_ROOT: u64 = 4;
/// Kind of a root: a pinning handle or local variable; the detail is the same as without pinning.
pub const PINNED_ROOT: u64 = 5;
/// Kind of a root: a dependent handle whose other object is alive; the detail is that object's address.
pub const DEPENDENT_ROOT: u64 = 6;
/// Kind of any other root.
pub const OTHER_ROOT: u64 = 7;

/// Kind of a range that is never collected. The other kinds are generations.
pub const FROZEN: u64 = 5;

/// Kind of a range whose generation the runtime did not report.
pub const UNKNOWN_GENERATION: u64 = 6;

/// Flag in the length word of a piece: it is not part of the stream, but repeats CLASS and END records of it.
pub const BESIDE: u64 = 1 << 63;

/// Flag in the same word: the piece answers questions about static fields ([`statics`]), after the end of the stream.
pub const ANSWERS: u64 = 1 << 62;

/// Bytes of a string's content, at most.
pub const MOST_CONTENT: u64 = 8 << 10;

/// Bytes of another object's content, at most.
pub const MOST_VALUES: u64 = 4 << 10;

/// Fields of a class in one record, at most.
pub const LAYOUT_FIELDS: usize = 30;

/// Objects begin at multiples of this.
pub const WORD: u64 = 8;
