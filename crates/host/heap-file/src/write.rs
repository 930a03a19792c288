//! Writes a snapshot while it is taken.

use crate::layouts;
use crate::roots::MethodRow;
use crate::rows::{NAME, chunked};
use crate::state::{State, shorten};
use crate::statics;
use crate::{Error, FORMAT, kind};
use remora_chunks::Unpacked;
use remora_heap::StaticField;
use remora_heap::layout::Layouts;
use serde::{Deserialize, Serialize};
use std::io::Write;

/// Bytes of the stream in a chunk: a truncated file has lost no more.
const STREAM_CHUNK: usize = 1 << 20;
/// After an incompressible stream chunk, the next chunks stored without trying to compress them.
const NOT_JUDGED: u32 = 7;
/// Maximum events of a type, and the longest name of an event and of its delegate, bytes. They keep a row within [`crate::rows::ROW`].
const EVENTS: usize = 256;
const EVENT: usize = 1 << 10;

/// One type. Its position gives its class in the stream. Fields are only added; a missing field reads as empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeRow {
    /// See [`remora_heap::Type`].
    pub name: String,
    /// See [`remora_heap::Type`].
    pub assembly: String,
    /// See [`remora_heap::TypeFlags`].
    pub flags: u32,
    /// The events that the type declares: name, and definition of the delegate. See [`remora_heap::Event`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<(String, String)>,
}

impl TypeRow {
    /// With texts and events within their limits.
    pub(crate) fn shortened(&self) -> TypeRow {
        let mut row = TypeRow { events: self.events.iter().take(EVENTS).cloned().collect(), ..self.clone() };
        [&mut row.name, &mut row.assembly].into_iter().for_each(|text| shorten(text, NAME));
        let of_events = row.events.iter_mut().flat_map(|(name, delegate)| [name, delegate]);
        of_events.for_each(|text| shorten(text, EVENT));
        row
    }
}

/// Writes a snapshot. After an error it refuses further calls; the file up to then stays readable.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    stream: Vec<u8>,
    /// Chunks of the stream to store uncompressed before the next compression attempt.
    until_judged: u32,
    /// The unpacked size, which readers check against the file's length.
    unpacked: Unpacked,
    failed: bool,
}

impl<W: Write> Writer<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// [`Error::Write`], as for all methods.
    pub fn create(mut out: W) -> Result<Self, Error> {
        out.write_all(&FORMAT.header()).and_then(|()| out.flush()).map_err(Error::Write)?;
        Ok(Writer {
            out,
            stream: Vec::with_capacity(STREAM_CHUNK),
            until_judged: 0,
            unpacked: Unpacked::default(),
            failed: false,
        })
    }

    /// Writes the next bytes of the stream.
    ///
    /// # Errors
    /// See [`Writer::create`].
    pub fn stream(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(STREAM_CHUNK - self.stream.len()));
            self.stream.extend_from_slice(now);
            bytes = later;
            if self.stream.len() == STREAM_CHUNK {
                self.put_stream()?;
            }
        }
        Ok(())
    }

    /// Writes the names of the stream's next classes.
    ///
    /// # Errors
    /// See [`Writer::create`].
    pub fn types(&mut self, rows: &[TypeRow]) -> Result<(), Error> {
        chunked(rows.iter().map(TypeRow::shortened), |chunk| self.put(kind::TYPES, chunk))
    }

    /// Writes the names of methods whose locals hold objects.
    ///
    /// # Errors
    /// See [`Writer::create`].
    pub fn methods(&mut self, rows: &[MethodRow]) -> Result<(), Error> {
        let shortened = |row: &MethodRow| {
            let mut row = row.clone();
            shorten(&mut row.name, NAME);
            row
        };
        chunked(rows.iter().map(shortened), |chunk| self.put(kind::METHODS, chunk))
    }

    /// Writes object layouts.
    ///
    /// # Errors
    /// See [`Writer::create`].
    pub fn layouts(&mut self, layouts: &Layouts) -> Result<(), Error> {
        chunked(layouts::rows(layouts), |chunk| self.put(kind::LAYOUTS, chunk))
    }

    /// Writes static fields.
    ///
    /// # Errors
    /// See [`Writer::create`].
    pub fn statics(&mut self, fields: &[StaticField]) -> Result<(), Error> {
        chunked(statics::rows(fields), |chunk| self.put(kind::STATICS, chunk))
    }

    /// Writes the state and the end, and returns the output.
    ///
    /// # Errors
    /// See [`Writer::create`].
    pub fn finish(mut self, state: &State) -> Result<W, Error> {
        self.put_stream()?;
        self.put(kind::STATE, &state.json())?;
        self.put(kind::END, &[])?;
        self.out.flush().map_err(Error::Write)?;
        Ok(self.out)
    }

    /// The output.
    pub fn output(&self) -> &W {
        &self.out
    }

    fn put_stream(&mut self) -> Result<(), Error> {
        let stream = std::mem::take(&mut self.stream);
        let put = match self.until_judged.checked_sub(1) {
            Some(left) => {
                self.until_judged = left;
                self.written(|out, unpacked| FORMAT.write_as_it_is(out, kind::STREAM, &stream, unpacked))
            }
            None => {
                self.written(|out, unpacked| FORMAT.write(out, kind::STREAM, &stream, unpacked)).map(|is_as_it_is| {
                    self.until_judged = if is_as_it_is { NOT_JUDGED } else { 0 };
                })
            }
        };
        self.stream = stream;
        self.stream.clear();
        put
    }

    fn put(&mut self, kind: u32, plain: &[u8]) -> Result<(), Error> {
        self.written(|out, unpacked| FORMAT.write(out, kind, plain, unpacked)).map(|_| ())
    }

    fn written<T>(&mut self, write: impl FnOnce(&mut W, &mut Unpacked) -> std::io::Result<T>) -> Result<T, Error> {
        if self.failed {
            return Err(Error::Write(std::io::Error::other("an earlier write to this snapshot failed")));
        }
        let written = write(&mut self.out, &mut self.unpacked).map_err(Error::Write);
        self.failed = written.is_err();
        written
    }
}
