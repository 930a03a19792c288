//! Custom attributes and interfaces.

use super::Scope;
use super::rows::{METHODS, Rows};
use crate::runtime::answers::answered;
use crate::runtime::info::text;
use crate::runtime::metadata_contents::Row;
use crate::runtime::metadata_contents::tokens::{
    ATTRIBUTE, IMPLEMENTED, MEMBER_REFERENCE, METHOD, TYPE, TYPE_REFERENCE, kind_of, row_of,
};
use corprof::HResult;
use remora_clr_abi::Answer;
use remora_clr_abi::metadata::args;

/// The attributes of a row, of one constructor if given. An invalid token means all, whatever the constructor.
pub(super) fn attributes(rows: &Rows, parent: u32, constructor: u32) -> Vec<u32> {
    if row_of(parent) == 0 {
        return rows.tokens(ATTRIBUTE);
    }
    let mut found = rows.tokens_with(ATTRIBUTE, 0, parent);
    let is_of = |row: &Row| row_of(constructor) == 0 || row.number(1) == constructor;
    found.retain(|token| rows.row(ATTRIBUTE, *token).is_ok_and(is_of));
    found
}

/// The name of the type whose constructor it is.
fn name_of_type(rows: &Rows, constructor: u32) -> Option<String> {
    let class = match kind_of(constructor) {
        METHOD => rows.owner(METHODS, constructor),
        MEMBER_REFERENCE => rows.row(MEMBER_REFERENCE, constructor).ok()?.number(0),
        _ => constructor,
    };
    let is_named = [TYPE, TYPE_REFERENCE].contains(&kind_of(class));
    rows.row(kind_of(class), class).ok().filter(|_| is_named).map(Rows::type_name)
}

impl Scope {
    /// # Safety
    /// The profiler's arguments: pointers are null or valid.
    pub(super) unsafe fn attribute_props(&self, args: args::GetCustomAttributeProps) -> Answer {
        let rows = self.rows()?;
        let row = rows.row(ATTRIBUTE, args.cv)?;
        // SAFETY: the caller guarantees the places.
        unsafe { self.write_blob(row.blob(2), args.ppBlob, args.pcbSize) };
        answered! { args.ptkObj => row.number(0), args.ptkType => row.number(1) }
    }

    /// The first attribute of a row whose type has this name. Without one, nothing is written.
    ///
    /// # Safety
    /// The profiler's arguments: pointers are null or valid, and the name ends with a zero.
    pub(super) unsafe fn attribute_by_name(&self, args: args::GetCustomAttributeByName) -> Answer {
        // SAFETY: the caller guarantees the final zero.
        let name = unsafe { text(args.szName) };
        let rows = self.rows()?;
        let is_it =
            |row: &Row| row.number(0) == args.tkObj && name_of_type(&rows, row.number(1)).as_ref() == Some(&name);
        let Some((_, row)) = rows.of_kind(ATTRIBUTE).find(|(_, row)| is_it(row)) else { return Ok(HResult::S_FALSE) };
        // SAFETY: the caller guarantees the places.
        unsafe { self.write_blob(row.blob(2), args.ppData, args.pcbData) };
        Ok(HResult::S_OK)
    }

    /// # Safety
    /// The profiler's arguments: pointers are null or valid.
    pub(super) unsafe fn interface_props(&self, args: args::GetInterfaceImplProps) -> Answer {
        let rows = self.rows()?;
        let row = rows.row(IMPLEMENTED, args.iiImpl)?;
        answered! { args.pClass => row.number(0), args.ptkIface => row.number(1) }
    }
}
