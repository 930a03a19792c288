//! Searches by name, and the properties of types and references.

use super::Scope;
use super::codes::{BAD_INPUT, CORRUPT, NO_ROW, NOT_FOUND, WRONG_KIND};
use super::names::answer_type_name;
use super::rows::{FIELDS, METHODS, Owners, Rows};
use crate::runtime::answers::{answer_list, answered, wanted, write_answers};
use crate::runtime::info::{bytes, invalid_if, refuse_if, text};
use crate::runtime::metadata_contents::Row;
use crate::runtime::metadata_contents::tokens::{
    CONSTRAINT, FIELD, MEMBER_REFERENCE, METHOD, METHOD_SPEC, NESTED, NO_TYPE, SIGNATURE, TEXT, TYPE, TYPE_PARAMETER,
    TYPE_REFERENCE, TYPE_SPEC, kind_of, row_of,
};
use corprof::{HResult, sys};
use remora_clr_abi::Answer;
use remora_clr_abi::metadata::args;

/// CLDB_S_TRUNCATION, a success (source: corerror.h).
const CUT: HResult = HResult(0x0013_1106);

/// A search for a member: its name, and its signature if given.
struct Wanted<'a> {
    name: String,
    signature: &'a [u8],
}

impl Wanted<'_> {
    /// # Safety
    /// The name is null or ends with a zero, the signature is null or has the stated length.
    unsafe fn of<'a>(name: *const sys::WCHAR, signature: *const u8, length: u32) -> Result<Wanted<'a>, HResult> {
        invalid_if(name.is_null())?;
        // SAFETY: the caller guarantees the final zero, and the length.
        Ok(unsafe { Wanted { name: text(name), signature: bytes(signature, length) } })
    }

    fn is(&self, name: &str, signature: &[u8]) -> bool {
        name == self.name && (self.signature.is_empty() || signature == self.signature)
    }

    /// The first such method or field of a type.
    fn member(&self, rows: &Rows, owners: Owners, class: u32) -> Option<u32> {
        let (kind, columns) = if owners.items() == METHOD { (METHOD, [3, 4]) } else { (FIELD, [1, 2]) };
        let is_it = |row: &Row| self.is(row.text(columns[0]), row.blob(columns[1]));
        let members = rows.members(owners, class).unwrap_or_default();
        members.into_iter().find(|token| rows.row(kind, *token).is_ok_and(is_it))
    }
}

/// The found token, or an invalid one with the code for that.
///
/// # Safety
/// `place` is null or valid.
unsafe fn found(token: Option<u32>, kind: u32, place: *mut u32) -> Answer {
    write_answers! { place => token.unwrap_or(kind) }
    token.map(|_| HResult::S_OK).ok_or(NOT_FOUND)
}

/// A name that may be missing.
///
/// # Safety
/// It is null or ends with a zero.
pub(super) unsafe fn name_at(name: *const sys::WCHAR) -> Option<String> {
    // SAFETY: not null, so the caller guarantees the final zero.
    (!name.is_null()).then(|| unsafe { text(name) })
}

/// The members of a type; only those of one name if it is given.
pub(super) fn members(rows: &Rows, owners: Owners, class: u32, name: Option<&str>) -> Option<Vec<u32>> {
    let mut all = rows.members(owners, class)?;
    if let Some(name) = name {
        let column = Rows::column_of_name(owners.items()).unwrap_or_default();
        all.retain(|token| rows.row(owners.items(), *token).is_ok_and(|row| row.text(column) == name));
    }
    Some(all)
}

/// Methods, then fields.
pub(super) fn all_members(rows: &Rows, class: u32, name: Option<&str>) -> Option<Vec<u32>> {
    let both = [METHODS, FIELDS].map(|owners| members(rows, owners, class, name));
    both.into_iter().flatten().reduce(|methods, fields| [methods, fields].concat())
}

/// Instances of a generic method; of all methods without one.
pub(super) fn method_specs(rows: &Rows, method: u32) -> Vec<u32> {
    if row_of(method) == 0 { rows.tokens(METHOD_SPEC) } else { rows.tokens_with(METHOD_SPEC, 0, method) }
}

impl Scope {
    /// # Safety
    /// The profiler's arguments: pointers are null or valid, names end with a zero, and buffers have the stated room. This holds for
    /// each method here.
    pub(super) unsafe fn find_method_of(&self, args: args::FindMethod) -> Answer {
        // SAFETY: the caller guarantees them.
        let wanted = unsafe { Wanted::of(args.szName, args.pvSigBlob, args.cbSigBlob) }?;
        // SAFETY: the caller guarantees the place.
        unsafe { found(wanted.member(&*self.rows()?, METHODS, args.td), METHOD, args.pmb) }
    }

    /// # Safety
    /// As for [`Scope::find_method_of`].
    pub(super) unsafe fn find_field_of(&self, args: args::FindField) -> Answer {
        // SAFETY: the caller guarantees them.
        let wanted = unsafe { Wanted::of(args.szName, args.pvSigBlob, args.cbSigBlob) }?;
        // SAFETY: the caller guarantees the place.
        unsafe { found(wanted.member(&*self.rows()?, FIELDS, args.td), FIELD, args.pmb) }
    }

