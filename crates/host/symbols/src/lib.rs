//! Resolves ids and addresses to names, files and lines: metadata, portable PDB, ELF.
//!
//! # Purpose
//! - [`ManagedImage`]: from a method token to the method's name in C# notation, and with its PDB to file and line.
//! - [`DeclaredEvent`]: the events that a type declares; and whether it has a finalizer.
//! - [`ElfImage`], [`parse_maps`], [`mapped_name`]: from a native address to a function, else module and the offset of the function, else
//!   `[unknown]`.
//! - [`UnwindRules`]: the unwind rules of a native module, for the walk in the signal handler.
//! - [`Bundle`]: locates the assemblies in a single-file application.
//! - [`demangle_raw`], [`short_type_name`], [`demangle_native`]: readable names if only a name is known.
//!
//! # Design constraints
//! The crate opens no file: the caller passes bytes. It never trusts them, and panics at none. A runtime library of ten megabytes opens in
//! a millisecond or two: tables are located, not decoded, and names are made on demand. Opening a native module sorts only two tables: its
//! symbols, and the bounds in its unwind table. A wrong name is worse than none: a PDB of another build is refused, and an address outside
//! every symbol has no name.
//!
//! # Display names of managed code
//! Types of parameters and generic arguments are written without namespace, the declaring type with it. Known generic arguments are shown,
//! otherwise the names of the generic parameters.
//!
//! | in the metadata | shown as |
//! |---|---|
//! | ``List`1.Add(!0)`` with `T` = `string` | `System.Collections.Generic.List<string>.Add(string)` |
//! | the same, shared code (`__Canon`) | `System.Collections.Generic.List<T>.Add(T)` |
//! | nested types `A+B` | `A.B` |
//! | ``Nullable`1``, ``ValueTuple`2``, `Int32&` | `int?`, `(int, string)`, `ref int` (`in`, `out`, `ref readonly`) |
//! | `.ctor`, `.cctor`, `Finalize` | unchanged (`Type..ctor(int)`), as in .NET stack traces |
//! | `get_Count`, `set_Count`, `add_Changed` | `Type.Count.get`, `Type.Count.set` (or `init`), `Type.Changed.add` |
//! | `get_Item(int)` | `Type.this[int].get` |
//! | `op_Addition`, `op_Implicit` | `Type.operator +(A, B)`, `Type.implicit operator string(A)` |
//! | `System.IDisposable.Dispose` (explicit implementation) | `Type.IDisposable.Dispose()` |
//! | `<Foo>d__5.MoveNext` (async, iterator) | `Type.Foo(int)`, the method in the source; [`MethodKind`] distinguishes them |
//! | other methods of `<Foo>d__5` | `Type.Foo.SetStateMachine(…)` |
//! | `<>c.<Main>b__0_1`, `<>c__DisplayClass0_0.<Main>b__1` | `Type.Main.lambda#1(int)` |
//! | the same, if `Main` is overloaded | `Type.Main.lambda#0.1(int)`: the compiler's number of the method, too |
//! | `<Main>g__Local\|0_1` | `Type.Main.Local(int)`, without the parameters that the compiler adds for captured variables |
//! | `<Main>$`, `<Program>$`, `<Main>` | `Program.Main(string[])` |
//! | ``<>f__AnonymousType0`2`` | `AnonymousType#0<Name, Size>` |
//! | `<File>F0123…__Hidden` (file-local type) | `Hidden` |
//! | a state machine as a type | `Type.Foo.StateMachine` |
//! | `<Clone>$`, `<>c` constructors, F# closures | unchanged |
//!
//! # Display names of native code
//!
//! | address | shown as |
//! |---|---|
//! | in a symbol | its readable name: `memcpy`, `shapes::Circle::area(double) const` |
//! | in a jump stub | `memcpy@plt` |
//! | in no symbol, but in an entry of `.eh_frame` | `libcoreclr.so+0x4b0200`: the start of that function, one name for all of it |
//! | elsewhere in a module | `libcoreclr.so+0x4b021c`: the address itself |
//! | in no module | `[unknown]` |
//!
//! Both offsets are addresses of the file, so `addr2line` accepts them. A part of a function that the compiler moved away (`.cold`) has an
//! entry, and so an offset, of its own.
//!
//! # Supported
//! PE files with ECMA-335 metadata, including precompiled (ReadyToRun) and edited ones; portable PDBs, embedded or not; 64-bit ELF.
//!
//! # Rejected
//! - Existing readers: `dotscope` (a deobfuscation framework), `clrmeta` (decodes everything), `dotnetdll` (GPL).
//!   Also `windows-metadata` (made for WinRT), and `symbolic-ppdb` (converts first; an alpha at the time of writing).
//! - Windows PDBs. `.gnu_debugdata`. Naming an address by the nearest symbol.
#![forbid(unsafe_code)]

mod argument;
mod brackets;
mod bundle;
mod bytes;
mod debug_file;
mod declared;
mod demangle;
mod elf;
mod elf_file;
mod elf_symbols;
mod error;
mod fields;
mod generated;
mod image;
mod inflate;
mod keyword;
mod lock_calls;
mod mapped;
mod maps;
mod member;
mod metadata;
mod name;
mod naming;
mod parameter;
mod pdb;
mod pe;
mod plt;
mod points;
mod signature;
mod state_machine;
mod statics;
mod target_path;
mod target_text;
mod types;
mod unwind;
mod unwind_rules;

pub use argument::TypeArgument;
pub use brackets::split_outside;
pub use bundle::{BUNDLE_MARK, BUNDLED_FILE_LIMIT, Bundle, BundledFile, list_of_bundle};
pub use bytes::Reader;
pub use declared::DeclaredEvent;
pub use demangle::{demangle_raw, native as demangle_native, short_type_name};
pub use elf::ElfImage;
pub use error::SymbolError;
pub use fields::{Declared, Field, FieldPlace, FieldType, Order, TypeNature, TypeReference};
pub use image::ManagedImage;
pub use keyword::{Primitive, il_keyword};
pub use mapped::{NativeName, UNKNOWN, mapped_name};
pub use maps::{MapEntry, Permissions, find_mapping, parse_maps};
pub use metadata::Guid;
pub use name::{LEFT_OUT, MethodKind, MethodName, NamePart, shortened};
pub use pdb::PortablePdb;
pub use pe::{CodeView, EMBEDDED_PDB_LIMIT};
pub use remora_wire::Foreign;
pub use statics::StaticFields;
pub use target_path::TargetPath;
pub use target_text::TargetText;
pub use unwind_rules::UnwindRules;
