//! Composes the name of a method from its metadata: declaring type, demangled identifier, arguments, parameters.

use crate::argument::{ARGUMENT_DEPTH, TypeArgument};
use crate::generated::{Generated, generated, split_arity};
use crate::image::ManagedImage;
use crate::member::{Member, Shape};
use crate::metadata::{Metadata, Table, row_of};
use crate::name::{MethodKind, MethodName, NamePart};
use crate::parameter::parameter_texts;
use crate::pdb::PortablePdb;
use crate::signature::{Arguments, MethodSignature, method_signature};
use crate::types::{Namespaces, method_identifier};

/// Maximum number of state machines around each other (an async lambda in an iterator ...).
const MACHINE_DEPTH: u32 = 8;

const SPECIAL_NAME: u32 = 0x0800;

impl ManagedImage {
    /// The name of the method with a MethodDef token, for one instantiation; `None` if there is no such method.
    ///
    /// Missing arguments are shown as the names of their parameters. `class_arguments` has those of enclosing types first.
    pub fn method_name(
        &self,
        token: u32,
        class_arguments: &[TypeArgument],
        method_arguments: &[TypeArgument],
    ) -> Option<MethodName> {
        let row = self.method_row(token)?;
        let metadata = &self.metadata;
        let declaring = metadata.declaring_type(row)?;
        let texts = |rows, arguments| metadata.argument_texts(rows, arguments, ARGUMENT_DEPTH, Namespaces::Left);
        let class = texts(metadata.type_parameters(declaring), class_arguments);
        let method = texts(metadata.method_parameters(row), method_arguments);
        Method { metadata, pdb: self.pdb(), row, declaring, class: &class, method: &method }.name(MACHINE_DEPTH)
    }

    /// The name of the type with a TypeDef token, with its namespace and those of its arguments. State machines of overloads share one.
    pub fn type_name(&self, token: u32, arguments: &[TypeArgument]) -> Option<String> {
        let row = row_of(token, Table::TypeDef)?;
        let raw = self.metadata.type_def(row)?;
        let parameters = self.metadata.type_parameters(row);
        let arguments = self.metadata.argument_texts(parameters, arguments, ARGUMENT_DEPTH, Namespaces::Kept);
        let types = raw.name_parts(&arguments);
        Some(MethodName { namespace: raw.namespace, types, ..MethodName::default() }.type_name())
    }
}

/// A method and its generic arguments.
struct Method<'a> {
    metadata: &'a Metadata,
    pdb: Option<&'a PortablePdb>,
    row: u32,
    declaring: u32,
    class: &'a [String],
    method: &'a [String],
}

