//! Reads the table of the profiling API and checks its consistency. `crates/target/corprof/abi/README.md` describes its layout.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

/// The files with interfaces; each becomes one module of `sys`.
pub const GROUPS: [&str; 4] = ["objects", "callback", "info", "metadata"];

/// The file with the interfaces that only the model of the runtime has.
pub const HOSTING: &str = "hosting";

/// The whole table.
#[derive(Default)]
pub struct Table {
    pub scalars: Vec<(String, String)>,
    pub structs: Vec<(String, Vec<Field>)>,
    pub functions: Vec<Function>,
    pub enums: Vec<Enum>,
    pub interfaces: Vec<Interface>,
    pub callbacks: Vec<SafeCallback>,
    pub parameters: Vec<(String, String)>,
    pub lists: Vec<List>,
}

/// A list of slots with a common property.
pub struct List {
    pub name: String,
    pub sentence: String,
    pub slots: Vec<String>,
}

/// A Rust type and its name.
pub struct Field {
    pub ty: String,
    pub name: String,
}

/// A function that one side passes to the other.
pub struct Function {
    pub name: String,
    pub fields: Vec<Field>,
    pub returns: Option<String>,
}

/// An enum or a set of flags.
pub struct Enum {
    pub name: String,
    pub ty: String,
    pub members: Vec<(String, String)>,
}

/// One COM interface.
pub struct Interface {
    pub group: &'static str,
    pub name: String,
    pub base: Option<String>,
    pub iid: String,
    pub since: Option<String>,
    pub first: usize,
    pub last: usize,
    pub methods: Vec<Method>,
}

/// One slot.
pub struct Method {
    pub slot: usize,
    pub name: String,
    pub returns: String,
    pub params: Vec<Param>,
}

/// The direction of a parameter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    In,
    Out,
}

/// One parameter, as declared in C.
pub struct Param {
    pub way: Way,
    pub constant: bool,
    pub ty: String,
    pub stars: usize,
    pub name: String,
    /// For arrays: the parameter with the length; `0` for a zero-terminated array.
    pub count: Option<String>,
}

/// A callback in the safe layer: name, return type and meaning.
pub struct SafeCallback {
    pub method: String,
    pub name: String,
    pub answer: String,
    pub sentence: String,
}

impl Table {
    /// Reads and checks the table in `folder`.
    pub fn read(folder: &Path) -> Result<Table, String> {
        let mut table = Table::default();
        each_line(folder, "types.txt", |line| table.add_type(line))?;
        each_line(folder, "constants.txt", |line| table.add_constant(line))?;
        for group in GROUPS.into_iter().chain([HOSTING]) {
            each_line(folder, &format!("{group}.txt"), |line| table.add_interface(group, line))?;
        }
        each_line(folder, "callback-names.txt", |line| table.add_name(line))?;
        each_line(folder, "lists.txt", |line| table.add_list(line))?;
        table.check()?;
        Ok(table)
    }

    fn add_type(&mut self, line: &str) -> Option<()> {
        let (kind, rest) = line.split_once(' ')?;
        match kind {
            "scalar" => {
                let (name, ty) = rest.split_once(' ')?;
                self.scalars.push((name.to_owned(), ty.to_owned()));
            }
            "struct" => {
                let (name, rest) = rest.split_once('(')?;
                self.structs.push((name.to_owned(), fields(rest.strip_suffix(')')?)?));
            }
            "function" => {
                let (name, rest) = rest.split_once('(')?;
                let (inner, returns) = rest.rsplit_once(')')?;
                let returns = returns.trim().strip_prefix("-> ").map(str::to_owned);
                self.functions.push(Function { name: name.to_owned(), fields: fields(inner)?, returns });
            }
            _ => return None,
        }
        Some(())
    }

    fn add_constant(&mut self, line: &str) -> Option<()> {
        if let Some(rest) = line.strip_prefix("enum ") {
            let mut words = rest.split(' ');
            let (name, ty) = (words.next()?.to_owned(), words.next()?.to_owned());
            self.enums.push(Enum {
                name,
                ty,
                members: vec![(words.next().unwrap_or_default().to_owned(), String::new())],
            });
            return Some(());
        }
        let (name, value) = line.split_once(' ')?;
        let members = &mut self.enums.last_mut()?.members;
        let full = format!("{}{name}", members.first()?.0);
        members.push((full, value.to_owned()));
        Some(())
    }

    fn add_interface(&mut self, group: &'static str, line: &str) -> Option<()> {
        let (word, rest) = line.split_once(' ')?;
        if word == "interface" {
            let (name, base) =
                rest.split_once(" : ").map_or((rest, None), |(name, base)| (name, Some(base.to_owned())));
            self.interfaces.push(Interface {
                group,
                name: name.to_owned(),
                base,
                iid: String::new(),
                since: None,
                first: 0,
                last: 0,
                methods: Vec::new(),
            });
            return Some(());
        }
        let interface = self.interfaces.last_mut()?;
        match word {
            "iid" => interface.iid = rest.to_owned(),
            "since" => interface.since = Some(rest.to_owned()),
            "slots" => {
                let (first, last) = rest.split_once("..")?;
                (interface.first, interface.last) = (first.parse().ok()?, last.parse().ok()?);
            }
            slot => interface.methods.push(method(slot.parse().ok()?, rest)?),
        }
        Some(())
    }