    /// Methods come first. Without any member, the place gets an invalid field.
    ///
    /// # Safety
    /// As for [`Scope::find_method_of`].
    pub(super) unsafe fn find_member_of(&self, args: args::FindMember) -> Answer {
        // SAFETY: the caller guarantees them.
        let wanted = unsafe { Wanted::of(args.szName, args.pvSigBlob, args.cbSigBlob) }?;
        let rows = self.rows()?;
        let member = wanted.member(&rows, METHODS, args.td).or_else(|| wanted.member(&rows, FIELDS, args.td));
        // SAFETY: the caller guarantees the place.
        unsafe { found(member, FIELD, args.pmb) }
    }

    /// # Safety
    /// As for [`Scope::find_method_of`].
    pub(super) unsafe fn find_reference_to_member(&self, args: args::FindMemberRef) -> Answer {
        // SAFETY: the caller guarantees them.
        let wanted = unsafe { Wanted::of(args.szName, args.pvSigBlob, args.cbSigBlob) }?;
        let parent = if row_of(args.td) == 0 { NO_TYPE } else { args.td };
        let is_it = |row: &Row| row.number(0) == parent && wanted.is(row.text(1), row.blob(2));
        let rows = self.rows()?;
        let token = rows.of_kind(MEMBER_REFERENCE).find(|(_, row)| is_it(row)).map(|(token, _)| token);
        // SAFETY: the caller guarantees the place.
        unsafe { found(token, MEMBER_REFERENCE, args.pmr) }
    }

    /// # Safety
    /// As for [`Scope::find_method_of`].
    pub(super) unsafe fn find_type(&self, args: args::FindTypeDefByName) -> Answer {
        invalid_if(args.szTypeDef.is_null())?;
        // SAFETY: the caller guarantees the final zero.
        let name = unsafe { text(args.szTypeDef) };
        // SAFETY: the caller guarantees the place.
        unsafe { found(self.rows()?.type_called(&name, args.tkEnclosingClass), TYPE, args.ptd) }
    }

    /// # Safety
    /// As for [`Scope::find_method_of`].
    pub(super) unsafe fn find_reference_to_type(&self, args: args::FindTypeRef) -> Answer {
        // SAFETY: the caller guarantees the final zero.
        let name = unsafe { text(args.szName) };
        let rows = self.rows()?;
        let is_it = |row: &Row| row.number(0) == args.tkResolutionScope && Rows::type_name(row) == name;
        let token = rows.of_kind(TYPE_REFERENCE).find(|(_, row)| is_it(row)).map(|(token, _)| token);
        // SAFETY: the caller guarantees the place.
        unsafe { found(token, TYPE_REFERENCE, args.ptr) }
    }

    /// # Safety
    /// As for [`Scope::find_method_of`].
    pub(super) unsafe fn type_props(&self, args: args::GetTypeDefProps) -> Answer {
        let room = (args.szTypeDef, args.cchTypeDef);
        if kind_of(args.td) != TYPE {
            return Ok(HResult::S_FALSE);
        }
        if row_of(args.td) == 0 {
            write_answers! { args.pdwTypeDefFlags => 0, args.ptkExtends => TYPE_REFERENCE }
            // SAFETY: the caller guarantees the room. Without a name nothing is truncated.
            unsafe { answer_type_name("", room, args.pchTypeDef) };
            return Ok(HResult::S_OK);
        }
        let rows = self.rows()?;
        let class = rows.row(TYPE, args.td)?;
        let extends = class.number(3);
        // No base is stored as an invalid type, and returned as an invalid reference.
        let extends = if row_of(extends) == 0 { TYPE_REFERENCE } else { extends };
        write_answers! { args.pdwTypeDefFlags => class.number(0), args.ptkExtends => extends }
        // SAFETY: the caller guarantees the room.
        Ok(unsafe { answer_type_name(&Rows::type_name(class), room, args.pchTypeDef) })
    }

    /// # Safety
    /// As for [`Scope::find_method_of`].
    pub(super) unsafe fn type_reference_props(&self, args: args::GetTypeRefProps) -> Answer {
        let room = (args.szName, args.cchName);
        if kind_of(args.tr) != TYPE_REFERENCE {
            return Ok(HResult::S_FALSE);
        }
        if row_of(args.tr) == 0 {
            write_answers! { args.ptkResolutionScope => 0 }
            // SAFETY: the caller guarantees the room.
            unsafe { answer_type_name("", room, args.pchName) };
            return Ok(HResult::S_OK);
        }
        let rows = self.rows()?;
        let reference = rows.row(TYPE_REFERENCE, args.tr)?;
        write_answers! { args.ptkResolutionScope => reference.number(0) }
        // SAFETY: the caller guarantees the room.
        Ok(unsafe { answer_type_name(&Rows::type_name(reference), room, args.pchName) })
    }

