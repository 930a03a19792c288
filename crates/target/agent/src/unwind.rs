//! The collector's unwind tables in this process: mapped, checked, and published to the handlers.

use crate::published::Published;
use remora_connection::Mapping;
use remora_sampler::Session;
use remora_wire::unwind::{MAXIMUM_BYTES, is_sound};
use std::os::fd::{AsRawFd, OwnedFd};

/// Tables that a handler may still read.
pub type Tables = Published<Mapping>;

/// The table behind `descriptor`, not yet read: [`publish`] checks every word, so that handlers find its pages in memory.
///
/// # Errors
/// The system's error number; `EPERM` if it is not sealed.
pub fn mapped(descriptor: &OwnedFd) -> Result<Mapping, i32> {
    Mapping::read_only(descriptor.as_raw_fd(), MAXIMUM_BYTES as usize)
}

/// Publishes a table. If it is damaged, returns false and changes nothing.
pub fn publish(tables: &mut Tables, session: &Session, mapping: Mapping) -> bool {
    // SAFETY: `words` is used only in this function, while `mapping` lives. The memory is sealed against writes.
    let words: &[u64] = unsafe { mapping.plain_words() };
    let Some((&count, rest)) = words.split_first() else { return false };
    if count as usize != rest.len() || !is_sound(rest) {
        return false;
    }
    let pointer = words.as_ptr().cast_mut();
    // SAFETY: the first word is the number of words after it (checked above). The memory is sealed, and mapped as long as `mapping` lives.
    unsafe { tables.replace(session, &session.native, pointer, mapping) };
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::tests::session;
    use remora_ring::HEADER_WORDS;
    use remora_wire::unwind::{Module, Rule, encode, row};
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::FromRawFd;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn memory(words: &[u64], seals: i32) -> OwnedFd {
        // SAFETY: a C string that ends with a zero.
        let descriptor = unsafe { libc::memfd_create(c"table".as_ptr(), libc::MFD_ALLOW_SEALING) };
        // SAFETY: the kernel just returned this descriptor.
        let mut file = unsafe { File::from_raw_fd(descriptor) };
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        file.write_all(&bytes).expect("room");
        // SAFETY: adds seals to a descriptor of our own.
        assert_eq!(unsafe { libc::fcntl(descriptor, libc::F_ADD_SEALS, seals) }, 0);
        file.into()
    }

    #[test]
    fn a_sealed_table_is_published_and_no_other() {
        let words: Vec<AtomicU64> = (0..HEADER_WORDS + 64).map(|_| AtomicU64::new(0)).collect();
        let session = session(&words);
        let module = Module { start: 0x1000, end: 0x2000, base: 0, first: 0, count: 1, framed: false };
        let table = encode(&[module], &[row(0x1000, Rule::End)]);
        let sealed = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE;
        let mut tables = Tables::default();
        let mut publish = |words: &[u64], seals| {
            mapped(&memory(words, seals)).is_ok_and(|table| super::publish(&mut tables, &session, table))
        };
        assert!(!publish(&table, libc::F_SEAL_SHRINK), "it could be changed");
        assert!(!publish(&table[..table.len() - 1], sealed), "it is cut");
        assert!(!publish(&[], sealed));
        assert!(session.native.load(Ordering::SeqCst).is_null());
        assert!(publish(&table, sealed));
        // SAFETY: the last published table is alive, and begins with the number of words after it.
        assert_eq!(unsafe { *session.native.load(Ordering::SeqCst) } as usize, table.len() - 1);
    }
}