    fn add_name(&mut self, line: &str) -> Option<()> {
        if let Some(rest) = line.strip_prefix("param ") {
            let (raw, safe) = rest.split_once(' ')?;
            self.parameters.push((raw.to_owned(), safe.to_owned()));
            return Some(());
        }
        let [method, name, answer, sentence]: [&str; 4] =
            line.split('|').map(str::trim).collect::<Vec<_>>().try_into().ok()?;
        self.callbacks.push(SafeCallback {
            method: method.to_owned(),
            name: name.to_owned(),
            answer: answer.to_owned(),
            sentence: sentence.to_owned(),
        });
        Some(())
    }

    fn add_list(&mut self, line: &str) -> Option<()> {
        match line.strip_prefix("list ") {
            Some(head) => {
                let (name, sentence) = head.split_once(' ')?;
                self.lists.push(List { name: name.to_owned(), sentence: sentence.to_owned(), slots: Vec::new() });
            }
            None => self.lists.last_mut()?.slots.push(line.to_owned()),
        }
        Some(())
    }

    /// The interfaces of a group, in their order.
    pub fn group(&self, group: &str) -> impl Iterator<Item = &Interface> {
        self.interfaces.iter().filter(move |one| one.group == group)
    }

    /// The slots of a group.
    pub fn methods(&self, group: &str) -> impl Iterator<Item = &Method> {
        self.group(group).flat_map(|one| &one.methods)
    }

    /// The interface of that name.
    pub fn interface(&self, name: &str) -> Result<&Interface, String> {
        self.interfaces
            .iter()
            .find(|interface| interface.name == name)
            .ok_or_else(|| format!("unknown interface {name}"))
    }

    /// Whether `name` is the type of a function.
    pub fn is_function(&self, name: &str) -> bool {
        self.functions.iter().any(|function| function.name == name)
    }

    fn check(&self) -> Result<(), String> {
        let mut bases = HashSet::new();
        let mut iids = HashSet::new();
        for interface in &self.interfaces {
            self.check_slots(interface)?;
            if !iids.insert(&interface.iid) {
                return Err(format!("{}: its iid is taken", interface.name));
            }
            if let Some(base) = interface.base.as_ref().filter(|base| *base != "IUnknown")
                && !bases.insert(base)
            {
                return Err(format!("{base} has two heirs: inheritance is not linear"));
            }
            for param in interface.methods.iter().flat_map(|method| &method.params) {
                self.check_type(&param.ty).map_err(|error| format!("{}: {error}", interface.name))?;
            }
        }
        Ok(())
    }

    fn check_slots(&self, interface: &Interface) -> Result<(), String> {
        let expected = match &interface.base {
            Some(base) => self.interface(base)?.last + 1,
            None => 0,
        };
        if interface.first != expected {
            return Err(format!("{}: begins at slot {} instead of {expected}", interface.name, interface.first));
        }
        let declared: Vec<usize> = interface.methods.iter().map(|method| method.slot).collect();
        if declared != (interface.first..=interface.last).collect::<Vec<_>>() {
            return Err(format!(
                "{}: slots {declared:?} are not {}..{}",
                interface.name, interface.first, interface.last
            ));
        }
        Ok(())
    }

    fn check_type(&self, ty: &str) -> Result<(), String> {
        let known = ty == "void"
            || ty == "GUID"
            || self.scalars.iter().any(|(name, _)| name == ty)
            || self.structs.iter().any(|(name, _)| name == ty)
            || self.enums.iter().any(|one| one.name == ty)
            || self.interfaces.iter().any(|one| one.name == ty)
            || self.is_function(ty);
        if known { Ok(()) } else { Err(format!("unknown type {ty}")) }
    }
}

fn each_line(folder: &Path, file: &str, mut take: impl FnMut(&str) -> Option<()>) -> Result<(), String> {
    let path = folder.join(file);
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    for (number, line) in text.lines().enumerate() {
        if !line.is_empty() && !line.starts_with('#') {
            take(line).ok_or_else(|| format!("{}:{}: not understood: {line}", path.display(), number + 1))?;
        }
    }
    Ok(())
}

fn fields(text: &str) -> Option<Vec<Field>> {
    let field = |part: &str| {
        let (ty, name) = part.trim().rsplit_once(' ')?;
        Some(Field { ty: ty.to_owned(), name: name.to_owned() })
    };
    text.split(", ").map(field).collect()
}

fn method(slot: usize, text: &str) -> Option<Method> {
    let (name, rest) = text.split_once('(')?;
    let (inner, returns) = rest.rsplit_once(')')?;
    let params = if inner.is_empty() { Vec::new() } else { inner.split(", ").map(param).collect::<Option<_>>()? };
    let returns = returns.trim().strip_prefix("-> ").unwrap_or("HRESULT").to_owned();
    Some(Method { slot, name: name.to_owned(), returns, params })
}

fn param(text: &str) -> Option<Param> {
    let mut words: Vec<&str> = text.split(' ').collect();
    let name = words.pop()?;
    let spelled = words.pop()?;
    let way = if words.first()? == &"in" { Way::In } else { Way::Out };
    let (name, count) = match name.split_once('[') {
        Some((name, count)) => (name, Some(count.strip_suffix(']')?.to_owned())),
        None => (name, None),
    };
    let ty = spelled.trim_end_matches('*');
    let stars = spelled.len() - ty.len();
    Some(Param { way, constant: words.contains(&"const"), ty: ty.to_owned(), stars, name: name.to_owned(), count })
}