impl Method<'_> {
    fn name(&self, depth: u32) -> Option<MethodName> {
        let chain = self.metadata.type_def_chain(self.declaring);
        let identifier = self.metadata.text(Table::MethodDef, self.row, 3)?;
        let type_identifier = self.metadata.text(Table::TypeDef, self.declaring, 1)?;
        let enclosing = chain.iter().rev().nth(1).copied();
        match (generated(split_arity(&type_identifier).0), enclosing) {
            (Some(Generated::StateMachine { method }), Some(enclosing)) => {
                self.in_state_machine(&identifier, enclosing, method, depth)
            }
            (Some(Generated::Closure { method_number }), Some(enclosing)) if identifier.starts_with('<') => {
                let home = self.outside_closures(&chain).unwrap_or(enclosing);
                self.in_type(&identifier, home, method_number)
            }
            _ => self.in_type(&identifier, self.declaring, None),
        }
    }

    /// The innermost type of the chain except closures.
    fn outside_closures(&self, chain: &[u32]) -> Option<u32> {
        chain.iter().rev().copied().find(|&row| {
            let identifier = self.metadata.text(Table::TypeDef, row, 1).unwrap_or_default();
            !matches!(generated(split_arity(&identifier).0), Some(Generated::Closure { .. }))
        })
    }

    /// A method of a state machine: its MoveNext is the method in the source, and its other methods belong to that method.
    fn in_state_machine(&self, identifier: &str, enclosing: u32, written: &str, depth: u32) -> Option<MethodName> {
        let depth = depth.checked_sub(1)?;
        let metadata = self.metadata;
        let outer_count = metadata.type_parameters(enclosing).len().min(self.class.len());
        let (class, method) = self.class.split_at(outer_count);
        let kickoff =
            metadata.kickoff_method(enclosing, written, self.declaring).or_else(|| self.kickoff_by_pdb(enclosing));
        let mut name = match kickoff {
            Some(row) => Method { metadata, pdb: self.pdb, row, declaring: enclosing, class, method }.name(depth)?,
            None => {
                let raw = metadata.type_def(enclosing)?;
                let part = NamePart { name: method_identifier(&written.replace('-', ".")), arguments: method.to_vec() };
                MethodName {
                    types: raw.name_parts(class),
                    namespace: raw.namespace,
                    method: part,
                    ..MethodName::default()
                }
            }
        };
        if identifier == "MoveNext" {
            let is_async = !metadata.methods_called(self.declaring, "SetStateMachine").is_empty();
            name.kind = if is_async { MethodKind::Async } else { MethodKind::Iterator };
            return Some(name);
        }
        let own = self.in_type(identifier, self.declaring, None)?;
        let started = std::mem::replace(&mut name.method, own.method);
        name.within.push(started);
        name.parameters = own.parameters;
        name.kind = MethodKind::Ordinary;
        Some(name)
    }

    /// The kickoff method from the PDB, for metadata stripped of attributes.
    fn kickoff_by_pdb(&self, enclosing: u32) -> Option<u32> {
        let move_next = *self.metadata.methods_called(self.declaring, "MoveNext").first()?;
        let token = self.pdb?.kickoff_method((Table::MethodDef as u32) << 24 | move_next)?;
        row_of(token, Table::MethodDef).filter(|&row| self.metadata.declaring_type(row) == Some(enclosing))
    }

    /// Names a method as a member of `home`: its declaring type or, for a method of a closure, the type around it.
    fn in_type(&self, identifier: &str, home: u32, closure_number: Option<&str>) -> Option<MethodName> {
        let raw = self.metadata.type_def(home)?;
        let home_count = self.metadata.type_parameters(home).len().min(self.class.len());
        let (class, captured) = self.class.split_at(home_count);
        let types = raw.name_parts(class);
        let mut name = MethodName { namespace: raw.namespace, types, ..MethodName::default() };
        let arguments = Arguments { class: self.class, method: self.method };
        let signature = method_signature(self.metadata, self.row, arguments);
        name.parameters = signature.as_ref().map(|signature| parameter_texts(self.metadata, self.row, signature));
        // A closure repeats the generic parameters of the method that contains it.
        let written_in = || captured.iter().chain(self.method).cloned().collect();
        match generated(identifier) {
            Some(Generated::Lambda { method, method_number, number }) => {
                name.within.push(NamePart { name: method_identifier(method), arguments: written_in() });
                name.method.name = match method_number.or(closure_number) {
                    // Each overload counts its lambdas from 0: the method's own number distinguishes them.
                    Some(of) if self.metadata.methods_called(home, method).len() > 1 => format!("lambda#{of}.{number}"),
                    _ => format!("lambda#{number}"),
                };
                name.kind = MethodKind::Lambda;
            }
            Some(Generated::LocalFunction { method, name: local }) => {
                let (outer, own) = self.split_local_arguments(home, method, written_in());
                name.within.push(NamePart { name: method_identifier(method), arguments: outer });
                name.method = NamePart { name: local.to_owned(), arguments: own };
                name.kind = MethodKind::LocalFunction;
            }
            Some(_) => name.method.name = method_identifier(identifier),
            None => self.member(identifier, signature.as_ref(), &mut name),
        }
        Some(name)
    }

    /// Splits generic arguments between a local function and the method that contains it.
    fn split_local_arguments(&self, home: u32, method: &str, arguments: Vec<String>) -> (Vec<String>, Vec<String>) {
        let outer = self.metadata.methods_called(home, method);
        let counts: Vec<usize> = outer.iter().map(|&row| self.metadata.method_parameters(row).len()).collect();
        match counts[..] {
            [first, ref rest @ ..] if rest.iter().all(|&count| count == first) && first <= arguments.len() => {
                let own = arguments[first..].to_vec();
                (arguments[..first].to_vec(), own)
            }
            _ => (Vec::new(), arguments),
        }
    }

    /// An ordinary member, accessor, operator or explicit interface implementation.
    fn member(&self, identifier: &str, signature: Option<&MethodSignature>, name: &mut MethodName) {
        let special = self.metadata.cell(Table::MethodDef, self.row, 2).unwrap_or(0) & SPECIAL_NAME != 0;
        let member = Member::parse(identifier, special);
        let member = Member { interface: member.interface.map(|text| self.with_arguments(&text)), ..member };
        name.method = NamePart { name: member.text(), arguments: self.method.to_vec() };
        match &member.shape {
            Shape::Accessor { property, accessor } => {
                let init_only = signature.is_some_and(|signature| signature.init_only);
                let accessor = if init_only { "init" } else { accessor };
                let mut indexes = name.parameters.take().unwrap_or_default();
                if accessor != "get" {
                    indexes.pop();
                }
                name.method.name = member.prefixed(&if indexes.is_empty() {
                    format!("{property}.{accessor}")
                } else {
                    format!("this[{}].{accessor}", indexes.join(", "))
                });
            }
            Shape::Conversion(words) => {
                let result = signature.map_or("?", |signature| &signature.result);
                name.method.name = member.prefixed(&format!("{words} {result}"));
            }
            Shape::Method(_) | Shape::Operator(_) => {}
        }
    }

    /// The name of an explicitly implemented interface spells generic parameters: replaces them by their arguments.
    fn with_arguments(&self, interface: &str) -> String {
        let parameters = self.metadata.type_parameters(self.declaring);
        let names: Vec<_> = parameters.filter_map(|row| self.metadata.text(Table::GenericParam, row, 3)).collect();
        let mut text = String::with_capacity(interface.len());
        for piece in interface.split_inclusive(['<', '>', ',', ' ', '[', ']', '(', ')', '?', '*']) {
            let word = piece.trim_end_matches(['<', '>', ',', ' ', '[', ']', '(', ')', '?', '*']);
            let known = names.iter().position(|name| name == word).and_then(|index| self.class.get(index));
            text.push_str(known.map_or(word, String::as_str));
            text.push_str(&piece[word.len()..]);
        }
        text
    }
}
