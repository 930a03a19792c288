//! A managed module, parsed from the bytes of its file.

use crate::debug_file::is_file_name;
use crate::error::SymbolError;
use crate::inflate::inflated;
use crate::lock_calls::LockCalls;
use crate::metadata::{Guid, Metadata, Table, row_of};
use crate::pdb::PortablePdb;
use crate::pe::{CodeView, EMBEDDED_PDB_LIMIT, PortableExecutable};
use crate::target_path::TargetPath;
use std::fmt;

/// A managed module: its metadata, and its PDB.
///
/// Parsing copies the metadata (not the code) and reads its header; everything else is decoded on demand.
pub struct ManagedImage {
    pub(crate) metadata: Metadata,
    code_view: Option<CodeView>,
    embedded_pdb: Option<(usize, Box<[u8]>)>,
    pdb: Option<PortablePdb>,
    lock_calls: LockCalls,
}

impl ManagedImage {
    /// Parses a module's file.
    pub fn parse(bytes: impl AsRef<[u8]>) -> Result<ManagedImage, SymbolError> {
        let file = PortableExecutable::parse(bytes.as_ref())?;
        let metadata = Metadata::parse(file.metadata()?.into()).ok_or(SymbolError::Damaged { what: "metadata" })?;
        let embedded_pdb = file.embedded_pdb().map(|(size, packed)| (size, packed.into()));
        let code_view = file.code_view();
        Ok(ManagedImage { metadata, code_view, embedded_pdb, pdb: None, lock_calls: LockCalls::default() })
    }

    /// The module's id, different for each compilation: it identifies the loaded file.
    pub fn mvid(&self) -> Option<Guid> {
        self.metadata.guid(Table::Module, 1, 2)
    }

    /// The module's own name: `System.Private.CoreLib.dll`.
    pub fn module_name(&self) -> Option<String> {
        Some(self.metadata.text(Table::Module, 1, 1)?.into_owned())
    }

    /// The assembly's simple name; `None` for a module without an assembly.
    pub fn assembly_name(&self) -> Option<String> {
        Some(self.metadata.text(Table::Assembly, 1, 7)?.into_owned())
    }

    /// The tokens of all methods.
    pub fn method_tokens(&self) -> impl Iterator<Item = u32> + use<> {
        (1..=self.metadata.rows(Table::MethodDef)).map(|row| (Table::MethodDef as u32) << 24 | row)
    }

    /// The identity of the module's PDB, if it was built with one.
    pub fn code_view(&self) -> Option<&CodeView> {
        self.code_view.as_ref()
    }

    /// Uses the embedded PDB; `false` if there is none.
    pub fn use_embedded_pdb(&mut self) -> Result<bool, SymbolError> {
        let Some(unpacked) = self.embedded_pdb() else { return Ok(false) };
        self.use_pdb(unpacked?)?;
        Ok(true)
    }

    /// Uses a PDB; refuses one of another build.
    pub fn use_pdb(&mut self, bytes: impl AsRef<[u8]>) -> Result<(), SymbolError> {
        let expected = self.code_view.as_ref().ok_or(SymbolError::PdbMismatch)?;
        self.pdb = Some(PortablePdb::parse(bytes, expected)?);
        Ok(())
    }

    /// The PDB in use.
    pub fn pdb(&self) -> Option<&PortablePdb> {
        self.pdb.as_ref()
    }

    /// The unpacked embedded PDB; `None` if there is none.
    fn embedded_pdb(&self) -> Option<Result<Vec<u8>, SymbolError>> {
        let (size, packed) = self.embedded_pdb.as_ref()?;
        if *size > EMBEDDED_PDB_LIMIT {
            return Some(Err(SymbolError::PdbTooLarge));
        }
        Some(inflated(packed, *size as u64).ok_or(SymbolError::Damaged { what: "embedded PDB" }))
    }

    /// Possible paths of the PDB, best first: beside the module, by the module's name and by the one in CodeView.
    pub fn pdb_paths(&self, module: &TargetPath) -> Vec<TargetPath> {
        let folder = module.parent().unwrap_or_default();
        self.pdb_file_names(module).iter().map(|name| folder.join(name)).collect()
    }

    /// Possible paths of the PDB in a directory with symbols, best first: as in a symbol store, and by its names.
    pub fn pdb_names(&self, module: &TargetPath) -> Vec<String> {
        let Some(view) = &self.code_view else { return Vec::new() };
        let id: String = view.guid.to_string().split('-').collect();
        let names = self.pdb_file_names(module);
        let in_store = names.iter().map(|name| {
            let name = name.to_lowercase();
            format!("{name}/{id}FFFFFFFF/{name}")
        });
        in_store.chain(names.iter().cloned()).collect()
    }

    fn pdb_file_names(&self, module: &TargetPath) -> Vec<String> {
        let file = module.file_name();
        let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
        let mut names = vec![format!("{stem}.pdb")];
        if let Some(name) = self.code_view.as_ref().and_then(|view| view.path.rsplit(['/', '\\']).next())
            && is_file_name(name)
            && names[0] != name
        {
            names.push(name.to_owned());
        }
        names
    }

    /// Finds the `lock` statements in `bytes`, the module's file.
    pub fn find_locks(&mut self, bytes: &[u8]) {
        if let Ok(file) = PortableExecutable::parse(bytes) {
            self.lock_calls = LockCalls::of(&file, &self.metadata);
        }
    }

    /// Whether the statement at an IL offset of a method enters a `lock`: `false` before [`ManagedImage::find_locks`], and without a PDB,
    /// which has the extent of the statement.
    pub fn enters_lock(&self, method_token: u32, il_offset: u32) -> bool {
        let row = row_of(method_token, Table::MethodDef);
        let statement = row.and_then(|row| Some((row, self.pdb()?.statement(row, il_offset)?)));
        statement.is_some_and(|(row, (from, to))| self.lock_calls.has(row, from, to))
    }

    /// The row of a method's token, if it exists.
    pub(crate) fn method_row(&self, token: u32) -> Option<u32> {
        row_of(token, Table::MethodDef).filter(|&row| row <= self.metadata.rows(Table::MethodDef))
    }
}

impl fmt::Debug for ManagedImage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ManagedImage({:?}, {:?})", self.module_name(), self.mvid())
    }
}
