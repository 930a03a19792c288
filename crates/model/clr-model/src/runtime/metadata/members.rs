//! The properties of fields, methods, parameters, properties and events.

use super::Scope;
use super::codes::NOT_FOUND;
use super::rows::{EVENTS, FIELDS, METHODS, Owners, PARAMETERS, PROPERTIES, Rows};
use crate::runtime::answers::{answer, answer_list, wanted, write_answers};
use crate::runtime::metadata_contents::Row;
use crate::runtime::metadata_contents::tokens::{
    CONSTANT, EVENT, FIELD, METHOD, PARAMETER, PROPERTY, SEMANTICS, row_of,
};
use corprof::{HResult, sys};
use remora_clr_abi::Answer;
use remora_clr_abi::metadata::args;
use std::ptr::{null, null_mut};

/// What a method is to its property or event (source: corhdr.h, CorMethodSemanticsAttr).
const SETTER: u32 = 0x1;
const GETTER: u32 = 0x2;
const OTHER: u32 = 0x4;
const ADDER: u32 = 0x8;
const REMOVER: u32 = 0x10;
const FIRER: u32 = 0x20;

/// The places for a constant: its type, its bytes, and its length in characters.
struct ConstantPlaces {
    kind: *mut u32,
    value: *mut sys::UVCP_CONSTANT,
    length: *mut u32,
}

/// The methods of a property or an event with a role.
fn accessors(rows: &Rows, association: u32, role: u32) -> Vec<u32> {
    let of = rows.of_kind(SEMANTICS).filter(|(_, row)| row.number(2) == association && row.number(0) == role);
    of.map(|(_, row)| row.number(1)).collect()
}

/// The last one; an invalid method if there is none.
fn accessor(rows: &Rows, association: u32, role: u32) -> u32 {
    accessors(rows, association, role).last().copied().unwrap_or(METHOD)
}

/// The type of a property or an event.
fn class_of(rows: &Rows, owners: Owners, token: u32) -> u32 {
    let map = rows.owner(owners, token);
    rows.row(map & 0xFF00_0000, map).map_or(0, |map| map.number(0))
}

impl Scope {
    /// The constant of a token. A length is that of a text, and written only with its value.
    ///
    /// # Safety
    /// The places are null or valid.
    unsafe fn write_constant(&self, rows: &Rows, token: u32, places: &ConstantPlaces) {
        let found = rows.with(CONSTANT, 1, token);
        let kind = found.map_or(sys::ELEMENT_TYPE_VOID, |row| row.number(0));
        let mut length = 0;
        match found {
            Some(row) if wanted(places.value) => {
                // SAFETY: the caller guarantees null or a valid place.
                unsafe { self.write_blob(row.blob(2), places.value, null_mut()) };
                if kind == sys::ELEMENT_TYPE_STRING {
                    length = row.blob(2).len() as u32 / 2;
                }
            }
            // SAFETY: the caller guarantees null or a valid place.
            _ => unsafe { answer(places.value, null()) },
        }
        write_answers! { places.kind => kind, places.length => length }
    }

    /// The class of a method without a type is an invalid token.
    ///
    /// # Safety
    /// The profiler's arguments: pointers are null or valid, and the name has the stated room.
    pub(super) unsafe fn method_props(&self, args: args::GetMethodProps) -> Answer {
        let rows = self.rows()?;
        let method = rows.row(METHOD, args.mb)?;
        write_answers! {
            args.pClass => rows.class_of(METHODS, args.mb),
            args.pdwAttr => method.number(2),
            args.pulCodeRVA => method.number(0),
            args.pdwImplFlags => method.number(1),
        }
        // SAFETY: the caller guarantees the places.
        unsafe { self.write_blob(method.blob(4), args.ppvSigBlob, args.pcbSigBlob) };
        // SAFETY: the caller guarantees the room.
        Ok(unsafe { self.name(method.text(3), (args.szMethod, args.cchMethod), args.pchMethod) })
    }

    /// # Safety
    /// As for [`Scope::method_props`].
    pub(super) unsafe fn field_props(&self, args: args::GetFieldProps) -> Answer {
        let rows = self.rows()?;
        let field = rows.row(FIELD, args.mb)?;
        write_answers! { args.pClass => rows.class_of(FIELDS, args.mb), args.pdwAttr => field.number(0) }
        let constant = ConstantPlaces { kind: args.pdwCPlusTypeFlag, value: args.ppValue, length: args.pcchValue };
        // SAFETY: the caller guarantees the places.
        unsafe { self.write_blob(field.blob(2), args.ppvSigBlob, args.pcbSigBlob) };
        // SAFETY: the caller guarantees the places.
        unsafe { self.write_constant(&rows, args.mb, &constant) };
        // SAFETY: the caller guarantees the room.
        Ok(unsafe { self.name(field.text(1), (args.szField, args.cchField), args.pchField) })
    }

