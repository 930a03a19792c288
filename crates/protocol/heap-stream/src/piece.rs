//! Where a piece of the heap's ring belongs.

use crate::Foreign;
use crate::reader::Malformed;
use crate::{ANSWERS, BESIDE};

/// A piece of the heap's ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeapPiece<'a> {
    /// The next bytes of the stream.
    Stream(Foreign<&'a [u8]>),
    /// Classes and the end of the stream, repeated for a reader that stores the stream unread.
    Beside(Foreign<&'a [u8]>),
    /// Answers about static fields.
    Answers(Foreign<&'a [u8]>),
}

impl HeapPiece<'_> {
    /// The piece with this head, the first word of its record, and the bytes of the other words.
    ///
    /// # Errors
    /// [`Malformed`]: the head announces more bytes than there are.
    pub fn of(head: Foreign<u64>, bytes: &Foreign<Vec<u8>>) -> Result<HeapPiece<'_>, Malformed> {
        let head = head.unchecked();
        let length = usize::try_from(head & !(BESIDE | ANSWERS)).map_err(|_| Malformed)?;
        let bytes = bytes.first(length).ok_or(Malformed)?;
        Ok(match (head & ANSWERS != 0, head & BESIDE != 0) {
            (true, _) => HeapPiece::Answers(bytes),
            (false, true) => HeapPiece::Beside(bytes),
            (false, false) => HeapPiece::Stream(bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_what_its_head_says_and_never_more_than_there_is() {
        let bytes = Foreign::from(vec![1, 2, 3, 0]);
        let of = |head| HeapPiece::of(Foreign::from(head), &bytes);
        let three = [1, 2, 3].as_slice().into();
        assert_eq!(of(3), Ok(HeapPiece::Stream(three)));
        assert_eq!(of(3 | BESIDE), Ok(HeapPiece::Beside(three)));
        assert_eq!(of(3 | ANSWERS), Ok(HeapPiece::Answers(three)));
        assert_eq!([of(5), of(1 << 61), of(5 | BESIDE | ANSWERS)], [Err(Malformed); 3]);
    }
}
