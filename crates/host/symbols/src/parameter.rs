//! A method's parameters in C# notation. The metadata stores `ref`, `in`, `out` and `params` outside the signature.

use crate::metadata::{Metadata, Table};
use crate::signature::MethodSignature;

const IN: u32 = 0x1;
const OUT: u32 = 0x2;

/// The texts between the parentheses of a method, one for each parameter.
///
/// Leaves out the parameters that a compiler adds to pass captured variables to a local function.
pub(crate) fn parameter_texts(metadata: &Metadata, method: u32, signature: &MethodSignature) -> Vec<String> {
    let appended = signature.parameters.iter().rev().take_while(|parameter| parameter.closure).count();
    let shown = &signature.parameters[..signature.parameters.len() - appended];
    let row_of = |index| {
        metadata.parameters_of(method).find(|&row| metadata.cell(Table::Param, row, 1) == Some(index as u32 + 1))
    };
    let text = |(index, parameter): (usize, &crate::signature::Parameter)| {
        let prefix = match (parameter.by_reference, row_of(index)) {
            (true, Some(row)) => reference_keyword(metadata, row),
            (true, None) => "ref ",
            (false, Some(row)) if index + 1 == shown.len() && is_params(metadata, row) => "params ",
            (false, _) => "",
        };
        format!("{prefix}{}", parameter.text)
    };
    let mut texts: Vec<String> = shown.iter().enumerate().map(text).collect();
    if signature.variable_arguments {
        texts.push("__arglist".to_owned());
    }
    texts
}

fn reference_keyword(metadata: &Metadata, row: u32) -> &'static str {
    let flags = metadata.cell(Table::Param, row, 0).unwrap_or(0);
    match (flags & IN != 0, flags & OUT != 0) {
        (false, true) => "out ",
        (true, false) if has_attribute(metadata, row, b"IsReadOnlyAttribute") => "in ",
        (true, false) if has_attribute(metadata, row, b"RequiresLocationAttribute") => "ref readonly ",
        _ => "ref ",
    }
}

fn is_params(metadata: &Metadata, row: u32) -> bool {
    has_attribute(metadata, row, b"ParamArrayAttribute") || has_attribute(metadata, row, b"ParamCollectionAttribute")
}

fn has_attribute(metadata: &Metadata, row: u32, class: &[u8]) -> bool {
    // In a HasCustomAttribute index, tag 4 is the Param table.
    metadata.has_attribute(row << 5 | 4, class)
}
