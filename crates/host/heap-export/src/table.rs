//! Parquet tables, for SQL queries of a heap: objects, references, types and roots, joined by address and by type number.
//!
//! Rows are in graph order and written in groups, so at most one group is in memory. Numbers are delta-encoded, which costs nothing to read
//! and makes addresses small; there is no further compression.

use parquet::basic::{Compression, Encoding};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::Result as Packed;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use remora_heap::{DominatorTree, HeapGraph, ObjectIx};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// Rows in a group.
const GROUP: usize = 1 << 18;

/// A table of a heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Table {
    /// Every object: `address`, `type`, `bytes`, and `retained` bytes.
    Objects,
    /// Every reference: the addresses `from` and `to`.
    References,
    /// Every type: its number `type`, `name` and `assembly`.
    Types,
    /// Every root: the `address` of its object, and its `kind`.
    Roots,
}

impl Table {
    /// Every table.
    pub const ALL: [Table; 4] = [Table::Objects, Table::References, Table::Types, Table::Roots];

    /// Its name, also in file names.
    pub fn name(self) -> &'static str {
        match self {
            Table::Objects => "objects",
            Table::References => "references",
            Table::Types => "types",
            Table::Roots => "roots",
        }
    }

    /// Writes the table.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(self, graph: &HeapGraph, tree: &DominatorTree, out: &mut dyn Write) -> io::Result<()> {
        let mut file = File::begin(&self.schema(), out)?;
        match self {
            Table::Objects => {
                for objects in Groups(graph.objects()) {
                    file.group(|group| put_objects(group, graph, tree, &objects))?;
                }
            }
            Table::References => {
                let each = |from: ObjectIx| graph.references(from).map(move |to| (from, to));
                for references in Groups(graph.objects().flat_map(each)) {
                    file.group(|group| {
                        let address = |object| graph.address(object) as i64;
                        put::<Int64Type>(group, references.iter().map(|(from, _)| address(*from)))?;
                        put::<Int64Type>(group, references.iter().map(|(_, to)| address(*to)))
                    })?;
                }
            }
            Table::Types => file.group(|group| {
                put::<Int32Type>(group, (0..graph.types().len()).map(|number| number as i32))?;
                put::<ByteArrayType>(group, graph.types().iter().map(|known| text(&known.name)))?;
                put::<ByteArrayType>(group, graph.types().iter().map(|known| text(&known.assembly)))
            })?,
            Table::Roots => {
                for roots in Groups(graph.roots().iter()) {
                    file.group(|group| {
                        put::<Int64Type>(group, roots.iter().map(|root| graph.address(root.object) as i64))?;
                        put::<ByteArrayType>(group, roots.iter().map(|root| text(root.kind.name())))
                    })?;
                }
            }
        }
        file.end()
    }

    /// Its name, and its columns with their types.
    fn schema(self) -> String {
        const LONG: (&str, &str) = ("int64", "INTEGER(64, false)");
        const INTEGER: (&str, &str) = ("int32", "INTEGER(32, false)");
        const TEXT: (&str, &str) = ("binary", "STRING");
        let columns: &[(&str, (&str, &str))] = match self {
            Table::Objects => &[("address", LONG), ("type", INTEGER), ("bytes", LONG), ("retained", LONG)],
            Table::References => &[("from", LONG), ("to", LONG)],
            Table::Types => &[("type", INTEGER), ("name", TEXT), ("assembly", TEXT)],
            Table::Roots => &[("address", LONG), ("kind", TEXT)],
        };
        let column =
            |(name, (physical, logical)): &(&str, (&str, &str))| format!("required {physical} {name} ({logical});");
        format!("message {} {{ {} }}", self.name(), columns.iter().map(column).collect::<String>())
    }
}

fn put_objects(group: &mut Group<'_>, graph: &HeapGraph, tree: &DominatorTree, objects: &[ObjectIx]) -> Packed<()> {
    put::<Int64Type>(group, objects.iter().map(|object| graph.address(*object) as i64))?;
    put::<Int32Type>(group, objects.iter().map(|object| graph.type_ix(*object).0 as i32))?;
    put::<Int64Type>(group, objects.iter().map(|object| graph.bytes(*object) as i64))?;
    put::<Int64Type>(group, objects.iter().map(|object| tree.retained(tree.node(*object)) as i64))
}

type Group<'a> = SerializedRowGroupWriter<'a, Buffer>;

/// The next column of a group.
fn put<T: DataType>(group: &mut Group<'_>, values: impl Iterator<Item = T::T>) -> Packed<()> {
    let values: Vec<T::T> = values.collect();
    // Every table puts as many columns as its schema has.
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    column.typed::<T>().write_batch(&values, None, None)?;
    column.close()
}

fn text(text: &str) -> ByteArray {
    ByteArray::from(text)
}

/// Iterates over items in groups.
struct Groups<I>(I);

impl<I: Iterator> Iterator for Groups<I> {
    type Item = Vec<I::Item>;

    fn next(&mut self) -> Option<Vec<I::Item>> {
        let group: Vec<I::Item> = self.0.by_ref().take(GROUP).collect();
        (!group.is_empty()).then_some(group)
    }
}

/// The file being written. The Parquet writer requires an output that is `Send`; ours need not be, so it gets the bytes after each group.
struct File<'a> {
    writer: SerializedFileWriter<Buffer>,
    buffer: Buffer,
    out: &'a mut dyn Write,
}

impl<'a> File<'a> {
    fn begin(schema: &str, out: &'a mut dyn Write) -> io::Result<File<'a>> {
        let schema = parse_message_type(schema).map_err(io::Error::other)?;
        let mut properties = WriterProperties::builder()
            .set_created_by(format!("remora {}", env!("CARGO_PKG_VERSION")))
            .set_compression(Compression::UNCOMPRESSED);
        for column in schema.get_fields() {
            let is_number = column.get_physical_type() != parquet::basic::Type::BYTE_ARRAY;
            let path = parquet::schema::types::ColumnPath::from(column.name());
            properties = properties.set_column_dictionary_enabled(path.clone(), !is_number);
            if is_number {
                properties = properties.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
            }
        }
        let buffer = Buffer::default();
        let writer = SerializedFileWriter::new(buffer.clone(), Arc::new(schema), Arc::new(properties.build()));
        Ok(File { writer: writer.map_err(io::Error::other)?, buffer, out })
    }

    fn group(&mut self, put: impl FnOnce(&mut Group<'_>) -> Packed<()>) -> io::Result<()> {
        let mut group = self.writer.next_row_group().map_err(io::Error::other)?;
        put(&mut group).and_then(|()| group.close().map(|_| ())).map_err(io::Error::other)?;
        self.buffer.give(self.out)
    }

    fn end(self) -> io::Result<()> {
        self.writer.close().map_err(io::Error::other)?;
        self.buffer.give(self.out)
    }
}

/// Bytes not passed on yet.
#[derive(Debug, Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Buffer {
    fn give(&self, out: &mut dyn Write) -> io::Result<()> {
        let bytes = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        out.write_all(&bytes)
    }
}

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