    /// # Safety
    /// As for [`Scope::find_method_of`].
    pub(super) unsafe fn member_reference_props(&self, args: args::GetMemberRefProps) -> Answer {
        let rows = self.rows()?;
        let reference = rows.row(MEMBER_REFERENCE, args.mr)?;
        let parent = reference.number(0);
        write_answers! { args.ptk => if parent == NO_TYPE { TYPE } else { parent } }
        // SAFETY: the caller guarantees the places.
        unsafe { self.write_blob(reference.blob(2), args.ppvSigBlob, args.pbSig) };
        // SAFETY: the caller guarantees the room.
        Ok(unsafe { self.name(reference.text(1), (args.szMember, args.cchMember), args.pchMember) })
    }

    /// # Safety
    /// As for [`Scope::find_method_of`].
    pub(super) unsafe fn outer_type(&self, args: args::GetNestedClassProps) -> Answer {
        refuse_if(kind_of(args.tdNestedClass) != TYPE, WRONG_KIND)?;
        let rows = self.rows()?;
        let outer = rows.with(NESTED, 0, args.tdNestedClass).ok_or(NOT_FOUND)?;
        answered! { args.ptdEnclosingClass => outer.number(1) }
    }

    /// # Safety
    /// As for [`Scope::find_method_of`].
    pub(super) unsafe fn signature(&self, args: args::GetSigFromToken) -> Answer {
        let rows = self.rows()?;
        let row = rows.row(SIGNATURE, args.mdSig)?;
        // SAFETY: the caller guarantees the places.
        unsafe { self.write_blob(row.blob(0), args.ppvSig, args.pcbSig) };
        Ok(HResult::S_OK)
    }

    /// # Safety
    /// As for [`Scope::find_method_of`].
    pub(super) unsafe fn type_spec(&self, args: args::GetTypeSpecFromToken) -> Answer {
        let rows = self.rows()?;
        let row = rows.row(TYPE_SPEC, args.typespec)?;
        // SAFETY: the caller guarantees the places.
        unsafe { self.write_blob(row.blob(0), args.ppvSig, args.pcbSig) };
        Ok(HResult::S_OK)
    }

    /// # Safety
    /// As for [`Scope::find_method_of`].
    pub(super) unsafe fn method_spec_props(&self, args: args::GetMethodSpecProps) -> Answer {
        let rows = self.rows()?;
        let row = rows.row(METHOD_SPEC, args.mi)?;
        // SAFETY: the caller guarantees the places.
        unsafe { self.write_blob(row.blob(1), args.ppvSigBlob, args.pcbSigBlob) };
        answered! { args.tkParent => row.number(0) }
    }

    /// # Safety
    /// As for [`Scope::find_method_of`].
    pub(super) unsafe fn type_parameter_props(&self, args: args::GetGenericParamProps) -> Answer {
        refuse_if(kind_of(args.gp) != TYPE_PARAMETER || row_of(args.gp) == 0, BAD_INPUT)?;
        let rows = self.rows()?;
        let row = rows.row(TYPE_PARAMETER, args.gp)?;
        write_answers! {
            args.pulParamSeq => row.number(0),
            args.pdwParamFlags => row.number(1),
            args.ptOwner => row.number(2),
        }
        // SAFETY: the caller guarantees the room.
        Ok(unsafe { self.name(row.text(3), (args.wzname, args.cchName), args.pchName) })
    }

    /// # Safety
    /// As for [`Scope::find_method_of`].
    pub(super) unsafe fn constraint_props(&self, args: args::GetGenericParamConstraintProps) -> Answer {
        refuse_if(kind_of(args.gpc) != CONSTRAINT || row_of(args.gpc) == 0, BAD_INPUT)?;
        let rows = self.rows()?;
        let row = rows.row(CONSTRAINT, args.gpc)?;
        answered! { args.ptGenericParam => row.number(0), args.ptkConstraintType => row.number(1) }
    }

    /// A text of the program, without a final zero unless it is cut. Where none begins, the runtime finds the heap corrupt.
    ///
    /// # Safety
    /// As for [`Scope::find_method_of`].
    pub(super) unsafe fn user_string(&self, args: args::GetUserString) -> Answer {
        let rows = self.rows()?;
        refuse_if(!rows.has(TEXT | row_of(args.stk)), NO_ROW)?;
        let text = rows.texts.get(&row_of(args.stk)).ok_or(CORRUPT)?;
        let mut units: Vec<u16> = text.encode_utf16().collect();
        let length = units.len() as u32;
        let is_cut = wanted(args.szString) && args.cchString > 0 && args.cchString < length;
        if is_cut {
            units[args.cchString as usize - 1] = 0;
        }
        // SAFETY: the caller guarantees the room.
        unsafe { answer_list(&units, args.cchString, args.pchString, args.szString) }?;
        Ok(if is_cut { CUT } else { HResult::S_OK })
    }
}