    /// # Safety
    /// As for [`Scope::method_props`].
    pub(super) unsafe fn parameter_props(&self, args: args::GetParamProps) -> Answer {
        let rows = self.rows()?;
        let parameter = rows.row(PARAMETER, args.tk)?;
        write_answers! {
            args.pmd => rows.owner(PARAMETERS, args.tk),
            args.pulSequence => parameter.number(1),
            args.pdwAttr => parameter.number(0),
        }
        let constant = ConstantPlaces { kind: args.pdwCPlusTypeFlag, value: args.ppValue, length: args.pcchValue };
        // SAFETY: the caller guarantees the places.
        unsafe { self.write_constant(&rows, args.tk, &constant) };
        // SAFETY: the caller guarantees the room.
        Ok(unsafe { self.name(parameter.text(2), (args.szName, args.cchName), args.pchName) })
    }

    /// # Safety
    /// As for [`Scope::method_props`].
    pub(super) unsafe fn property_props(&self, args: args::GetPropertyProps) -> Answer {
        let rows = self.rows()?;
        let property = rows.row(PROPERTY, args.prop)?;
        write_answers! {
            args.pClass => class_of(&rows, PROPERTIES, args.prop),
            args.pdwPropFlags => property.number(0),
            args.pmdSetter => accessor(&rows, args.prop, SETTER),
            args.pmdGetter => accessor(&rows, args.prop, GETTER),
        }
        let constant =
            ConstantPlaces { kind: args.pdwCPlusTypeFlag, value: args.ppDefaultValue, length: args.pcchDefaultValue };
        let others = accessors(&rows, args.prop, OTHER);
        // SAFETY: the caller guarantees the places.
        unsafe { self.write_blob(property.blob(2), args.ppvSig, args.pbSig) };
        // SAFETY: the caller guarantees the places.
        unsafe { self.write_constant(&rows, args.prop, &constant) };
        // SAFETY: the caller guarantees the room.
        unsafe { answer_list(&others, args.cMax, args.pcOtherMethod, args.rmdOtherMethod) }?;
        // SAFETY: the caller guarantees the room.
        Ok(unsafe { self.name(property.text(1), (args.szProperty, args.cchProperty), args.pchProperty) })
    }

    /// # Safety
    /// As for [`Scope::method_props`].
    pub(super) unsafe fn event_props(&self, args: args::GetEventProps) -> Answer {
        let rows = self.rows()?;
        let event = rows.row(EVENT, args.ev)?;
        write_answers! {
            args.pClass => class_of(&rows, EVENTS, args.ev),
            args.pdwEventFlags => event.number(0),
            args.ptkEventType => event.number(2),
            args.pmdAddOn => accessor(&rows, args.ev, ADDER),
            args.pmdRemoveOn => accessor(&rows, args.ev, REMOVER),
            args.pmdFire => accessor(&rows, args.ev, FIRER),
        }
        let others = accessors(&rows, args.ev, OTHER);
        // SAFETY: the caller guarantees the room.
        unsafe { answer_list(&others, args.cMax, args.pcOtherMethod, args.rmdOtherMethod) }?;
        // SAFETY: the caller guarantees the room.
        Ok(unsafe { self.name(event.text(1), (args.szEvent, args.cchEvent), args.pchEvent) })
    }

    /// # Safety
    /// As for [`Scope::method_props`].
    pub(super) unsafe fn parameter_at(&self, args: args::GetParamForMethodIndex) -> Answer {
        let rows = self.rows()?;
        let of_method = rows.owned(PARAMETERS, args.md).ok_or(super::codes::NO_ROW)?;
        let is_it = |token: &u32| rows.row(PARAMETER, *token).is_ok_and(|row| row.number(1) == args.ulParamSeq);
        let found = of_method.into_iter().find(is_it).ok_or(NOT_FOUND)?;
        write_answers! { args.ppd => found }
        Ok(HResult::S_OK)
    }

    /// # Safety
    /// As for [`Scope::method_props`].
    pub(super) unsafe fn role_of(&self, args: args::GetMethodSemantics) -> Answer {
        let rows = self.rows()?;
        let is_it = |row: &Row| row.number(1) == args.mb && row.number(2) == args.tkEventProp;
        let role = rows.of_kind(SEMANTICS).find(|(_, row)| is_it(row)).map(|(_, row)| row.number(0));
        write_answers! { args.pdwSemanticsFlags => role.unwrap_or(0) }
        role.map(|_| HResult::S_OK).ok_or(NOT_FOUND)
    }
}

/// The properties and events of which a method is an accessor.
pub(super) fn associations(rows: &Rows, method: u32) -> Vec<u32> {
    let of = rows.of_kind(SEMANTICS).filter(|(_, row)| row.number(1) == method);
    of.map(|(_, row)| row.number(2)).filter(|association| row_of(*association) != 0).collect()
}
